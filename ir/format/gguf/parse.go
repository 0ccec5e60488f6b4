package gguf

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/tmacc/tmacc/ir/format"
)

// Bounds on a header. The first four bound time and memory whatever the file says:
// strings and numbers take at most three times their bytes, everything else is counted.
// Vocabularies, the largest things in headers, take up to 20 MB.
const (
	maxHeader    = 32 << 20 // bytes
	maxValues    = 1 << 16
	maxTensors   = 1 << 13
	maxArrays    = 1 << 16 // in arrays
	maxKey       = 1<<16 - 1
	maxDepth     = 4 // of arrays of arrays
	maxDims      = 4
	maxName      = 128 // of a tensor; the format says 64, forks have 128
	maxAlignment = 1 << 20
)

// parser reads a header from its start. After an error it reads zeros.
type parser struct {
	r      *bufio.Reader
	left   int64 // bytes of the header that may still come
	arrays int64 // in arrays, so far
	word   [8]byte
	err    error
}

func (p *parser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.left = 0
}

// need is whether n more bytes can come; if not, the parse has failed.
func (p *parser) need(n int64, what string) bool {
	if p.err == nil && (n < 0 || n > p.left) {
		p.fail(errorf(what, "the file ends within it"))
	}
	return p.err == nil
}

// read fills b.
func (p *parser) read(b []byte, what string) []byte {
	if !p.need(int64(len(b)), what) {
		return b
	}
	if _, err := io.ReadFull(p.r, b); err != nil {
		p.fail(errorf(what, "reading %d bytes: %v", len(b), err))
	}
	p.left -= int64(len(b))
	return b
}

// short reads up to 8 bytes, which hold until the next call.
func (p *parser) short(n int64, what string) []byte {
	clear(p.word[:])
	return p.read(p.word[:n], what)
}

func (p *parser) u32(what string) uint32 { return binary.LittleEndian.Uint32(p.short(4, what)) }
func (p *parser) u64(what string) uint64 { return binary.LittleEndian.Uint64(p.short(8, what)) }

// count reads the number of things of which each takes at least size bytes.
func (p *parser) count(size int64, what string) int64 {
	n := p.u64(what)
	if p.err == nil && n > uint64(p.left/size) {
		p.fail(errorf(what, "claims %d of at least %d bytes each, but only %d bytes can follow", n, size, p.left))
		return 0
	}
	if p.err != nil {
		return 0
	}
	return int64(n)
}

func (p *parser) str(what string) string {
	n := p.count(1, what)
	if n == 0 {
		return ""
	}
	if b, err := p.r.Peek(int(min(n, buffered))); err == nil && int64(len(b)) == n { // no copy of it twice
		s := string(b)
		_, _ = p.r.Discard(len(b)) // what was peeked is there
		p.left -= n
		return s
	}
	return string(p.read(make([]byte, n), what))
}

// buffered is how many bytes are read from the file at a time.
const buffered = 1 << 16

