// Package ops has the float operators of language models: norms, rotations, gates, attention over a cache, and products of
// float matrices. Package ir/operator defines them, and docs/ir.md explains the order of each sum.
//
// The callers of this package hold the lengths of slices to what the comments say. A wrong one is a bug of theirs and panics.
// Nothing here allocates, and calls on different memory may run at once.
package ops

//go:generate go run github.com/tmacc/tmacc/gen/operators/write .

// Sizes that the operators have, and with them the memory that they share.
const (
	Panel = 32 // lanes of a panel: rows of a float matrix, positions of keys, elements of values
	Block = 64 // positions of a page of the cache
	Whole = 4  // Matmul takes a k that is a multiple of it by kernels; of others pure Go may do all
	// MostPlaces is how many places devices sort by experts at once.
	MostPlaces = 1 << 16
)

// together is how many rows one call of a kernel has at most: it has scratch for each.
const together = 8

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
	rmsnorm(x, w, 1/float32(len(x)), eps, dst, len(x))
}

// Add is dst = x + y. dst may be x or y.
func Add(dst, x, y []float32) {
	same("Add", len(x), dst, y)
	add(x, y, dst, len(x))
}

// Mul is dst = x * y. dst may be x or y.
func Mul(dst, x, y []float32) {
	same("Mul", len(x), dst, y)
	mul(x, y, dst, len(x))
}

// AddScaled is dst = x + scale * y. The product is rounded before the sum. dst may be x or y.
func AddScaled(dst, x, y []float32, scale float32) {
	same("AddScaled", len(x), dst, y)
	addscaled(x, y, scale, dst, len(x))
}

// Scale is dst = x * by. dst may be x.
func Scale(dst, x []float32, by float32) {
	same("Scale", len(x), dst)
	scale(x, by, dst, len(x))
}

// Softcap is dst = cap * tanh(scale * x / cap). dst may be x.
func Softcap(dst, x []float32, scale, cap float32) {
	same("Softcap", len(x), dst)
	softcap(x, cap, 2*scale/cap, dst, len(x))
}

// SiLUMul is dst = gate / (1 + exp(-gate)) * up. dst may be gate or up.
func SiLUMul(dst, gate, up []float32) {
	same("SiLUMul", len(gate), dst, up)
	silu(gate, up, dst, len(gate))
}

// GELUMul is dst = GELU(gate) * up in the tanh form. dst may be gate or up.
func GELUMul(dst, gate, up []float32) {
	same("GELUMul", len(gate), dst, up)
	gelu(gate, up, dst, len(gate))
}

// ReLU2Mul is dst = max(gate, 0)^2 * up. dst may be gate or up.
func ReLU2Mul(dst, gate, up []float32) {
	same("ReLU2Mul", len(gate), dst, up)
	relu2(gate, up, dst, len(gate))
}

// Rope rotates element i of x and element i + len(cos) by the angle whose cosine and sine are cos[i] and sin[i]. x has
// twice the length of cos and of sin.
func Rope(x, cos, sin []float32) {
	h := len(cos)
	same("Rope", h, sin)
	same("Rope", 2*h, x)
	var low [64]float32 // not in its place yet, which the second half of the result reads
	for i := 0; i < h; i += len(low) {
		n := min(len(low), h-i)
		a, b := x[i:i+n], x[h+i:h+i+n]
		rope(a, b, cos[i:], sin[i:], low[:n], b, n)
		copy(a, low[:n])
	}
}

// Matmul multiplies rows of a by a panel of k rows of 32 elements of type e:
//
//	dst[r*dstStride + j] = sum over k of a[r*aStride + k] * panel[k][j]      j < 32
//
// It leaves the other elements of dst alone.
func Matmul(dst []float32, dstStride int, a []float32, aStride, rows int, panel []byte, e Elem, k int) {
	for r := 0; r < rows; {
		n := 8
		for n > rows-r {
			n /= 2
		}
		matmul(e, n, a[r*aStride:], panel, dst[r*dstStride:], aStride, dstStride, k)
		r += n
	}
}

