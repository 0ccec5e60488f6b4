// Package ops has the float operators of language models: norms, rotations, gates, attention over a cache, and products of
// float matrices. Package ir/operator defines them, and docs/ir.md explains the order of each sum.
//
// The callers of this package hold the lengths of slices to what the comments say. A wrong one is a bug of theirs and panics.
package ops

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
)

// Sizes that the operators have, and with them the memory that they share.
const (
	Panel = 32 // lanes of a panel: rows of a float matrix, positions of keys, elements of values
	Block = 64 // positions of a page of the cache
)

// canonical makes every NaN the same.
func canonical(v float32) float32 {
	if v != v {
		return math.Float32frombits(0x7fc00000)
	}
	return v
}

func fmax(x, y float32) float32 {
	if x > y {
		return x
	}
	return y
}

func fmin(x, y float32) float32 {
	if x < y {
		return x
	}
	return y
}

var expTerms = [7]float32{0.0013814320554956794, 0.00836885068565607, 0.041668400168418884, 0.1666651964187622, 0.4999999403953552, 1, 1}

func exp(x float32) float32 {
	const rounder = 12582912
	t := fmin(89, fmax(-88, x))
	z := float32(t*1.4426950409) + rounder
	n := int32(math.Float32bits(z)) - int32(math.Float32bits(rounder))
	f := z - rounder
	r := (t - float32(f*0.693359375)) - float32(f*-2.1219444e-4)
	p := expTerms[0]
	for _, c := range expTerms[1:] {
		p = float32(p*r) + c
	}
	return float32(p * math.Float32frombits(uint32((n+127)<<23)))
}

func rsqrt(x float32) float32 {
	y := math.Float32frombits(uint32(0x5f375a86 - int32(math.Float32bits(x))>>1))
	half := float32(0.5 * x)
	for range 4 {
		y = float32(y * (1.5 - float32(float32(half*y)*y)))
	}
	return y
}

// tree is the end of a sum over one vector.
func tree(p *[Panel]float32) float32 {
	for n := Panel / 2; n > 0; n /= 2 {
		for j := range n {
			p[j] += p[j+n]
		}
	}
	return p[0]
}

func same(what string, n int, of ...[]float32) {
	for _, x := range of {
		if len(x) != n {
			panic("BUG: ops: lengths differ in " + what)
		}
	}
}

// RMSNorm is dst = x / sqrt(mean of x^2 + eps) * w. All have the same length, and dst may be x.
func RMSNorm(dst, x, w []float32, eps float32) {
	same("RMSNorm", len(x), dst, w)
	var p [Panel]float32
	for i, v := range x {
		p[i%Panel] += float32(v * v)
	}
	inv := rsqrt(float32(tree(&p)*(1/float32(len(x)))) + eps)
	for i, v := range x {
		dst[i] = canonical(float32(float32(v*inv) * w[i]))
	}
}

// Add is dst = x + y. dst may be x or y.
func Add(dst, x, y []float32) {
	same("Add", len(x), dst, y)
	for i, v := range x {
		dst[i] = canonical(v + y[i])
	}
}

// SiLUMul is dst = gate / (1 + exp(-gate)) * up. dst may be gate or up.
func SiLUMul(dst, gate, up []float32) {
	same("SiLUMul", len(gate), dst, up)
	for i, g := range gate {
		dst[i] = canonical(float32(g / (1 + exp(0-g)) * up[i]))
	}
}

// GELUMul is dst = GELU(gate) * up in the tanh form. dst may be gate or up.
func GELUMul(dst, gate, up []float32) {
	same("GELUMul", len(gate), dst, up)
	for i, g := range gate {
		y := float32(1.5957691216057308 * (g + float32(0.044715*float32(float32(g*g)*g))))
		dst[i] = canonical(float32(g / (1 + exp(0-y)) * up[i]))
	}
}

// ReLU2Mul is dst = max(gate, 0)^2 * up. dst may be gate or up.
func ReLU2Mul(dst, gate, up []float32) {
	same("ReLU2Mul", len(gate), dst, up)
	for i, g := range gate {
		r := fmax(0, g)
		dst[i] = canonical(float32(float32(r*r) * up[i]))
	}
}

