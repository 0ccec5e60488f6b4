package lower

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// accessed is what access found out.
type accessed struct {
	pos []nest.Pos
	mem vir.Mem
	err error
}

// access finds the places of all lanes of b[index], relative to the first lane
// at iteration 0 of every serial loop, and the address of that first lane. Most
// accesses are repeated by unrolled loops that do not matter to them.
func (v *vectorizer) access(b nest.Buffer, index []ir.Expr) ([]nest.Pos, vir.Mem, error) {
	if !v.repeats(index) {
		defer v.settle()
		return v.findAccess(b, index)
	}
	key, err := v.accessKey(b, index)
	if err != nil {
		return nil, vir.Mem{}, err
	}
	p, known := v.places[key]
	if !known {
		p.pos, p.mem, p.err = v.findAccess(b, index)
		v.places[key] = p
	}
	return p.pos, p.mem, p.err
}

// findAccess looks at the lanes that index depends on, and gives all others the places of those.
func (v *vectorizer) findAccess(b nest.Buffer, index []ir.Expr) ([]nest.Pos, vir.Mem, error) {
	all := v.lanes
	v.lanes = slices.DeleteFunc(slices.Clone(all), func(l nest.Loop) bool { return !mentions(index, l) })
	some := v.lanes
	pos, mem, err := v.findPlaces(b, index)
	v.lanes = all
	if err != nil || len(some) == len(all) {
		return pos, mem, err
	}
	out := make([]nest.Pos, v.width())
	steps, step := make([]int, len(all)), 1 // of each loop over lanes, in pos
	for i, l := range slices.Backward(all) {
		if slices.Contains(some, l) {
			steps[i] = step
			step *= l.N
		}
	}
	for i := range out {
		at, rest := 0, i
		for j := len(all) - 1; j >= 0; j-- {
			at += rest % all[j].N * steps[j]
			rest /= all[j].N
		}
		out[i] = pos[at]
	}
	return out, mem, nil
}

// mentions says that indices depend on a loop: by its name or that of its axis.
func mentions(index []ir.Expr, l nest.Loop) bool {
	found := false
	for _, e := range index {
		ir.Walk(e, func(e ir.Expr) {
			a, ok := e.(ir.Axis)
			found = found || ok && (a.Name == l.Name || a.Name == l.Root)
		})
	}
	return found
}

// repeats says that an access is the same wherever its indices have the same values in the first lane: they are sums of
// multiples of loop variables, in loops that lanes do not share out.
func (v *vectorizer) repeats(index []ir.Expr) bool {
	return v.filling == nil && len(index) > 0 && !slices.ContainsFunc(index, func(e ir.Expr) bool { return !affine(e) })
}

// accessKey tells accesses that repeat apart: by the buffer, the indices, their values in the first lane, and the open loops.
func (v *vectorizer) accessKey(b nest.Buffer, index []ir.Expr) (string, error) {
	key := []byte(b.Name())
	for _, l := range v.lanes {
		key = append(append(key, ' '), l.Name...)
	}
	for _, o := range v.serial {
		key = append(strconv.AppendInt(append(key, '/'), int64(o.node.ID), 10), o.loop.Name...)
	}
	for j := range index {
		x, err := v.value(index, j)
		if err != nil {
			return "", err
		}
		key = strconv.AppendInt(append(key, ','), x, 10)
	}
	return string(strconv.AppendInt(append(key, '#'), int64(v.affine[&index[0]].number), 10)), nil
}

