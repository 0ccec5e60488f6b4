// Package gen writes the Go packages that tmacc generates: assembly, its
// declarations, dispatch on CPU features, the functions that callers use and
// their tests. Equal input gives equal bytes.
//
//	kern.go                  products and functions
//	kern_dispatch_amd64.go   which kernels there are    amd64 && !purego
//	kern_stubs_amd64.go      their declarations         amd64 && !purego
//	kern_avx2_amd64.s        assembly of each target    amd64 && !purego
//	kern_noasm.go            no kernels                 !(amd64 || arm64) || purego
//	kern_tensors.go          the matrices of a model, if it is for one
//	kern_test.go             all of it against the definition
//	kern_spirv.go, ...       shaders for devices, if it has any: see shaders.go
package gen

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
)

// Spec is a package to write.
type Spec struct {
	Package  string // its name, and that of its files: lower-case letters and digits
	Version  string // of tmacc, for the headers; may be empty
	Products []Product
	Tensors  []Tensor // of the model that the package is for, or none
	Module   *Module  // to make the package a module of its own; nil within another
}

// Product is one product of the package.
type Product struct {
	// Name begins the names of the product's functions: "Q4" makes Q4Pack. It may
	// be empty if the package has no other product.
	Name string
	// Prefix begins the names of its kernels in assembly: "q4" begins q4_avx2_n8. If it
	// is empty, the name in small letters does.
	Prefix   string
	Problem  ir.Problem
	Variants []variant.Variant // in any order: programs try them as lower.Preferred says; none: pure Go only
	Shaders  []variant.Shaders // for devices of Vulkan
}

// KernelName is the name in assembly of the function that v calls what: "n8" or
// "prepare".
func (p Product) KernelName(v *variant.Variant, what string) string { return p.kernels(v) + what }

// prefix begins the names of all kernels.
func (p Product) prefix() string { return cmp.Or(p.Prefix, strings.ToLower(p.Name), "product") }

// kernels begins the names of the kernels of v.
func (p Product) kernels(v *variant.Variant) string {
	return p.prefix() + "_" + v.Target.Machine().Identifier() + "_"
}

// Module is a go.mod of the package's own.
type Module = gomod.Module

// Error is a caller's fault: the part of the Spec and its fault.
type Error struct{ Thing, Problem string }

func (e *Error) Error() string { return "gen: " + e.Plain() }

