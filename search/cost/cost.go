package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/schedule"
)

// Place is where the weights of a product are. Up to DRAM it is an index of core.Hierarchy's Latency and Line.
type Place int

// The places of weights, from near to far.
const (
	L2 Place = iota
	L3
	DRAM
	Shared // memory that all cores read at once, each its part of the weights
)

var places = append(core.Levels[:], "shared")

// String is the name of a place: "l2".
func (p Place) String() string { return places[p] }

// Alone is the place that a core would wait for if no other one read.
func (p Place) Alone() Place { return min(p, DRAM) }

// PlaceOf is the place of a name.
func PlaceOf(name string) (Place, error) {
	if i := slices.Index(places, name); i >= 0 {
		return Place(i), nil
	}
	return 0, fmt.Errorf("place %.40q: want one of %s", name, strings.Join(places, ", "))
}

// Estimate is how long a call of a kernel takes, for TypicalK elements of K, while a call follows the other.
type Estimate struct {
	Cycles   float64 // of a call; infinite if there are not enough registers
	Waits    float64 // of these, what it waits for memory
	Pipeline Pipeline
}

// Purpose is a use of a product that predictions are for: N activations, with the weights at a place.
type Purpose struct {
	N  int
	At Place
}

// String is "4 in dram".
func (x Purpose) String() string { return fmt.Sprintf("%d in %s", x.N, x.At) }

// MarshalJSON writes {"n":4,"mode":"dram"}, as the flags of commands say it.
func (x Purpose) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"n": x.N, "mode": x.At.String()})
}

// Blocks is the cycles of a product of n columns by a kernel of some columns, whose call takes some cycles if the weights are where they
// are, and others if they are near. Of several blocks, the first brings the weights near. A kernel of fewer columns does the last ones
// in a share of the time.
func Blocks(there, near float64, cols, n int) float64 {
	return there + float64(max(0, float64(n-cols)/float64(cols))*near)
}

// Of estimates a call of k by its selected code s, with the weights in a place.
func Of(ctx context.Context, k *schedule.Kernel, s *lower.Selected, at Place) Estimate {
	return Waiting(s.Machine.Core, k, s, Run(ctx, k, s), at)
}

// Waiting is the estimate of a call whose execution units take p, on a core with the memory of c.
func Waiting(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, at Place) Estimate {
	return Fitted.Waiting(c, k, s, p, at)
}

// Waiting is the function of that name by another model.
func (m Model) Waiting(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, at Place) Estimate {
	if math.IsInf(p.Cycles, 0) {
		return Estimate{Cycles: p.Cycles, Pipeline: p}
	}
	g := newProgram(k, s, p)
	room := newMemory(m, c, at.Alone())
	takes, works := g.run(room)
	rooms.Put(room)
	waits := max(0, takes-works) / g.share
	if at == Shared {
		waits = max(waits, Bringing(c, k, Shared)-p.Cycles)
	}
	return Estimate{p.Cycles + waits, waits, p}
}

// Product is the time for a purpose in cycles for each product of a weight and an activation.
func Product(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, x Purpose) float64 {
	return Fitted.Product(c, k, s, p, x)
}

// Product is the function of that name by another model.
func (m Model) Product(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, x Purpose) float64 {
	cycles := m.Waiting(c, k, s, p, x.At).Cycles
	near := cycles
	if x.At != L2 && x.N > k.Cols {
		near = m.Waiting(c, k, s, p, L2).Cycles
	}
	return Blocks(cycles, near, k.Cols, x.N) / float64(k.Rows*x.N*TypicalK)
}

