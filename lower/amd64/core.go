package amd64

import "github.com/tmacc/tmacc/lower"

// core is a processor core. Each has a file of its own, named after it, and a line in cores.
type core struct {
	lower.Core
	isa string // whose instructions kernels for it have: "avx512vbmi"
	// cost is what an instruction of a class takes at so many bits, in tenths of a cycle, and how
	// long it keeps sets of units busy (lower.Row.Busy); nil if the core does not tell.
	cost func(c class, bits int) (tenths int, busy []int)
}

// ordinary is the core whose costs and memory stand for CPUs that no other row describes.
var ordinary = goldenCove

// cores are the other ones, in the order in which their targets are listed.
var cores = []core{zen2, zen5, zen4}

// class is a kind of instructions that take equally long. Cores have a cost for each.
type class int

const (
	free        class = iota // no instruction
	alu                      // logic and addition of integers
	select3                  // logic of three operands
	compare                  // minimum, absolute value and comparison
	shift                    // by a constant
	multi                    // products of 8 and 16 bits, dot products
	mul32                    // products of 32-bit integers
	shuffle                  // within 128 bits
	permute                  // across 128 bits
	permuteByte              // of bytes, across 128 bits
	permutes                 // of two registers, of which the index must be copied first
	bytePairs                // the same of bytes
	toFloat                  // 16-bit to 32-bit floats
	floatAdd                 // and conversions
	floatMul
	floatFMA // of an operand from memory
	divide
	load
	splat      // load of 32 bits for all lanes
	splatBytes // load of fewer
	store
	toMask // compare into a mask register, and the mask back
	narrow // lanes of fewer bits
	blend  // by top bits
	numClasses
)

// figure is the reciprocal throughput of a class, in tenths of a cycle, and the units that it
// runs on.
type figure struct {
	tenths int
	on     units
}

// units are some of a core's four that compute on vectors, as those of Zen 4 and 5 are: those for
// permutations are one of the two for products and one of the two for shifts.
type units int

const (
	anyUnit units = iota
	products
	shifts
	permutations
)

// busy is how long each of some sets of units is busy with an instruction: all, those for products,
// for shifts, and for permutations. One on two units keeps all busy for as long as an instruction
// that runs on any does, and one for permutations takes shared of what others want too.
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
