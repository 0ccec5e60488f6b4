package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Pack lays the weights out as one linear stream in the order of the given
// loops, outermost first: a run-time loop over rows (a tile), a run-time loop
// over K (a record), then constant loops; Fields are the loops inside one byte
// (or, if codes do not fill bytes, one cell of several words), outermost first.
// The word "words" in Order says where the words of a cell go. Scales and zero
// points follow the codes of their record, scales of whole rows lead their tile.
//
// Of 2-bit codes, in the order mt ks l j with fields f, where m = 16*mt + l and
// k = 16*ks + 4*f + j:
//
//	codes[m, k]    ->    tile mt, record ks, byte 4*l + j, bits 2*f and 2*f+1
//
// Map places the bits of a cell: "dense" (whole fields from bit 0 up, left-over
// bits strung together) or "planes" (bit i of every field in word i).
//
// Tensor "act" packs the activations instead: Chunk consecutive elements of a
// column lie together, columns of a block beside each other.
type Pack struct {
	Tensor string   `json:"tensor"`
	Order  []string `json:"order,omitempty"`
	Fields []string `json:"fields,omitempty"`
	Map    string   `json:"map,omitempty"`
	Chunk  int      `json:"chunk,omitempty"`
}

// Apply implements Step.
func (x Pack) Apply(s *State) (*State, error) {
	if err := s.decomposed(x, x.Tensor); err != nil {
		return nil, err
	}
	switch x.Tensor {
	case "codes":
		return x.codes(s)
	case "act":
		if x.Chunk < 4 || x.Chunk > 4096 || x.Chunk%4 != 0 {
			return nil, illegal(x, x.Tensor, "chunk %d: want a multiple of 4 up to 4096", x.Chunk)
		}
		if x.Order != nil || x.Fields != nil || x.Map != "" {
			return nil, illegal(x, x.Tensor, "takes a chunk only")
		}
		c := s.clone()
		c.chunk = x.Chunk
		return c, nil
	}
	return nil, illegal(x, x.Tensor, "no such tensor; have codes, act")
}

// cell is the part of a layout made from Fields.
func (x Pack) cell(bits, fields int) (m [][]format.BitPos, words int, err error) {
	switch x.Map {
	case "dense":
		return format.DenseMap(bits, fields)
	case "planes":
		if fields != 8 {
			return nil, 0, fmt.Errorf("bit planes have 8 fields, not %d", fields)
		}
		return format.PlaneMap(bits), bits, nil
	}
	return nil, 0, fmt.Errorf("no bit map %q; have dense, planes", x.Map)
}

func (x Pack) codes(s *State) (*State, error) {
	c := s.clone()
	st, w := c.main(), s.Problem.Weight
	if c.weights != nil {
		return nil, illegal(x, x.Tensor, "already packed")
	}
	fields, nf := []format.Digit{}, 1 // not nil, even for a single field: codes are bits
	var used []string
	loop := func(name string) (nest.Loop, error) {
		i := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Name == name })
		if i < 0 || st.loops[i].Root == "n" {
			return nest.Loop{}, illegal(x, name, "no such loop over rows or K")
		}
		if slices.Contains(used, name) {
			return nest.Loop{}, illegal(x, name, "named twice")
		}
		used = append(used, name)
		return st.loops[i], nil
	}
	for _, name := range slices.Backward(x.Fields) {
		l, err := loop(name)
		if err != nil {
			return nil, err
		}
		if l.N == 0 {
			return nil, illegal(x, name, "a field loop needs a constant trip count")
		}
		if l.N > 1 {
			fields = append([]format.Digit{c.digit(l, nf)}, fields...)
		}
		nf *= l.N
	}
	if nf > 64 {
		return nil, illegal(x, x.Tensor, "%d fields in a cell", nf)
	}
	bitmap, words, err := x.cell(w.Bits, nf)
	if err != nil {
		return nil, illegal(x, x.Tensor, "%v", err)
	}
	if len(x.Order) < 2 {
		return nil, illegal(x, x.Tensor, "the order wants a tile loop and a record loop")
	}
	var loops []nest.Loop
	for _, name := range x.Order {
		if name == "words" {
			if slices.Contains(used, name) {
				return nil, illegal(x, name, "named twice")
			}
			used = append(used, name)
			loops = append(loops, nest.Loop{Name: name, N: words})
			continue
		}
		l, err := loop(name)
		if err != nil {
			return nil, err
		}
		loops = append(loops, l)
	}
	for _, l := range st.loops {
		if l.Root != "n" && !slices.Contains(used, l.Name) {
			return nil, illegal(x, l.Name, "is not in the layout")
		}
	}
	tile, record := loops[0], loops[1]
	switch {
	case tile.Root != "m" || tile.N != 0:
		return nil, illegal(x, tile.Name, "the first loop must be the run-time loop over rows")
	case record.N != 0 || record.Root == "m" || record.Root == "":
		return nil, illegal(x, record.Name, "the second loop must be the run-time loop over K: one linear stream")
	case words > 1 && !slices.Contains(x.Order, "words"):
		return nil, illegal(x, x.Tensor, "a cell has %d words: say where they go in the order", words)
	}
	lay := &format.Layout{TileM: tile.Coef, RecordK: c.fullCoef(record)}
	codes := format.Part{Name: "codes", Map: bitmap, Fields: fields, WordStride: 1}
	size := c.place(&codes, loops[2:], 1)
	lay.RecordBytes = size
	lay.Parts = append(lay.Parts, codes)
	if err := x.scales(c, lay, loops[2:], fields); err != nil {
		return nil, err
	}
	for i := range lay.Parts {
		lay.Parts[i].Digits = merge(lay.Parts[i].Digits)
	}
	if err := lay.Validate(); err != nil {
		return nil, illegal(x, x.Tensor, "%v", err)
	}
	c.weights, c.packed = lay, x
	return c, nil
}

