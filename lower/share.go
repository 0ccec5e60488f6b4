package lower

import (
	"cmp"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// share makes the body of the innermost open loop read a buffer by way of a copy that the lanes around it share. Each of
// them copies as much as the others; cooperate waits for them:
//
//	loop l0 64 lane                       loop l0 64 lane
//	    loop l1 n                             loop l1 n
//	        v0:i8x16 = load act+0 l1*1024         v9:u8x16 = load act+0 l0*16 l1*1024
//	        ...                           ->      store shared+0 l0*16 v9
//	                                              barrier
//	                                              v0:i8x16 = load shared+0
//	                                              ...
//	                                              barrier
func (v *vectorizer) share(body []vir.Node, param string) (fill, rest []vir.Node, err error) {
	buf := v.params[param]
	all := &region{v: v, buf: buf}
	vir.Walk(body, all.add)
	if all.err != nil || len(all.reads) == 0 {
		return nil, body, all.err
	}
	copy, size := len(v.f.Params), 0
	v.f.Params = append(v.f.Params, vir.Param{Name: ParamName(param) + "_shared"})
	pieces := all.pieces()
	for _, r := range pieces {
		r.row = v.rows(r.wholeRows(body))
		r.at = size
		part, err := r.fill(copy)
		if err != nil {
			return nil, nil, err
		}
		fill, size = append(fill, part...), size+r.row.at(r.high-r.low)
	}
	v.f.Params[copy].Shared = size
	return fill, vir.Map(body, func(in *vir.Instr) []*vir.Instr {
		if in.Op == vir.OpPrefetch && in.Mem.Buf == buf {
			return nil
		}
		if in.HasMem() && in.Mem.Buf == buf {
			r := pieces[slices.IndexFunc(pieces, func(r *region) bool { return r.has(in) })]
			in = in.Clone()
			in.Mem = vir.Mem{Buf: copy, Off: r.at + r.row.at(in.Mem.Off-r.low), Stride: r.split(in.Mem, false), Apart: in.Mem.Apart}
			in.Mem.Apart.Bytes = r.row.at(in.Mem.Apart.Bytes)
			for i, s := range in.Mem.Stride {
				in.Mem.Stride[i].Bytes = r.row.at(s.Bytes)
			}
		}
		return []*vir.Instr{in}
	}), nil
}

// region is what the lanes read of a buffer in the body of a loop: bytes low to high, from an address that moves with serial loops around.
type region struct {
	v         *vectorizer
	buf       int
	reads     [][2]int // the bytes of each load
	base      vir.Mem
	low, high int
	row       row // of the copy
	at        int // where the copy begins
	err       error
}

// pieces are r without what lies between its loads, where that is at least as much as the piece before it.
func (r *region) pieces() (out []*region) {
	reads := slices.Clone(r.reads)
	slices.SortFunc(reads, func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) })
	for _, x := range reads {
		if n := len(out); n > 0 && x[0]-out[n-1].high < out[n-1].high-out[n-1].low {
			out[n-1].high = max(out[n-1].high, x[1])
			continue
		}
		out = append(out, &region{v: r.v, buf: r.buf, base: r.base, low: x[0], high: x[1]})
	}
	if slices.ContainsFunc(out, func(p *region) bool { return (p.high-p.low)%(4*p.lanes()) != 0 }) {
		return []*region{r}
	}
	return out
}

// has says that an instruction reads bytes of r. Loads move up from where they begin.
func (r *region) has(in *vir.Instr) bool { return in.Mem.Off >= r.low && in.Mem.Off < r.high }

// lanes is how many lanes copy.
func (r *region) lanes() int {
	n := r.v.n.Holders
	if n == 0 {
		n = 1
	}
	for _, o := range r.v.serial {
		if o.node.Lane {
			n *= o.node.Count.Const
		}
	}
	return n
}

