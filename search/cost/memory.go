package cost

import (
	"github.com/tmacc/tmacc/lower/core"
)

const (
	line      = 64            // bytes of a line
	page      = 4 << 10       // bytes that prefetchers of hardware stay in
	lines     = page / line   // of a page
	sets      = 64            // of a first-level cache: lines of one place in a page are in one set
	weightsAt = 1 << 24       // the line that weights begin at; all other data are below, and never farther than the second-level cache
	followed  = 32            // pages that a prefetcher follows
	recent    = 8             // lines that tell one stream from several
	warm      = simulated / 2 // bytes of weights before time is taken
	simulated = 48 << 10      // bytes of weights of a call that is simulated
	rowsApart = TypicalK      // rows of the matrix whose tiles lie side by side
)

// memory simulates how a core waits for lines: instructions are done in order, at the pace of the execution units, or later if
// their data come later. An instruction starts when it enters the window, which the oldest one that is not done holds back.
//
// A line is asked for by a load, by a prefetch of the kernel, or by the prefetcher of the second-level cache, which follows
// ascending lines of a page. Each level waits for a limited number of lines, and brings one after the other.
type memory struct {
	h      core.Hierarchy
	home   Place
	window float64 // instructions

	cache  [sets][]entry // the first-level cache
	uses   int
	second pages     // when lines are in the second-level cache, 0: never
	fills  []float64 // when the lines come that the first-level cache waits for
	queue  []float64 // and the second-level cache
	near   wire      // from the second-level cache
	far    wire      // from beyond it
	last   float64   // when the last line comes from beyond it

	latest [recent]int // pages of the last lines from beyond
	came   int         // of such lines
	follow map[int]*stream
	order  []int // pages that the prefetcher follows, the oldest first

	index  float64 // instructions so far
	done   float64 // when the last one was
	enter  float64 // when it came into the window
	points []point
	head   int // of the points, the last one that is out of the window
}

// entry is a line in the first-level cache.
type entry struct {
	line, used int
	ready      float64
}

// stream is a page that the prefetcher follows: the last line that was asked for, how many before it were near each other, and the last
// line that the prefetcher asked for.
type stream struct{ last, seen, asked int }

// point is when an instruction was done, and how long each of those before it took.
type point struct{ index, done, each float64 }

func newMemory(c core.Core, home Place) *memory {
	m := &memory{h: c.Hierarchy, home: home, window: float64(c.Hierarchy.Window), follow: map[int]*stream{}}
	m.fills, m.queue = make([]float64, m.h.Fills), make([]float64, m.h.Queue)
	m.second.of = map[int]*[lines]float64{}
	ways := m.h.First / line / sets
	room := make([]entry, sets*ways)
	for i := range m.cache {
		m.cache[i] = room[i*ways : (i+1)*ways]
	}
	return m
}

// advance brings n instructions into the window, which the execution units take so long for, each.
func (m *memory) advance(n, each float64) {
	m.index += n
	m.done += n * each
	m.enter = m.doneAt(m.index - m.window)
	m.points = append(m.points, point{m.index, m.done, each})
}

// doneAt is when an instruction was done. Calls ask for later and later ones.
func (m *memory) doneAt(index float64) float64 {
	for m.head+1 < len(m.points) && m.points[m.head+1].index <= index {
		m.head++
	}
	if m.head > 1<<12 {
		m.points = append(m.points[:0], m.points[m.head:]...)
		m.head = 0
	}
	if index < 0 || len(m.points) == 0 {
		return 0
	}
	p := m.points[m.head]
	if m.head+1 == len(m.points) || index < p.index {
		return p.done
	}
	next := m.points[m.head+1]
	return min(p.done+(index-p.index)*next.each, next.done)
}

// wait says that the last instruction is done at t, or later.
func (m *memory) wait(t float64) {
	if t > m.done {
		m.done = t
		m.points[len(m.points)-1].done = t
	}
}

// access is what the last instruction does to the bytes at an address.
func (m *memory) access(k kind, at, bytes int) {
	x := at / line
	switch {
	case k == load:
		for last := (at + bytes - 1) / line; x <= last; x++ {
			ready, _ := m.first(x)
			m.wait(ready)
		}
	case k == near:
		_, began := m.first(x)
		m.wait(began)
	case m.find(x) != nil: // a prefetch of a line that is nearer already
	case m.h.Holds:
		slot := soonest(m.fills)
		began := max(*slot, m.enter)
		*slot = m.beyond(x, began)
		m.wait(began)
	default:
		m.beyond(x, m.enter)
	}
}

// find is a line in the first-level cache, nil if it is not there.
func (m *memory) find(x int) *entry {
	set := m.cache[x%sets]
	for i := range set {
		if set[i].line == x {
			return &set[i]
		}
	}
	return nil
}

