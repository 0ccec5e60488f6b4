package runtime

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/tests/ggufgen"
)

// q4 is the number and a matrix of Q4_0 of 32 by 64: scales are multiples of 1/8.
const q4, q4Bytes = 2, 32 * 2 * 18

func q4Matrix(seed int) []byte {
	data := make([]byte, q4Bytes)
	for i := range data {
		data[i] = byte(i*7 + seed*31)
		switch i % 18 {
		case 0:
			data[i] = 0
		case 1:
			data[i] = 0x30 + byte(seed+i)%4*4 // an f16 of 0.125 to 1
		}
	}
	return data
}

// scaledFile has a matrix without a scale, one with, and a stack of three with a scale for each.
func scaledFile(t *testing.T) *gguf.File {
	t.Helper()
	b := ggufgen.Header(5, 0).
		Tensor("plain.weight", q4, 0, 64, 32).
		Tensor("one.weight", q4, q4Bytes, 64, 32).
		Tensor("exps.weight", q4, 2*q4Bytes, 64, 32, 3).
		Tensor("one.scale", 0, 5*q4Bytes, 1).
		Tensor("exps.scale", 0, 5*q4Bytes+32, 3).Pad(0)
	for i := range 5 {
		b.Add(q4Matrix(i))
	}
	f, err := gguf.Read(b.Add(float32(0.375)).Pad(0).Add([]float32{3, -1.0 / 3, 1}).Pad(0).Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func scaledTensors(t *testing.T) Tensors {
	b, err := blocks.Lookup("Q4_0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(*fakeSpec(t, b.Weight, 32, 16, 32, []int{1, 4}))
	return Tensors{
		{Name: "plain.weight", Type: "Q4_0", Product: p, M: 32, K: 64, Count: 1},
		{Name: "one.weight", Type: "Q4_0", Product: p, M: 32, K: 64, Count: 1, Scaled: true},
		{Name: "exps.weight", Type: "Q4_0", Product: p, M: 32, K: 64, Count: 3, Scaled: true},
	}
}

// Matrices that Open reads from a file have the scales that the file has for them: all products by one call, and rows.
func TestOpenTensors(t *testing.T) {
	const m, n, k = 32, 3, 64
	f, ts := scaledFile(t), scaledTensors(t)
	p := ts[0].Product
	x := testActivations(n, k, newRand())[3]
	act := mustPrepare(t, p, x, n, k)
	var calls []Call
	var want [][]float32
	for i, c := range []struct {
		name  string
		index int
		scale float32
	}{{"plain.weight", 0, 1}, {"one.weight", 0, 0.375}, {"exps.weight", 0, 3}, {"exps.weight", 1, -1.0 / 3}, {"exps.weight", 2, 1}} {
		w, err := ts.Open(f, c.name, c.index)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if w.Scale() != c.scale {
			t.Errorf("%s %d: scale %v, not %v", c.name, c.index, w.Scale(), c.scale)
		}
		_, src, err := blocks.Read("Q4_0", q4Matrix(i), m, k)
		if err != nil {
			t.Fatal(err)
		}
		product, row := make([]float32, n*m), make([]float32, k)
		if err := define(product, p.spec, src, x, m, n, k); err != nil {
			t.Fatal(err)
		}
		for j := range product {
			product[j] = canonical(float32(product[j] * c.scale))
		}
		if err := w.Row(row, 5); err != nil || row[9] != src.Value(p.Weight(), 5, 9, k)*c.scale {
			t.Errorf("%s %d: %v, %v", c.name, c.index, row, err)
		}
		calls, want = append(calls, w.Call(make([]float32, n*m), act)), append(want, product)
	}
	for _, threads := range []int{1, 2} {
		if err := GemmAll(threads, calls...); err != nil {
			t.Fatal(err)
		}
		for i, c := range calls {
			if err := sameBits(c.Dst, want[i], m); err != nil {
				t.Errorf("matrix %d, %d threads: %v", i, threads, err)
			}
		}
	}
	one, err := ts.NewScaled("one.weight", q4Matrix(1), 0.375)
	if err != nil || !slices.Equal(one.Packed(), calls[1].Packed) {
		t.Error("NewScaled makes another matrix than Open", err)
	}
	_, src, err := blocks.Read("Q4_0", q4Matrix(1), m, k)
	if err != nil {
		t.Fatal(err)
	}
	if one, err = ts.PackScaled("one.weight", src, 0.375); err != nil || !slices.Equal(one.Packed(), calls[1].Packed) {
		t.Error("PackScaled makes another matrix than Open", err)
	}
}

// A matrix with a scale cannot be made without, and errors say how it is made.
func TestTensorRefusals(t *testing.T) {
	f, ts := scaledFile(t), scaledTensors(t)
	_, src, err := blocks.Read("Q4_0", q4Matrix(1), 32, 64)
	if err != nil {
		t.Fatal(err)
	}
	f2 := func(name string, typ uint32, size int, shape ...uint64) *gguf.File {
		f, err := gguf.Read(ggufgen.Header(1, 0).Tensor(name, typ, 0, shape...).Pad(size).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	stack := make([]byte, 3*q4Bytes)
	other := ts[1]
	other.Name, other.Type = "codes", ""
	ts = append(ts, other)
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(ts.New("one.weight", q4Matrix(1))), "tensor one.weight: New: scale: is missing: the file has one for this matrix, without which its weights mean nothing. Call Open, or NewScaled with it"},
		{second(ts.New("exps.weight", q4Matrix(1))), "Call Open, or NewScaled with it"},
		{second(ts.Pack("one.weight", src)), "Call Open, or PackScaled with it"},
		{second(ts.NewScaled("plain.weight", q4Matrix(1), 2)), "tensor plain.weight: New: argument scale: is 2; the file that this package was compiled for has no scale for this matrix: pass 1"},
		{second(ts.PackScaled("plain.weight", src, 2)), "argument scale: is 2;"},
		{second(ts.NewScaled("one.weight", q4Matrix(1), float32(math.Inf(1)))), "tensor one.weight: q4_0: argument scale: is +Inf; the scale of a matrix is finite and not 0"},
		{second(ts.NewScaled("exps.weight", stack, 2)), "tensor exps.weight: New: argument data: holds all 3 matrices of the tensor: pass number i of them, data[i*1152:][:1152], or call Open with i"},
		{second(ts.NewScaled("exps.weight", stack[1:], 2)), "argument data: has 3455 bytes; a Q4_0 matrix of 32 rows and 64 columns has 1152"},
		{second(ts.Open(f, "exps.weight", 3)), "tensor exps.weight: Open: argument index: is 3; the tensor has 3 matrices, 0 to 2"},
		{second(ts.Open(f, "plain.weight", -1)), "argument index: is -1; the tensor has 1 matrices, 0 to 0"},
		{second(ts.Open(nil, "plain.weight", 0)), "tensor plain.weight: Open: argument f: is nil: open the file with gguf.Open"},
		{second(ts.Open(f, "none", 0)), "tensor none: is not one that this package was compiled for"},
		{second(ts.Open(f2("x", q4, q4Bytes, 64, 32), "plain.weight", 0)), "tensor plain.weight: Open: file: has no such tensor: compile the package for your file"},
		{second(ts.Open(f2("plain.weight", q4, 2*q4Bytes, 64, 64), "plain.weight", 0)), "Open: file: has Q4_0 of shape [64 64], the package Q4_0 of shape [64 32]: compile the package for your file"},
		{second(ts.Open(f2("plain.weight", 3, 32*2*20, 64, 32), "plain.weight", 0)), "has Q4_1 of shape [64 32], the package Q4_0 of shape [64 32]"},
		{second(ts.Open(f2("exps.weight", q4, q4Bytes, 64, 32), "exps.weight", 0)), "has Q4_0 of shape [64 32], the package Q4_0 of shape [64 32 3]"},
		{second(ts.Open(f2("one.weight", q4, q4Bytes, 64, 32), "one.weight", 0)), "tensor one.weight: Open: file: has no scale for it, as the file had that the package was compiled for"},
		{second(ts.Open(f2("plain.weight", q4, 3*q4Bytes, 64, 32), "plain.weight", 0)), `takes 1152 bytes as Q4_0 of shape [64 32], but 3456 lie before the end of the file`},
		{second(ts.Open(f2("codes", q4, q4Bytes, 64, 32), "codes", 0)), "tensor codes: Open: type: is none: the package was compiled for codes and scales, which Pack takes"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("%v; want %s", c.err, c.want)
		}
	}
	if x, err := ts.NewScaled("plain.weight", q4Matrix(0), 1); err != nil || x.Scale() != 1 {
		t.Error("scale 1 of a matrix without one", err)
	}
	// A file that has a scale where the package knows of none is read with it.
	ts[1].Scaled = false
	if x, err := ts.Open(f, "one.weight", 0); err != nil || x.Scale() != 0.375 {
		t.Error(err)
	}
	bits, err := f.Tensor("one.scale").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(bits, math.Float32bits(float32(math.NaN())))
	if _, err := ts.Open(f, "one.weight", 0); err == nil || !strings.Contains(err.Error(), `tensor one.weight: gguf: tensor "one.scale": value 0 is NaN`) {
		t.Error(err)
	}
}