// Rope rotates element i of x and element i + len(cos) by the angle whose cosine and sine are cos[i] and sin[i]. x has
// twice the length of cos and of sin.
func Rope(x, cos, sin []float32) {
	h := len(cos)
	same("Rope", h, sin)
	same("Rope", 2*h, x)
	for i := range cos {
		a, b := x[i], x[i+h]
		x[i] = canonical(float32(a*cos[i]) - float32(b*sin[i]))
		x[i+h] = canonical(float32(b*cos[i]) + float32(a*sin[i]))
	}
}

// Matmul multiplies rows of a by a panel of k rows of 32 elements of type e:
//
//	dst[r*dstStride + j] = sum over k of a[r*aStride + k] * panel[k][j]      j < 32
//
// It leaves the other elements of dst alone.
func Matmul(dst []float32, dstStride int, a []float32, aStride, rows int, panel []byte, e Elem, k int) {
	size := e.Bytes()
	panel = panel[:k*Panel*size]
	for r := range rows {
		var acc [Panel]float32
		row := a[r*aStride:][:k]
		switch e {
		case F32:
			for i, v := range row {
				b := (*[4 * Panel]byte)(panel[i*4*Panel:])
				for j := range acc {
					acc[j] += float32(v * math.Float32frombits(binary.LittleEndian.Uint32(b[4*j:])))
				}
			}
		case F16:
			half := halves()
			for i, v := range row {
				b := (*[2 * Panel]byte)(panel[i*2*Panel:])
				for j := range acc {
					acc[j] += float32(v * half[binary.LittleEndian.Uint16(b[2*j:])])
				}
			}
		case BF16:
			for i, v := range row {
				b := (*[2 * Panel]byte)(panel[i*2*Panel:])
				for j := range acc {
					acc[j] += float32(v * math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*j:]))<<16))
				}
			}
		}
		for j, v := range acc {
			dst[r*dstStride+j] = canonical(v)
		}
	}
}

// halves are the values of all f16.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for h := range t {
		t[h] = format.HalfToFloat32(uint16(h))
	}
	return t
})

// Softmax makes exponentials of rows scores of a block, s[rows][64], in place. Of row r only the first counts[r]
// positions, 1 to 64, count; the others become 0. max and sum get the maximum of a row, and the sum of its exponentials.
func Softmax(s []float32, rows int, scale float32, counts []int32, max, sum []float32) {
	for r := range rows {
		row := (*[Block]float32)(s[r*Block:])
		for p := range row {
			if int(counts[r]) > p {
				row[p] = float32(row[p] * scale)
			} else {
				row[p] = float32(math.Inf(-1))
			}
		}
		top := *row
		for n := Block / 2; n > 0; n /= 2 {
			for j := range n {
				top[j] = fmax(top[j], top[j+n])
			}
		}
		var p [Panel]float32
		for i := range row {
			row[i] = exp(row[i] - top[0])
			p[i%Panel] += row[i]
		}
		max[r], sum[r] = top[0], tree(&p)
	}
}

// Merge adds a block of attention to the blocks before it: outputs o[rows][d], maxima m and sums l.
func Merge(o, m, l []float32, o2, m2, l2 []float32, rows, d int) {
	for r := range rows {
		top := fmax(m[r], m2[r])
		a, b := exp(m[r]-top), exp(m2[r]-top)
		m[r], l[r] = top, float32(l[r]*a)+float32(l2[r]*b)
		for i := r * d; i < (r+1)*d; i++ {
			o[i] = float32(o[i]*a) + float32(o2[i]*b)
		}
	}
}

// Finish divides the outputs of attention, o[rows][d], by their sums.
func Finish(o, l []float32, rows, d int) {
	for r := range rows {
		for i := r * d; i < (r+1)*d; i++ {
			o[i] = canonical(o[i] / l[r])
		}
	}
}

// StoreK writes x as lane number lane of a panel of len(x) rows of 32 elements.
func StoreK(panel []byte, e Elem, x []float32, lane int) {
	for i, v := range x {
		e.store(panel[(i*Panel+lane)*e.Bytes():], v)
	}
}

// StoreRow writes x as neighbouring elements.
func StoreRow(dst []byte, e Elem, x []float32) {
	for i, v := range x {
		e.store(dst[i*e.Bytes():], v)
	}
}

// Info says what runs and why.
func Info() string { return "float operators run in pure Go\n" }
