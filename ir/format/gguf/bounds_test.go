package gguf

import (
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
