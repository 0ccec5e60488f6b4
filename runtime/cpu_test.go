package runtime

import (
	"testing"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// New says it, once for all products.
func TestUnmetCPUIsSaid(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 4, 8, []int{1})
	s.Variants[0].Need = []string{"AVX1024"}
	t.Setenv(EnvCPU, "a")
	want := "TMACC_CPU=a: fake/a needs AVX1024, which this CPU lacks: products run in pure Go"
	for range 2 {
		if p := New(*s); p.Target() != cpu.PureGo {
			t.Fatal(p.Target())
		}
		if _, said := warned.Load(want); !said {
			t.Errorf("not said: %s", want)
		}
	}
}

// On takes the name of a target, of its core, and of its instruction set where that has no other target.
func TestOnCore(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 4, 8, []int{1})
	s.Variants[0].Target, s.Variants[0].CPUs = "fake/a+zen9", []cpu.Set{{Vendor: "nobody"}}
	p := New(*s)
	for _, name := range []string{"fake/a+zen9", "a+zen9", "zen9", "a", "fake/a"} {
		if q, err := p.On(name); err != nil || q.Target() != "fake/a+zen9" {
			t.Errorf("%s: %v, %v", name, q, err)
		}
	}
	for _, name := range []string{"", "b", "zen", "fake", "fake/", "+zen9"} {
		if q, err := p.On(name); err == nil {
			t.Errorf("%q is %s", name, q.Target())
		}
	}
}
