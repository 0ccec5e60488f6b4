package shaders

import (
	"fmt"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
)

// TestPlantedRaces plants races in kernels: a barrier is missing, lanes store one word, workgroups one tile of the product. Eval
// finds each.
func TestPlantedRaces(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) { plantIn(t, path, count) })
	}
	t.Log(count)
	for _, what := range []string{"a barrier", "lanes", "workgroups"} {
		if count[what] == 0 {
			t.Errorf("no races of %s", what)
		}
	}
}

func plantIn(t *testing.T, path string, count map[string]int) {
	p := named(t, path)
	k, err := schedule.Compile(p, traceOf(t, path))
	if err != nil {
		t.Fatal(err)
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		t.Fatal(err)
	}
	c := check.New(rand.New(rand.NewSource(1)), p, 2*k.Rows, 2*k.Cols, wholeK(p, 3*k.StepK), check.Uniform)
	races := func(f *vir.Func) error {
		_, err := c.Run(k, func(args []vir.Arg) error { return vir.Eval(f, args) })
		return err
	}
	if err := races(f); err != nil {
		t.Fatal(err)
	}
	for _, x := range plantedIn(f) {
		count[x.what]++
		if err := races(x.f); err == nil || !strings.Contains(err.Error(), "no barrier is between") && !strings.Contains(err.Error(), "before it is stored") {
			t.Errorf("%s, %s: %v", x.what, x.where, err)
		}
	}
}

// plantedRace is a function with a race.
type plantedRace struct {
	what, where string
	f           *vir.Func
}

func plantedIn(f *vir.Func) (out []plantedRace) {
	barriers, stores := 0, 0
	vir.Walk(f.Body, func(in *vir.Instr, _ []*vir.Loop) {
		if in.Op == vir.OpBarrier {
			barriers++
		}
		if in.Op.Stores() {
			stores++
		}
	})
	for i := range barriers {
		out = append(out, plantedRace{"a barrier", fmt.Sprint("number ", i), without(f, i)})
	}
	for i := range stores {
		if g, what := onePlace(f, i); g != nil {
			out = append(out, plantedRace{"lanes", what, g})
		}
	}
	for i := range f.Grid {
		g := f.Clone()
		g.Grid[i].Moves = slices.DeleteFunc(slices.Clone(g.Grid[i].Moves), func(m vir.Move) bool { return f.Params[m.Param].Name == "out" })
		out = append(out, plantedRace{"workgroups", fmt.Sprint("dimension ", i), g})
	}
	return out
}

// without is f without one of its barriers.
func without(f *vir.Func, n int) *vir.Func {
	g := f.Clone()
	i := -1
	g.Body = vir.Map(g.Body, func(in *vir.Instr) []*vir.Instr {
		if in.Op == vir.OpBarrier {
			if i++; i == n {
				return nil
			}
		}
		return vir.Kept
	})
	return g
}

// onePlace is f with one of its stores to the same place in all lanes of a loop of several, nil if it has no such lanes.
func onePlace(f *vir.Func, n int) (g *vir.Func, what string) {
	i := -1
	c := f.Clone()
	vir.Walk(c.Body, func(in *vir.Instr, loops []*vir.Loop) {
		if !in.Op.Stores() {
			return
		}
		if i++; i != n {
			return
		}
		for _, l := range loops {
			at := slices.IndexFunc(in.Mem.Stride, func(s vir.Stride) bool { return s.Loop == l.ID })
			if l.Lane && l.Count.Const > 1 && at >= 0 {
				what = fmt.Sprintf("%s in lanes of l%d", c.Format(in), l.ID)
				in.Mem.Stride = slices.Delete(slices.Clone(in.Mem.Stride), at, at+1)
				g = c
				return
			}
		}
	})
	return g, what
}
