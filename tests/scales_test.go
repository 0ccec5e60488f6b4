package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

// scalesTest is a caller of the package that is compiled for a file whose matrices have scales. Matrices that are opened
// give the products of their bytes times their scale, rounded once, and those are near the product in real numbers.
const scalesTest = `package scaled

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"example.com/scaled/kernels"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
)

func TestScales(t *testing.T) {
	f, err := gguf.Open("model.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const n = 3
	var calls []runtime.Call
	for _, c := range []struct {
		name  string
		index int
		scale float32
		open  func() (*runtime.Matrix, error)
	}{
		{"blk.0.attn_q.weight", 0, 0.375, func() (*runtime.Matrix, error) { w, err := kernels.OpenAttnQ(f, 0); return w.Matrix, err }},
		{"blk.0.attn_k.weight", 0, -1e-3, func() (*runtime.Matrix, error) { w, err := kernels.OpenAttnK(f, 0); return w.Matrix, err }},
		{"blk.0.attn_v.weight", 0, 1, func() (*runtime.Matrix, error) { w, err := kernels.OpenAttnV(f, 0); return w.Matrix, err }},
		{"blk.0.ffn_up_exps.weight", 0, 2.5, func() (*runtime.Matrix, error) { w, err := kernels.OpenFfnUpExps(f, 0, 0); return w.Matrix, err }},
		{"blk.0.ffn_up_exps.weight", 1, 1.0 / 3, func() (*runtime.Matrix, error) { w, err := kernels.OpenFfnUpExps(f, 0, 1); return w.Matrix, err }},
		{"blk.0.ffn_up_exps.weight", 1, 1.0 / 3, func() (*runtime.Matrix, error) { return kernels.Tensors.Open(f, "blk.0.ffn_up_exps.weight", 1) }},
		{"blk.0.ffn_up_exps.weight", 1, 1.0 / 3, func() (*runtime.Matrix, error) {
			scales, err := f.Scales("blk.0.ffn_up_exps.weight")
			if err != nil {
				return nil, err
			}
			data, err := f.Tensor("blk.0.ffn_up_exps.weight").Matrix(1)
			if err != nil {
				return nil, err
			}
			w, err := kernels.NewFfnUpExps(0, data, scales[1])
			return w.Matrix, err
		}},
	} {
		w, err := c.open()
		if err != nil {
			t.Fatal(c.name, err)
		}
		x := check(t, f, w, c.name, c.index, c.scale)
		path := filepath.Join(t.TempDir(), "w")
		if err := w.Save(path); err != nil {
			t.Fatal(err)
		}
		again, err := w.Product().LoadMatrix(path)
		if err != nil {
			t.Fatal(err)
		}
		check(t, f, again, c.name, c.index, c.scale)
		m, k := w.Shape()
		size, err := w.Product().ActSize(n, k)
		if err != nil {
			t.Fatal(err)
		}
		act := make([]byte, size)
		if err := w.Product().PrepareAct(act, x, n, k); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, w.Call(make([]float32, n*m), act), again.Call(make([]float32, n*m), act))
	}
	if err := runtime.GemmAll(2, calls...); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(calls); i += 2 {
		if fmt.Sprint(calls[i].Dst) != fmt.Sprint(calls[i+1].Dst) {
			t.Errorf("matrix %d: opened and loaded differ", i/2)
		}
	}
}

// check multiplies w and compares with its bytes in the file and its scale. It returns the activations.
func check(t *testing.T, f *gguf.File, w *runtime.Matrix, name string, index int, scale float32) []float32 {
	t.Helper()
	const n = 3
	m, k := w.Shape()
	data, err := f.Tensor(name).Matrix(index)
	if err != nil {
		t.Fatal(err)
	}
	weight, src, err := blocks.Read(f.Tensor(name).TypeName(), data, m, k)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := w.Product().NewMatrix(src, m, k)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	x, got, want, row := make([]float32, n*k), make([]float32, n*m), make([]float32, n*m), make([]float32, k)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	for _, threads := range []int{1, 2} {
		if err := w.Multiply(got, x, n, runtime.Options{Threads: threads}); err != nil {
			t.Fatal(err)
		}
		if err := bare.Multiply(want, x, n, runtime.Options{}); err != nil {
			t.Fatal(err)
		}
		diff, all := 0.0, 0.0
		for i, v := range got {
			if want := float32(want[i] * scale); math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%s %d, %d threads, element %d: %v, not %v", name, index, threads, i, v, want)
			}
			exact := 0.0
			for e := range k {
				exact += float64(src.Value(weight, i%m, e, k)) * float64(x[i/m*k+e])
			}
			exact *= float64(scale)
			diff, all = diff+(float64(v)-exact)*(float64(v)-exact), all+exact*exact
		}
		if !(math.Sqrt(diff/all) < 0.02) {
			t.Errorf("%s %d: products are %v of their size away from products of real numbers", name, index, math.Sqrt(diff/all))
		}
	}
	for r := range m {
		if err := w.Row(row, r); err != nil {
			t.Fatal(err)
		}
		for e, v := range row {
			if want := float32(src.Value(weight, r, e, k) * scale); v != want {
				t.Fatalf("%s %d, row %d, column %d: %v, not %v", name, index, r, e, v, want)
			}
		}
	}
	return x
}
`

