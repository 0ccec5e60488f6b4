package gguf

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// A count is refused as soon as the things counted cannot be there, however small they are.
func TestCountsOfHeader(t *testing.T) {
	for want, f := range map[string]*ggufgen.File{
		"number of tensors: claims 2 of at least 24 bytes each, but only 47 bytes follow":         new(ggufgen.File).Add([]byte("GGUF"), uint32(3), uint64(2), make([]byte, 47)),
		"number of metadata values: claims 2 of at least 13 bytes each, but only 25 bytes follow": ggufgen.Header(0, 2).Add(make([]byte, 25)),
	} {
		_, err := Read(f.Bytes())
		wantError(t, err, want)
	}
}

// A key that is too long is not the key that it begins with.
func TestLongKeyIsItsOwn(t *testing.T) {
	short := strings.Repeat("k", maxKey)
	one := func(f *ggufgen.File, key string, v byte) *ggufgen.File { return f.Add(key, uint32(0), []byte{v}) }
	f := mustRead(t, one(one(ggufgen.Header(0, 2), short+"k", 1), short, 2))
	if v, err := f.Value(short); err != nil || v != uint8(2) {
		t.Errorf("%v, %v", v, err)
	}
	wantError(t, f.Meta[0].Err, "is a key of 1025 bytes; the limit of this reader is 1024")
}

