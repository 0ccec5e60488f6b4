package cost

import (
	"math"
	"math/bits"
	"sync"

	"github.com/tmacc/tmacc/lower/core"
)

const (
	line      = 64            // bytes of a line
	page      = 4 << 10       // bytes of a page of memory
	sets      = page / line   // of a first-level cache: it is looked up while the page is still translated, by the bits of the place within the page
	weightsAt = 1 << 24       // the line that weights begin at; all other data are below, and never farther than the second-level cache
	followed  = 32            // regions that a prefetcher follows
	recent    = 8             // lines that tell one stream from several
	warm      = simulated / 2 // bytes of weights before time is taken
	simulated = 48 << 10      // bytes of weights of a call that is simulated
	rowsApart = TypicalK      // rows of the matrix whose tiles lie side by side
)

// Model has the numbers of the memory model that no core has of its own. The first four are fitted to the measured pairs of all cores, by
// go run ./tests/lab fit. The others are given.
type Model struct {
	Window float64 `json:"window"` // the part of a core's window that is in flight while the oldest instruction waits for a line: its dependents fill schedulers
	Begins int     `json:"begins"` // ascending lines of a page from which a prefetcher follows them
	Reach  int     `json:"reach"`  // the most lines from one to the next of these
	Asks   int     `json:"asks"`   // lines that a prefetcher asks for at each that is asked for
	Looks  float64 `json:"looks"`  // the part of a line's time that a prefetch into the second-level cache keeps that busy
}

// Fitted is the model that estimates are by.
var Fitted = Model{Window: 0.35, Begins: 2, Reach: 4, Asks: 2, Looks: 0.5}

// memory simulates how a core waits for lines: instructions are done in order, at the pace of the execution units, or later if
// their data come later. An instruction starts when it enters the window, which the oldest one that is not done holds back.
//
// A line is asked for by a load, by a prefetch of the kernel, or by the prefetcher of the second-level cache. That follows
// ascending lines of a page which the first-level cache asks for, and on some cores prefetches into the second-level cache. On others it follows only loads of lines that are
// still missing there (core.Hierarchy, Misses). Each level waits for a limited number of lines, and brings one after the other.
type memory struct {
	h      core.Hierarchy
	model  Model
	home   Place
	window float64 // instructions

	cache cache // of the first level
	pages pages
	fills slots   // when the lines come that the first-level cache waits for
	queue slots   // and the second-level cache
	near  *wire   // from the second-level cache
	far   *wire   // from beyond it
	last  float64 // when the last line comes from beyond it

	latest [recent]int // pages of the last lines from beyond
	came   int         // of such lines
	follow []*paged    // that the prefetcher follows, the oldest first

	index  float64 // instructions so far
	done   float64 // when the last one was
	enter  float64 // when it came into the window, -1: not computed, which most loads do not need
	points []point // a ring: the last of them, as many as the window has room for
	ends   int     // of all points
	head   int     // of the points, the last one that is out of the window
}

// cache is a first-level cache. Its entries lie set by set, and what is looked at most lies together.
type cache struct {
	ways  int
	line  []int // of each entry
	used  []int // when it was used last
	ready []float64
	last  [sets]int // the entry of each set that was found last
	uses  int
}

// point is when an instruction was done, and how long each of those before it took.
type point struct{ index, done, each float64 }

// rooms are memories that are not used any more: a new one takes their arrays.
var rooms sync.Pool

func newMemory(model Model, c core.Core, home Place) *memory {
	m, ok := rooms.Get().(*memory)
	if !ok {
		m = &memory{near: &wire{}, far: &wire{}}
	}
	m.near.reset()
	m.far.reset()
	*m = memory{near: m.near, far: m.far, h: c.Hierarchy, model: model, home: home, window: float64(model.Window * float64(c.Pipeline.Window)), points: m.points, cache: m.cache}
	m.fills, m.queue = make(slots, m.h.Fills), make(slots, inFlight(m.h))
	m.pages = pages{of: map[int]*paged{}, lines: m.h.Region() / line}
	m.cache.clear(m.h.First / line / sets)
	if room := 1 << bits.Len(uint(m.window)+2); room > len(m.points) { // each point is one instruction or more
		m.points = make([]point, room)
	}
	return m
}

// inFlight is how many lines the second-level cache waits for at once: the latency of memory, in lines of its fastest stream.
func inFlight(h core.Hierarchy) int {
	return int(math.Ceil(h.Latency[DRAM] / min(h.Line[DRAM], h.Several)))
}

// clear empties a cache of some ways.
func (c *cache) clear(ways int) {
	if c.ways != ways {
		*c = cache{ways: ways, line: make([]int, sets*ways), used: make([]int, sets*ways), ready: make([]float64, sets*ways)}
	}
	clear(c.line)
	clear(c.used)
	clear(c.ready)
	for i := range c.last {
		c.last[i] = i * ways
	}
	c.uses = 0
}

