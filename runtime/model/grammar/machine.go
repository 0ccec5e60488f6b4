package grammar

import (
	"encoding/binary"
	"errors"
	"slices"
)

// Limits of a machine. A grammar that reaches one of the first two is refused. At the last one the machine begins anew.
const (
	mostPlaces = 10_000  // of a state
	mostSize   = 1 << 23 // places of states and closures, and next states
	fullSize   = 1 << 21
)

var errAmbiguous = errors.New("the grammar is too ambiguous, or has too many alternatives at once: more than 10000")

// machine reads the bytes of texts. It is a pushdown automaton whose states are sets of stacks, made when they are first
// reached: then a byte is one look into a table. A stack is a list of cells.
type machine struct {
	g        *Grammar
	cells    []cell
	needs    []int32 // of cells: bytes of the shortest rest of a text
	ids      map[cell]int32
	closures []*closure // of cells
	states   []state
	names    map[string]int32 // of states
	table    []int32          // the next state by state and class of byte, or unknown
	size     int              // as its limits count
	work     closing
}

// cell is a place in a node, and the cell where the text goes on after the node: bottom for the end of the text.
//
//	oneByte   before the byte
//	sequence  n kids are done
//	repeat    the kid has been n times, at most its least or most number of times
type cell struct{ node, n, below int32 }

// bottom is the cell at which a text is complete.
const bottom int32 = 0

// closure is where a text can go on without another byte: before which bytes, and whether it may end.
type closure struct {
	bytes []int32
	ends  bool
}

// state is all places where a text can be after the same bytes.
type state struct {
	bytes []int32 // cells
	ends  bool
	need  int32 // bytes of the shortest rest
}

// The first states.
const (
	dead  int32 = iota // no text of the grammar
	start              // nothing read so far
)

// unknown is a next state that was not asked for so far.
const unknown int32 = -1

func newMachine(g *Grammar) (*machine, error) {
	m := &machine{g: g, ids: map[cell]int32{}, names: map[string]int32{}}
	m.cells, m.needs = append(m.cells, cell{node: -1}), append(m.needs, 0) // the bottom
	m.closures = append(m.closures, &closure{ends: true})
	m.state(nil, false) // dead
	m.work.begin()
	if err := m.enter(g.root, bottom); err != nil {
		return nil, err
	}
	m.state(slices.Sorted(slices.Values(m.work.bytes)), g.nullable(g.root))
	return m, nil
}

// cell is the number of a cell.
func (m *machine) cell(c cell) int32 {
	id, ok := m.ids[c]
	if !ok {
		id = int32(len(m.cells))
		m.cells = append(m.cells, c)
		m.needs = append(m.needs, min(endless, m.needHere(c)+m.needs[c.below]))
		m.closures = append(m.closures, nil)
		m.ids[c] = id
	}
	return id
}

// state is the number of a state.
func (m *machine) state(cells []int32, ends bool) int32 {
	name := make([]byte, 0, 4*len(cells)+1)
	for _, c := range cells {
		name = binary.LittleEndian.AppendUint32(name, uint32(c))
	}
	if ends {
		name = append(name, 1)
	}
	id, ok := m.names[string(name)]
	if !ok {
		id = int32(len(m.states))
		m.names[string(name)] = id
		s := state{bytes: cells, ends: ends, need: endless}
		if ends {
			s.need = 0
		}
		for _, c := range cells {
			s.need = min(s.need, m.needs[c])
		}
		m.states = append(m.states, s)
		m.size += len(cells) + m.g.count
		for range m.g.count {
			m.table = append(m.table, unknown)
		}
	}
	return id
}

// needHere is how many bytes the shortest rest of a cell's node has.
func (m *machine) needHere(c cell) int32 {
	switch n := &m.g.nodes[c.node]; n.kind {
	case oneByte:
		return 1
	case sequence:
		return n.rest[c.n]
	default:
		kid := int64(m.g.nodes[n.kids[0]].need)
		return int32(min(endless, kid*int64(max(0, n.least-c.n))))
	}
}

// next is the state after a byte.
func (m *machine) next(at int32, b byte) (int32, error) {
	class := int(m.g.class[b])
	i := int(at)*m.g.count + class
	if to := m.table[i]; to != unknown {
		return to, nil
	}
	to, err := m.step(at, m.g.bytes[class])
	if err == nil {
		m.table[i] = to
	}
	return to, err
}

