package arm64

import "github.com/tmacc/tmacc/lower/core"

// ordinary is the core whose costs and memory stand for CPUs that no other core names.
var ordinary = neoverseN1

// cores are the other ones. Each has a file of its own that is named after it.
var cores = []core.Core{}

// The classes of instructions. Each core has a cost for every one of them but free.
const (
	free          core.Class = "" // no instruction, or a move between registers
	logic         core.Class = "logic"
	choose        core.Class = "select" // bits of one register or another
	add           core.Class = "add"
	compare       core.Class = "compare" // minimum, absolute value and comparison
	average       core.Class = "average"
	saturate      core.Class = "saturate" // additions that saturate
	shift         core.Class = "shift"    // by a constant
	multiply      core.Class = "multiply"
	multiplyBytes core.Class = "multiply_bytes" // to 16 bits, also with an addition
	dot           core.Class = "dot"            // sums of four products of bytes
	matrix        core.Class = "matrix"         // products of matrices of bytes
	addPairs      core.Class = "add_pairs"      // of lanes that lie side by side
	sumPairs      core.Class = "sum_pairs"      // the same, of 16 bits into 32
	across        core.Class = "across"         // sum or maximum of all lanes
	widen         core.Class = "widen"          // lanes of more bits
	narrow        core.Class = "narrow"         // lanes of fewer bits
	lookup        core.Class = "lookup"         // of bytes in a register
	permute       core.Class = "permute"        // copies and interleaved lanes
	toFloat       core.Class = "to_float"       // 16-bit to 32-bit floats, and back
	convert       core.Class = "convert"        // integers to floats, and back
	floatAdd      core.Class = "float_add"
	floatMul      core.Class = "float_multiply"
	divide        core.Class = "divide"
	immediate     core.Class = "immediate" // a number for all lanes
	load          core.Class = "load"
	loadSplat     core.Class = "load_splat" // for all lanes
	store         core.Class = "store"
	prefetch      core.Class = "prefetch"
)

// classes are all of them but free.
var classes = []core.Class{
	logic, choose, add, compare, average, saturate, shift, multiply, multiplyBytes, dot, matrix, addPairs, sumPairs, across,
	widen, narrow, lookup, permute, toFloat, convert, floatAdd, floatMul, divide, immediate, load, loadSplat, store, prefetch,
}
