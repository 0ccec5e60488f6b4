package gguf

import (
	"math"
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

const maxDims = 4

// parse reads the header of a file of the given size in bytes.
func parse(from *source, size int64) (*File, error) {
	p := newReader(from.r, 0, size, buffered)
	f := &File{Alignment: 32, from: from, keys: map[string]int{}}
	if magic := p.next(4, section("header")); p.err == nil && string(magic) != "GGUF" {
		return nil, errorf(section("header"), "starts with %q; a GGUF file starts with \"GGUF\"", magic)
	}
	version := p.u32(section("header"))
	switch {
	case p.err != nil:
		return nil, p.err
	case version == 2 || version == 3:
		f.Version = int(version)
	case version != 0 && version&0xffff == 0:
		return nil, errorf(section("header"), "is big-endian; only little-endian files are read")
	default:
		return nil, errorf(section("header"), "version is %d; versions 2 and 3 are read", version)
	}
	tensors := p.count(8+4+4+8, section("number of tensors"))
	values := p.count(8+4+1, section("number of metadata values"))
	switch {
	case tensors > maxTensors:
		return nil, errorf(section("number of tensors"), "is %d; the limit of this reader is %d", tensors, maxTensors)
	case values > maxValues:
		return nil, errorf(section("number of metadata values"), "is %d; the limit of this reader is %d", values, maxValues)
	}
	f.Tensors = make([]Tensor, 0, tensors) // which the file has the bytes for
	f.byName = make(map[string]int, tensors)
	for range values {
		if p.metadata(f); p.err != nil {
			return nil, p.err
		}
	}
	if err := f.setAlignment(); err != nil {
		return nil, err
	}
	for range tensors {
		if p.tensor(f); p.err != nil {
			return nil, p.err
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	return f, f.place(p.pos, size)
}

// name reads a name. It keeps only the first most bytes, and returns the length that the name has in the file.
func (p *reader) name(most int64, what thing) (name string, length int64) {
	n := p.count(1, what)
	name = p.chars(min(n, most), what)
	p.skip(n-int64(len(name)), what)
	return name, n
}

// metadata reads one metadata value into f.
func (p *reader) metadata(f *File) {
	key, n := p.name(maxKey, section("metadata key"))
	what := quote("key", key)
	kv := KV{Key: key, kind: kind(p.u32(what))}
	kv.at = p.pos
	head := p.peek(small, what)
	p.pass(kv.kind, what, 0)
	if p.err != nil {
		return
	}
	kv.size = p.pos - kv.at
	if kv.size <= small {
		v := within(head[:kv.size], kv.at)
		kv.Value, kv.Err = v.value(kv.kind, what), v.err
	}
	first, twice := f.keys[key]
	switch {
	case n > maxKey:
		kv.Err = errorf(what, "is a key of %d bytes; the limit of this reader is %d", n, maxKey)
	case n == 0:
		kv.Err = errorf(what, "a key has at least 1 byte")
	case twice:
		kv.Err = errorf(what, "is there twice")
		f.Meta[first].Value, f.Meta[first].Err = nil, kv.Err
	}
	if kv.Err != nil {
		kv.Value = nil
	}
	if !twice && n <= maxKey {
		f.keys[key] = len(f.Meta)
	}
	f.Meta = append(f.Meta, kv)
}

func (f *File) setAlignment() error {
	const key = "general.alignment"
	if _, ok := f.keys[key]; !ok {
		return nil
	}
	a, err := f.Int(key)
	switch {
	case err != nil:
		return err
	case a < 8 || a%8 != 0:
		return errorf(quote("key", key), "is %d; it must be a multiple of 8", a)
	case a > maxAlignment:
		return errorf(quote("key", key), "is %d; the limit of this reader is %d", a, maxAlignment)
	}
	f.Alignment = a
	return nil
}

// tensor reads the description of one tensor into f. Its Offset stays relative
// to the data, which begins after the last description.
func (p *reader) tensor(f *File) {
	name, n := p.name(maxName, section("tensor name"))
	t := Tensor{Name: name, from: f.from}
	what := quote("tensor", name)
	first, twice := f.byName[name]
	switch {
	case n > maxName:
		t.fail("has a name of %d bytes; the limit of this reader is %d", n, maxName)
	case n == 0:
		t.fail("tensor %d has no name", len(f.Tensors))
	case !format.OneLine(name):
		t.fail("has a name that cannot be printed on one line")
	case twice:
		t.fail("is there twice")
		f.Tensors[first].fail("is there twice")
	}
	p.shape(&t, what)
	t.Type = Type(p.u32(what))
	t.Offset = int64(min(p.u64(what), math.MaxInt64))
	if !twice && n <= maxName {
		f.byName[name] = len(f.Tensors)
	}
	f.Tensors = append(f.Tensors, t)
}

// shape reads the extents of t. Those that make no sense are its Err.
func (p *reader) shape(t *Tensor, what thing) {
	dims := p.u32(what)
	if dims > maxDims {
		t.fail("has %d dimensions; it must have at most %d", dims, maxDims)
		t.shapeless = true
		p.skip(8*int64(dims), what)
		return
	}
	extents, values, large := make([]uint64, dims), uint64(1), false
	for i := range extents {
		extents[i] = p.u64(what)
		large = large || extents[i] > math.MaxInt
	}
	if !slices.Contains(extents, 0) {
		for _, e := range extents {
			hi, lo := bits.Mul64(values, e)
			values, large = lo, large || hi != 0 || lo > math.MaxInt
		}
	}
	if large {
		t.fail("shape %v is too large", extents)
		t.shapeless = true
		return
	}
	t.Shape = make([]int, dims)
	for i, e := range extents {
		t.Shape[i] = int(e)
	}
}
