package cost_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand"
	"reflect"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/template"
)

// drawn are kernels of random schedules on a target, selected.
func drawn(t *testing.T, target lower.Target, each int, check func(k *schedule.Kernel, s *lower.Selected)) {
	t.Helper()
	rng := rand.New(rand.NewSource(41))
	for _, name := range []string{"w1", "w4", "w8", "q4_0", "q4_k", "iq4_nl", "w2-f32act"} {
		p, err := ir.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		sp, err := space.For(p, target)
		if err != nil {
			t.Fatal(err)
		}
		for range each {
			x, err := sp.Sample(rng)
			if err != nil {
				continue
			}
			k, err := sp.Kernel(x)
			if err != nil {
				t.Fatal(err)
			}
			f, err := lower.Vectorize(k.Nest, name)
			if err != nil {
				continue
			}
			s, err := lower.Select(t.Context(), target, f)
			if err == nil && instructions(s) < 2000 {
				check(k, s)
			}
		}
	}
}

func instructions(s *lower.Selected) (n int) {
	vir.Walk(s.Func.Body, func(*vir.Instr, []*vir.Loop) { n++ })
	return n
}

// cyclesOn is what a kernel of w4 takes on a core of other CPUs.
func cyclesOn(t *testing.T, c core.Core) float64 {
	t.Helper()
	c.Name, c.CPUs = "other", []cpu.Set{{Vendor: "Other"}}
	all, err := targets.Tuned(c)
	if err != nil {
		t.Fatal(err)
	}
	k, _ := w4(t, `{"prefetch":{"bytes":4096}}`)
	s, err := cost.Select(t.Context(), all[len(all)-1], k.Nest, cost.Any)
	if err != nil {
		t.Fatal(err)
	}
	return cost.Run(t.Context(), k, s).Cycles
}

// A latency counts of instructions that need no port, too.
func TestLatencyWithoutPorts(t *testing.T) {
	cycles := func(latency int) float64 {
		c := targets.Cores()[0]
		c.Costs = maps.Clone(c.Costs)
		for class, x := range c.Costs {
			x.Ports, x.WidePorts, x.Latency = "", "", latency
			c.Costs[class] = x
		}
		return cyclesOn(t, c)
	}
	if short, long := cycles(1), cycles(100); !(long > 10*short) {
		t.Errorf("%v cycles with a latency of 1, %v with 100", short, long)
	}
}

// Loops whose sums wait for themselves overlap as far as the window and the registers for results reach. Numbers of no consequence are left out.
func TestResults(t *testing.T) {
	cycles := func(change func(*core.Pipeline)) float64 {
		c := targets.ByName("amd64/avx512vbmi").Machine().Core
		change(&c.Pipeline)
		return cyclesOn(t, c)
	}
	free := cycles(func(p *core.Pipeline) { p.Results, p.WideResults = 0, 0 })
	for name, change := range map[string]func(*core.Pipeline){
		"window":       func(p *core.Pipeline) { p.Window = 24 },
		"results":      func(p *core.Pipeline) { p.Results, p.WideResults = 12, 0 },
		"wide_results": func(p *core.Pipeline) { p.Results, p.WideResults = 0, 12 },
	} {
		if few := cycles(change); !(few > 1.2*free) {
			t.Errorf("%v cycles with few of %s, %v with all", few, name, free)
		}
	}
	if many := cycles(func(p *core.Pipeline) { p.Results, p.WideResults = p.Window, p.Window }); many != free {
		t.Errorf("%v cycles with a result for each instruction in flight, %v without a number", many, free)
	}
}

