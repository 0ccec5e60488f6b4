package vir

import "fmt"

// opInfo is the row of an operation: everything the package knows about it.
type opInfo struct {
	name   string
	args   int
	result bool
	mem    bool // Instr.Mem is its address
	imm    bool // Instr.Imm counts
}

var ops = [opEnd]opInfo{
	OpLoad:        {name: "load", result: true, mem: true},
	OpLoadSplat:   {name: "loadsplat", result: true, mem: true},
	OpStore:       {name: "store", args: 1, mem: true},
	OpPrefetch:    {name: "prefetch", mem: true},
	OpConst:       {name: "const", result: true, imm: true},
	OpSplat:       {name: "splat", result: true, imm: true},
	OpBitcast:     {name: "bitcast", args: 1, result: true},
	OpHalf:        {name: "half", args: 1, result: true, imm: true},
	OpJoin:        {name: "join", args: 2, result: true},
	OpSplatLane:   {name: "splatlane", args: 1, result: true},
	OpAnd:         {name: "and", args: 2, result: true},
	OpOr:          {name: "or", args: 2, result: true},
	OpXor:         {name: "xor", args: 2, result: true},
	OpAndNot:      {name: "andnot", args: 2, result: true},
	OpBitSel:      {name: "bitsel", args: 3, result: true},
	OpShl:         {name: "shl", args: 1, result: true, imm: true},
	OpShrU:        {name: "shru", args: 1, result: true, imm: true},
	OpShrS:        {name: "shrs", args: 1, result: true, imm: true},
	OpAdd:         {name: "add", args: 2, result: true},
	OpSub:         {name: "sub", args: 2, result: true},
	OpMul:         {name: "mul", args: 2, result: true},
	OpDiv:         {name: "div", args: 2, result: true},
	OpMinS:        {name: "mins", args: 2, result: true},
	OpMaxS:        {name: "maxs", args: 2, result: true},
	OpAbs:         {name: "abs", args: 1, result: true},
	OpCmpGtS:      {name: "cmpgts", args: 2, result: true},
	OpWiden:       {name: "widen", args: 1, result: true},
	OpTrunc:       {name: "trunc", args: 1, result: true},
	OpDot4:        {name: "dot4", args: 3, result: true},
	OpDot2:        {name: "dot2", args: 3, result: true},
	OpDot2Sat:     {name: "dot2sat", args: 2, result: true},
	OpCvtF32:      {name: "cvtf32", args: 1, result: true},
	OpCvtI32:      {name: "cvti32", args: 1, result: true},
	OpCvtHalf:     {name: "cvthalf", args: 1, result: true},
	OpCanonNaN:    {name: "canonnan", args: 1, result: true},
	OpRedAdd:      {name: "redadd", args: 1, result: true},
	OpRedMaxS:     {name: "redmaxs", args: 1, result: true},
	OpLookup16:    {name: "lookup16", args: 2, result: true},
	OpLookup32:    {name: "lookup32", args: 2, result: true},
	OpLookup64:    {name: "lookup64", args: 2, result: true},
	OpLookup16Mod: {name: "lookup16mod", args: 2, result: true},
	OpLookup32Mod: {name: "lookup32mod", args: 2, result: true},
	OpLookup64Mod: {name: "lookup64mod", args: 2, result: true},
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
// instruction with Fold > 0 also reads memory.
func (op Op) HasMem() bool { return ops[op].mem }

// HasImm says whether op uses Instr.Imm.
func (op Op) HasImm() bool { return ops[op].imm }

// Pure says that op neither touches memory nor has an effect but its result: two
// instructions with equal arguments, without Fold, are interchangeable.
func (op Op) Pure() bool { return ops[op].result && !ops[op].mem }