// findPlaces is access of lanes that all matter.
func (v *vectorizer) findPlaces(b nest.Buffer, index []ir.Expr) ([]nest.Pos, vir.Mem, error) {
	at, err := v.laneIndices(b, index)
	if err != nil {
		return nil, vir.Mem{}, err
	}
	pos, err := v.lanePlaces(b, at)
	if err != nil {
		return nil, vir.Mem{}, err
	}
	mem := vir.Mem{Buf: v.params[b.Base().Param], Off: pos[0].Byte}
	if slices.ContainsFunc(pos, func(p nest.Pos) bool { return p.Steps != pos[0].Steps || p.Sides != pos[0].Sides }) {
		return nil, mem, refuse(b.Name(), "lanes are steps apart that are known at run time")
	}
	mem.Plus = v.multiples(b, pos[0])
	var strides []nest.Pos // of each serial loop
	for _, o := range v.serial {
		stride, err := v.stride(b, at, pos, o.loop)
		if err != nil {
			return nil, mem, err
		}
		moves := v.multiples(b, stride)
		switch {
		case moves[1].Times != 0:
			return nil, mem, refuse(b.Name(), "iterations of loop %s are two steps apart that are known at run time", o.loop.Name)
		case moves[0].Times != 0 && o.node.List > 0:
			return nil, mem, refuse(b.Name(), "iterations of a list are steps apart that are known at run time")
		case stride.Byte != 0 || moves[0].Times != 0:
			mem.Stride = append(mem.Stride, vir.Stride{Loop: o.node.ID, Bytes: stride.Byte, Multiple: moves[0]})
		}
		strides = append(strides, stride)
	}
	slices.SortFunc(mem.Stride, func(a, b vir.Stride) int { return a.Loop - b.Loop })
	if err := v.together(b, at, pos, strides); err != nil {
		return nil, mem, err
	}
	return pos, mem, v.callers(b, at, pos)
}

// multiples are the terms of an address at p that are known at run time only.
func (v *vectorizer) multiples(b nest.Buffer, p nest.Pos) (m [2]vir.Multiple) {
	var all []vir.Multiple
	for _, t := range b.Terms(p) {
		all = append(all, vir.Multiple{Times: t.Times, By: v.params[t.Param]})
	}
	slices.SortFunc(all, func(a, b vir.Multiple) int { return a.By - b.By })
	copy(m[:], all)
	return m
}

// plus is p moved it times by s.
func plus(p nest.Pos, it int, s nest.Pos) nest.Pos {
	p.Byte += it * s.Byte
	p.Steps += it * s.Steps
	p.Sides += it * s.Sides
	return p
}

// together checks that the strides of the serial loops add up in every combination of their iterations: loops that
// are affine one by one may carry into a digit of the layout together. Loops that move no index change no place. Where a place is
// the sum of one for the row and one for the element of K, loops that move one of them do not carry into the other.
func (v *vectorizer) together(b nest.Buffer, at []laneIndex, at0, strides []nest.Pos) error {
	if len(v.serial) < 2 {
		return nil // stride has looked at all iterations
	}
	var by [4][]int // loops, by the indices that they move: 1 the first one, 2 others
	for i, o := range v.serial {
		m, err := v.movesIn(at, o.loop)
		if err != nil {
			return err
		}
		by[m] = append(by[m], i)
	}
	groups := [][]int{by[1], by[2]}
	if v.sumsOf(b) == nil || len(by[3]) > 0 {
		groups = [][]int{slices.Concat(by[1:]...)}
	}
	for _, g := range groups {
		if err := v.addUp(b, at, at0, strides, g); err != nil {
			return err
		}
	}
	return nil
}

// movesIn says which indices a serial loop moves: 1 the first one, 2 any of the others, 3 both.
func (v *vectorizer) movesIn(index []laneIndex, l nest.Loop) (which int, err error) {
	v.set(l.Name, 1)
	defer func() { v.set(l.Name, 0) }()
	for j, x := range index {
		moved := !x.affine || v.filling != nil // who knows
		if !moved {
			now, err := v.value(x.all, j)
			if err != nil {
				return 0, err
			}
			moved = int(now) != x.values[0]
		}
		if moved {
			which |= 1 << min(j, 1)
		}
	}
	return which, nil
}

// addUp is together of some of the serial loops, while the others are at their first iterations.
func (v *vectorizer) addUp(b nest.Buffer, at []laneIndex, at0, strides []nest.Pos, some []int) error {
	if len(some) < 2 {
		return nil
	}
	loops, last := make([]*variable, len(some)), make([]int, len(some))
	for i, s := range some {
		l := v.serial[s].loop
		defer func() { v.set(l.Name, 0) }()
		loops[i] = v.variable(l.Name)
		var err error
		if last[i], err = v.lastTried(b, at, l); err != nil {
			return err
		}
	}
	for next(loops, last) {
		var sum nest.Pos
		n := 0 // loops that are not at their first iteration
		for i, x := range loops {
			if x.at != 0 {
				sum = plus(sum, x.at, strides[some[i]])
				n++
			}
		}
		if n < 2 {
			continue // stride has looked at these
		}
		moved, even, err := v.movedBy(b, at, at0)
		if err != nil {
			return err
		}
		if !even || moved != sum {
			return refuse(b.Name(), "the address is not affine in the serial loops together")
		}
	}
	return nil
}

