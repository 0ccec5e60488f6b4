package runtime

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/tests/drawn"
)

func newRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// TestDefinition runs the self-test of products whose kernels are Go functions
// of the same parameters as the assembly: of one product in three, drawn by TMACC_SEED, or of all with TMACC_LONG=1.
func TestDefinition(t *testing.T) {
	type product struct {
		name               string
		act, rows, recordK int
	}
	all := []product{
		{"w4", 0, 16, 64}, {"ternary-tensor", 0, 16, 64}, {"w1", 0, 8, 8}, {"w8", 0, 4, 8}, {"iq4nl", 0, 16, 32},
		{"w4-g32", 0, 16, 32}, {"w4-g32", 32, 16, 64}, {"w2-g64-z", 0, 8, 128}, {"w3-g48-f32-z", 16, 8, 48},
		{"w4-g32-m", 16, 8, 64}, {"w4-g16-m", 32, 8, 64}, {"w4-g32-m", 0, 8, 64}, {"w4-g32-s128-m", 0, 8, 128}, {"w2-g16-s64-i8", 0, 8, 64}, {"w3-g32-s64-i8-z", 32, 16, 128}, {"w4-g32-bf16-m", 0, 8, 32},
		{"w4-g128", 32, 16, 128}, {"w2", 0, 32, 16}, {"w3-row-f16", 0, 6, 24},
	}
	some := drawn.Some(drawn.New(t), 3, all)
	if raceEnabled { // the others are slow, and of one thread
		some = slices.DeleteFunc(all, func(c product) bool { return c.name != "w3-g48-f32-z" })
	}
	for _, c := range some {
		s := fakeSpec(t, c.name, c.act, c.rows, c.recordK, []int{1, 2, 4}, []int{1, 8}, []int{3}, []int{1})
		if err := SelfTest(New(*s), newRand()); err != nil {
			t.Errorf("%s, activation group %d: %v", c.name, c.act, err)
		}
	}
}

// TestFloats: products of f32 activations in pure Go are what they are defined to be, and
// near enough to real numbers.
func TestFloats(t *testing.T) {
	for _, c := range []struct {
		name     string
		by, rows int
	}{{"w1", 4, 16}, {"ternary-tensor", 3, 4}, {"w2-g32", 2, 8}, {"w4-g32-s64", 1, 8}, {"w8", 1, 4}, {"w1", 8, 1}} {
		s := fakeSpec(t, c.name, 0, c.rows, 64)
		s.Act.Float = c.by
		p := New(*s)
		if err := SelfTest(p, newRand()); err != nil {
			t.Errorf("%s by %d: %v", c.name, c.by, err)
		}
		if want := c.name + " by f32 activations, exact:false, rounded in order: up to K "; !strings.Contains(p.Info(), want) {
			t.Errorf("%s\ndoes not say %s", p.Info(), want)
		}
	}
}

// TestFloatsFar: a product that is farther from real numbers than rounding takes it is
// found.
func TestFloatsFar(t *testing.T) {
	s := Spec{Weight: lookup(t, "w1"), Act: format.Act{Float: 4}, LimitK: 64}
	relative, _ := s.Act.FloatError(s.Weight, 64)
	if err := s.near(defined{float32(1 + 100*relative/2), 1, 100, 100}, 64); err != nil {
		t.Error(err)
	}
	if err := s.near(defined{float32(1 + 100*relative*2), 1, 100, 100}, 64); err == nil {
		t.Error("twice the bound passes")
	}
}

// TestSelfTestFinds: the self-test is not blind.
func TestSelfTestFinds(t *testing.T) {
	s := fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 2})
	for i := range s.Variants[0].Kernels {
		k := &s.Variants[0].Kernels[i]
		right := k.Fn
		k.Fn = func(a *abi.GemmArgs) {
			right(a)
			*at[float32](a.Out, (k.Cols-1)*int(a.OutStep)+4*(k.Rows-1)) += 1
		}
		if err := SelfTest(New(*s), newRand()); err == nil {
			t.Errorf("%s with %d columns: a wrong element passes", k.Name, k.Cols)
		}
		k.Fn = right
	}
}

