package schedule

import (
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// QuantizeTable says in what type tables of activations are stored. "i16" is the type without this step. Tables of f32
// activations are "f32". "split" stores the lowest Low bits and the bits above them as two tables of bytes, which are
// looked up one after the other. Low is for "split" and "q8". With "split", 0 means 8 bits, or 7 of mirrored tables.
//
//	for part                                   for part
//	    sum1 += table[n, k, part][x]    ->         for half 2
//	                                                   sum1[half] += table[n, k, part, half][x]
//	                                           sum += sum1[half] << low*half
//
// "u8" are bytes that lose nothing. Entries are counted from the least of their unit. Half 0 is an entry up to 255, and
// half 1 is the rest, its residual. The loop half is around the run-time loop over K. For half 1, that loop takes only
// the values where there are residuals, from a list that the caller makes.
//
//	sum = 0                                    sum = -offsets[n]
//	for k                                      for half 2
//	    for part                       ->          for k, listed if half
//	        sum += table[n, k, part][x]                for part
//	                                                       sum += table[n, k, part, half][x]
//
// Products with groups of weights or activations have none: the sum of a group is scaled and
// rounded before the next one begins, and residuals, which are added after all bytes of a row, would have to be
// in it. To look up both bytes of each entry, group by group, is "split".
//
// "q8" are bytes that lose the lowest Low bits (as few as it takes for a byte if it is 0):
// entries are rounded to multiples of 2^Low, and the product is bounded, not exact. A
// table group is a group of activations, whose scale is that of its entries times 2^Low.
//
//	for part                                   for part
//	    sum1 += table[n, k, part][x]    ->         sum1 += table[n, k, part][x]      within 2^(low-1) each
//	                                           sum += sum1 << low
type QuantizeTable struct {
	Kind string `json:"kind"`
	Low  int    `json:"low,omitempty"`
}

// Apply implements Step.
func (x QuantizeTable) Apply(s *Product) (*Product, error) {
	if !slices.Contains([]string{"i16", "split", "u8", "q8", "f32"}, x.Kind) {
		return nil, illegal(x, x.Kind, "want i16, split, u8, q8 or f32")
	}
	if err := s.decomposed(x, x.Kind); err != nil {
		return nil, err
	}
	switch {
	case s.tables == nil:
		return nil, illegal(x, x.Kind, "the product has no tables")
	case s.tables.Split():
		return nil, illegal(x, x.Kind, "is split already")
	case s.tables.Residual:
		return nil, illegal(x, x.Kind, "has residuals already")
	case s.tables.Rounded():
		return nil, illegal(x, x.Kind, "is rounded to bytes already")
	case s.grown():
		return nil, illegal(x, x.Kind, "must come before steps that add accumulators, set their type or stage values")
	}
	switch floats := s.tables.Elem == format.F32; {
	case floats && x.Kind != "f32":
		return nil, illegal(x, x.Kind, "the activations are f32: want f32")
	case !floats && x.Kind == "f32":
		return nil, illegal(x, x.Kind, "the activations are int8: want i16, split, u8 or q8")
	case x.Kind == "split":
		return x.split(s)
	case x.Kind == "q8":
		return x.rounded(s)
	case x.Low != 0:
		return nil, illegal(x, x.Kind, "is not split into halves")
	case x.Kind == "u8":
		return x.residual(s)
	}
	return s, nil
}

func (x QuantizeTable) split(s *Product) (*Product, error) {
	if x.Low < 0 || x.Low > 8 {
		return nil, illegal(x, x.Kind, "a lower half of %d bits: want 1 to 8", x.Low)
	}
	t := *s.tables
	t.Low = x.Low
	switch {
	case x.Low == 0 && t.Mirror:
		t.Low = 7
	case x.Low == 0:
		t.Low = 8
	}
	return x.bytes(s, &t, 2)
}

func (x QuantizeTable) residual(s *Product) (*Product, error) {
	switch {
	case s.Problem.GroupK() > 0:
		return nil, illegal(x, x.Kind, "offsets and residuals are of whole rows: sums of groups are scaled, and rounded, before residuals would be added; use split")
	case s.hoisted:
		return nil, illegal(x, x.Kind, "must come before hoist_zero")
	}
	t := *s.tables
	t.Elem, t.Residual = format.U8, true
	c, err := x.bytes(s, &t, 2)
	if err != nil {
		return nil, err
	}
	planes := 0
	for _, coef := range t.Coef {
		planes += coef
	}
	offsets := ir.Read{T: offsetsTensor(), Index: []ir.Expr{ir.Axis{Name: "n"}, ir.I32(0)}}
	c.main().sum().Init = ir.Binary{Op: ir.Mul, X: offsets, Y: ir.I32(-planes)}
	return c, nil
}

// offsetsTensor is what tables with residuals count their entries from, summed over a row.
func offsetsTensor() *ir.Tensor {
	return &ir.Tensor{Name: "offsets", Elem: format.I32, Dims: []string{"n", "k"}, Block: -1}
}

func (x QuantizeTable) rounded(s *Product) (*Product, error) {
	if x.Low < 0 || x.Low > 8 {
		return nil, illegal(x, x.Kind, "entries without their lowest %d bits: want at most 8", x.Low)
	}
	t := *s.tables
	t.Elem, t.Low = format.I8, x.Low
	for x.Low == 0 && t.Low < 8 && t.Check() != nil {
		t.Low++
	}
	return x.bytes(s, &t, 1)
}

// bytes makes tables t, whose entries have one byte in each of the halves.
func (x QuantizeTable) bytes(s *Product, t *ir.Tables, halves int) (*Product, error) {
	for q := range t.Parts {
		if n := t.Stored(q); n > 256 {
			return nil, illegal(x, x.Kind, "part %d has %d entries: an index must be a byte", q, n)
		}
	}
	if err := t.Check(); err != nil {
		return nil, illegal(x, x.Kind, "%v", err)
	}
	c := s.clone()
	c.tables = t
	st := c.main()
	for i, l := range st.loops {
		if l.Name == halfLoop {
			st.loops[i].N = halves
		}
	}
	st.accumulators = st.accumulators[:st.made]
	c.indices()
	c.entries(st.lowest().Temp.Elem)
	c.recombine()
	return c, nil
}

// grown says that there are accumulators or staged values besides those that
// decompose made.
func (s *Product) grown() bool {
	st := s.main()
	_, half := s.find(halfLoop)
	return s.added() || len(st.staged) > 0 || st.loops[half].Kind != nest.Serial
}

// added says that there are accumulators besides those that decompose made, or that theirs
// have loops or types of their own.
func (s *Product) added() bool {
	made := s.main().made
	if s.recombined() {
		made++
	}
	levels, low := s.main().accumulators, s.main().lowest()
	return len(levels) != made || low.At != "" || low.Temp.Elem != s.main().sum().Temp.Elem
}

// Propose implements Proposer: each kind of entries, with the bits of lower halves or without which a few bits fit a byte.
func (x QuantizeTable) Propose(s State, _ Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || p.tables == nil {
		return nil
	}
	if p.Problem.Act.Floats() {
		return []Step{QuantizeTable{Kind: "f32"}}
	}
	out = append(out, QuantizeTable{Kind: "i16"}, QuantizeTable{Kind: "u8"})
	for _, low := range []int{8, 7, 6, 5, 4} {
		out = append(out, QuantizeTable{"split", low})
	}
	for _, low := range []int{3, 4, 5, 6} {
		out = append(out, QuantizeTable{"q8", low})
	}
	return out
}
