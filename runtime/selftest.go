package runtime

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
)

// SelfTest is for tests of generated code. It compares every target of p that this CPU, or the device of p or else the preferred one,
// runs with the definition of the product, bit for bit, or if its kernels are not exact within their bounds, on matrices of odd shapes: whole and in row ranges,
// stored, accumulated and with a bias, with a scale of the matrix and without one, for random and for extreme activations. It
// also checks that Unpack undoes Pack, and that Row gives the weights.
func SelfTest(p *Product, rng *rand.Rand) error {
	return SelfTestIn(p, rng, func(n int) []byte { return make([]byte, n) })
}

// SelfTestIn is SelfTest with the memory that alloc returns, at the addresses of
// float32, for packed matrices, activations and results: it may lie beside memory that
// cannot be touched. All of it must last until the end.
func SelfTestIn(p *Product, rng *rand.Rand, alloc func(bytes int) []byte) error {
	if err := p.ready(); err != nil {
		return err
	}
	targets, err := p.targets()
	if err != nil {
		return err
	}
	for _, target := range targets {
		q, err := p.On(target)
		if err != nil {
			return err
		}
		for _, s := range q.testShapes() {
			if err := q.testShape(s[0], s[1], s[2], rng, alloc); err != nil {
				return fmt.Errorf("%s: %d rows of %d, %d rows of activations: %w", target, s[0], s[2], s[1], err)
			}
		}
	}
	return nil
}

// testShapes are values of m, n and k around the sizes of tiles, blocks and records.
func (p *Product) testShapes() [][3]int {
	unit := p.spec.Act.Unit(p.spec.Weight)
	record := roundUp(p.layout.RecordK, unit)
	tile, wide := p.Step(), p.ActStep()
	shapes := [][3]int{
		{1, 1, unit},
		{tile, 1, record},
		{tile + 1, wide, record + unit},
		{2*tile - 1, wide + 1, 3*record - unit},
		{2 * tile, 2*wide - 1, 5 * unit},
		{3*tile + 5, 2*wide + 3, roundUp(777, unit)},
		{3, 3, 2 * record},
		{7 * tile, wide, record}, // several tiles a call
	}
	if p.variant != nil {
		for _, k := range p.kernels { // several tiles of each side, and fewer than sides are left over
			if k.sides > 1 {
				shapes = append(shapes, [3]int{(3*k.sides-1)*tile + 1, k.Cols, record})
			}
		}
	}
	known := map[abi.Cut]bool{}
	for n := wide + 1; n < 2*wide; n++ { // blocks of the widest kernel, of each other one, and a last one
		c := p.cut.of(n)
		if c.Some = min(c.Some, 2); c.Some > 0 && !known[c] {
			known[c] = true
			shapes = append(shapes, [3]int{tile + 1, n, record})
		}
	}
	for i := range shapes {
		shapes[i][2] = min(shapes[i][2], p.spec.LimitK/unit*unit)
	}
	return slices.DeleteFunc(shapes, func(s [3]int) bool { return s[2] < 1 })
}