// TestByHand multiplies numbers that fit the head: levels -2 to 1 with scale 0.5,
// activations 127*a whose scale is 1 within rounding.
func TestByHand(t *testing.T) {
	p := New(*fakeSpec(t, "w2", 0, 4, 8))
	src := format.Source{Codes: []byte{0, 1, 2, 3, 3, 3, 1, 2}, Scales: []float32{0.5, 2}}
	packed := mustPack(t, p, src, 2, 4)
	x := []float32{127, -1, 2.5, 3.5, 0, 0, 0, 0}
	act := mustPrepare(t, p, x, 2, 4)
	dst := make([]float32, 4)
	if err := p.Gemm(dst, packed, act, 0, 2, Options{}); err != nil {
		t.Fatal(err)
	}
	scale := float32(127) * float32(1.0/127) // 1, as float32 has it
	// Codes 127, -1, 2 and 4 (ties to even): -254 + 1 + 0 + 4 and 127 - 1 - 2 + 0.
	want := []float32{-249 * (0.5 * scale), 124 * (2 * scale), 0, 0}
	for i := range want {
		if dst[i] != want[i] {
			t.Errorf("element %d: %v, not %v", i, dst[i], want[i])
		}
	}
}

func mustPack(t testing.TB, p *Product, src format.Source, m, k int) []byte {
	t.Helper()
	packed, err := p.testPack(src, m, k, func(n int) []byte { return make([]byte, n) })
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func mustPrepare(t testing.TB, p *Product, x []float32, n, k int) []byte {
	t.Helper()
	size, err := p.ActSize(n, k)
	if err != nil {
		t.Fatal(err)
	}
	act := make([]byte, size)
	if err := p.PrepareAct(act, x, n, k); err != nil {
		t.Fatal(err)
	}
	return act
}

func TestQuantize(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x     []float32
		codes []int8
		scale uint32
	}{
		{[]float32{0, 0}, []int8{0, 0}, math.Float32bits(0x1p-100 * float32(1.0/127))},
		{[]float32{math.SmallestNonzeroFloat32, 0x1p-107}, []int8{0, 1}, math.Float32bits(0x1p-100 * float32(1.0/127))},
		{[]float32{127, -127, 0.5, 1.5, 2.5, -0.5, -1.5}, []int8{127, -127, 0, 2, 2, 0, -2}, math.Float32bits(127 * float32(1.0/127))},
		{[]float32{math.MaxFloat32, -math.MaxFloat32}, []int8{127, -127}, math.Float32bits(math.MaxFloat32 * float32(1.0/127))},
		{[]float32{1, inf}, []int8{0, 0}, nan},
		{[]float32{1, -inf}, []int8{0, 0}, nan},
		{[]float32{1, -inf - -inf}, []int8{0, 0}, nan},
	} {
		codes, sums, scales := make([]byte, len(c.x)), make([]int32, 1), make([]uint32, 1)
		quantize(codes, sums, scales, c.x, 0, 0)
		sum := int32(0)
		for i, want := range c.codes {
			if sum += int32(want); int8(codes[i]) != want {
				t.Errorf("%v: code %d is %d, not %d", c.x, i, int8(codes[i]), want)
			}
		}
		if scales[0] != c.scale || sums[0] != sum {
			t.Errorf("%v: scale %08x, sum %d; not %08x, %d", c.x, scales[0], sums[0], c.scale, sum)
		}
	}
}

// TestNoAllocation: no call of a method that says so allocates.
func TestNoAllocation(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented code allocates")
	}
	for _, cuts := range [][]int{nil, {1, 4}} {
		s := fakeSpec(t, "w4-g32", 0, 16, 32)
		if cuts != nil {
			s = fakeSpec(t, "w4-g32", 0, 16, 32, cuts)
		}
		p := New(*s)
		const m, n, k = 37, 7, 320
		packed := mustPack(t, p, randomWeights(s.Weight, m, k, newRand()), m, k)
		x := testActivations(n, k, newRand())[0]
		act, dst, bias := mustPrepare(t, p, x, n, k), make([]float32, n*m), make([]float32, m)
		run := func() {
			if err := p.PrepareAct(act, x, n, k); err != nil {
				t.Fatal(err)
			}
			if err := p.Gemm(dst, packed, act, 0, m, Options{Accumulate: true, Bias: bias}); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if got := testing.AllocsPerRun(100, run); got != 0 {
			t.Errorf("%s: %v allocations per call", p.Target(), got)
		}
	}
}