// next moves loops to their next combination of iterations, up to last of each, the outermost loop first. It reports
// false after the last combination.
func next(loops []*variable, last []int) bool {
	for i, x := range loops {
		if x.at < last[i] {
			x.at++
			return true
		}
		x.at = 0
	}
	return false
}

// lastTried is the last iteration of a serial loop that addresses of b are looked at in.
// Of a loop whose trip count is known at run time, one record more is one stride more,
// whatever the record; but several iterations may share an element that b has once
// per block. It is looked at until an iteration begins a block as the first one does:
// all before it have one stride each only if that one is where they lead to.
func (v *vectorizer) lastTried(b nest.Buffer, index []laneIndex, l nest.Loop) (int, error) {
	if l.N > 0 {
		return l.N - 1, nil
	}
	defer func() { v.set(l.Name, 0) }()
	var at [2]int64
	for it := range at {
		v.set(l.Name, it)
		var err error
		if at[it], err = v.value(index[len(index)-1].all, len(index)-1); err != nil {
			return 0, err
		}
	}
	last, advance := 2, int(at[1]-at[0])
	for last*advance%b.Period() != 0 {
		last++
	}
	return last, nil
}

// laneIndex is an index of an access, and its value in every lane where the loops around begin.
type laneIndex struct {
	all    []ir.Expr // indices that it is one of
	values []int
	affine bool
	others []int // of a packed buffer, lanes that have other values than those before them
}

func (v *vectorizer) laneIndices(b nest.Buffer, index []ir.Expr) ([]laneIndex, error) {
	out := make([]laneIndex, len(index))
	for j, e := range index {
		values, err := v.laneValues(index, j)
		if err != nil {
			return nil, err
		}
		out[j] = laneIndex{all: index, values: values, affine: affine(e)}
		if v.sumsOf(b) != nil {
			out[j].others = firsts(values)
		}
	}
	return out, nil
}

// firsts are where values are that are not equal to any before them.
func firsts(values []int) (out []int) {
	low, high := slices.Min(values), slices.Max(values)
	seen := make([]bool, min(high-low+1, mostPlaces))
	for i, x := range values {
		if x -= low; x >= len(seen) {
			out = append(out, i)
		} else if !seen[x] {
			seen[x] = true
			out = append(out, i)
		}
	}
	return out
}

// indices are where an access is while the loops stand: in every lane, and how much is added to that.
type indices struct {
	values    [][]int
	moved, at []int
}

// now sets the indices. Away from where the loops begin, an affine index has moved as far in all lanes as in the first.
func (x *indices) now(v *vectorizer, index []laneIndex) (err error) {
	v.settle()
	n := len(index)
	x.values, x.moved, x.at = slices.Grow(x.values[:0], n)[:n], slices.Grow(x.moved[:0], n)[:n], slices.Grow(x.at[:0], n)[:n]
	for j, y := range index {
		if x.values[j], x.moved[j] = y.values, 0; y.affine {
			now, err := v.value(y.all, j)
			if err != nil {
				return err
			}
			x.moved[j] = int(now) - y.values[0]
		} else if x.values[j], err = v.laneValues(y.all, j); err != nil {
			return err
		}
	}
	return nil
}

// place is that of a lane in b, whose sums are known or nil.
func (x *indices) place(b nest.Buffer, known *sums, lane int) nest.Pos {
	for j := range x.at {
		x.at[j] = x.values[j][lane] + x.moved[j]
	}
	if known == nil {
		return b.Pos(x.at)
	}
	row, k := known.row.at(x.at[0]), known.k.at(x.at[1])
	return nest.Pos{Byte: row.Byte + k.Byte, Steps: row.Steps + k.Steps, Sides: row.Sides + k.Sides, Field: row.Field + k.Field}
}

// lanePlaces are the places of all lanes.
func (v *vectorizer) lanePlaces(b nest.Buffer, index []laneIndex) ([]nest.Pos, error) {
	x, known := &v.indices, v.sumsOf(b)
	if err := x.now(v, index); err != nil {
		return nil, err
	}
	out := make([]nest.Pos, v.width())
	for i := range out {
		out[i] = x.place(b, known, i)
	}
	return out, nil
}

