package measure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/timing"
)

// PeerRecord is one product by this compiler and by another system, timed in the
// same rounds on the same weights: a line of tmacc bench -peer -json. Both begin
// with float activations, which they quantize, and end with floats.
type PeerRecord struct {
	Type    string  `json:"type"`            // of GGUF, whose blocks both read
	Format  string  `json:"format"`          // what they are packed as
	Bits    float64 `json:"bits_per_weight"` // as packed, scales included
	Target  string  `json:"target"`          // without architecture
	Mode    string  `json:"mode"`            // dram, l3
	M       int     `json:"m"`               //
	K       int     `json:"k"`               //
	N       int     `json:"n"`               //
	Threads int     `json:"threads"`         //
	Tuned   bool    `json:"tuned,omitempty"` // by a lock, where it has schedules for the format
	Ours    Timed   `json:"ours"`
	Theirs  []Timed `json:"theirs"`                     // one for each type of buffer that can hold the weights
	Ratio   float64 `json:"ratio"`                      // of the fastest of theirs to ours, in time: above 1, ours is faster
	ReadGBS float64 `json:"read_gb_s,omitempty"`        // the best read bandwidth of that many threads, in mode dram
	PerByte float64 `json:"weights_per_byte,omitempty"` // by ours, of each byte that they read meanwhile, the median of the rounds
	Peer    string  `json:"peer"`                       // ggml 0.25.1
	Library string  `json:"library"`                    // the file of its backend
	Host    string  `json:"host"`                       //
	Commit  string  `json:"commit"`                     // that this compiler was built from, "" if unknown
	Date    string  `json:"date"`                       // 2026-11-21
}

// Timed is how long a product takes, and how far it is from that of exact
// activations: the root mean square of the error relative to that of the product.
type Timed struct {
	Buffer    string  `json:"buffer,omitempty"` // ggml's type of buffer
	Ns        float64 `json:"ns"`
	GWeightsS float64 `json:"gweights_s"` // multiply-accumulates per ns
	ActGroup  int     `json:"act_group"`  // activations that share a scale, 0: a row
	Error     float64 `json:"error"`
}

// Complete returns r with the figures that follow from its times.
func (r PeerRecord) Complete() PeerRecord {
	macs := float64(r.M) * float64(r.K) * float64(r.N)
	r.Ours.GWeightsS = over(macs, r.Ours.Ns)
	r.Theirs = slices.Clone(r.Theirs)
	for i := range r.Theirs {
		r.Theirs[i].GWeightsS = over(macs, r.Theirs[i].Ns)
	}
	if len(r.Theirs) > 0 {
		r.Ratio = over(r.Fastest().Ns, r.Ours.Ns)
	}
	return r
}

// Fastest is the fastest of theirs.
func (r PeerRecord) Fastest() Timed {
	return slices.MinFunc(r.Theirs, func(a, b Timed) int { return cmp.Compare(a.Ns, b.Ns) })
}

// Name is the type of the record, with "tuned" behind it if its schedules come from a lock.
func (r PeerRecord) Name() string {
	if r.Tuned {
		return r.Type + " tuned"
	}
	return r.Type
}

// TheirSpeeds returns the peer's speeds in Gweights/s: with weights as they are in the file, and the best one with
// repacked weights. A speed is 0 if there is none.
func (r PeerRecord) TheirSpeeds() (plain, repacked float64) {
	for i, t := range r.Theirs {
		if i == 0 {
			plain = t.GWeightsS
		} else {
			repacked = max(repacked, t.GWeightsS)
		}
	}
	return plain, repacked
}

// PeerLimit is a limit for the records of some types: docs/lab/ratios.json is a
// list of them.
type PeerLimit struct {
	Types   []string `json:"types"`
	Mode    string   `json:"mode,omitempty"` // "": any
	N       int      `json:"n"`
	Threads int      `json:"threads"`
	Ratio   float64  `json:"ratio,omitempty"`   // at least, of times
	Tuned   float64  `json:"tuned,omitempty"`   // Ratio of tuned records, 0: the same
	Scaling float64  `json:"scaling,omitempty"` // at least, of the gain by threads that reading memory has
}