func (p *Product) testShape(m, n, k int, rng *rand.Rand, alloc func(int) []byte) error {
	src := randomWeights(p.spec.Weight, m, k, rng)
	packed, err := p.testPack(src, m, k, alloc)
	if err != nil {
		return err
	}
	size, err := p.ActSize(n, k)
	if err != nil {
		return err
	}
	act := alloc(size)
	copy(act, bytes.Repeat([]byte{0xa5}, size)) // not zero: padding must not count on it
	dst, want := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(alloc(4*n*m)))), n*m), make([]float32, n*m)
	bias := make([]float32, m)
	for i := range bias {
		bias[i] = float32(rng.NormFloat64())
	}
	for _, x := range testActivations(n, k, rng) {
		if err := p.PrepareAct(act, x, n, k); err != nil {
			return err
		}
		if err := define(want, p.spec, src, x, m, n, k); err != nil {
			return err
		}
		slack := p.slack(src, x, m, n, k)
		for _, pass := range []struct {
			step  int
			scale float32 // of the matrix: a power of two, by which products lose no bits
		}{{p.Step(), 1}, {m, -0.5}} {
			if err := p.SetScale(packed, pass.scale); err != nil {
				return err
			}
			for i := range dst {
				dst[i] = float32(math.NaN())
				want[i] = canonical(float32(want[i] * pass.scale))
				if slack != nil {
					slack[i] *= math.Abs(float64(pass.scale))
				}
			}
			for lo := 0; lo < m; lo += pass.step {
				if err := p.Gemm(dst, packed, act, lo, min(lo+pass.step, m), Options{}); err != nil {
					return err
				}
			}
			if err := near(dst, want, slack, m); err != nil {
				return fmt.Errorf("%d rows at once, scale %v: %w", min(pass.step, m), pass.scale, err)
			}
		}
		if p.takesFloats(n, k) {
			if err := p.multiplyFused(nil, dst, packed, x, &Options{}); err != nil {
				return err
			}
			if err := near(dst, want, slack, m); err != nil {
				return fmt.Errorf("of floats: %w", err)
			}
		}
		if err := p.Gemm(dst, packed, act, 0, m, Options{Accumulate: true, Bias: bias}); err != nil {
			return err
		}
		for i, v := range want {
			want[i] = canonical(v + float32(v+bias[i%m]))
			if slack != nil {
				slack[i] = 2*slack[i] + 0x1p-22*(3*math.Abs(float64(v))+math.Abs(float64(bias[i%m])))
			}
		}
		if err := near(dst, want, slack, m); err != nil {
			return fmt.Errorf("accumulated, with a bias: %w", err)
		}
	}
	return nil
}

func (p *Product) testPack(src format.Source, m, k int, alloc func(int) []byte) ([]byte, error) {
	size, err := p.PackedSize(m, k)
	if err != nil {
		return nil, err
	}
	packed := alloc(size)
	if err := p.Pack(packed, src, m, k); err != nil {
		return nil, err
	}
	back, err := p.Unpack(packed)
	if err != nil {
		return nil, err
	}
	if !back.Equal(src) {
		return nil, fmt.Errorf("Unpack does not give back what Pack was given")
	}
	if err := p.testRows(packed, src, m, k); err != nil {
		return nil, err
	}
	return packed, p.Verify(packed)
}

// testRows compares the weights that Row gives with their definition.
func (p *Product) testRows(packed []byte, src format.Source, m, k int) error {
	row := make([]float32, k)
	for r := range m {
		if err := p.Row(row, packed, r); err != nil {
			return err
		}
		for i, v := range row {
			if want := src.Value(p.spec.Weight, r, i, k); math.Float32bits(v) != math.Float32bits(want) {
				return fmt.Errorf("Row: weight %d of row %d is %v, not %v", i, r, v, want)
			}
		}
	}
	return nil
}

// randomWeights is a random matrix; its first row has the largest levels, its
// last the smallest.
func randomWeights(w format.Weight, m, k int, rng *rand.Rand) format.Source {
	src := w.NewSource(make([]byte, m*k), m, k, func(x format.Shared, _ int) float32 {
		if x.Limit > 0 {
			return float32(rng.IntN(x.Limit))
		}
		if x.Elem.Bits() == 8 {
			return x.Elem.Round(float32(rng.IntN(512) - 256))
		}
		return x.Elem.Round(float32(rng.NormFloat64()))
	})
	for i := range src.Codes {
		src.Codes[i] = byte(rng.IntN(w.Codes()))
	}
	most, least := slices.Index(w.Levels, w.MaxLevel()), slices.Index(w.Levels, w.MinLevel())
	for i := range k {
		setLevel(w, src, 0, i, k, most)
		if m > 1 {
			setLevel(w, src, m-1, i, k, least)
		}
	}
	return src
}

// setLevel gives weight (row, col) of k columns the level of that number of all books.
func setLevel(w format.Weight, src format.Source, row, col, k, level int) {
	src.Codes[row*k+col] = byte(level % w.Codes())
	if w.Books > 0 {
		src.Books[(row*k+col)/w.BookGroup] = byte(level / w.Codes())
	}
}

