package operator

import (
	"math"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// The exponential. x is n ln 2 + r with |r| at most ln 2 / 2, and exp(r) a polynomial of degree 6.
const (
	leastExp = -88          // from here down the result is +0: 2^n is bits of 0 then
	mostExp  = 89           // 2^n is +Inf before
	log2e    = 1.4426950409 // 1 / ln 2
	rounder  = 12582912     // 1.5 * 2^23: adding it rounds to an integer, in the low bits
	ln2High  = 0.693359375  // of 10 bits: times n it is exact
	ln2Low   = -2.1219444e-4
)

// expTerms are the coefficients of r^6 down to r^0: of all polynomials that begin with 1 + r the one with the least relative
// error, 3.1e-9, found by Remez' exchange and rounded to f32.
var expTerms = []float32{0.0013814320554956794, 0.00836885068565607, 0.041668400168418884, 0.1666651964187622, 0.4999999403953552, 1, 1}

// Exp is the exponential of x, an f32. A NaN stays one.
func Exp(x ir.Expr) ir.Expr {
	t := ir.Binary{Op: ir.Min, X: num(mostExp), Y: ir.Binary{Op: ir.Max, X: num(leastExp), Y: x}}
	z := add(mul(t, num(log2e)), num(rounder))
	n := sub(bits(z), ir.I32(int(math.Float32bits(rounder))))
	f := sub(z, num(rounder))
	r := sub(sub(t, mul(f, num(ln2High))), mul(f, num(ln2Low)))
	p := ir.Expr(num(expTerms[0]))
	for _, c := range expTerms[1:] {
		p = add(mul(p, r), num(c))
	}
	power := bits(ir.Binary{Op: ir.Shl, X: ir.Binary{Op: ir.Add, X: n, Y: ir.I32(127)}, Y: ir.I32(23)})
	return mul(p, power)
}

// sigmoidTimes is x / (1 + exp(-y)).
func sigmoidTimes(x, y ir.Expr) ir.Expr { return div(x, add(num(1), Exp(sub(num(0), y)))) }

// rsqrt is 1 / sqrt(x) by four steps of Newton's method, from a start that is right to 3.5 %. Products and sums are the
// same on every machine, which square roots of GPUs are not.
func rsqrt(x ir.Expr) ir.Expr {
	y := bits(sub(ir.I32(0x5f375a86), ir.Binary{Op: ir.ShrS, X: bits(x), Y: ir.I32(1)}))
	half := mul(num(0.5), x)
	for range 4 {
		y = mul(y, sub(num(1.5), mul(mul(half, y), y)))
	}
	return y
}

// choose is x where mask has ones, y where it has zeros.
func choose(mask, x ir.Expr, y ir.Expr) ir.Expr {
	not := sub(ir.I32(-1), mask)
	return bits(ir.Binary{Op: ir.Or, X: ir.Binary{Op: ir.And, X: bits(x), Y: mask}, Y: ir.Binary{Op: ir.And, X: not, Y: bits(y)}})
}

// num is an f32 constant.
func num(v float32) ir.Expr { return ir.Const{T: format.F32, V: int64(math.Float32bits(v))} }

func add(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Add, X: x, Y: y} }
func sub(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Sub, X: x, Y: y} }
func mul(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Mul, X: x, Y: y} }
func div(x, y ir.Expr) ir.Expr { return ir.Binary{Op: ir.Div, X: x, Y: y} }
func bits(x ir.Expr) ir.Expr   { return ir.Unary{Op: ir.Bits, X: x} }
func canon(x ir.Expr) ir.Expr  { return ir.Unary{Op: ir.CanonNaN, X: x} }
