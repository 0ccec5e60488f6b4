package schedule

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Unfinished reports a trace that leaves something open.
type Unfinished struct{ Thing, Remedy string }

func (e *Unfinished) Error() string { return e.Thing + ": " + e.Remedy }

func (s *Product) complete() error {
	switch {
	case len(s.stages) == 0:
		return &Unfinished{"trace", "has no decompose"}
	case s.weights == nil:
		return &Unfinished{"trace", "has no pack of the codes"}
	case s.Problem.Weight.Zero && !s.hoisted:
		return &Unfinished{"zero points", "need hoist_zero: level - zero does not fit a byte"}
	case s.bias() != 0 && !s.hoisted:
		return &Unfinished{"digits", "leave a bias to the activation sums: hoist_zero"}
	}
	st := s.main()
	dot := 0
	for i, l := range st.loops {
		switch {
		case l.N == 0 && !st.reduce[l.Root] && !l.Kind.Outside():
			return &Unfinished{"loop " + l.Name, "counts rows or columns at run time: bind it outer"}
		case l.Kind.Outside() && i > 0 && !st.loops[i-1].Kind.Outside():
			return &Unfinished{"loop " + l.Name, "outer loops come first"}
		case l.Kind == nest.Lane && !st.reduce[l.Root] && i > 0 && !st.loops[i-1].Kind.Outside() && st.loops[i-1].Kind != nest.Lane:
			return &Unfinished{"loop " + l.Name, "lanes of rows come right after outer loops"}
		case l.Kind == nest.Dot:
			dot = l.N
		case l.Kind == nest.Pair && !st.halves():
			return &Unfinished{"loop " + l.Name, "a pair becomes two registers of twice the width: accumulate in half the bits of the accumulator above"}
		}
	}
	if err := s.groupOrder(); err != nil {
		return err
	}
	if err := st.groups("act", s.shared); err != nil {
		return err
	}
	if err := st.groups("w", s.decoded); err != nil {
		return err
	}
	for _, x := range s.scales {
		if err := st.groups("scales", x.At); err != nil {
			return err
		}
	}
	tile, err := s.completeTile()
	if err != nil {
		return err
	}
	if s.Problem.Act.Floats() {
		if err := st.inOrder(); err != nil {
			return err
		}
	}
	if s.tables != nil && s.tables.Residual {
		if err := st.halvesOutside(); err != nil {
			return err
		}
	}
	if s.tables != nil {
		return st.repeated(planeLoop, partLoop, halfLoop)
	}
	if tile {
		return nil
	}
	return s.completeDot(dot)
}

// completeTile checks the loops of a tile, if there is one: they are the innermost ones, rows first, and what lanes hold together
// is read from what they share.
func (s *Product) completeTile() (is bool, err error) {
	st := s.main()
	i := slices.IndexFunc(st.loops, func(l nest.Loop) bool { return l.Kind == nest.Tile })
	if i < 0 {
		return false, nil
	}
	var roots string
	for _, l := range st.loops[i:] {
		if roots += l.Root; l.Kind != nest.Tile {
			return true, &Unfinished{"loop " + l.Name, "the loops of a tile are the innermost ones"}
		}
	}
	switch {
	case roots != "mnk":
		return true, &Unfinished{"tile", "has its rows first, then its columns, then what it sums over"}
	case st.lowest().Temp.Elem != format.I32:
		return true, &Unfinished{"tile", "sums to 32 bits: accumulate i32"}
	case st.holders > 0 && s.decoded == "":
		return true, &Unfinished{"tile", "is held by lanes that have no weights of their own: stage w, shared"}
	}
	return true, nil
}

// groups: workgroups have tiles of rows. Their lanes share something at a loop that is there.
func (st *stage) groups(value, shared string) error {
	has := func(kind nest.Kind, root string) bool {
		return slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Kind == kind && (root == "" || l.Root == root) })
	}
	if (has(nest.Group, "") || has(nest.Lane, "") || st.holders > 0) && (!has(nest.Group, "m") || has(nest.Outer, "m")) {
		return &Unfinished{"groups and lanes", "need the tiles of rows bound to group"}
	}
	if shared != "" && !slices.ContainsFunc(st.loops, func(l nest.Loop) bool { return l.Name == shared && l.Kind == nest.Serial }) {
		return &Unfinished{"stage " + value + " at " + shared, "needs a serial loop of this name"}
	}
	if shared != "" && !has(nest.Lane, "") && st.holders == 0 {
		return &Unfinished{"stage " + value, "needs lanes that share what they read"}
	}
	return nil
}

