package runtime

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// scaledTest is matrices of one shape with scales, 1 for none, and what products with them are by definition.
type scaledTest struct {
	p       *Product
	m, n, k int
	scales  []float32
	packed  [][]byte
	x       []float32
	act     []byte
	want    [][]float32
}

func newScaledTest(t *testing.T, p *Product, m, n, k int) *scaledTest {
	s := &scaledTest{p: p, m: m, n: n, k: k, scales: []float32{1, 1.0 / 3, -0x1p-20, 3e38, 1, 7}}
	s.x = testActivations(n, k, newRand())[3]
	if n > 1 {
		s.x[k] = float32(math.NaN()) // of the second row
	}
	s.act = mustPrepare(t, p, s.x, n, k)
	for i, scale := range s.scales {
		src := randomWeights(p.Weight(), m, k, newRand())
		src.Codes[i] ^= 1
		packed, want := mustPack(t, p, src, m, k), make([]float32, n*m)
		if err := p.SetScale(packed, scale); err != nil {
			t.Fatal(err)
		}
		if err := define(want, p.spec, src, s.x, m, n, k); err != nil {
			t.Fatal(err)
		}
		for i, v := range want {
			want[i] = canonical(float32(v * scale))
		}
		s.packed, s.want = append(s.packed, packed), append(s.want, want)
	}
	return s
}

// Products are multiplied by the scale of their matrix, and rounded once: on kernels and in pure Go, of one thread and
// several, of shapes that are one call of a kernel and others, one after the other with different scales.
func TestScaledProducts(t *testing.T) {
	for _, target := range []string{"fake/a", "fake/b", cpu.PureGo} {
		p, err := New(*fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 4}, []int{1, 2})).On(target)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range [][3]int{{64, 1, 64}, {64, 4, 64}, {37, 7, 320}} {
			s := newScaledTest(t, p, c[0], c[1], c[2])
			for _, threads := range []int{1, 3} {
				for range 2 { // the second time shapes are known
					for i := range s.packed {
						dst := make([]float32, s.n*s.m)
						if err := p.Gemm(dst, s.packed[i], s.act, 0, s.m, Options{Threads: threads}); err != nil {
							t.Fatal(err)
						}
						if err := sameBits(dst, s.want[i], s.m); err != nil {
							t.Errorf("%s, %v, scale %v, %d threads: %v", target, c, s.scales[i], threads, err)
						}
					}
				}
				s.checkAll(t, threads)
			}
			s.checkOptions(t)
		}
	}
}

// checkAll multiplies all matrices by one call of GemmAll.
func (s *scaledTest) checkAll(t *testing.T, threads int) {
	t.Helper()
	var calls []Call
	for _, packed := range s.packed {
		calls = append(calls, Call{Product: s.p, Dst: make([]float32, s.n*s.m), Packed: packed, Act: s.act})
	}
	if err := GemmAll(threads, calls...); err != nil {
		t.Fatal(err)
	}
	for i, c := range calls {
		if err := sameBits(c.Dst, s.want[i], s.m); err != nil {
			t.Errorf("GemmAll, %d threads, scale %v: %v", threads, s.scales[i], err)
		}
	}
}

// checkOptions: Options count after the scale, each step rounded.
func (s *scaledTest) checkOptions(t *testing.T) {
	t.Helper()
	bias := testActivations(1, s.m, newRand())[0]
	for i, packed := range s.packed {
		dst := testActivations(s.n, s.m, newRand())[0]
		want := slices.Clone(dst)
		for j, v := range s.want[i] {
			v = float32(v * 0.7)
			v = float32(v + bias[j%s.m])
			want[j] = canonical(float32(v + want[j]))
		}
		if err := s.p.Gemm(dst, packed, s.act, 0, s.m, Options{Scale: 0.7, Bias: bias, Accumulate: true}); err != nil {
			t.Fatal(err)
		}
		if err := sameBits(dst, want, s.m); err != nil {
			t.Errorf("with options, scale %v: %v", s.scales[i], err)
		}
	}
}

// Kernels with tiles side by side and some tiles left over, and products of more activations than a block holds.
func TestScaledSideBySide(t *testing.T) {
	const rows = 4
	s := fakeSpec(t, "w8", 0, rows, 8, []int{1, 8})
	v := s.Variants[0]
	for i := range v.Kernels {
		v.Kernels[i].Rows = (3 - i) * rows
		v.Kernels[i].Fn = fakeKernel(s, v, v.Kernels[i])
	}
	p := New(*s)
	for _, n := range []int{1, 8, 11} {
		x := newScaledTest(t, p, 11*rows+1, n, 40)
		x.checkAll(t, 1)
		x.checkAll(t, 2)
	}
}

