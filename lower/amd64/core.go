package amd64

import "github.com/tmacc/tmacc/lower/core"

// ordinary is the core whose costs and memory stand for CPUs that no other core names.
var ordinary = goldenCove

// cores are the other ones. Each has a file of its own that is named after it.
var cores = []core.Core{
	lionCove,
	zen2,
	zen4,
	zen5,
}

// The classes of instructions. Each core has a cost for every one of them but free.
const (
	free        core.Class = ""              // no instruction
	alu         core.Class = "alu"           // logic and addition of integers
	select3     core.Class = "select3"       // logic of three operands
	compare     core.Class = "compare"       // minimum, absolute value and comparison
	shift       core.Class = "shift"         // by a constant
	multi       core.Class = "multiply"      // products of 8 and 16 bits, dot products
	mul32       core.Class = "multiply32"    // products of 32-bit integers
	shuffle     core.Class = "shuffle"       // within 128 bits
	permute     core.Class = "permute"       // across 128 bits
	permuteByte core.Class = "permute_bytes" // of bytes, across 128 bits
	permuteWord core.Class = "permute_words" // of 16 bits, across 128 bits
	permutes    core.Class = "permute2"      // of two registers, where the index must be copied first
	bytePairs   core.Class = "permute2_bytes"
	toFloat     core.Class = "to_float"  // 16-bit to 32-bit floats, and back
	floatAdd    core.Class = "float_add" // and conversions
	floatMul    core.Class = "float_multiply"
	floatFMA    core.Class = "float_fma" // of an operand from memory
	divide      core.Class = "divide"
	load        core.Class = "load"
	splat       core.Class = "splat"       // load of 32 bits for all lanes
	splatBytes  core.Class = "splat_bytes" // load of fewer
	store       core.Class = "store"
	toMask      core.Class = "mask"   // compare into a mask register, and the mask back
	narrow      core.Class = "narrow" // lanes of fewer bits
	blend       core.Class = "blend"  // by top bits
)

// classes are all of them but free.
var classes = []core.Class{
	alu, select3, compare, shift, multi, mul32, shuffle, permute, permuteByte, permuteWord, permutes, bytePairs, toFloat,
	floatAdd, floatMul, floatFMA, divide, load, splat, splatBytes, store, toMask, narrow, blend,
}

// figure is the reciprocal throughput of a class, in tenths of a cycle, and the units that it runs on.
type figure struct {
	tenths int
	on     units
	// Latency and ports as core.Cost has them. The unit of a port is 256 bits on a core that computes on registers of 512 bits by half.
	latency int
	ports   string
}

// units are some of a core's four units that compute on vectors. Two of the four multiply, the other two shift. The
// units for permutations are one of each pair.
type units int

const (
	anyUnit units = iota
	products
	shifts
	permutations
)

// busy is how long each of some sets of units is busy with an instruction: all, those for products, for shifts, and
// for permutations. An instruction on two units keeps all of them busy for as long as one that runs on any, which is
// one, and a permutation takes shared of the time of the units for products and for shifts.
func (f figure) busy(one, shared int) []int {
	all := min(f.tenths, one)
	switch f.on {
	case products:
		return []int{all, f.tenths, 0, 0}
	case shifts:
		return []int{all, 0, f.tenths, 0}
	case permutations:
		return []int{all, shared, shared, f.tenths}
	}
	return []int{f.tenths, 0, 0, 0}
}