// step makes the state after a byte.
func (m *machine) step(at int32, b byte) (int32, error) {
	var bytes []int32
	ends := false
	for _, id := range m.states[at].bytes {
		c := m.cells[id]
		if !m.g.sets[m.g.nodes[c.node].set].has(b) {
			continue
		}
		below, err := m.closure(c.below)
		if err != nil {
			return dead, err
		}
		bytes, ends = append(bytes, below.bytes...), ends || below.ends
	}
	slices.Sort(bytes)
	bytes = slices.Clip(slices.Compact(bytes))
	if len(bytes) > mostPlaces || m.size > mostSize {
		return dead, errAmbiguous
	}
	return m.state(bytes, ends), nil
}

// closing is a closure in the making.
type closing struct {
	seen  map[cell]bool
	bytes []int32
	ends  bool
}

func (w *closing) begin() { *w = closing{seen: map[cell]bool{}} }

// closure is where a text can go on after a node that is on top of a cell.
func (m *machine) closure(id int32) (*closure, error) {
	if c := m.closures[id]; c != nil {
		return c, nil
	}
	m.work.begin()
	if err := m.leave(id); err != nil {
		return nil, err
	}
	slices.Sort(m.work.bytes)
	c := &closure{slices.Clip(slices.Compact(m.work.bytes)), m.work.ends}
	m.closures[id] = c
	m.size += len(c.bytes)
	return c, nil
}

// leave goes on at a cell after the kid that was on top of it. What may be empty is left in turn.
func (m *machine) leave(id int32) error {
	for ; id != bottom; id = m.cells[id].below {
		c := m.cells[id]
		if err := m.goOn(c); err != nil {
			return err
		}
		if m.needHere(c) > 0 {
			return nil
		}
	}
	m.work.ends = true
	return nil
}

// goOn finds the bytes with which the rest of a cell's node can begin.
func (m *machine) goOn(c cell) error {
	n := &m.g.nodes[c.node]
	if n.kind == repeat {
		return m.again(c)
	}
	for i := int(c.n); i < len(n.kids); i++ {
		below := c.below
		if i+1 < len(n.kids) { // the last kid needs no cell to return to, so that lists by recursion do not grow
			below = m.cell(cell{c.node, int32(i + 1), c.below})
		}
		if err := m.enter(n.kids[i], below); err != nil || !m.g.nullable(n.kids[i]) {
			return err
		}
	}
	return nil
}

// again finds the bytes with which the kid of a repeat can begin once more.
func (m *machine) again(c cell) error {
	n := &m.g.nodes[c.node]
	switch {
	case n.most >= 0 && c.n >= n.most:
		return nil
	case n.most >= 0 || c.n < n.least:
		c.n++
	}
	if c.n == n.most {
		return m.enter(n.kids[0], c.below)
	}
	return m.enter(n.kids[0], m.cell(c))
}

// enter finds the bytes with which a node can begin, if it is not empty, above a cell.
func (m *machine) enter(node, below int32) error {
	at := cell{node, 0, below}
	if m.work.seen[at] {
		return nil
	}
	m.work.seen[at] = true
	if len(m.work.seen) > mostPlaces {
		return errAmbiguous
	}
	switch n := &m.g.nodes[node]; n.kind {
	case oneByte:
		m.work.bytes = append(m.work.bytes, m.cell(at))
		return nil
	case sequence, repeat:
		return m.goOn(at)
	default:
		for _, kid := range n.kids {
			if err := m.enter(kid, below); err != nil {
				return err
			}
		}
		return nil
	}
}

// full reports whether the machine should begin anew.
func (m *machine) full() bool { return m.size+len(m.cells) > fullSize }

// moved is a state of m in another machine of the same grammar.
func (m *machine) moved(at int32, to *machine) int32 {
	var bytes []int32
	for _, id := range m.states[at].bytes {
		var path []cell
		for ; id != bottom; id = m.cells[id].below {
			path = append(path, m.cells[id])
		}
		below := bottom
		for _, c := range slices.Backward(path) {
			c.below = below
			below = to.cell(c)
		}
		bytes = append(bytes, below)
	}
	slices.Sort(bytes)
	return to.state(bytes, m.states[at].ends)
}
