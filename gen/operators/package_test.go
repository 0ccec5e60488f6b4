package operators

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/ops/traces"
	"github.com/tmacc/tmacc/schedule"
)

// TestCommitted: package runtime/ops is what its definitions and traces make of it.
func TestCommitted(t *testing.T) {
	files, err := Package(traces.Files)
	if err != nil {
		t.Fatal(err)
	}
	names, err := gen.Differences("../../runtime/ops", files)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) > 0 {
		t.Errorf("run go generate ./runtime/ops: it changes %v", names)
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