// merge joins digits that continue each other, so that a layout does not depend
// on how the loops that made it are split.
func merge(digits []format.Digit) []format.Digit {
	ds := slices.DeleteFunc(digits, func(d format.Digit) bool { return d.Mod == 1 })
	slices.SortFunc(ds, func(a, b format.Digit) int {
		if c := strings.Compare(a.Axis, b.Axis); c != 0 {
			return c
		}
		return b.Div - a.Div
	})
	var out []format.Digit
	for _, d := range ds {
		if n := len(out); n > 0 {
			up := &out[n-1]
			if up.Axis == d.Axis && up.Div == d.Div*d.Mod && up.Stride == d.Stride*d.Mod {
				*up = format.Digit{Axis: d.Axis, Div: d.Div, Mod: up.Mod * d.Mod, Stride: d.Stride}
				continue
			}
		}
		out = append(out, d)
	}
	return out
}

// digit is the digit of the logical index that l counts.
func (s *State) digit(l nest.Loop, stride int) format.Digit {
	axis := "k"
	if l.Root == "m" {
		axis = "m"
	}
	return format.Digit{Axis: axis, Div: s.fullCoef(l), Mod: l.N, Stride: stride}
}

// loopOf is the loop that counts a digit: after pack, loops stay as they are.
func (s *State) loopOf(d format.Digit) nest.Loop {
	for _, l := range s.main().loops {
		if l.Root == "n" {
			continue
		}
		if have := s.digit(l, d.Stride); have == d {
			return l
		}
	}
	panic(fmt.Sprintf("BUG: schedule: no loop counts the fields (%s / %d) mod %d", d.Axis, d.Div, d.Mod))
}

// place gives the loops of a part strides of elem bytes and up, innermost
// first, and returns the size.
func (s *State) place(p *format.Part, loops []nest.Loop, elem int) int {
	size := elem
	for _, l := range slices.Backward(loops) {
		if l.Name == "words" {
			p.WordStride = size
		} else {
			p.Digits = append([]format.Digit{s.digit(l, size)}, p.Digits...)
		}
		size *= l.N
	}
	return size
}

// scales adds the parts for scales and zero points.
func (x Pack) scales(s *State, lay *format.Layout, order []nest.Loop, fields []format.Digit) error {
	w := s.Problem.Weight
	var rows, groups []nest.Loop
	all := slices.Clone(order)
	for _, d := range fields {
		all = append(all, s.loopOf(d))
	}
	for _, l := range all {
		switch {
		case l.Root == "m":
			rows, groups = append(rows, l), append(groups, l)
		case l.Name == "words" || w.Per != format.PerGroup || s.fullCoef(l)*l.N <= w.Group:
		case s.fullCoef(l)%w.Group == 0:
			groups = append(groups, l)
		default:
			return illegal(x, l.Name, "straddles the weight groups of %d", w.Group)
		}
	}
	// Rows in their natural order, so that the scales of neighbouring lanes are neighbours.
	natural := func(a, b nest.Loop) int {
		if a.Root == "m" && b.Root == "m" {
			return b.Coef - a.Coef
		}
		return strings.Compare(a.Root, b.Root) // g, k, m
	}
	slices.SortStableFunc(rows, natural)
	slices.SortStableFunc(groups, natural)
	if w.Per != format.PerGroup {
		p := format.Part{Name: "scales", Elem: w.Scale, Header: true}
		lay.HeaderBytes = s.place(&p, rows, w.Scale.Bytes())
		lay.Parts[0].Base = lay.HeaderBytes // record parts follow the header
		lay.Parts = append(lay.Parts, p)
		return nil
	}
	if lay.RecordK%w.Group != 0 {
		return illegal(x, x.Order[1], "a record of %d is not a whole number of weight groups of %d", lay.RecordK, w.Group)
	}
	p := format.Part{Name: "scales", Elem: w.Scale, Base: lay.RecordBytes}
	lay.RecordBytes += s.place(&p, groups, w.Scale.Bytes())
	lay.Parts = append(lay.Parts, p)
	if w.Zero {
		z := format.Part{Name: "zeros", Elem: format.I8, Base: lay.RecordBytes}
		lay.RecordBytes += s.place(&z, groups, 1)
		lay.Parts = append(lay.Parts, z)
	}
	return nil
}