// movedBy is how far the place of the first lane is from where it was, and whether all lanes moved as far.
func (v *vectorizer) movedBy(b nest.Buffer, index []laneIndex, before []nest.Pos) (by nest.Pos, even bool, err error) {
	x, known := &v.indices, v.sumsOf(b)
	if err := x.now(v, index); err != nil {
		return by, false, err
	}
	move := func(lane int) nest.Pos {
		from, to := before[lane], x.place(b, known, lane)
		return nest.Pos{Byte: to.Byte - from.Byte, Steps: to.Steps - from.Steps, Sides: to.Sides - from.Sides, Field: to.Field - from.Field}
	}
	by = move(0)
	if known != nil && index[0].affine && index[1].affine && (x.moved[0] == 0 || x.moved[1] == 0) {
		some := index[0].others // a place is a sum: only the index counts that has moved
		if x.moved[0] == 0 {
			some = index[1].others
		}
		return by, !slices.ContainsFunc(some, func(lane int) bool { return move(lane) != by }), nil
	}
	for lane := 1; lane < len(before); lane++ {
		if move(lane) != by {
			return by, false, nil
		}
	}
	return by, true, nil
}

// sums are the places of a packed matrix: the sum of a place for the row and of one for the element of K.
type sums struct{ row, k places }

// places are the places by one index, where they are known.
type places struct {
	of    func(i int) nest.Pos
	known []*[page]knownPos
}

// page is how many places that follow each other are remembered together.
const page = 16

type knownPos struct {
	nest.Pos
	is bool
}

// mostPlaces bounds the places that are remembered.
const mostPlaces = 1 << 14

func (p *places) at(i int) nest.Pos {
	if i < 0 || i >= mostPlaces {
		return p.of(i)
	}
	if n := i/page + 1 - len(p.known); n > 0 {
		p.known = append(p.known, make([]*[page]knownPos, n)...)
	}
	if p.known[i/page] == nil {
		p.known[i/page] = new([page]knownPos)
	}
	x := &p.known[i/page][i%page]
	if !x.is {
		x.Pos, x.is = p.of(i), true
	}
	return x.Pos
}

// sumsOf are the sums of a packed buffer, nil for others.
func (v *vectorizer) sumsOf(b nest.Buffer) *sums {
	switch b.(type) {
	case *nest.Packed, *nest.Codes:
	default:
		return nil
	}
	s := v.sums[b]
	if s == nil {
		row, k := make([]int, 2), make([]int, 2)
		s = &sums{
			row: places{of: func(i int) nest.Pos { row[0] = i; return b.Pos(row) }},
			k:   places{of: func(i int) nest.Pos { k[1] = i; return b.Pos(k) }},
		}
		v.sums[b] = s
	}
	return s
}

// laneValues evaluates index j of an access in every lane: in all of them, or if it is affine, in the
// first one and in the second of each loop over lanes.
func (v *vectorizer) laneValues(index []ir.Expr, j int) ([]int, error) {
	out := make([]int, v.width())
	defer v.setLanes(0)
	v.settle()
	at := func(i int) (int, error) {
		v.setLanes(i)
		x, err := v.value(index, j)
		return int(x), err
	}
	if !affine(index[j]) {
		var err error
		for i := 0; i < len(out) && err == nil; i++ {
			out[i], err = at(i)
		}
		return out, err
	}
	first, err := at(0)
	if err != nil {
		return nil, err
	}
	out[0] = first
	done := 1 // lanes, of the innermost loops
	for _, l := range slices.Backward(v.lanes) {
		if l.N > 1 {
			second, err := at(done)
			if err != nil {
				return nil, err
			}
			for i := done; i < done*l.N; i++ {
				out[i] = out[i-done] + second - first
			}
		}
		done *= l.N
	}
	return out, nil
}

// affine reports whether e is a sum of multiples of axes.
func affine(e ir.Expr) bool {
	switch e := e.(type) {
	case ir.Const, ir.Axis:
		return true
	case ir.Binary:
		_, left := e.X.(ir.Const)
		_, right := e.Y.(ir.Const)
		return (e.Op == ir.Add || e.Op == ir.Mul && (left || right)) && affine(e.X) && affine(e.Y)
	}
	return false
}

// setLanes moves the variables of the vector loops to lane i.
func (v *vectorizer) setLanes(i int) {
	for _, l := range slices.Backward(v.lanes) {
		v.set(l.Name, i%l.N)
		i /= l.N
	}
}

