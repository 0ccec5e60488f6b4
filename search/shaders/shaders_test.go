package shaders

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestMain makes the test its own worker, with a device that is none.
func TestMain(m *testing.M) {
	if os.Getenv("TMACC_WORKER") != "" {
		worker.ServeDevice(&pretended{})
	}
	m.Run()
}

// TestDefault: formats have default schedules, which share a packed matrix and have shaders.
func TestDefault(t *testing.T) {
	target, _ := spirv.ByName("spirv")
	for _, name := range drawn.Some(drawn.New(t), 10, format.Names()) {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		uses, err := Default(t.Context(), p, target)
		if err != nil {
			t.Error(err)
			continue
		}
		v, err := build.Shaders(t.Context(), p, target, uses, spirv.Controls{})
		if err == nil {
			_, err = v.Spec(p)
		}
		if err != nil || v.Kernels[0].Schedule.Cols != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := ir.Named("w1-f32act"); err != nil {
		t.Error(err)
	} else if _, err := Default(t.Context(), p, target); err == nil || !strings.Contains(err.Error(), "compile it for a CPU") {
		t.Error(err)
	}
}

// TestDefaultStops: a choice that is interrupted says so, and not that there is no schedule.
func TestDefaultStops(t *testing.T) {
	target, _ := spirv.ByName("spirv")
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Default(ctx, p, target); err != context.Canceled {
		t.Error(err)
	}
}

// TestCheck: what package runtime does not call is refused.
func TestCheck(t *testing.T) {
	target, _ := spirv.ByName("spirv")
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	uses, err := Default(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	v, err := build.Shaders(t.Context(), p, target, append(uses, uses[0]), spirv.Controls{})
	if err == nil {
		_, err = v.Spec(p)
	}
	if err == nil || !strings.Contains(err.Error(), "w2 on spirv/dot: two schedules are for n = 1") {
		t.Error(err)
	}
	if r := Reason(errNone); r != errNone.Error() || Reason(errors.New("x")) != "refused" {
		t.Error(r)
	}
}

// readTrace reads a schedule of tests/shaders.
func readTrace(t *testing.T, name string) (trace schedule.Trace) {
	t.Helper()
	data, err := os.ReadFile("../../tests/shaders/testdata/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(data, &trace)
	}
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// TestPackaged: what a search may lock packages can have, tiles of small subgroups too. Alternatives are all shaders, the last ones again where a kernel has fewer.
func TestPackaged(t *testing.T) {
	target, _ := spirv.ByName("spirv/coop")
	p, err := ir.Named("w4")
	if err != nil {
		t.Fatal(err)
	}
	for name, subgroups := range map[string][]int{"w4.tiles8": {8}, "w4.tiles16": {32, 32}} {
		v, err := build.Shaders(t.Context(), p, target, []search.Use{{Trace: readTrace(t, name)}}, Packaged...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var have []int
		for _, s := range v.Kernels[0].Shaders {
			have = append(have, s.Subgroup)
		}
		if !slices.Equal(have, subgroups) {
			t.Errorf("%s: subgroups of %d, want %d", name, have, subgroups)
		}
	}
	a, b, c := new(spirv.Shader), new(spirv.Shader), new(spirv.Shader)
	all := Alternatives(&variant.Shaders{Kernels: []variant.Shaded{{Shaders: []*spirv.Shader{a, b}}, {Shaders: []*spirv.Shader{c}}}})
	if len(all) != 2 || all[0].Kernels[0].Shaders[0] != a || all[0].Kernels[1].Shaders[0] != c || all[1].Kernels[0].Shaders[0] != b || all[1].Kernels[1].Shaders[0] != c {
		t.Errorf("%+v", all)
	}
}
