package build

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// Reasons are the decisions of a schedule, and what others would take.
type Reasons struct {
	Product   string         `json:"product"`
	Origin    string         `json:"origin"` // of the schedule, as the caller knows it
	Target    string         `json:"target"`
	Columns   int            `json:"columns"` // of the kernel
	Purposes  []cost.Purpose `json:"purposes"`
	Cycles    []float64      `json:"cycles"` // predicted for each product of a weight and an activation, for each purpose
	Decisions []Decision     `json:"decisions"`
}

// Decision is what a rule of the space decided, and what else it offers.
type Decision struct {
	Rule         string         `json:"rule"`
	Fastest      bool           `json:"fastest"` // by the model: no alternative that was tried takes less, on the geometric mean of the purposes
	Steps        schedule.Trace `json:"steps"`
	Alternatives []Alternative  `json:"alternatives"`
}

// Alternative is another decision of a rule.
type Alternative struct {
	Steps schedule.Trace `json:"steps"`
	// Ratios are the predicted time over that of the schedule, for each purpose. Later rules decide as in the schedule, as far as they can.
	Ratios  []float64 `json:"ratios,omitempty"`
	Refused string    `json:"refused,omitempty"` // why it has no prediction
}

// mean is the geometric mean of the ratios, infinite without a prediction.
func (a Alternative) mean() float64 {
	if len(a.Ratios) == 0 {
		return math.Inf(1)
	}
	sum := 0.0
	for _, r := range a.Ratios {
		sum += math.Log(r)
	}
	return math.Exp(sum / float64(len(a.Ratios)))
}

// Why says what the schedule among the stages of p decides. For at most `most` alternatives of each decision it predicts what n activations
// would take with the weights at each of some places; an empty ns stands for the columns of the kernel. The error says which rule of the space
// makes no such schedule, or why it does not compile for t, or is that of ctx.
func Why(ctx context.Context, p ir.Problem, stages []Stage, t lower.Target, ns []int, at []cost.Place, most int) (Reasons, error) {
	trace, err := traceOf(stages)
	if err != nil {
		return Reasons{}, err
	}
	sp, err := space.For(p, t)
	if err != nil {
		return Reasons{}, err
	}
	x, err := sp.Parse(trace)
	if err != nil {
		return Reasons{}, fmt.Errorf("the rules of the space do not make this schedule: %w", err)
	}
	k, err := sp.Kernel(x)
	if err != nil {
		return Reasons{}, err
	}
	out := Reasons{Product: p.Name(), Target: t.Machine().Name, Columns: k.Cols}
	if len(ns) == 0 {
		ns = []int{k.Cols}
	}
	for _, n := range ns {
		for _, place := range at {
			out.Purposes = append(out.Purposes, cost.Purpose{N: n, At: place})
		}
	}
	w := why{ctx, sp, t, out.Purposes}
	if out.Cycles, err = w.cycles(x); err != nil {
		return Reasons{}, err
	}
	for i, rule := range sp.Rules() {
		others := w.alternatives(sp.Options(x, i, most), i, out.Cycles)
		fastest := len(others) == 0 || others[0].mean() >= 1
		out.Decisions = append(out.Decisions, Decision{Rule: rule, Fastest: fastest, Steps: x[i], Alternatives: others})
	}
	return out, ctx.Err()
}

// why predicts points.
type why struct {
	ctx      context.Context
	space    *space.Space
	target   lower.Target
	purposes []cost.Purpose
}

// alternatives are the decisions of rule i in points, the fastest first, beside a schedule that takes own.
func (w why) alternatives(points []space.Point, i int, own []float64) []Alternative {
	out := make([]Alternative, len(points))
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for j, y := range points {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			a := Alternative{Steps: y[i]}
			cycles, err := w.cycles(y)
			if err != nil {
				a.Refused = err.Error()
			}
			for k, c := range cycles {
				a.Ratios = append(a.Ratios, c/own[k])
			}
			out[j] = a
		})
	}
	wg.Wait()
	slices.SortStableFunc(out, func(a, b Alternative) int { return cmp.Compare(a.mean(), b.mean()) })
	return out
}

// cycles are the predicted cycles of a point for a product of one weight and one activation, for each purpose.
func (w why) cycles(x space.Point) (out []float64, err error) {
	k, err := w.space.Kernel(x)
	if err != nil {
		return nil, err
	}
	return predicted(w.ctx, w.target, k, w.purposes)
}

// Predict is the predicted cycles of a schedule for a product of one weight and one activation, for each purpose. The error says why the
// schedule has no kernel on t, or is that of ctx.
func Predict(ctx context.Context, p ir.Problem, trace schedule.Trace, t lower.Target, purposes []cost.Purpose) ([]float64, error) {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return nil, err
	}
	return predicted(ctx, t, k, purposes)
}

// predicted is Predict for a kernel.
func predicted(ctx context.Context, t lower.Target, k *schedule.Kernel, purposes []cost.Purpose) (out []float64, err error) {
	s, err := cost.Select(ctx, t, k.Nest, cost.MostInstrs)
	if err != nil {
		return nil, err
	}
	p := cost.Run(ctx, k, s)
	if p.Refused != nil {
		return nil, p.Refused
	}
	for _, x := range purposes {
		out = append(out, cost.Product(s.Machine.Core, k, s, p, x))
	}
	return out, nil
}

// String is a table: a line for each decision, then one for each of its alternatives, with their ratios for each purpose.
func (r Reasons) String() string {
	var b strings.Builder
	indent := strings.Repeat(" ", 12*len(r.Purposes))
	for _, x := range r.Purposes {
		fmt.Fprintf(&b, "%12s", x)
	}
	fmt.Fprintf(&b, "  %s on %s, kernel of %d column%s\n", r.Product, r.Target, r.Columns, strings.Repeat("s", min(r.Columns-1, 1)))
	for _, c := range r.Cycles {
		fmt.Fprintf(&b, "%12.4f", c)
	}
	b.WriteString("  predicted cycles for a product of one weight and one activation\n")
	fmt.Fprintf(&b, "%s  schedule from %s; below, its decisions, and the times of alternatives over its times\n", indent, r.Origin)
	var alone []string
	for _, d := range r.Decisions {
		if len(d.Alternatives) == 0 {
			alone = append(alone, d.Rule)
			continue
		}
		d.write(&b, indent)
	}
	if len(alone) > 0 {
		fmt.Fprintf(&b, "%s  no alternative was found: %s\n", indent, strings.Join(alone, ", "))
	}
	return b.String()
}

// write writes the lines of d, where indent is as wide as the columns of purposes.
func (d Decision) write(b *strings.Builder, indent string) {
	by := "the fastest by the model"
	if !d.Fastest {
		by = "not for this model's sake"
	}
	fmt.Fprintf(b, "%s  %s: %s (%s)\n", indent, d.Rule, stepsText(d.Steps), by)
	for _, a := range d.Alternatives {
		for _, x := range a.Ratios {
			fmt.Fprintf(b, "%12.3f", x)
		}
		text := stepsText(a.Steps)
		if a.Refused != "" {
			fmt.Fprintf(b, "%*s", len(indent), "refused")
			text += ": " + a.Refused
		}
		fmt.Fprintf(b, "    %s\n", text)
	}
}

// stepsText is a decision in a line.
func stepsText(t schedule.Trace) string {
	if len(t) == 0 {
		return "nothing"
	}
	return t.String()
}