// matmul is Matmul of 8, 4, 2 rows or one.
func matmul(e Elem, rows int, a []float32, panel []byte, dst []float32, aStride, dstStride, k int) {
	switch {
	case e == F32 && rows == 8:
		matmul_f32_8(a, panel, dst, aStride, dstStride, k)
	case e == F32 && rows == 4:
		matmul_f32_4(a, panel, dst, aStride, dstStride, k)
	case e == F32 && rows == 2:
		matmul_f32_2(a, panel, dst, aStride, dstStride, k)
	case e == F32:
		matmul_f32_1(a, panel, dst, aStride, dstStride, k)
	case e == F16 && rows == 8:
		matmul_f16_8(a, panel, dst, aStride, dstStride, k)
	case e == F16 && rows == 4:
		matmul_f16_4(a, panel, dst, aStride, dstStride, k)
	case e == F16 && rows == 2:
		matmul_f16_2(a, panel, dst, aStride, dstStride, k)
	case e == F16:
		matmul_f16_1(a, panel, dst, aStride, dstStride, k)
	case e == I8 && rows == 8:
		matmul_i8_8(a, panel, dst, aStride, dstStride, k)
	case e == I8 && rows == 4:
		matmul_i8_4(a, panel, dst, aStride, dstStride, k)
	case e == I8 && rows == 2:
		matmul_i8_2(a, panel, dst, aStride, dstStride, k)
	case e == I8:
		matmul_i8_1(a, panel, dst, aStride, dstStride, k)
	case rows == 8:
		matmul_bf16_8(a, panel, dst, aStride, dstStride, k)
	case rows == 4:
		matmul_bf16_4(a, panel, dst, aStride, dstStride, k)
	case rows == 2:
		matmul_bf16_2(a, panel, dst, aStride, dstStride, k)
	default:
		matmul_bf16_1(a, panel, dst, aStride, dstStride, k)
	}
}

// Softmax makes exponentials of rows scores of a block, s[rows][64], in place. Of row r only the positions from first[r] to
// before end[r] count, at least one; the others become 0. max and sum get the maximum of a row, and the sum of its exponentials.
func Softmax(s []float32, rows int, scale float32, first, end []int32, max, sum []float32) {
	for r := 0; r < rows; r += together {
		n := min(together, rows-r)
		softmax(s[r*Block:], scale, first[r:], end[r:], s[r*Block:], max[r:], sum[r:], n)
	}
}

// Merge adds a block of attention to the blocks before it: outputs o[rows][d], maxima m and sums l.
func Merge(o, m, l []float32, o2, m2, l2 []float32, rows, d int) {
	var top, total [together]float32
	for r := 0; r < rows; r += together {
		n := min(together, rows-r)
		merge(o[r*d:], m[r:], l[r:], o2[r*d:], m2[r:], l2[r:], top[:n], total[:n], o[r*d:], d, d, d, n, d)
		copy(m[r:], top[:n])
		copy(l[r:], total[:n])
	}
}

// Finish divides the outputs of attention, o[rows][d], by their sums.
func Finish(o, l []float32, rows, d int) { finish(o, l, o, d, d, rows, d) }

// StoreK writes x as lane number lane of a panel of len(x) rows of 32 elements, F32 or F16.
func StoreK(panel []byte, e Elem, x []float32, lane int) {
	if out := panel[lane*e.Bytes():]; e == F32 {
		column_f32(x, out, len(x))
	} else {
		column_f16(x, out, len(x))
	}
}

// StoreRow writes x as neighbouring elements, F32 or F16.
func StoreRow(dst []byte, e Elem, x []float32) {
	if e == F32 {
		row_f32(x, dst, len(x))
	} else {
		row_f16(x, dst, len(x))
	}
}
