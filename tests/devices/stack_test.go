package devices

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/search/kernels"
)

// TestStacks: one step multiplies blocks of rows of activations by matrices of a stack that a list names, some of them twice and some not at all. It has the bits of each matrix's own product, in
// formats with several parts, of an odd number of rows, and by kernels of one column and of several.
func TestStacks(t *testing.T) {
	p, err := kernels.New(context.Background(), kernels.Options{Device: here(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, typeName := range []string{"Q8_0", "Q4_K", "TQ2_0"} {
		t.Run(typeName, func(t *testing.T) { stackOf(t, p, typeName) })
	}
}

func stackOf(t *testing.T, provider *kernels.Provider, typeName string) {
	const matrices, m, k = 5, 37, 512
	list := []int{3, 0, 4, 3, 1, 0, 0}
	weight, act, err := blocks.Product(typeName)
	if err != nil {
		t.Fatal(err)
	}
	p, err := provider.Product(weight, act)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	var stack []*runtime.Matrix
	for range matrices {
		stack = append(stack, randomMatrix(t, rng, p, typeName, m, k))
	}
	apart, why, err := runtime.LoadStack(stack)
	if err != nil || why != nil {
		t.Fatal(why, err)
	}
	widths := 0
	for cols := 1; cols <= p.ActStep(); cols++ {
		if steps, err := p.Steps(cols, k); err != nil {
			t.Fatal(err)
		} else if len(steps.Blocks) == 1 && steps.Blocks[0].Cols == cols {
			multiplyStack(t, rng, stack, apart, cols, list)
			widths++
		}
	}
	if widths < 2 {
		t.Errorf("kernels of %d numbers of columns", widths)
	}
}

// multiplyStack multiplies blocks of cols rows by the matrices of a list.
func multiplyStack(t *testing.T, rng *rand.Rand, stack []*runtime.Matrix, apart, cols int, list []int) {
	p := stack[0].Product()
	m, k := stack[0].Shape()
	steps, err := p.Steps(cols, k)
	if err != nil {
		t.Fatal(err)
	}
	run, column := steps.Blocks[0].Run, (m+steps.Whole-1)/steps.Whole*steps.Whole
	run.Blocks = len(list)
	var places, acts []byte
	var want []float32
	for _, number := range list {
		x := make([]float32, cols*k)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		size, err := p.ActSize(cols, k)
		if err != nil {
			t.Fatal(err)
		}
		row, product := make([]byte, size), make([]float32, cols*m)
		if err := p.PrepareAct(row, x, cols, k); err != nil {
			t.Fatal(err)
		}
		block, _, err := p.DeviceActs(row)
		if err != nil {
			t.Fatal(err)
		}
		if err := stack[number].Gemm(product, row, runtime.Options{}); err != nil {
			t.Fatal(err)
		}
		places = binary.LittleEndian.AppendUint32(places, uint32(number*apart))
		acts, want = append(acts, block...), append(want, product...)
	}
	memory := func(data []byte, bytes int) abi.Place {
		x, err := steps.On.Memory(int64(bytes))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Free)
		if err := x.Write(0, data); err != nil {
			t.Fatal(err)
		}
		return abi.Place{Memory: x, Bytes: int64(bytes)}
	}
	out := memory(nil, 4*column*cols*len(list))
	step := &abi.Multiplying{Matrix: stack[0].Loaded(), Runs: []abi.Run{run}, Act: memory(acts, len(acts)), Out: out, Column: 4 * column, List: memory(places, len(places))}
	recording, err := steps.On.Record([]abi.Step{step})
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Free()
	if err := steps.On.Run(recording); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, out.Bytes)
	if err := out.Memory.Read(0, data); err != nil {
		t.Fatal(err)
	}
	for i := range cols * len(list) {
		have := make([]float32, m)
		for r := range have {
			have[r] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*(i*column+r):]))
		}
		if row := want[i*m:][:m]; !slices.Equal(have, row) {
			t.Fatalf("row %d of blocks of %d by matrix %d is %v..., want %v...", i, cols, list[i/cols], have[:4], row[:4])
		}
	}
	step.Matrix = stack[1].Loaded()
	if _, err := steps.On.Record([]abi.Step{step}); err == nil {
		t.Error("a list counts from the first matrix of a stack, and the second was taken")
	}
}

// randomMatrix is a matrix of random weights, which the device does not have yet.
func randomMatrix(t *testing.T, rng *rand.Rand, p *runtime.Product, typeName string, m, k int) *runtime.Matrix {
	t.Helper()
	data, err := blocks.Random(rng, typeName, m, k)
	if err != nil {
		t.Fatal(err)
	}
	size, err := p.PackedSize(m, k)
	if err != nil {
		t.Fatal(err)
	}
	b, err := runtime.NewBuffer(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if err := p.PackBlocks(b.Bytes(), typeName, data, m, k); err != nil {
		t.Fatal(err)
	}
	x, err := p.MatrixOnHost(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}
