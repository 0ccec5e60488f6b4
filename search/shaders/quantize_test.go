package shaders

import (
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
)

// fusedOf is the default schedule for one column on a device of some speeds, and whether its workgroups prepare activations.
func fusedOf(t *testing.T, p ir.Problem, speeds spirv.Speeds) (search.Use, bool) {
	t.Helper()
	target, _ := spirv.ByName("spirv")
	uses, err := Default(t.Context(), p, target.With(speeds))
	if err != nil {
		t.Fatal(err)
	}
	_, ok := uses[0].Trace[len(uses[0].Trace)-1].(schedule.Quantize)
	if ok != (len(uses[0].Most) > 0) {
		t.Errorf("%s: %v for %v", p.Name(), ok, uses[0].Most)
	}
	return uses[0], ok
}

// TestLaunches: workgroups prepare activations themselves where a dispatch for it costs more than what all of them repeat, so the default schedule depends on the
// time of a launch. The longer it is, the more products that is worth it for. A product of many rows repeats more, and so do matrices that share activations.
func TestLaunches(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	device := spirv.AllSpeeds()[0]
	device.Start, device.Latency, device.Step = 0, 1, 1e-3 // one workgroup takes no time by itself
	rows := func(launch float64) (most int) {
		device.Launch = launch
		use, ok := fusedOf(t, p, device)
		f := abi.Fused{Most: use.Most}
		for m := 64; ok && m <= mostRows && f.Worth(m, 4096); m *= 2 {
			most = m
		}
		return most
	}
	none, some, many := rows(0), rows(3e3), rows(100e3)
	if none != 0 || some == 0 || many <= some {
		t.Errorf("%d rows without a launch, %d by one of 3 us, %d by one of 100 us", none, some, many)
	}
	use, _ := fusedOf(t, p, device)
	f := abi.Fused{Most: use.Most}
	if !f.Worth(many/2, 4096) || f.Worth(4*many, 4096) || f.Worth(64, 1<<20) {
		t.Errorf("%v", use.Most)
	}
}

// TestWorth: what schedules are said to be worth is what the model predicts of them, by the speeds of each device.
func TestWorth(t *testing.T) {
	for _, speeds := range spirv.AllSpeeds() {
		for _, name := range []string{"w4", "q4_0"} {
			p, err := ir.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			use, ok := fusedOf(t, p, speeds)
			if !ok {
				t.Errorf("%s on %s: workgroups prepare no activations", name, speeds.Name)
				continue
			}
			target, _ := spirv.ByName("spirv")
			k, err := schedule.Compile(p, use.Trace)
			if err != nil {
				t.Fatal(err)
			}
			x, err := newSingle(t.Context(), target.With(speeds), k)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range use.Most {
				if m.Rows > 0 && x.fused(m.Rows, m.K) >= x.separate(m.Rows, m.K) || x.fused(2*m.Rows, m.K) < x.separate(2*m.Rows, m.K) && m.Rows > 0 {
					t.Errorf("%s on %s: %+v", name, speeds.Name, m)
				}
			}
			v, err := build.Shaders(t.Context(), p, target.With(speeds), []search.Use{use}, spirv.Controls{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := v.Spec(p)
			if err != nil {
				t.Fatal(err)
			}
			if f := s.Variants[0].Fused; f == nil || len(f.Most) != len(use.Most) || len(s.Variants[0].Kernels) != 1 {
				t.Errorf("%s on %s: %+v", name, speeds.Name, s.Variants[0])
			}
		}
	}
}
