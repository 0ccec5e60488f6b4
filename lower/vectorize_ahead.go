package lower

import (
	"errors"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
)

// pipeline writes a loop whose iterations fill the buffers of the next one. What that loads is on its way while they compute:
//
//	loop l0 n                      fill 0
//	    fill l0                    barrier
//	    barrier                    loop l0 n-1
//	    compute l0         ->          compute l0
//	    barrier                        barrier
//	                                   fill l0+1
//	                                   barrier
//	                               compute n-1
//
// By halves, code that fills the second half of the buffers stands behind the first half of what computes, and code that fills the
// first half for the next iteration behind the second.
func (v *vectorizer) pipeline(node *vir.Loop, fills, body []vir.Node, halves bool) error {
	if node.List > 0 {
		return refuse(v.n.Name, "iterations of a list have no next one to load ahead")
	}
	var set []vir.Reg // registers of the body that hold sums of the last iteration
	for _, t := range v.temps {
		if slices.Contains(node.Carried, t.reg) && t.depth == len(v.serial) {
			set = append(set, t.reg)
		}
	}
	copied := func(m moved) *moved {
		m.v, m.loop, m.carried, m.set = v, node.ID, node.Carried, set
		m.regs, m.loops = map[vir.Reg]vir.Reg{}, map[int]int{}
		return &m
	}
	first, next, last := copied(moved{}), copied(moved{stays: true, ahead: 1}), copied(moved{behind: node.Count, last: true})
	if slices.ContainsFunc(v.serial, func(o *openLoop) bool { return !o.node.Lane }) {
		v.out = append(v.out, wait()...) // for the iterations before the loop is there again
	}
	more, rest := []vir.Node(nil), []vir.Node(nil)
	if halves {
		var err error
		if fills, more, body, rest, err = v.halved(fills, body); err != nil {
			return err
		}
	}
	v.out = append(append(v.out, first.nodes(fills)...), wait()...)
	node.Body = slices.Concat(body, wait(), next.nodes(fills), wait())
	if halves {
		node.Body = slices.Concat(body, copied(moved{stays: true}).nodes(more), wait(), rest, next.nodes(fills), wait())
	}
	if node.Count.Param >= 0 {
		node.Count.Less = 1
	} else {
		node.Count.Const--
	}
	if node.Count != (vir.Extent{Param: -1}) {
		v.out = append(v.out, node)
	}
	v.out = append(v.out, last.nodes(body)...)
	if halves {
		v.out = slices.Concat(v.out, copied(moved{behind: last.behind, last: true}).nodes(more), wait(), last.nodes(rest))
	}
	for _, t := range v.temps {
		if t.depth == len(v.serial) {
			t.reg = last.reg(t.reg)
		}
	}
	return errors.Join(first.err, next.err, last.err)
}

// wait is a barrier.
func wait() []vir.Node { return []vir.Node{&vir.Instr{Op: vir.OpBarrier, Dst: vir.NoReg}} }

// halved takes apart what computes, and what fills buffers for the first half of it and for the second.
func (v *vectorizer) halved(fills, body []vir.Node) (first, second, early, late []vir.Node, err error) {
	products, half := 0, 0
	for _, n := range body {
		in, ok := n.(*vir.Instr)
		if !ok {
			return nil, nil, nil, nil, refuse(v.n.Name, "a loop cannot be halved: unroll what the buffers are filled for")
		}
		if in.Op == vir.OpMatMul {
			products++
		}
	}
	for i, n := range body {
		if n.(*vir.Instr).Op == vir.OpMatMul {
			if half++; 2*half == products {
				early, late = body[:i+1], body[i+1:]
			}
		}
	}
	x := &overlap{f: v.f, counts: map[int]int{}}
	for _, o := range v.serial {
		x.counts[o.node.ID] = o.node.Count.Const
	}
	eachLoop(fills, func(l *vir.Loop) { x.counts[l.ID] = l.Count.Const })
	stored := func(in *vir.Instr) bool { return x.any(in, early) }
	if first, second = v.storing(fills, stored), v.storing(fills, func(in *vir.Instr) bool { return !stored(in) }); len(second) == 0 || len(first) == 0 {
		return nil, nil, nil, nil, refuse(v.n.Name, "all that lanes fill is used at once: the outermost unrolled loop has no halves of it")
	}
	apart := true
	vir.Walk(first, func(in *vir.Instr, _ []*vir.Loop) {
		apart = apart && !(in.Op == vir.OpStore && x.any(in, late))
	})
	if !apart {
		return nil, nil, nil, nil, refuse(v.n.Name, "both halves use what lanes fill at once")
	}
	return first, second, early, late, nil
}

