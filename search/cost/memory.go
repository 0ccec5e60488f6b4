package cost

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/schedule"
)

const (
	line = 64      // bytes of a line
	page = 4 << 10 // bytes of a page
)

// Place is where the weights of a call are.
type Place int

// The places of weights, from near to far.
const (
	L2 Place = iota
	L3
	DRAM
)

// access is an instruction that reads memory or asks for a line.
type access struct {
	kind    kind
	buf     int
	off     int
	bytes   int
	strides []vir.Stride
	gap     int     // instructions from the access before it, or from the begin of its loop's body, with itself
	each    float64 // cycles that each of them takes
}

type kind int

const (
	load   kind = iota
	near        // a prefetch into the first-level cache
	second      // a prefetch into the second-level cache
)

// step is an access or a loop of a program.
type step struct {
	access
	loop *loop
}

// loop is a loop of a program: its number, its trips, its body, and the instructions after its last access.
type loop struct {
	id, trips int
	body      []step
	rest      int
	each      float64
}

// program is what a call does to memory.
type program struct {
	k       *schedule.Kernel
	top     loop
	params  []vir.Param
	parts   [][]int // of the rows of a tile that a call takes, the offset of each buffer
	weights []bool  // by buffer
	loops   int
	k0      int     // elements of K of a call
	share   float64 // of TypicalK
	cycles  float64 // of all its instructions
	sides   int
}

// simulated is how many bytes of weights a simulated call reads, if it reads so many.
const simulated = 48 << 10

func newProgram(k *schedule.Kernel, s *lower.Selected, p Pipeline) *program {
	g := &program{k: k, params: s.Func.Params, weights: make([]bool, len(s.Func.Params)), sides: max(k.Rows/k.Weights.TileM, 1)}
	rows := min(k.Rows, k.Weights.TileM)
	for row := 0; row < k.Weights.TileM; row += rows {
		g.parts = append(g.parts, make([]int, len(g.params)))
	}
	for i, x := range g.params {
		if part := k.Weights.Part(x.Name); part != nil && slices.Contains(format.PartNames[:], x.Name) {
			g.weights[i] = true
			for j := range g.parts {
				g.parts[j][i] = part.Offset(j*rows, 0)
			}
		}
	}
	all := float64(k.Weights.TileBytes(TypicalK)*g.sides) / float64(len(g.parts))
	full := (k.FilledK(TypicalK) + k.StepK - 1) / k.StepK
	trips := full
	if all > simulated {
		trips = max(1, int(float64(full)*simulated/all))
	}
	g.k0 = trips * k.StepK
	g.share = float64(trips) / float64(full)
	b := builder{g: g, s: s, trips: trips, cycles: map[int]float64{}}
	for _, x := range p.Stretches {
		id := -1
		if x.Loop != nil {
			id = x.Loop.ID
		}
		b.cycles[id] += x.Cycles
	}
	g.top = loop{trips: 1, id: -1}
	b.body(s.Func.Body, &g.top)
	g.cycles = g.top.cycles()
	return g
}

// cycles is what the instructions of l take.
func (l *loop) cycles() (sum float64) {
	for _, x := range l.body {
		if x.loop != nil {
			sum += x.loop.cycles()
		} else {
			sum += float64(x.gap) * x.each
		}
	}
	return float64(l.trips) * (sum + float64(l.rest)*l.each)
}

type builder struct {
	g      *program
	s      *lower.Selected
	trips  int
	cycles map[int]float64 // of one run of the instructions of each loop that are in no loop inside
}

