package machine

import (
	"bytes"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/tests/virgen"
)

// changes are what may be wrong with an operation.
var changes = map[string]func(op *lower.MOp) bool{
	"result elsewhere": func(op *lower.MOp) bool { op.Dst ^= 1; return op.Kind == lower.MInstr && op.Dst >= 0 },
	"argument elsewhere": func(op *lower.MOp) bool {
		op.Args = slices.Clone(op.Args)
		at := slices.IndexFunc(op.Args, func(r int) bool { return r >= 0 })
		if at < 0 {
			return false
		}
		op.Args[at] ^= 1
		return true
	},
	"address off": func(op *lower.MOp) bool { op.Disp += 64; return op.Kind == lower.MInstr && op.Base >= 0 },
	"other base":  func(op *lower.MOp) bool { op.Base ^= 1; return op.Kind == lower.MInstr && op.Base > 1 },
	"no sum":      func(op *lower.MOp) bool { op.Plus--; return op.Plus >= 0 },
	"other parameter": func(op *lower.MOp) bool {
		op.Param ^= 1
		return op.Kind == lower.MLoadParam && op.Param < 2
	},
	"step off": func(op *lower.MOp) bool {
		op.Adds = slices.Clone(op.Adds)
		if len(op.Adds) == 0 || op.Adds[0].By >= 0 {
			return false
		}
		op.Adds[0].Bytes += 4
		return true
	},
	"copy elsewhere": func(op *lower.MOp) bool {
		op.Copy = slices.Clone(op.Copy)
		if len(op.Copy) == 0 {
			return false
		}
		op.Copy[0].Dst ^= 1
		return true
	},
}

// TestRun compares kernels of random functions with their meaning, as they are and with one operation changed: most
// changes show.
func TestRun(t *testing.T) {
	seen, caught := map[string]int{}, map[string]int{}
	for seed := range int64(120) {
		target := amd64.ByName([]string{"avx2", "zen5"}[seed%2])
		f := virgen.Func(rand.New(rand.NewSource(seed)), 30)
		k, err := lower.Compile(target, f)
		if seed < 2 {
			f, k = Sums(t, target)
		} else if err != nil {
			continue
		}
		var why error
		same := func(k *lower.Kernel, n int) bool {
			args := virgen.Args(rand.New(rand.NewSource(int64(n))), f, n)
			want := copied(args)
			if err := vir.Eval(f, want); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := Run(k, args); err != nil {
				why = err
				return false
			}
			return slices.EqualFunc(args, want, func(a, b vir.Arg) bool { return bytes.Equal(a.Buf, b.Buf) })
		}
		for n := range virgen.MaxTrips + 1 {
			if !same(k, n) {
				t.Fatalf("seed %d, n %d: not what the function means: %v\n%s", seed, n, why, lower.Dump(k))
			}
		}
		for name, change := range changes {
			for at := range k.Ops {
				wrong := *k
				wrong.Ops = slices.Clone(k.Ops)
				if !change(&wrong.Ops[at]) {
					continue
				}
				seen[name]++
				if !runs(func() bool { return same(&wrong, virgen.MaxTrips) }) {
					caught[name]++
				}
				break
			}
		}
	}
	for name, n := range seen {
		t.Logf("%s: %d of %d caught", name, caught[name], n)
		if 2*caught[name] < n {
			t.Errorf("%s: %d of %d caught", name, caught[name], n)
		}
	}
	for name := range changes {
		if seen[name] == 0 {
			t.Errorf("%s: not tried", name)
		}
	}
}

// runs is f, or false if there is no such register.
func runs(f func() bool) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return f()
}

func copied(args []vir.Arg) []vir.Arg {
	out := slices.Clone(args)
	for i := range out {
		out[i].Buf = bytes.Clone(args[i].Buf)
	}
	return out
}
