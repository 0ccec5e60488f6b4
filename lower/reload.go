package lower

import "github.com/tmacc/tmacc/ir/vir"

// reload loads what several instructions of a body use once for each of them, so
// that no register holds it in between, unless a store to the buffer lies between.
// Bitcasts, halves and tiles on the way are repeated too.
//
//	v1 = load x+0                v1 = load x+0
//	v0 = add v0 v1         ->    v0 = add v0 v1
//	v2 = dot4 v2 v3 v4           v2 = dot4 v2 v3 v4
//	v0 = add v0 v1               v5 = load x+0
//	                             v0 = add v0 v5
func reload(f *vir.Func) (*vir.Func, error) {
	x := &reloader{b: &Builder{F: clone(f)}, mut: mutable(f)}
	x.b.F.Body = x.body(f.Body)
	return dce(x.b.F)
}

type reloader struct {
	b    *Builder
	mut  []bool
	from map[vir.Reg]loaded // of this body: loads, and what comes of them on the way
}

// loaded is an instruction and the load it comes from, which may be itself.
type loaded struct{ in, load *vir.Instr }

func (x *reloader) body(body []vir.Node) []vir.Node {
	outer := x.from
	x.from = map[vir.Reg]loaded{}
	var out []vir.Node
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			for _, in := range x.instr(n) {
				out = append(out, in)
			}
			x.track(n)
		case *vir.Loop:
			l := *n
			l.Body = x.body(n.Body)
			each(n.Body, x.forget)
			out = append(out, &l)
		}
	}
	x.from = outer
	return out
}

// instr returns in after loads of its own.
func (x *reloader) instr(in *vir.Instr) []*vir.Instr {
	if onTheWay(in.Op) {
		return []*vir.Instr{in}
	}
	s := x.b.Seq()
	to := map[vir.Reg]vir.Reg{}
	for _, r := range in.Args {
		_, done := to[r]
		if _, ok := x.from[r]; ok && !done {
			to[r] = x.copied(s, r)
		}
	}
	s.Add(replaceArgs(in, to))
	return s.out
}

// onTheWay says that what op makes of something in memory is in memory as well, or
// one broadcast (fold).
func onTheWay(op vir.Op) bool { return op == vir.OpBitcast || op == vir.OpHalf || op == vir.OpTile }

// copied computes r once more.
func (x *reloader) copied(s *Seq, r vir.Reg) vir.Reg {
	c := *x.from[r].in
	if onTheWay(c.Op) {
		c.Args = []vir.Reg{x.copied(s, c.Args[0])}
	}
	c.Dst = x.b.Reg(x.b.TypeOf(r))
	s.Add(&c)
	return c.Dst
}

func (x *reloader) track(in *vir.Instr) {
	x.forget(in)
	if in.Dst == vir.NoReg || x.mut[in.Dst] {
		return
	}
	switch in.Op {
	case vir.OpLoad, vir.OpLoadSplat:
		x.from[in.Dst] = loaded{in, in}
	case vir.OpBitcast, vir.OpHalf, vir.OpTile:
		if d, ok := x.from[in.Args[0]]; ok {
			x.from[in.Dst] = loaded{in, d.load}
		}
	}
}

// forget drops the loads that in, if it is a store, may have overtaken.
func (x *reloader) forget(in *vir.Instr) {
	if in.Op != vir.OpStore {
		return
	}
	for r, d := range x.from {
		if d.load.Mem.Buf == in.Mem.Buf {
			delete(x.from, r)
		}
	}
}
