package device

import (
	"encoding/binary"

	"github.com/tmacc/tmacc/runtime/vulkan"
)

// What modules ask of floats: the execution modes and their capabilities have numbers in the same order.
const (
	opExecutionMode = 16
	opCapability    = 17
	firstControl    = 4464 // the capability DenormPreserve
	firstMode       = 4459
	controls        = 5
)

// differ are the floats that may have other bits on a device without the control.
var differ = [controls]string{"very small ones", "very small ones", "zeros, infinities and NaNs", "rounded ones", "rounded ones"}

// fitted is a module without the controls of floats that d lacks. These floats are then the device's choice, without says which.
func fitted(code []byte, d *vulkan.Device) (fit []byte, without []string) {
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(code[4*at:]) }
	lacks := func(at int) bool {
		switch word(at) {
		case 2<<16 | opCapability:
			n := word(at + 1)
			return n >= firstControl && n < firstControl+controls && !has(d, 32, n-firstControl) && !has(d, 16, n-firstControl)
		case 4<<16 | opExecutionMode:
			n := word(at + 2)
			return n >= firstMode && n < firstMode+controls && !has(d, int(word(at+3)), n-firstMode)
		}
		return false
	}
	const header = 5
	out := code[: 4*header : 4*header]
	for at := header; at < len(code)/4; {
		n := int(word(at) >> 16)
		if n == 0 || at+n > len(code)/4 {
			return code, nil // no module: who compiles it says so
		}
		switch {
		case !lacks(at):
			out = append(out, code[4*at:4*(at+n)]...)
		case word(at) == 4<<16|opExecutionMode:
			without = append(without, differ[word(at+2)-firstMode])
		}
		at += n
	}
	return out, without
}

// has says that d has a control of floats of some bits.
func has(d *vulkan.Device, bits int, control uint32) bool {
	c := d.FloatControls[bits]
	return []bool{c.PreserveDenormals, c.FlushDenormals, c.PreserveSpecials, c.RoundToEven, c.RoundToZero}[control]
}
