// Package gguf reads GGUF files, versions 2 and 3: the metadata and the
// tensors' names, types, shapes and bytes. It trusts nothing in a file: every
// count, length and offset is held against the file's size before it is used.
//
// The format is described in docs/gguf.md of ggml.
package gguf

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// Error says what is wrong with a file: the thing in it and the problem, on one
// line.
type Error struct {
	Thing   string // "header", `tensor "blk.0.attn_q.weight"`, `key "general.alignment"`
	Problem string
}

func (e *Error) Error() string { return "gguf: " + e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// quote is a name from a file, made printable and not too long.
func quote(what, name string) string {
	if len(name) > 80 {
		name = name[:80] + "..."
	}
	return fmt.Sprintf("%s %q", what, name)
}

// File is an open GGUF file.
type File struct {
	Version   int
	Alignment int      // of the tensors' data, in bytes
	Meta      []KV     // in the order of the file; keys are unique
	Tensors   []Tensor // in the order of the file; names are unique

	r      io.ReaderAt
	data   []byte // the whole file, if it was Read
	close  func() error
	keys   map[string]int
	byName map[string]int
}

// KV is one metadata value: uint8, int8, uint16, int16, uint32, int32, uint64,
// int64, float32, float64, bool, string, or an array: a slice of one of these
// ([]uint8, []string ...), or []any for an array of arrays.
type KV struct {
	Key   string
	Value any
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int // 1 to 4 extents, the fastest first: Shape[0] is K of a weight matrix, Shape[1] its rows
	// Offset of the first byte in the file.
	Offset int64
	// Size in bytes. For a type that the format does not define it is what
	// lies before the next tensor or the end of the file, padding included.
	Size int64

	file *File
}

// Open opens a file by its path. The caller closes it.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // which opening might wait for
		return nil, errorf(quote("file", path), "is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, err
	}
	file, err := New(f, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	file.close = f.Close
	return file, nil
}

// Read reads a file held in memory; the tensors' Bytes are parts of data.
func Read(data []byte) (*File, error) {
	f, err := New(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	f.data = data
	return f, nil
}

// New reads a file of the given size in bytes. It reads the header now and
// tensors when asked for their Bytes.
func New(r io.ReaderAt, size int64) (*File, error) {
	return parse(r, size)
}

// Close closes a file that was Opened; it does nothing to others.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

// Tensor is the tensor of that name, or nil.
func (f *File) Tensor(name string) *Tensor {
	if i, ok := f.byName[name]; ok {
		return &f.Tensors[i]
	}
	return nil
}

// ScaleTensor is the tensor with the scales of a matrix, or nil: it is called like the
// matrix, with ".scale" instead of ".weight" (llama.cpp writes it for NVFP4).
func (f *File) ScaleTensor(matrix string) *Tensor {
	base, ok := strings.CutSuffix(matrix, ".weight")
	if !ok {
		return nil
	}
	return f.Tensor(base + ".scale")
}

// Scales are the numbers that the products with a tensor are multiplied with, besides the scales in its
// blocks: one for each matrix of the tensor, which is a stack of Matrices. It is nil if the file has no
// ScaleTensor for it. A scale tensor of one value is for every matrix of the stack. Each scale is finite and not 0.
func (f *File) Scales(matrix string) ([]float32, error) {
	t := f.ScaleTensor(matrix)
	if t == nil {
		return nil, nil
	}
	of := f.Tensor(matrix)
	if of == nil {
		return nil, errorf(quote("tensor", matrix), "is not in the file, which has %s for it", quote("tensor", t.Name))
	}
	what, count := quote("tensor", t.Name), of.Matrices()
	if n := t.Elements(); t.Type != 0 || n != 1 && n != count {
		return nil, errorf(what, "has %d values of %s; %s of %d matrices takes 1 or %[4]d of F32", n, t.TypeName(), quote("tensor", matrix), count)
	}
	b, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	given := list(len(b)/4, func(i int) float32 { return math.Float32frombits(u32(b[4*i:])) })
	for i, s := range given {
		if s == 0 || s-s != 0 { // a product that is 0 or NaN whatever the weights are is a fault
			return nil, errorf(what, "value %d is %v: a scale is finite and not 0", i, s)
		}
	}
	if len(given) == count {
		return given, nil
	}
	if int64(count) > of.Size { // only a tensor of unknown type has matrices of less than a byte
		return nil, errorf(quote("tensor", matrix), "has %d matrices in %d bytes", count, of.Size)
	}
	return slices.Repeat(given, count), nil
}

// TypeName is the name of t's type: TypeName(t.Type), or "I2_S" for the id
// that bitnet.cpp uses, if the tensor has the bytes of one.
func (t *Tensor) TypeName() string {
	if t.Type == i2s && t.Size == i2sBytes(t.Elements()) {
		return "I2_S"
	}
	return t.Type.String()
}

// Elements is the number of values of t.
func (t *Tensor) Elements() int {
	n := 1
	for _, e := range t.Shape {
		n *= e
	}
	return n
}

// Matrices is the number of matrices of Shape[0] columns and Shape[1] rows that t is a stack of.
func (t *Tensor) Matrices() int {
	n := 1
	for i, e := range t.Shape {
		if i >= 2 {
			n *= e
		}
	}
	return n
}

// Bytes is the content of t: Size bytes, read now, or a part of the slice that
// was Read. Of nil, which is what a file has for other names, it is an error.
func (t *Tensor) Bytes() ([]byte, error) {
	if t == nil {
		return nil, errorf("tensor", "no such tensor")
	}
	if t.file.data != nil {
		return t.file.data[t.Offset : t.Offset+t.Size : t.Offset+t.Size], nil
	}
	b := make([]byte, t.Size)
	if _, err := t.file.r.ReadAt(b, t.Offset); err != nil && !(err == io.EOF && t.Size == 0) {
		return nil, errorf(quote("tensor", t.Name), "reading %d bytes at %d: %v", t.Size, t.Offset, err)
	}
	return b, nil
}

// Get is the metadata value of a key, or nil.
func (f *File) Get(key string) any {
	if i, ok := f.keys[key]; ok {
		return f.Meta[i].Value
	}
	return nil
}

// Int is the metadata value of a key that holds an integer of any kind.
func (f *File) Int(key string) (int, error) {
	var v int64
	switch x := f.Get(key).(type) {
	case uint8:
		v = int64(x)
	case int8:
		v = int64(x)
	case uint16:
		v = int64(x)
	case int16:
		v = int64(x)
	case uint32:
		v = int64(x)
	case int32:
		v = int64(x)
	case int64:
		v = x
	case uint64:
		if x > math.MaxInt64 {
			return 0, errorf(quote("key", key), "%d is too large", x)
		}
		v = int64(x)
	default:
		return 0, f.wrongKind(key, "an integer")
	}
	if int64(int(v)) != v {
		return 0, errorf(quote("key", key), "%d is too large", v)
	}
	return int(v), nil
}

// Float is the metadata value of a key that holds a float32 or float64.
func (f *File) Float(key string) (float64, error) {
	switch x := f.Get(key).(type) {
	case float32:
		return float64(x), nil
	case float64:
		return x, nil
	}
	return 0, f.wrongKind(key, "a float")
}

// Text is the metadata value of a key that holds a string.
func (f *File) Text(key string) (string, error) {
	if s, ok := f.Get(key).(string); ok {
		return s, nil
	}
	return "", f.wrongKind(key, "a string")
}

func (f *File) wrongKind(key, want string) error {
	v := f.Get(key)
	if v == nil {
		return errorf(quote("key", key), "is missing; it should hold %s", want)
	}
	return errorf(quote("key", key), "holds a %T; it should hold %s", v, want)
}
