package format

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Error is a caller's fault: the thing that is wrong, the problem and,
// where there is one, the remedy. It prints on one line.
type Error struct {
	Thing   string // "weight w9", "row 3, block 7", "argument scales"
	Problem string
}

func (e *Error) Error() string { return "format: " + e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// MarshalText writes d as it prints: "f16".
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes, except for Invalid.
func (d *DType) UnmarshalText(text []byte) error {
	for i := U8; int(i) < len(dtypes); i++ {
		if dtypes[i].name == string(text) {
			*d = i
			return nil
		}
	}
	return errorf(fmt.Sprintf("type %q", text), "unknown; there are u8, i8, u16, i16, u32, i32, f16, bf16 and f32")
}

// Put stores a number that d holds exactly.
func (d DType) Put(to []byte, v float32) {
	switch d {
	case U8, I8:
		to[0] = byte(int32(v))
	case F16:
		binary.LittleEndian.PutUint16(to, HalfFromFloat32(v))
	case BF16:
		binary.LittleEndian.PutUint16(to, uint16(math.Float32bits(v)>>16))
	case F32:
		binary.LittleEndian.PutUint32(to, math.Float32bits(v))
	default:
		panic("BUG: format: no number is stored as " + d.String())
	}
}

// Get is the number that Put stored.
func (d DType) Get(from []byte) float32 {
	switch d {
	case U8:
		return float32(from[0])
	case I8:
		return float32(int8(from[0]))
	case F16:
		return HalfToFloat32(binary.LittleEndian.Uint16(from))
	case BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(from)) << 16)
	case F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(from))
	}
	panic("BUG: format: no number is stored as " + d.String())
}

// Round is the number nearest to v that d holds, ties to even, and of integers
// the nearest within their range. Of BF16, a number beyond the range becomes infinite.
func (d DType) Round(v float32) float32 {
	switch d {
	case U8:
		return float32(math.RoundToEven(float64(min(max(v, 0), 255)))) + 0 // no -0
	case I8:
		return float32(math.RoundToEven(float64(min(max(v, -128), 127)))) + 0
	case F16:
		return HalfToFloat32(HalfFromFloat32(v))
	case BF16:
		u := math.Float32bits(v)
		return math.Float32frombits((u + 0x7fff + u>>16&1) &^ 0xffff)
	}
	return v
}

// holds reports whether d holds v exactly: a zero of integers is positive.
func (d DType) holds(v float32) bool {
	if least, most, ok := d.integers(); ok {
		return isInteger(v, least, most)
	}
	return d == F32 || math.Float32bits(d.Round(v)) == math.Float32bits(v)
}

// integers are the least and the most of a type of integers that numbers are stored in.
func (d DType) integers() (least, most int, ok bool) {
	switch d {
	case U8:
		return 0, 255, true
	case I8:
		return -128, 127, true
	}
	return 0, 0, false
}

// isInteger reports whether v is an integer of a range, and no negative zero.
func isInteger(v float32, least, most int) bool {
	n := int32(v)
	return math.Float32bits(float32(n)) == math.Float32bits(v) && int(n) >= least && int(n) <= most
}

var pers = [...]string{PerTensor: "tensor", PerRow: "row", PerGroup: "group"}

func (p Per) String() string {
	if int(p) >= len(pers) {
		return fmt.Sprintf("Per(%d)", uint8(p))
	}
	return pers[p]
}

// MarshalText writes p as it prints: "group".
func (p Per) MarshalText() ([]byte, error) {
	if int(p) >= len(pers) {
		return nil, errorf(p.String(), "no such scale granularity")
	}
	return []byte(pers[p]), nil
}

// UnmarshalText reads what MarshalText writes.
func (p *Per) UnmarshalText(text []byte) error {
	for i, name := range pers {
		if name == string(text) {
			*p = Per(i)
			return nil
		}
	}
	return errorf(fmt.Sprintf("per %q", text), "unknown; a scale is per tensor, row or group")
}