// advance brings n instructions into the window, which the execution units take so long for, in all and each.
func (m *memory) advance(n, works, each float64) {
	m.index += n
	m.done += works
	m.enter = -1
	*m.point(m.ends) = point{m.index, m.done, each}
	m.ends++
}

// point is one of the last points.
func (m *memory) point(i int) *point { return &m.points[i&(len(m.points)-1)] }

// entered is when the last instruction came into the window: when the one was done that is a window before it.
func (m *memory) entered() float64 {
	if m.enter >= 0 {
		return m.enter
	}
	index, before := m.index-m.window, m.ends-1 // the last point is of the instruction itself
	m.head = max(m.head, m.ends-len(m.points))
	for m.head+1 < before && m.point(m.head+1).index <= index {
		m.head++
	}
	m.enter = 0
	if index < 0 || before == 0 {
		return m.enter
	}
	p := m.point(m.head)
	if m.enter = p.done; m.head+1 < before && index >= p.index {
		next := m.point(m.head + 1)
		m.enter = min(p.done+float64((index-p.index)*next.each), next.done)
	}
	return m.enter
}

// wait says that the last instruction is done at t, or later.
func (m *memory) wait(t float64) {
	if t > m.done {
		m.done = t
		m.point(m.ends - 1).done = t
	}
}

// access is what the last instruction does to the bytes at an address.
func (m *memory) access(k kind, at, bytes int) {
	x := lineOf(at)
	switch {
	case k == load:
		for last := lineOf(at + bytes - 1); x <= last; x++ {
			m.wait(m.first(x, false))
		}
	case k == near:
		began := m.entered()
		if m.cache.find(x) < 0 {
			began = max(began, m.fills[0])
		}
		m.first(x, m.h.Misses)
		m.wait(began)
	case m.cache.find(x) >= 0: // a prefetch of a line that is nearer already
	case m.h.Holds:
		if m.fills[0] > m.entered()+m.h.Latency[L2] { // it waits for lines that are on their way, and is dropped before ones that are farther
			return
		}
		began := max(m.fills[0], m.entered())
		m.near.next(began, float64(m.model.Looks*m.h.Line[L2]))
		m.fills.replace(m.second(x, began))
		m.wait(began)
	default:
		m.near.next(m.entered(), float64(m.model.Looks*m.h.Line[L2]))
		m.second(x, m.entered())
	}
}

// second brings a line to the second-level cache at t by a prefetch: when it is there.
func (m *memory) second(x int, t float64) float64 {
	ready := m.beyond(x, t)
	if m.h.Trains {
		m.ahead(m.pages.at(x), x, t)
	}
	return ready
}

// lineOf is the line of an address, which is not negative.
func lineOf(at int) int { return int(uint(at) / line) }

// find is the entry of a line, -1 if it is not there.
func (c *cache) find(x int) int {
	set := uint(x) % sets
	if at := c.last[set]; c.line[at] == x {
		return at
	}
	first := int(set) * c.ways
	for i, known := range c.line[first : first+c.ways] {
		if known == x {
			c.last[set] = first + i
			return first + i
		}
	}
	return -1
}

// replace puts a line in the place of the one of its set that was not used for longest. It comes at a time.
func (c *cache) replace(x int, ready float64) {
	set := uint(x) % sets
	oldest := int(set) * c.ways
	for i, first := 1, oldest; i < c.ways; i++ {
		if c.used[first+i] < c.used[oldest] {
			oldest = first + i
		}
	}
	c.line[oldest], c.used[oldest], c.ready[oldest] = x, c.uses, ready
	c.last[set] = oldest
}

// first brings a line to the first-level cache: when it is there. The prefetcher hears of it if it is not quiet.
func (m *memory) first(x int, quiet bool) (ready float64) {
	m.cache.uses++
	p := m.pages.at(x)
	second := p.ready[x%m.pages.lines] // when it comes to the second-level cache, if it was asked for
	if e := m.cache.find(x); e >= 0 {
		m.cache.used[e] = m.cache.uses
		if t := m.entered(); m.h.Misses && !quiet && second > t {
			m.ahead(p, x, t)
		}
		return m.cache.ready[e]
	}
	began := max(m.entered(), m.fills[0])
	ready = m.beyond(x, began)
	if !quiet && (!m.h.Misses || second == 0 || second > began) {
		m.ahead(p, x, began)
	}
	ready = m.near.next(ready, m.h.Line[L2])
	m.fills.replace(ready)
	m.cache.replace(x, ready)
	return ready
}

