package shaders

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/tune"
)

// Shape is a product that predictions are for: M rows, K elements of K and N activations, with the weights in memory.
type Shape struct {
	M int `json:"m"`
	K int `json:"k"`
	N int `json:"n"`
}

// String is "4096x14336x1", M, K and N.
func (s Shape) String() string { return fmt.Sprintf("%dx%dx%d", s.M, s.K, s.N) }

// shapesOf are the typical shapes, each with some numbers of activations.
func shapesOf(ns []int) (all []Shape) {
	for _, n := range ns {
		for _, x := range typical {
			all = append(all, Shape{M: x[0], K: x[1], N: n})
		}
	}
	return all
}

// explained is the schedule among the stages of p, on t.
func explained(p ir.Problem, stages []build.Stage, t spirv.Target) (schedule.Trace, *space.Space, error) {
	trace, err := build.TraceOf(stages)
	if err != nil {
		return nil, nil, err
	}
	tile := func(x schedule.Step) bool {
		t, ok := x.(schedule.Tensorize)
		return ok && t.Lanes > 0
	}
	if !slices.ContainsFunc(trace, tile) {
		sp, err := space.For(p, t)
		return trace, sp, err
	}
	speeds := t.Speeds()
	sp, err := space.ForTiles(p, t, speeds.Subgroup, speeds.Shapes)
	return trace, sp, err
}

