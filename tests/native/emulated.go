package native

import (
	"errors"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/qemu"
)

// Emulated collects calls of a kernel, to be run by one start of the emulator of Arm CPUs.
type Emulated struct {
	target lower.Target
	k      *Kernel
	calls  []qemu.Call
	cases  []emulatedCase
}

type emulatedCase struct {
	name  string
	c     *check.Case
	want  []float32
	first int // number of its first call
}

// Emulate runs k, which was compiled for target, under the emulator.
func Emulate(target lower.Target, k *Kernel) *Emulated { return &Emulated{target: target, k: k} }

// Add collects the calls that make c; want is what must come out.
func (a *Emulated) Add(t *testing.T, name string, c *check.Case, want []float32) {
	a.cases = append(a.cases, emulatedCase{name, c, want, len(a.calls)})
	_, err := c.RunAll(a.k.Kernel, func(all [][]vir.Arg) error {
		for _, args := range all {
			a.calls = append(a.calls, qemu.Call{Kernel: a.k.Machine.Func.Name, Args: slices.Clone(args)})
		}
		return errCollected
	})
	if err != errCollected {
		t.Fatal(err)
	}
}

// errCollected ends a product whose calls are made later.
var errCollected = errors.New("collected")

// Run runs all and compares.
func (a *Emulated) Run(t *testing.T) {
	file, err := a.target.Emit("main", []*lower.Kernel{a.k.Machine})
	if err != nil {
		t.Fatal(err)
	}
	if err := qemu.Run(t, "neoverse-n1", file, a.calls); err != nil {
		t.Fatal(err)
	}
	for _, c := range a.cases {
		next := c.first
		got, err := c.c.Run(a.k.Kernel, func(args []vir.Arg) error {
			copy(args[0].Buf, a.calls[next].Args[0].Buf)
			next++
			return nil
		})
		if err == nil {
			err = check.Equal(a.k.Kernel, got, c.want, c.c.M)
		}
		if err != nil {
			t.Errorf("%s: %s: %v", a.target.Machine().Name, c.name, err)
		}
	}
}