// TestConcurrent prepares and multiplies by row ranges in many goroutines.
func TestConcurrent(t *testing.T) {
	for _, x := range []struct {
		target string
		widths []int
	}{{"fake/a", []int{1, 4}}, {"fake/a", []int{1, 2, 8}}, {"fake/a", []int{2, 8}}, {"fake/a", []int{1, 4, 18}}, {"fake/a", []int{1, 8, 64}}, {cpu.PureGo, []int{1, 4}}} {
		p, err := New(*fakeSpec(t, "w4-g32", 0, 16, 32, x.widths)).On(x.target)
		if err != nil {
			t.Fatal(err)
		}
		const m, n, k = 16*8 + 5, 19, 96
		src := randomWeights(p.Weight(), m, k, newRand())
		packed, in := mustPack(t, p, src, m, k), testActivations(n, k, newRand())[2]
		act := make([]byte, len(mustPrepare(t, p, in, n, k)))
		share := func(total, step int, f func(lo, hi int) error) {
			var wg sync.WaitGroup
			for lo := 0; lo < total; lo += step {
				wg.Go(func() {
					if err := f(lo, min(lo+step, total)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		share(n, p.ActStep(), func(lo, hi int) error { return p.PrepareActRows(act, in, n, k, lo, hi) })
		dst, want := make([]float32, n*m), make([]float32, n*m)
		share(m, p.Step(), func(lo, hi int) error { return p.Gemm(dst, packed, act, lo, hi, Options{}) })
		define(want, p.spec, src, in, m, n, k)
		if err := sameBits(dst, want, m); err != nil {
			t.Errorf("%v: %v", x, err)
		}
	}
}

// TestPanels multiplies more activations than one part holds by more rows than one panel.
func TestPanels(t *testing.T) {
	p := New(*fakeSpec(t, "w8", 0, 4, 8, []int{1, 8}))
	const m, n, k = 29, 73, 20001
	if m*k < panelBytes || n*k < partBytes {
		t.Fatalf("%d rows and %d columns of %d are one panel or one part", m, n, k)
	}
	src := randomWeights(p.Weight(), m, k, newRand())
	x := testActivations(n, k, newRand())[0]
	dst, want := make([]float32, n*m), make([]float32, n*m)
	if err := p.Gemm(dst, mustPack(t, p, src, m, k), mustPrepare(t, p, x, n, k), 0, m, Options{}); err != nil {
		t.Fatal(err)
	}
	define(want, p.spec, src, x, m, n, k)
	if err := sameBits(dst, want, m); err != nil {
		t.Error(err)
	}
}

// TestOptions: each step that Options add to a product, on kernels
// and in pure Go.
func TestOptions(t *testing.T) {
	const m, n, k = 21, 5, 64
	scale, bias := float32(1.0/3), testActivations(1, m, newRand())[0]
	for _, target := range []string{"fake/a", cpu.PureGo} {
		p, err := New(*fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 4})).On(target)
		if err != nil {
			t.Fatal(err)
		}
		src, x := randomWeights(p.Weight(), m, k, newRand()), testActivations(n, k, newRand())[0]
		want, dst := make([]float32, n*m), testActivations(n, m, newRand())[0]
		define(want, p.spec, src, x, m, n, k)
		for i := range want {
			v := float32(want[i] * scale)
			v = float32(v + bias[i%m])
			want[i] = canonical(float32(v + dst[i]))
		}
		opt := Options{Scale: scale, Bias: bias, Accumulate: true}
		if err := p.Gemm(dst, mustPack(t, p, src, m, k), mustPrepare(t, p, x, n, k), 0, m, opt); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(dst, want, m); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestLargest: sums at the limit of K are exact and do not wrap.
func TestLargest(t *testing.T) {
	p := New(*fakeSpec(t, "w8", 0, 4, 8))
	const m, n, k = 1, 1, 1 << 17
	src := format.Source{Codes: make([]byte, k), Scales: []float32{1}} // all -128
	x := make([]float32, k)
	for i := range x {
		x[i] = 127
	}
	var dst, want [1]float32
	if err := p.Gemm(dst[:], mustPack(t, p, src, m, k), mustPrepare(t, p, x, n, k), 0, m, Options{}); err != nil {
		t.Fatal(err)
	}
	define(want[:], p.spec, src, x, m, n, k)
	if dst != want || want[0] != -128*127*k*(127*float32(1.0/127)) {
		t.Errorf("%v, not %v", dst, want)
	}
}

func TestPackBlocks(t *testing.T) {
	// Two blocks of Q4_0: scale 1 and 0.5, codes in the low and high nibbles.
	block := func(scale uint16, b byte) []byte {
		return append([]byte{byte(scale), byte(scale >> 8)}, bytes.Repeat([]byte{b}, 16)...)
	}
	data := append(block(0x3c00, 0x3f), block(0x3800, 0x80)...)
	for name, scales := range map[string][]float32{"q4_0": {1, 0.5}, "w4-g16-f32": {1, 1, 0.5, 0.5}, "w4-g32": {1, 0.5}} {
		p := New(*fakeSpec(t, name, 0, 4, 32))
		size, _ := p.PackedSize(1, 64)
		packed := make([]byte, size)
		if err := p.PackBlocks(packed, "Q4_0", data, 1, 64); err != nil {
			t.Fatal(err)
		}
		src, err := p.Unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range src.Codes {
			if want := []byte{15, 3, 0, 8}[i/16]; c != want {
				t.Fatalf("%s: code %d is %d, not %d", name, i, c, want)
			}
		}
		for i, v := range scales {
			if src.Scales[i] != v {
				t.Errorf("%s: scales %v, not %v", name, src.Scales, scales)
			}
		}
	}
	for name, want := range map[string]string{
		"w4-g64":  "blocks of it hold q4_0, which does not fit w4-g64: compile a product for q4_0",
		"w4":      "does not fit w4",
		"iq4nl":   "does not fit iq4nl",
		"q4_0-z":  "does not fit q4_0-z",
		"ternary": "does not fit ternary",
	} {
		rows := map[string]int{"w4-g64": 64, "q4_0-z": 32}[name]
		p := New(*fakeSpec(t, name, 0, 4, max(rows, 8)))
		if err := p.PackBlocks(nil, "Q4_0", data, 1, 64); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrors(t *testing.T) {
	p := New(*fakeSpec(t, "w2-g32", 0, 4, 32, []int{1, 2}))
	const m, n, k = 6, 3, 96
	src := randomWeights(p.Weight(), m, k, newRand())
	packed := mustPack(t, p, src, m, k)
	x := testActivations(n, k, newRand())[0]
	act, dst := mustPrepare(t, p, x, n, k), make([]float32, n*m)
	other := New(*fakeSpec(t, "iq4nl", 0, 4, 32, []int{1, 2}))
	otherLayout := New(*fakeSpec(t, "w2-g32", 0, 8, 32, []int{1, 2}))
	edit := func(b []byte, at int) []byte { b = bytes.Clone(b); b[at] ^= 1; return b }
	gemm := func(dst []float32, packed, act []byte, lo, hi int, o Options) error {
		return p.Gemm(dst, packed, act, lo, hi, o)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(p.PackedSize(0, k)), "w2-g32: argument m: is 0; it must be at least 1"},
		{second(p.PackedSize(1, 0)), "argument k: is 0; it must be at least 1"},
		{second(p.PackedSize(1, 33)), "argument k: is 33; it must be a multiple of the group of 32"},
		{second(p.PackedSize(1, 1<<17+32)), "argument k: is 131104; the package was compiled for K up to 131072: compile it again with -max-k 131104 (or max-k in tmacc.yaml)"},
		{second(p.ActSize(1, format.MostK+32)), "argument k: is 16777248; no package can be compiled for more than 16777216: multiply parts of K"},
		{second(p.PackedSize(math.MaxInt, k)), "are too large to address"},
		{second(p.ActSize(0, k)), "argument n: is 0"},
		{second(p.ActSize(math.MaxInt/8, k)), "argument n:"},
		{p.Pack(packed[1:], src, m, k), "argument dst: has"},
		{p.Pack(packed, format.Source{}, m, k), "w2-g32: format: argument codes: has 0 elements"},
		{p.PackBlocks(packed, "Q8_K", nil, m, k), "w2-g32: blocks: type Q8_K: is not one"},
		{p.PrepareAct(act[1:], x, n, k), "argument act: has"},
		{p.PrepareAct(act, x[1:], n, k), "argument x: has 287 elements; 3 rows of 96 have 288"},
		{p.PrepareActRows(act, x, n, k, 1, 3), "argument lo: rows 1 to 3 of 3; both must be multiples of ActStep, 2, or the end"},
		{gemm(dst, nil, act, 0, m, Options{}), "argument packed: is empty: pack the matrix"},
		{gemm(dst, act, act, 0, m, Options{}), "argument packed: holds prepared activations, not a packed matrix"},
		{gemm(dst, edit(packed, 24), act, 0, m, Options{}), "argument packed: is a packed matrix whose header is damaged"},
		{gemm(dst, packed[:len(packed)-1], act, 0, m, Options{}), "its header says 6 rows and 96 columns"},
		{gemm(dst, mustPack(t, other, randomWeights(other.Weight(), m, k, newRand()), m, k), act, 0, m, Options{}), "holds weights of another format than w2-g32"},
		{gemm(dst, mustPack(t, otherLayout, src, m, k), act, 0, m, Options{}), "argument packed: was packed in layout"},
		{gemm(dst, packed, nil, 0, m, Options{}), "argument act: has no intact header of an activation buffer; fill it with PrepareAct"},
		{gemm(dst, packed, mustPrepare(t, other, x, n, k), 0, m, Options{}), "argument act: was prepared for other groups"},
		{gemm(dst, packed, act[:len(act)-1], 0, m, Options{}), "argument act: has"},
		{gemm(dst, packed, mustPrepare(t, p, x[:64], 1, 64), 0, m, Options{}), "argument act: has rows of 64; the packed matrix has 96 columns"},
		{gemm(dst[1:], packed, act, 0, m, Options{}), "argument dst: has 17 elements; 3 rows of 6 are needed"},
		{gemm(dst, packed, act, 0, m, Options{Bias: x[:5]}), "argument opt: the bias has 5 elements"},
		{gemm(dst, packed, act, 1, m, Options{}), "argument lo: rows 1 to 6 of 6; both must be multiples of Step, 4, or the end"},
		{gemm(dst, packed, act, -4, m, Options{}), "argument lo"},
		{gemm(dst, packed, act, 0, m+2, Options{}), "argument hi: is 8; there are 6 rows"},
		{gemm(dst, packed, act, 4, 0, Options{}), "argument lo"},
		{p.Verify(edit(packed, len(packed)-1)), "argument packed: is damaged"},
		{second(p.On("avx9")), "target avx9: is not in this binary; it has [fake/a purego]"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) || strings.Contains(c.err.Error(), "\n") {
			t.Errorf("%v; want %s", c.err, c.want)
		}
	}
	if err := gemm(dst, packed, act, 4, 4, Options{}); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestSharedActivations: formats of the same groups share an activation buffer.
func TestSharedActivations(t *testing.T) {
	a := New(*fakeSpec(t, "w2-g32", 0, 4, 32, []int{1, 2}))
	b := New(*fakeSpec(t, "w4-g32-z", 0, 8, 64, []int{1, 2}))
	b.spec.Variants[0].Kernels[1].Chunk = a.spec.Variants[0].Kernels[1].Chunk
	b.spec.Variants[0].Kernels[1].Fn = fakeKernel(&b.spec, b.spec.Variants[0], b.spec.Variants[0].Kernels[1])
	b, err := b.On("fake/a")
	if err != nil {
		t.Fatal(err)
	}
	if other := New(*fakeSpec(t, "w2-g64", 0, 4, 64, []int{1, 2})); !a.SharesAct(b) || a.SharesAct(other) {
		t.Error("SharesAct is wrong")
	}
	filled, longer := fakeSpec(t, "w2-g32", 0, 4, 32, []int{1}), New(*fakeSpec(t, "w2-g48", 0, 4, 48, []int{1}))
	v := &filled.Variants[0]
	v.Fill, v.Kernels[0].StepK, v.Kernels[0].Chunk = 48, 48, longer.variant.Kernels[0].Chunk
	if New(*filled).SharesAct(longer) { // which have the same blocks
		t.Error("groups of 32 filled up to 48 share activations with groups of 48")
	}
	const m, n, k = 5, 3, 160
	src, x := randomWeights(b.Weight(), m, k, newRand()), testActivations(n, k, newRand())[2]
	dst, want := make([]float32, n*m), make([]float32, n*m)
	if err := b.Gemm(dst, mustPack(t, b, src, m, k), mustPrepare(t, a, x, n, k), 0, m, Options{}); err != nil {
		t.Fatal(err)
	}
	define(want, b.spec, src, x, m, n, k)
	if err := sameBits(dst, want, m); err != nil {
		t.Error(err)
	}
}

// What EnvCPU excludes is said to be; what the caller passes over is not.
func TestInfoExcluded(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 4, 8, []int{1}, []int{1})
	for _, c := range []struct{ env, target, want string }{
		{"b", "", "fake/a k, 4 rows by 1 columns: skipped, TMACC_CPU=b excludes it"},
		{"purego", "", "fake/b k, 4 rows by 1 columns: skipped, TMACC_CPU=purego excludes it"},
		{"a,b", "", "fake/b k, 4 rows by 1 columns: skipped, fake/a was chosen"},
		{"a", "fake/b", "fake/a k, 4 rows by 1 columns: skipped, fake/b was chosen"},
	} {
		t.Setenv(EnvCPU, c.env)
		p := New(*s)
		if c.target != "" {
			var err error
			if p, err = p.On(c.target); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(p.Info(), c.want+"\n") {
			t.Errorf("%s: no %q in\n%s", c.env, c.want, p.Info())
		}
	}
}

func TestInfo(t *testing.T) {
	s := fakeSpec(t, "w2", 0, 4, 8, []int{1, 2}, []int{1})
	s.Variants[0].Need = []string{"AVX1024", "AVX2048"}
	p := New(*s)
	want := `w2: w2 runs on fake/b (the first that this CPU runs); packed layout ` + p.layout.Hash() + `, tiles of 4 rows
fake/a k, 4 rows by 1 columns: skipped, this CPU lacks AVX1024 and AVX2048
fake/a k, 2 rows by 2 columns: skipped, this CPU lacks AVX1024 and AVX2048
fake/a prep, activations: skipped, this CPU lacks AVX1024 and AVX2048
fake/b k, 4 rows by 1 columns: runs for every n
purego: not needed
`
	if got := p.Info(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, name := range []string{"fake/a", "a"} {
		if _, err := p.On(name); err == nil || err.Error() != "w2: target fake/a: this CPU lacks AVX1024 and AVX2048; it runs [fake/b purego]" {
			t.Error(err)
		}
	}
	if p, err := p.On("b"); err != nil || p.Target() != "fake/b" {
		t.Error(p, err)
	}
}

// fillTables has the kernels of v look up in tables, of groups that are filled up.
func fillTables(v *abi.Variant) {
	v.Fill, v.Prepare.Tables = 40, abi.Tables{K: 4, Bytes: 16}
	for i := range v.Kernels {
		v.Kernels[i].StepK, v.Kernels[i].Chunk, v.Kernels[i].Tables = 40, 40, true
	}
}

func TestSpecRefusals(t *testing.T) {
	for want, edit := range map[string]func(*Spec){
		"has no layout":             func(s *Spec) { s.Layouts = nil },
		"limit K is 0":              func(s *Spec) { s.LimitK = 0 },
		"activation group 48":       func(s *Spec) { s.Act.Group = 48 },
		"layout 1 and 2 kernels":    func(s *Spec) { s.Variants[0].Layout = 1 },
		"ascending width":           func(s *Spec) { s.Variants[0].Kernels[1].Cols = 1 },
		"3 rows do not divide":      func(s *Spec) { s.Variants[0].Kernels[0].Rows = 3 },
		"steps of 64 do not divide": func(s *Spec) { s.Variants[0].Kernels[0].StepK = 64 },
		"2097152 bytes of memory":   func(s *Spec) { s.Variants[0].Kernels[0].Scratch = 2 << 20 },
		"chunks of 5 do not divide": func(s *Spec) { s.Variants[0].Kernels[0].Chunk = 5 },
		"sums times 0; it must be":  func(s *Spec) { s.Variants[0].Kernels[0].SumBy = 0 },
		"scaled activation sums":    func(s *Spec) { s.Variants[0].Kernels[0].ScaledSums = true },
		"are filled up to 32;":      func(s *Spec) { s.Variants[0].Fill = 32 },
		"are filled up to 65;":      func(s *Spec) { s.Variants[0].Fill = 65 },
		"the record of 40":          func(s *Spec) { s.Variants[0].Fill = 40 },
		"that are filled up":        func(s *Spec) { fillTables(&s.Variants[0]) },
		"pads to [0]":               func(s *Spec) { s.Variants[0].Prepare.Pads = []int{0} },
		"in chunks of -1,":          func(s *Spec) { s.Variants[0].Prepare.Chunk = -1 },
		"of 0 activations in chunk": func(s *Spec) { s.Variants[0].Prepare.Chunk = 32 },
		"it must read tables":       func(s *Spec) { s.Act.Float = 2 },
		"summed by 9: want 1 to 8":  func(s *Spec) { s.Act.Float = 9 },
		"weight w2-g":               func(s *Spec) { s.Weight = lookup(t, "w2-g32-z") },
	} {
		s := fakeSpec(t, "w2-g32", 0, 4, 32, []int{1, 2})
		edit(s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// count appends how many times a call of k goes on to calls.
func count(k *abi.Kernel, calls *[]int64) {
	fn := k.Fn
	k.Fn = func(a *abi.GemmArgs) {
		*calls = append(*calls, a.Tiles)
		fn(a)
	}
}

// A kernel of several tiles side by side reads no tile that is not there, in a part of the rows none that is not in it.
func TestTilesSideBySide(t *testing.T) {
	const rows, n, k = 4, 2, 4096
	for _, side := range []int{2, 3} {
		s := fakeSpec(t, "w8", 0, rows, 32, []int{2})
		v := s.Variants[0]
		fast := &v.Kernels[0]
		fast.Rows = side * rows
		fast.Fn = fakeKernel(s, v, *fast)
		var calls []int64
		count(fast, &calls)
		p := New(*s)
		most := callBytes / 2 / (side * p.layout.TileBytes(k)) // by two columns
		m := side*rows*(2*most+1) + rows + 2                   // the last tile is not whole
		src := randomWeights(p.Weight(), m, k, newRand())
		packed, x := mustPack(t, p, src, m, k), testActivations(n, k, newRand())[0]
		act := mustPrepare(t, p, x, n, k)
		want := make([]float32, n*m)
		define(want, p.spec, src, x, m, n, k)
		end := []int64{int64(most), int64(most), 1, 1, 1} // two tiles are left over, one of them not whole
		for _, c := range []struct {
			lo, hi int
			opt    Options
			calls  []int64
		}{
			{0, m, Options{}, end},
			{rows, (side + 1) * rows, Options{}, []int64{1}},
			{rows, (side + 2) * rows, Options{}, []int64{1, 1}},
			{rows, 3 * side * rows, Options{}, []int64{2, int64(side - 1)}}, // the remaining tiles go on too
			{2 * rows, 3 * rows, Options{}, []int64{1}},
			{rows, 3 * side * rows, Options{Accumulate: true}, slices.Repeat([]int64{1}, 2+side-1)},
		} {
			calls = nil
			dst := make([]float32, n*m)
			if err := p.Gemm(dst, packed[:len(packed):len(packed)], act, c.lo, c.hi, c.opt); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(calls, c.calls) {
				t.Errorf("%d tiles, rows %d to %d: calls that go on %d times, want %d", side, c.lo, c.hi, calls, c.calls)
			}
			for i := range dst {
				if inside := i%m >= c.lo && i%m < c.hi; inside && dst[i] != want[i] || !inside && dst[i] != 0 {
					t.Fatalf("%d tiles, rows %d to %d: element %d is %v, not %v", side, c.lo, c.hi, i, dst[i], want[i])
				}
			}
		}
		one := make([]float32, m) // fewer activations than the kernel has columns
		for range 2 {
			if err := p.Gemm(one, packed, mustPrepare(t, p, x[:k], 1, k), 0, m, Options{}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(one, want[:m]) {
			t.Errorf("%d tiles: one row of activations has another product", side)
		}
	}
}

// A call reads at most 1 MiB, divided by up to four columns, but at least a tile of each side.
func TestTogether(t *testing.T) {
	for _, c := range []struct{ cols, sides, bytes, most int }{
		{1, 1, 16 << 10, 64}, {2, 1, 16 << 10, 32}, {4, 1, 16 << 10, 16}, {8, 1, 16 << 10, 16}, {1, 2, 16 << 10, 32}, {2, 2, 16 << 10, 16}, {4, 2, 16 << 10, 8},
		{1, 1, 16<<10 + 1, 63}, {1, 1, 1 << 20, 1}, {1, 1, 2 << 20, 1}, {8, 2, 2 << 20, 1},
	} {
		k := &placed{Kernel: &abi.Kernel{Cols: c.cols}, sides: c.sides}
		for _, tiles := range []int{1, c.most, c.most + 1, 1000} {
			if n := k.together(tiles, c.bytes); n != min(tiles, c.most) {
				t.Errorf("%+v: %d of %d tiles", c, n, tiles)
			}
		}
	}
}

// A call of a kernel multiplies neighbouring tiles, up to callBytes. Tiles that are
// not whole, or not stored as they are, are multiplied one by one.
func TestTilesTogether(t *testing.T) {
	const rows, n, k = 4, 2, 4096
	s := fakeSpec(t, "w8", 0, rows, 32, []int{2})
	var calls []int64
	for i := range s.Variants[0].Kernels {
		count(&s.Variants[0].Kernels[i], &calls)
	}
	p := New(*s)
	most := callBytes / 2 / p.layout.TileBytes(k) // by two columns
	m := rows*(2*most+3) + 2                      // the last tile is not whole
	src := randomWeights(p.Weight(), m, k, newRand())
	packed, x := mustPack(t, p, src, m, k), testActivations(n, k, newRand())[0]
	act := mustPrepare(t, p, x, n, k)
	want := make([]float32, n*m)
	define(want, p.spec, src, x, m, n, k)
	whole := rows * 2 * most
	for range 2 { // the second time it is known that these are two calls
		calls = nil
		if err := p.Gemm(make([]float32, n*whole), mustPack(t, p, randomWeights(p.Weight(), whole, k, newRand()), whole, k), act, 0, whole, Options{}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(calls, []int64{int64(most), int64(most)}) {
			t.Errorf("calls of %d tiles, want %d and %d", calls, most, most)
		}
	}
	for _, c := range []struct {
		lo, hi int
		opt    Options
		calls  []int64
	}{
		{0, m, Options{}, []int64{int64(most), int64(most), 3, 1}},
		{rows, 3 * rows, Options{}, []int64{2}},
		{2 * rows * most, m, Options{}, []int64{3, 1}},
		{0, 2 * rows, Options{Accumulate: true}, []int64{1, 1}},
	} {
		calls = nil
		dst := make([]float32, n*m)
		if err := p.Gemm(dst, packed, act, c.lo, c.hi, c.opt); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(calls, c.calls) {
			t.Errorf("rows %d to %d: calls of %d tiles, want %d", c.lo, c.hi, calls, c.calls)
		}
		for i := range dst {
			if inside := i%m >= c.lo && i%m < c.hi; inside && dst[i] != want[i] || !inside && dst[i] != 0 {
				t.Fatalf("rows %d to %d: element %d is %v, not %v", c.lo, c.hi, i, dst[i], want[i])
			}
		}
	}
}

// What a product came to is no reason to take another one for it: products of a few matrices, activations, options and
// rows in any order, by one scratch, with calls between them that fail, share their work or only prepare.
func TestOnce(t *testing.T) {
	const calls = 400
	rng := newRand()
	for _, side := range []int{1, 2} {
		for _, name := range []string{"w2", "w4-g32", "w4-g32-m"} {
			widths := []int{1, 2}
			if name == "w4-g32" {
				widths = []int{2} // wider than some products
			}
			s := fakeSpec(t, name, 0, 4, 32, widths)
			for i := range s.Variants[0].Kernels {
				fast := &s.Variants[0].Kernels[i]
				fast.Rows *= side
				fast.Fn = fakeKernel(s, s.Variants[0], *fast)
			}
			p := New(*s)
			work := new(scratch)
			p.pool = sync.Pool{New: func() any { return work }}
			type matrix struct {
				src    format.Source
				packed []byte
				m, k   int
			}
			var matrices []matrix
			for _, shape := range [][2]int{{16, 64}, {16, 64}, {16, 32}, {8, 64}, {14, 64}} {
				m, k := shape[0], shape[1]
				src := randomWeights(p.Weight(), m, k, rng)
				matrices = append(matrices, matrix{src, mustPack(t, p, src, m, k), m, k})
			}
			short := 0
			for range calls {
				w, n := matrices[rng.IntN(len(matrices))], 1+rng.IntN(3)/2
				x := testActivations(n, w.k, rng)[0]
				act := mustPrepare(t, p, x, n, w.k)
				if other := matrices[rng.IntN(len(matrices))]; rng.IntN(4) == 0 {
					mustPrepare(t, p, testActivations(n, other.k, rng)[0], n, other.k)
					if p.Gemm(make([]float32, 1), other.packed, act, 0, other.m, Options{}) == nil {
						t.Fatal("a short buffer is accepted")
					}
					for range 2 {
						if p.Gemm(make([]float32, n*other.m), other.packed, act, 0, other.m, Options{}) == nil && other.k != w.k {
							t.Fatalf("%s: %d columns times activations of %d", name, other.k, w.k)
						}
					}
				}
				var opt Options
				switch rng.IntN(12) {
				case 0:
					opt.Accumulate = true
				case 1:
					opt.Scale = 2
				case 2:
					opt.Bias = make([]float32, w.m)
					for i := range opt.Bias {
						opt.Bias[i] = float32(i)
					}
				case 3:
					opt.Threads = 2
				}
				lo, hi, dst, want := 8*(rng.IntN(8)/7), w.m, make([]float32, n*w.m), make([]float32, n*w.m)
				define(want, p.spec, w.src, x, w.m, n, w.k)
				if w.m == 16 && lo == 0 && rng.IntN(8) == 0 {
					hi = 8
				}
				for i := range dst {
					dst[i] = float32(i + 1)
					switch r := i % w.m; {
					case r < lo || r >= hi:
						want[i] = dst[i]
						continue
					case opt.Scale != 0:
						want[i] *= opt.Scale
					case opt.Bias != nil:
						want[i] += opt.Bias[r]
					case opt.Accumulate:
						want[i] += dst[i]
					}
				}
				if o := work.once; lo == 0 && hi == w.m && o.m == w.m && o.k == w.k && o.n == n && opt.Scale == 0 && !opt.Accumulate && opt.Bias == nil && opt.Threads == 0 {
					short++
				}
				if err := p.Gemm(dst, w.packed, act, lo, hi, opt); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(dst, want) {
					t.Fatalf("%s, %d tiles: rows %d to %d of %d times %d, %+v: %v, not %v", name, side, lo, hi, w.k, n, opt, dst, want)
				}
			}
			if short == 0 {
				t.Errorf("%s, %d tiles: none of %d products was like the last one", name, side, calls)
			}
		}
	}
}
