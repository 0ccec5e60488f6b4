package device

import (
	"fmt"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/vulkan"
)

// stack is matrices of one shape in one buffer, some bytes apart. The Runner of the matrices guards it.
type stack struct {
	matrices []*Matrix
	apart    int
	on       *opened // where buffer is
	buffer   *vulkan.Buffer
	left     int // matrices that are not freed
}

// wholeStack is what matrices of a stack begin at a multiple of: kernels count on whole lines.
const wholeStack = 64

// Stack implements abi.Computer.
func (r *Runner) Stack(tiles [][]byte, tileBytes int) (all []abi.Loaded, apart int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, err := r.ready()
	if err != nil {
		return nil, 0, err
	}
	s := &stack{left: len(tiles), apart: (len(tiles[0]) + wholeStack - 1) / wholeStack * wholeStack}
	for i, t := range tiles {
		x := &Matrix{r: r, tiles: t, tileBytes: tileBytes, stack: s, number: i}
		s.matrices, all = append(s.matrices, x), append(all, x)
	}
	if bytes, most := s.bytes(r, tileBytes), min(o.d.Limits.Range, o.d.Limits.Allocation); bytes > most {
		return nil, 0, fmt.Errorf("device: %d matrices have %d bytes together, %s sees %d at once", len(tiles), bytes, o.d.Name, most)
	}
	for _, x := range s.matrices {
		if _, err := x.ready(); err != nil {
			return nil, 0, err
		}
	}
	return all, s.apart, nil
}

// bytes is how many bytes the buffer of s has: kernels read tiles side by side, whole ones.
func (s *stack) bytes(r *Runner, tileBytes int) int64 {
	return int64(len(s.matrices))*int64(s.apart) + int64((sides(r)-1)*tileBytes+3)&^3 + behind
}

// inStack gives x its part of its stack, which it copies to the device first if no matrix has been asked for since the device was opened.
func (x *Matrix) inStack() error {
	s := x.stack
	if s.on != x.on {
		bytes := s.bytes(x.r, x.tileBytes)
		if err := x.on.fits(bytes); err != nil {
			return err
		}
		b, err := x.on.buffer(bytes)
		if err != nil {
			return err
		}
		for i, m := range s.matrices {
			if err := b.Upload(int64(i*s.apart), m.tiles); err != nil {
				b.Free()
				return err
			}
		}
		s.on, s.buffer = x.on, b
	}
	x.pieces = []piece{{to: len(x.tiles) / x.tileBytes, buffer: s.buffer, at: x.number * s.apart}}
	return nil
}

// leave frees the buffer with the last matrix.
func (s *stack) leave() {
	if s.left--; s.left == 0 && s.buffer != nil {
		s.buffer.Free()
		s.on, s.buffer = nil, nil
	}
}
