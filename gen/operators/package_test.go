package operators

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/ops/shaders"
	"github.com/tmacc/tmacc/runtime/ops/traces"
	"github.com/tmacc/tmacc/schedule"
)

// TestCommitted: packages runtime/ops and runtime/ops/shaders are what their definitions and traces make of them.
func TestCommitted(t *testing.T) {
	for dir, make := range map[string]func(fs.FS) ([]lower.File, error){"../../runtime/ops": Package, "../../runtime/ops/shaders": Shaders} {
		files, err := make(traces.Files)
		if err != nil {
			t.Fatal(err)
		}
		names, err := gen.Differences(dir, files)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 {
			t.Errorf("run go generate ./runtime/ops: it changes %v in %s", names, dir)
		}
	}
}

// TestShaderSizes: all modules together are small, and there is one for each operator.
func TestShaderSizes(t *testing.T) {
	size, want := 0, Shaded()
	for _, x := range shaders.All() {
		size += len(x.Code)
	}
	for _, s := range want {
		if x := shaders.Find(s.Name); x == nil || x.Name != s.Name {
			t.Errorf("%s is not found", s.Name)
		}
	}
	if len(shaders.All()) != len(want) || shaders.Find("none") != nil || size > 328<<10 {
		t.Errorf("%d shaders have %d bytes, want %d, of at most 328 KiB", len(shaders.All()), size, len(want))
	}
}

// TestWhole: kernels of products of floats take every K that is a multiple of ops.Whole.
func TestWhole(t *testing.T) {
	for _, o := range operator.All() {
		if !strings.HasPrefix(o.Name, "matmul_") {
			continue
		}
		for _, target := range Targets() {
			trace, ok, err := Trace(o, target)
			if err != nil || !ok {
				t.Fatalf("%s has no schedule for %s: %v", o.Name, target.Machine().Name, err)
			}
			k, err := schedule.CompileOperator(o, trace)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range k.Params {
				if p.Role == schedule.TripCount && ops.Whole%p.Div != 0 {
					t.Errorf("%s on %s counts K by %d, which does not divide %d", o.Name, target.Machine().Name, p.Div, ops.Whole)
				}
			}
		}
	}
}
