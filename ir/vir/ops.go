package vir

import (
	"fmt"

	"github.com/tmacc/tmacc/ir/format"
)

// opInfo is the row of an operation: everything the package knows about it.
type opInfo struct {
	name   string
	args   int
	result bool
	mem    bool // Instr.Mem is its address
	imm    bool // Instr.Imm counts
	typ    rule
	eval   func(*call) error // sets call.out (a store: call.mem)
	bound  bound             // nil: nothing is known
	table  int               // lookups: the number of entries of a table
	mod    bool              // lookups: only the low bits of the index count
	dot    bool              // it sums products
}

// lookupInfo is the row of the lookup in tables of n entries.
func lookupInfo(n int, mod bool) opInfo {
	name, eval := fmt.Sprintf("lookup%d", n), evalLookup(n)
	if mod {
		name, eval = name+"mod", evalLookupMod(n)
	}
	return opInfo{name: name, args: 2, result: true, typ: lookup(n), eval: eval, bound: boundArg1, table: n, mod: mod}
}

var ops = [opEnd]opInfo{
	OpLoad:         {name: "load", result: true, mem: true, typ: anyType(0), eval: evalLoad},
	OpLoadSplat:    {name: "loadsplat", result: true, mem: true, typ: anyType(0), eval: evalLoadSplat},
	OpStore:        {name: "store", args: 1, mem: true, typ: stored, eval: evalStore},
	OpPrefetch:     {name: "prefetch", mem: true, typ: noTypes, eval: evalNothing},
	OpPrefetch2:    {name: "prefetch2", mem: true, typ: noTypes, eval: evalNothing},
	OpConst:        {name: "const", result: true, imm: true, typ: anyType(0), eval: evalLoad},
	OpSplat:        {name: "splat", result: true, imm: true, typ: anyType(0), eval: evalSplat},
	OpBitcast:      {name: "bitcast", args: 1, result: true, typ: sameBits, eval: evalBitcast, bound: boundBitcast},
	OpHalf:         {name: "half", args: 1, result: true, imm: true, typ: halfLanes, eval: evalHalf, bound: boundArg0},
	OpJoin:         {name: "join", args: 2, result: true, typ: twiceLanes, eval: evalJoin, bound: boundUnion},
	OpSplatLane:    {name: "splatlane", args: 1, result: true, typ: fromLane, eval: evalSplatLane, bound: boundArg0},
	OpTile:         {name: "tile", args: 1, result: true, typ: tiled, eval: evalTile, bound: boundArg0},
	OpUnzip:        {name: "unzip", args: 2, result: true, imm: true, typ: anyType(2), eval: evalUnzip, bound: boundUnion},
	OpSpread:       {name: "spread", args: 1, result: true, imm: true, typ: spread, eval: evalSpread, bound: boundArg0},
	OpAnd:          {name: "and", args: 2, result: true, typ: anyType(2), eval: lanes2(andBits), bound: boundAnd},
	OpOr:           {name: "or", args: 2, result: true, typ: anyType(2), eval: lanes2(orBits), bound: boundOr},
	OpXor:          {name: "xor", args: 2, result: true, typ: anyType(2), eval: lanes2(xorBits), bound: boundOr},
	OpAndNot:       {name: "andnot", args: 2, result: true, typ: anyType(2), eval: lanes2(andNotBits), bound: boundAndNot},
	OpBitSel:       {name: "bitsel", args: 3, result: true, typ: anyType(3), eval: evalBitSel, bound: boundBitSel},
	OpShl:          {name: "shl", args: 1, result: true, imm: true, typ: same(1, ints), eval: lanes1(shl), bound: boundShl},
	OpShrU:         {name: "shru", args: 1, result: true, imm: true, typ: same(1, ints), eval: lanes1(shrU), bound: boundShrU},
	OpShrS:         {name: "shrs", args: 1, result: true, imm: true, typ: same(1, ints), eval: lanes1(shrS), bound: boundShrS},
	OpAdd:          {name: "add", args: 2, result: true, typ: same(2, addTypes), eval: arith(addInt, addFloat), bound: boundAdd},
	OpSub:          {name: "sub", args: 2, result: true, typ: same(2, addTypes), eval: arith(subInt, subFloat), bound: boundSub},
	OpMul:          {name: "mul", args: 2, result: true, typ: same(2, mulTypes), eval: arith(mulInt, mulFloat), bound: boundMul},
	OpDiv:          {name: "div", args: 2, result: true, typ: same(2, []format.DType{f32}), eval: arith(nil, divFloat)},
	OpMinS:         {name: "mins", args: 2, result: true, typ: same(2, signed), eval: lanes2(minInt), bound: boundMin},
	OpMaxS:         {name: "maxs", args: 2, result: true, typ: same(2, signed), eval: lanes2(maxInt), bound: boundMax},
	OpAbs:          {name: "abs", args: 1, result: true, typ: same(1, signed), eval: lanes1(abs), bound: boundAbs},
	OpSign:         {name: "sign", args: 2, result: true, typ: same(2, []format.DType{i8}), eval: lanes2(signInt), bound: boundSign},
	OpAvgU:         {name: "avgu", args: 2, result: true, typ: same(2, []format.DType{u8, u16}), eval: lanes2(average), bound: boundAverage},
	OpAvgS:         {name: "avgs", args: 2, result: true, typ: same(2, []format.DType{i8, i16}), eval: lanes2(average), bound: boundAverage},
	OpCmpGtS:       {name: "cmpgts", args: 2, result: true, typ: same(2, signed), eval: lanes2(cmpGt), bound: boundCmp},
	OpSelMSB:       {name: "selmsb", args: 3, result: true, typ: anyType(3), eval: lanes3(selMSB), bound: boundArgs12},
	OpAddSat:       {name: "addsat", args: 2, result: true, typ: same(2, []format.DType{u8}), eval: lanes2(addSat), bound: boundAddSat},
	OpSubSat:       {name: "subsat", args: 2, result: true, typ: same(2, []format.DType{u8}), eval: lanes2(subSat), bound: boundSubSat},
	OpSubMSB:       {name: "submsb", args: 3, result: true, typ: same(3, ints), eval: lanes3(subMSB), bound: boundSubMSB},
	OpWiden:        {name: "widen", args: 1, result: true, typ: widened, eval: lanes1(same1), bound: boundArg0},
	OpTrunc:        {name: "trunc", args: 1, result: true, typ: truncated, eval: lanes1(same1), bound: boundArg0},
	OpDot4:         {name: "dot4", args: 3, result: true, typ: dot4, eval: evalDot4, bound: boundDot(4), dot: true},
	OpDot4Unit:     {name: "dot4unit", args: 3, result: true, imm: true, typ: dot4unit, eval: evalDot4Unit, bound: boundDot(4), dot: true},
	OpDot2Wrap:     {name: "dot2wrap", args: 2, result: true, typ: dot2wrap, eval: evalDot2Wrap, bound: boundDot2Wrap, dot: true},
	OpDot2:         {name: "dot2", args: 3, result: true, typ: dot2, eval: evalDot2, bound: boundDot(2), dot: true},
	OpDot2Sat:      {name: "dot2sat", args: 2, result: true, typ: dot2sat, eval: evalDot2Sat, bound: boundDot2Sat, dot: true},
	OpMulWide:      {name: "mulwide", args: 2, result: true, imm: true, typ: mulwide, eval: evalMulWide, bound: boundMul},
	OpDot1:         {name: "dot1", args: 3, result: true, imm: true, typ: dot1, eval: evalDot1, bound: boundDot(1), dot: true},
	OpAddPairs:     {name: "addpairs", args: 2, result: true, typ: pairs, eval: evalAddPairs, bound: boundAddPairs},
	OpSum2:         {name: "sum2", args: 2, result: true, typ: sum2, eval: evalSum2, bound: boundSum2},
	OpCvtF32:       {name: "cvtf32", args: 1, result: true, typ: converted(f32, i32), eval: evalCvtF32},
	OpCvtI32:       {name: "cvti32", args: 1, result: true, typ: converted(i32, f32), eval: evalCvtI32},
	OpCvtHalf:      {name: "cvthalf", args: 1, result: true, typ: converted(f32, f16), eval: evalCvtHalf},
	OpCanonNaN:     {name: "canonnan", args: 1, result: true, typ: same(1, []format.DType{f32}), eval: evalCanonNaN},
	OpRedAdd:       {name: "redadd", args: 1, result: true, typ: toLanes, eval: evalRedAdd, bound: boundRedAdd},
	OpRedMaxS:      {name: "redmaxs", args: 1, result: true, typ: toLanes, eval: evalRedMaxS, bound: boundArg0},
	OpMMLA:         {name: "mmla", args: 3, result: true, typ: mmla, eval: evalMMLA, bound: boundDot(8), dot: true},
	OpLookup8:      lookupInfo(8, false),
	OpLookup8Mod:   lookupInfo(8, true),
	OpLookup16:     lookupInfo(16, false),
	OpLookup16Mod:  lookupInfo(16, true),
	OpLookup32:     lookupInfo(32, false),
	OpLookup32Mod:  lookupInfo(32, true),
	OpLookup64:     lookupInfo(64, false),
	OpLookup64Mod:  lookupInfo(64, true),
	OpLookup128:    lookupInfo(128, false),
	OpLookup128Mod: lookupInfo(128, true),
	OpLookupPair:   {name: "lookuppair", args: 3, result: true, typ: pairLookup, eval: evalLookupPair, bound: boundArgs12},
}

