package tune

import (
	"math"
	"slices"
)

// StudyRun is a search without seeds, one line of a study's data.
type StudyRun struct {
	Format string `json:"format"`
	Method string `json:"method"`
	Seed   int64  `json:"seed"`
	Target string `json:"target"`
	CPU    string `json:"cpu"`
	Date   string `json:"date,omitempty"`   // of its beginning: 2026-11-21; "" if it was not recorded
	Commit string `json:"commit,omitempty"` // that tmacc was built from, "" if it is not known
	// Reference is the hash of the schedules that costs are of, "" in lines of before: see Tuner.DefaultHash.
	Reference string         `json:"reference,omitempty"`
	M         int            `json:"m"`
	N         int            `json:"n"`
	K         int            `json:"k"`
	Costs     []float64      `json:"costs"`     // of each trial, of its time to the default's; 0: it failed
	Best      float64        `json:"confirmed"` // that of the best, measured again at length
	Default   float64        `json:"default_ns"`
	Seconds   float64        `json:"seconds"`
	Dropped   map[string]int `json:"dropped"`
}

// BestSoFar is the least of the costs up to each, infinite before the first; 0 is none.
func BestSoFar(costs []float64) []float64 {
	best, out := math.Inf(1), []float64(nil)
	for _, c := range costs {
		if c > 0 {
			best = min(best, c)
		}
		out = append(out, best)
	}
	return out
}

// Reaches is the number of trials after which the best so far costs no more than limit, or one
// more than there are.
func (r *StudyRun) Reaches(limit float64) int {
	at := slices.IndexFunc(r.Costs, func(c float64) bool { return c > 0 && c <= limit })
	if at < 0 {
		at = len(r.Costs)
	}
	return at + 1
}

// Found is the least cost of a trial.
func (r *StudyRun) Found() float64 { return BestSoFar(r.Costs)[len(r.Costs)-1] }
