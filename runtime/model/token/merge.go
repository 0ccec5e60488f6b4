package token

// merger joins neighbouring symbols of a text, the best pair first, until none is left to join. It keeps its memory from
// one text to the next.
type merger struct {
	symbols []symbol
	queue   queue
}

// symbol is a part of a text, from start to end in bytes. Symbols are linked from left to right.
type symbol struct {
	start, end int
	prev, next int   // -1: none
	id         int32 // what the encoder knows it by; absorbed if it has become a part of the symbol on its left
}

const absorbed int32 = -2

// candidate is a pair of neighbours that may be joined.
type candidate struct {
	rank        int32 // low ones first
	id          int32 // of what the pair becomes
	left, right int
	end         int // of the pair: another one than now means that one of the two has grown since
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.left < b.left
}

func (m *merger) reset() { m.symbols, m.queue = m.symbols[:0], m.queue[:0] }

// add appends a symbol.
func (m *merger) add(start, end int, id int32) {
	n := len(m.symbols)
	if n > 0 {
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, symbol{start, end, n - 1, -1, id})
}

// join merges the symbols. pair says what two neighbours become; ok is false if they stay apart.
func (m *merger) join(pair func(left, right *symbol) (to merge, ok bool)) {
	offer := func(left, right int) {
		if left < 0 || right < 0 {
			return
		}
		l, r := &m.symbols[left], &m.symbols[right]
		if to, ok := pair(l, r); ok {
			m.queue.push(candidate{to.rank, to.symbol, left, right, r.end})
		}
	}
	for i := 1; i < len(m.symbols); i++ {
		offer(i-1, i)
	}
	for len(m.queue) > 0 {
		c := m.queue.pop()
		l, r := &m.symbols[c.left], &m.symbols[c.right]
		if l.id == absorbed || r.id == absorbed || r.end != c.end {
			continue
		}
		l.id, l.end, l.next = c.id, r.end, r.next
		r.id = absorbed
		if r.next >= 0 {
			m.symbols[r.next].prev = c.left
		}
		offer(l.prev, c.left)
		offer(c.left, l.next)
	}
}

// queue is a heap of candidates, the best first.
type queue []candidate

func (all *queue) push(c candidate) {
	*all = append(*all, c)
	q := *all
	i := len(q) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.before(q[up]) {
			break
		}
		q[i], i = q[up], up
	}
	q[i] = c
}

func (all *queue) pop() candidate {
	q := *all
	best, last := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	*all = q
	i := 0
	for {
		down := 2*i + 1
		if down >= len(q) {
			break
		}
		if down+1 < len(q) && q[down+1].before(q[down]) {
			down++
		}
		if !q[down].before(last) {
			break
		}
		q[i], i = q[down], down
	}
	if len(q) > 0 {
		q[i] = last
	}
	return best
}
