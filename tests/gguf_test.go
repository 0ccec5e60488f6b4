package tests

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower"
	tmacc "github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

const ggufDir = "../testdata/gguf"

// tensorI2S is a block type with one scale per tensor. bitnet.cpp multiplies it
// with one scale per row of activations; of its errors there are no figures, but a bound.
const tensorI2S = "I2_S"

// actGroups are the numbers of activations that may share a scale in products of
// a format: as in ggml's Q8_0 and, where ggml has it, Q8_K.
func actGroups(w format.Weight) []int {
	switch {
	case w.Per == format.PerTensor:
		return []int{0}
	case w.Unit()%256 == 0:
		return []int{min(32, w.Group), 256}
	}
	return []int{min(32, w.Group)}
}

// TestGGUFBlocks packs the blocks of every type that can be read, on targets that onEach draws
// and in pure Go: unpacked, they are what ggml dequantizes them to; their product
// is that of the definition, and as near to the one of exact activations as
// llama.cpp's own.
func TestGGUFBlocks(t *testing.T) {
	near, d := tolerances(t), drawn.New(t)
	for _, typ := range blocks.Types() {
		if strings.Contains(typ, ":") {
			continue // a layout without a file: blocks.TestLayouts
		}
		onEach(t, d, typ, func(t *testing.T, p *tmacc.Product, act int) {
			file := openGGUF(t, blocksFile(typ))
			x := floats(t, file.Tensor(typ+".x"))
			got := checkTensor(t, p, act, file.Tensor(typ), file.Tensor(typ+".ref"), x)
			want := floats(t, file.Tensor(typ+".y"))
			if typ == tensorI2S {
				checkBound(t, got, want, floats(t, file.Tensor(typ+".ref")), x, file.Tensor(typ).Shape[0])
				return
			}
			checkNear(t, got, want, near[typ])
			checkTensor(t, p, act, file.Tensor(typ+".raw"), file.Tensor(typ+".raw.ref"), x)
		})
	}
}

func blocksFile(typ string) string {
	if typ == tensorI2S {
		return "blocks-i2s.gguf"
	}
	return "blocks.gguf"
}

// tolerances reads llama.cpp's error of a product per column, by block type, from
// the table that comes with the data.
func tolerances(t *testing.T) map[string][]float64 {
	text, err := os.ReadFile(filepath.Join(ggufDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 8 {
			continue
		}
		var columns []float64
		for _, c := range cells[4:7] {
			if v, err := strconv.ParseFloat(strings.TrimSpace(c), 64); err == nil {
				columns = append(columns, v)
			}
		}
		if len(columns) == 3 {
			out[strings.TrimSpace(cells[1])] = columns
		}
	}
	for _, typ := range blocks.Types() {
		if out[typ] == nil && !strings.HasPrefix(typ, tensorI2S) {
			t.Fatalf("no tolerance of %s in the table", typ)
		}
	}
	return out
}

// checkNear compares a product, column by column, with that of exact activations.
func checkNear(t *testing.T, got, want []float32, near []float64) {
	t.Helper()
	m := len(want) / len(near)
	for n, tolerance := range near {
		if rms := relativeRMS(got[n*m:][:m], want[n*m:][:m]); !(rms <= 1.5*tolerance) {
			t.Errorf("column %d: relative RMS %.2e, want at most 1.5 times llama.cpp's %.1e", n, rms, tolerance)
		}
	}
}

// checkBound compares a product with that of exact activations, one scale per row of
// them: rounding moves an activation by half of the row's step, its largest over 127.
func checkBound(t *testing.T, got, want, weights, x []float32, k int) {
	t.Helper()
	m := len(weights) / k
	for i := range want {
		_, scales := quantize(x[i/m*k:][:k], 0)
		bound := 0.0
		for _, w := range weights[i%m*k:][:k] {
			bound += math.Abs(float64(w)) * float64(scales[0]) / 2
		}
		if d := math.Abs(float64(got[i]) - float64(want[i])); !(d <= bound*(1+1e-4)) {
			t.Errorf("row %d, column %d is %v; exact activations give %v, at most %v from it", i%m, i/m, got[i], want[i], bound)
		}
	}
}

func relativeRMS(got, want []float32) float64 {
	var diff, all float64
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		diff += d * d
		all += float64(w) * float64(w)
	}
	return math.Sqrt(diff / all)
}

// TestGGUFModels multiplies the matrices of two models.
func TestGGUFModels(t *testing.T) {
	d := drawn.New(t)
	for _, c := range []struct {
		file, typ string
		matrices  int
	}{{"llama-q4_0.gguf", "Q4_0", 22}, {"bitnet-tq2_0.gguf", "TQ2_0", 21}} {
		onEach(t, d, c.typ, func(t *testing.T, p *tmacc.Product, act int) {
			rng := rand.New(rand.NewSource(1))
			all := matricesOf(openGGUF(t, c.file), c.typ)
			if len(all) != c.matrices {
				t.Errorf("%s: %d matrices of %s, want %d", c.file, len(all), c.typ, c.matrices)
			}
			for _, x := range all {
				for _, n := range []int{1, 5} {
					checkTensor(t, p, act, x, nil, normal(rng, n*x.Shape[0]))
				}
			}
		})
	}
}