// stride is what one iteration of a serial loop adds to every lane's place. It looks at every iteration: a layout may
// leave a line and come back to it, so some iterations prove nothing about the others.
func (v *vectorizer) stride(b nest.Buffer, at []laneIndex, at0 []nest.Pos, l nest.Loop) (step nest.Pos, err error) {
	defer func() { v.set(l.Name, 0) }()
	last, err := v.lastTried(b, at, l)
	if err != nil {
		return step, err
	}
	for it := 1; it <= last; it++ {
		v.set(l.Name, it)
		moved, even, err := v.movedBy(b, at, at0)
		if err != nil {
			return step, err
		}
		if it == 1 {
			step = nest.Pos{Byte: moved.Byte, Steps: moved.Steps, Sides: moved.Sides}
		}
		if !even || moved != plus(nest.Pos{}, it, step) {
			return step, refuse(b.Name(), "the address is not affine in the serial loop %s", l.Name)
		}
	}
	return step, nil
}

// callers checks that the offsets within a call do not depend on which rows of
// a tile the caller asks for.
func (v *vectorizer) callers(b nest.Buffer, at []laneIndex, at0 []nest.Pos) error {
	for _, l := range v.n.Loops {
		if !l.Kind.Outside() {
			continue
		}
		defer func() { v.set(l.Name, 0) }()
		for it := 1; it < l.N; it++ {
			v.set(l.Name, it)
			moved, even, err := v.movedBy(b, at, at0)
			if err != nil {
				return err
			}
			if !even || moved != plus(nest.Pos{}, 1, v.origin(b, l, it)) {
				return refuse(b.Name(), "the layout within a call depends on %s", l.Name)
			}
		}
		v.set(l.Name, 0)
	}
	return nil
}

// origin is where the caller's pointer stands at iteration it of outer loop l.
func (v *vectorizer) origin(b nest.Buffer, l nest.Loop, it int) nest.Pos {
	dims := b.Base().Tensor.Dims
	idx := make([]int, len(dims))
	for i, d := range dims {
		if d == l.Root {
			idx[i] = l.Coef * it
		}
	}
	return b.Pos(idx)
}

// period is the number of leading lanes whose bytes are consecutive elements
// and are repeated by all later lanes, 0 if there is none. It is len(pos) for
// a plain vector and 1 for a broadcast.
func period(pos []nest.Pos, elem int) int {
	n := 1
	for n < len(pos) && pos[n].Byte == pos[0].Byte+n*elem {
		n++
	}
	if len(pos)%n != 0 {
		return 0
	}
	for i := range pos {
		if pos[i].Byte != pos[i%n].Byte {
			return 0
		}
	}
	return n
}

// load reads elements at pos; mem is the address of the first.
func (v *vectorizer) load(b nest.Buffer, pos []nest.Pos, mem vir.Mem, elem format.DType) (vir.Reg, error) {
	t := vir.Type{Elem: elem, Lanes: len(pos)}
	n := period(pos, elem.Bytes())
	array, isArray := b.(*nest.Array)
	if n == 0 && isArray && array.Whole && elem.Bits() == 8 {
		if r, ok := v.permuted(pos, mem, t); ok {
			return r, nil
		}
	}
	if n == 0 {
		return v.loadSpread(b, pos, mem, t)
	}
	key := readKey("load", mem, int(t.Elem), t.Lanes, n)
	if r, ok := v.loads[key]; ok {
		return r, nil
	}
	r := v.loadPeriod(t, n, mem)
	v.loads[key] = r
	if n == len(pos) && isArray && array.Next != "" && v.inside(array.NextIn) {
		other := mem
		other.Buf = v.params[array.Next]
		v.prefetch(vir.OpPrefetch, other, t.Bits()/8, 0, true)
	}
	if !v.listed() {
		v.stream(b.Base().Streams, mem, n*elem.Bytes())
	}
	return r, nil
}

// readKey names what of a kind is read at m: by its address and by numbers.
func readKey(kind string, m vir.Mem, numbers ...int) string {
	key := m.AppendKey([]byte(kind))
	for _, x := range numbers {
		key = binary.AppendVarint(key, int64(x))
	}
	return string(key)
}

