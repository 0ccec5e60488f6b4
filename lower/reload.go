package lower

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// reload repeats a load for each instruction of a body that uses it, so that no register holds the value in between. It
// does not do so across a store to the buffer. Bitcasts, halves and tiles on the way are repeated too. If `repeat` is not
// 0, up to `repeat` other instructions are repeated as well, also in loops inside the body.
//
//	v1 = load x+0                v1 = load x+0
//	v0 = add v0 v1         ->    v0 = add v0 v1
//	v2 = dot4 v2 v3 v4           v2 = dot4 v2 v3 v4
//	v0 = add v0 v1               v5 = load x+0
//	                             v0 = add v0 v5
func reload(f *vir.Func, repeat int) (*vir.Func, error) {
	x := &reloader{b: &Builder{F: clone(f)}, mut: mutable(f), repeat: repeat, from: map[vir.Reg]repeated{}}
	x.b.F.Body = x.body(f.Body)
	return x.b.F, nil
}

type reloader struct {
	b      *Builder
	mut    []bool
	repeat int
	from   map[vir.Reg]repeated // loads of this body, and what comes of them
}

// repeated is an instruction whose arguments can be computed once more, and how many
// instructions that takes but loads, constants and those on the way.
type repeated struct {
	in *vir.Instr
	n  int
}

func (x *reloader) body(body []vir.Node) []vir.Node {
	out := make([]vir.Node, 0, len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			out = x.instr(out, n)
			x.track(n)
		case *vir.Loop:
			each(n.Body, x.forget)
			l, outer := *n, x.from
			x.from = map[vir.Reg]repeated{}
			if x.repeat > 0 {
				x.from = maps.Clone(outer)
			}
			l.Body = x.body(n.Body)
			x.from = outer
			out = append(out, &l)
		}
	}
	return out
}

// instr appends in after what it uses.
func (x *reloader) instr(out []vir.Node, in *vir.Instr) []vir.Node {
	if _, ok := x.repeats(in); ok || !slices.ContainsFunc(in.Args, func(r vir.Reg) bool { _, ok := x.from[r]; return ok }) {
		return append(out, in) // its uses have their own, or it needs none
	}
	s := x.b.Seq()
	s.Add(replaceArgs(in, x.copies(s, in)))
	for _, c := range s.out {
		out = append(out, c)
	}
	return out
}

// copies computes the arguments of in once more, the one that takes most first.
func (x *reloader) copies(s *Seq, in *vir.Instr) map[vir.Reg]vir.Reg {
	to := map[vir.Reg]vir.Reg{}
	args := slices.SortedStableFunc(slices.Values(in.Args), func(a, b vir.Reg) int { return cmp.Compare(x.from[b].n, x.from[a].n) })
	for _, r := range args {
		d, ok := x.from[r]
		if _, done := to[r]; done || !ok {
			continue
		}
		c := *replaceArgs(d.in, x.copies(s, d.in))
		c.Dst = x.b.Reg(x.b.TypeOf(r))
		s.Add(&c)
		to[r] = c.Dst
	}
	return to
}

// onTheWay says that what op makes of something in memory is in memory as well, or
// one broadcast (fold).
func onTheWay(op vir.Op) bool { return op == vir.OpBitcast || op == vir.OpHalf || op == vir.OpTile }

// repeats says whether in can be repeated, and how many instructions that takes.
func (x *reloader) repeats(in *vir.Instr) (n int, ok bool) {
	switch {
	case in.Dst == vir.NoReg || x.mut[in.Dst]:
		return 0, false
	case in.Op == vir.OpLoad || in.Op == vir.OpLoadSplat:
		return 0, true
	case isConstant(in):
		return 0, x.repeat > 0
	case !onTheWay(in.Op):
		n = 1
	}
	for _, r := range in.Args {
		d, ok := x.from[r]
		if !ok {
			return 0, false
		}
		n += d.n
	}
	return n, n <= x.repeat
}

func (x *reloader) track(in *vir.Instr) {
	x.forget(in)
	if n, ok := x.repeats(in); ok {
		x.from[in.Dst] = repeated{in, n}
	}
}

// forget drops what in, if it is a store, may have overtaken.
func (x *reloader) forget(in *vir.Instr) {
	if in.Op != vir.OpStore {
		return
	}
	maps.DeleteFunc(x.from, func(_ vir.Reg, d repeated) bool { return x.reads(d.in, in.Mem.Buf) })
}

// reads says that in, or what its arguments come from, loads from a buffer.
func (x *reloader) reads(in *vir.Instr, buf int) bool {
	return in.Op.HasMem() && in.Mem.Buf == buf || slices.ContainsFunc(in.Args, func(r vir.Reg) bool {
		d, ok := x.from[r]
		return !ok || x.reads(d.in, buf)
	})
}
