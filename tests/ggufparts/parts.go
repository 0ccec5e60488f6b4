// Package ggufparts takes GGUF files apart, for tests that change them.
package ggufparts

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

// Parts is a file taken apart, to be changed and built again.
type Parts struct {
	Meta    []Value
	Tensors []Tensor
}

// Value is a metadata value.
type Value struct {
	Key  string
	Kind uint32 // of a value in a GGUF file
	Of   uint32 // the kind of the elements, if it is an array
	Data []byte // of one value, or of all elements
	N    uint64 // elements
}

// Tensor is a tensor of a file: a description, and bytes.
type Tensor struct {
	Name  string
	Type  uint32
	Shape []uint64
	Data  []byte
	Shift uint64 // added to its offset
}

// Kinds of metadata values.
const (
	Uint32 = 4
	Float  = 6
	Text   = 8
	Array  = 9
)

// sizes of metadata values by their kinds, 0 of those without one.
var sizes = []int{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// Take takes a valid file apart. It panics if the file is not valid.
func Take(file []byte) *Parts {
	r := &taker{file}
	r.bytes(8)
	tensors, values := r.u64(), r.u64()
	p := &Parts{}
	alignment := uint64(32)
	for range values {
		v := Value{Key: r.text(), Kind: r.u32(), N: 1}
		if v.Of = v.Kind; v.Kind == Array {
			v.Of, v.N = r.u32(), r.u64()
		}
		v.Data = r.elements(v.Of, v.N)
		if p.Meta = append(p.Meta, v); v.Key == "general.alignment" {
			alignment = uint64(binary.LittleEndian.Uint32(v.Data))
		}
	}
	var offsets []uint64
	for range tensors {
		t := Tensor{Name: r.text()}
		for range r.u32() {
			t.Shape = append(t.Shape, r.u64())
		}
		t.Type = r.u32()
		offsets, p.Tensors = append(offsets, r.u64()), append(p.Tensors, t)
	}
	at := uint64(len(file) - len(r.rest))
	r.bytes((alignment - at%alignment) % alignment)
	for i := range p.Tensors {
		p.Tensors[i].Data = r.rest[offsets[i]:][:p.Tensors[i].Size()]
	}
	return p
}

// Size is the number of bytes that the type and the shape of t need, 0 for a type that is not defined.
func (t *Tensor) Size() uint64 {
	values, bytes, known := gguf.Type(t.Type).Block()
	if !known {
		return 0
	}
	n := uint64(1)
	for _, extent := range t.Shape {
		n *= extent
	}
	return n / uint64(values) * uint64(bytes)
}

// Bytes builds the file. Tensors lie one after the other, 32-byte aligned.
func (p *Parts) Bytes() []byte {
	f := ggufgen.Header(uint64(len(p.Tensors)), uint64(len(p.Meta)))
	for _, v := range p.Meta {
		f.Add(v.Key, v.Kind)
		if v.Kind == Array {
			f.Add(v.Of, v.N)
		}
		f.Write(v.Data)
	}
	offset := uint64(0)
	for _, t := range p.Tensors {
		f.Tensor(t.Name, t.Type, offset+t.Shift, t.Shape...)
		offset += (uint64(len(t.Data)) + 31) / 32 * 32
	}
	f.Pad(0)
	for _, t := range p.Tensors {
		f.Write(t.Data)
		f.Write(make([]byte, -len(t.Data)&31))
	}
	return f.Bytes()
}

// Clone copies p, except bytes of tensors and values: replace these, do not change them.
func (p *Parts) Clone() *Parts {
	q := &Parts{Meta: slices.Clone(p.Meta), Tensors: slices.Clone(p.Tensors)}
	for i := range q.Tensors {
		q.Tensors[i].Shape = slices.Clone(q.Tensors[i].Shape)
	}
	return q
}

// Tensor finds a tensor. It panics if there is none.
func (p *Parts) Tensor(name string) *Tensor {
	i := slices.IndexFunc(p.Tensors, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		panic("ggufparts: no tensor " + name)
	}
	return &p.Tensors[i]
}

// Value finds a metadata value. It panics if there is none.
func (p *Parts) Value(key string) *Value {
	i := slices.IndexFunc(p.Meta, func(v Value) bool { return v.Key == key })
	if i < 0 {
		panic("ggufparts: no value " + key)
	}
	return &p.Meta[i]
}

// SetUint32 makes a value a number.
func (v *Value) SetUint32(n uint32) {
	v.Kind, v.Of, v.N, v.Data = Uint32, Uint32, 1, binary.LittleEndian.AppendUint32(nil, n)
}

// SetText makes a value a text.
func (v *Value) SetText(s string) {
	v.Kind, v.Of, v.N, v.Data = Text, Text, 1, new(ggufgen.File).Add(s).Bytes()
}

// Texts are the elements of an array of texts.
func (v *Value) Texts() (all []string) {
	for r := (taker{v.Data}); len(r.rest) > 0; {
		all = append(all, r.text())
	}
	return all
}

// SetTexts makes a value an array of texts.
func (v *Value) SetTexts(all []string) {
	f := new(ggufgen.File)
	for _, s := range all {
		f.Add(s)
	}
	v.Kind, v.Of, v.N, v.Data = Array, Text, uint64(len(all)), f.Bytes()
}

// taker reads a file from its beginning.
type taker struct{ rest []byte }

func (r *taker) bytes(n uint64) (b []byte) {
	if n > uint64(len(r.rest)) {
		panic(fmt.Sprintf("ggufparts: %d bytes of %d", n, len(r.rest)))
	}
	b, r.rest = r.rest[:n:n], r.rest[n:]
	return b
}

func (r *taker) u32() uint32  { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *taker) u64() uint64  { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *taker) text() string { return string(r.bytes(r.u64())) }

// elements are n values of a kind, which is not Array.
func (r *taker) elements(kind uint32, n uint64) []byte {
	if kind != Text {
		return r.bytes(n * uint64(sizes[kind]))
	}
	all := r.rest
	for range n {
		r.text()
	}
	size := len(all) - len(r.rest)
	return all[:size:size]
}