// wholeRows says that body reads rows of tiles, and the lanes copy units of them.
func (r *region) wholeRows(body []vir.Node) bool {
	n, whole := r.v.depth(), (r.high-r.low)%bank == 0
	vir.Walk(body, func(in *vir.Instr, _ []*vir.Loop) {
		if !in.HasMem() || in.Mem.Buf != r.buf || in.Op == vir.OpPrefetch || in.Op == vir.OpPrefetch2 || !r.has(in) {
			return
		}
		_, bytes := r.v.f.TileRuns(in)
		whole = whole && bytes == n && (in.Mem.Off-r.low)%n == 0 && in.Mem.Apart.Bytes%n == 0
		for _, s := range r.split(in.Mem, false) {
			whole = whole && s.Bytes%n == 0 && s.Bytes >= 0
		}
	})
	return whole
}

// split are the strides of m over the serial loops that are open, or over lanes and the loops in the body.
func (r *region) split(m vir.Mem, open bool) (out []vir.Stride) {
	for _, s := range m.Stride {
		if slices.ContainsFunc(r.v.serial, func(o *openLoop) bool { return o.node.ID == s.Loop && !o.node.Lane }) == open {
			out = append(out, s)
		}
	}
	return out
}

// add counts what in reads, inside loops of the body.
func (r *region) add(in *vir.Instr, loops []*vir.Loop) {
	if !in.HasMem() || in.Mem.Buf != r.buf || in.Op == vir.OpPrefetch || in.Op == vir.OpPrefetch2 {
		return
	}
	base := vir.Mem{Buf: r.buf, Stride: r.split(in.Mem, true), Plus: in.Mem.Plus}
	low, high := in.Mem.Off, in.Mem.Off+r.v.f.MemBytes(in)
	for _, o := range r.v.serial {
		loops = append(slices.Clip(loops), o.node)
	}
	for _, s := range r.split(in.Mem, false) {
		n := loops[slices.IndexFunc(loops, func(l *vir.Loop) bool { return l.ID == s.Loop })].Count
		if n.Param >= 0 || s.Times != 0 {
			r.err = refuse(r.v.n.Name, "lanes cannot share what a loop reads whose trip count is known at run time only")
			return
		}
		far := s.Bytes * (n.Const - 1)
		low, high = low+min(far, 0), high+max(far, 0)
	}
	if len(r.reads) == 0 {
		r.base, r.low, r.high = base, low, high
	}
	r.reads = append(r.reads, [2]int{low, high})
	if string(base.AppendKey(nil)) != string(r.base.AppendKey(nil)) {
		r.err = refuse(r.v.n.Name, "lanes cannot share what they read at addresses that move differently")
	}
	r.low, r.high = min(r.low, low), max(r.high, high)
}

// fill copies the region: 16 bytes of each lane at once, or 8 or 4.
func (r *region) fill(shared int) (out []vir.Node, err error) {
	lanes, strides := 1, []vir.Stride{}
	all := r.v.serial
	if r.v.n.Holders > 0 {
		all = append(slices.Clone(all), r.v.holders()...)
	}
	for _, o := range slices.Backward(all) {
		if o.node.Lane {
			strides = append(strides, vir.Stride{Loop: o.node.ID, Bytes: lanes})
			lanes *= o.node.Count.Const
		}
	}
	unit := 16
	for unit > 4 && (r.high-r.low)%(unit*lanes) != 0 {
		unit /= 2
	}
	if (r.high-r.low)%(unit*lanes) != 0 {
		return nil, refuse(r.v.n.Name, "%d bytes that %d lanes share are no whole words of each", r.high-r.low, lanes)
	}
	if unit != bank {
		r.row = row{1, 1}
	}
	near := slices.Clone(strides)
	for i := range strides {
		strides[i].Bytes *= unit
		near[i].Bytes = r.row.at(strides[i].Bytes)
	}
	slices.SortFunc(strides, byLoop)
	slices.SortFunc(near, byLoop)
	for at := 0; at < r.high-r.low; at += unit * lanes {
		from := r.base
		from.Off = r.low + at
		from.Stride = append(slices.Clone(r.base.Stride), strides...)
		slices.SortFunc(from.Stride, byLoop)
		x := r.v.reg(vir.Type{Elem: format.U8, Lanes: unit})
		out = append(out, &vir.Instr{Op: vir.OpLoad, Dst: x, Mem: from},
			&vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{x}, Mem: vir.Mem{Buf: shared, Off: r.at + r.row.at(at), Stride: near}})
	}
	return out, nil
}