// slots are when each of some lines comes that a cache waits for, a heap: the next one first.
type slots []float64

// replace gives the slot that is free first to a line that comes at t.
func (s slots) replace(t float64) {
	i := 0
	for {
		child := 2*i + 1
		if child+1 < len(s) && s[child+1] < s[child] {
			child++
		}
		if child >= len(s) || s[child] >= t {
			break
		}
		s[i] = s[child]
		i = child
	}
	s[i] = t
}

// beyond asks the second-level cache for a line at t: when it could be read from there.
func (m *memory) beyond(x int, t float64) float64 {
	p := m.pages.at(x)
	ready := &p.ready[x%m.pages.lines]
	if *ready == 0 {
		m.fetch(x, t, ready)
	}
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
	each := m.h.Line[from]
	if m.several(x/m.pages.lines) && from == DRAM {
		each = m.h.Several
	}
	*ready = m.far.next(max(t, m.queue[0])+m.h.Latency[from], each)
	m.queue.replace(*ready)
	m.last = max(m.last, *ready)
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

// ahead is what the prefetcher of the second-level cache does when a line x of page p is asked for at t.
func (m *memory) ahead(p *paged, x int, t float64) {
	if !p.followed {
		m.begin(p, x)
		return
	}
	switch {
	case x > p.last && x <= p.last+m.model.Reach:
		p.seen++
	case x > p.last:
		p.seen = 0
	}
	p.last = max(p.last, x)
	for n := 0; n < m.model.Asks && p.seen >= m.model.Begins; n++ { // several, so that it comes ahead
		next := max(p.asked, x) + 1
		if next/m.pages.lines != x/m.pages.lines || next > x+m.h.Lead() {
			return
		}
		if ready := &p.ready[next%m.pages.lines]; *ready == 0 {
			m.fetch(next, t, ready)
		}
		p.asked = next
	}
}

// begin follows page p from line x on, instead of the page that came first.
func (m *memory) begin(p *paged, x int) {
	p.followed, p.last, p.seen, p.asked = true, x, 0, x
	if len(m.follow) == followed {
		m.follow[0].followed = false
		m.follow = append(m.follow[:0], m.follow[1:]...)
	}
	m.follow = append(m.follow, p)
}

// wire brings lines one after the other. Time is cut into parts of wirePart cycles, and each has room for a part of the lines: lines are asked for
// in the order of the program, which is not that of time.
type wire struct {
	used [wireParts]float64 // of each part, modulo their number
	part [wireParts]int     // which part that is
	full float64            // of a part that is not there any more
}

const (
	wirePart  = 16.0
	wireParts = 1 << 12
)

// reset forgets all lines. Part 0 is the only one that a part of number 0 in the ring is.
func (w *wire) reset() {
	clear(w.part[:])
	w.used[0] = 0
}

// next is when a line is there that could be at t, where each takes so long.
func (w *wire) next(t, each float64) float64 {
	p := int(t / wirePart)
	for *w.at(p) >= wirePart {
		p++
	}
	u := w.at(p)
	*u += each
	over := *u - wirePart
	if over <= 0 {
		return max(t, float64(float64(p)*wirePart)+*u)
	}
	*u = wirePart
	for p++; over > wirePart || w.gone(p); p++ { // of a line that takes several parts
		u := w.at(p)
		*u, over = wirePart, over-(wirePart-*u)
	}
	*w.at(p) += over
	return max(t, float64(float64(p)*wirePart)+over)
}

// at is how much of a part is used. A part whose place a later one has is full.
func (w *wire) at(p int) *float64 {
	if w.gone(p) {
		w.full = wirePart
		return &w.full
	}
	i := uint(p) % wireParts
	if w.part[i] < p {
		w.part[i], w.used[i] = p, 0
	}
	return &w.used[i]
}

// gone says that a later part has the place of p.
func (w *wire) gone(p int) bool { return w.part[uint(p)%wireParts] > p }

// paged is a page: when its lines are in the second-level cache, 0: never. If the prefetcher follows it: the last line that was asked for,
// how many before it were near each other, and the last line that the prefetcher asked for.
type paged struct {
	ready             []float64
	followed          bool
	last, seen, asked int
}

// pages has some pages by their numbers, and keeps at hand those that were looked at last.
type pages struct {
	lines  int // of a page
	of     map[int]*paged
	atHand [16]*paged
	number [16]int
}

// at is the page of a line.
func (p *pages) at(x int) *paged {
	n := x / p.lines
	i := n % len(p.atHand)
	if p.atHand[i] == nil || p.number[i] != n {
		if p.of[n] == nil {
			p.of[n] = &paged{ready: make([]float64, p.lines)}
		}
		p.number[i], p.atHand[i] = n, p.of[n]
	}
	return p.atHand[i]
}
