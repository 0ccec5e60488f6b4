package device

import (
	"encoding/binary"

	"github.com/tmacc/tmacc/runtime/vulkan"
)

// What modules ask of floats of 32 bits: the execution modes and their capabilities have the same numbers, in this order.
const (
	opExecutionMode = 16
	opCapability    = 17
	firstControl    = 4464 // the capability DenormPreserve
	firstMode       = 4459
	floatBits       = 32
)

// fitted is a module without the controls of floats that d lacks. What floats are then that are no numbers, very small or rounded is the device's.
func fitted(code []byte, d *vulkan.Device) []byte {
	c := d.FloatControls[floatBits]
	has := []bool{c.PreserveDenormals, c.FlushDenormals, c.PreserveSpecials, c.RoundToEven, c.RoundToZero}
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(code[4*at:]) }
	lacks := func(n, first uint32) bool { return n >= first && n < first+uint32(len(has)) && !has[n-first] }
	const header = 5
	out := code[: 4*header : 4*header]
	for at := header; at < len(code)/4; {
		n := int(word(at) >> 16)
		if n == 0 || at+n > len(code)/4 {
			return code // no module: who compiles it says so
		}
		op := word(at) & 0xffff
		if !(op == opCapability && n == 2 && lacks(word(at+1), firstControl)) && !(op == opExecutionMode && n == 4 && lacks(word(at+2), firstMode)) {
			out = append(out, code[4*at:4*(at+n)]...)
		}
		at += n
	}
	return out
}
