package ir

import (
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir/format"
)

// Env gives the value of axes and tensor elements to EvalExpr.
type Env interface {
	Axis(name string) int
	Load(t *Tensor, index []int) (int64, error)
}

// Wrap reduces v to the range of t.
func Wrap(t format.DType, v int64) int64 {
	switch t {
	case format.U8:
		return int64(uint8(v))
	case format.I8:
		return int64(int8(v))
	case format.U16, format.F16:
		return int64(uint16(v))
	case format.I16:
		return int64(int16(v))
	case format.I32:
		return int64(int32(v))
	case format.U32, format.F32:
		return int64(uint32(v))
	}
	panic("BUG: ir: wrap to " + t.String())
}

func f32(v int64) float32     { return math.Float32frombits(uint32(v)) }
func f32bits(x float32) int64 { return int64(math.Float32bits(x)) }

// EvalExpr computes e in env.
func EvalExpr(e Expr, env Env) (int64, error) {
	switch e := e.(type) {
	case Const:
		return Wrap(e.T, e.V), nil
	case Axis:
		return int64(env.Axis(e.Name)), nil
	case Read:
		idx, err := evalIndex(e.Index, env)
		if err != nil {
			return 0, err
		}
		return env.Load(e.T, idx)
	case Join:
		return evalJoin(e, env)
	case Choose:
		i, err := EvalExpr(e.By, env)
		if err != nil {
			return 0, err
		}
		if i < 0 || i >= int64(len(e.Of)) {
			return 0, fmt.Errorf("ir: choice %d of %d", i, len(e.Of))
		}
		return EvalExpr(e.Of[i], env)
	case Cast:
		v, err := EvalExpr(e.X, env)
		return Wrap(e.T, v), err
	case Lookup:
		v, err := EvalExpr(e.X, env)
		if err != nil {
			return 0, err
		}
		if v < 0 || v >= int64(len(e.Table)) {
			return 0, fmt.Errorf("ir: index %d of a table of %d", v, len(e.Table))
		}
		if e.T == format.F32 {
			return f32bits(float32(e.Table[v])), nil
		}
		return Wrap(e.T, int64(e.Table[v])), nil
	case Unary:
		v, err := EvalExpr(e.X, env)
		if err != nil {
			return 0, err
		}
		v, err = evalUnary(e.Op, v)
		return Wrap(e.Type(), v), err
	case Binary:
		x, err := EvalExpr(e.X, env)
		if err != nil {
			return 0, err
		}
		y, err := EvalExpr(e.Y, env)
		if err != nil {
			return 0, err
		}
		if e.Type() == format.F32 {
			return evalFloat(e.Op, f32(x), f32(y)), nil
		}
		return Wrap(e.Type(), evalInt(e.Op, x, y)), nil
	}
	panic(fmt.Sprintf("BUG: ir: unknown expression %T", e))
}

func evalIndex(index []Expr, env Env) ([]int, error) {
	out := make([]int, len(index))
	for i, x := range index {
		v, err := EvalExpr(x, env)
		if err != nil {
			return nil, err
		}
		out[i] = int(v)
	}
	return out, nil
}

func evalJoin(e Join, env Env) (int64, error) {
	idx, err := evalIndex(e.Index, env)
	if err != nil {
		return 0, err
	}
	plane := int64(-1)
	if e.Plane != nil {
		if plane, err = EvalExpr(e.Plane, env); err != nil {
			return 0, err
		}
	}
	sum, weight := int64(0), int64(1)
	for i := range e.N {
		at := append([]int(nil), idx...)
		at[len(at)-1] += i
		digit, err := env.Load(e.T, at)
		if err != nil {
			return 0, err
		}
		if plane >= 0 {
			digit = digit >> plane & 1
		}
		if digit >= int64(e.Radix) {
			return 0, fmt.Errorf("ir: digit %d of a number to base %d", digit, e.Radix)
		}
		sum += digit * weight
		weight *= int64(e.Radix)
	}
	image := weight - 1 - sum
	switch {
	case e.Of == Lower:
		return min(sum, image), nil
	case e.Of == Upper && sum <= image:
		return 0, nil
	case e.Of == Upper:
		return 1, nil
	}
	return sum, nil
}

func evalUnary(op Op, v int64) (int64, error) {
	switch op {
	case Bits:
		return v, nil // Wrap gives it the sign of its type
	case CvtF32:
		return f32bits(float32(int32(v))), nil
	case CvtI32:
		x := math.RoundToEven(float64(f32(v)))
		if !(x >= math.MinInt32 && x <= math.MaxInt32) {
			return 0, fmt.Errorf("ir: %v does not fit i32", f32(v))
		}
		return int64(x), nil
	case CvtHalf:
		return f32bits(format.HalfToFloat32(uint16(v))), nil
	case CvtF16:
		return int64(format.HalfFromFloat32(f32(v))), nil
	case CanonNaN:
		if x := f32(v); x != x {
			return 0x7fc00000, nil
		}
		return int64(uint32(v)), nil
	}
	panic("BUG: ir: unary " + op.String())
}

func evalFloat(op Op, x, y float32) int64 {
	switch op {
	case Add:
		return f32bits(float32(x + y))
	case Sub:
		return f32bits(float32(x - y))
	case Mul:
		return f32bits(float32(x * y))
	case Div:
		return f32bits(float32(x / y))
	case Max:
		if x > y {
			return f32bits(x)
		}
		return f32bits(y)
	case Min:
		if x < y {
			return f32bits(x)
		}
		return f32bits(y)
	}
	panic("BUG: ir: float " + op.String())
}

func evalInt(op Op, x, y int64) int64 {
	switch op {
	case Add:
		return x + y
	case Sub:
		return x - y
	case Mul:
		return x * y
	case And:
		return x & y
	case Or:
		return x | y
	case Shl:
		return x << uint(y)
	case ShrS:
		return x >> uint(y)
	case AddSat:
		return min(x+y, math.MaxUint8)
	case SubSat:
		return max(x-y, 0)
	case MaxS:
		return max(x, y)
	case CmpGtS:
		if x > y {
			return -1
		}
		return 0
	case Avg:
		return (x + y + 1) >> 1
	case NegIf:
		if y != 0 {
			return -x
		}
		return x
	}
	panic("BUG: ir: integer " + op.String())
}