// Kernels are refused if and only if AllocateOnce refuses them, and the others take at least the time that their units are
// busy by any choice of ports, at most what their instructions would take one after the other. Floor and Bringing promise no more than that.
func TestRun(t *testing.T) {
	for _, name := range []string{"amd64/avx2", "amd64/avx512vbmi", "amd64/avx512vbmi+zen4", "arm64/dotprod"} {
		target := targets.ByName(name)
		refused, accepted := 0, 0
		drawn(t, target, 12, func(k *schedule.Kernel, s *lower.Selected) {
			p := cost.Run(context.Background(), k, s)
			_, err := lower.AllocateOnce(t.Context(), s)
			if (p.Refused == nil) != (err == nil) {
				t.Errorf("%s: %v, but allocation says %v: %v", name, p.Refused, err, k.Trace)
			}
			if err != nil {
				refused++
				need := (*lower.Pressure)(nil)
				if !math.IsInf(p.Cycles, 1) || errors.As(err, &need) && need.Kind == "vector" && p.Vectors <= target.Machine().NumVec {
					t.Errorf("%s: a refused kernel takes %v cycles and %d vectors", name, p.Cycles, p.Vectors)
				}
				return
			}
			accepted++
			least, most := bounds(k, s, target.Machine())
			if p.Cycles < least || p.Cycles > most {
				t.Errorf("%s: %v cycles, want %v to %v: %v", name, p.Cycles, least, most, k.Trace)
			}
			if floor := cost.Floor(k, s); floor > 1.05*p.Cycles || floor < 0.9*least {
				t.Errorf("%s: at least %v cycles before they are counted, then %v: %v", name, floor, p.Cycles, k.Trace)
			}
			for at := cost.L2; at <= cost.DRAM; at++ {
				bring, takes := cost.Bringing(s.Machine.Core, k, at), cost.Waiting(s.Machine.Core, k, s, p, at).Cycles
				if bring > 1.02*takes || bring <= 0 {
					t.Errorf("%s: weights in %v take at least %v cycles, the call takes %v: %v", name, at, bring, takes, k.Trace)
				}
			}
			sum := 0.0
			for _, x := range p.Stretches {
				sum += x.Times * x.Cycles
			}
			if math.Abs(sum-p.Cycles) > 1e-6*p.Cycles {
				t.Errorf("%s: stretches take %v of %v cycles", name, sum, p.Cycles)
			}
			if again := cost.Run(context.Background(), k, s); again.Cycles != p.Cycles || !reflect.DeepEqual(bound(again), bound(p)) {
				t.Errorf("%s: %+v, then %+v", name, p, again)
			}
		})
		if refused == 0 || accepted < 20 {
			t.Errorf("%s: %d kernels refused, %d accepted", name, refused, accepted)
		}
	}
}

func bound(p cost.Pipeline) (all []string) {
	for _, s := range p.Stretches {
		all = append(all, s.Bound)
	}
	return all
}

// bounds are the cycles that arithmetic of selected code takes if all ports are always busy, and if no two instructions overlap.
// An allocated kernel may have computed some at once: a quarter less.
func bounds(k *schedule.Kernel, s *lower.Selected, m lower.Machine) (least, most float64) {
	busy, ports := 0.0, map[int]bool{}
	vir.Walk(s.Func.Body, func(in *vir.Instr, around []*vir.Loop) {
		times := 1.0
		for _, l := range around {
			times *= cost.Trips(k, l)
		}
		most += times * 40
		if in.Op.IsDot() {
			for _, x := range s.Rows[in].Micros {
				busy += times * float64(x.Cycles)
				for i := range 64 {
					ports[i] = ports[i] || x.Ports>>i&1 != 0
				}
			}
		}
	})
	for _, is := range ports {
		if is {
			least++
		}
	}
	return busy / max(least, 1) * 0.95, most
}

// A sum that waits for itself takes the latency of its instruction per iteration, several sums side by side less.
func TestChain(t *testing.T) {
	target := targets.ByName("amd64/avxvnni")
	p, err := ir.Named("w8")
	if err != nil {
		t.Fatal(err)
	}
	cycles := func(rows int) float64 {
		c := template.Choice{AlongK: true, Lanes: 8, Rows: rows, Block: rows, RowFields: 1, Cells: 1, Map: "dense", Value: "affine", Hoist: "init", Dot: 4, Cols: 1, Flush: 1, Scale: "end"}
		k, err := schedule.Compile(p, c.Trace(p))
		if err != nil {
			t.Fatal(err)
		}
		f, err := lower.Vectorize(k.Nest, "w8")
		if err != nil {
			t.Fatal(err)
		}
		s, err := lower.Select(t.Context(), target, f)
		if err != nil {
			t.Fatal(err)
		}
		return cost.Run(context.Background(), k, s).Cycles / float64(rows)
	}
	if one, four := cycles(1), cycles(4); four > 0.6*one {
		t.Errorf("a row takes %v cycles alone, %v of four", one, four)
	}
}
