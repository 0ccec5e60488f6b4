package ops

import (
	"encoding/binary"
	"math"

	"github.com/tmacc/tmacc/ir/format"
)

// Elem is the type of the elements of panels.
type Elem uint8

// The types of elements: all are little endian. A BF16 is the upper half of an F32. An I8 is an integer, whose scale is elsewhere.
const (
	F32 Elem = iota
	F16
	BF16
	I8
)

// Bytes is the size of an element.
func (e Elem) Bytes() int {
	switch e {
	case F32:
		return 4
	case I8:
		return 1
	}
	return 2
}

// String is the name of e in GGUF files.
func (e Elem) String() string { return [...]string{"F32", "F16", "BF16", "I8"}[e] }

func (e Elem) load(from []byte) float32 {
	switch e {
	case F16:
		return format.HalfToFloat32(binary.LittleEndian.Uint16(from))
	case I8:
		return float32(int8(from[0]))
	case BF16:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(from)) << 16)
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(from))
}

// LoadRow is the inverse of StoreRow: dst gets neighbouring elements.
func LoadRow(dst []float32, src []byte, e Elem) {
	for i := range dst {
		dst[i] = e.load(src[i*e.Bytes():])
	}
}

// LoadLane is the inverse of StoreK: dst gets one lane of a panel of len(dst) rows.
func LoadLane(dst []float32, panel []byte, e Elem, lane int) {
	for i := range dst {
		dst[i] = e.load(panel[(i*Panel+lane)*e.Bytes():])
	}
}

// Finite reports whether x has neither infinities nor NaNs.
func Finite(x []float32) bool {
	for _, v := range x {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}