func parse(r io.ReaderAt, size int64) (*File, error) {
	p := &parser{r: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), buffered), left: min(size, maxHeader)}
	start := p.left
	f := &File{r: r, Alignment: 32, keys: map[string]int{}, byName: map[string]int{}}
	if magic := p.short(4, "header"); p.err == nil && string(magic) != "GGUF" {
		return nil, errorf("header", "starts with %q; a GGUF file starts with \"GGUF\"", magic)
	}
	version := p.u32("header")
	switch {
	case p.err != nil:
		return nil, p.err
	case version == 2 || version == 3:
		f.Version = int(version)
	case version != 0 && version&0xffff == 0:
		return nil, errorf("header", "is big-endian; only little-endian files are read")
	default:
		return nil, errorf("header", "version is %d; versions 2 and 3 are read", version)
	}
	tensors := p.count(8+4+4+8, "number of tensors")
	values := p.count(8+4+1, "number of metadata values")
	switch {
	case tensors > maxTensors:
		return nil, errorf("number of tensors", "is %d; at most %d are read", tensors, maxTensors)
	case values > maxValues:
		return nil, errorf("number of metadata values", "is %d; at most %d are read", values, maxValues)
	}
	for range values {
		if !p.value(f) {
			return nil, p.err
		}
	}
	if err := f.setAlignment(); err != nil {
		return nil, err
	}
	for range tensors {
		if !p.tensor(f) {
			return nil, p.err
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	if err := f.place(start-p.left, size); err != nil {
		return nil, err
	}
	return f, nil
}

// value reads one metadata value into f.
func (p *parser) value(f *File) bool {
	key := p.str("metadata key")
	what := quote("key", key)
	switch _, twice := f.keys[key]; {
	case p.err != nil:
	case key == "" || len(key) > maxKey:
		p.fail(errorf(what, "a key has 1 to %d bytes, this one %d", maxKey, len(key)))
	case twice:
		p.fail(errorf(what, "is there twice"))
	}
	v := p.any(kind(p.u32(what)), what, 0)
	if p.err != nil {
		return false
	}
	f.keys[key] = len(f.Meta)
	f.Meta = append(f.Meta, KV{key, v})
	return true
}

func (p *parser) any(k kind, what string, depth int) any {
	switch k {
	case kindString:
		return p.str(what)
	case kindArray:
		return p.array(what, depth+1)
	}
	if k >= kindEnd {
		p.fail(errorf(what, "has unknown value type %d", uint32(k)))
		return nil
	}
	b := p.short(kindBytes[k], what)
	switch k {
	case kindU8:
		return b[0]
	case kindI8:
		return int8(b[0])
	case kindBool:
		return p.boolean(b[0], what)
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

var u16, u32, u64 = binary.LittleEndian.Uint16, binary.LittleEndian.Uint32, binary.LittleEndian.Uint64

func (p *parser) boolean(b byte, what string) bool {
	if b > 1 {
		p.fail(errorf(what, "a bool is 0 or 1, not %d", b))
	}
	return b == 1
}

func (p *parser) array(what string, depth int) any {
	k := kind(p.u32(what))
	switch {
	case p.err == nil && k >= kindEnd:
		p.fail(errorf(what, "is an array of unknown value type %d", uint32(k)))
	case depth > maxDepth:
		p.fail(errorf(what, "has arrays nested deeper than %d", maxDepth))
	}
	if p.err != nil {
		return nil
	}
	n := p.count(kindBytes[k], what)
	if k != kindString && k != kindArray {
		return p.numbers(k, p.read(make([]byte, n*kindBytes[k]), what), int(n), what)
	}
	if k == kindString {
		s := make([]string, 0, n)
		for i := int64(0); i < n && p.err == nil; i++ {
			s = append(s, p.str(what))
		}
		return s
	}
	if p.arrays += n; p.arrays > maxArrays {
		p.fail(errorf(what, "has more than %d arrays in arrays", maxArrays))
		return nil
	}
	a := make([]any, 0, n)
	for i := int64(0); i < n && p.err == nil; i++ {
		a = append(a, p.array(what, depth+1))
	}
	return a
}

func (p *parser) numbers(k kind, b []byte, n int, what string) any {
	if p.err != nil {
		return nil
	}
	switch k {
	case kindU8:
		return b
	case kindI8:
		return list(n, func(i int) int8 { return int8(b[i]) })
	case kindBool:
		return list(n, func(i int) bool { return p.boolean(b[i], what) })
	case kindU16:
		return list(n, func(i int) uint16 { return u16(b[2*i:]) })
	case kindI16:
		return list(n, func(i int) int16 { return int16(u16(b[2*i:])) })
	case kindU32:
		return list(n, func(i int) uint32 { return u32(b[4*i:]) })
	case kindI32:
		return list(n, func(i int) int32 { return int32(u32(b[4*i:])) })
	case kindF32:
		return list(n, func(i int) float32 { return math.Float32frombits(u32(b[4*i:])) })
	case kindU64:
		return list(n, func(i int) uint64 { return u64(b[8*i:]) })
	case kindI64:
		return list(n, func(i int) int64 { return int64(u64(b[8*i:])) })
	case kindF64:
		return list(n, func(i int) float64 { return math.Float64frombits(u64(b[8*i:])) })
	}
	panic("BUG: gguf: array type without a case")
}

func list[T any](n int, at func(int) T) []T {
	l := make([]T, n)
	for i := range l {
		l[i] = at(i)
	}
	return l
}

func (f *File) setAlignment() error {
	const key = "general.alignment"
	if f.Get(key) == nil {
		return nil
	}
	a, err := f.Int(key)
	if err != nil {
		return err
	}
	if a < 8 || a%8 != 0 || a > maxAlignment {
		return errorf(quote("key", key), "is %d; it must be a multiple of 8, at most %d", a, maxAlignment)
	}
	f.Alignment = a
	return nil
}

// tensor reads the description of one tensor into f. Its Offset stays relative
// to the data, which begins after the last description.
func (p *parser) tensor(f *File) bool {
	name := p.str("tensor name")
	what := quote("tensor", name)
	_, twice := f.byName[name]
	dims := p.u32(what)
	switch {
	case p.err != nil:
	case name == "":
		p.fail(errorf(what, "tensor %d has no name", len(f.Tensors)))
	case len(name) > maxName:
		p.fail(errorf(what, "has a name of %d bytes; at most %d are read", len(name), maxName))
	case !format.OneLine(name):
		p.fail(errorf(what, "has a name that cannot be printed on one line"))
	case twice:
		p.fail(errorf(what, "is there twice"))
	case dims < 1 || dims > maxDims:
		p.fail(errorf(what, "has %d dimensions; it must have 1 to %d", dims, maxDims))
	}
	if p.err != nil {
		return false
	}
	t := Tensor{Name: name, file: f}
	for range dims {
		extent := p.u64(what)
		if extent > math.MaxInt {
			p.fail(errorf(what, "extent %d is too large", extent))
			return false
		}
		t.Shape = append(t.Shape, int(extent))
	}
	t.Type = Type(p.u32(what))
	t.Offset = int64(min(p.u64(what), math.MaxInt64))
	if p.err != nil {
		return false
	}
	if err := t.setSize(); err != nil {
		p.fail(err)
		return false
	}
	f.byName[name] = len(f.Tensors)
	f.Tensors = append(f.Tensors, t)
	return true
}

// setSize computes Size from the shape, or leaves it -1 for an unknown type.
func (t *Tensor) setSize() error {
	what := quote("tensor", t.Name)
	n := uint64(1)
	for _, e := range t.Shape {
		if e < 1 {
			return errorf(what, "shape %v has an extent below 1", t.Shape)
		}
		hi, lo := bits.Mul64(n, uint64(e))
		if hi != 0 || lo > math.MaxInt {
			return errorf(what, "shape %v is too large", t.Shape)
		}
		n = lo
	}
	values, size, ok := t.Type.Block()
	if !ok {
		t.Size = -1
		return nil
	}
	if t.Shape[0]%values != 0 {
		return errorf(what, "rows of %d values are not whole %s blocks of %d", t.Shape[0], t.Type, values)
	}
	hi, lo := bits.Mul64(n/uint64(values), uint64(size))
	if hi != 0 || lo > math.MaxInt {
		return errorf(what, "shape %v is too large", t.Shape)
	}
	t.Size = int64(lo)
	return nil
}

// place makes the tensors' offsets absolute and checks that they lie in the
// file, aligned and apart. header is the size of what comes before the data.
func (f *File) place(header, size int64) error {
	align := int64(f.Alignment)
	start := (header + align - 1) / align * align
	data := max(size-start, 0)
	order := make([]*Tensor, len(f.Tensors))
	for i := range order {
		order[i] = &f.Tensors[i]
	}
	slices.SortStableFunc(order, func(a, b *Tensor) int { return cmp.Compare(a.Offset, b.Offset) })
	for i, t := range order {
		what := quote("tensor", t.Name)
		if t.Offset%align != 0 {
			return errorf(what, "offset %d is not a multiple of the alignment of %d", t.Offset, align)
		}
		need := t.Size
		if need < 0 {
			need = 1
		}
		if t.Offset > data || need > data-t.Offset {
			return errorf(what, "%s at offset %d of the data lie outside the file, which has %d bytes of data", sizeText(t.Size), t.Offset, data)
		}
		room := data - t.Offset
		if i+1 < len(order) {
			next := order[i+1]
			room = next.Offset - t.Offset
			if need > room {
				return errorf(what, "%s at offset %d of the data overlap %s at %d", sizeText(t.Size), t.Offset, quote("tensor", next.Name), next.Offset)
			}
		}
		if t.Size < 0 {
			t.Size = room
			if n := i2sBytes(t.Elements()); t.Type == i2s && n > 0 && n <= room && room-n < align {
				t.Size = n
			}
		}
	}
	for _, t := range order {
		t.Offset += start
	}
	return nil
}

func sizeText(n int64) string {
	if n < 0 {
		return "bytes of unknown number"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