func matricesOf(file *gguf.File, typ string) []*gguf.Tensor {
	var all []*gguf.Tensor
	for i := range file.Tensors {
		if x := &file.Tensors[i]; x.TypeName() == typ && len(x.Shape) == 2 {
			all = append(all, x)
		}
	}
	return all
}

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// A code that a type forbids is an error that names row and block, and packs
// nothing.
func TestGGUFForbiddenCode(t *testing.T) {
	const row, block, bytes = 3, 1, 66
	onEach(t, drawn.New(t), "TQ2_0", func(t *testing.T, p *tmacc.Product, _ int) {
		tensor := openGGUF(t, "blocks.gguf").Tensor("TQ2_0")
		data := slices.Clone(content(t, tensor))
		data[(2*row+block)*bytes+7] |= 3 << 4 // element 7 + 2*32
		packed := packedBuffer(t, p, tensor)
		err := p.PackBlocks(packed, "TQ2_0", data, tensor.Shape[1], tensor.Shape[0])
		if err == nil || !strings.Contains(err.Error(), "row 3, block 1: element 71 has code 3, which TQ2_0 forbids") {
			t.Errorf("error %v", err)
		}
		if slices.Max(packed) != 0 {
			t.Error("a refused matrix was packed")
		}
	})
}

// checkTensor packs a tensor, compares it with ref, its dequantization, unless
// that is nil, and its product with the rows of x with the definition.
func checkTensor(t *testing.T, p *tmacc.Product, act int, tensor, ref *gguf.Tensor, x []float32) []float32 {
	t.Helper()
	c, packed := pack(t, p, act, tensor)
	if ref != nil {
		checkDequantized(t, p, packed, floats(t, ref))
	}
	c.N = len(x) / c.K
	for n := range c.N {
		a, s := quantize(x[n*c.K:][:c.K], act)
		c.Act, c.Scale = append(c.Act, a), append(c.Scale, s)
	}
	got := multiply(t, p, packed, x, c)
	if err := check.Compare(got, c.Naive(), c.M); err != nil {
		t.Errorf("%s, %d rows of activations: %v", tensor.Name, c.N, err)
	}
	return got
}

// pack is a tensor as the definition and as p reads it.
func pack(t *testing.T, p *tmacc.Product, act int, tensor *gguf.Tensor) (*check.Case, []byte) {
	t.Helper()
	m, k := tensor.Shape[1], tensor.Shape[0]
	data := content(t, tensor)
	w, src, err := blocks.Read(tensor.TypeName(), data, m, k)
	if err != nil {
		t.Fatal(err)
	}
	packed := packedBuffer(t, p, tensor)
	if err := p.PackBlocks(packed, tensor.TypeName(), data, m, k); err != nil {
		t.Fatal(err)
	}
	return &check.Case{Problem: ir.Problem{Weight: w, Act: format.Act{Group: act}}, M: m, K: k, Source: src}, packed
}

func packedBuffer(t *testing.T, p *tmacc.Product, tensor *gguf.Tensor) []byte {
	t.Helper()
	size, err := p.PackedSize(tensor.Shape[1], tensor.Shape[0])
	if err != nil {
		t.Fatal(err)
	}
	return make([]byte, size)
}

func checkDequantized(t *testing.T, p *tmacc.Product, packed []byte, ref []float32) {
	t.Helper()
	src, err := p.Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	m, k, err := p.Shape(packed)
	if err != nil {
		t.Fatal(err)
	}
	w, row := p.Weight(), make([]float32, k)
	for i := range src.Codes {
		if i%k == 0 {
			if err := p.Row(row, packed, i/k); err != nil {
				t.Fatal(err)
			}
		}
		if v := row[i%k]; math.Float32bits(v) != math.Float32bits(ref[i]) {
			t.Fatalf("%d by %d: Row: row %d column %d is %v, ggml has %v", m, k, i/k, i%k, v, ref[i])
		}
		got := src.Value(w, i/k, i%k, k)
		if math.Float32bits(got) != math.Float32bits(ref[i]) {
			t.Fatalf("%d by %d: row %d column %d is %v (%08x), ggml has %v (%08x)", m, k, i/k, i%k,
				got, math.Float32bits(got), ref[i], math.Float32bits(ref[i]))
		}
	}
}

