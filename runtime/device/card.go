package device

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// card is an open device with what products share there: pipelines, and buffers of calls.
type card struct {
	d *vulkan.Device

	mu        sync.Mutex
	pipelines map[compiled]func() (*vulkan.Pipeline, error)
	operators map[*abi.Operator]*vulkan.Pipeline
	spare     []*scratch
	failed    error // the first that products had
}

// compiled is what pipelines are told apart by.
type compiled struct {
	sum                     [sha256.Size]byte
	buffers, push, subgroup int
}

// scratch is the buffers of a call: activations, results, and sums that workgroups share. They grow with calls.
type scratch struct{ act, out, sums *vulkan.Buffer }

// bytes is how many bytes the buffers have.
func (s *scratch) bytes() (n int64) {
	for _, b := range []*vulkan.Buffer{s.act, s.out, s.sums} {
		if b != nil {
			n += b.Size()
		}
	}
	return n
}

func (s *scratch) free() {
	for _, b := range []*vulkan.Buffer{s.act, s.out, s.sums} {
		if b != nil {
			b.Free()
		}
	}
}

func newCard(d *vulkan.Device) *card {
	return &card{d: d, pipelines: map[compiled]func() (*vulkan.Pipeline, error){}, operators: map[*abi.Operator]*vulkan.Pipeline{}}
}

// pipeline is s compiled of a module, once for all products. An error is not kept: memory may be there the next time.
func (c *card) pipeline(s *abi.Shader, code []byte) (*vulkan.Pipeline, error) {
	id := compiled{sha256.Sum256(code), len(s.Buffers), 4 * len(s.Params), s.Subgroup}
	if s.Parts > 0 {
		id.buffers++
	}
	c.mu.Lock()
	get := c.pipelines[id]
	if get == nil {
		get = sync.OnceValues(func() (*vulkan.Pipeline, error) {
			return c.d.Pipeline(code, vulkan.Layout{Buffers: id.buffers, PushBytes: id.push, Subgroup: id.subgroup, FullSubgroups: id.subgroup > 0})
		})
		c.pipelines[id] = get
	}
	c.mu.Unlock()
	p, err := get()
	if err != nil {
		c.mu.Lock()
		delete(c.pipelines, id)
		c.mu.Unlock()
	}
	return p, err
}

// note remembers the first error of products.
func (c *card) note(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	return err
}

// lend is buffers that no other call has. They go back to giveBack.
func (c *card) lend() *scratch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spare); n > 0 {
		s := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return s
	}
	return &scratch{}
}

func (c *card) giveBack(s *scratch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare = append(c.spare, s)
}

// grow makes b have room for a number of bytes.
func (c *card) grow(b **vulkan.Buffer, bytes int) error {
	if *b != nil && (*b).Size() >= int64(bytes) {
		return nil
	}
	if *b != nil {
		(*b).Free()
		*b = nil
	}
	var err error
	*b, err = c.buffer(int64(bytes))
	return err
}

// buffer makes a buffer. Buffers that calls may borrow make room for it.
func (c *card) buffer(bytes int64) (*vulkan.Buffer, error) {
	b, err := c.d.Buffer(bytes)
	if errors.As(err, new(*vulkan.OutOfMemory)) && c.freeSpare() {
		b, err = c.d.Buffer(bytes)
	}
	return b, err
}

// fits is an *vulkan.OutOfMemory if buffers with this sum of bytes do not fit, not even without buffers that calls may borrow.
func (c *card) fits(bytes int64) error {
	err := c.d.Fits(bytes)
	if err != nil && c.freeSpare() {
		err = c.d.Fits(bytes)
	}
	return err
}

// spareBytes is what freeSpare would free.
func (c *card) spareBytes() (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spare {
		n += s.bytes()
	}
	return n
}

// freeSpare frees the buffers that no call has borrowed, and says whether there were any.
func (c *card) freeSpare() bool {
	c.mu.Lock()
	spare := c.spare
	c.spare = nil
	c.mu.Unlock()
	for _, s := range spare {
		s.free()
	}
	return len(spare) > 0
}

// free frees what products have on the device. No call may be using it.
func (c *card) free() {
	c.freeSpare()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, get := range c.pipelines {
		if p, err := get(); err == nil {
			p.Free()
		}
		delete(c.pipelines, id)
	}
	clear(c.operators)
}