// halves says that the lowest accumulator is half as wide as the one above.
func (st *stage) halves() bool {
	n := len(st.accumulators)
	return n > 1 && 2*st.accumulators[n-1].Temp.Elem.Bits() == st.accumulators[n-2].Temp.Elem.Bits()
}

// halvesOutside: the run-time loop over K, which is listed for residuals, is inside the loop half.
func (st *stage) halvesOutside() error {
	for _, l := range st.loops {
		switch {
		case l.Name == halfLoop:
			return nil
		case l.N == 0 && l.Root == "k":
			return &Unfinished{"loop " + halfLoop, "belongs outside the run-time loop over K, which takes the few residuals from a list"}
		}
	}
	return nil
}

// repeated: what loops over planes and parts stand for differs from one iteration to
// the next.
func (st *stage) repeated(names ...string) error {
	for _, l := range st.loops {
		if slices.Contains(names, l.Name) && l.N > 1 && l.Kind != nest.Unrolled && l.Kind != nest.Averaged {
			return &Unfinished{"loop " + l.Name, "must be bound unrolled"}
		}
	}
	return nil
}

// completeDot checks a product by dot products of n bytes.
func (s *Product) completeDot(dot int) error {
	if dot == 0 {
		return &Unfinished{"trace", "has no tensorize"}
	}
	low := s.main().lowest().Temp.Elem
	if dot < 4 && low != format.I16 {
		return &Unfinished{fmt.Sprintf("dot%d", dot), "sums to 16 bits: accumulate i16"}
	}
	if dot == 4 && low != format.I32 {
		return &Unfinished{"dot4", "sums to 32 bits: accumulate i32"}
	}
	if dot == 2 {
		if !s.hoisted {
			return &Unfinished{"dot2", "wants unsigned weights: hoist_zero"}
		}
		if err := s.checkPairs(); err != nil {
			return err
		}
	}
	return nil
}

// groupOrder: the float sum runs over groups in ascending order, each complete.
func (s *Product) groupOrder() error {
	coef, inner, apart := 0, false, false // apart: lanes have groups
	for _, l := range s.main().loops {
		switch {
		case s.main().reduce[l.Root] && l.Root != "g":
			inner = true
		case l.Root == "g" && inner:
			return &Unfinished{"loop " + l.Name, "groups enclose their elements: move it outside the loops over k"}
		case l.Root == "g" && l.Kind == nest.Vector:
			return &Unfinished{"loop " + l.Name, "groups are summed in order, not in lanes"}
		case apart && l.N != 1 && l.Root == "g" && l.Kind != nest.Lane && !s.main().inBlock(l):
			return &Unfinished{"loop " + l.Name, "groups are added in order, a group of each lane: bind the innermost loop over groups to lanes"}
		case l.Root == "g":
			apart = apart || l.Kind == nest.Lane
			if coef != 0 && l.Coef > coef {
				return &Unfinished{"loop " + l.Name, "groups are summed in ascending order"}
			}
			coef = l.Coef
		}
	}
	return nil
}

// inOrder: the float sum of a group runs over the elements of K, and the parts of each unit,
// in ascending order.
func (st *stage) inOrder() error {
	var last *nest.Loop
	for i := range st.loops {
		l := &st.loops[i]
		switch {
		case l.N == 1 || l.Root != "k" && l.Root != partLoop:
		case l.Kind != nest.Serial && l.Kind != nest.Unrolled:
			return &Unfinished{"loop " + l.Name, "floats are summed in order, not in lanes"}
		case last != nil && (l.Root == last.Root && l.Coef > last.Coef || l.Root != last.Root && last.Root == partLoop):
			return &Unfinished{"loop " + l.Name, "floats are summed in ascending order: move it outside the loops of shorter steps"}
		default:
			last = l
		}
	}
	return nil
}

// contiguous: one call makes Rows consecutive rows and Cols consecutive columns.
func (s *Product) contiguous(k *Kernel) error {
	for _, l := range s.main().loops {
		size := map[string]int{"m": k.Rows, "n": k.Cols}[l.Root]
		if size > 0 && l.N != 1 && l.Kind.Outside() != (l.Coef >= size) {
			return &Unfinished{"loop " + l.Name, "the rows and columns of one call must be consecutive"}
		}
	}
	for _, d := range s.weights.Part("codes").Fields {
		if l, _ := s.loopOf(d); l.Kind.Outside() {
			return &Unfinished{"loop " + l.Name, "a call takes all fields of a cell"}
		}
	}
	return nil
}