// A matrix keeps its scale in a file. Files of versions that knew no scale have none, and those versions refuse a file with one.
func TestScaleSaved(t *testing.T) {
	p := New(*fakeSpec(t, "w4-g32", 0, 16, 32, []int{1, 4}))
	const m, k = 37, 64
	x, err := p.NewMatrix(randomWeights(p.Weight(), m, k, newRand()), m, k)
	if err != nil {
		t.Fatal(err)
	}
	plain := bytes.Clone(x.Packed())
	if x.Scale() != 1 || x.SetScale(0.375) != nil || x.Scale() != 0.375 || p.Verify(x.Packed()) != nil {
		t.Fatal("scale", x.Scale(), p.Verify(x.Packed()))
	}
	path := filepath.Join(t.TempDir(), "w")
	if err := x.Save(path); err != nil {
		t.Fatal(err)
	}
	y, err := p.LoadMatrix(path)
	if err != nil || y.Scale() != 0.375 || !bytes.Equal(y.Packed(), x.Packed()) {
		t.Fatalf("loaded with scale %v, %v", y.Scale(), err)
	}
	if _, ok := getHeader(x.Packed(), "tmaccW\x00\x01"); ok {
		t.Error("versions of tmacc that know no scale take a matrix with one")
	}
	if err := y.SetScale(2); mapsFiles && (err == nil || !strings.Contains(err.Error(), "is in memory that cannot be written, as Load maps it: set the scale before Save")) {
		t.Errorf("scale of a mapped file: %v", err)
	}
	if err := x.SetScale(1); err != nil || !bytes.Equal(x.Packed(), plain) {
		t.Error("scale 1 leaves something, or", err)
	}
	if got := [4]byte(plain[scaleAt:]); got != [4]byte{} || string(plain[:8]) != "tmaccW\x00\x01" {
		t.Errorf("a matrix without a scale has another header than it had: %q, %v", plain[:8], got)
	}
	for _, bad := range []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.NaN())} {
		if err := x.SetScale(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("argument scale: is %v; the scale of a matrix is finite and not 0", bad)) {
			t.Errorf("scale %v: %v", bad, err)
		}
	}
	for _, magic := range []string{packedMagic, scaledMagic} { // a scale without its magic, the magic without a scale
		odd := bytes.Clone(plain)
		copy(odd, magic)
		if magic == packedMagic {
			binary.LittleEndian.PutUint32(odd[scaleAt:], math.Float32bits(2))
		}
		binary.LittleEndian.PutUint32(odd[56:], crc32.Checksum(odd[:56], castagnoli))
		if _, _, err := p.Shape(odd); err == nil || !strings.Contains(err.Error(), "header is damaged") {
			t.Errorf("magic %q: %v", magic, err)
		}
	}
	if err := y.Close(); err != nil {
		t.Error(err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// mapsFiles says that Load maps files here.
var mapsFiles = func() bool {
	_, err := os.Stat("/proc/self/maps")
	return err == nil
}()

// Rows are the weights as their format defines them, by their scale, of formats of every kind.
func TestRows(t *testing.T) {
	const m = 21
	for _, name := range format.Names() {
		w := lookup(t, name)
		for _, unit := range []int{1, 3} {
			k := unit * max(w.Unit(), 8)
			p := New(Spec{Name: name, Weight: w, LimitK: 1 << 17, Layouts: []*format.Layout{format.PlainLayout(w)}})
			src := randomWeights(w, m, k, newRand())
			packed, row := mustPack(t, p, src, m, k), make([]float32, k)
			if err := p.SetScale(packed, 1.0/3); err != nil {
				t.Fatal(err)
			}
			for r := range m {
				if err := p.Row(row, packed, r); err != nil {
					t.Fatal(err)
				}
				for i, v := range row {
					if want := float32(src.Value(w, r, i, k) * float32(1.0/3)); v != want {
						t.Fatalf("%s, row %d, column %d: %v, not %v", name, r, i, v, want)
					}
				}
			}
			for want, err := range map[string]error{
				"argument r: is 21; the matrix has rows 0 to 20": p.Row(row, packed, m),
				"argument r: is -1;":                             p.Row(row, packed, -1),
				fmt.Sprintf("argument dst: has %d elements; a row of the matrix has %d", k-1, k): p.Row(row[1:], packed, 0),
				"argument packed: is empty": p.Row(row, nil, 0),
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %s", err, want)
				}
			}
		}
	}
}

// A row by hand: levels -8 to 7 minus a zero point, times a scale.
func TestRowByHand(t *testing.T) {
	w := lookup(t, "w4-g32-z")
	p := New(Spec{Name: "z", Weight: w, LimitK: 64, Layouts: []*format.Layout{format.PlainLayout(w)}})
	src := format.Source{Codes: make([]byte, 32), Scales: []float32{0.5}, Zeros: []int8{3}}
	src.Codes[1], src.Codes[31] = 15, 9
	x, err := p.NewMatrix(src, 1, 32)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	row := make([]float32, 32)
	if err := x.SetScale(4); err != nil {
		t.Fatal(err)
	}
	if err := x.Row(row, 0); err != nil || row[0] != -22 || row[1] != 8 || row[31] != -4 {
		t.Errorf("%v, %v", row, err)
	}
	if p.Name() != "z" || p.Act() != (format.Act{}) {
		t.Error(p.Name(), p.Act())
	}
}