// Report says where the cycles of a call of a kernel go, for K elements while a call follows the other. Its numbers are rounded to millionths.
type Report struct {
	Product string `json:"product"`
	Origin  string `json:"origin,omitempty"` // of the schedule, as the caller knows it
	Target  string `json:"target"`
	Core    string `json:"core"`    // whose model predicts
	Rows    int    `json:"rows"`    // of a call
	Columns int    `json:"columns"` // of a call
	K       int    `json:"k"`
	Refused string `json:"refused,omitempty"` // why there is no call; then all that follows is 0
	// Cycles is the time of the execution units. Each product of a weight and an activation has its share of it.
	Cycles          float64 `json:"cycles"`
	CyclesEach      float64 `json:"cycles_per_product"`
	Parts           []Part  `json:"parts,omitempty"`
	Waits           []Wait  `json:"waits,omitempty"`
	VectorRegisters int     `json:"vector_registers"`
	ScalarRegisters int     `json:"address_registers"`
}

// Part is code that runs as a whole: between two begins or ends of loops.
type Part struct {
	Loop         *int    `json:"loop"`   // the number of the innermost loop around; nil: none
	Times        float64 `json:"times"`  // that it runs in a call
	Cycles       float64 `json:"cycles"` // of one run
	Instructions int     `json:"instructions"`
	Bound        string  `json:"bound_by"`
}

// Wait is the time of a call with the weights in one place. Waiting is the part of its cycles that comes on top of the execution units' time.
type Wait struct {
	Mode       string  `json:"mode"`
	Waiting    float64 `json:"waiting"`
	Cycles     float64 `json:"cycles"`
	CyclesEach float64 `json:"cycles_per_product"`
}

// ReportOf is the report of k by its selected code s.
func ReportOf(ctx context.Context, k *schedule.Kernel, s *lower.Selected) Report {
	p := Run(ctx, k, s)
	r := Report{Product: k.Problem.Name(), Target: s.Machine.Name, Core: s.Machine.Core.Name, Rows: k.Rows, Columns: k.Cols, K: TypicalK}
	if p.Refused != nil {
		r.Refused = p.Refused.Error()
		return r
	}
	for _, x := range p.Stretches {
		if x.Instrs == 0 {
			continue
		}
		part := Part{Times: rounded(x.Times), Cycles: rounded(x.Cycles), Instructions: x.Instrs, Bound: x.Bound}
		if x.Loop != nil {
			part.Loop = &x.Loop.ID
		}
		r.Parts = append(r.Parts, part)
	}
	products := float64(k.Rows * k.Cols * TypicalK)
	r.Cycles, r.CyclesEach = rounded(p.Cycles), rounded(p.Cycles/products)
	for at := range Place(len(places)) {
		e := Waiting(s.Machine.Core, k, s, p, at)
		r.Waits = append(r.Waits, Wait{at.String(), rounded(e.Waits), rounded(e.Cycles), rounded(e.Cycles / products)})
	}
	r.VectorRegisters, r.ScalarRegisters = p.Vectors, p.Scalars
	return r
}

// rounded is x in whole millionths.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// String is a table, with a line for each part.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "a call of %d rows, %s and %d elements of K on %s\n", r.Rows, message.Count(r.Columns, "column"), r.K, r.Core)
	if r.Refused != "" {
		fmt.Fprintf(&b, "is impossible: %s\n", r.Refused)
		return b.String()
	}
	fmt.Fprintf(&b, "%10s %8s %8s  %s\n", "cycles", "times", "each", "bound by")
	for _, x := range r.Parts {
		where := "outside loops"
		if x.Loop != nil {
			where = fmt.Sprintf("loop l%d", *x.Loop)
		}
		fmt.Fprintf(&b, "%10.0f %8.0f %8.1f  %s (%s, %d instructions)\n", x.Cycles*x.Times, x.Times, x.Cycles, x.Bound, where, x.Instructions)
	}
	fmt.Fprintf(&b, "%10.0f %17s  execution units: %.4f for each product\n", r.Cycles, "", r.CyclesEach)
	for _, x := range r.Waits {
		fmt.Fprintf(&b, "%10.0f %17s  waiting for weights in %s: %.4f for each product in all\n", x.Waiting, "", x.Mode, x.CyclesEach)
	}
	fmt.Fprintf(&b, "registers: %d for vectors, %d for addresses\n", r.VectorRegisters, r.ScalarRegisters)
	return b.String()
}
