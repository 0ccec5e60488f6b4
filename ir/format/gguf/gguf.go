// Package gguf reads GGUF files, versions 2 and 3: the metadata and the
// tensors' names, types, shapes and bytes. It trusts nothing in a file: every
// count, length and offset is held against the file's size before it is used.
//
// A fault belongs to the smallest thing that it makes doubtful. A tensor or a key with a fault has an Err
// and the others can be used; a file is refused only if its other things are doubtful, too, or are missing.
//
// The format is described in docs/gguf.md of ggml.
package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
)

// Error is a fault of a file: the thing in it and the problem, on one
// line.
type Error struct {
	Thing   string // "header", `tensor "blk.0.attn_q.weight"`, `key "general.alignment"`
	Problem string
}

func (e *Error) Error() string { return "gguf: " + e.Thing + ": " + e.Problem }

func errorf(what thing, problem string, args ...any) error {
	return &Error{what.String(), fmt.Sprintf(problem, args...)}
}

// thing is what an error is about: a part of the file, or what has a name in it.
type thing struct {
	what, name string
	named      bool
}

func section(what string) thing { return thing{what: what} }

func quote(what, name string) thing { return thing{what, name, true} }

// String has the name printable and not too long.
func (t thing) String() string {
	switch {
	case !t.named:
		return t.what
	case len(t.name) > 80:
		return fmt.Sprintf("%s %q", t.what, t.name[:80]+"...")
	}
	return fmt.Sprintf("%s %q", t.what, t.name)
}

// File is an open GGUF file, or the parts of a model that was split into several.
type File struct {
	Version   int
	Alignment int      // of the tensors' data, in bytes
	Meta      []KV     // in the order of the file; a split model has the values of its first part
	Tensors   []Tensor // in the order of the file and of the parts
	// Paths are the files that were opened: one, or the parts of a split model in their order.
	// What was Read has none.
	Paths []string

	from   *source
	files  []opened // as Paths
	keys   map[string]int
	byName map[string]int
}

// source is where the bytes of one file are.
type source struct {
	r    io.ReaderAt
	data []byte // the whole file, if it was Read
}

// KV is one metadata value: uint8, int8, uint16, int16, uint32, int32, uint64,
// int64, float32, float64, bool, string, or an array: a slice of one of these
// ([]uint8, []string ...), or []any for an array of arrays.
type KV struct {
	Key   string // not unique and possibly shortened if there is an Err
	Value any    // nil if it takes more than 256 bytes: File.Value and File.Get read it
	Err   error  // why the value cannot be used, or nil

	kind kind
	at   int64 // where the value is in the file
	size int64 // what it takes there, in bytes
}

// Tensor is one tensor of a file.
type Tensor struct {
	Name  string // not unique and possibly shortened if there is an Err
	Type  Type
	Shape []int // up to 4 extents, the fastest first: Shape[0] is K of a weight matrix, Shape[1] its rows; nil if they make no sense
	// Offset of the first byte in the file, or part, that has the tensor.
	Offset int64
	// Size in bytes. For a type of unknown size, and with an Err, it is what
	// lies before the next tensor or the end of the file, padding included.
	Size int64
	// Err is why the tensor cannot be used, or nil. Bytes returns it.
	Err error

	shapeless bool      // there is no Shape because it makes no sense, which is not the shape of one value
	known     *typeInfo // what its type means in this file; nil if that is unknown or in doubt
	from      *source
}