// The largest extent that an int holds is a shape; one more is none.
func TestLargestShape(t *testing.T) {
	for extent, shaped := range map[uint64]bool{math.MaxInt: true, math.MaxInt + 1: false} {
		f, err := New(sparse{ggufgen.Header(1, 0).Tensor("t", 0, 0, extent).Bytes()}, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		x := f.Tensors[0]
		if x.Err == nil || strings.Contains(x.Err.Error(), "is too large") == shaped || (x.Shape != nil) != shaped {
			t.Errorf("%d: shape %v, %v", extent, x.Shape, x.Err)
		}
	}
}

// The last tensor of a file has no say in what its type means if there are others, and neither have those without
// a shape or whole blocks.
func TestWitnesses(t *testing.T) {
	f32 := uint32(0)
	// Another type of the last tensor's room must not make the first one doubtful.
	f := lay(t, laid{"a", f32, []uint64{8}, 32}, laid{"b", f32, []uint64{64}, 4096})
	if x := f.Tensor("a"); x.Err != nil || x.Size != 32 {
		t.Errorf("%d bytes, %v", x.Size, x.Err)
	}
	wantError(t, f.Tensor("b").Err, `takes 256 bytes as F32 of shape [64], but 4096 lie before the end of the file`)
	// A tensor without a shape, in a room that no F32 fills.
	f = lay(t, laid{"a", f32, []uint64{1 << 40, 1 << 40}, 4096}, laid{"b", f32, []uint64{8}, 32})
	wantError(t, f.Tensor("a").Err, "is too large")
	if x := f.Tensor("b"); x.Err != nil || x.Size != 32 {
		t.Errorf("%d bytes, %v", x.Size, x.Err)
	}
	// 8 values are no STQ1_0, which other programs write as 43.
	f = lay(t, laid{"a", 43, []uint64{8}, 16}, laid{"b", f32, []uint64{8}, 32})
	if x := f.Tensor("a"); x.Err != nil || x.TypeName() != "type43" {
		t.Errorf("%s, %v", x.TypeName(), x.Err)
	}
}

// A tensor of one byte before the next one does not overlap it.
func TestOneByte(t *testing.T) {
	f := mustRead(t, ggufgen.Header(2, 0).Tensor("a", 99, 0, 1).Tensor("b", 99, 1, 1).Pad(2))
	if x := f.Tensor("a"); x.Err != nil || x.Size != 1 {
		t.Errorf("%d bytes, %v", x.Size, x.Err)
	}
	f = mustRead(t, ggufgen.Header(2, 0).Tensor("a", 99, 0, 1).Tensor("b", 99, 0, 1).Pad(2))
	wantError(t, f.Tensor("a").Err, `overlaps tensor "b"`)
}

// Sizes up to the largest int.
func TestSizesOfTypes(t *testing.T) {
	for _, c := range []struct {
		i      typeInfo
		n, row int
		size   int64
		want   string
	}{
		{typeInfo{name: "x", values: 1, bytes: 1}, math.MaxInt, math.MaxInt, math.MaxInt, ""},
		{typeInfo{name: "x", values: 1, bytes: 2}, math.MaxInt/2 + 1, math.MaxInt/2 + 1, 0, fmt.Sprint(math.MaxInt/2+1, " values of x are too many")},
		{typeInfo{name: "x", values: 1, bytes: 1, tail: 7}, math.MaxInt - 7, 1, math.MaxInt, ""},
		{typeInfo{name: "x", values: 1, bytes: 1, tail: 7}, math.MaxInt - 6, 1, 0, fmt.Sprint(math.MaxInt-6, " values of x are too many")},
		{typeInfo{name: "x", values: 4, bytes: 1}, 8, 2, 0, "rows of 2 values are not whole x blocks of 4"},
		{typeInfo{name: "x", values: 4, bytes: 1}, 8, 4, 2, ""},
		{typeInfo{name: "x", values: 4, bytes: 1, tail: 32}, 8, 2, 34, ""}, // with a tail, blocks run on from row to row
	} {
		if size, problem := c.i.size(c.n, c.row); size != c.size || problem != c.want {
			t.Errorf("%+v, %d in rows of %d: %d, %q; want %d, %q", c.i, c.n, c.row, size, problem, c.size, c.want)
		}
	}
}

// The numbers of parts and tensors of split models at their bounds.
func TestSplitBounds(t *testing.T) {
	for _, c := range []struct {
		count, no int32 // no -1: the key is missing
		want      string
	}{
		{0, -1, ""},
		{1, -1, ""},
		{2, -1, `key "split.no": `},
		{2, 1, ""},
		{2, 2, `key "split.no": is 2; the 2 parts of a model count from 0`},
		{3, 2, ""},
		{3, 3, `key "split.no": is 3; the 3 parts of a model count from 0`},
		{65535, 0, ""},
		{65536, 0, `key "split.count": is 65536; a model has at most 65535 parts`},
	} {
		b := ggufgen.Header(0, 3)
		if c.no < 0 {
			b = ggufgen.Header(0, 2)
		} else {
			b.Add("split.no", uint32(5), c.no)
		}
		var s split
		b.Add("split.count", uint32(5), c.count, "split.tensors.count", uint32(5), int32(0))
		f, err := parse(&source{r: bytes.NewReader(b.Bytes())}, int64(b.Len()))
		if err == nil {
			s, err = f.split()
		}
		if c.want != "" {
			wantError(t, err, c.want)
		} else if err != nil || s.count != int(c.count) {
			t.Errorf("%d parts: %+v, %v", c.count, s, err)
		}
	}
	f := &File{Tensors: make([]Tensor, maxTensors-1), byName: map[string]int{}}
	part := &File{Tensors: make([]Tensor, 1), byName: map[string]int{}}
	if err := f.add(part); err != nil || len(f.Tensors) != maxTensors {
		t.Errorf("%d tensors, %v", len(f.Tensors), err)
	}
	wantError(t, f.add(part), fmt.Sprintf("number of tensors: is %d in all parts; the limit of this reader is %d", maxTensors+1, maxTensors))
}

// The largest number that an int holds is one.
func TestLargestInt(t *testing.T) {
	for v, want := range map[uint64]string{math.MaxInt: "", math.MaxInt + 1: fmt.Sprintf(`key "a": %d is too large`, uint64(math.MaxInt+1))} {
		n, err := mustRead(t, ggufgen.Header(0, 1).Add("a", uint32(10), v)).Int("a")
		if want != "" {
			wantError(t, err, want)
		} else if err != nil || n != math.MaxInt {
			t.Errorf("%d, %v", n, err)
		}
	}
}
