package machine

import (
	"bytes"
	"math/rand"
	"reflect"
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
				if bytes.Equal(Text(&wrong), Text(k)) {
					t.Errorf("seed %d: %s: the same text", seed, name)
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

// Text tells kernels apart by all that Run reads.
func TestText(t *testing.T) {
	target := amd64.ByName("avx2")
	compiled := func(text string) *lower.Kernel {
		f, err := vir.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		k, err := lower.Compile(target, f)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	const head, tail = "func f(x ptr, y ptr, n int)\n\tv0:u8x32 = load x+0\n", "\tstore y+0 v2\n"
	texts := map[string]string{}
	for _, body := range []string{
		"\tv1:u8x32 = splat 1\n\tv2:u8x32 = add v0 v1\n", "\tv1:u8x32 = splat 2\n\tv2:u8x32 = add v0 v1\n",
		"\tv1:u8x32 = splat 1\n\tv2:u8x32 = sub v0 v1\n", "\tv1:u8x32 = load x+32\n\tv2:u8x32 = add v0 v1\n",
		"\tv1:u8x32 = load x+64\n\tv2:u8x32 = add v0 v1\n", "\tv1:u8x32 = load y+64\n\tv2:u8x32 = add v0 v1\n",
	} {
		k := compiled(head + body + tail)
		same := string(Text(k))
		if again := string(Text(compiled(head + body + tail))); again != same {
			t.Errorf("compiled again, the text is another:\n%s\n%s", same, again)
		}
		if other, twice := texts[same]; twice {
			t.Errorf("%s and %s have the same text", other, body)
		}
		texts[same] = body
		for name, change := range map[string]func(k *lower.Kernel){
			"registers": func(k *lower.Kernel) { k.Machine.NumVec++ },
			"width":     func(k *lower.Kernel) { k.Machine.VecBits *= 2 },
			"pointers":  func(k *lower.Kernel) { k.Machine.NumGP++ },
			"constant":  func(k *lower.Kernel) { k.Func.Consts = append(slices.Clone(k.Func.Consts), []byte{1}) },
			"parameter": func(k *lower.Kernel) { k.Func.Params = append(slices.Clone(k.Func.Params), vir.Param{Name: "z"}) },
			"tied": func(k *lower.Kernel) {
				k.Ops = slices.Clone(k.Ops)
				i := slices.IndexFunc(k.Ops, func(op lower.MOp) bool { return op.Kind == lower.MInstr })
				row := *k.Ops[i].Row
				row.Tied++
				k.Ops[i].Row = &row
			},
		} {
			other, f := *k, *k.Func
			other.Func = &f
			if change(&other); string(Text(&other)) == same {
				t.Errorf("%s: other %s, the same text", body, name)
			}
		}
	}
	if n := reflect.TypeFor[lower.MOp]().NumField(); n != 16 {
		t.Errorf("operations have %d fields: is each that Run reads in Text?", n)
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
