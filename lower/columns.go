package lower

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// columns multiplies rows by two columns at once on targets that can: two by two sums of eight products each in one
// instruction, where sums by four are added up in pairs.
//
//	v5:i8x16 = join v1 v1                  v7:i8x16 = join v1 v2
//	v6:i8x16 = join v2 v2                  v8:i32x4 = mmla v8 v3 v7
//	v10:i32x4 = dot4 v10 v3 v5             v9:i32x4 = mmla v9 v4 v7
//	v11:i32x4 = dot4 v11 v4 v5       ->    ...
//	v12:i32x4 = dot4 v12 v3 v6             v14:i32x4 = unzip v8 v9 0
//	v13:i32x4 = dot4 v13 v4 v6             v15:i32x4 = unzip v8 v9 1
//	...
//	v14:i32x4 = addpairs v10 v11
//	v15:i32x4 = addpairs v12 v13
//
// v3 has eight elements of K of two rows, v4 of two others, v1 and v2 of a column. All sums begin with 0, and wrap.
// Figures: docs/lab/choices.md, columns.
func (t *table) columns(f *vir.Func) (*vir.Func, error) {
	if bytes := as(quad, format.I8); !t.has(vir.OpMMLA, quad, quad, bytes, bytes) {
		return f, nil
	}
	mut := mutable(f)
	c := &columnPairer{b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut, uses: useCounts(f), carriers: map[vir.Reg]int{},
		at: map[*vir.Instr]int{}, sets: map[vir.Reg]int{}, zero: map[vir.Reg]bool{}, sums: map[vir.Reg]*rowSums{}, instead: map[*vir.Instr][]*vir.Instr{}}
	eachLoop(f.Body, func(l *vir.Loop) {
		for _, r := range l.Carried {
			c.carriers[r]++
		}
	})
	each(f.Body, func(in *vir.Instr) {
		c.at[in] = len(c.at)
		if in.Dst != vir.NoReg {
			c.sets[in.Dst]++
			d := in
			if isMove(f, in) && c.def[in.Args[0]] != nil {
				d = c.def[in.Args[0]]
			}
			c.zero[in.Dst] = c.zero[in.Dst] || d.Op == vir.OpSplat && d.Imm == 0
		}
		if in.Op == vir.OpAddPairs && c.b.TypeOf(in.Dst) == quad && in.Fold == 0 && in.Args[0] != in.Args[1] {
			s := &rowSums{end: in}
			for i, r := range in.Args {
				s.of[i], s.read[i] = r, in
				if d := c.def[r]; d != nil && isMove(f, d) && c.uses[r] == 1 {
					s.of[i], s.read[i] = d.Args[0], d
				}
				c.sums[s.of[i]] = s
			}
		}
	})
	c.b.F.Body, _ = c.body(f.Body, nil)
	return c.b.F, nil
}

type columnPairer struct {
	b        *Builder
	def      []*vir.Instr
	mut      []bool
	uses     []int
	carriers map[vir.Reg]int             // how many loops carry a register
	at       map[*vir.Instr]int          // where instructions are
	sets     map[vir.Reg]int             // how often registers are set
	zero     map[vir.Reg]bool            // registers that begin with 0
	sums     map[vir.Reg]*rowSums        // by either of their two registers
	instead  map[*vir.Instr][]*vir.Instr // the replacement of a product or of a sum of pairs
}

// rowSums is the sums of four rows and a column: two registers, each of two rows by two halves of the elements of K.
type rowSums struct {
	end     *vir.Instr      // adds up pairs
	of      [2]vir.Reg      // the registers
	read    [2]*vir.Instr   // the reader of each register: end, or a copy for it
	dots    [2][]*vir.Instr // the products that are added to each register
	carried bool            // by the loop around
	paired  bool
}

// body rewrites the body of loop, nil for the function's, and returns what comes before the loop too.
func (c *columnPairer) body(body []vir.Node, loop *vir.Loop) (out []vir.Node, before []*vir.Instr) {
	all := c.find(body, loop)
	for i, x := range all {
		for _, y := range all[i+1:] {
			if x.paired || y.paired || !c.alike(x, y) {
				continue
			}
			before = append(before, c.pair(x, y, loop)...)
		}
	}
	add := func(ins []*vir.Instr) {
		for _, in := range ins {
			out = append(out, in)
		}
	}
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			if ins, ok := c.instead[n]; ok {
				add(ins)
			} else {
				out = append(out, n)
			}
		case *vir.Loop:
			l := *n
			l.Carried = slices.Clone(n.Carried)
			inner, first := c.body(n.Body, &l)
			l.Body = inner
			add(first)
			out = append(out, &l)
		}
	}
	return out, before
}

