package runtime

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// refused holds an error to be one line of type *Error that says want.
func refused(t *testing.T, what string, err error, want string) {
	t.Helper()
	var typed *Error
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || !errors.As(err, &typed) {
		t.Errorf("%s: %v; want %s", what, err, want)
	}
}

// role is as a generated package has them.
type role struct{ *Matrix }

// What has no memory, or is no matrix at all, is refused by all methods that return an error, and gives zeros to the others.
func TestNoMatrix(t *testing.T) {
	p := New(*fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 4}))
	const m, n, k = 32, 2, 64
	x, err := p.NewMatrix(randomWeights(p.Weight(), m, k, newRand()), m, k)
	if err != nil {
		t.Fatal(err)
	}
	in := testActivations(n, k, newRand())[0]
	act, dst, path := mustPrepare(t, p, in, n, k), make([]float32, n*m), filepath.Join(t.TempDir(), "w")
	early := x.Call(dst, act)
	if err := GemmAll(1, early); err != nil {
		t.Fatal(err)
	}
	if x.Close() != nil || x.Close() != nil {
		t.Error("Close of a closed matrix")
	}
	refused(t, "a call that is older than Close", GemmAll(1, early), "GemmAll: call 1 of 1: w4-g32: matrix: is closed")
	const none = "matrix: is nil or a zero value: make it by a constructor"
	for _, c := range []struct {
		name, want string
		x          *Matrix
	}{{"closed", "w4-g32: matrix: is closed", x}, {"nil", none, nil}, {"zero", none, new(Matrix)}, {"zero role", none, role{}.Matrix}} {
		x := c.x
		refused(t, c.name+" Multiply", x.Multiply(dst, in, n, Options{Threads: 2}), c.want)
		refused(t, c.name+" Gemm", x.Gemm(dst, act, Options{}), c.want)
		refused(t, c.name+" Row", x.Row(in, 0), c.want)
		refused(t, c.name+" SetScale", x.SetScale(2), c.want)
		refused(t, c.name+" Save", x.Save(path), c.want)
		refused(t, c.name+" GemmAll", GemmAll(2, x.Call(dst, act)), "GemmAll: call 1 of 1: ")
		if x.Packed() != nil || x.Scale() != 0 || x.Close() != nil {
			t.Errorf("%s: has something", c.name)
		}
		if rows, columns := x.Shape(); c.want == none && (rows != 0 || columns != 0 || x.Product() != nil) {
			t.Errorf("%s: %d by %d", c.name, rows, columns)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("something was saved")
	}
	var b *Buffer
	if b.Bytes() != nil || b.Close() != nil || new(Buffer).Bytes() != nil || new(Buffer).Close() != nil {
		t.Error("no buffer has memory")
	}
	if y, err := p.NewMatrix(format.Source{}, m, k); y != nil {
		t.Error("a matrix of nothing")
	} else if err == nil || !strings.Contains(err.Error(), "w4-g32: format: argument codes: has 0 elements; a 32 by 64 matrix has 2048") {
		t.Error(err)
	}
}

// Every method of no product: those that return an error say so, the others return zeros.
func TestNoProduct(t *testing.T) {
	w := lookup(t, "w4-g32")
	for name, p := range map[string]*Product{"nil": nil, "zero": new(Product)} {
		v := reflect.ValueOf(p)
		for i := range v.NumMethod() {
			method := v.Type().Method(i)
			var args []reflect.Value
			for j := 1; j < method.Type.NumIn(); j++ {
				args = append(args, reflect.Zero(method.Type.In(j)))
			}
			for _, out := range v.Method(i).Call(args) {
				if err, ok := out.Interface().(error); ok {
					refused(t, name+" "+method.Name, err, "product: is nil or a zero Product: use a variable of the package")
				} else if !out.IsZero() {
					t.Errorf("%s %s: %v", name, method.Name, out)
				}
			}
			if last := method.Type.NumOut() - 1; method.Type.Out(last) == reflect.TypeFor[error]() && v.Method(i).Call(args)[last].IsNil() {
				t.Errorf("%s %s: no error", name, method.Name)
			}
		}
		refused(t, name, GemmAll(1, Call{Product: p}), "GemmAll: call 1 of 1: runtime: product: is nil")
		refused(t, name, SelfTest(p, newRand()), "product: is nil")
		_, err := p.NewMatrix(randomWeights(w, 1, 32, newRand()), 1, 32)
		refused(t, name, err, "product: is nil")
		_, err = Tensors{{Name: "x", Product: p, M: 1, K: 32, Count: 1}}.New("x", nil)
		refused(t, name, err, "tensor x: runtime: product: is nil")
	}
	_, err := Tensors(nil).New("x", nil)
	refused(t, "no tensors", err, "tensor x: is not one that this package was compiled for")
}

// A matrix of more columns than the package was compiled for is refused as its K is, not as damage.
func TestTooManyColumns(t *testing.T) {
	s := fakeSpec(t, "w4-g32", 0, 16, 32)
	packed := mustPack(t, New(*s), randomWeights(s.Weight, 16, 320, newRand()), 16, 320)
	s.LimitK = 256
	p := New(*s)
	path := filepath.Join(t.TempDir(), "w")
	if err := os.WriteFile(path, packed, 0o666); err != nil {
		t.Fatal(err)
	}
	const want = "320 columns; the package was compiled for K up to 256: compile it again with -max-k 320 (or max-k in tmacc.yaml)"
	_, err := p.LoadMatrix(path)
	refused(t, "LoadMatrix", err, "w4-g32: file "+path+": has "+want)
	refused(t, "Verify", p.Verify(packed), "w4-g32: argument packed: has "+want)
	_, err = p.ActSize(1, 320)
	refused(t, "ActSize", err, "w4-g32: argument k: is 320; the package was compiled for K up to 256: compile it again with -max-k 320")
}

// A file that is no packed matrix is refused by what it is instead.
func TestForeignFiles(t *testing.T) {
	p := New(*fakeSpec(t, "w4-g32", 0, 16, 32))
	packed := mustPack(t, p, randomWeights(p.Weight(), 37, 320, newRand()), 37, 320)
	other := bytes.Clone(packed)
	other[7] = 99
	dir := t.TempDir()
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"gguf":        {append([]byte("GGUF\x03\x00\x00\x00"), make([]byte, 100)...), "is a GGUF file, not a packed matrix: read its tensors with gguf.Open and Tensors.Open"},
		"short gguf":  {[]byte("GGUF\x03"), "is a GGUF file"},
		"program":     {append([]byte("\x7fELF\x02"), make([]byte, 100)...), "is an ELF program, not a packed matrix"},
		"zip":         {append([]byte("PK\x03\x04"), make([]byte, 100)...), "is a zip archive"},
		"activations": {mustPrepare(t, p, make([]float32, 64), 1, 64), "holds prepared activations, not a packed matrix"},
		"version":     {other, "is a packed matrix of another version of tmacc: pack it again"},
		"text":        {[]byte("hello\n"), "has 6 bytes, too few for a packed matrix"},
		"zeros":       {make([]byte, 1000), "has no intact header of a packed matrix: pack the matrix (Pack or NewMatrix), and save that"},
		"empty":       {nil, "is empty: pack the matrix"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.data, 0o666); err != nil {
			t.Fatal(err)
		}
		x, err := p.LoadMatrix(path)
		refused(t, name, err, "w4-g32: file "+path+": "+c.want)
		refused(t, name, p.Verify(c.data), "w4-g32: argument packed: "+c.want)
		if x != nil {
			t.Errorf("%s: is a matrix", name)
		}
	}
}
