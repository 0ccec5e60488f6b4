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
	stride int
	next   int
	n      int
}

// NewCopies makes copies of data that total more than total bytes, at least one,
// each at the start of a cache line, in huge pages if the system has any. They take the
// memory of old if that is large enough: to get pages takes longer than to write them.
func NewCopies(data []byte, total int, old *Copies) (*Copies, error) {
	stride := max(1, (len(data)+LineBytes-1)/LineBytes) * LineBytes
	n := max(1, total/stride+1)
	c := &Copies{size: len(data), stride: stride, n: n}
	switch {
	case old != nil && len(old.mem.Bytes) >= n*stride:
		c.mem, old.mem = old.mem, Memory{}
	default:
		var err error
		if c.mem, err = unwritten(n*stride, true); err != nil {
			return nil, err
		}
	}
	for range n {
		copy(c.Next(), data)
	}
	return c, nil
}

// Len is the number of copies.
func (c *Copies) Len() int { return c.n }

// Next returns the next copy.
func (c *Copies) Next() []byte {
	at := c.next * c.stride
	if c.next++; c.next == c.n {
		c.next = 0
	}
	return c.mem.Bytes[at : at+c.size : at+c.size]
}

// Close frees the copies.
func (c *Copies) Close() error { return c.mem.Close() }

// heap is memory of the Go heap: what allocate falls back to.
func heap(n int) Memory {
	b := make([]byte, n+LineBytes)
	at := int(-Address(b) % LineBytes)
	return Memory{Bytes: b[at : at+n : at+n]}
}

// Address is where b begins.
func Address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
