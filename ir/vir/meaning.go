package vir

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// call is one execution of an instruction. A lane is an int64: the value of an
// integer, the zero-extended bits of an f16 or f32. out does not overlap arg.
type call struct {
	in  *Instr
	dst Type
	typ [3]Type // of the arguments
	out []int64
	arg [3][]int64
	mem []byte // the bytes at Instr.Mem, or of the constant

	lane  *int // the number of a loop of lanes
	apart int  // bytes from one row or column of a tile in mem to the next
}

// wrap reduces every lane to the range of d.
func wrap(d format.DType, v []int64) {
	switch d {
	case u8:
		for i, x := range v {
			v[i] = int64(uint8(x))
		}
	case i8:
		for i, x := range v {
			v[i] = int64(int8(x))
		}
	case u16, f16:
		for i, x := range v {
			v[i] = int64(uint16(x))
		}
	case i16:
		for i, x := range v {
			v[i] = int64(int16(x))
		}
	case u32, f32:
		for i, x := range v {
			v[i] = int64(uint32(x))
		}
	case i32:
		for i, x := range v {
			v[i] = int64(int32(x))
		}
	default:
		panic("BUG: vir: lanes without a type")
	}
}

// unpack reads lanes of type d from little-endian bytes.
func unpack(d format.DType, v []int64, b []byte) {
	switch n := len(v); d.Bytes() {
	case 1:
		for i, x := range b[:n] {
			v[i] = int64(x)
		}
	case 2:
		for i := range v {
			v[i] = int64(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case 4:
		for i := range v {
			v[i] = int64(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	if d.IsSigned() { // the others are already zero-extended
		wrap(d, v)
	}
}

// pack is the inverse of unpack.
func pack(d format.DType, b []byte, v []int64) {
	switch d.Bytes() {
	case 1:
		for i, x := range v {
			b[i] = byte(x)
		}
	case 2:
		for i, x := range v {
			binary.LittleEndian.PutUint16(b[2*i:], uint16(x))
		}
	case 4:
		for i, x := range v {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(x))
		}
	}
}

func fill(v []int64, x int64) {
	for i := range v {
		v[i] = x
	}
}

func evalLoad(c *call) error {
	unpack(c.dst.Elem, c.out, c.mem)
	return nil
}

func evalLoadSplat(c *call) error {
	unpack(c.dst.Elem, c.out[:1], c.mem)
	fill(c.out, c.out[0])
	return nil
}

func evalStore(c *call) error {
	pack(c.typ[0].Elem, c.mem, c.arg[0])
	return nil
}

func evalNothing(*call) error { return nil }

func evalSplat(c *call) error {
	fill(c.out, c.in.Imm)
	wrap(c.dst.Elem, c.out)
	return nil
}

func evalLane(c *call) error {
	fill(c.out, int64(*c.lane))
	return nil
}

func evalBitcast(c *call) error {
	from, to := c.typ[0].Elem.Bits(), c.dst.Elem.Bits()
	switch {
	case from == to:
		copy(c.out, c.arg[0])
	case from < to:
		r, mask := to/from, int64(1)<<from-1
		for i := range c.out {
			var x int64
			for j, a := range c.arg[0][r*i : r*i+r] {
				x |= a & mask << (j * from)
			}
			c.out[i] = x
		}
	default:
		r := from / to
		for i, a := range c.arg[0] {
			for j := range r {
				c.out[r*i+j] = a >> (j * to)
			}
		}
	}
	wrap(c.dst.Elem, c.out)
	return nil
}

func evalHalf(c *call) error {
	copy(c.out, c.arg[0][int(c.in.Imm)*c.dst.Lanes:])
	return nil
}

func evalJoin(c *call) error {
	copy(c.out[copy(c.out, c.arg[0]):], c.arg[1])
	return nil
}

func evalUnzip(c *call) error {
	both := slices.Concat(c.arg[0], c.arg[1])
	for i := range c.out {
		c.out[i] = both[2*i+int(c.in.Imm)]
	}
	return nil
}

func evalSpread(c *call) error {
	for i := range c.out {
		c.out[i] = c.arg[0][c.in.Imm]
	}
	return nil
}

func evalSplatLane(c *call) error {
	fill(c.out, c.arg[0][0])
	return nil
}

func evalTile(c *call) error {
	for i := 0; i < len(c.out); i += len(c.arg[0]) {
		copy(c.out[i:], c.arg[0])
	}
	return nil
}

// lanes1 is the meaning of a unary operation on integers, lane by lane, wrapping.
func lanes1(f func(a int64, in *Instr, d format.DType) int64) func(*call) error {
	return func(c *call) error {
		for i, a := range c.arg[0] {
			c.out[i] = f(a, c.in, c.dst.Elem)
		}
		wrap(c.dst.Elem, c.out)
		return nil
	}
}

// lanes2 is the meaning of a binary operation on integers, lane by lane, wrapping.
func lanes2(f func(a, b int64) int64) func(*call) error {
	return func(c *call) error {
		b := c.arg[1]
		for i, a := range c.arg[0] {
			c.out[i] = f(a, b[i])
		}
		wrap(c.dst.Elem, c.out)
		return nil
	}
}

// lanes3 is the meaning of an operation that selects by the top bits of its first
// argument, lane by lane, wrapping.
func lanes3(f func(top bool, b, c int64) int64) func(*call) error {
	return func(c *call) error {
		top := c.dst.Elem.Bits() - 1
		for i, a := range c.arg[0] {
			c.out[i] = f(a>>top&1 != 0, c.arg[1][i], c.arg[2][i])
		}
		wrap(c.dst.Elem, c.out)
		return nil
	}
}

func selMSB(top bool, b, c int64) int64 {
	if top {
		return b
	}
	return c
}

func subMSB(top bool, b, c int64) int64 {
	if top {
		return b - c
	}
	return c
}

// arith is the meaning of a binary operation that is n on integers, wrapping,
// and f on f32. Each result of f is a float32, so it is rounded once.
func arith(n func(a, b int64) int64, f func(a, b float32) float32) func(*call) error {
	onInts := lanes2(n)
	return func(c *call) error {
		if c.dst.Elem != f32 {
			return onInts(c)
		}
		b := c.arg[1]
		for i, a := range c.arg[0] {
			c.out[i] = bitsOf(f(floatOf(a), floatOf(b[i])))
		}
		return nil
	}
}

func andBits(a, b int64) int64    { return a & b }
func orBits(a, b int64) int64     { return a | b }
func xorBits(a, b int64) int64    { return a ^ b }
func andNotBits(a, b int64) int64 { return a &^ b }
func addInt(a, b int64) int64     { return a + b }
func subInt(a, b int64) int64     { return a - b }
func mulInt(a, b int64) int64     { return a * b }
func addSat(a, b int64) int64     { return min(a+b, math.MaxUint8) }
func subSat(a, b int64) int64     { return max(a-b, 0) }
func minInt(a, b int64) int64     { return min(a, b) }
func maxInt(a, b int64) int64     { return max(a, b) }
func signInt(a, b int64) int64    { return a * int64(cmp.Compare(b, 0)) }

// average is rounded up from the middle between two integers.
func average(a, b int64) int64 { return (a + b + 1) >> 1 }

func addFloat(a, b float32) float32 { return a + b }
func subFloat(a, b float32) float32 { return a - b }
func mulFloat(a, b float32) float32 { return a * b }
func divFloat(a, b float32) float32 { return a / b }

func maxFloat(a, b float32) float32 {
	if a > b {
		return a
	}
	return b
}

func minFloat(a, b float32) float32 {
	if a < b {
		return a
	}
	return b
}

func floatOf(lane int64) float32 { return math.Float32frombits(uint32(lane)) }
func bitsOf(f float32) int64     { return int64(math.Float32bits(f)) }

func evalBitSel(c *call) error {
	mask, b, d := c.arg[0], c.arg[1], c.arg[2]
	for i, m := range mask {
		c.out[i] = m&b[i] | d[i]&^m
	}
	return nil
}

func shl(a int64, in *Instr, _ format.DType) int64 { return a << in.Imm }

func shrU(a int64, in *Instr, d format.DType) int64 {
	return a & (1<<d.Bits() - 1) >> in.Imm
}

func shrS(a int64, in *Instr, d format.DType) int64 {
	up := 64 - d.Bits()
	return a << up >> up >> in.Imm
}

func abs(a int64, _ *Instr, _ format.DType) int64 { return max(a, -a) }

func same1(a int64, _ *Instr, _ format.DType) int64 { return a }

func cmpGt(a, b int64) int64 {
	if a > b {
		return -1
	}
	return 0
}

func evalDot4(c *call) error {
	for i, s := range c.arg[0] {
		a, b := c.arg[1][4*i:4*i+4], c.arg[2][4*i:4*i+4]
		c.out[i] = int64(int32(s + a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3]))
	}
	return nil
}

func evalDot4Unit(c *call) error {
	b := c.arg[2][4*c.in.Imm : 4*c.in.Imm+4]
	for i, s := range c.arg[0] {
		a := c.arg[1][4*i : 4*i+4]
		c.out[i] = int64(int32(s + a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3]))
	}
	return nil
}

func evalMMLA(c *call) error {
	for i, sum := range c.arg[0] {
		a, b := c.arg[1][i/2*8:], c.arg[2][i%2*8:]
		for k := range 8 {
			sum += a[k] * b[k]
		}
		c.out[i] = int64(int32(sum))
	}
	return nil
}

func evalDot2Wrap(c *call) error {
	for i := range c.out {
		a, b := c.arg[0][2*i:2*i+2], c.arg[1][2*i:2*i+2]
		c.out[i] = int64(int32(a[0]*b[0] + a[1]*b[1]))
	}
	return nil
}

func evalDot2(c *call) error {
	for i, s := range c.arg[0] {
		a, b := c.arg[1][2*i:2*i+2], c.arg[2][2*i:2*i+2]
		c.out[i] = int64(int32(s + a[0]*b[0] + a[1]*b[1]))
	}
	return nil
}

func evalDot2Sat(c *call) error {
	for i := range c.out {
		a, b := c.arg[0][2*i:2*i+2], c.arg[1][2*i:2*i+2]
		c.out[i] = min(max(a[0]*b[0]+a[1]*b[1], math.MinInt16), math.MaxInt16)
	}
	return nil
}

func evalMulWide(c *call) error {
	first := int(c.in.Imm) * len(c.out)
	for i := range c.out {
		c.out[i] = c.arg[0][first+i] * c.arg[1][first+i]
	}
	return nil
}

func evalDot1(c *call) error {
	first := int(c.in.Imm) * len(c.out)
	for i, s := range c.arg[0] {
		c.out[i] = s + c.arg[1][first+i]*c.arg[2][first+i]
	}
	wrap(c.dst.Elem, c.out)
	return nil
}

func evalAddPairs(c *call) error {
	all := slices.Concat(c.arg[0], c.arg[1])
	for i := range c.out {
		c.out[i] = all[2*i] + all[2*i+1]
	}
	wrap(c.dst.Elem, c.out)
	return nil
}

func evalSum2(c *call) error {
	for i, s := range c.arg[0] {
		c.out[i] = int64(int32(s + c.arg[1][2*i] + c.arg[1][2*i+1]))
	}
	return nil
}

func evalCvtF32(c *call) error {
	for i, a := range c.arg[0] {
		c.out[i] = bitsOf(float32(a))
	}
	return nil
}

func evalCvtI32(c *call) error {
	for i, a := range c.arg[0] {
		f := floatOf(a)
		x := math.RoundToEven(float64(f))
		if !(x >= math.MinInt32 && x <= math.MaxInt32) { // NaN too
			return fmt.Errorf("lane %d: %v is no i32", i, f)
		}
		c.out[i] = int64(x)
	}
	return nil
}

func evalCvtHalf(c *call) error {
	for i, a := range c.arg[0] {
		c.out[i] = bitsOf(format.HalfToFloat32(uint16(a)))
	}
	return nil
}

func evalCanonNaN(c *call) error {
	for i, a := range c.arg[0] {
		if a&0x7fffffff > 0x7f800000 {
			a = 0x7fc00000
		}
		c.out[i] = a
	}
	return nil
}

func evalCvtF16(c *call) error {
	for i, a := range c.arg[0] {
		c.out[i] = int64(format.HalfFromFloat32(floatOf(a)))
	}
	return nil
}

func evalCmpGtF(c *call) error {
	for i, a := range c.arg[0] {
		c.out[i] = 0
		if floatOf(a) > floatOf(c.arg[1][i]) {
			c.out[i] = -1
		}
	}
	return nil
}

func evalRedAdd(c *call) error {
	n := len(c.arg[0]) / len(c.out)
	for i := range c.out {
		var s int64
		for _, a := range c.arg[0][i*n : (i+1)*n] {
			s += a
		}
		c.out[i] = int64(int32(s))
	}
	return nil
}

func evalRedMaxS(c *call) error {
	n := len(c.arg[0]) / len(c.out)
	for i := range c.out {
		c.out[i] = slices.Max(c.arg[0][i*n : (i+1)*n])
	}
	return nil
}

// evalLookup looks up in tables of n entries, one per n lanes.
func evalLookup(n int) func(*call) error {
	return func(c *call) error {
		table := c.arg[1]
		for i, a := range c.arg[0] {
			if a >= int64(n) {
				return fmt.Errorf("lane %d: index %d of a table of %d", i, a, n)
			}
			c.out[i] = table[i&-n+int(a)]
		}
		return nil
	}
}

// evalLookupMod is evalLookup of the index modulo n.
func evalLookupMod(n int) func(*call) error {
	return func(c *call) error {
		table := c.arg[1]
		for i, a := range c.arg[0] {
			c.out[i] = table[i&-n+int(a)&(n-1)]
		}
		return nil
	}
}

// evalLookupPair looks up in the lanes of two registers.
func evalLookupPair(c *call) error {
	table := slices.Concat(c.arg[1], c.arg[2])
	for i, a := range c.arg[0] {
		c.out[i] = table[int(a)&(len(table)-1)]
	}
	return nil
}
