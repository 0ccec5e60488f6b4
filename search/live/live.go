// Package live makes products whose kernels run in this process: what a
// generated package links, here assembled and mapped by package jit.
package live

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/jit"
)

// Code is what one target runs of a product, assembled, until Close.
type Code struct {
	problem ir.Problem
	target  gen.Target
	img     *jit.Image
}

// Assemble assembles the kernels of a product for a target of this machine.
func Assemble(p ir.Problem, t gen.Target) (*Code, error) {
	var ks []*lower.Kernel
	for _, k := range t.Kernels {
		ks = append(ks, k.Code)
	}
	if t.Prepare != nil {
		ks = append(ks, t.Prepare.Code)
	}
	f, err := t.Target.Emit("main", ks)
	if err != nil {
		return nil, err
	}
	img, err := jit.Assemble(f)
	if err != nil {
		return nil, err
	}
	return &Code{p, t, img}, nil
}

// Close unmaps the kernels: no product of c may be used afterwards.
func (c *Code) Close() error { return c.img.Close() }

// Product is the product with all kernels, or with only those of the given
// indices. It is an error if this CPU cannot run them.
func (c *Code) Product(kernels ...int) (*runtime.Product, error) {
	v := runtime.Variant{Target: c.target.Target.Machine().Name, Need: c.target.Need}
	for i, k := range c.target.Kernels {
		if len(kernels) > 0 && !slices.Contains(kernels, i) {
			continue
		}
		f, err := c.img.Func(k.Code.Func.Name)
		if err != nil {
			return nil, err
		}
		s := k.Schedule
		v.Kernels = append(v.Kernels, runtime.Kernel{Name: k.Code.Func.Name, Rows: s.Rows, Cols: s.Cols, StepK: s.StepK,
			Chunk: s.Chunk, Tables: s.Tables != nil, SumBy: s.SumBy, Fn: func(a *runtime.GemmArgs) { f.Call(words(a)) }})
	}
	if p := c.target.Prepare; p != nil {
		f, err := c.img.Func(p.Code.Func.Name)
		if err != nil {
			return nil, err
		}
		v.Prepare = &runtime.Prepare{Name: p.Code.Func.Name, CountDiv: p.Schedule.CountDiv, PadK: p.Schedule.PadK, Tables: gen.RuntimeTables(p.Schedule.Tables),
			Fn: func(a *runtime.PrepareArgs) { f.Call(words(a)) }}
	}
	s := runtime.Spec{Name: c.problem.Weight.Name, Weight: c.problem.Weight, Act: c.problem.Act, LimitK: c.problem.LimitK(),
		Layouts: []*format.Layout{c.target.Kernels[0].Schedule.Weights}, Variants: []runtime.Variant{v}}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Target, err)
	}
	return runtime.New(s).On(v.Target)
}

// words are the parameters of a kernel.
func words[Args runtime.GemmArgs | runtime.PrepareArgs](a *Args) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(a)), unsafe.Sizeof(*a)/8)
}
