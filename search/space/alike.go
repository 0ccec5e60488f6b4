package space

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
)

// What tiles decide if they read packed matrices of other kernels: a record of those is the run-time loop, and lanes take it in turns.

// fieldAlong is how far apart in elements of K the fields of a cell are, and how many: 0 and 1 if a cell has no fields along K.
func fieldAlong(l *format.Layout) (apart, count int) {
	count = 1
	for _, d := range l.Part(format.Codes).Fields {
		if d.Axis == "k" {
			if apart == 0 || d.Div < apart {
				apart = d.Div
			}
			count *= d.Mod
		}
	}
	return apart, count
}

// turns are numbers of matrices in depth that lanes take in a turn.
var turns = []int{4, 2, 8, 1}

// iterationOf: a record is divided into turns. Fields of cells that lie farther apart than a matrix is deep are decoded in one turn.
func (g tileGrid) iterationOf(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	d, k, l := g.depth(s), open(s, "k"), g.like.Weights
	if d == 0 {
		return nil
	}
	if k.N > 0 {
		groups := l.RecordK / k.N // whole ones: a record may be a part of a block of groups
		for _, n := range turns {
			switch size := max(n*d/k.N, 1); {
			case groups == 0:
			case groups == size:
				out = append(out, schedule.Trace{split("g", groups, "gt", "gi")})
			case groups%size == 0:
				out = append(out, schedule.Trace{split("g", groups, "gt", "gg"), split("gg", size, "gr", "gi")})
			}
		}
		return out
	}
	first := schedule.Trace{split(k.Name, l.RecordK, "ks", "kk")}
	apart, fields := fieldAlong(l)
	rest, name := l.RecordK, "kk"
	if apart >= d {
		if apart*fields < rest {
			first = append(first, split("kk", apart*fields, "ku", "kk"))
		}
		first = append(first, split("kk", apart, "f", "kd"))
		rest, name = apart, "kd"
	} else {
		fields = 1
	}
	for _, n := range turns {
		switch size := max(n/fields, 1) * d; {
		case rest == size:
			out = append(out, slices.Clip(first))
		case rest%size == 0:
			out = append(out, append(slices.Clip(first), split(name, size, "kr", "kx")))
		}
	}
	return out
}

// fieldsOf: the rest of the elements of a turn, or of a group, is the depth of matrices.
func (g tileGrid) fieldsOf(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	d, k := g.depth(s), open(s, "k")
	if d == 0 {
		return nil
	}
	add := func(t schedule.Trace, name string, rest int) {
		if rest%d != 0 || rest == 0 {
			return
		}
		if loop(s, "f").N > 0 || name == "kd" {
			t = append(slices.Clip(t), bind("f", "unrolled"))
		}
		out = append(out, append(slices.Clip(t), split(name, d, "u", "d"), bind("u", "unrolled"),
			schedule.Tensorize{Loop: "d", To: "tile", Rows: "i", Columns: "j", Lanes: g.lanes}))
	}
	if loop(s, "gi").N == 0 {
		add(nil, k.Name, k.N)
		return out
	}
	t := schedule.Trace{bind("gi", "unrolled")}
	switch apart, fields := fieldAlong(g.like.Weights); {
	case apart < d:
		if part := 4 * d; k.N > longGroup && loop(s, "gi").N == 1 && k.N%part == 0 && k.N > part {
			add(append(slices.Clip(t), split(k.Name, part, "kr", "kk")), "kk", part)
		}
		add(t, k.Name, k.N)
	case apart*fields < k.N:
		parts := append(slices.Clip(t), split(k.Name, apart*fields, "ku", "kk"))
		in := split("kk", apart, "f", "kd")
		if k.N > longGroup && loop(s, "gi").N == 1 {
			add(append(slices.Clip(parts), in), "kd", apart)
		}
		add(append(slices.Clip(parts), bind("ku", "unrolled"), in), "kd", apart)
	default:
		add(append(t, split(k.Name, apart, "f", "kd")), "kd", apart)
	}
	return out
}

// spot is a loop, or a part of one, where it moves codes: by some bytes, or from field to field.
type spot struct {
	name   string
	stride int // bytes, fields, or of tiles side by side rows
	field  bool
	side   bool
}

