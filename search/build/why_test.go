package build_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// firstStages are a product's stages by the first schedule of its space with one column.
func firstStages(t *testing.T, p ir.Problem, on targets.Target) []build.Stage {
	t.Helper()
	sp, err := space.For(p, on)
	if err != nil {
		t.Fatal(err)
	}
	x, err := sp.Columns(1).Spare().First()
	if err != nil {
		t.Fatal(err)
	}
	return build.Stages(p, x.Trace(), on)
}

// The decisions are the schedule, alternatives are others, sorted, and more columns than activations take longer.
func TestWhy(t *testing.T) {
	p, err := ir.Named("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	on := targets.ByName("amd64/avx512vbmi")
	stages := firstStages(t, p, on)
	at := []cost.Place{cost.L2, cost.DRAM}
	r, err := build.Why(t.Context(), p, stages, on, nil, at, 3)
	if err != nil {
		t.Fatal(err)
	}
	if r.Columns != 1 || len(r.Purposes) != 2 || r.Purposes[1] != fmt.Stringer(cost.Purpose{N: 1, At: cost.DRAM}) || len(r.Cycles) != 2 || !(r.Cycles[0] > 0) || r.Cycles[1] < r.Cycles[0] {
		t.Errorf("%d columns, %v take %v cycles", r.Columns, r.Purposes, r.Cycles)
	}
	var all schedule.Trace
	for _, d := range r.Decisions {
		all = append(all, d.Steps...)
		last := 0.0
		for _, a := range d.Alternatives {
			if a.Steps.String() == d.Steps.String() || (len(a.Ratios) == 2) == (a.Refused != "") {
				t.Errorf("%s: alternative %v to %v with ratios %v, refused: %q", d.Rule, a.Steps, d.Steps, a.Ratios, a.Refused)
			}
			if a.Refused != "" {
				last = 1e9
				continue
			}
			product := a.Ratios[0] * a.Ratios[1]
			if product < last || d.Fastest && product < 1 {
				t.Errorf("%s: %v comes after %v, fastest: %v", d.Rule, product, last, d.Fastest)
			}
			if last = product; d.Rule == "columns" && a.Ratios[0] < 1.05 {
				t.Errorf("one activation by %v takes %v of the time", a.Steps, a.Ratios)
			}
		}
		if len(d.Alternatives) > 3 {
			t.Errorf("%s: %d alternatives", d.Rule, len(d.Alternatives))
		}
	}
	var trace schedule.Trace
	for _, s := range stages {
		if s.Name == build.TraceStage {
			trace = s.Value.(schedule.Trace)
		}
	}
	if all.String() != trace.String() {
		t.Errorf("the decisions are %v, not %v", all, trace)
	}
	two, err := build.Why(t.Context(), p, stages, on, []int{2, 4}, at[:1], 1)
	if err != nil || len(two.Cycles) != 2 || two.Cycles[0] != r.Cycles[0] {
		t.Errorf("two activations by a kernel of one column: %v, %v; one: %v", two.Cycles, err, r.Cycles)
	}
}

func TestWhyRefused(t *testing.T) {
	p, err := ir.Named("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	on := targets.ByName("amd64/avx2")
	at := []cost.Place{cost.L2}
	for want, trace := range map[string]schedule.Trace{
		"the rules of the space do not make this schedule: decompose: no offer begins ":          {},
		"the rules of the space do not make this schedule: decompose: no offer begins rfactor k": {schedule.Rfactor{Loop: "k"}},
	} {
		stages := []build.Stage{{Name: build.TraceStage, Value: trace}}
		if _, err := build.Why(t.Context(), p, stages, on, nil, at, 3); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %s", trace, err, want)
		}
	}
	if _, err := build.Why(t.Context(), p, nil, on, nil, at, 3); err == nil {
		t.Error("no schedule, and no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := build.Why(ctx, p, firstStages(t, p, on), on, nil, at, 3); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Reasons print as a table, and as JSON.
func TestReasons(t *testing.T) {
	r := build.Reasons{
		Product: "w2", Target: "amd64/avx2", Origin: "record: golden-cove", Columns: 1,
		Purposes: []fmt.Stringer{cost.Purpose{N: 1, At: cost.L2}, cost.Purpose{N: 1, At: cost.DRAM}}, Cycles: []float64{0.02, 0.1},
		Decisions: []build.Decision{
			{Rule: "fill", Fastest: true},
			{Rule: "scale", Fastest: false, Alternatives: []build.Alternative{{Steps: schedule.Trace{schedule.ScaleAt{Where: "begin"}}, Ratios: []float64{0.95, 1}}}},
			{Rule: "stage", Fastest: true, Steps: schedule.Trace{schedule.Stage{Value: "w", At: "f"}},
				Alternatives: []build.Alternative{{Ratios: []float64{1.5, 1}}, {Steps: schedule.Trace{schedule.Stage{Value: "w", At: "x"}}, Refused: "too many"}}},
		},
	}
	want := `
     1 in l2   1 in dram  w2 on amd64/avx2, kernel of 1 column
      0.0200      0.1000  predicted cycles for a product of one weight and one activation
                          schedule from record: golden-cove; below, its decisions, and the times of alternatives over its times
                          scale: nothing (others are faster by the model)
       0.950       1.000    scale_at begin
                          stage: stage w f (the fastest by the model)
       1.500       1.000    nothing
                 refused    stage w x: too many
                          no alternative was found: fill
`
	if have := "\n" + r.String(); have != want {
		t.Errorf("%s\nwant%s", have, want)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Purposes []struct {
			N    int
			Mode string
		}
		Decisions []struct {
			Alternatives []struct {
				Ratios  []float64
				Refused string
				Steps   json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &back); err != nil || back.Purposes[1].Mode != "dram" || back.Purposes[1].N != 1 ||
		!slices.Equal(back.Decisions[1].Alternatives[0].Ratios, []float64{0.95, 1}) || string(back.Decisions[1].Alternatives[0].Steps) != `[{"scale_at":{"where":"begin"}}]` {
		t.Errorf("%v: %s", err, text)
	}
}