// find lists the sums whose products are in body and nowhere else.
func (c *columnPairer) find(body []vir.Node, loop *vir.Loop) (all []*rowSums) {
	dots := map[vir.Reg][]*vir.Instr{} // by the sum so far
	var ends []vir.Reg
	for _, n := range body {
		in, ok := n.(*vir.Instr)
		if !ok || in.Op != vir.OpDot4 || in.Fold > 0 || c.b.TypeOf(in.Args[1]).Elem != format.I8 || c.mut[in.Args[1]] || c.mut[in.Args[2]] {
			continue
		}
		sum := in.Args[0]
		before := dots[sum]
		if (c.mut[in.Dst] || c.mut[sum]) && in.Dst != sum || len(before) == 0 && !c.zero[sum] || len(before) > 0 && !c.mut[sum] && c.uses[sum] != 1 {
			continue
		}
		delete(dots, sum)
		if dots[in.Dst] = append(before, in); c.sums[in.Dst] != nil && len(dots[in.Dst]) >= 1 {
			ends = append(ends, in.Dst)
		}
	}
	for _, r := range ends { // what another body has is none of this one
		c.sums[r].dots = [2][]*vir.Instr{}
	}
	for _, r := range ends {
		s := c.sums[r]
		if c.mut[s.of[0]] != c.mut[s.of[1]] {
			continue
		}
		i := slices.Index(s.of[:], r)
		if s.dots[i] != nil || !c.alone(r, s.read[i], dots[r], loop) {
			continue
		}
		s.dots[i], s.carried = dots[r], c.mut[r]
		if o := s.dots[1-i]; o != nil && slices.EqualFunc(s.dots[0], s.dots[1], func(a, b *vir.Instr) bool { return a.Args[2] == b.Args[2] }) {
			all = append(all, s)
		}
	}
	return all
}

// alone says that only dots and, behind them, read use r, and that it begins with 0.
func (c *columnPairer) alone(r vir.Reg, read *vir.Instr, dots []*vir.Instr, loop *vir.Loop) bool {
	if len(dots) == 0 || c.at[read] < c.at[dots[len(dots)-1]] {
		return false
	}
	if !c.mut[r] {
		return c.uses[r] == 1
	}
	return loop != nil && slices.Contains(loop.Carried, r) && c.carriers[r] == 1 && c.zero[r] && c.uses[r] == len(dots)+1 && c.sets[r] == len(dots)+1
}

// alike says that x and y are of the same rows, and of columns that are repeated.
func (c *columnPairer) alike(x, y *rowSums) bool {
	for i := range x.dots {
		if !slices.EqualFunc(x.dots[i], y.dots[i], func(a, b *vir.Instr) bool {
			_, ok := c.column(a)
			_, too := c.column(b)
			return ok && too && a.Args[1] == b.Args[1]
		}) {
			return false
		}
	}
	last := 0
	for _, s := range []*rowSums{x, y} {
		for _, dots := range s.dots {
			last = max(last, c.at[dots[len(dots)-1]])
		}
	}
	return x.carried == y.carried && c.at[x.end] > last && c.at[y.end] > last
}

// column is the eight elements that a product repeats.
func (c *columnPairer) column(dot *vir.Instr) (vir.Reg, bool) {
	d := c.def[dot.Args[2]]
	if d == nil || d.Op != vir.OpJoin || d.Fold > 0 || d.Args[0] != d.Args[1] || c.mut[d.Args[0]] {
		return 0, false
	}
	return d.Args[0], true
}

// pair puts products of two columns where the last is of those that they are, and returns what comes before the loop.
func (c *columnPairer) pair(x, y *rowSums, loop *vir.Loop) (before []*vir.Instr) {
	begin := c.b.Seq()
	sums := [2]vir.Reg{begin.Splat(quad, 0), begin.Splat(quad, 0)}
	for i := range x.dots[0] {
		last := x.dots[0][i]
		for _, dot := range []*vir.Instr{x.dots[1][i], y.dots[0][i], y.dots[1][i]} {
			if c.at[dot] > c.at[last] {
				last = dot
			}
		}
		s := c.b.Seq()
		if i == 0 && !x.carried {
			s = begin
		}
		a, _ := c.column(x.dots[0][i])
		b, _ := c.column(y.dots[0][i])
		both := s.Op(vir.OpJoin, as(quad, format.I8), a, b)
		for h := range sums {
			sum := sums[h]
			if !x.carried {
				sum = c.b.Reg(quad)
			}
			s.End(sum, vir.OpMMLA, 0, sums[h], x.dots[h][i].Args[1], both)
			sums[h] = sum
			c.instead[x.dots[h][i]], c.instead[y.dots[h][i]] = nil, nil
		}
		c.instead[last] = s.out
	}
	for i, s := range []*rowSums{x, y} {
		c.instead[s.read[0]], c.instead[s.read[1]] = nil, nil
		c.instead[s.end] = c.b.Seq().End(s.end.Dst, vir.OpUnzip, int64(i), sums[0], sums[1])
		s.paired = true
	}
	if !x.carried {
		return nil
	}
	loop.Carried = slices.DeleteFunc(loop.Carried, func(r vir.Reg) bool {
		return slices.Contains(x.of[:], r) || slices.Contains(y.of[:], r)
	})
	loop.Carried = append(loop.Carried, sums[:]...)
	slices.Sort(loop.Carried)
	return begin.out
}
