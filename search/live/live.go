// Package live makes products whose kernels run in this process: what a
// generated package links, here assembled and mapped by package jit, once package
// worker has found them to equal the definition.
package live

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker"
)

// Spec is the product as a generated package describes it, with the kernels of one
// target: all of them, or the kernels with the given indices. Kernels have their names in the variant, and no functions yet.
func Spec(p ir.Problem, t variant.Variant, kernels ...int) runtime.Spec {
	if len(kernels) > 0 {
		all := t.Kernels
		t.Kernels = nil
		for _, i := range kernels {
			t.Kernels = append(t.Kernels, all[i])
		}
	}
	return runtime.Spec{Name: p.Weight.Name, Weight: p.Weight, Act: p.Act, LimitK: p.LimitK(),
		Layouts: []*format.Layout{t.Kernels[0].Schedule.Weights}, Variants: []abi.Variant{t.ABI("")}}
}

// Binary is machine code of one target for a product, which was found to equal the definition. Another process on the same CPU may
// map it later.
type Binary struct {
	Spec   runtime.Spec // of one variant, whose kernels have no functions
	Object jit.Object
}

// Verify compares the kernels of a product for a target of this machine with its
// definition, in a worker process: each alone, with the preparation of its
// activations, and all together. The error is jit.ErrPlatform if they are right but cannot be mapped. An error about a kernel
// names its schedule.
func Verify(p ir.Problem, t variant.Variant) (*Binary, error) {
	f, err := t.Target.File("main", t.Functions("")...)
	if err != nil {
		return nil, err
	}
	code, err := worker.Load(worker.Options{}, f)
	if err != nil {
		return nil, err
	}
	defer code.Close()
	if err := test(code, p, t); err != nil {
		return nil, err
	}
	object, err := code.Object()
	if err != nil {
		return nil, err
	}
	return &Binary{Spec(p, t), *object}, nil
}

// Assemble is Verify and Map.
func Assemble(p ir.Problem, t variant.Variant) (*Code, error) {
	b, err := Verify(p, t)
	if err != nil {
		return nil, err
	}
	return b.Map()
}

// Code is the functions of a Binary, mapped, until Close.
type Code struct {
	spec runtime.Spec
	img  *jit.Image
}

// Map maps the functions in this process. It is an error if b is for another architecture, or if nothing can be mapped.
func (b *Binary) Map() (*Code, error) {
	img, err := jit.Map(&b.Object)
	if err != nil {
		return nil, err
	}
	return &Code{b.Spec, img}, nil
}

func test(code *worker.Code, p ir.Problem, t variant.Variant) error {
	for i, k := range t.Kernels {
		what := fmt.Sprintf("kernel %s by the schedule %v", k.Name(), k.Schedule.Trace)
		if err := code.Test(what, Spec(p, t, i), uint64(i)); err != nil {
			return err
		}
	}
	if len(t.Kernels) == 1 {
		return nil
	}
	return code.Test(fmt.Sprintf("all kernels of %v on %s", p.Weight, t.Target.Machine().Name), Spec(p, t), uint64(len(t.Kernels)))
}

// Close unmaps the kernels: no product of c may be used afterwards.
func (c *Code) Close() error { return c.img.Close() }

// Product is the product with all kernels, or with only the kernels of the given
// indices, the narrowest first. It is an error if this CPU cannot run them.
func (c *Code) Product(kernels ...int) (*runtime.Product, error) {
	s, v := c.spec, c.spec.Variants[0]
	v.Kernels = slices.Clone(v.Kernels)
	if len(kernels) > 0 {
		v.Kernels = nil
		for _, i := range kernels {
			v.Kernels = append(v.Kernels, c.spec.Variants[0].Kernels[i])
		}
	}
	if v.Prepare != nil {
		prepare := *v.Prepare
		v.Prepare = &prepare
	}
	s.Variants = []abi.Variant{v}
	if err := jit.Bind(&s.Variants[0], c.function); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Target, err)
	}
	return runtime.New(s).On(v.Target)
}

func (c *Code) function(name string) (func([]uint64), error) {
	f, err := c.img.Func(name)
	return f.Call, err
}
