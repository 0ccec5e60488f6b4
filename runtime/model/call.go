package model

import (
	"context"
	"fmt"
	"time"
)

// Want says for which tokens an Item asks for logits, or for hidden states.
type Want uint8

// The last token, none, or all tokens of an item.
const (
	WantLast Want = iota
	WantNone
	WantAll
)

// Item is the next tokens of one session in a batch.
type Item struct {
	Session *Session
	Tokens  []int32 // at least one
	Want    Want
	// WantHidden asks for hidden states after the output norm, instead of logits. Without any item that asks for logits, Forward does
	// not compute them.
	WantHidden bool
	// Logits is set by Forward: one row of Config.Vocabulary logits for each token that Want asks for. It belongs to the session
	// and holds until the session's next call.
	Logits []float32
	// Hidden is set like Logits, to rows of Config.Embedding elements.
	Hidden []float32
}

// Forward appends the tokens of each item to its session and computes logits. It works in steps of at most Options.Chunk tokens,
// of all items together, and looks at ctx before each layer. Their results do not depend on each other. If it fails, or ctx is done, the sessions have the tokens that they
// had before, or fewer where layers cannot go back there.
func (m *Model) Forward(ctx context.Context, items []Item) error {
	if m.closed.Load() {
		return errClosed
	}
	held, err := m.hold(items)
	defer release(items[:held])
	if err != nil {
		return err
	}
	ws := m.workspace()
	defer m.putBack(ws)
	for i := range items {
		items[i].start(m)
	}
	for first := 0; first < len(items); {
		first = ws.nextBatch(items, first)
		if err = ctx.Err(); err == nil {
			err = ws.batch(ctx, items)
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		undo(items)
	}
	return err
}

// hold checks the items and takes their sessions; it says how many it took.
func (m *Model) hold(items []Item) (held int, err error) {
	for i := range items {
		x := &items[i]
		if err := x.Session.use(); err != nil {
			return i, fmt.Errorf("item %d: %w", i, err)
		}
		if err := x.check(m); err != nil {
			x.Session.mu.Unlock()
			return i, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return len(items), nil
}

func release(items []Item) {
	for i := range items {
		items[i].Session.mu.Unlock()
	}
}

// check refuses an item that m cannot compute.
func (x *Item) check(m *Model) error {
	s := x.Session
	switch {
	case s.model != m:
		return errorf("session", "is one of another model")
	case len(x.Tokens) == 0:
		return errorf("argument Tokens", "is empty")
	case len(x.Tokens) > m.options.Context-len(s.tokens):
		return errorf("argument Tokens", "has %d tokens and the session %d; they would be more than the %d of option Context", len(x.Tokens), len(s.tokens), m.options.Context)
	}
	return m.known(x.Tokens)
}

// known refuses tokens that the vocabulary does not have.
func (m *Model) known(tokens []int32) error {
	for i, t := range tokens {
		if t < 0 || int(t) >= m.config.Vocabulary {
			return errorf("argument Tokens", "token %d is %d; the vocabulary has ids 0 to %d", i, t, m.config.Vocabulary-1)
		}
	}
	return nil
}

// rows is how many of the first n tokens of x have logits that it wants.
func (x *Item) rows(n int) int {
	switch {
	case x.Want == WantAll:
		return n
	case x.Want == WantLast && n == len(x.Tokens):
		return 1
	}
	return 0
}

// start begins an item: what it has done is counted by its session.
func (x *Item) start(m *Model) {
	s := x.Session
	s.before = len(s.tokens)
	x.Logits, x.Hidden = nil, nil
	s.results = grow(s.results, x.rows(len(x.Tokens))*x.width(m))
	if x.WantHidden {
		x.Hidden = s.results
	} else {
		x.Logits = s.results
	}
}

// width is the elements of a row that x asks for.
func (x *Item) width(m *Model) int {
	if x.WantHidden {
		return m.config.Embedding
	}
	return m.config.Vocabulary
}

// nextBatch makes ws.segments of the next tokens, of the items from first on, and returns the first item that has more.
func (ws *workspace) nextBatch(items []Item, first int) int {
	ws.segments = ws.segments[:0]
	rows, most := 0, ws.model.chunk()
	for ; first < len(items) && rows < most; first++ {
		x := &items[first]
		done := len(x.Session.tokens) - x.Session.before
		n := min(len(x.Tokens)-done, most-rows)
		ws.segments = append(ws.segments, segment{session: x.Session, item: first, row: rows, angles: rows, n: n, position: len(x.Session.tokens)})
		if rows += n; done+n < len(x.Tokens) {
			break
		}
	}
	return first
}

// batch computes one batch.
func (ws *workspace) batch(ctx context.Context, items []Item) error {
	ws.since = time.Now()
	last := &ws.segments[len(ws.segments)-1]
	ws.resize(last.row + last.n)
	ws.wanted, ws.noHead = ws.wanted[:0], true
	for i := range ws.segments {
		if err := ws.open(&ws.segments[i], &items[ws.segments[i].item]); err != nil {
			return err
		}
	}
	if err := ws.forward(ctx); err != nil {
		return err
	}
	ws.deliver(items)
	return nil
}

// open puts the tokens of a segment into the batch and makes room for them in their session.
func (ws *workspace) open(x *segment, item *Item) error {
	s := x.session
	done := len(s.tokens) - s.before
	tokens := item.Tokens[done : done+x.n]
	for i, state := range s.states {
		if err := state.Append(x.n); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	s.tokens = append(s.tokens, tokens...)
	copy(ws.tokens[x.row:], tokens)
	for i := range x.n {
		ws.positions[x.row+i] = int32(x.position + i)
		if item.rows(done+i+1) > item.rows(done+i) {
			ws.wanted = append(ws.wanted, int32(x.row+i))
			ws.noHead = ws.noHead && item.WantHidden
		}
	}
	return nil
}

// deliver copies the logits or hidden states of a batch to the sessions that want them.
func (ws *workspace) deliver(items []Item) {
	row := 0
	for i := range ws.segments {
		x := &ws.segments[i]
		item, end := &items[x.item], len(x.session.tokens)-x.session.before
		before, after := item.rows(end-x.n), item.rows(end)
		from, width := ws.logits, item.width(ws.model)
		if item.WantHidden {
			from = ws.normed
		}
		copy(x.session.results[before*width:after*width], from[row*width:])
		row += after - before
	}
}

// undo takes the sessions back to the tokens that they had before a call that failed.
func undo(items []Item) {
	for i := range items {
		s := items[i].Session
		items[i].Logits, items[i].Hidden = nil, nil
		s.tokens = s.tokens[:s.truncate(s.before)]
	}
}

// workspace is one that no other call uses.
func (m *Model) workspace() *workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.free); n > 0 {
		ws := m.free[n-1]
		m.free = m.free[:n-1]
		return ws
	}
	return &workspace{model: m, threads: m.options.Threads}
}

// putBack keeps a workspace for another call.
func (m *Model) putBack(ws *workspace) {
	clear(ws.segments) // keeps nothing of the callers' alive
	clear(ws.attention.wanted)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.times != nil {
		m.times.add(ws.times)
	}
	ws.times = Times{}
	m.free = append(m.free, ws)
}

func (t *Times) add(x Times) {
	t.Products += x.Products
	t.Attention += x.Attention
	t.Head += x.Head
	t.Rest += x.Rest
}