// Open opens a file by its path. The path of any part of a split model opens all its parts, which must lie in
// one directory under the names that llama.cpp gives them, such as NAME-00001-of-00003.gguf. The caller closes it.
func Open(path string) (*File, error) {
	f, err := openOne(path)
	if err != nil {
		return nil, err
	}
	s, err := f.split()
	if err == nil && s.count > 1 {
		f.Close()
		return openParts(path, s)
	}
	if err == nil {
		err = f.complete(s)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openOne opens one file, which may be a part of a model.
func openOne(path string) (*File, error) {
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
	if info, err = settled(f); err != nil {
		f.Close()
		return nil, err
	}
	file, err := parse(&source{r: f}, info.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	file.Paths, file.files = []string{path}, []opened{{f, info}}
	return file, nil
}

// Read reads a file held in memory; the tensors' Bytes are parts of data. A part of a split model is refused.
func Read(data []byte) (*File, error) {
	return readWhole(&source{bytes.NewReader(data), data}, int64(len(data)))
}

// New reads a file of the given size in bytes. It reads the header now, and large
// metadata values and tensors when asked for them. A part of a split model is refused.
func New(r io.ReaderAt, size int64) (*File, error) {
	return readWhole(&source{r: r}, size)
}

func readWhole(from *source, size int64) (*File, error) {
	f, err := parse(from, size)
	if err != nil {
		return nil, err
	}
	s, err := f.split()
	if err != nil {
		return nil, err
	}
	if s.count > 1 {
		return nil, errorf(quote("key", keyCount), "is %d: this is part %d of a model; Open finds the other parts by the path of one", s.count, s.no+1)
	}
	if err := f.complete(s); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes what was Opened; it does nothing to other files. After it neither tensors nor large values can be read.
func (f *File) Close() error {
	var errs []error
	for _, x := range f.files {
		errs = append(errs, x.Close())
	}
	f.files = nil
	return errors.Join(errs...)
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
	if of.Err != nil {
		return nil, of.Err
	}
	what, count := quote("tensor", t.Name), of.Matrices()
	if n := t.Elements(); t.Type != 0 || n != 1 && n != count {
		return nil, errorf(what, "has %d values of %s; %s of %d matrices takes 1 or %[4]d of F32", n, t.TypeName(), quote("tensor", matrix), count)
	}
	b, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	given := make([]float32, len(b)/4)
	for i := range given {
		given[i] = math.Float32frombits(u32(b[4*i:]))
	}
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

// TypeName is the name of t's type: TypeName(t.Type), or for an id that the format does not define
// the type that has such ids in other programs, if the tensor has the size of one, such as "I2_S".
func (t *Tensor) TypeName() string {
	if t.known != nil {
		return t.known.name
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

// Matrices is the number of matrices of Shape[0] columns and Shape[1] rows that t is a stack of, 0 if it has no values.
func (t *Tensor) Matrices() int {
	if t.Elements() == 0 {
		return 0 // the other extents may be as large as they like
	}
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
		return nil, errorf(section("tensor"), "no such tensor")
	}
	if t.Err != nil {
		return nil, t.Err
	}
	if t.Size == 0 {
		return []byte{}, nil // wherever that would be
	}
	if t.from.data != nil {
		return t.from.data[t.Offset : t.Offset+t.Size : t.Offset+t.Size], nil
	}
	if int64(int(t.Size)) != t.Size {
		return nil, errorf(quote("tensor", t.Name), "takes %d bytes, which do not fit the memory of this machine", t.Size)
	}
	b := make([]byte, t.Size)
	if n, err := t.from.r.ReadAt(b, t.Offset); n < len(b) {
		return nil, errorf(quote("tensor", t.Name), "reading %d bytes at %d: %v", t.Size, t.Offset, err)
	}
	return b, nil
}

// ReadAt reads a part of the content of t, which Bytes reads whole, as io.ReaderAt says.
func (t *Tensor) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case t == nil:
		return 0, errorf(section("tensor"), "no such tensor")
	case t.Err != nil:
		return 0, t.Err
	case off < 0:
		return 0, errorf(quote("tensor", t.Name), "offset %d is negative", off)
	}
	return io.NewSectionReader(t.from.r, t.Offset, t.Size).ReadAt(p, off)
}

// fail gives t its first Err.
func (t *Tensor) fail(problem string, args ...any) {
	if t.Err == nil {
		t.Err = errorf(quote("tensor", t.Name), problem, args...)
	}
}

// Get is the metadata value of a key, or nil: if there is none, and if it cannot be read. Value says which.
func (f *File) Get(key string) any {
	v, err := f.Value(key)
	if err != nil {
		return nil
	}
	return v
}

// Value is the metadata value of a key, or nil if there is none. A large value is read now, each time it is asked for.
func (f *File) Value(key string) (any, error) {
	i, ok := f.keys[key]
	if !ok {
		return nil, nil
	}
	kv := &f.Meta[i]
	if kv.Value != nil || kv.Err != nil {
		return kv.Value, kv.Err
	}
	what := quote("key", key)
	if kv.size > maxValue {
		return nil, errorf(what, "takes %d bytes; this reader reads values of at most %d", kv.size, maxValue)
	}
	p := newReader(f.from.r, kv.at, kv.at+kv.size, buffered)
	v := p.value(kv.kind, what)
	if p.err != nil {
		return nil, p.err
	}
	return v, nil
}

// Int is the metadata value of a key that holds an integer of any kind.
func (f *File) Int(key string) (int, error) {
	value, err := f.typed(key, "an integer", kindU8, kindI8, kindU16, kindI16, kindU32, kindI32, kindU64, kindI64)
	if err != nil {
		return 0, err
	}
	var v int64
	switch x := value.(type) {
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
	}
	if int64(int(v)) != v {
		return 0, errorf(quote("key", key), "%d is too large", v)
	}
	return int(v), nil
}

// Float is the metadata value of a key that holds a float32 or float64.
func (f *File) Float(key string) (float64, error) {
	value, err := f.typed(key, "a float", kindF32, kindF64)
	if x, ok := value.(float32); ok {
		return float64(x), err
	}
	x, _ := value.(float64)
	return x, err
}

// Text is the metadata value of a key that holds a string.
func (f *File) Text(key string) (string, error) {
	value, err := f.typed(key, "a string", kindString)
	s, _ := value.(string)
	return s, err
}

// typed is the Value of a key that has to be there and of one of the kinds. Values of other kinds are not read.
func (f *File) typed(key, want string, kinds ...kind) (any, error) {
	i, ok := f.keys[key]
	if !ok {
		return nil, errorf(quote("key", key), "is missing; it should hold %s", want)
	}
	if kv := &f.Meta[i]; kv.Err == nil && !slices.Contains(kinds, kv.kind) {
		return nil, errorf(quote("key", key), "holds %s; it should hold %s", kv.kind, want)
	}
	return f.Value(key)
}
