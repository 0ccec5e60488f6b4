package check

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/schedule"
)

// OperatorCase is an operator's inputs for some sizes, and what the definition makes of them.
type OperatorCase struct {
	Of    operator.Operator
	Sizes map[string]int
	in    map[string]*ir.Array
	want  map[string]*ir.Array
}

// NewOperator draws a case of o for the given sizes. In a wild one, elements have all kinds of bits, with NaNs and infinities.
func NewOperator(rng *rand.Rand, o operator.Operator, sizes map[string]int, wild bool) (*OperatorCase, error) {
	k, err := schedule.CompileOperator(o, nil)
	if err != nil {
		return nil, err
	}
	c := &OperatorCase{Of: o, Sizes: sizes, in: map[string]*ir.Array{}}
	for _, p := range k.Params {
		if p.Role != schedule.InputTensor {
			continue
		}
		var shape []int
		for _, d := range p.Dims {
			shape = append(shape, cmp.Or(d.N, sizes[d.Size]))
		}
		a := ir.NewArray(shape...)
		for i := range a.V {
			a.V[i] = element(rng, p.Elem, wild)
		}
		c.in[p.Name] = a
	}
	c.want, err = ir.Eval(o.Graph, sizes, c.in)
	return c, err
}

// floatBits are f32 of all kinds: zeros, subnormal and huge numbers, infinities, NaNs, numbers about to be rounded.
var floatBits = []uint32{0, 1 << 31, 1, 0x807fffff, 0x00800000, 0x3f800000, 0xbf800001, 0x7f7fffff, 0x7f800000, 0xff800000,
	0x7fc00000, 0xffc12345, 0x7f800001, 0x42b00000, 0xc2b00000, 0x42b20001, 0x33000001, 0x38800000, 0x477fefff, 0x477ff000}

// element draws the bits of an element: of an f32 or f16 a number as activations have them, of an i32 a small count, of an i8 any.
func element(rng *rand.Rand, e format.DType, wild bool) int64 {
	x := float32(rng.NormFloat64()) * float32(math.Ldexp(1, rng.Intn(9)-4))
	bits := math.Float32bits(x)
	if wild && rng.Intn(8) == 0 {
		bits = floatBits[rng.Intn(len(floatBits))]
	}
	switch e {
	case format.I32:
		return int64(1 + rng.Intn(64))
	case format.F16:
		return int64(format.HalfFromFloat32(math.Float32frombits(bits)))
	case format.U16: // a bf16
		return int64(bits >> 16)
	case format.I8:
		return int64(int8(bits >> 8))
	}
	return int64(bits)
}

// Args are the parameters of a kernel of the operator: inputs padded with zeros, and other memory with bytes of no meaning.
func (c *OperatorCase) Args(rng *rand.Rand, k *schedule.OperatorKernel) []vir.Arg {
	args := make([]vir.Arg, len(k.Params))
	steps := map[string]int{}
	for i, p := range k.Params {
		if p.Role == schedule.RowStep {
			steps[p.Tensor] = c.rowBytes(k, p.Tensor) + 4*rng.Intn(9)
			args[i].Int = int64(steps[p.Tensor])
		}
	}
	for i, p := range k.Params {
		switch p.Role {
		case schedule.RowStep:
		case schedule.TripCount:
			args[i].Int = int64((c.Sizes[p.Size] + p.Div - 1) / p.Div)
		default:
			args[i].Buf = c.memory(rng, p, steps[p.Name])
		}
	}
	return args
}

// rowBytes is the least that rows of a tensor may be apart.
func (c *OperatorCase) rowBytes(k *schedule.OperatorKernel, name string) int {
	i := slices.IndexFunc(k.Params, func(p schedule.OperatorParam) bool { return p.Name == name })
	p := k.Params[i]
	return c.room(p.Dims[len(p.Dims)-1]) * p.Stride * p.Elem.Bytes()
}

// room is the number of elements of one index that a kernel may touch.
func (c *OperatorCase) room(r schedule.Room) int {
	n := r.N
	for _, pad := range r.Pads {
		n = max(n, (c.Sizes[r.Size]+pad-1)/pad*pad)
	}
	return n
}

// memory is what parameter p points to; rows are step bytes apart, or side by side if that is 0.
func (c *OperatorCase) memory(rng *rand.Rand, p schedule.OperatorParam, step int) []byte {
	n := p.Elem.Bytes()
	for _, d := range p.Dims {
		n *= c.room(d)
	}
	if step > 0 {
		n = c.room(p.Dims[0]) * step
	}
	b := make([]byte, n*max(p.Stride, 1))
	if in := c.in[p.Name]; in != nil {
		c.each(p, in, step, func(at int, v *int64) { store(b[at:], p.Elem, *v) })
		return b
	}
	rng.Read(b)
	return b
}

// each calls f for every element of a with the byte where it is in memory.
func (c *OperatorCase) each(p schedule.OperatorParam, a *ir.Array, step int, f func(at int, v *int64)) {
	strides := make([]int, len(a.Shape))
	stride := p.Stride * p.Elem.Bytes()
	for i := len(strides) - 1; i >= 0; i-- {
		strides[i] = stride
		stride *= c.room(p.Dims[i])
	}
	if step > 0 {
		strides[0] = step
	}
	for i := range a.V {
		at, rest := 0, i
		for j := len(strides) - 1; j >= 0; j-- {
			at += rest % a.Shape[j] * strides[j]
			rest /= a.Shape[j]
		}
		f(at, &a.V[i])
	}
}

func store(b []byte, e format.DType, v int64) {
	switch e.Bytes() {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	default:
		binary.LittleEndian.PutUint32(b, uint32(v))
	}
}

func load(b []byte, e format.DType) int64 {
	switch e.Bytes() {
	case 1:
		return int64(int8(b[0]))
	case 2:
		return int64(binary.LittleEndian.Uint16(b))
	}
	return int64(binary.LittleEndian.Uint32(b))
}

// Compare holds what a kernel has made of args to the definition. Where the definition leaves open which NaN a result is, any will do.
func (c *OperatorCase) Compare(k *schedule.OperatorKernel, args []vir.Arg) error {
	steps := map[string]int{}
	for i, p := range k.Params {
		if p.Role == schedule.RowStep {
			steps[p.Tensor] = int(args[i].Int)
		}
	}
	for i, p := range k.Params {
		if p.Role != schedule.OutputTensor {
			continue
		}
		exact := canonical(c.Of.Graph.Stage(p.Name).Body)
		var err error
		n := 0
		c.each(p, c.want[p.Name], steps[p.Name], func(at int, want *int64) {
			got := load(args[i].Buf[at:], p.Elem)
			same := got == *want || !exact && isNaN(got) && isNaN(*want)
			if err == nil && !same {
				err = fmt.Errorf("%s: element %d of %s is %#x, want %#x", c, n, p.Name, got, *want)
			}
			n++
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// canonical says that no NaN but one is a value of e.
func canonical(e ir.Expr) bool {
	u, ok := e.(ir.Unary)
	return ok && (u.Op == ir.CanonNaN || u.Op == ir.CvtF16 && canonical(u.X))
}

func isNaN(bits int64) bool { return bits&0x7fffffff > 0x7f800000 }

func (c *OperatorCase) String() string {
	s := c.Of.Name
	for _, name := range slices.Sorted(maps.Keys(c.Sizes)) {
		s += fmt.Sprintf(" %s=%d", name, c.Sizes[name])
	}
	return s
}

// PanelBytes is the size of an element of the panel of a product.
func (c *OperatorCase) PanelBytes() int { return c.Of.Graph.Inputs[1].Elem.Bytes() }
