// Package rig calls probes: kernels that work in registers or read memory, to find out how fast that is. It
// knows nothing of what they do, so that a worker on another machine can call them too.
package rig

import (
	"errors"

	"github.com/tmacc/tmacc/search/timing"
)

// Call is a function and its arguments. A probe takes the address from which it loads its registers, the addresses of the
// streams it reads, the address of its results, and the number of iterations.
type Call struct {
	Func  string // by its name in the assembly
	Steps int    // iterations
	Read  Read   // Streams are 0: it reads nothing
}

// Read is memory that a call reads: the next Chunk bytes of a working set, in one part for each stream.
type Read struct {
	Set            Set
	Chunk, Streams int
}

// Set is a working set. All calls that read it take turns, so that none finds in a
// cache what another has just read.
type Set struct {
	Bytes int
	Huge  bool // it lies in huge pages if the system has any, else it does not
}

// The registers of a probe are loaded from and stored to a line each.
const scratchBytes = 64 * timing.LineBytes

// Rig has the memory that calls read and write, until Close.
type Rig struct {
	find    func(name string) (func(words []uint64), error)
	in, out timing.Memory
	sets    map[Set]*memory
}

// New is a rig for the functions that find returns.
func New(find func(name string) (func(words []uint64), error)) (*Rig, error) {
	r := &Rig{find: find, sets: map[Set]*memory{}}
	var err error
	if r.in, err = timing.Allocate(scratchBytes, false); err != nil {
		return nil, err
	}
	if r.out, err = timing.Allocate(scratchBytes, false); err != nil {
		return nil, errors.Join(err, r.in.Close())
	}
	return r, nil
}

// Close frees all memory; no call may be made afterwards.
func (r *Rig) Close() error {
	errs := []error{r.in.Close(), r.out.Close()}
	for set := range r.sets {
		errs = append(errs, r.Free(set))
	}
	return errors.Join(errs...)
}

// Free frees a working set; calls that read it may not be made again.
func (r *Rig) Free(s Set) error {
	m := r.sets[s]
	if m == nil {
		return nil
	}
	delete(r.sets, s)
	return m.Close()
}

// Sets is the number of working sets that there are.
func (r *Rig) Sets() int { return len(r.sets) }

// Func makes the working set of c, unless another call reads it too, and returns what calls it.
func (r *Rig) Func(c Call) (func(), error) {
	f, err := r.find(c.Func)
	if err != nil {
		return nil, err
	}
	words := make([]uint64, c.Read.Streams+3)
	words[0] = timing.Address(r.in.Bytes)
	streams := words[1 : 1+c.Read.Streams]
	words[len(words)-2], words[len(words)-1] = timing.Address(r.out.Bytes), uint64(c.Steps)
	if len(streams) == 0 {
		return func() { f(words) }, nil
	}
	m := r.sets[c.Read.Set]
	if m == nil {
		m = &memory{}
		if m.Memory, err = timing.Allocate(c.Read.Set.Bytes, c.Read.Set.Huge); err != nil {
			return nil, err
		}
		r.sets[c.Read.Set] = m
	}
	return func() {
		at := timing.Address(m.take(c.Read.Chunk))
		for i := range streams {
			streams[i] = at + uint64(i*(c.Read.Chunk/len(streams)))
		}
		f(words)
	}, nil
}

// memory is that of a working set.
type memory struct {
	timing.Memory
	next int
}

// take returns the next n bytes.
func (m *memory) take(n int) []byte {
	if m.next+n > len(m.Bytes) {
		m.next = 0
	}
	part := m.Bytes[m.next : m.next+n]
	m.next += n
	return part
}
