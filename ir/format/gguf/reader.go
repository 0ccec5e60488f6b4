package gguf

import (
	"encoding/binary"
	"io"
	"math"
	"strings"
)

// Limits of this reader, not of the format: they bound time and memory whatever a file says. A long string and an
// array of numbers need no limit, because they are skipped without being read.
const (
	maxValues    = 1 << 16
	maxTensors   = 72_000
	maxTexts     = 1 << 22 // in the arrays of a file
	maxArrays    = 1 << 16 // in the arrays of a file
	maxDepth     = 4       // of arrays of arrays
	maxKey       = 1 << 10
	maxName      = 128 // of a tensor; the format says 64, forks have 128
	maxAlignment = 1 << 20
	maxValue     = 1 << 28 // bytes of a metadata value that is read
)

const (
	buffered = 1 << 13 // bytes that are read from a file at a time
	small    = 1 << 8  // bytes of a metadata value that is read at once
)

// reader reads the bytes of a file between two offsets. After an error it reads zeros and is at its end.
type reader struct {
	r             io.ReaderAt
	pos, end      int64
	window        []byte // what the file has at offset from
	from          int64
	texts, arrays int64 // in arrays, so far
	err           error
}

func newReader(r io.ReaderAt, pos, end, buffer int64) *reader {
	return &reader{r: r, pos: pos, end: end, window: make([]byte, 0, max(0, min(buffer, end-pos)))}
}

// within reads from bytes that are at an offset of the file.
func within(b []byte, at int64) *reader {
	return &reader{pos: at, end: at + int64(len(b)), window: b, from: at}
}

func (p *reader) fail(what thing, problem string, args ...any) {
	if p.err == nil {
		p.err = errorf(what, problem, args...)
	}
	p.pos = p.end
}

// need is whether n more bytes can come; if not, reading has failed.
func (p *reader) need(n int64, what thing) bool {
	if p.err == nil && n > p.end-p.pos {
		p.fail(what, "the file ends within it")
	}
	return p.err == nil
}

// skip passes over n bytes.
func (p *reader) skip(n int64, what thing) {
	if p.need(n, what) {
		p.pos += n
	}
}

// peek is the next n bytes, at most a buffer of them, or fewer at the end. They hold until the next call.
func (p *reader) peek(n int64, what thing) []byte {
	n = min(n, p.end-p.pos)
	if p.pos < p.from || p.pos+n > p.from+int64(len(p.window)) {
		b := p.window[:min(int64(cap(p.window)), p.end-p.pos)]
		if m, err := p.r.ReadAt(b, p.pos); m < len(b) {
			p.fail(what, "reading %d bytes at %d: %v", len(b), p.pos, err)
			return nil
		}
		p.window, p.from = b, p.pos
	}
	return p.window[p.pos-p.from:][:n]
}

var zeros [8]byte

// next reads n bytes, at most 8. They hold until the next call.
func (p *reader) next(n int64, what thing) []byte {
	if !p.need(n, what) {
		return zeros[:n]
	}
	b := p.peek(n, what)
	if p.err != nil {
		return zeros[:n]
	}
	p.pos += n
	return b
}

var u16, u32, u64 = binary.LittleEndian.Uint16, binary.LittleEndian.Uint32, binary.LittleEndian.Uint64

func (p *reader) u32(what thing) uint32 { return u32(p.next(4, what)) }
func (p *reader) u64(what thing) uint64 { return u64(p.next(8, what)) }

// count reads a number of things. Each takes at least size bytes, so that the bytes that follow bound the number.
func (p *reader) count(size int64, what thing) int64 {
	n := p.u64(what)
	if left := p.end - p.pos; p.err == nil && n > uint64(left/size) {
		p.fail(what, "claims %d of at least %d bytes each, but only %d bytes follow", n, size, left)
	}
	if p.err != nil {
		return 0
	}
	return int64(n)
}

// text reads a string.
func (p *reader) text(what thing) string {
	n := p.count(1, what)
	return p.chars(n, what)
}

// chars reads n bytes of a string.
func (p *reader) chars(n int64, what thing) string {
	var s strings.Builder
	s.Grow(int(n))
	for n > 0 && p.err == nil {
		b := p.peek(min(n, int64(cap(p.window))), what)
		s.Write(b)
		p.pos += int64(len(b))
		n -= int64(len(b))
	}
	return s.String()
}