// permuted reads bytes in any order from the smallest aligned window that has them all:
//
//	v0 = load act+0 l0*16        the window
//	v1 = lookup16 v2 v0          v2: constant places in it
func (v *vectorizer) permuted(pos []nest.Pos, mem vir.Mem, t vir.Type) (r vir.Reg, ok bool) {
	low, high := pos[0].Byte, pos[0].Byte
	for _, p := range pos {
		low, high = min(low, p.Byte), max(high, p.Byte)
	}
	for size := 16; size <= 64; size *= 2 {
		first := low &^ (size - 1)
		aligned := !mem.Stepped() && !slices.ContainsFunc(mem.Stride, func(s vir.Stride) bool { return s.Bytes%size != 0 })
		if !aligned || high >= first+size {
			continue
		}
		index := make([]byte, len(pos))
		for i, p := range pos {
			index[i] = byte(p.Byte - first)
		}
		mem.Off = first
		places := v.lanesConst(vir.Type{Elem: format.U8, Lanes: t.Lanes}, index)
		return v.op(t, vir.Lookup(size, false), 0, places, v.tableAt(mem, t, size, 0)), true
	}
	return 0, false
}

// inside says that a serial loop is open.
func (v *vectorizer) inside(loop string) bool {
	return slices.ContainsFunc(v.serial, func(o *openLoop) bool { return o.loop.Name == loop })
}

// listed says that a loop over a list is open: it does not read the memory ahead of it next.
func (v *vectorizer) listed() bool {
	return slices.ContainsFunc(v.serial, func(o *openLoop) bool { return o.node.List > 0 })
}

// loadSpread reads bytes that several lanes share, as a lookup in the bytes that
// all lanes read: a row's byte for the elements of it that a lane sums.
//
//	pos 0 0 0 0 1 1 1 1 ... 15 15 15 15    ->    v0:u8x16 = load
//	                                             v1:u8x64 = tile v0
//	                                             v2:u8x64 = const: 0 0 0 0 1 1 1 1 ...
//	                                             v3:u8x64 = lookup16 v2 v1
func (v *vectorizer) loadSpread(b nest.Buffer, pos []nest.Pos, mem vir.Mem, t vir.Type) (vir.Reg, error) {
	low, high := pos[0].Byte, pos[0].Byte
	for _, p := range pos {
		low, high = min(low, p.Byte), max(high, p.Byte)
	}
	n := high - low + 1
	op := vir.Lookup(max(n, leastTable), false)
	if t.Elem.Bytes() != 1 || bits.OnesCount(uint(n)) != 1 || op == vir.OpInvalid {
		return 0, refuse(b.Name(), "lanes read bytes that are neither consecutive nor repeated")
	}
	index := make([]byte, len(pos))
	for i, p := range pos {
		index[i] = byte(p.Byte - low)
	}
	key := readKey("spread", mem) + string(index)
	if r, ok := v.loads[key]; ok {
		return r, nil
	}
	mem.Off += low - pos[0].Byte
	table := v.loadPeriod(vir.Type{Elem: t.Elem, Lanes: max(t.Lanes, n, leastTable)}, n, mem)
	r := v.op(t, op, 0, v.lanesConst(vir.Type{Elem: format.U8, Lanes: t.Lanes}, index), table)
	v.loads[key] = r
	return r, nil
}

// leastTable is the fewest entries of bytes that lookups have.
const leastTable = 16

// loadPeriod repeats n elements over all lanes of t.
func (v *vectorizer) loadPeriod(t vir.Type, n int, mem vir.Mem) vir.Reg {
	unit := n * t.Elem.Bytes()
	switch {
	case n == t.Lanes:
		return v.emit(t, vir.Instr{Op: vir.OpLoad, Mem: mem})
	case n == 1:
		return v.emit(t, vir.Instr{Op: vir.OpLoadSplat, Mem: mem})
	case unit == 2 || unit == 4:
		wide := map[int]format.DType{2: format.U16, 4: format.I32}[unit]
		r := v.emit(vir.Type{Elem: wide, Lanes: t.Lanes / n}, vir.Instr{Op: vir.OpLoadSplat, Mem: mem})
		return v.cast(r, t)
	}
	return v.op(t, vir.OpTile, 0, v.emit(vir.Type{Elem: t.Elem, Lanes: n}, vir.Instr{Op: vir.OpLoad, Mem: mem}))
}

// stream asks for what will be read after a load.
func (v *vectorizer) stream(s nest.Streams, mem vir.Mem, bytes int) {
	if s.Rest && mem.Plus[0].Times == 0 {
		return // of the first tile
	}
	if s.Ahead > 0 {
		v.prefetch(vir.OpPrefetch, mem, bytes, s.Ahead, true)
	}
	if s.Far > 0 {
		v.prefetch(vir.OpPrefetch2, mem, bytes, s.Far, s.Every)
	}
}