func (b *builder) body(body []vir.Node, l *loop) {
	n := 0
	for _, x := range body {
		if in, ok := x.(*vir.Instr); ok && b.s.Rows[in] != nil {
			n++
		}
	}
	l.each = b.cycles[l.id] / float64(max(n, 1))
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			if b.s.Rows[n] == nil {
				continue
			}
			l.rest++
			if a, ok := b.access(n); ok {
				l.add(step{access: a})
			}
		case *vir.Loop:
			l.add(step{access: access{kind: -1}})
			in := &loop{id: n.ID, trips: n.Count.Const}
			b.g.loops = max(b.g.loops, n.ID+1)
			if n.Count.Param >= 0 {
				in.trips = b.trips
			}
			if n.List > 0 {
				in.trips = 0
			}
			b.body(n.Body, in)
			if in.trips > 0 {
				l.body = append(l.body, step{loop: in})
			}
		}
	}
}

// add ends the instructions since the last access.
func (l *loop) add(x step) {
	x.gap, x.each = l.rest, l.each
	l.rest = 0
	l.body = append(l.body, x)
}

func (b *builder) access(in *vir.Instr) (a access, ok bool) {
	if !in.HasMem() || in.Op == vir.OpStore || b.g.params[in.Mem.Buf].Name == "out" {
		return a, false
	}
	a = access{buf: in.Mem.Buf, off: in.Mem.Off, strides: in.Mem.Stride, bytes: 4}
	switch {
	case in.Op == vir.OpPrefetch:
		a.kind, a.bytes = near, 1
	case in.Op == vir.OpPrefetch2:
		a.kind, a.bytes = second, 1
	case in.Fold > 0 && in.FoldUnit > 0:
		a.bytes = in.FoldUnit
	case in.Fold > 0:
		a.bytes = in.FoldType.Bytes()
	case in.Op == vir.OpLoad:
		a.bytes = b.s.Func.Regs[in.Dst].Bytes()
	}
	for _, x := range in.Mem.Plus {
		if x.Times != 0 && b.g.params[x.By].Name == nest.StepParam("side") {
			a.off += x.Times * b.g.sideBytes()
		}
	}
	return a, true
}

// sideBytes is how far tiles side by side are apart.
func (g *program) sideBytes() int {
	const rows = 4096
	return rows / g.sides / g.k.Weights.TileM * g.k.Weights.TileBytes(g.k0)
}

// memory is a simulation of a core that waits for memory.
type memory struct {
	h         core.Hierarchy
	window    float64 // instructions in flight
	home      Place
	sets      [][]entry // of the first-level cache
	stamp     int
	second    pages     // when lines are in the second-level cache
	fills     []float64 // when each of the lines that the first-level cache waits for arrives
	queue     []float64 // the same of the second-level cache
	near, far wire      // from the second-level cache, and from beyond it
	recent    [8]int    // of the last lines from beyond it
	npages    int
	streams   map[int]*stream
	order     []int
	weights   func(line int) bool

	index  float64 // instructions so far
	retire float64 // when the last instruction was done
	enter  float64 // when the last one came into the window
	points []point
	head   int
}

type point struct{ index, time, each float64 }

type entry struct {
	line  int
	ready float64
	used  int
}

// followed is how many pages a prefetcher follows.
const followed = 32

type stream struct{ last, seen, asked int }

// beside is how many instructions are in flight for each that waits for data: others wait for nothing, or are done.
const beside = 1.5

// weightsAt is the address from which on weights lie.
const weightsAt = 1 << 36

func newMemory(c core.Core, home Place, g *program) *memory {
	h := c.Hierarchy
	m := &memory{h: h, window: beside * float64(c.Pipeline.Waiting), home: home, second: pages{of: map[int]*[page / line]float64{}}, fills: make([]float64, h.Fills), queue: make([]float64, h.Queue),
		streams: map[int]*stream{}}
	m.sets = make([][]entry, 64)
	ways := h.First / line / 64
	room := make([]entry, 64*ways)
	for i := range m.sets {
		m.sets[i] = room[i*ways : (i+1)*ways]
	}
	return m
}

