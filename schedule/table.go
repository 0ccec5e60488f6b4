package schedule

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// The loops of a product by tables besides those over rows, columns and K.
const (
	planeLoop = "plane" // bits of a code
	partLoop  = "part"  // tables of a unit
	halfLoop  = "half"  // halves of an entry
	digitLoop = "digit" // codes of a unit: no loop of the computation, but of the layout
)

// mostUnit bounds the elements of K that an index stands for.
const mostUnit = 64

// table makes the stage of the product by tables:
//
//	sum1[plane, half] += table[n, k, part, half][x]      x: the digits of a part
//	sum += sum1[plane, half] * coef[plane] << low*half
func (x Decompose) table(s *Product) error {
	p := s.Problem
	d, err := ir.Decompose(p.Weight, x.Value, x.Parts...)
	if err != nil {
		return illegal(x, x.Value, "%v", err)
	}
	unit := d.Digits()
	switch g := p.GroupK(); {
	case unit > mostUnit:
		return illegal(x, x.Family, "an index of %d elements of K, at most %d", unit, mostUnit)
	case g > 0 && g%unit != 0:
		return illegal(x, x.Family, "%d elements of K to an index do not divide a group of %d", unit, g)
	}
	s.tables = &ir.Tables{Decomposition: d, ByBit: x.Value == ir.DigitBits || x.Value == ir.DigitSigns, Elem: format.I16, Together: 1, Mirror: x.Mirror}
	if p.Act.Floats() {
		s.tables.Elem = format.F32
		err = x.floats(p.Act.Float, d)
	} else if err = d.Fits(p); err == nil {
		err = s.tables.Check()
	}
	if err != nil {
		return illegal(x, x.Value, "%v", err)
	}
	st := s.product(unit)
	for _, l := range []nest.Loop{{Name: planeLoop, N: len(d.Coef)}, {Name: partLoop, N: len(d.Parts)}, {Name: halfLoop, N: 1}} {
		l.Root, l.Coef = l.Name, 1
		st.loops = append(st.loops, l)
		st.reduce[l.Root] = true
	}
	s.stages = []*stage{st}
	s.indices()
	s.entries(p.SumType())
	st.sum().Flush = s.flushed(s.halved(ir.Read{T: st.sum().Temp}))
	s.recombine()
	return nil
}

// floats refuses digits of f32 activations whose tables would not add up what ir.Matmul
// does, in its order.
func (x Decompose) floats(by int, d ir.Decomposition) error {
	switch {
	case d.Bias != 0 || len(d.Coef) != 1 || d.Coef[0] != 1 || d.HalfOf != 1:
		return fmt.Errorf("digits of f32 activations must be the levels, with nothing to add or multiply; use codes or levels")
	case slices.ContainsFunc(d.Parts, func(n int) bool { return n != by }):
		return fmt.Errorf("parts %v would add f32 activations in another order: %d at once", d.Parts, by)
	case x.Mirror:
		return fmt.Errorf("entries of f32 are not negated; leave out mirror")
	}
	return nil
}

// unit is the number of elements of K that the innermost loops advance by.
func (s *Product) unit() int {
	if s.tables == nil {
		return 1
	}
	return s.tables.Digits()
}

// neighbours are the tables that one vector reads: of the lanes along K.
func (s *Product) neighbours() int {
	n := 1
	for _, l := range s.main().loops {
		if l.Root == "k" && (l.Kind == nest.Vector || l.Kind == nest.Dot) {
			n *= l.N
		}
	}
	return n
}

// indices sets the value x, the index into the table of the current part. With mirrored tables it also sets side, 1 if
// the entry is the negative of the stored one.
func (s *Product) indices() {
	values := s.main().values
	if !s.tables.Mirror {
		values["x"] = s.number(ir.Whole)
		return
	}
	values["x"], values["side"] = s.number(ir.Lower), s.number(ir.Upper)
}

// number is the number that the digits of the current part make, or part of it.
func (s *Product) number(of ir.JoinOf) ir.Expr {
	t := s.tables
	var parts []ir.Expr
	for q, n := range t.Parts {
		row := s.element("m")
		row[1] = ir.Binary{Op: ir.Add, X: row[1], Y: ir.I32(t.Start(q))}
		j := ir.Join{T: s.Problem.Tensors().Codes, Index: row, N: n, Radix: len(t.Alphabet), Of: of}
		if t.ByBit {
			j.Plane = ir.Axis{Name: planeLoop}
		}
		parts = append(parts, ir.Cast{T: s.indexType(), X: j})
	}
	return ir.Choose{By: ir.Axis{Name: partLoop}, Of: parts}
}

