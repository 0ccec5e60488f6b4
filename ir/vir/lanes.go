package vir

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// grid runs the body for every workgroup along dimension d and the ones before it.
func (m *machine) grid(d int) error {
	if d < 0 {
		return m.group()
	}
	g, args, base := m.f.Grid[d], m.args, m.races.base
	for i := range args[g.Count].Int {
		if err := m.spend(); err != nil {
			return err
		}
		m.args, m.races.base = slices.Clone(args), slices.Clone(base)
		for _, v := range g.Moves {
			a, by := &m.args[v.Param], i*args[v.By].Int
			if list := args[v.By].Buf; !m.f.Params[v.By].Int {
				if int64(len(list)) < 4*(i+1) {
					return fmt.Errorf("groups %s: group %d is not in the list %s of %d bytes", m.f.formatMoves(g), i, m.f.paramName(v.By), len(list))
				}
				by = int64(binary.LittleEndian.Uint32(list[4*i:]))
			}
			if by < 0 || by > int64(len(a.Buf)) {
				return fmt.Errorf("groups %s: group %d is %d bytes behind the first in %s, which has %d", m.f.formatMoves(g), i, by, m.f.paramName(v.Param), len(a.Buf))
			}
			a.Buf = a.Buf[by:]
			m.races.base[v.Param] += int(by)
		}
		if err := m.grid(d - 1); err != nil {
			return err
		}
	}
	m.args, m.races.base = args, base
	return nil
}

// group runs the body for one workgroup.
func (m *machine) group() error {
	for i, p := range m.f.Params {
		if p.Shared > 0 {
			m.args[i].Buf = make([]byte, p.Shared)
		}
	}
	m.races.begin()
	return m.run(m.compile(m.f.Body))
}

// sum is a register that a loop of lanes carries: around the loop, and in each lane.
type sum struct {
	elem  format.DType
	max   bool
	all   []int64
	parts [][]int64
	// order takes what lanes have, as register number number of it; nil: it is added to all
	order  *ordered
	number int
}

// begin gives lanes what adds nothing.
func (s *sum) begin() {
	for _, p := range s.parts {
		for i := range p {
			switch p[i] = 0; {
			case s.max:
				p[i] = s.all[i]
			case s.elem == f32:
				p[i] = 1 << 31
			}
		}
	}
}

// end adds what the lanes have.
func (s *sum) end() {
	for _, p := range s.parts {
		if s.order != nil {
			s.order.add(s.number, p)
			continue
		}
		for i, x := range p {
			if s.max {
				s.all[i] = max(s.all[i], x)
			} else if s.elem == f32 {
				s.all[i] = bitsOf(floatOf(s.all[i]) + floatOf(x))
			} else {
				s.all[i] = int64(int32(s.all[i] + x))
			}
		}
	}
}

// lanes makes a machine for each lane of a loop. It has registers of its own for what the loop carries and what its body
// defines.
func (m *machine) lanes(l *Loop) step {
	s := step{loop: l, count: l.Count.Const}
	for _, r := range l.Carried {
		s.sums = append(s.sums, &sum{elem: m.f.Regs[r].Elem, max: l.Max, all: m.regs[r]})
	}
	if m.order != nil && len(m.order.lanes) > 0 && m.order.lanes[0] == l {
		for n, x := range s.sums {
			x.order, x.number = m.order, n
		}
	}
	joined := m.f.Joined(l)
	for i := range s.count {
		lane := *m
		lane.inner = m.inner[1:]
		lane.lane += i * Product(lane.inner)
		lane.regs, lane.iter = slices.Clone(m.regs), maps.Clone(m.iter)
		lane.iter[l.ID] = &i
		for n, r := range l.Carried {
			lane.regs[r] = make([]int64, len(m.regs[r]))
			if len(joined) == 0 {
				s.sums[n].parts = append(s.sums[n].parts, lane.regs[r])
			}
		}
		s.by = append(s.by, &lane)
		body := lane.compile(l.Body)
		for i := range body {
			if x := &body[i]; len(joined) > 0 && x.loop == joined[0] {
				for n := range s.sums { // the lanes in this one are added here
					s.sums[n].parts = append(s.sums[n].parts, x.sums[n].parts...)
				}
				x.sums = nil
			}
		}
		s.lanes = append(s.lanes, body)
	}
	return s
}