// run simulates calls for tiles one after the other and returns what a call takes once the caches are warm.
func (m *memory) run(g *program) (cycles float64) {
	base, at := make([]int, len(g.params)), make([]int, g.loops)
	tile := g.k.Weights.TileBytes(g.k0)
	warm := max(1, (simulated/2+tile*g.sides-1)/(tile*g.sides))
	began := 0.0
	for i := range 2*warm + 1 {
		if i == warm {
			began = m.retire
		}
		for _, part := range g.parts {
			for j := range base {
				base[j] = (j + 1) << 24
				if g.weights[j] {
					base[j] = weightsAt + i*tile + part[j]
				}
			}
			m.loop(&g.top, base, at)
		}
	}
	return (m.retire - began) / float64((warm+1)*len(g.parts))
}

func (m *memory) loop(l *loop, base, at []int) {
	for i := range l.trips {
		if l.id >= 0 {
			at[l.id] = i
		}
		for j := range l.body {
			x := &l.body[j]
			if x.loop != nil {
				m.loop(x.loop, base, at)
				continue
			}
			m.advance(float64(x.gap), x.each)
			if x.kind >= 0 {
				a := base[x.buf] + x.off
				for _, s := range x.strides {
					a += s.Bytes * at[s.Loop]
				}
				m.access(&x.access, a)
			}
		}
		m.advance(float64(l.rest), l.each)
	}
	if l.id >= 0 {
		at[l.id] = 0
	}
}

// advance brings n instructions into the window.
func (m *memory) advance(n, each float64) {
	m.index += n
	m.retire += n * each
	m.enter = m.retiredAt(m.index - m.window)
	m.points = append(m.points, point{m.index, m.retire, each})
}

// retiredAt is when an instruction was done.
func (m *memory) retiredAt(index float64) float64 {
	if index < 0 {
		return 0
	}
	for m.head+1 < len(m.points) && m.points[m.head+1].index <= index {
		m.head++
	}
	if m.head > 1<<12 {
		m.points = append(m.points[:0], m.points[m.head:]...)
		m.head = 0
	}
	if m.head >= len(m.points) {
		return m.retire
	}
	p := m.points[m.head]
	t := p.time
	if m.head+1 < len(m.points) {
		t = min(t+(index-p.index)*m.points[m.head+1].each, m.points[m.head+1].time)
	}
	return t
}

// done says that the last instruction takes until t.
func (m *memory) done(t float64) {
	if t > m.retire {
		m.retire = t
		m.points[len(m.points)-1].time = t
	}
}

func (m *memory) access(a *access, at int) {
	switch a.kind {
	case load:
		for x := at / line; x <= (at+a.bytes-1)/line; x++ {
			ready, _ := m.first(x, m.enter)
			m.done(ready)
		}
	case near:
		_, began := m.first(at/line, m.enter)
		m.done(began)
	case second:
		if m.find(at/line) != nil {
			return
		}
		if !m.h.Holds {
			m.beyond(at/line, m.enter)
			return
		}
		slot := free(m.fills)
		t := max(m.fills[slot], m.enter)
		m.fills[slot] = m.beyond(at/line, t)
		m.done(t)
	}
}

// find is the entry of a line in the first-level cache, nil if it is not there.
func (m *memory) find(x int) *entry {
	set := m.sets[x%64]
	for i := range set {
		if set[i].line == x {
			return &set[i]
		}
	}
	return nil
}

// free is the place in slots that is free first.
func free(slots []float64) int {
	least := 0
	for i, t := range slots {
		if t < slots[least] {
			least = i
		}
	}
	return least
}

// first brings a line to the first-level cache: when it is there, and when it could be asked for.
func (m *memory) first(x int, t float64) (ready, began float64) {
	m.stamp++
	if e := m.find(x); e != nil {
		e.used = m.stamp
		return max(t, e.ready), t
	}
	slot := free(m.fills)
	t = max(t, m.fills[slot])
	ready = m.near.next(m.beyond(x, t), m.h.Line[L2])
	m.fills[slot] = ready
	set := m.sets[x%64]
	old := 0
	for i := range set {
		if set[i].used < set[old].used {
			old = i
		}
	}
	set[old] = entry{x, ready, m.stamp}
	return ready, t
}