// testActivations are matrices of activations: random ones with an outlier, all
// of the largest code, ones with zeros, a NaN and infinities, and random ones with a few large neighbours.
func testActivations(n, k int, rng *rand.Rand) [][]float32 {
	xs := make([][]float32, 4)
	for i := range xs {
		xs[i] = make([]float32, n*k)
		for j := range xs[i] {
			xs[i][j] = float32(rng.NormFloat64())
			if i == 1 {
				xs[i][j] = float32(1 - 2*(j/k%2)) // a row of 1, a row of -1
			}
		}
	}
	xs[0][rng.IntN(n*k)] = 1e30
	for i, first := 0, rng.IntN(n*k); i < 6 && first+i < n*k; i++ {
		xs[3][first+i] = 10
	}
	bad := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, math.SmallestNonzeroFloat32, 0}
	for row := range n {
		at := xs[2][row*k:][:k]
		if row%2 == 1 {
			clear(at)
		}
		at[rng.IntN(k)] = bad[row%len(bad)]
	}
	return xs
}

func sameBits(got, want []float32, m int) error {
	for i := range want {
		if g, w := math.Float32bits(got[i]), math.Float32bits(want[i]); g != w {
			return fmt.Errorf("row %d, activations %d: %v (%08x), not %v (%08x)", i%m, i/m, got[i], g, want[i], w)
		}
	}
	return nil
}

// define is the definition of the product, from weights and activations as the
// caller has them. Of f32 activations, it must be near the sum in real numbers.
func define(out []float32, s Spec, src format.Source, x []float32, m, n, k int) error {
	if s.Act.Floats() {
		for i := range out {
			d := defineFloats(s, src, x[i/m*k:][:k], i%m, k)
			if err := s.near(d, k); err != nil {
				return fmt.Errorf("row %d, activations %d: %w", i%m, i/m, err)
			}
			out[i] = d.v
		}
		return nil
	}
	group := s.groupK()
	if group == 0 {
		group = k
	}
	block := group * s.block()
	var qs [][]int64
	var scales [][]float32
	ones := slices.Repeat([]float32{1}, k)
	for j := range n {
		q, scale := defineQuantize(x[j*k:][:k], s.Act.Group)
		qs, scales = append(qs, q), append(scales, scale)
	}
	levels, scalings := make([]int64, k), make([]format.Scaling, k/group)
	for row := range m {
		for g := range scalings {
			scalings[g] = src.Scaling(s.Weight, row, g*group, k)
		}
		for e := range levels {
			levels[e] = int64(src.Level(s.Weight, row, e, k))
		}
		for j := range n {
			acc, each, last := float32(0), scales[j], float32(1) // scales of the activations of groups, of the row
			if s.Act.Group == 0 {
				each, last = ones, scales[j][0]
			}
			for first := 0; first < k; first += block {
				sum, all := int64(0), int64(0)
				scale, least, sub, subMin := scalings[first/group].Scale, scalings[first/group].Min, int64(1), int64(1)
				for e := first; e < first+block; e++ {
					w := &scalings[e/group]
					if block > group {
						scale, least, sub, subMin = w.Super, w.SuperMin, int64(w.Sub), int64(w.SubMin)
					}
					sum += sub * (levels[e] - int64(w.Zero)) * qs[j][e]
					all += subMin * qs[j][e]
				}
				term := float32(float32(sum) * float32(scale*each[first]))
				if s.Weight.Min {
					term = float32(term - float32(least*float32(float32(all)*each[first])))
				}
				acc = float32(acc + term)
			}
			out[j*m+row] = canonical(acc * last)
		}
	}
	return nil
}

// defineQuantize is the integer and the scale of every activation of a row.
func defineQuantize(x []float32, group int) (q []int64, scale []float32) {
	if group == 0 {
		group = len(x)
	}
	q, scale = make([]int64, len(x)), make([]float32, len(x))
	for g := 0; g < len(x); g += group {
		largest, finite := 0x1p-100, true
		for _, v := range x[g:][:group] {
			largest = max(largest, math.Abs(float64(v)))
			finite = finite && !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0)
		}
		for i := g; i < g+group; i++ {
			scale[i] = float32(math.NaN())
			if finite {
				scale[i] = float32(float32(largest) * float32(1.0/127))
				q[i] = int64(math.RoundToEven(float64(float32(x[i] * float32(127/float32(largest))))))
			}
		}
	}
	return q, scale
}
