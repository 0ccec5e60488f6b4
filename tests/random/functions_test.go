package random

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/tests/machine"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/virgen"
)

// randomKernels compiles n random functions for t, whatever fits.
func randomKernels(t *testing.T, tg lower.Target, n int) (funcs []*vir.Func, kernels []*lower.Kernel) {
	t.Helper()
	for seed := range n {
		f := virgen.Func(rand.New(rand.NewSource(int64(seed))), 5+seed%30)
		f.Name = fmt.Sprintf("random%d", seed)
		k, err := lower.Compile(tg, f)
		var pressure *lower.Pressure
		switch {
		case errors.As(err, &pressure):
		case err != nil:
			t.Fatalf("%v\n%s", err, f)
		default:
			funcs, kernels = append(funcs, f), append(kernels, k)
		}
	}
	if len(kernels) < n/2 {
		t.Errorf("%s: only %d of %d random functions fit", tg.Machine().Name, len(kernels), n)
	}
	return funcs, kernels
}

// evaluated is args after f.
func evaluated(t *testing.T, f *vir.Func, args []vir.Arg) []vir.Arg {
	t.Helper()
	out := make([]vir.Arg, len(args))
	for i, a := range args {
		out[i] = vir.Arg{Buf: bytes.Clone(a.Buf), Int: a.Int}
	}
	if err := vir.Eval(f, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func compareArgs(t *testing.T, k *lower.Kernel, f *vir.Func, got, want []vir.Arg) {
	t.Helper()
	for i := range want {
		if !bytes.Equal(got[i].Buf, want[i].Buf) {
			t.Fatalf("%s differs from vir.Eval:\n%s\n%s", f.Params[i].Name, f, lower.Dump(k))
		}
	}
}

// Random functions mean the same to vir.Eval and, compiled, to this CPU.
func TestRandomNative(t *testing.T) {
	for _, tg := range native.Targets(t) {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			funcs, kernels := randomKernels(t, tg, 200)
			f, k := machine.Sums(t, tg)
			runFunctions(t, tg, append(funcs, f), append(kernels, k))
		})
	}
}

// Random functions mean the same to vir.Eval and, compiled, to emulated CPUs.
func TestRandomArm(t *testing.T) {
	for _, tg := range native.Arms(t) {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			funcs, kernels := randomKernels(t, tg, 100)
			runFunctions(t, tg, funcs, kernels)
		})
	}
}

// runFunctions compares what kernels of tg do with what Eval says of the functions that they were made from.
func runFunctions(t *testing.T, tg lower.Target, funcs []*vir.Func, kernels []*lower.Kernel) {
	t.Helper()
	code, err := native.Assemble(tg, kernels)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	for i, f := range funcs {
		var got, want [][]vir.Arg
		for n := range virgen.MaxTrips + 1 {
			args := virgen.Args(rand.New(rand.NewSource(int64(n))), f, n)
			got, want = append(got, args), append(want, evaluated(t, f, args))
		}
		if err := code.Func(i, f.Name)(got); err != nil {
			t.Fatal(err)
		}
		for n := range got {
			compareArgs(t, kernels[i], f, got[n], want[n])
		}
	}
}