// beyond brings a line to the second-level cache, asked for at t by the first-level cache or a prefetch, and is when it could be read from there.
func (m *memory) beyond(x int, t float64) float64 {
	ready := *m.second.at(x)
	if ready == 0 {
		ready = m.fetch(x, t)
	}
	m.ahead(x, t)
	return max(ready, t+m.h.Latency[L2])
}

// fetch brings a line from where it is.
func (m *memory) fetch(x int, t float64) float64 {
	from := L2
	if x >= weightsAt/line {
		from = m.home
	}
	if from == L2 {
		*m.second.at(x) = t
		return t
	}
	slot := free(m.queue)
	t = max(t, m.queue[slot])
	each := m.h.Line[from]
	if from == DRAM && m.several(x*line/page) {
		each = m.h.Several
	}
	ready := m.far.next(t+m.h.Latency[from], each)
	m.queue[slot] = ready
	*m.second.at(x) = ready
	return ready
}

// several says that the last lines came from several pages in turns.
func (m *memory) several(p int) bool {
	changes := 0
	for i := range m.recent {
		if m.recent[i] != m.recent[(i+1)%len(m.recent)] {
			changes++
		}
	}
	m.recent[m.npages%len(m.recent)] = p
	m.npages++
	return changes > 2
}

// ahead is what the second-level cache's prefetcher does when a line is asked for.
func (m *memory) ahead(x int, t float64) {
	p := x * line / page
	s := m.streams[p]
	if s == nil {
		s = &stream{last: x, asked: x}
		m.streams[p] = s
		m.order = append(m.order, p)
		if len(m.order) > followed {
			delete(m.streams, m.order[0])
			m.order = m.order[1:]
		}
		return
	}
	switch {
	case x > s.last && x <= s.last+m.h.Reach:
		s.seen++
	case x > s.last:
		s.seen = 0
	}
	s.last = max(s.last, x)
	if s.seen < 2 {
		return
	}
	end := (p+1)*page/line - 1
	for n := 0; n < 2; n++ {
		next := max(s.asked, x) + 1
		if next > end || next > x+m.h.Ahead {
			return
		}
		if *m.second.at(next) == 0 {
			if m.queue[free(m.queue)] > t {
				return
			}
			m.fetch(next, t)
		}
		s.asked = next
	}
}

// wire brings one line after the other. Time is cut into parts of wirePart cycles, each with room for a part of a line.
type wire struct {
	used [1 << 12]float64 // of each part
	part [1 << 12]int     // which part it is, all modulo the length
}

const wirePart = 16

// next is when a line that could come at t does, where each takes so long.
func (w *wire) next(t, each float64) float64 {
	for p := int(t / wirePart); ; p++ {
		i := p % len(w.used)
		if w.part[i] != p {
			w.part[i], w.used[i] = p, 0
		}
		if w.used[i] < wirePart {
			w.used[i] += each
			if over := w.used[i] - wirePart; over > 0 { // the rest is of the next part
				j := (p + 1) % len(w.used)
				if w.part[j] != p+1 {
					w.part[j], w.used[j] = p+1, 0
				}
				w.used[j] += over
				w.used[i] = wirePart
				return max(t, float64(p+1)*wirePart+over)
			}
			return max(t, float64(p)*wirePart+w.used[i])
		}
	}
}

// pages has a number for each line of some pages.
type pages struct {
	of   map[int]*[page / line]float64
	last *[page / line]float64 // of the page that was looked at last
	page int
}

// at is the number of a line.
func (p *pages) at(x int) *float64 {
	if n := x * line / page; p.last == nil || p.page != n {
		p.page, p.last = n, p.of[n]
		if p.last == nil {
			p.last = &[page / line]float64{}
			p.of[n] = p.last
		}
	}
	return &p.last[x%(page/line)]
}