func multiply(t *testing.T, p *tmacc.Product, packed []byte, x []float32, c *check.Case) []float32 {
	t.Helper()
	size, err := p.ActSize(c.N, c.K)
	if err != nil {
		t.Fatal(err)
	}
	act, out := make([]byte, size), make([]float32, c.N*c.M)
	if err := p.PrepareAct(act, x, c.N, c.K); err != nil {
		t.Fatal(err)
	}
	if err := p.Gemm(out, packed, act, 0, c.M, tmacc.Options{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// quantize is the definition of the integers of a row, and of their scales: one
// per group, or one if group is 0.
func quantize(x []float32, group int) (codes []int8, scales []float32) {
	if group == 0 {
		group = len(x)
	}
	for part := range slices.Chunk(x, group) {
		largest := float32(0x1p-100)
		for _, v := range part {
			largest = max(largest, v, -v)
		}
		for _, v := range part {
			codes = append(codes, int8(math.RoundToEven(float64(float32(v*float32(127/largest))))))
		}
		scales = append(scales, float32(largest*float32(1.0/127)))
	}
	return codes, scales
}

// onEach runs a test with the products of a block type's format: for every way to
// share activation scales, on the targets that this CPU runs with the fewest and the
// most features, for one way on the others, and in pure Go on the layout of each. One in eight of these runs, or all with
// TMACC_LONG=1: choosing schedules takes long.
func onEach(t *testing.T, d *drawn.Draw, typ string, test func(t *testing.T, p *tmacc.Product, act int)) {
	targets := measure.Targets()
	if len(targets) == 0 {
		t.Skip("this machine runs no target's kernels")
	}
	b, err := blocks.Lookup(typ)
	if err != nil {
		t.Fatal(err)
	}
	w, err := format.Lookup(b.Weight)
	if err != nil {
		t.Fatal(err)
	}
	type way struct {
		target lower.Target
		act    int
	}
	var ways []way
	for i, target := range targets {
		groups := actGroups(w)
		if i > 0 && i < len(targets)-1 {
			groups = groups[:1]
		}
		for _, act := range groups {
			ways = append(ways, way{target, act})
		}
	}
	for _, x := range drawn.Some(d, 8, ways) {
		t.Run(fmt.Sprintf("%s-a%d-%s", typ, x.act, strings.TrimPrefix(x.target.Machine().Name, "amd64/")), func(t *testing.T) {
			t.Parallel()
			p, err := productOf(ir.Problem{Weight: w, Act: format.Act{Group: x.act}}, x.target)
			if err != nil {
				t.Fatal(err)
			}
			t.Run("native", func(t *testing.T) { test(t, p, x.act) })
			if p, err = p.On("purego"); err != nil {
				t.Fatal(err)
			}
			t.Run("purego", func(t *testing.T) { test(t, p, x.act) })
		})
	}
}

// products are those that tests share, by format, activation group and target,
// each a func() (*tmacc.Product, error). Their kernels stay mapped.
var products sync.Map

// productOf is a product of the default schedules.
func productOf(p ir.Problem, target lower.Target) (*tmacc.Product, error) {
	key := fmt.Sprint(p.Weight, p.Act, target.Machine().Name)
	make, _ := products.LoadOrStore(key, sync.OnceValues(func() (*tmacc.Product, error) { return liveProduct(p, target) }))
	return make.(func() (*tmacc.Product, error))()
}

func liveProduct(p ir.Problem, target lower.Target) (*tmacc.Product, error) {
	uses, err := chosen.Product(context.Background(), p, target)
	if err != nil {
		return nil, err
	}
	return liveProductOf(p, target, uses)
}

// sampledBy makes products of one schedule, drawn by a seed from the space. It gives the bits of the definition and has registers enough.
func sampledBy(seed int64) func(p ir.Problem, target lower.Target) (*tmacc.Product, error) {
	return func(p ir.Problem, target lower.Target) (*tmacc.Product, error) {
		const most = 100
		sp, err := space.For(p, target)
		if err != nil {
			return nil, err
		}
		rng := rand.New(rand.NewSource(seed))
		for range most {
			x, err := sp.Sample(rng)
			if err != nil {
				continue
			}
			trace := x.Trace()
			if k, err := schedule.Compile(p, trace); err != nil || !k.Exact() {
				continue
			}
			live, err := liveProductOf(p, target, []search.Use{{Trace: trace}})
			if _, refused := search.Refusal(err); !refused {
				return live, err
			}
		}
		return nil, fmt.Errorf("none of %d schedules of %s is an exact kernel on %s", most, p.Name(), target.Machine().Name)
	}
}

// liveProductOf has mapped kernels of given schedules.
func liveProductOf(p ir.Problem, target lower.Target, uses []search.Use) (*tmacc.Product, error) {
	v, err := build.Variant(context.Background(), p, target, uses)
	if err != nil {
		return nil, err
	}
	code, err := live.Assemble(p, v)
	if err != nil {
		return nil, err
	}
	return code.Product()
}

func openGGUF(t *testing.T, name string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(filepath.Join(ggufDir, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t *testing.T, x *gguf.Tensor) []byte {
	t.Helper()
	if x == nil {
		t.Fatal("the file lacks a tensor")
	}
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func floats(t *testing.T, x *gguf.Tensor) []float32 {
	t.Helper()
	b := content(t, x)
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}
