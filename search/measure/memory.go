package measure

import "fmt"

// MinDRAM is how much memory must pass before a byte is read again for its read to
// count as one from DRAM, unless the cache is larger (see DRAMBytes).
const MinDRAM = 544 << 20

// DRAMBytes is how much memory mode dram cycles through on host h: MinDRAM, or
// twice the last-level cache where that is more.
func DRAMBytes(h Host) int { return max(MinDRAM, 2*h.L3) }

// pageBytes is the size of a huge page.
const pageBytes = 2 << 20

// lineBytes is the size of a cache line.
const lineBytes = 64

// Memory is page-aligned memory outside the Go heap where the system allows it.
type Memory struct {
	Bytes []byte
	all   []byte
}

// Allocate returns n bytes that are present (written to). With huge they lie in
// huge pages if the system has any, without they do not.
func Allocate(n int, huge bool) (Memory, error) {
	if n <= 0 {
		return Memory{}, fmt.Errorf("measure: %d bytes of memory", n)
	}
	m, err := allocate(n, huge)
	if err != nil {
		return Memory{}, fmt.Errorf("measure: %d bytes of memory: %w", n, err)
	}
	for i := 0; i < n; i++ {
		m.Bytes[i] = byte(i) | 1
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
// each at the start of a cache line, in huge pages if the system has any.
func NewCopies(data []byte, total int) (*Copies, error) {
	stride := max(1, (len(data)+lineBytes-1)/lineBytes) * lineBytes
	n := max(1, total/stride+1)
	mem, err := Allocate(n*stride, true)
	if err != nil {
		return nil, err
	}
	c := &Copies{mem: mem, size: len(data), stride: stride, n: n}
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
	b := make([]byte, n+lineBytes)
	at := int(-address(b) % lineBytes)
	return Memory{Bytes: b[at : at+n : at+n]}
}
