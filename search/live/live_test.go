package live

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/jit"
)

func build(t testing.TB, p ir.Problem, target lower.Target) gen.Target {
	t.Helper()
	v := gen.Target{Target: target, Need: amd64.FeatureNames(target.Machine().Has)}
	uses, err := search.Default(p, target)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range uses {
		k, err := schedule.Compile(p, u.Trace)
		if err != nil {
			t.Fatal(err)
		}
		code, err := lower.Build(target, k.Nest, fmt.Sprintf("k%d", u.Cols))
		if err != nil {
			t.Fatal(err)
		}
		v.Kernels = append(v.Kernels, gen.Kernel{Schedule: k, Code: code})
	}
	trace, err := search.DefaultPrepare(p, nil, target)
	if err != nil {
		t.Fatal(err)
	}
	k, err := schedule.CompilePrepare(p, nil, trace)
	if err != nil {
		t.Fatal(err)
	}
	code, err := lower.Build(target, k.Nest, "prepare")
	if err != nil {
		t.Fatal(err)
	}
	v.Prepare = &gen.Prepare{Schedule: k, Code: code}
	return v
}

// Each kernel alone and all together give the definition of the product.
func TestSelfTest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	for _, target := range amd64.Targets() {
		for _, c := range []struct {
			format string
			act    int
		}{{"w2", 0}, {"w3-g48-z", 16}, {"w4-g32-s256-m", 16}} {
			w, err := format.Lookup(c.format)
			if err != nil {
				t.Fatal(err)
			}
			p := ir.Problem{Weight: w, Act: format.Act{Group: c.act}}
			v := build(t, p, target)
			code, err := Assemble(p, v)
			if errors.Is(err, jit.ErrPlatform) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer code.Close()
			sets := [][]int{nil}
			for i := range v.Kernels {
				sets = append(sets, []int{i})
			}
			for _, set := range sets {
				p, err := code.Product(set...)
				if err != nil {
					t.Skip(err) // this CPU lacks something
				}
				if err := runtime.SelfTest(p, rand.New(rand.NewPCG(1, 2))); err != nil {
					t.Errorf("%s %s, kernels %v: %v", target.Machine().Name, c.format, set, err)
				}
			}
		}
	}
}
