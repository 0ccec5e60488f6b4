package timing

import (
	"fmt"
	"unsafe"
)

// pageBytes is the size of a huge page.
const pageBytes = 2 << 20

// LineBytes is the size of a cache line.
const LineBytes = 64

// Memory is page-aligned memory outside the Go heap where the system allows it.
type Memory struct {
	Bytes []byte
	all   []byte
}

// Allocate returns n bytes that are present (written to). With huge they lie in
// huge pages if the system has any, without they do not.
func Allocate(n int, huge bool) (Memory, error) {
	m, err := unwritten(n, huge)
	for i := range m.Bytes {
		m.Bytes[i] = byte(i) | 1
	}
	return m, err
}

// unwritten returns n bytes that the caller writes.
func unwritten(n int, huge bool) (Memory, error) {
	if n <= 0 {
		return Memory{}, fmt.Errorf("timing: %d bytes of memory", n)
	}
	m, err := allocate(n, huge)
	if err != nil {
		return Memory{}, fmt.Errorf("timing: %d bytes of memory: %w", n, err)
	}
	return m, nil
}

// Copies are copies of a packed matrix, handed out in turn: by the time a copy
// comes back, all others have passed through the caches.
type Copies struct {
	mem    Memory
	size   int // of a copy
	from   int // where the first one begins
	stride int
	next   int
	n      int
	taken  bool    // the room between them is
	in     *Copies // between which these lie, nil: the memory is their own
}

// NewCopies makes copies of data that total more than total bytes, at least one,
// each at the start of a cache line, in huge pages if the system has any. They take the
// memory of old if that is large enough: to get pages takes longer than to write them.
func NewCopies(data []byte, total int, old *Copies) (*Copies, error) {
	return newCopies(data, total, 0, old)
}

// NewSpacedCopies is NewCopies with room between them for those that Beside makes.
func NewSpacedCopies(data []byte, total int, old *Copies) (*Copies, error) {
	return newCopies(data, total, roundToLine(len(data)+len(data)/4), old)
}

func newCopies(data []byte, total, room int, old *Copies) (*Copies, error) {
	slot := max(LineBytes, roundToLine(len(data)))
	c := &Copies{size: len(data), stride: slot + room, n: max(1, total/slot+1)}
	switch bytes := c.n * c.stride; {
	case old != nil && old.in == nil && len(old.mem.Bytes) >= bytes:
		c.mem, old.mem = old.mem, Memory{}
	default:
		var err error
		if c.mem, err = unwritten(bytes, true); err != nil {
			return nil, err
		}
	}
	c.fill(data)
	return c, nil
}

// Beside puts copies of data between the copies of c, which must be spaced. Readers of either then wait for the same
// memory: some parts of memory may be slower than others. It returns nil if the copies do not fit, if they are much
// shorter, or if earlier ones were not closed.
func (c *Copies) Beside(data []byte) *Copies {
	slot := max(LineBytes, roundToLine(c.size))
	if c.in != nil || c.taken || len(data) > c.stride-slot || len(data) < c.size*3/4 {
		return nil
	}
	c.taken = true
	b := &Copies{mem: c.mem, size: len(data), from: slot, stride: c.stride, n: c.n, in: c}
	b.fill(data)
	return b
}

func (c *Copies) fill(data []byte) {
	for range c.n {
		copy(c.Next(), data)
	}
}

func roundToLine(n int) int { return (n + LineBytes - 1) / LineBytes * LineBytes }

// Len is the number of copies.
func (c *Copies) Len() int { return c.n }

// Next returns the next copy.
func (c *Copies) Next() []byte {
	at := c.from + c.next*c.stride
	if c.next++; c.next == c.n {
		c.next = 0
	}
	return c.mem.Bytes[at : at+c.size : at+c.size]
}

// Close frees the copies, or the room that they had between others.
func (c *Copies) Close() error {
	if c.in != nil {
		c.in.taken = false
		return nil
	}
	return c.mem.Close()
}

// Lent says that the copies lie between others.
func (c *Copies) Lent() bool { return c.in != nil }

// heap is memory of the Go heap: what allocate falls back to.
func heap(n int) Memory {
	b := make([]byte, n+LineBytes)
	at := int(-Address(b) % LineBytes)
	return Memory{Bytes: b[at : at+n : at+n]}
}

// Address is where b begins.
func Address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
