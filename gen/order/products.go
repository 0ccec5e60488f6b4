package order

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// Product is a product to compile, and the matrices that need it.
type Product struct {
	Problem ir.Problem
	Traces  map[string]Trace // by the name of the target; other targets have default schedules
	Shapes  []Shape          // of the matrices; empty for a product that no matrix of a model needs

	name     string         // that -kernel gave it, or ""
	asks     string         // who asks for the largest K of Problem
	targeted bool           // each trace came with its target
	sizes    map[[2]int]int // index into Shapes, by rows and columns
}

// Trace is a schedule, and the file that it was read from.
type Trace struct {
	Path string
	schedule.Trace
}

// Shape is the matrices of one size.
type Shape struct {
	M       int      `json:"m"` // rows
	K       int      `json:"k"` // columns
	Tensors []string `json:"tensors"`
	Count   int      `json:"count"` // of matrices: a tensor of a file may hold several, and a model has most in each layer
}

// Name is the name of the product in Go: "W4G32".
func (w *Product) Name() string { return cmp.Or(w.name, productName(w.Problem.Name())) }

// Label is what messages call the product: the name that -kernel gave it, or its format, "w4-g32". The names
// of its kernels begin with it.
func (w *Product) Label() string { return cmp.Or(w.name, w.Problem.Name()) }

// Trace is the schedule that was given for t, or nil.
func (w *Product) Trace(t lower.Selector) schedule.Trace { return w.Traces[t.Machine().Name].Trace }

// Traced names the targets among ts that a schedule was given for, or nil.
func (w *Product) Traced(ts []lower.Selector) (names []string) {
	for _, t := range ts {
		if w.Trace(t) != nil {
			names = append(names, t.Machine().Name)
		}
	}
	return names
}

// Blamed adds to err, an error of compiling w, who asks for so large a K. Only errors about sums that could
// overflow, for a K larger than usual, are changed.
func (w *Product) Blamed(err error) error {
	if k := w.Problem.LimitK(); k > ir.DefaultMaxK && errors.As(err, new(*schedule.Overflow)) {
		return fmt.Errorf("%w (%s for K up to %d)", err, w.asks, k)
	}
	return err
}

// productName makes the name of a product in Go from the name of its format: "w4-g32" becomes W4G32.
func productName(format string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(format, func(r rune) bool { return r == '-' || r == '_' || r == '.' }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	if name := b.String(); name != "" && 'A' <= name[0] && name[0] <= 'Z' {
		return name
	}
	return "F" + b.String()
}

// want adds count matrices of m rows and k columns to the product for p. If m is 0, it adds the product only.
func (o *Order) want(p ir.Problem, tensor string, m, k, count int) error {
	if k > format.MostK {
		return fmt.Errorf("has K %d; products take K up to %d", k, format.MostK)
	}
	asks := "-max-k asks"
	if err := setMaxK(&p, o.options.MaxK); err != nil {
		return err
	}
	if k > p.LimitK() {
		asks = "tensor " + tensor + " asks"
		if err := setMaxK(&p, k); err != nil {
			return err
		}
	}
	w, err := o.productFor(p)
	if err != nil {
		return err
	}
	if p.MaxK >= w.Problem.MaxK {
		w.Problem.MaxK, w.asks = p.MaxK, asks
	}
	if m > 0 {
		w.add(tensor, m, k, count)
	}
	return nil
}

// productFor finds the product of the format of p, or makes it.
func (o *Order) productFor(p ir.Problem) (*Product, error) {
	for _, w := range o.Products {
		if w.name == "" && w.Name() == productName(p.Name()) {
			return w, sameFormat(w.Problem, p)
		}
	}
	w := &Product{Problem: p, Traces: map[string]Trace{}, sizes: map[[2]int]int{}}
	o.Products = append(o.Products, w)
	return w, nil
}

// add adds count matrices of m rows and k columns.
func (w *Product) add(tensor string, m, k, count int) {
	i, ok := w.sizes[[2]int{m, k}]
	if !ok {
		i = len(w.Shapes)
		w.sizes[[2]int{m, k}] = i
		w.Shapes = append(w.Shapes, Shape{M: m, K: k})
	}
	s := &w.Shapes[i]
	s.Tensors, s.Count = append(s.Tensors, tensor), s.Count+count
}

// sameFormat says why p and q are different products, although the names of both in Go are the same.
func sameFormat(p, q ir.Problem) error {
	q.MaxK = p.MaxK
	switch {
	case p.Name() != q.Name():
		return fmt.Errorf("formats %s and %s: both make product %s; name one with -kernel", p.Name(), q.Name(), productName(q.Name()))
	case !reflect.DeepEqual(p, q):
		return fmt.Errorf("format %s: there are two different ones of this name; rename one", q.Name())
	}
	return nil
}

// setMaxK sets the largest K of p to k; 0 leaves the usual one.
func setMaxK(p *ir.Problem, k int) error {
	if k == 0 {
		return nil
	}
	p.MaxK = k
	return p.Validate()
}