// ParsePeerLimits reads a list of limits and refuses what format.UnmarshalStrict does and
// limits that ask for nothing.
func ParsePeerLimits(data []byte) ([]PeerLimit, error) {
	var limits []PeerLimit
	if err := format.UnmarshalStrict(data, &limits); err != nil {
		return nil, fmt.Errorf("ratios: %w", err)
	}
	for i, l := range limits {
		if len(l.Types) == 0 || l.N < 1 || l.Threads < 1 || (l.Ratio > 0) == (l.Scaling > 0) || l.Scaling > 0 && (l.Threads == 1 || l.Tuned > 0) {
			return nil, fmt.Errorf("ratios: limit %d: wants types, n, threads, and a ratio or, of several threads, a scaling", i)
		}
	}
	return limits, nil
}

// CheckPeer holds records against limits, in the order of the limits. Records of
// the same type, target, mode, N and threads, tuned or not, are rounds of one measurement,
// whose median counts. A limit without a record is left out.
func CheckPeer(limits []PeerLimit, records []PeerRecord) []Verdict {
	var out []Verdict
	for _, l := range limits {
		for _, typ := range l.Types {
			for _, of := range codesOf(records) {
				if v, ok := l.check(typ, of, records); ok {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// code is what records of a type are made by.
type code struct {
	target string
	tuned  bool
}

func codesOf(records []PeerRecord) []code {
	var out []code
	for _, r := range records {
		if c := (code{r.Target, r.Tuned}); !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// Asked is the ratio that l asks of r, 0 for none.
func (l PeerLimit) Asked(r PeerRecord) float64 {
	switch {
	case !slices.Contains(l.Types, r.Type) || l.N != r.N || l.Threads != r.Threads || l.Mode != "" && l.Mode != r.Mode:
		return 0
	case r.Tuned && l.Tuned > 0:
		return l.Tuned
	}
	return l.Ratio
}

// scaling is what a limit of a gain by threads is of.
type scaling struct {
	code
	typ, mode  string
	n, threads int
}

// Scaling is the verdict about what the threads of r gain, nil if there is none.
func Scaling(verdicts []Verdict, r PeerRecord) *Verdict {
	of := scaling{code{r.Target, r.Tuned}, r.Type, r.Mode, r.N, r.Threads}
	for i, v := range verdicts {
		if v.scaling != nil && *v.scaling == of {
			return &verdicts[i]
		}
	}
	return nil
}

func (l PeerLimit) check(typ string, of code, records []PeerRecord) (Verdict, bool) {
	var figures, alone []float64
	mode, asked := l.Mode, 0.0
	other := func(r PeerRecord) bool {
		return r.Type != typ || (code{r.Target, r.Tuned}) != of || r.N != l.N || l.Mode != "" && r.Mode != l.Mode
	}
	byRounds := !slices.ContainsFunc(records, func(r PeerRecord) bool { return !other(r) && r.PerByte == 0 })
	for _, r := range records {
		if other(r) {
			continue
		}
		perThread := over(r.Ours.GWeightsS, r.ReadGBS)
		if byRounds {
			perThread = r.PerByte
		}
		switch {
		case r.Threads == l.Threads && l.Ratio > 0:
			figures, asked = append(figures, r.Ratio), l.Asked(r)
		case r.Threads == l.Threads:
			figures = append(figures, perThread)
		case r.Threads == 1:
			alone = append(alone, perThread)
		}
		mode = r.Mode
	}
	v := Verdict{Target: of.target, Format: typ, Factor: 1, Limit: asked, Have: timing.Median(figures), Rounds: len(figures)}
	v.Rule = fmt.Sprintf("%s n=%d, threads %d, times as fast", mode, l.N, l.Threads)
	if l.Scaling > 0 {
		v.scaling = &scaling{of, typ, mode, l.N, l.Threads}
		v.Rule = fmt.Sprintf("%s n=%d, threads %d to 1, gain over that of reading", mode, l.N, l.Threads)
		if byRounds {
			v.Rule += " by rounds"
		}
		v.Limit, v.Have, v.Rounds = l.Scaling, over(v.Have, timing.Median(alone)), min(len(figures), len(alone))
	}
	if of.tuned {
		v.Rule += ", tuned"
	}
	v.Pass = v.Have >= v.Limit
	return v, v.Rounds > 0
}
