package runtime

import (
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir/format"
)

// error is the most that the integer sum of a group of n elements may be off, by any of the
// kernels that run.
func (p *Product) error(n int) int {
	most := 0
	if p.variant != nil {
		for _, k := range p.variant.Kernels {
			if k.ErrorMost > 0 {
				most = max(most, ceilDiv(n, k.ErrorStep)*k.ErrorMost)
			}
		}
	}
	return most
}

// slack is how far each result may be from that of define, nil if it may not:
//
//	sum over groups of error*|scale*ascale| + (groups + 8) * 2^-22 * sum over groups of (|sum| + error)*|scale*ascale|
//
// The second part is for the rounding of both to f32, wherever ascale multiplies; what minimums add to it is as large as
// twice their terms.
func (p *Product) slack(src format.Source, x []float32, m, n, k int) []float64 {
	group := p.spec.groupK()
	if group == 0 {
		group = k
	}
	e := float64(p.error(group))
	if e == 0 {
		return nil
	}
	out := make([]float64, n*m)
	rounding := float64(k/group+8) * 0x1p-22
	for j := range n {
		q, scales := defineQuantize(x[j*k:][:k], p.spec.Act.Group)
		for row := range m {
			terms := 0.0 // of the sum that the scale of a row multiplies
			for g := 0; g < k; g += group {
				w := src.Scaling(p.spec.Weight, row, g, k)
				size, all := 0.0, 0.0
				for i := g; i < g+group; i++ {
					size += math.Abs(float64(src.Level(p.spec.Weight, row, i, k)-int(w.Zero)) * float64(q[i]))
					all += math.Abs(float64(q[i]))
				}
				s := math.Abs(float64(scales[g]))
				scale := math.Abs(float64(w.Scale)) * s
				out[j*m+row] += e*scale + rounding*((size+e)*scale+2*all*s*math.Abs(float64(w.Min)))
				terms += (size+e)*math.Abs(float64(w.Scale)) + all*math.Abs(float64(w.Min))
			}
			if p.spec.Act.Group == 0 && !(terms <= math.MaxFloat32) {
				out[j*m+row] = math.Inf(1) // it may overflow
			}
		}
	}
	return out
}

// near is sameBits, or with slack says that results are at most that far away.
func near(got, want []float32, slack []float64, m int) error {
	if slack == nil {
		return sameBits(got, want, m)
	}
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		if math.Abs(w)+slack[i] > math.MaxFloat32 {
			continue // may overflow
		}
		if math.IsNaN(g) != math.IsNaN(w) || !math.IsNaN(w) && !(math.Abs(g-w) <= slack[i]) && g != w {
			return fmt.Errorf("row %d, activations %d: %v is %v away from %v, at most %v", i%m, i/m, g, g-w, w, slack[i])
		}
	}
	return nil
}