// first brings a line to the first-level cache: when it is there, and when it could be asked for.
func (m *memory) first(x int) (ready, began float64) {
	m.uses++
	if e := m.find(x); e != nil {
		e.used = m.uses
		return e.ready, m.enter
	}
	slot := soonest(m.fills)
	began = max(m.enter, *slot)
	ready = m.near.next(m.beyond(x, began), m.h.Line[L2])
	*slot = ready
	oldest := &m.cache[x%sets][0]
	for i := range m.cache[x%sets] {
		if e := &m.cache[x%sets][i]; e.used < oldest.used {
			oldest = e
		}
	}
	*oldest = entry{x, m.uses, ready}
	return ready, began
}

// soonest is the slot that is free first.
func soonest(slots []float64) *float64 {
	least := &slots[0]
	for i := range slots {
		if slots[i] < *least {
			least = &slots[i]
		}
	}
	return least
}

// beyond asks the second-level cache for a line at t: when it could be read from there.
func (m *memory) beyond(x int, t float64) float64 {
	ready := m.second.at(x)
	if *ready == 0 {
		m.fetch(x, t, ready)
	}
	m.ahead(x, t)
	return max(*ready, t+m.h.Latency[L2])
}

// fetch brings a line to the second-level cache from where it is.
func (m *memory) fetch(x int, t float64, ready *float64) {
	from := m.home
	if x < weightsAt {
		from = L2
	}
	if from == L2 {
		*ready = max(t, 1)
		return
	}
	slot := soonest(m.queue)
	each := m.h.Line[from]
	if m.several(x/lines) && from == DRAM {
		each = m.h.Several
	}
	*slot = m.far.next(max(t, *slot)+m.h.Latency[from], each)
	*ready = *slot
	m.last = max(m.last, *slot)
}

// late is how long after the last instruction the last line comes that was asked for. In the long run it cannot grow.
func (m *memory) late() float64 { return max(0, m.last-m.done) }

// several says that the last lines from beyond the second-level cache were of several pages in turns. The next is of page p.
func (m *memory) several(p int) bool {
	changes := 0
	for i := range m.latest {
		if m.latest[i] != m.latest[(i+1)%recent] {
			changes++
		}
	}
	m.latest[m.came%recent] = p
	m.came++
	return changes > 2
}

// ahead is what the prefetcher of the second-level cache does when a line is asked for at t.
func (m *memory) ahead(x int, t float64) {
	s := m.follow[x/lines]
	if s == nil {
		m.begin(x)
		return
	}
	switch {
	case x > s.last && x <= s.last+m.h.Reach:
		s.seen++
	case x > s.last:
		s.seen = 0
	}
	s.last = max(s.last, x)
	for n := 0; n < 2 && s.seen >= 2; n++ { // two lines for each that is asked for, so that it comes ahead
		next := max(s.asked, x) + 1
		if next/lines != x/lines || next > x+m.h.Ahead {
			return
		}
		if ready := m.second.at(next); *ready == 0 {
			if *soonest(m.queue) > t {
				return
			}
			m.fetch(next, t, ready)
		}
		s.asked = next
	}
}

// begin follows the page of a line, instead of the page that came first.
func (m *memory) begin(x int) {
	m.follow[x/lines] = &stream{last: x, asked: x}
	if m.order = append(m.order, x/lines); len(m.order) > followed {
		delete(m.follow, m.order[0])
		m.order = m.order[1:]
	}
}

// wire brings lines one after the other. Time is cut into parts of wirePart cycles, and each has room for a part of the lines: lines are asked for
// in the order of the program, which is not that of time.
type wire struct {
	used [wireParts]float64 // of each part, modulo their number
	part [wireParts]int     // which part that is
}

const (
	wirePart  = 16.0
	wireParts = 1 << 12
)

// next is when a line is there that could be at t, where each takes so long.
func (w *wire) next(t, each float64) float64 {
	p := int(t / wirePart)
	for *w.at(p) >= wirePart {
		p++
	}
	u := w.at(p)
	*u += each
	if over := *u - wirePart; over > 0 {
		*u = wirePart
		*w.at(p + 1) += over
		return max(t, float64(p+1)*wirePart+over)
	}
	return max(t, float64(p)*wirePart+*u)
}

// at is how much of a part is used.
func (w *wire) at(p int) *float64 {
	i := p % wireParts
	if w.part[i] != p {
		w.part[i], w.used[i] = p, 0
	}
	return &w.used[i]
}

// pages has a number for each line of some pages.
type pages struct {
	of   map[int]*[lines]float64
	last *[lines]float64 // of the page that was looked at last
	page int
}

// at is the number of a line.
func (p *pages) at(x int) *float64 {
	if n := x / lines; p.last == nil || p.page != n {
		p.page, p.last = n, p.of[n]
		if p.last == nil {
			p.last = &[lines]float64{}
			p.of[n] = p.last
		}
	}
	return &p.last[x%lines]
}
