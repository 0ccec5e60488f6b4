package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// FillGroups fills groups up to To elements of K, so that cells and codewords that do not divide them fit: the kernel
// reads activations that are 0 there, and codes that count nothing. Packed matrices have room for them, but callers neither give
// nor get them. It comes before decompose.
//
//	for g                      for g
//	    for k 256      ->          for k 260
//	        s[256*g+k]                 s[256*g+k] if k < 256, else 0
type FillGroups struct {
	To int `json:"to"`
}

// Apply implements Step.
func (x FillGroups) Apply(s *Product) (*Product, error) {
	switch {
	case len(s.stages) > 0:
		return nil, illegal(x, "groups", "fill them before decompose")
	case s.fill != nil:
		return nil, illegal(x, "groups", "already filled")
	}
	c := s.clone()
	var err error
	if c.Problem, err = s.Problem.Filled(x.To); err != nil {
		return nil, illegal(x, "groups", "%v", err)
	}
	c.fill = &fill{s.Problem, s.Problem.GroupK(), x.To}
	return c, nil
}

// fill is how many elements of K groups have, and with those that fill them.
type fill struct {
	of        ir.Problem // as it was
	group, to int
}

// FilledK is the number of element i of K as k counts them.
func (k *Kernel) FilledK(i int) int {
	if k.Fill == 0 {
		return i
	}
	g := k.Problem.GroupK()
	return i/g*k.Fill + i%g
}

// stored is the layout of the matrix by elements that there are, from one by those that kernels count.
func (f *fill) stored(of *format.Layout) *format.Layout {
	if f == nil {
		return of
	}
	l := *of
	l.RecordK = of.RecordK / f.to * f.group
	l.Parts = nil
	for _, p := range of.Parts {
		p.Digits, p.Fields = f.digits(p.Digits), f.digits(p.Fields)
		l.Parts = append(l.Parts, p)
	}
	return &l
}

// digits are the digits of an index that does not count the elements that fill groups: digits within a group, and
// digits of the number of the group.
func (f *fill) digits(filled []format.Digit) (out []format.Digit) {
	for _, d := range filled {
		switch size := d.Div * d.Mod; {
		case d.Axis != "k" || size <= f.to && f.group%size == 0:
		case d.Div%f.to == 0:
			d.Div = d.Div / f.to * f.group
		case size <= f.to:
			d.In = f.group
		default: // it counts groups too
			n := f.to / d.Div
			out = append(out, format.Digit{Axis: d.Axis, Div: f.group, Mod: d.Mod / n, Stride: d.Stride * n})
			d.In, d.Mod = f.group, n
		}
		if d.In == f.group { // the values of elements that there are
			d.Mod = min(d.Mod, (f.group+d.Div-1)/d.Div)
		}
		out = append(out, d)
	}
	return out
}

// Propose implements Proposer: lengths that are whole cells of codewords, whose fields are four elements of K, eight, or all of a vector.
func (x FillGroups) Propose(s State, m Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || p.Problem.GroupK() == 0 || len(p.stages) > 0 {
		return nil
	}
	g := p.Problem.SpanK()
	for _, n := range p.CellSizes() {
		for _, along := range []int{4, 8, 4 * m.Lanes(32)} {
			to := Step(FillGroups{(g + n*along - 1) / (n * along) * n * along})
			if _, err := to.Apply(p); err == nil && !slices.Contains(out, to) {
				out = append(out, to)
			}
		}
	}
	return out
}