// pass skips a value of kind k and holds it to the limits. depth is the number of arrays around it.
func (p *reader) pass(k kind, what thing, depth int) {
	switch {
	case k >= kindEnd:
		p.fail(what, "has unknown value type %d", uint32(k))
	case k == kindString:
		p.skip(p.count(1, what), what)
	case k != kindArray:
		p.skip(kinds[k].bytes, what)
	case depth == maxDepth:
		p.fail(what, "has arrays nested deeper than %d, the limit of this reader", maxDepth)
	default:
		p.passArray(what, depth+1)
	}
}

func (p *reader) passArray(what thing, depth int) {
	k := p.elements(what)
	if p.err != nil {
		return
	}
	n := p.count(kinds[k].bytes, what)
	switch k {
	case kindString:
		p.texts = limited(p, p.texts, n, maxTexts, "strings", what)
	case kindArray:
		p.arrays = limited(p, p.arrays, n, maxArrays, "arrays", what)
	default:
		p.skip(n*kinds[k].bytes, what)
		return
	}
	for range n {
		if p.pass(k, what, depth); p.err != nil {
			return
		}
	}
}

// limited adds n things to the have things that arrays had before, and refuses more than most.
func limited(p *reader, have, n, most int64, things string, what thing) int64 {
	if n > most-have {
		p.fail(what, "its %d %s make more in arrays than %d, the limit of this reader", n, things, most)
		return have
	}
	return have + n
}

// elements reads the kind of an array's elements.
func (p *reader) elements(what thing) kind {
	k := kind(p.u32(what))
	if p.err == nil && k >= kindEnd {
		p.fail(what, "is an array of unknown value type %d", uint32(k))
	}
	return k
}

// value reads a value of kind k that pass has skipped before.
func (p *reader) value(k kind, what thing) any {
	switch k {
	case kindString:
		return p.text(what)
	case kindArray:
		return p.array(what)
	}
	b := p.next(kinds[k].bytes, what)
	switch k {
	case kindU8:
		return b[0]
	case kindI8:
		return int8(b[0])
	case kindBool:
		return p.boolean(b, what)
	case kindU16:
		return u16(b)
	case kindI16:
		return int16(u16(b))
	case kindU32:
		return u32(b)
	case kindI32:
		return int32(u32(b))
	case kindF32:
		return math.Float32frombits(u32(b))
	case kindU64:
		return u64(b)
	case kindI64:
		return int64(u64(b))
	case kindF64:
		return math.Float64frombits(u64(b))
	}
	panic("BUG: gguf: value type without a case")
}

func (p *reader) boolean(b []byte, what thing) bool {
	if b[0] > 1 {
		p.fail(what, "a bool is 0 or 1, not %d", b[0])
	}
	return b[0] == 1
}

func (p *reader) array(what thing) any {
	k := p.elements(what)
	if p.err != nil {
		return nil
	}
	n := p.count(kinds[k].bytes, what)
	next := func() []byte { return p.next(kinds[k].bytes, what) }
	switch k {
	case kindString:
		return list(n, func() string { return p.text(what) })
	case kindArray:
		return list(n, func() any { return p.array(what) })
	case kindU8:
		return list(n, func() uint8 { return next()[0] })
	case kindI8:
		return list(n, func() int8 { return int8(next()[0]) })
	case kindBool:
		return list(n, func() bool { return p.boolean(next(), what) })
	case kindU16:
		return list(n, func() uint16 { return u16(next()) })
	case kindI16:
		return list(n, func() int16 { return int16(u16(next())) })
	case kindU32:
		return list(n, func() uint32 { return u32(next()) })
	case kindI32:
		return list(n, func() int32 { return int32(u32(next())) })
	case kindF32:
		return list(n, func() float32 { return math.Float32frombits(u32(next())) })
	case kindU64:
		return list(n, func() uint64 { return u64(next()) })
	case kindI64:
		return list(n, func() int64 { return int64(u64(next())) })
	case kindF64:
		return list(n, func() float64 { return math.Float64frombits(u64(next())) })
	}
	panic("BUG: gguf: array type without a case")
}

func list[T any](n int64, next func() T) []T {
	l := make([]T, n)
	for i := range l {
		l[i] = next()
	}
	return l
}
