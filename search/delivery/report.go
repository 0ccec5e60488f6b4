package delivery

import (
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/bench"
)

// Report is what became of an order. As JSON it is what tmacc compile -json prints.
type Report struct {
	Package  string       `json:"package"`
	Dir      string       `json:"dir"`
	Module   string       `json:"module,omitempty"` // path of the package's own module
	Files    []string     `json:"files"`            // of the package, after Write or Differences
	Products []Product    `json:"products"`
	Floats   []string     `json:"floats,omitempty"`      // matrices of floats in files, which package runtime/ops multiplies
	Others   []string     `json:"no_matrices,omitempty"` // tensors of files
	Left     []order.Left `json:"left_out,omitempty"`
	Tested   bool         `json:"-"` // the package builds, vets and passes its tests
	NotHere  []string     `json:"-"` // targets that this machine does not run
}

// Product is a product of the package.
type Product struct {
	Name     string        `json:"name"` // in Go
	Format   string        `json:"format"`
	Tuned    []string      `json:"tuned,omitempty"`    // targets whose schedules are locked
	Traced   []string      `json:"traced,omitempty"`   // targets whose schedule was given
	Recorded []string      `json:"recorded,omitempty"` // targets whose schedules are a record's; all others have the default ones
	ActGroup int           `json:"act_group"`          // activations that share a scale; 0: a whole row
	Shapes   []order.Shape `json:"shapes,omitempty"`
	Kernels  []Kernel      `json:"kernels,omitempty"` // once they are compiled
}

// Kernel is a kernel of a product for a target.
type Kernel struct {
	Name   string         `json:"name"`
	Target string         `json:"target"`
	Rows   int            `json:"rows"`                   // of a tile
	Cols   int            `json:"cols"`                   // of a tile: activations
	Bits   float64        `json:"bits_per_weight"`        // of codes
	Stored float64        `json:"stored_bits_per_weight"` // of codes and scales
	Exact  Exactness      `json:"exact"`
	Trace  schedule.Trace `json:"trace"`
	Speed  *Speed         `json:"speed,omitempty"` // on this machine; nil: not measured
}

// Report says what was made so far. Before Compile, products have no kernels.
func (x *Package) Report() Report {
	r := Report{Package: x.Name, Dir: x.Dir, Files: []string{}, Products: []Product{}, Floats: x.Order.Floats, Others: x.Order.Others, Left: x.Order.Left, Tested: x.tested}
	if x.module != nil {
		r.Module = x.module.Path
	}
	for _, f := range x.files {
		r.Files = append(r.Files, f.Name)
	}
	for _, w := range x.products {
		r.Products = append(r.Products, x.reportProduct(w))
	}
	for _, t := range x.Targets {
		if lacks(t) != "" {
			r.NotHere = append(r.NotHere, t.Machine().Name)
		}
	}
	return r
}

func (x *Package) reportProduct(w *product) Product {
	p := Product{Name: w.compiled.Name, Format: w.Problem.Name(), Traced: w.Traced(x.selectors()), Recorded: w.recorded, ActGroup: w.Problem.Act.Group, Shapes: w.Shapes}
	for i := range w.compiled.Variants {
		v := &w.compiled.Variants[i]
		if x.locked(w, v.Target) != nil {
			p.Tuned = append(p.Tuned, v.Target.Machine().Name)
		}
		p.Kernels = append(p.Kernels, x.reportKernels(w, v)...)
	}
	for i := range w.compiled.Shaders {
		v := &w.compiled.Shaders[i]
		if e := x.lock.Find(w.Problem, v.Target); w.Trace(v.Target) == nil && e != nil && e.For(w.Problem) {
			p.Tuned = append(p.Tuned, v.Target.Machine().Name)
		}
		p.Kernels = append(p.Kernels, x.reportShaders(w, v)...)
	}
	return p
}

func (x *Package) reportKernels(w *product, v *variant.Variant) (kernels []Kernel) {
	_, atK := w.largest()
	for _, k := range v.Kernels {
		s, name := k.Schedule, w.compiled.KernelName(v, k.Name())
		r := Kernel{Name: name, Target: v.Target.Machine().Name, Rows: s.Rows, Cols: s.Cols, Bits: s.Weights.Part(format.Codes).CodeBits(),
			Stored: bench.StoredBits(s.Weights, atK), Exact: x.exact[name], Trace: s.Trace}
		if speed, ok := x.speeds[name]; ok {
			r.Speed = &speed
		}
		kernels = append(kernels, r)
	}
	return kernels
}
