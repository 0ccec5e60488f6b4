package shaders

import (
	"math"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestTimes: the parts of a time make up the estimate, and parts are no more than what they are parts of.
func TestTimes(t *testing.T) {
	for _, x := range readTimed(t, drawn.Some(drawn.New(t), 2, []string{"w1", "w2", "w4", "w4-g32"})...) {
		for shape := range x.Ns {
			p := at{x.Product, shape}.purpose(t)
			a := x.selected.Times(p)
			if a.Total() != x.selected.Estimate(p) || a.Compute != a.Instructions+a.Dots+a.Matrices || a.Exchanged > a.Instructions {
				t.Errorf("%s %s: %+v", x.Product, x.Name, a)
			}
			if w := a.Work; w.Looped <= 0 || w.Looped > w.Instructions+w.Dots || w.Exchanged > w.Instructions {
				t.Errorf("%s %s: %+v", x.Product, x.Name, w)
			}
		}
	}
}

// shaderStages are a product's stages by its default schedule.
func shaderStages(t *testing.T, name string, on spirv.Target) (ir.Problem, []build.Stage) {
	t.Helper()
	p, err := ir.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	uses, err := Default(t.Context(), p, on)
	if err != nil {
		t.Fatal(err)
	}
	return p, build.Stages(p, uses[0].Trace, on)
}

// TestWhy: the decisions are the schedule. Alternatives are sorted by their times, which are the estimates of their schedules.
func TestWhy(t *testing.T) {
	on, _ := spirv.ByName("spirv")
	p, stages := shaderStages(t, drawn.Some(drawn.New(t), 1, format.Names())[0], on)
	r, err := Why(t.Context(), p, stages, on, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := build.TraceOf(stages)
	if err != nil {
		t.Fatal(err)
	}
	var all schedule.Trace
	for _, d := range r.Decisions {
		all = append(all, d.Steps...)
		last := 0.0
		for _, a := range d.Alternatives {
			mean := math.Inf(1)
			if a.Refused == "" {
				mean = a.Ratios[0] * a.Ratios[1] * a.Ratios[2]
			}
			if mean < last*(1-1e-9) || len(d.Alternatives) > 2 {
				t.Errorf("%s: %v of %v", d.Rule, mean, d.Alternatives)
			}
			last = mean
		}
	}
	if all.String() != trace.String() {
		t.Errorf("the decisions are %v, not %v", all, trace)
	}
	k, err := schedule.Compile(p, trace)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSingle(t.Context(), on, k)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range r.Purposes {
		x := x.(Shape)
		if have, want := r.Ns[i], min(s.fused(x.M, x.K), s.prepare.time(x.K)+s.plain.Estimate(tune.Purpose{M: x.M, K: x.K, N: 1})); have != want || x.N != 1 {
			t.Errorf("%v takes %v ns, want %v", x, have, want)
		}
	}
}

// TestWhyRefused: a schedule that no rule makes, and workgroups that share more than a device has.
func TestWhyRefused(t *testing.T) {
	on, _ := spirv.ByName("spirv/coop")
	h200, _ := spirv.SpeedsCalled("h200")
	tiles := readTrace(t, "w4.tiles16")
	p, _ := ir.Named("w4")
	small := h200
	small.Shared = 1 << 10
	for want, x := range map[string]struct {
		on    spirv.Target
		trace schedule.Trace
	}{
		"the rules of the space do not make this schedule: decompose": {on, schedule.Trace{schedule.Rfactor{Loop: "k"}}},
		"spirv/coop has no products of matrices of the shapes []":     {on, tiles},
	} {
		if _, err := Why(t.Context(), p, []build.Stage{{Value: x.trace}}, x.on, nil, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	want := "h200 has 1024"
	if _, err := CostReport(t.Context(), p, build.Stages(p, tiles, on), on.With(small)); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if r, err := CostReport(t.Context(), p, build.Stages(p, tiles, on), on.With(h200)); err != nil || !strings.Contains(r.String(), "cooperative matrices") {
		t.Errorf("%v: %v", err, r)
	}
}
