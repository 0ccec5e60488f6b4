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
	Device    string         `json:"device,omitempty"` // of a shader: whose speeds predict
	Columns   int            `json:"columns"`          // of the kernel
	Purposes  []fmt.Stringer `json:"purposes"`
	Cycles    []float64      `json:"cycles,omitempty"` // of a kernel: predicted for each product of a weight and an activation, for each purpose
	Ns        []float64      `json:"ns,omitempty"`     // of a shader: predicted for the product that each purpose is, of one column with the preparation of its activations
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
	trace, err := TraceOf(stages)
	if err != nil {
		return Reasons{}, err
	}
	sp, err := space.For(p, t)
	if err != nil {
		return Reasons{}, err
	}
	x, k, err := Parsed(sp, trace)
	if err != nil {
		return Reasons{}, err
	}
	out := Reasons{Product: p.Name(), Target: t.Machine().Name, Columns: k.Cols}
	if len(ns) == 0 {
		ns = []int{k.Cols}
	}
	var purposes []cost.Purpose
	for _, n := range ns {
		for _, place := range at {
			purposes = append(purposes, cost.Purpose{N: n, At: place})
			out.Purposes = append(out.Purposes, cost.Purpose{N: n, At: place})
		}
	}
	out.Cycles, out.Decisions, err = Decisions(sp, x, most, func(k *schedule.Kernel) ([]float64, error) {
		return predicted(ctx, t, k, purposes)
	})
	return out, cmp.Or(err, ctx.Err())
}

// Parsed is the point of a schedule and its kernel. The error says which rule of the space makes no such schedule.
func Parsed(sp *space.Space, trace schedule.Trace) (space.Point, *schedule.Kernel, error) {
	x, err := sp.Parse(trace)
	if err != nil {
		return nil, nil, fmt.Errorf("the rules of the space do not make this schedule: %w", err)
	}
	k, err := sp.Kernel(x)
	return x, k, err
}

// Prediction is what a kernel takes for each of some purposes. The error says why it has no code.
type Prediction func(*schedule.Kernel) ([]float64, error)

// Decisions are the decisions of a point, with at most `most` alternatives of each, and what the point itself takes.
func Decisions(sp *space.Space, x space.Point, most int, of Prediction) (own []float64, all []Decision, err error) {
	w := why{sp, of}
	if own, err = w.predict(x); err != nil {
		return nil, nil, err
	}
	for i, rule := range sp.Rules() {
		others := w.alternatives(sp.Options(x, i, most), i, own)
		fastest := len(others) == 0 || others[0].mean() >= 1
		all = append(all, Decision{Rule: rule, Fastest: fastest, Steps: x[i], Alternatives: others})
	}
	return own, all, nil
}

// why predicts points.
type why struct {
	space *space.Space
	of    Prediction
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
			times, err := w.predict(y)
			if err != nil {
				a.Refused = err.Error()
			}
			for k, n := range times {
				a.Ratios = append(a.Ratios, n/own[k])
			}
			out[j] = a
		})
	}
	wg.Wait()
	slices.SortStableFunc(out, func(a, b Alternative) int { return cmp.Compare(a.mean(), b.mean()) })
	return out
}

// predict is what a point takes for each purpose.
func (w why) predict(x space.Point) ([]float64, error) {
	k, err := w.space.Kernel(x)
	if err != nil {
		return nil, err
	}
	return w.of(k)
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
	width := 12
	for _, x := range r.Purposes {
		width = max(width, 2+len(x.String()))
	}
	indent := strings.Repeat(" ", width*len(r.Purposes))
	for _, x := range r.Purposes {
		fmt.Fprintf(&b, "%*s", width, x)
	}
	fmt.Fprintf(&b, "  %s on %s, kernel of %d column%s\n", r.Product, r.Target, r.Columns, strings.Repeat("s", min(r.Columns-1, 1)))
	for _, c := range r.Cycles {
		fmt.Fprintf(&b, "%*.4f", width, c)
	}
	for _, ns := range r.Ns {
		fmt.Fprintf(&b, "%*.1f", width, ns/1e3)
	}
	if r.Device == "" {
		b.WriteString("  predicted cycles for a product of one weight and one activation\n")
	} else {
		fmt.Fprintf(&b, "  predicted microseconds for the product, of one column with what prepares its activations, by the speeds of %s\n", r.Device)
	}
	fmt.Fprintf(&b, "%s  schedule from %s; below, its decisions, and the times of alternatives over its times\n", indent, r.Origin)
	var alone []string
	for _, d := range r.Decisions {
		if len(d.Alternatives) == 0 {
			alone = append(alone, d.Rule)
			continue
		}
		d.write(&b, width, indent)
	}
	if len(alone) > 0 {
		fmt.Fprintf(&b, "%s  no alternative was found: %s\n", indent, strings.Join(alone, ", "))
	}
	return b.String()
}

// write writes the lines of d, where indent is as wide as the columns of purposes, which have some width each.
func (d Decision) write(b *strings.Builder, width int, indent string) {
	by := "the fastest by the model"
	if !d.Fastest {
		by = "others are faster by the model"
	}
	fmt.Fprintf(b, "%s  %s: %s (%s)\n", indent, d.Rule, stepsText(d.Steps), by)
	for _, a := range d.Alternatives {
		for _, x := range a.Ratios {
			fmt.Fprintf(b, "%*.3f", width, x)
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