// Plain is the text of e without the name of this package.
func (e *Error) Plain() string { return e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// Package is the files of s, sorted by name.
func Package(s Spec) ([]lower.File, error) {
	w, err := newWriter(s)
	if err != nil {
		return nil, err
	}
	files := []lower.File{w.api(), w.tests()}
	if len(s.Tensors) > 0 {
		files = append(files, w.tensors())
	}
	for _, arch := range w.arches {
		files = append(files, w.dispatch(arch), w.stubs(arch))
	}
	if len(w.arches) > 0 {
		files = append(files, w.noasm())
	}
	if w.hasShaders() {
		files = append(files, w.shaders()...)
	}
	asm, err := w.assembly()
	if err != nil {
		return nil, err
	}
	files = append(files, asm...)
	byName := func(a, b lower.File) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(files, byName)
	w.bind(files)
	if s.Module != nil {
		files = append(files, lower.File{Name: "go.mod", Data: s.Module.File()})
		slices.SortFunc(files, byName)
	}
	return files, nil
}

// writer is a Spec, checked and taken apart.
type writer struct {
	Spec
	arches   []string // that have targets: amd64, arm64
	products []product
	roles    []role
}

// product is a Product as the package's runtime data describe it.
type product struct {
	Product
	id       string // variable
	variants string // variable of its kernels
	shaders  []shaded
	spec     runtime.Spec
	problem  string // JSON
}

func newWriter(s Spec) (*writer, error) {
	w := &writer{Spec: s}
	if err := CheckPackage(s.Package); err != nil {
		return nil, errorf("package "+s.Package, "%v", err)
	}
	if m := s.Module; m != nil {
		if err := gomod.CheckPath(m.Path); err != nil {
			return nil, errorf(fmt.Sprintf("module %q", m.Path), "the go command does not take the path: %v", err)
		}
	}
	switch {
	case len(s.Products) == 0:
		return nil, errorf("package "+s.Package, "has no product")
	case strings.ContainsAny(s.Version, "\r\n"):
		return nil, errorf("version", "has more than one line")
	}
	names := map[string]string{"Products": "the list of all products"}
	if len(s.Tensors) > 0 {
		names["Tensors"] = "the list of the model's tensors"
	}
	var err error
	for _, p := range s.Products {
		q, err := w.product(p)
		if err != nil {
			return nil, err
		}
		w.products = append(w.products, q)
		if err := q.claim(names); err != nil {
			return nil, err
		}
	}
	if w.roles, err = rolesOf(s.Tensors, len(s.Products), names); err != nil {
		return nil, err
	}
	for _, arch := range arches {
		if slices.ContainsFunc(w.products, func(p product) bool { return len(p.on(arch)) > 0 }) {
			w.arches = append(w.arches, arch)
		}
	}
	return w, nil
}

// claim takes the names that p declares in the package.
func (p *product) claim(names map[string]string) error {
	declared := []string{p.id, p.variants, p.onDevice(), "Test" + p.id, "Example" + p.id}
	for _, f := range functions {
		declared = append(declared, p.Name+f.name)
	}
	for _, v := range p.spec.Variants {
		declared = append(declared, kernelNames(v)...)
	}
	for _, v := range p.shaders {
		declared = append(declared, v.variables()...)
	}
	for _, n := range declared {
		if other, taken := names[n]; taken {
			return errorf("product "+p.id, "declares %s, and so does %s: rename one", n, other)
		}
		names[n] = "product " + p.id
	}
	return nil
}

// kernelNames lists the names of v's kernels and of its preparation.
func kernelNames(v abi.Variant) (names []string) {
	for _, k := range v.Kernels {
		names = append(names, k.Name)
	}
	if v.Prepare != nil {
		names = append(names, v.Prepare.Name)
	}
	return names
}

// arches are the architectures that Go packages are written for.
var arches = []string{"amd64", "arm64"}

// on lists the indices of the targets of an architecture.
func (p *product) on(arch string) []int {
	var is []int
	for i, t := range p.Variants {
		if t.Target.Machine().Arch() == arch {
			is = append(is, i)
		}
	}
	return is
}

func (w *writer) product(p Product) (product, error) {
	p.Variants = slices.SortedStableFunc(slices.Values(p.Variants), func(a, b variant.Variant) int {
		return lower.Prefer(a.Target.Machine(), b.Target.Machine())
	})
	q := product{Product: p, id: p.Name, spec: runtime.Spec{Name: p.Name, Weight: p.Problem.Weight, Act: p.Problem.Act, LimitK: p.Problem.LimitK()}}
	if p.Name == "" {
		q.id, q.spec.Name = "Product", w.Package
	}
	thing := "product " + q.id
	if err := CheckProduct(p.Name); err != nil && (p.Name != "" || len(w.Products) > 1) {
		return q, errorf(thing, "%v", err)
	}
	if err := p.Problem.Validate(); err != nil {
		return q, errorf(thing, "%v", err)
	}
	text, err := json.Marshal(p.Problem)
	if err != nil {
		return q, errorf(thing, "%v", err)
	}
	q.problem = string(text)
	q.variants = strings.ToLower(q.id[:1]) + q.id[1:] + "Variants"
	for _, t := range p.Variants {
		v, err := q.variant(t)
		if err != nil {
			return q, err
		}
		q.spec.Variants = append(q.spec.Variants, v)
	}
	if len(p.Variants) == 0 {
		q.spec.Layouts = []*format.Layout{format.PlainLayout(p.Problem.Weight)}
	}
	for i := range p.Shaders {
		x, err := q.shader(&p.Shaders[i])
		if err != nil {
			return q, err
		}
		q.shaders = append(q.shaders, x)
	}
	all := q.spec
	for _, x := range q.shaders {
		all.Variants = append(all.Variants[:len(all.Variants):len(all.Variants)], x.Variant)
	}
	if err := all.Validate(); err != nil {
		return q, errorf(thing, "%v", err)
	}
	return q, nil
}

// variant describes t and adds its layout to the product's.
func (p *product) variant(t variant.Variant) (v abi.Variant, _ error) {
	m := t.Target.Machine()
	thing := "product " + p.id + ", target " + m.Name
	switch {
	case !slices.Contains(arches, m.Arch()) || !targetName.MatchString(m.ShortName()):
		return v, errorf(thing, "is not one that Go packages are written for")
	case len(t.Kernels) == 0:
		return v, errorf(thing, "has no kernel")
	case slices.ContainsFunc(p.spec.Variants, func(o abi.Variant) bool { return o.Target == m.Name }):
		return v, errorf(thing, "is there twice")
	}
	v = t.ABI(p.kernels(&t))
	for _, name := range kernelNames(v) {
		if err := CheckKernel(name); err != nil {
			return v, errorf(thing, "a kernel is called %q; %v", name, err)
		}
	}
	weights := t.Kernels[0].Schedule.Weights
	first := p.KernelName(&t, t.Kernels[0].Name())
	for _, k := range t.Kernels {
		s, name := k.Schedule, p.KernelName(&t, k.Name())
		switch {
		case s.Weights.Hash() != weights.Hash():
			return v, errorf(thing, "kernel %s reads another packed layout than %s: schedule all widths for one", name, first)
		case s.Fill != t.Kernels[0].Schedule.Fill:
			return v, errorf(thing, "groups are filled up to %d for kernel %s and %d for %s: schedule all widths for one", s.Fill, name, t.Kernels[0].Schedule.Fill, first)
		case s.Tables != nil && !reflect.DeepEqual(s.Tables, t.Tables()):
			return v, errorf(thing, "kernel %s reads other tables than another kernel: they share one preparation", name)
		case s.Tables != nil && (t.Prepare == nil || !reflect.DeepEqual(s.Tables, t.Prepare.Schedule.Tables)):
			return v, errorf(thing, "kernel %s reads tables that no kernel prepares", name)
		case !reflect.DeepEqual(s.Problem, p.Problem):
			return v, errorf(thing, "kernel %s was compiled for another problem", name)
		}
	}
	v.Layout = p.layout(weights)
	return v, nil
}