// packAlike: codes lie as in the layout that is read. Loops are taken in the order of its strides, in two parts where these change.
func (g tileGrid) packAlike(s schedule.State, m schedule.Machine) (out []schedule.Trace) {
	l := g.like.Weights
	codes := l.Part(format.Codes)
	var own schedule.Pack
	for _, x := range g.like.Trace {
		if p, ok := x.(schedule.Pack); ok && p.Tensor == "codes" {
			own = p
		}
	}
	var all []spot
	if words := words(codes); words > 1 {
		all = append(all, spot{name: "words", stride: codes.WordStride})
	}
	for _, x := range s.Loops() {
		if x.N == 0 || x.N == 1 || x.Root != "m" && x.Root != "k" && x.Root != "g" {
			continue
		}
		parts, ok := placesOf(s, x, l, codes)
		if !ok {
			return nil
		}
		all = append(all, parts...)
	}
	slices.SortStableFunc(all, func(a, b spot) int { return cmp.Compare(b.stride, a.stride) })
	order := []string{"mt"}
	for _, x := range all {
		if x.side {
			order = append(order, x.name)
		}
	}
	order = append(order, present(s, "ks", "gt")...)
	record := len(order)
	own.Order, own.Fields, own.Alike = order, nil, true
	for _, x := range s.Loops() { // of one iteration
		if x.N == 1 && (x.Root == "m" || x.Root == "k" || x.Root == "g") {
			own.Order = append(own.Order, x.Name)
		}
	}
	for _, x := range all {
		switch {
		case x.field:
			own.Fields = append(own.Fields, x.name)
		case !x.side:
			own.Order = append(own.Order, x.name)
		}
	}
	if !slices.ContainsFunc(g.like.Trace, func(x schedule.Step) bool {
		p, ok := x.(schedule.Pack)
		return ok && slices.Contains(p.Order, "shared")
	}) {
		return []schedule.Trace{{own}}
	}
	for at := record + 1; at <= len(own.Order); at++ {
		x := own
		x.Order = slices.Insert(slices.Clone(own.Order), at, "shared")
		if next, err := after(s, schedule.Trace{x}); err == nil && next.(*schedule.Product).Buffers() == g.like.Buffers() {
			out = append(out, schedule.Trace{x})
		}
	}
	return out
}

// words is how many words a cell has.
func words(codes *format.Part) int {
	n := 0
	for _, bits := range codes.Map {
		for _, b := range bits {
			n = max(n, b.Word+1)
		}
	}
	return n
}

// placesOf takes a loop apart where the digits of a layout are. It is not ok if codes lie in no such steps.
func placesOf(s schedule.State, x nest.Loop, l *format.Layout, codes *format.Part) (parts []spot, ok bool) {
	coef, axis := x.Coef, "k"
	switch x.Root {
	case "m":
		axis = "m"
	case "g":
		coef *= s.(*schedule.Product).Problem.GroupK()
	}
	var cuts []int
	for _, d := range slices.Concat(codes.Digits, codes.Fields) {
		for _, at := range []int{d.Div, d.Div * d.Mod} {
			if d.Axis != axis || d.In != 0 || at <= coef || at >= coef*x.N {
				continue
			}
			if at%coef != 0 {
				return nil, false
			}
			cuts = append(cuts, at/coef)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i, by := range append([]int{1}, cuts...) {
		in := x.N
		if i < len(cuts) {
			in = cuts[i]
		}
		if in%by != 0 {
			return nil, false
		}
		name := x.Name
		if in < x.N {
			name += fmt.Sprint("%", in)
		}
		if by > 1 {
			name += fmt.Sprint("/", by)
		}
		p, ok := placeOf(name, axis, coef*by, l.TileM, codes)
		if !ok {
			return nil, false
		}
		parts = append(parts, p)
	}
	slices.Reverse(parts) // outermost first
	return parts, true
}

// placeOf is where a step of some elements along an axis moves codes.
func placeOf(name, axis string, coef, tile int, codes *format.Part) (spot, bool) {
	if axis == "m" && coef >= tile {
		return spot{name: name, stride: coef, side: true}, true
	}
	find := func(digits []format.Digit) (int, bool) {
		for _, d := range digits {
			if d.Axis == axis && d.Div <= coef && coef < d.Div*d.Mod {
				return d.Stride * (coef / d.Div), true
			}
		}
		return 0, false
	}
	if n, ok := find(codes.Fields); ok {
		return spot{name: name, stride: n, field: true}, true
	}
	n, ok := find(codes.Digits)
	return spot{name: name, stride: n}, ok
}
