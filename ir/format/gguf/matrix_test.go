package gguf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/tests/ggufgen"
)

// A matrix of a stack is its part of the tensor's bytes, of a file in memory and of one that is open.
func TestTensorMatrix(t *testing.T) {
	stack := make([]byte, 3*18)
	for i := range stack {
		stack[i] = byte(i)
	}
	file := ggufgen.Header(1, 0).Tensor("x", 2, 0, 32, 1, 3).Pad(0).Add(stack).Bytes()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	inMemory, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	for _, f := range []*File{inMemory, opened} {
		x := f.Tensor("x")
		for i := range 3 {
			if got, err := x.Matrix(i); err != nil || !bytes.Equal(got, stack[18*i:][:18]) {
				t.Errorf("matrix %d is %v, %v", i, got, err)
			}
		}
		for _, i := range []int{-1, 3} {
			_, err := x.Matrix(i)
			wantError(t, err, "it has 3, from 0 to 2")
		}
	}
	uneven, err := Read(ggufgen.Header(1, 0).Tensor("x", 9999, 0, 32, 1, 3).Pad(32).Bytes()) // of a type that nobody knows
	if err != nil {
		t.Fatal(err)
	}
	_, err = uneven.Tensor("x").Matrix(1)
	wantError(t, err, "has 32 bytes, which are not 3 matrices of equal size")
	if _, err := (*Tensor)(nil).Matrix(0); err == nil {
		t.Error("no tensor has a matrix")
	}
}