// Why says what the schedule among the stages of p decides, as build.Why does for CPUs: it predicts products of typical shapes by n activations,
// by the speeds that t has. An empty ns stands for the columns of the kernel. The time of a product of one column has the preparation of its activations.
func Why(ctx context.Context, p ir.Problem, stages []build.Stage, t spirv.Target, ns []int, most int) (build.Reasons, error) {
	trace, sp, err := explained(p, stages, t)
	if err != nil {
		return build.Reasons{}, err
	}
	x, k, err := build.Parsed(sp, trace)
	if err != nil {
		return build.Reasons{}, err
	}
	if len(ns) == 0 {
		ns = []int{k.Cols}
	}
	out := build.Reasons{Product: p.Name(), Target: t.Machine().Name, Device: t.Speeds().String(), Columns: k.Cols}
	shapes := shapesOf(ns)
	for _, s := range shapes {
		out.Purposes = append(out.Purposes, s)
	}
	out.Ns, out.Decisions, err = build.Decisions(sp, x, most, func(k *schedule.Kernel) (all []float64, err error) {
		s, err := Select(ctx, t, k)
		if err != nil {
			return nil, err
		}
		var one *single
		if k.Cols == 1 && ruleOf(sp) >= 0 {
			if one, err = newSingle(ctx, t, k); err != nil {
				return nil, err
			}
		}
		for _, x := range shapes {
			purpose := tune.Purpose{M: x.M, K: x.K, N: x.N}
			if err := s.Refused(purpose); err != nil {
				return nil, err
			}
			if one != nil && x.N == 1 {
				all = append(all, one.time(x.M, x.K))
			} else {
				all = append(all, s.Estimate(purpose))
			}
		}
		return all, nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return out, err
}

// Refused says that the device cannot compute a product: a workgroup shares more memory than it may.
func (s *Selected) Refused(x tune.Purpose) error {
	if have := s.Times(x).Work.Shared; have > s.on.Shared {
		return fmt.Errorf("a workgroup shares %d bytes: %s has %d", have, s.on.Name, s.on.Shared)
	}
	return nil
}

// CostReport says where the time of products of typical shapes goes, by the schedule among the stages of p and the speeds that t has.
func CostReport(ctx context.Context, p ir.Problem, stages []build.Stage, t spirv.Target) (r Report, err error) {
	trace, err := build.TraceOf(stages)
	if err != nil {
		return r, err
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return r, err
	}
	s, err := Select(ctx, t, k)
	if err != nil {
		return r, err
	}
	var purposes []tune.Purpose
	for _, x := range shapesOf([]int{k.Cols}) {
		purposes = append(purposes, tune.Purpose{M: x.M, K: x.K, N: x.N})
	}
	return s.Report(t, purposes...)
}

// Report says where the time of products goes.
type Report struct {
	Product  string      `json:"product"`
	Origin   string      `json:"origin,omitempty"` // of the schedule, as the caller knows it
	Target   string      `json:"target"`
	Device   string      `json:"device"`  // whose speeds predict
	Columns  int         `json:"columns"` // of the kernel
	Products []Predicted `json:"products"`
	text     string
}

// Predicted is what the time of a product is made of, in ns. Memory, lines, compute and the chain go on side by side: the time is the root
// of the sum of their squares, and the launch and the start.
type Predicted struct {
	Shape
	Ns           float64 `json:"ns"` // in all
	Launch       float64 `json:"launch_ns"`
	Start        float64 `json:"start_ns"`
	Prepare      float64 `json:"prepare_ns"` // of activations, if workgroups do so themselves
	Memory       float64 `json:"memory_ns"`
	Lines        float64 `json:"lines_ns"`
	Compute      float64 `json:"compute_ns"` // instructions on words, dot products and matrices
	Instructions float64 `json:"instructions_ns"`
	Exchanged    float64 `json:"exchanged_ns"` // of the instructions
	Dots         float64 `json:"dots_ns"`
	Matrices     float64 `json:"matrices_ns"`
	Chain        float64 `json:"chain_ns"`
	Bytes        int     `json:"weight_bytes"`
	Groups       float64 `json:"workgroups"`
	Resident     float64 `json:"workgroups_at_once"` // on a processor
	Rounds       float64 `json:"rounds"`             // of workgroups that follow one another
}

// String is a table of times: a column for each product.
func (r Report) String() string { return r.text }

// Report says where the time of products on t goes, by the speeds that t has.
func (s *Selected) Report(t spirv.Target, purposes ...tune.Purpose) (r Report, err error) {
	r = Report{Product: s.Problem.Name(), Target: t.Machine().Name, Device: s.on.String(), Columns: s.Cols}
	var shapes []Shape
	var all []Times
	for _, p := range purposes {
		if err := s.Refused(p); err != nil {
			return Report{}, err
		}
		x, at := s.Times(p), Shape{M: p.M, K: p.K, N: p.N}
		shapes, all = append(shapes, at), append(all, x)
		r.Products = append(r.Products, Predicted{at, x.Total(), x.Launch, x.Start, x.Prepare, x.Memory, x.Lines, x.Compute, x.Instructions, x.Exchanged, x.Dots, x.Matrices,
			x.Chain, x.Bytes, x.Groups, x.Resident, x.Rounds})
	}
	r.text = s.report(s.Problem, t, shapes, all)
	return r, nil
}

// report is a table of times: a column for each shape.
func (s *Selected) report(p ir.Problem, t spirv.Target, shapes []Shape, all []Times) string {
	var b strings.Builder
	const width = 15
	for _, x := range shapes {
		fmt.Fprintf(&b, "%*s", width, x)
	}
	fmt.Fprintf(&b, "  %s on %s, kernel of %d column%s\n", p.Name(), t.Machine().Name, s.Cols, strings.Repeat("s", min(s.Cols-1, 1)))
	row := func(digits int, what string, of func(Times) float64) {
		for _, x := range all {
			fmt.Fprintf(&b, "%*.*f", width, digits, of(x))
		}
		fmt.Fprintf(&b, "  %s\n", what)
	}
	us := func(what string, of func(Times) float64) { row(2, what, func(t Times) float64 { return of(t) / 1e3 }) }
	us("microseconds in all, by the speeds of "+s.on.String(), Times.Total)
	us("the launch", func(t Times) float64 { return t.Launch })
	us("the start of reading", func(t Times) float64 { return t.Start })
	us("side by side: the root of the sum of the squares of these four", Times.Beside)
	us(fmt.Sprintf("  memory: weights at %v GB/s", s.on.Read), func(t Times) float64 { return t.Memory })
	us(fmt.Sprintf("  lines that loads and stores touch, %v*10^9/s", s.on.Lines), func(t Times) float64 { return t.Lines })
	us("  compute", func(t Times) float64 { return t.Compute })
	us(fmt.Sprintf("    instructions on words, %v*10^9/s", s.on.Instructions), func(t Times) float64 { return t.Instructions })
	us("      of these, lanes exchange what they have", func(t Times) float64 { return t.Exchanged })
	us(fmt.Sprintf("    dot products of words, %v*10^9/s", s.on.Dots), func(t Times) float64 { return t.Dots })
	if all[0].Work.Matrices > 0 {
		us(fmt.Sprintf("    cooperative matrices, %v*10^12/s", s.on.Matrices), func(t Times) float64 { return t.Matrices })
	}
	us(fmt.Sprintf("  chain: a lane's instructions, %v ns each, and loads, %v ns each", s.on.Step, s.on.Latency), func(t Times) float64 { return t.Chain })
	row(2, "MB of weights", func(t Times) float64 { return float64(t.Bytes) / 1e6 })
	row(0, "workgroups", func(t Times) float64 { return t.Groups })
	row(2, "rounds of workgroups: some follow others", func(t Times) float64 { return t.Rounds })
	row(0, "iterations of the loop", func(t Times) float64 { return float64(t.Work.Iterations) })
	row(0, "instructions of a lane in the loop", func(t Times) float64 { return t.Work.Looped })
	row(0, "instructions of a lane outside", func(t Times) float64 { return t.Work.Instructions + t.Work.Dots - t.Work.Looped })
	w, one := all[0].Work, all[0]
	ahead := ""
	if w.Ahead {
		ahead = ", an iteration ahead"
	}
	fmt.Fprintf(&b, "a workgroup: %d rows, %d lanes, %d bytes that they share; an iteration loads %d bytes of a lane%s\n", s.Rows, w.Lanes, w.Shared, w.Loaded, ahead)
	fmt.Fprintf(&b, "a processor: %.3g workgroups at once, bound by %s; a lane has about %.0f words of registers\n", one.Resident, s.bound(one), one.Words)
	return b.String()
}

// bound names what bounds the workgroups that a processor holds at once.
func (s *Selected) bound(t Times) string {
	lanes := float64(ceil(t.Work.Lanes, s.on.Subgroup) * s.on.Subgroup)
	switch byLanes, byWords := float64(s.on.Lanes)/lanes, float64(s.on.Words)/t.Words/lanes; {
	case t.Resident == float64(s.on.Groups):
		return fmt.Sprintf("its %d workgroups", s.on.Groups)
	case t.Resident == byLanes:
		return fmt.Sprintf("its %d lanes", s.on.Lanes)
	case t.Resident == byWords:
		return fmt.Sprintf("its %d words of registers", s.on.Words)
	}
	return "the size of one"
}
