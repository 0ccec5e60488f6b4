package model

import (
	"sync"
	"sync/atomic"

	"github.com/tmacc/tmacc/runtime/ops"
)

// pages is the memory of the caches of a model: pages of one size, which hold the keys and values of 64 positions in one layer.
type pages struct {
	size int // bytes of a page

	mu    sync.Mutex
	free  []*page
	left  int64 // pages that may still be allocated
	total int64 // that were allowed at first
}

// page is 64 positions. Several sequences may share it; then none of them writes to it.
//
//	[KV heads]
//	   keys    [2][head size][32 positions]
//	   values  [panels of a head][64 positions][32]
//	   scales  [2][64 positions] of keys and of values, in a cache of 8 bits
type page struct {
	data    []byte
	refs    atomic.Int32
	version atomic.Uint64 // grows when data change, for copies on a device
}

// take is an empty page: all of it is 0.
func (p *pages) take() (*page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var x *page
	if n := len(p.free); n > 0 {
		x, p.free[n-1] = p.free[n-1], nil
		p.free = p.free[:n-1]
		clear(x.data)
	} else if p.left == 0 {
		return nil, errorf("cache", "is full: its memory is %d bytes. Close sessions, or raise MemoryLimit", p.total*int64(p.size))
	} else {
		p.left--
		x = &page{data: make([]byte, p.size)}
	}
	x.refs.Store(1)
	x.version.Add(1)
	return x, nil
}

// drop is the end of one sequence's use of x.
func (p *pages) drop(x *page) {
	if x.refs.Add(-1) > 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, x)
}

// dropAll drops the pages of a list that are not nil, and empties it.
func (p *pages) dropAll(list []*page) {
	for i, x := range list {
		if x != nil {
			p.drop(x)
			list[i] = nil
		}
	}
}

// cache is the state of attention: pages of ascending positions.
type cache struct {
	a *attention
	mark
	marks []mark // taken by Snapshot, in ascending order
}

// mark is a place in a sequence: what attention needs to go on from there.
type mark struct {
	pages  []*page // nil before number `first`, which no window reaches any more
	first  int
	length int // positions
	dirty  int // positions that may have been written
}

// behind is how many positions before a window a cache keeps, so that a sequence can go back by that many.
const behind = 512

// Append makes room, gives pages back that lie far before the window, and copies the last page if another sequence has it, too.
func (c *cache) Append(n int) error {
	c.forget(c.a.windowBlock(c.length - behind))
	have, want := len(c.pages), numBlocks(c.length+n)
	if err := c.own(); err != nil {
		return err
	}
	for len(c.pages) < want {
		x, err := c.a.pages.take()
		if err != nil {
			c.shrink(have)
			return err
		}
		c.pages = append(c.pages, x)
	}
	c.length += n
	c.dirty = c.length
	return nil
}

// own makes the page that the next position lies in the sequence's own, if it has one, and clears what lies behind the end.
func (c *cache) own() error {
	last, used := c.length/ops.Block, c.length%ops.Block
	if used == 0 {
		return nil // the next position begins a page
	}
	if x := c.pages[last]; x.refs.Load() > 1 {
		own, err := c.a.pages.take()
		if err != nil {
			return err
		}
		copy(own.data, x.data)
		own.version.Add(1)
		c.pages[last] = own
		c.a.pages.drop(x)
	}
	if c.dirty > c.length {
		c.a.forget(c.pages[last].data, used)
		c.pages[last].version.Add(1)
		c.dirty = c.length
	}
	return nil
}

// shrink leaves the first n pages.
func (c *cache) shrink(n int) {
	c.a.pages.dropAll(c.pages[n:])
	c.pages = c.pages[:n]
	c.first = min(c.first, n)
}

// forget drops the pages before number n.
func (c *cache) forget(n int) {
	if n > c.first {
		c.a.pages.dropAll(c.pages[c.first:n])
		c.first = n
	}
}

// Truncate drops the positions from n on. If pages have been given back that the window of position n reaches, it goes back to
// the last mark, or to the beginning.
func (c *cache) Truncate(n int) int {
	if n >= c.length {
		return n
	}
	for len(c.marks) > 0 && c.last().length > n {
		c.a.pages.dropAll(c.last().pages)
		c.marks = c.marks[:len(c.marks)-1]
	}
	if c.first <= c.a.windowBlock(n) {
		c.length = n
		c.shrink(numBlocks(n))
		return n
	}
	c.shrink(0)
	c.length = 0
	if len(c.marks) > 0 {
		c.mark = c.last().share(c.pages)
	}
	return c.length
}

// last is the last mark.
func (c *cache) last() *mark { return &c.marks[len(c.marks)-1] }

// Snapshot keeps the pages that the present position needs, unless a cache returns to any position.
func (c *cache) Snapshot() {
	if c.a.window < c.a.positions {
		c.marks = append(c.marks, c.share(nil))
	}
}

// share is the same place, with pages that both have. It appends them to none.
func (m *mark) share(none []*page) mark {
	out := *m
	out.pages = append(none, m.pages...)
	for _, x := range m.pages[m.first:] {
		x.refs.Add(1)
	}
	return out
}

// Copy shares all pages.
func (c *cache) Copy() state {
	out := c.a.newState().(*cache)
	out.mark = c.share(out.pages)
	for i := range c.marks {
		out.marks = append(out.marks, c.marks[i].share(nil))
	}
	return out
}

// Free drops all pages.
func (c *cache) Free() {
	c.shrink(0)
	for _, m := range c.marks {
		c.a.pages.dropAll(m.pages)
	}
	c.marks = nil
}

// numBlocks is how many blocks of 64 hold n positions.
func numBlocks(n int) int { return (n + ops.Block - 1) / ops.Block }
