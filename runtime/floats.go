package runtime

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/tmacc/tmacc/ir/format"
)

// Products with f32 activations (format.Act.Float): their buffers hold the activations
// as they are, or what kernels look up; neither sums nor scales.

// prepareFloats puts x, or the tables of it, into row j of a block.
func (p *Product) prepareFloats(w *scratch, b *block, to []byte, j int, x []float32) {
	if p.cut.tables.K == 0 {
		putFloats(to, x)
		clear(to[4*len(x):])
		return
	}
	p.runPrepare(w, x, p.tableOf(w, b, to, j), nil, nil, nil)
}

// putFloats stores x.
func putFloats(to []byte, x []float32) {
	if littleEndian {
		copy(to, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)))
		return
	}
	for i, v := range x {
		binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(v))
	}
}

// dotFloats is dot of f32 activations: the products of by neighbours are added first,
// then what they make to the sum of the group.
func (p *Product) dotFloats(t *task, j, group int) float32 {
	b, _, offset := t.a.at(j)
	x := t.act[offset:][:b.row]
	acc := float32(0)
	for g, w := range t.scaling {
		sum := sumFloats(t.weights[g*group:][:group], x[4*g*group:], p.spec.Act.Float)
		acc = float32(acc + float32(sum*w.Scale))
	}
	return canonical(acc)
}

// sumFloats is the sum of a group.
func sumFloats(w []int8, x []byte, by int) float32 {
	sum := float32(0)
	for len(w) > 0 {
		n := min(by, len(w))
		few := float32(0)
		for i, level := range w[:n] {
			term := float32(float32(level) * math.Float32frombits(binary.LittleEndian.Uint32(x[4*i:])))
			if i == 0 {
				few = term
			} else {
				few = float32(few + term)
			}
		}
		sum = float32(sum + few)
		w, x = w[n:], x[4*n:]
	}
	return sum
}

// act names the activations of a product, for people.
func (s *Spec) act() string {
	if !s.Act.Floats() {
		return ""
	}
	relative, _ := s.Act.FloatError(s.Weight, s.LimitK)
	return fmt.Sprintf(" by f32 activations, exact:false, rounded in order: up to K %d within %.1e of the sum of |weight * activation|", s.LimitK, relative)
}

// defined is an element of a product: rounded in order, in float64, and the sums of
// magnitudes with scales and without.
type defined struct {
	v                    float32
	real, size, unscaled float64
}

// defineFloats is the definition of a row times f32 activations x.
func defineFloats(s Spec, src format.Source, x []float32, row, k int) (d defined) {
	group := s.groupK()
	if group == 0 {
		group = k
	}
	for g := 0; g < k; g += group {
		scale, sum := src.Scaling(s.Weight, row, g, k).Scale, float32(0)
		for e := g; e < g+group; e += s.Act.Float {
			few := float32(0)
			for i := e; i < min(e+s.Act.Float, g+group); i++ {
				level := s.Weight.Levels[src.Codes[row*k+i]]
				few = float32(few + float32(float32(level)*x[i]))
				term := float64(level) * float64(x[i])
				d.real, d.size = d.real+float64(scale)*term, d.size+math.Abs(float64(scale)*term)
				d.unscaled += math.Abs(term)
			}
			sum = float32(sum + few)
		}
		d.v = float32(d.v + float32(sum*scale))
	}
	d.v = canonical(d.v)
	return d
}

// near reports a product of f32 activations that is farther from the sum in real
// numbers than format.Act.FloatError allows. One whose sums may overflow is not
// looked at.
func (s *Spec) near(d defined, k int) error {
	relative, absolute := s.Act.FloatError(s.Weight, k)
	most, away := relative*d.size+absolute, math.Abs(float64(d.v)-d.real)
	if d.unscaled < math.MaxFloat32 && d.size < math.MaxFloat32 && !(away <= most) {
		return fmt.Errorf("%v is %v away from %v, more than %v", d.v, away, d.real, most)
	}
	return nil
}