// fork runs the lanes of a loop that several lanes have come to together.
func fork(all []*step) error {
	var by []*machine
	var bodies [][]step
	for _, s := range all {
		by, bodies = append(by, s.by...), append(bodies, s.lanes...)
		for _, x := range s.sums {
			x.begin()
		}
	}
	err := lockstep(by, bodies)
	for _, s := range all {
		for _, x := range s.sums {
			x.end()
		}
	}
	return err
}

// lockstep runs the same code in lanes, one instruction after the other.
func lockstep(by []*machine, bodies [][]step) error {
	for i := range bodies[0] {
		var err error
		switch s := &bodies[0][i]; {
		case s.lanes != nil:
			var all []*step
			for n := range bodies {
				all = append(all, &bodies[n][i])
			}
			err = fork(all)
		case s.loop != nil:
			err = together(by, bodies, i)
		case s.in.Op == OpBarrier:
			by[0].races.epoch++
		default:
			for n, m := range by {
				if err := m.one(&bodies[n][i]); err != nil {
					return fmt.Errorf("lane %d: %w", m.lane, err)
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// together runs loop i of each lane's code.
func together(by []*machine, bodies [][]step, i int) error {
	if bodies[0][i].loop.Part {
		return parts(by, bodies, i)
	}
	inner := make([][]step, len(bodies))
	for n := range bodies {
		inner[n] = bodies[n][i].body
	}
	for it := range bodies[0][i].times() {
		for n, m := range by {
			if err := m.number(&bodies[n][i], it); err != nil {
				return err
			}
		}
		for n := range by {
			bodies[n][i].order.begin(*bodies[n][i].iter)
		}
		if err := lockstep(by, inner); err != nil {
			return err
		}
		for n := range by {
			bodies[n][i].order.end()
		}
	}
	return nil
}

// ordered is the floats that parts add in order: Func.Ordered.
type ordered struct {
	dealt  *Loop
	lanes  []*Loop
	regs   [][]int64           // that the loop of parts carries
	at     int                 // the iteration of the dealt loop
	values map[int][][][]int64 // by iteration and register
}

// newOrdered is nil for a loop of parts that adds no floats.
func newOrdered(m *machine, l *Loop) *ordered {
	dealt, lanes := m.f.Ordered(l)
	if dealt == nil {
		return nil
	}
	o := &ordered{dealt: dealt, lanes: lanes, values: map[int][][][]int64{}}
	for _, r := range l.Carried {
		o.regs = append(o.regs, m.regs[r])
	}
	return o
}

// begin begins an iteration.
func (o *ordered) begin(at int) {
	if o == nil {
		return
	}
	o.at = at
	o.values[at] = make([][][]int64, len(o.regs))
	for _, reg := range o.regs {
		for i := range reg {
			reg[i] = 1 << 31 // -0
		}
	}
}

// add remembers a value of a register in this iteration.
func (o *ordered) add(number int, value []int64) {
	all := o.values[o.at]
	all[number] = append(all[number], slices.Clone(value))
}

// end ends an iteration: without lanes, registers have its values.
func (o *ordered) end() {
	if o == nil || len(o.lanes) > 0 {
		return
	}
	for n, reg := range o.regs {
		o.add(n, reg)
	}
}

// sum adds the values of a register to what it was, in their order, and forgets them.
func (o *ordered) sum(number int, sum []int64) {
	for at := range len(o.values) {
		for _, value := range o.values[at][number] {
			for i, x := range value {
				sum[i] = bitsOf(floatOf(sum[i]) + floatOf(x))
			}
		}
	}
}

// parts runs loop i of each lane's code, whose iterations are parts of a sum: workgroups that have all come here with the same values and the same
// contents of shared buffers.
func parts(by []*machine, bodies [][]step, i int) error {
	m, inner, sums := by[0], make([][]step, len(bodies)), make([][][]int64, len(bodies))
	for n := range bodies {
		inner[n] = bodies[n][i].body
		for _, reg := range bodies[n][i].carried {
			sums[n] = append(sums[n], slices.Clone(reg))
		}
	}
	begin := m.sharing()
	for it := range bodies[0][i].count {
		m.share(begin)
		for n := range by {
			if err := by[n].number(&bodies[n][i], it); err != nil {
				return err
			}
			for _, reg := range bodies[n][i].carried {
				clear(reg)
			}
		}
		if err := lockstep(by, inner); err != nil {
			return fmt.Errorf("part %d: %w", it, err)
		}
		for n := range by {
			for c, reg := range bodies[n][i].carried {
				for lane, x := range reg {
					if bodies[n][i].order == nil {
						sums[n][c][lane] = int64(int32(sums[n][c][lane] + x))
					}
				}
			}
		}
	}
	for n := range by {
		if o := bodies[n][i].order; o != nil {
			for c := range o.regs {
				o.sum(c, sums[n][c])
			}
			clear(o.values)
		}
	}
	m.share(begin)
	for n := range by {
		for c, reg := range bodies[n][i].carried {
			copy(reg, sums[n][c])
		}
	}
	return nil
}

// contents are the bytes of a shared buffer, and who has accessed them.
type contents struct {
	bytes []byte
	by    []accesses
}

// sharing is the contents of the shared buffers.
func (m *machine) sharing() (all []contents) {
	for i, p := range m.f.Params {
		if p.Shared > 0 {
			all = append(all, contents{slices.Clone(m.args[i].Buf), slices.Clone(m.races.bytes[i])})
		}
	}
	return all
}

// share gives the shared buffers the contents that they had.
func (m *machine) share(all []contents) {
	for i, p := range m.f.Params {
		if p.Shared > 0 {
			copy(m.args[i].Buf, all[0].bytes)
			copy(m.races.bytes[i], all[0].by)
			all = all[1:]
		}
	}
}

// races finds out whether what lanes and workgroups do depends on their order.
type races struct {
	f     *Func
	bytes [][]accesses // by parameter, of the bytes of its buffer
	base  []int        // by parameter, how far the workgroup has moved the pointer
	group int          // that runs, from 1
	epoch int          // barriers so far
	tiles int          // minus the accesses of tiles so far, each as by a lane of its own: which lane has which element is unknown
}

// accesses are the ones of a byte that matter.
type accesses struct {
	store, load access
	lanes       bool // several lanes have loaded it since the last barrier
	groups      bool // several workgroups have
}

// access is who accessed a byte, group 0 nobody.
type access struct{ group, lane, epoch int }

func (a access) String() string {
	if a.lane < 0 {
		return fmt.Sprintf("a tile of group %d", a.group-1)
	}
	return fmt.Sprintf("lane %d of group %d", a.lane, a.group-1)
}

// concurrent says that nothing orders a and b.
func concurrent(a, b access) bool {
	return a.group != 0 && (a.group != b.group || a.epoch == b.epoch && a.lane != b.lane)
}

func newRaces(f *Func, args []Arg) *races {
	r := &races{f: f, bytes: make([][]accesses, len(args)), base: make([]int, len(args))}
	for i, a := range args {
		r.bytes[i] = make([]accesses, len(a.Buf))
	}
	return r
}

// begin begins a workgroup, with shared buffers that nobody has stored to.
func (r *races) begin() {
	r.group++
	for i, p := range r.f.Params {
		if p.Shared > 0 {
			r.bytes[i] = make([]accesses, p.Shared)
		}
	}
}

// access is in, by a lane, at bytes [off, off+n) of its buffer.
func (r *races) access(lane int, in *Instr, off, n int) error {
	buf := in.Mem.Buf
	me := access{r.group, lane, r.epoch}
	for i := off + r.base[buf]; i < off+r.base[buf]+n; i++ {
		if err := r.bytes[buf][i].add(me, in.Op.Stores(), r.f.Params[buf].Shared > 0); err != nil {
			return fmt.Errorf("byte %d of %s %w", i, r.f.Params[buf].Name, err)
		}
	}
	return nil
}

func (b *accesses) add(me access, store, shared bool) error {
	switch {
	case concurrent(b.store, me):
		return fmt.Errorf("is stored by %v and accessed by %v, and no barrier is between", b.store, me)
	case store && (b.groups || b.lanes && b.load.epoch == me.epoch):
		return fmt.Errorf("is loaded by several lanes and stored by %v, and no barrier is between", me)
	case store && concurrent(b.load, me):
		return fmt.Errorf("is loaded by %v and stored by %v, and no barrier is between", b.load, me)
	case !store && shared && b.store.group == 0:
		return fmt.Errorf("is loaded before it is stored")
	case store:
		b.store = me
	case b.load.group != me.group || b.load.epoch != me.epoch:
		b.groups = b.groups || b.load.group != 0 && b.load.group != me.group
		b.load, b.lanes = me, false
	default:
		b.lanes = b.lanes || b.load.lane != me.lane
	}
	return nil
}
