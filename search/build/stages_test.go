package build

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/cost"
)

func w2(t *testing.T) (ir.Problem, lower.Target) {
	t.Helper()
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	return p, targets.ByName("amd64/avx2")
}

// chosen are the default schedules of w2 on its target, once they are chosen: that takes seconds.
var chosen struct {
	sync.Once
	uses []search.Use
	err  error
}

// usual are the default schedules of w2 on its target, and the one for a number of columns.
func usual(t *testing.T, cols int) ([]search.Use, schedule.Trace) {
	t.Helper()
	p, target := w2(t)
	chosen.Do(func() { chosen.uses, chosen.err = beam.Product(context.Background(), p, target) })
	if chosen.err != nil {
		t.Fatal(chosen.err)
	}
	trace, err := TraceFor(p, target, chosen.uses, cols)
	if err != nil {
		t.Fatal(err)
	}
	return chosen.uses, trace
}

func names(all []Stage) (out []string) {
	for _, s := range all {
		out = append(out, s.Name)
	}
	return out
}

// A product goes through all stages: each has a value and a text, and the cost is what the model predicts.
func TestStages(t *testing.T) {
	p, target := w2(t)
	_, trace := usual(t, 4)
	all := Stages(p, trace, target)
	if !slices.Equal(names(all), StageNames()) {
		t.Fatalf("stages %v, want %v", names(all), StageNames())
	}
	for _, s := range all {
		if s.Err != nil || s.Value == nil || s.Text == "" {
			t.Errorf("%s: %v, %v, %q", s.Name, s.Err, s.Value, s.Text)
		}
	}
	cycles, err := Predict(t.Context(), p, trace, target, []cost.Purpose{{N: 4, At: cost.L2}, {N: 4, At: cost.DRAM}})
	if err != nil {
		t.Fatal(err)
	}
	want := Cost{cycles[0], cycles[1]}
	if have := all[9].Value.(Cost); have != want || have.Cached <= 0 || have.Memory < have.Cached {
		t.Errorf("cost %v, want %v", have, want)
	}
	changed := 0
	for _, x := range all[6].Value.([]Pass) {
		if x.Changed {
			changed++
		}
	}
	if n := strings.Count(all[6].Text, ": no change\n"); changed == 0 || changed+n != strings.Count(all[6].Text, "-- ") {
		t.Errorf("%d passes have changed something, %d have not:\n%s", changed, n, all[6].Text)
	}
}

// What fails is the last stage; those before it are there.
func TestStagesStop(t *testing.T) {
	p, target := w2(t)
	uses, trace := usual(t, 1)
	illegal, err := schedule.Compile(p, trace[:1])
	if err == nil {
		t.Fatalf("%v compiles: %v", trace[:1], illegal)
	}
	for _, stopped := range [][]Stage{Stages(p, trace[:1], target), Stages(p, nil, target)} {
		last := stopped[len(stopped)-1]
		if !slices.Equal(names(stopped), StageNames()[:4]) || last.Err == nil || last.Value != nil {
			t.Errorf("%v, %+v", names(stopped), last)
		}
		for _, s := range stopped[:3] {
			if s.Err != nil || s.Value == nil {
				t.Errorf("%+v", s)
			}
		}
	}
	if _, err := TraceFor(p, target, uses, 77); err == nil || !strings.HasPrefix(err.Error(), "no default schedule of w2 on amd64/avx2 has 77 columns: have 1, 2") {
		t.Error(err)
	}
}

// A preparation goes through the stages too: by the schedule of a product, or by one of its own.
func TestPrepareStages(t *testing.T) {
	p, target := w2(t)
	uses, trace := usual(t, 1)
	all := PrepareStages(p, trace, target, uses)
	if !slices.Equal(names(all), StageNames()) || !strings.Contains(all[8].Text, "TEXT ·prepare(SB)") {
		t.Fatalf("stages %v", names(all))
	}
	again := PrepareStages(p, all[2].Value.(schedule.Trace), target, uses)
	for i, s := range again {
		if s.Err != nil || s.Text != all[i].Text {
			t.Errorf("%s: %v\n%s\nwant\n%s", s.Name, s.Err, s.Text, all[i].Text)
		}
	}
	for _, s := range PrepareStages(p, trace[:1], target, uses) {
		if (s.Err != nil) != (s.Name == NestStage) {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
	}
}

// Vector IR goes through the stages from its own on; the assembly is that of the product.
func TestTextStages(t *testing.T) {
	p, target := w2(t)
	_, trace := usual(t, 1)
	product := Stages(p, trace, target)
	all := TextStages(product[5].Text, "kernels", target)
	if want := []string{VirStage, PassesStage, MachineStage, AssemblyStage, GoStage}; !slices.Equal(names(all), want) {
		t.Fatalf("stages %v, want %v", names(all), want)
	}
	if all[3].Text != product[8].Text || !strings.HasSuffix(all[4].Text, "// func matmul(args *matmulArgs)\n") {
		t.Errorf("%s%s", all[3].Text, all[4].Text)
	}
	var bad *vir.SyntaxError
	for text, line := range map[string]int{"nonsense": 1, "": 1, strings.Replace(product[5].Text, "func matmul", "func type", 1): 1} {
		all := TextStages(text, "kernels", target)
		if len(all) != 1 || !errors.As(all[0].Err, &bad) || bad.Line != line {
			t.Errorf("%q: %+v", text, all)
		}
	}
}

// An operator goes through all of its stages on every target, by the schedule of package runtime/ops or another.
func TestOperatorStages(t *testing.T) {
	o := *operator.Find("rmsnorm")
	for _, target := range targets.All() {
		all := OperatorStages(o, nil, target)
		if have := names(all); !slices.Equal(have, OperatorStageNames()) {
			t.Fatalf("%s: stages %v, want %v", target.Machine().Name, have, OperatorStageNames())
		}
		for _, s := range all {
			if s.Err != nil || s.Value == nil || s.Text == "" {
				t.Errorf("%s: %s: %v, %v, %q", target.Machine().Name, s.Name, s.Err, s.Value, s.Text)
			}
		}
	}
	shader := OperatorStages(o, nil, spirv.Targets()[0])
	want := slices.DeleteFunc(OperatorStageNames(), func(name string) bool { return name == MachineStage })
	if have, last := names(shader), shader[len(shader)-1]; !slices.Equal(have, want) || !strings.Contains(last.Text, "OpControlBarrier") {
		t.Errorf("a shader has stages %v, want %v, and ends\n%s", have, want, last.Text)
	}
	bad := schedule.Trace{schedule.Bind{Loop: "none"}}
	all := OperatorStages(o, bad, targets.ByName("amd64/avx2"))
	if last := all[len(all)-1]; last.Name != NestStage || last.Err == nil {
		t.Errorf("a schedule of no loop stops at %s: %v", last.Name, last.Err)
	}
}
