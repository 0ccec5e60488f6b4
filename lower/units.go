package lower

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// units reads four neighbouring words that are repeated in vectors each, in one load, and dot products repeat them
// where a target has such. Repeating what a register has takes no address and no load. Figures: docs/lab/choices.md, units.
//
//	v1:i32x4 = loadsplat x+0           v6:i32x4 = load x+0
//	v2:i8x16 = bitcast v1              v7:i8x16 = bitcast v6
//	v0:i32x4 = dot4 v0 v9 v2     ->    v0:i32x4 = dot4unit v0 v9 v7 0
//	v3:i32x4 = loadsplat x+4           v3:i32x4 = spread v6 1
//	...                                ...
func (t *table) units(f *vir.Func) (*vir.Func, error) {
	if !t.has(vir.OpSpread, quad, quad) {
		return f, nil
	}
	mut := mutable(f)
	u := &unitReader{t: t, b: &Builder{F: clone(f)}, def: definitions(f, mut), mut: mut}
	u.read, u.at = map[*vir.Instr]*vir.Instr{}, map[*vir.Instr]unit{}
	u.body(f.Body)
	u.b.F.Body = vir.Map(f.Body, u.instr)
	return u.b.F, nil
}

// quad is the four words of a load.
var quad = vir.Type{Elem: format.I32, Lanes: 4}

type unitReader struct {
	t    *table
	b    *Builder
	def  []*vir.Instr
	mut  []bool
	read map[*vir.Instr]*vir.Instr // loads of four words, by what they stand before
	at   map[*vir.Instr]unit       // where the word is that an instruction repeated
}

// unit is word number n of a register of four.
type unit struct {
	words vir.Reg
	n     int64
}

// group is instructions that repeat neighbouring words, and the first of them in the code.
type group struct {
	by    [4]*vir.Instr
	first *vir.Instr
}

// body finds words that can be read together. No store and no loop may lie between their reads, because a loop may store.
func (u *unitReader) body(body []vir.Node) {
	groups := map[string]*group{}
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Loop:
			clear(groups)
			u.body(n.Body)
		case *vir.Instr:
			if n.Op.Orders() {
				clear(groups)
			}
			if n.Op == vir.OpLoadSplat && !u.mut[n.Dst] {
				u.add(groups, n)
			}
		}
	}
}

// add puts in among its neighbours; once all four are there they are read together.
func (u *unitReader) add(groups map[string]*group, in *vir.Instr) {
	first := in.Mem
	first.Off &^= quad.Bytes() - 1
	at := in.Mem.Off - first.Off
	if t := u.b.TypeOf(in.Dst); t.Elem.Bytes() != 4 || t.Lanes != quad.Lanes || at%4 != 0 {
		return
	}
	key := fmt.Sprint(first)
	g := groups[key]
	if g == nil {
		g = &group{first: in}
		groups[key] = g
	}
	if g.by[at/4] != nil { // as another type
		return
	}
	if g.by[at/4] = in; slices.Contains(g.by[:], nil) {
		return
	}
	words := u.b.Reg(quad)
	u.read[g.first] = &vir.Instr{Op: vir.OpLoad, Dst: words, Mem: first}
	for i, x := range g.by {
		u.at[x] = unit{words, int64(i)}
	}
}

// instr is what in becomes; what nothing reads any more is left to dce.
func (u *unitReader) instr(in *vir.Instr) []*vir.Instr {
	s := u.b.Seq()
	if load := u.read[in]; load != nil {
		s.Add(load)
	}
	if x, ok := u.at[in]; ok {
		return s.End(in.Dst, vir.OpSpread, x.n, s.Bitcast(u.b.TypeOf(in.Dst), x.words))
	}
	if in.Op == vir.OpDot4 && in.Fold == 0 {
		if c := u.dot(s, in); c != nil {
			in = c
		}
	}
	s.Add(in)
	return s.out
}

// dot is a dot product by a word, of in by a vector that repeats it, or nil.
func (u *unitReader) dot(s *Seq, in *vir.Instr) *vir.Instr {
	for i := 2; i > 0; i-- {
		a, cast := in.Args[3-i], u.def[in.Args[i]]
		if cast == nil || cast.Op != vir.OpBitcast || cast.Fold > 0 {
			continue
		}
		d, bytes := u.def[cast.Args[0]], as(quad, format.I8)
		x, ok := u.at[d]
		if ok && u.b.TypeOf(in.Args[i]).Elem == format.I8 && u.t.has(vir.OpDot4Unit, u.b.TypeOf(in.Dst), u.b.TypeOf(in.Dst), u.b.TypeOf(a), bytes) {
			return &vir.Instr{Op: vir.OpDot4Unit, Dst: in.Dst, Args: []vir.Reg{in.Args[0], a, s.Bitcast(bytes, x.words)}, Imm: x.n}
		}
	}
	return nil
}
