// Package live makes products whose kernels run in this process: what a
// generated package links, here assembled and mapped by package jit.
package live

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/jit"
)

// Kernel is a scheduled kernel and its machine code.
type Kernel struct {
	*schedule.Kernel
	Code *lower.Kernel
}

// Prepare is a scheduled activation kernel and its machine code.
type Prepare struct {
	*schedule.PrepareKernel
	Code *lower.Kernel
}

// Variant is what one target runs of a product: kernels of ascending width and
// one packed layout. Without a Prepare, activations are prepared in pure Go.
type Variant struct {
	Problem ir.Problem
	Target  lower.Target
	Kernels []Kernel
	Prepare *Prepare
}

// Code is assembled variants until Close.
type Code struct {
	img      *jit.Image
	variants []Variant
}

// Assemble assembles variants. All their kernels must have different names.
func Assemble(variants ...Variant) (*Code, error) {
	var files []lower.File
	for _, v := range variants {
		var ks []*lower.Kernel
		for _, k := range v.Kernels {
			ks = append(ks, k.Code)
		}
		if v.Prepare != nil {
			ks = append(ks, v.Prepare.Code)
		}
		f, err := v.Target.Emit("main", ks)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	img, err := jit.Assemble(files...)
	if err != nil {
		return nil, err
	}
	return &Code{img, variants}, nil
}

// Close unmaps the kernels: no product of c may be used afterwards.
func (c *Code) Close() error { return c.img.Close() }

// Product is variant i as a product of this process; with kernels, it has only
// those of its kernels.
func (c *Code) Product(i int, kernels ...int) (*runtime.Product, error) {
	v := c.variants[i]
	r := runtime.Variant{Target: v.Target.Machine().Name, Need: amd64.FeatureNames(v.Target.Machine().Has)}
	for j, k := range v.Kernels {
		if len(kernels) > 0 && !slices.Contains(kernels, j) {
			continue
		}
		f, err := c.img.Func(k.Code.Func.Name)
		if err != nil {
			return nil, err
		}
		r.Kernels = append(r.Kernels, runtime.Kernel{Name: k.Code.Func.Name, Rows: k.Rows, Cols: k.Cols, StepK: k.StepK,
			Chunk: k.Act.RecordK, SumBy: k.SumBy, Fn: func(a *runtime.GemmArgs) { f.Call(words(a)) }})
	}
	if p := v.Prepare; p != nil {
		f, err := c.img.Func(p.Code.Func.Name)
		if err != nil {
			return nil, err
		}
		r.Prepare = &runtime.Prepare{Name: p.Code.Func.Name, CountDiv: p.CountDiv, PadK: p.PadK,
			Fn: func(a *runtime.PrepareArgs) { f.Call(words(a)) }}
	}
	s := v.spec(r)
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Target, err)
	}
	return runtime.New(s).On(r.Target)
}

// words are the parameters of a kernel.
func words[Args runtime.GemmArgs | runtime.PrepareArgs](a *Args) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(a)), unsafe.Sizeof(*a)/8)
}

// spec is v's product with the variant r alone.
func (v *Variant) spec(r runtime.Variant) runtime.Spec {
	return runtime.Spec{Name: v.Problem.Weight.Name, Weight: v.Problem.Weight, Act: v.Problem.Act, LimitK: v.Problem.LimitK(),
		Layouts: []*format.Layout{v.Kernels[0].Weights}, Variants: []runtime.Variant{r}}
}
