package operators

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/native"
)

// TestPlain compiles every operator without any step: loops as the definition has them, one element at a time.
func TestPlain(t *testing.T) {
	for _, o := range operator.All() {
		t.Run(o.Name, func(t *testing.T) {
			rng := rand.New(rand.NewSource(1))
			for _, wild := range []bool{false, true} {
				sizes := map[string]int{"K": 37, "H": 5, "R": 3, "D": 32}
				c, err := check.NewOperator(rng, o, sizes, wild)
				if err != nil {
					t.Fatal(err)
				}
				stages(t, c, rng, nil)
			}
		})
	}
}

// stages evaluates each stage of the compiler on a case.
func stages(t *testing.T, c *check.OperatorCase, rng *rand.Rand, trace schedule.Trace) {
	t.Helper()
	k, err := schedule.CompileOperator(c.Of, trace)
	if err != nil {
		t.Fatal(err)
	}
	args := c.Args(rng, k)
	nestArgs := check.NestArgs(args)
	if err := nest.Eval(k.Nest, nestArgs); err != nil {
		t.Fatalf("%v\n%v", err, k.Nest)
	}
	got := slices.Clone(args)
	for i := range got {
		got[i].Buf = nestArgs[i].Buf
	}
	if err := c.Compare(k, got); err != nil {
		t.Fatalf("nest: %v\n%v", err, k.Nest)
	}
	f, err := lower.Vectorize(k.Nest, "f")
	if err != nil {
		t.Fatalf("%v\n%v", err, k.Nest)
	}
	got = cloned(args)
	if err := vir.Eval(f, got); err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	if err := c.Compare(k, got); err != nil {
		t.Fatalf("vir: %v\n%v", err, f)
	}
	for _, target := range native.All(t) {
		code, err := lower.Build(context.Background(), target, k.Nest)
		if err != nil {
			t.Fatalf("%s: %v\n%v", target.Machine().Name, err, k.Nest)
		}
		a, err := native.Assemble(target, []*lower.Kernel{code})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		got := cloned(args)
		if err := a.Func(0, fmt.Sprint(c))([][]vir.Arg{got}); err != nil {
			t.Fatal(err)
		}
		if err := c.Compare(k, got); err != nil {
			t.Fatalf("%s: %v\n%s", target.Machine().Name, err, lower.Dump(code))
		}
	}
}

func cloned(args []vir.Arg) []vir.Arg {
	out := slices.Clone(args)
	for i := range out {
		out[i].Buf = slices.Clone(out[i].Buf)
	}
	return out
}

// TestTraces runs the schedules of runtime/ops/traces on all targets.
func TestTraces(t *testing.T) {
	for bits, targets := range map[string][]lower.Target{"256": native.All(t), "512": native.All(t)} {
		for _, f := range traces(t, bits) {
			t.Run(bits+"/"+f.name, func(t *testing.T) {
				rng := rand.New(rand.NewSource(1))
				for _, wild := range []bool{false, true} {
					sizes := map[string]int{"K": 37 + 64*rng.Intn(3), "H": 5, "R": 3, "D": 96}
					c, err := check.NewOperator(rng, *operator.Find(f.name), sizes, wild)
					if err != nil {
						t.Fatal(err)
					}
					stages(t, c, rng, f.Trace)
				}
			})
		}
		_ = targets
	}
}