// TestScales compiles a package for a GGUF file whose matrices have scales of their own, and multiplies them, on
// kernels where this CPU has those and in pure Go.
func TestScales(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"model.gguf": string(scaledModel(t)), "scaled_test.go": scalesTest} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	out := inShell(t, dir, `go mod init example.com/scaled
go get -tool github.com/tmacc/tmacc/cmd/tmacc
go tool tmacc compile model.gguf -target avx2 -no-check -q -o kernels
go mod tidy
go vet ./...
go test .
go test -tags purego .
grep -h '^func .*scale float32' kernels/kernels_tensors.go
`)
	for _, want := range []string{"func NewAttnQ(layer int, data []byte, scale float32)", "func NewAttnK(layer int, data []byte, scale float32)", "func NewFfnUpExps(layer int, data []byte, scale float32)"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if strings.Contains(out, "func NewAttnV(") {
		t.Error("a matrix without a scale cannot be made without one")
	}
}

// scaledModel is a GGUF file of matrices of two types with scales, one without, and a stack of two with a scale for each.
func scaledModel(t *testing.T) []byte {
	t.Helper()
	f := openGGUF(t, "blocks.gguf")
	four, zero := f.Tensor("NVFP4"), f.Tensor("Q4_0")
	file := ggufgen.Header(7, 0)
	var offset uint64
	add := func(name string, typ gguf.Type, size int64, shape ...uint64) {
		file.Tensor(name, uint32(typ), offset, shape...)
		offset += uint64(size+31) &^ 31
	}
	shape := func(x *gguf.Tensor) []uint64 { return []uint64{uint64(x.Shape[0]), uint64(x.Shape[1])} }
	add("blk.0.attn_q.weight", four.Type, four.Size, shape(four)...)
	add("blk.0.attn_k.weight", zero.Type, zero.Size, shape(zero)...)
	add("blk.0.attn_v.weight", zero.Type, zero.Size, shape(zero)...)
	add("blk.0.ffn_up_exps.weight", four.Type, 2*four.Size, append(shape(four), 2)...)
	add("blk.0.attn_q.scale", 0, 4, 1)
	add("blk.0.attn_k.scale", 0, 4, 1)
	add("blk.0.ffn_up_exps.scale", 0, 8, 2)
	four1, zero1 := content(t, four), content(t, zero)
	var other []byte // the same rows in another order
	for row := range slices.Chunk(four1, len(four1)/four.Shape[1]) {
		other = append(row[:len(row):len(row)], other...)
	}
	file.Pad(0).Add(four1).Pad(0).Add(zero1).Pad(0).Add(zero1).Pad(0).Add(four1, other).Pad(0)
	return file.Add(float32(0.375)).Pad(0).Add(float32(-1e-3)).Pad(0).Add([]float32{2.5, 1.0 / 3}).Pad(0).Bytes()
}