// prefetch asks for the lines of a load, ahead bytes later: for every one or for two of four.
func (v *vectorizer) prefetch(op vir.Op, mem vir.Mem, bytes, ahead int, every bool) {
	const line = 64
	for off := 0; off < bytes; off += line {
		m := mem
		m.Off += off + ahead
		if !every && m.Off/line%4 > 1 {
			continue // two lines of four: the hardware sees a stream and fetches the others
		}
		if bytes >= line || (mem.Off+off)%line == 0 {
			v.put(vir.Instr{Op: op, Dst: vir.NoReg, Mem: m})
		}
	}
}

// codeBits reads codes: the bits of each lane's field, moved to bit s. Bits that are
// not in have are anything.
func (v *vectorizer) codeBits(b *nest.Codes, r ir.Read, s int) (x vir.Reg, have int64, err error) {
	pos, mem, err := v.access(b, r.Index)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range pos {
		if p.Field != pos[0].Field {
			return 0, 0, refuse(r.T.Name, "lanes hold different fields of a byte")
		}
	}
	stored := func(word int) (vir.Reg, error) {
		m := mem
		m.Off += word * b.Part.WordStride
		return v.load(b, pos, m, format.U8)
	}
	f := pos[0].Field
	if b.Part.Codewords == nil {
		return v.gather(b.Part.Map[f], s, stored)
	}
	return v.gather(b.Part.Unjoined()[f], s, func(word int) (vir.Reg, error) {
		key := readKey("unjoined", mem, v.width(), period(pos, 1), word)
		if r, ok := v.loads[key]; ok {
			return r, nil
		}
		r, err := v.unjoin(b.Part, word, stored)
		v.loads[key] = r
		return r, err
	})
}

// gather collects bits from words, moved to bit s and up. Other bits, those not in
// have, are anything.
func (v *vectorizer) gather(places []format.BitPos, s int, word func(int) (vir.Reg, error)) (sum vir.Reg, have int64, err error) {
	sum = vir.NoReg
	for _, pc := range pieces(places, s) {
		x, err := word(pc.word)
		if err != nil {
			return 0, 0, err
		}
		x = v.shiftBits(x, pc.right)
		if sum == vir.NoReg {
			sum, have = x, pc.mask
			continue
		}
		sum = v.op(v.typeOf(x), vir.OpBitSel, 0, v.splat(v.typeOf(x), have), sum, x)
		have |= pc.mask
	}
	return sum, have, nil
}

// masked is x without the bits that are not in have.
func (v *vectorizer) masked(x vir.Reg, have int64, err error) (vir.Reg, error) {
	if err != nil || have == 1<<v.typeOf(x).Elem.Bits()-1 {
		return x, err
	}
	return v.op(v.typeOf(x), vir.OpAnd, 0, x, v.splat(v.typeOf(x), have)), nil
}

// shiftBits moves the bits of bytes right by n (left if negative). Bits of the
// neighbouring byte come along: the caller masks.
func (v *vectorizer) shiftBits(x vir.Reg, n int) vir.Reg {
	if n == 0 {
		return x
	}
	t := v.typeOf(x)
	if t.Lanes < 2 || t.Elem.Bits() > 8 {
		if n > 0 {
			return v.op(t, vir.OpShrU, int64(n), x)
		}
		return v.op(t, vir.OpShl, int64(-n), x)
	}
	w := vir.Type{Elem: format.U16, Lanes: t.Lanes / 2}
	x = v.cast(x, w)
	if n > 0 {
		x = v.op(w, vir.OpShrU, int64(n), x)
	} else {
		x = v.op(w, vir.OpShl, int64(-n), x)
	}
	return v.cast(x, t)
}

// piece is the bits of a field that one word holds and one shift moves.
type piece struct {
	word, right int
	mask        int64 // where they end up
}

// pieces splits a field whose code is to lie at bit s, highest bits first.
func pieces(bits []format.BitPos, s int) []piece {
	var out []piece
	for i, b := range slices.Backward(bits) {
		p := piece{b.Word, b.Bit - i - s, 1 << (i + s)}
		if n := len(out); n > 0 && out[n-1].word == p.word && out[n-1].right == p.right {
			out[n-1].mask |= p.mask
			continue
		}
		out = append(out, p)
	}
	return out
}