// indexType holds every index and is as wide as what it finds.
func (s *Product) indexType() format.DType {
	switch {
	case s.tables.Split(), s.tables.Residual, s.tables.Rounded():
		return format.U8
	case s.tables.Elem == format.F32:
		return format.U32
	}
	return format.U16
}

// entries sets the body: an entry of the current table, as a number of type t.
func (s *Product) entries(t format.DType) {
	st := s.main()
	at := []ir.Expr{ir.Axis{Name: "n"}, s.Problem.AllK(), ir.Axis{Name: partLoop}, nil, value("x", s.indexType())}
	var halves []ir.Expr
	for h, tensor := range tableTensors(s.tables) {
		idx := append([]ir.Expr(nil), at...)
		idx[3] = ir.I32(h)
		var entry ir.Expr = ir.Read{T: tensor, Index: idx}
		if s.tables.Mirror {
			entry = ir.Binary{Op: ir.NegIf, X: entry, Y: ir.Cast{T: tensor.Elem, X: value("side", s.indexType())}}
		}
		halves = append(halves, as(t, entry))
	}
	st.body = ir.Choose{By: ir.Axis{Name: halfLoop}, Of: halves}
}

// as is an entry as a number of type t; f32 is summed as it is.
func as(t format.DType, e ir.Expr) ir.Expr {
	if t == format.F32 {
		return e
	}
	return ir.Cast{T: t, X: e}
}

// tableTensors are the tables as kernels read them: whole entries, or low and high halves,
// or bytes and their residuals.
func tableTensors(t *ir.Tables) []*ir.Tensor {
	dims := []string{"n", "k", "part", "half", "entry"}
	whole := &ir.Tensor{Name: "table", Elem: t.Elem, Dims: dims}
	switch {
	case t.Residual:
		return []*ir.Tensor{whole, {Name: "residual", Elem: t.Elem, Dims: dims}}
	case !t.Split():
		return []*ir.Tensor{whole}
	}
	low := format.U8
	if t.Mirror {
		low = format.I8
	}
	return []*ir.Tensor{{Name: "table", Elem: low, Dims: dims}, {Name: "tabletop", Elem: format.I8, Dims: dims}}
}

// recombine keeps planes and halves apart until the end of the group.
func (s *Product) recombine() {
	d := s.tables
	if !s.recombined() {
		return
	}
	shift := d.Low + s.averages()
	keep := []nest.Keep{{Name: planeLoop}}
	if d.Split() {
		keep = append(keep, nest.Keep{Name: halfLoop})
	}
	s.main().insert(keep, func(t ir.Expr) ir.Expr {
		if len(d.Coef) > 1 || d.Coef[0] != 1 {
			t = ir.Binary{Op: ir.Mul, X: t, Y: ir.Lookup{Table: d.Coef, T: format.I32, X: ir.Axis{Name: planeLoop}}}
		}
		switch {
		case d.Split():
			t = ir.Binary{Op: ir.Shl, X: t, Y: ir.Lookup{Table: []int{0, d.Low}, T: format.I32, X: ir.Axis{Name: halfLoop}}}
		case shift > 0:
			t = ir.Binary{Op: ir.Shl, X: t, Y: ir.I32(shift)}
		}
		return t
	})
}

// recombined says that planes or halves have to be put together, or counted in more than 1.
func (s *Product) recombined() bool {
	return len(s.tables.Coef) > 1 || s.tables.Coef[0] != 1 || s.tables.Low+s.averages() > 0
}

// halved is the sum of a group. What was added up may be its double.
func (s *Product) halved(sum ir.Expr) ir.Expr {
	if s.tables != nil && s.tables.HalfOf == 2 {
		return ir.Binary{Op: ir.ShrS, X: sum, Y: ir.I32(1)}
	}
	return sum
}

// UnitK is the number of elements of K that the innermost loops advance by.
func (s *Product) UnitK() int { return s.unit() }

// IndexBits is the bits of an index into tables, 0 of a product without them.
func (s *Product) IndexBits() int {
	if s.tables == nil {
		return 0
	}
	return s.indexType().Bits()
}

// Looked is how many entries are looked up in each table of an index, nothing of products without tables.
func (s *Product) Looked() (out []int) {
	if s.tables == nil {
		return nil
	}
	for part := range s.tables.Parts {
		out = append(out, s.tables.Looked(part))
	}
	return out
}

// Rounds says that entries of tables, or their sums, are rounded, as far as was decided.
func (s *Product) Rounds() bool { return s.tables != nil && s.tables.Deviation()+s.averages() > 0 }

// Residual says that tables are bytes with residuals.
func (s *Product) Residual() bool { return s.tables != nil && s.tables.Residual }