// Ops lists all operations in their order.
func Ops() []Op {
	var all []Op
	for op := OpInvalid + 1; op < opEnd; op++ {
		all = append(all, op)
	}
	return all
}

func (op Op) valid() bool { return op > OpInvalid && op < opEnd }

// String is the name of op in text: "lookup16".
func (op Op) String() string {
	if !op.valid() {
		return fmt.Sprintf("Op(%d)", uint8(op))
	}
	return ops[op].name
}

// NumArgs is the number of register arguments of op, folded ones included.
func (op Op) NumArgs() int { return ops[op].args }

// HasResult says whether op defines Instr.Dst.
func (op Op) HasResult() bool { return ops[op].result }

// HasMem says whether Instr.Mem is the address op works on. Of the others, an
// instruction with a folded argument may have one, see Instr.HasMem.
func (op Op) HasMem() bool { return ops[op].mem }

// HasImm says whether op uses Instr.Imm.
func (op Op) HasImm() bool { return ops[op].imm }

// Pure says that op neither touches memory nor has an effect but its result: two
// instructions with equal arguments, without Fold, are interchangeable.
func (op Op) Pure() bool { return ops[op].result && !ops[op].mem }

// Entries is the number of entries of the tables of a lookup, 0 for operations
// that have none.
func (op Op) Entries() int { return ops[op].table }

// Mod says that op is a lookup by the low bits of its index.
func (op Op) Mod() bool { return ops[op].mod }

// IsLookup says that op looks up in tables.
func (op Op) IsLookup() bool { return op.Entries() > 0 || op == OpLookupPair }

// IsDot says that op sums products.
func (op Op) IsDot() bool { return ops[op].dot }

// Lookup is the lookup in tables of n entries, by the low bits of the index if
// mod is set; OpInvalid if there is none.
func Lookup(n int, mod bool) Op {
	for op := range opEnd {
		if n > 0 && ops[op].table == n && ops[op].mod == mod {
			return op
		}
	}
	return OpInvalid
}