// storing is the part of fills whose stores ok accepts, nil if it accepts none.
func (v *vectorizer) storing(fills []vir.Node, ok func(*vir.Instr) bool) (out []vir.Node) {
	need := map[vir.Reg]bool{}
	for _, n := range slices.Backward(fills) {
		switch n := n.(type) {
		case *vir.Loop:
			l := *n
			if l.Body = v.storing(n.Body, ok); l.Body != nil {
				out = append(out, &l)
			}
		case *vir.Instr:
			if n.Op == vir.OpStore && !ok(n) || n.Dst != vir.NoReg && !need[n.Dst] {
				continue
			}
			for _, r := range n.Args {
				need[r] = true
			}
			out = append(out, n)
		}
	}
	slices.Reverse(out)
	return out
}

// overlap compares what instructions access, in loops of lanes of these counts.
type overlap struct {
	f      *vir.Func
	counts map[int]int
}

// any says that a store may be to bytes that an instruction of body loads.
func (o *overlap) any(store *vir.Instr, body []vir.Node) bool {
	return slices.ContainsFunc(body, func(n vir.Node) bool {
		in := n.(*vir.Instr)
		if !in.HasMem() || in.Mem.Buf != store.Mem.Buf {
			return false
		}
		a, b := store.Mem.Stride, in.Mem.Stride
		for _, s := range a { // lanes that move both do not matter
			if slices.Contains(b, s) {
				both := func(x vir.Stride) bool { return x == s }
				a, b = slices.DeleteFunc(slices.Clone(a), both), slices.DeleteFunc(slices.Clone(b), both)
			}
		}
		low, high := o.reach(store, a)
		from, to := o.reach(in, b)
		return low < to && from < high
	})
}

// reach is the bytes that in accesses wherever the loops of strides stand.
func (o *overlap) reach(in *vir.Instr, strides []vir.Stride) (low, high int) {
	low, high = in.Mem.Off, in.Mem.Off+o.f.MemBytes(in)
	for _, s := range strides {
		high += s.Bytes * (o.counts[s.Loop] - 1)
	}
	return low, high
}

// moved is a copy of code in a loop for another iteration: the first, or, if the code stays in the loop, one that is ahead, or the
// last of the number that behind says. It has loops and registers of its own.
type moved struct {
	v            *vectorizer
	loop         int
	stays        bool
	ahead        int
	last         bool
	behind       vir.Extent
	carried, set []vir.Reg // registers from outside that the code sets, and the ones among them that the copy sets anew
	regs         map[vir.Reg]vir.Reg
	loops        map[int]int
	inner        int // loops that are open
	err          error
}

func (m *moved) nodes(body []vir.Node) (out []vir.Node) {
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			out = append(out, m.instr(n))
		case *vir.Loop:
			l := *n
			l.ID = m.v.loopID
			m.v.loopID++
			m.loops[n.ID] = l.ID
			l.Carried = nil
			for _, r := range n.Carried {
				if m.inner == 0 && slices.Contains(m.set, r) {
					from := m.reg(r)
					m.regs[r] = m.v.reg(m.v.typeOf(r))
					out = append(out, move(m.regs[r], from))
				}
				l.Carried = append(l.Carried, m.reg(r))
			}
			m.inner++
			l.Body = m.nodes(n.Body)
			m.inner--
			out = append(out, &l)
		}
	}
	return out
}

// reg is the register that stands for r.
func (m *moved) reg(r vir.Reg) vir.Reg {
	if to, ok := m.regs[r]; ok {
		return to
	}
	return r
}

func (m *moved) instr(in *vir.Instr) *vir.Instr {
	c := in.Clone()
	for i, r := range c.Args {
		c.Args[i] = m.reg(r)
	}
	if r := in.Dst; r != vir.NoReg {
		_, known := m.regs[r]
		if !known && !slices.Contains(m.carried, r) || m.inner == 0 && slices.Contains(m.set, r) {
			m.regs[r] = m.v.reg(m.v.typeOf(r))
		}
		c.Dst = m.reg(r)
	}
	if c.HasMem() {
		m.address(&c.Mem)
	}
	return c
}

// address moves an address to the iteration of the copy.
func (m *moved) address(a *vir.Mem) {
	var strides []vir.Stride
	for _, s := range a.Stride {
		if to, ok := m.loops[s.Loop]; ok {
			s.Loop = to
		}
		if s.Loop != m.loop {
			strides = append(strides, s)
			continue
		}
		if m.stays {
			strides = append(strides, s)
		}
		n := m.ahead
		if m.last {
			if n = -1; m.behind.Param < 0 {
				n = m.behind.Const - 1
			}
		}
		a.Off += n * s.Bytes
		switch {
		case s.Times != 0 && n != 0:
			m.err = refuse(m.v.n.Name, "an address moves by steps that are known at run time only")
		case m.last && m.behind.Param >= 0:
			var ok bool
			if *a, ok = a.Moved(vir.Apart{Multiple: vir.Multiple{Times: s.Bytes, By: m.behind.Param}}); !ok {
				m.err = refuse(m.v.n.Name, "an address of the last iteration depends on too many parameters")
			}
		}
	}
	slices.SortFunc(strides, byLoop)
	a.Stride = strides
}

func byLoop(a, b vir.Stride) int { return a.Loop - b.Loop }
