package native

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/qemu"
)

// Emulated collects products by kernels of an Arm target, to be computed by one start of the emulator.
type Emulated struct {
	Target   lower.Target
	kernels  []*Kernel
	products []emulated
}

type emulated struct {
	kernel int
	c      *check.Case
	want   []float32
	calls  [][]vir.Arg
	done   func(error)
}

// Emulate runs kernels that were compiled for target under the emulator.
func Emulate(target lower.Target) *Emulated { return &Emulated{Target: target} }

// Add makes Run compute c with k, compare the result with want, as check.Equal does, and tell done.
func (e *Emulated) Add(k *Kernel, c *check.Case, want []float32, done func(error)) {
	calls, err := c.Calls(k.Kernel)
	if err != nil {
		done(err)
		return
	}
	i := slices.Index(e.kernels, k)
	if i < 0 {
		i = len(e.kernels)
		e.kernels = append(e.kernels, k)
	}
	e.products = append(e.products, emulated{i, c, want, calls, done})
}

// Run computes all products. If a kernel ends the emulator, those behind it are not computed.
func (e *Emulated) Run() {
	file, err := e.Target.Emit("main", numbered(e.kernels))
	if err == nil {
		err = qemu.Run(qemu.ArmCPU(e.Target), file, e.calls())
	}
	var fault *qemu.Fault
	errors.As(err, &fault)
	first := 0
	for _, p := range e.products {
		next := first + len(p.calls)
		switch {
		case err == nil || fault != nil && next <= fault.Call:
			p.done(p.compare(e.kernels[p.kernel]))
		case fault != nil && first > fault.Call:
			p.done(errNotRun)
		default:
			p.done(err)
		}
		first = next
	}
}

// errNotRun is of products behind the kernel to blame.
var errNotRun = errors.New("not computed: an earlier kernel ended the emulator")

func (p *emulated) compare(k *Kernel) error {
	got, err := p.c.Result(k.Kernel, p.calls)
	if err != nil {
		return err
	}
	return check.Equal(k.Kernel, got, p.want, p.c.M)
}

func (e *Emulated) calls() (all []qemu.Call) {
	for _, p := range e.products {
		for _, args := range p.calls {
			all = append(all, qemu.Call{Kernel: fmt.Sprintf("k%d", p.kernel), Args: args})
		}
	}
	return all
}
