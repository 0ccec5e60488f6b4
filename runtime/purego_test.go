package runtime

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Products without kernels equal their definition.
func TestPureGo(t *testing.T) {
	for _, c := range []struct {
		name string
		act  int
	}{{"w4-g32", 32}, {"tq2_0", 256}, {"w2", 0}} {
		w, err := format.Lookup(c.name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := PureGo(w, format.Act{Group: c.act})
		if err != nil {
			t.Fatal(err)
		}
		if p.Target() != cpu.PureGo || p.Name() != c.name {
			t.Errorf("%s runs on %s", p.Name(), p.Target())
		}
		if err := SelfTest(p, rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Error(err)
		}
	}
}

func TestPureGoRefuses(t *testing.T) {
	w, err := format.Lookup("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := PureGo(w, format.Act{Group: 48}); err == nil || !strings.Contains(err.Error(), "48") {
		t.Errorf("a group that does not fit: %v", err)
	}
	if _, err := PureGo(format.Weight{Name: "nothing"}, format.Act{}); err == nil {
		t.Error("a format without levels is taken")
	}
}

// Choose finds what New would run, also if TMACC_CPU says otherwise.
func TestChooseTargets(t *testing.T) {
	vs := []abi.Variant{{Target: "any/best", Need: []string{"NOSUCH"}}, {Target: "any/good"}, {Target: "any/less"}}
	for env, want := range map[string]int{"": 1, "purego": -1, "less": 2, "any/good": 1, "best": -1} {
		t.Setenv(EnvCPU, env)
		if i, why := Choose("a", vs); i != want || why == "" {
			t.Errorf("%q: %d (%s), want %d", env, i, why, want)
		}
	}
}
