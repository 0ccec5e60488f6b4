package vir

//go:generate go test -run TestOpsAreWritten -update

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Op is a vector operation. It has exactly one meaning, that of its row in ops; rounding and saturation are in the name.
// docs/vir.md lists them all.
type Op uint8

// opInfo is the row of an operation: everything the package knows about it. The constants of op_names.go and the table
// of docs/vir.md are written from the rows.
type opInfo struct {
	id     string // of the constant, without Op; in small letters it is the name in text
	name   string // in text; named sets it
	args   string // names of the arguments in their order: "c a b"
	result bool
	mem    bool   // Instr.Mem is its address
	apart  bool   // its address says how far rows or columns are apart
	imm    string // what Instr.Imm is in text: "imm", or "cK" for constant K; "": it does not count
	typ    rule
	eval   func(*call) error // sets call.out (a store: call.mem)
	bound  bound             // nil: nothing is known
	table  int               // lookups: the number of entries of a table
	mod    bool              // lookups: only the low bits of the index count
	dot    bool              // it sums products
	tiles  bool              // it is for tiles too
	means  string            // the meaning, lane by lane: dst[i] is ...
}

// lookupInfo is the row of the lookup in tables of n entries.
func lookupInfo(n int, mod bool) opInfo {
	info := opInfo{id: fmt.Sprintf("Lookup%d", n), args: "a b", result: true, typ: lookup(n), bound: boundArg1, table: n, mod: mod}
	if mod {
		info.id, info.eval = info.id+"Mod", evalLookupMod(n)
		info.means = fmt.Sprintf("lookup%d by the low %d bits of the index", n, bits.Len(uint(n))-1)
		return info
	}
	info.eval = evalLookup(n)
	info.means = fmt.Sprintf("b[i/%[1]d*%[1]d + a[i]]: a table of %[1]d entries per %[1]d lanes; an index of %[1]d or more is an error", n)
	return info
}

// ops are all operations. An operation's expansion, if there is one, uses earlier ones.
var ops = named([]opInfo{
	{id: "Invalid", means: "no operation"},
	{id: "Load", result: true, mem: true, typ: anyType(0), eval: evalLoad,
		means: "the lanes at mem, little-endian"},
	{id: "LoadSplat", result: true, mem: true, typ: anyType(0), eval: evalLoadSplat,
		means: "the one element at mem in every lane"},
	{id: "Store", args: "a", mem: true, typ: stored, eval: evalStore,
		means: "mem = a"},
	{id: "Prefetch", mem: true, typ: noTypes, eval: evalNothing,
		means: "hint: the line at mem will be read soon; may lie outside the buffer"},
	{id: "Prefetch2", mem: true, typ: noTypes, eval: evalNothing,
		means: "hint: the line at mem will be read later than soon, so the second-level cache will do; may lie outside the buffer"},
	{id: "Const", result: true, imm: "cK", typ: anyType(0), eval: evalLoad,
		means: "constant K"},
	{id: "Splat", result: true, imm: "imm", typ: anyType(0), eval: evalSplat, tiles: true,
		means: "imm in every lane, wrapped; for f32 and f16 its bits"},
	{id: "Bitcast", args: "a", result: true, typ: sameBits, eval: evalBitcast, bound: boundBitcast, tiles: true,
		means: "the bytes of a"},
	{id: "Half", args: "a", result: true, imm: "imm", typ: halfLanes, eval: evalHalf, bound: boundArg0,
		means: "lanes of half imm of a: 0 low, 1 high"},
	{id: "Join", args: "a b", result: true, typ: twiceLanes, eval: evalJoin, bound: boundUnion,
		means: "the lanes of a, then the lanes of b"},
	{id: "SplatLane", args: "a", result: true, typ: fromLane, eval: evalSplatLane, bound: boundArg0,
		means: "the only lane of a in every lane"},
	{id: "Tile", args: "a", result: true, typ: tiled, eval: evalTile, bound: boundArg0,
		means: "the lanes of a over and over"},
	{id: "Unzip", args: "a b", result: true, imm: "imm", typ: anyType(2), eval: evalUnzip, bound: boundUnion,
		means: "every second lane of a, from lane imm, then of b"},
	{id: "Spread", args: "a", result: true, imm: "imm", typ: spread, eval: evalSpread, bound: boundArg0,
		means: "lane imm of a in every lane"},
	{id: "And", args: "a b", result: true, typ: anyType(2), eval: lanes2(andBits), bound: boundAnd,
		means: "a & b, bitwise"},
	{id: "Or", args: "a b", result: true, typ: anyType(2), eval: lanes2(orBits), bound: boundOr,
		means: "a | b, bitwise"},
	{id: "Xor", args: "a b", result: true, typ: anyType(2), eval: lanes2(xorBits), bound: boundOr,
		means: "a ^ b, bitwise"},
	{id: "AndNot", args: "a b", result: true, typ: anyType(2), eval: lanes2(andNotBits), bound: boundAndNot,
		means: "a &^ b, bitwise"},
	{id: "BitSel", args: "a b c", result: true, typ: anyType(3), eval: evalBitSel, bound: boundBitSel,
		means: "(a & b) | (c &^ a): bits of b where a has ones, else of c"},
	{id: "Shl", args: "a", result: true, imm: "imm", typ: same(1, ints), eval: lanes1(shl), bound: boundShl,
		means: "a << imm; 0 <= imm < bits of T"},
	{id: "ShrU", args: "a", result: true, imm: "imm", typ: same(1, ints), eval: lanes1(shrU), bound: boundShrU,
		means: "a >> imm, filling with zeros"},
	{id: "ShrS", args: "a", result: true, imm: "imm", typ: same(1, ints), eval: lanes1(shrS), bound: boundShrS,
		means: "a >> imm, filling with the top bit"},
	{id: "Add", args: "a b", result: true, typ: same(2, addTypes), eval: arith(addInt, addFloat), bound: boundAdd, tiles: true,
		means: "a + b; integers wrap, f32 rounds to nearest even"},
	{id: "Sub", args: "a b", result: true, typ: same(2, addTypes), eval: arith(subInt, subFloat), bound: boundSub, tiles: true,
		means: "a - b; integers wrap, f32 rounds to nearest even"},
	{id: "Mul", args: "a b", result: true, typ: same(2, mulTypes), eval: arith(mulInt, mulFloat), bound: boundMul, tiles: true,
		means: "a * b; the low half, f32 rounds to nearest even"},
	{id: "Div", args: "a b", result: true, typ: same(2, []format.DType{f32}), eval: arith(nil, divFloat),
		means: "a / b, rounded to nearest even"},
	{id: "MinS", args: "a b", result: true, typ: same(2, signed), eval: lanes2(minInt), bound: boundMin,
		means: "the smaller, signed"},
	{id: "MaxS", args: "a b", result: true, typ: same(2, signed), eval: lanes2(maxInt), bound: boundMax,
		means: "the larger, signed"},
	{id: "Abs", args: "a", result: true, typ: same(1, signed), eval: lanes1(abs), bound: boundAbs,
		means: "absolute value; the minimum stays"},
	{id: "Sign", args: "a b", result: true, typ: same(2, []format.DType{i8}), eval: lanes2(signInt), bound: boundSign,
		means: "a where b is positive, -a, wrapping, where it is negative, else 0"},
	{id: "AvgU", args: "a b", result: true, typ: same(2, []format.DType{u8, u16}), eval: lanes2(average), bound: boundAverage,
		means: "(a + b + 1) >> 1, without overflow of the sum"},
	{id: "AvgS", args: "a b", result: true, typ: same(2, []format.DType{i8, i16}), eval: lanes2(average), bound: boundAverage,
		means: "(a + b + 1) >> 1 of signed numbers, without overflow of the sum"},
	{id: "CmpGtS", args: "a b", result: true, typ: same(2, signed), eval: lanes2(cmpGt), bound: boundCmp,
		means: "all ones where a > b, signed, else 0"},
	{id: "SelMSB", args: "a b c", result: true, typ: anyType(3), eval: lanes3(selMSB), bound: boundArgs12,
		means: "b where the top bit of a is set, else c"},
	{id: "SubMSB", args: "a b c", result: true, typ: same(3, ints), eval: lanes3(subMSB), bound: boundSubMSB,
		means: "b - c, wrapping, where the top bit of a is set, else c"},
	{id: "AddSat", args: "a b", result: true, typ: same(2, []format.DType{u8}), eval: lanes2(addSat), bound: boundAddSat,
		means: "a + b, at most 255"},
	{id: "SubSat", args: "a b", result: true, typ: same(2, []format.DType{u8}), eval: lanes2(subSat), bound: boundSubSat,
		means: "a - b, at least 0"},
	{id: "Widen", args: "a", result: true, typ: widened, eval: lanes1(same1), bound: boundArg0,
		means: "the same values in more bits"},
	{id: "Trunc", args: "a", result: true, typ: truncated, eval: lanes1(same1), bound: boundArg0,
		means: "the low bits"},
	{id: "Dot4", args: "c a b", result: true, typ: dot4, eval: evalDot4, bound: boundDot(4), dot: true,
		means: "c[i] + sum of a[4i+j] * b[4i+j], j in 0..3, wrapping"},
	{id: "Dot4Unit", args: "c a b", result: true, imm: "imm", typ: dot4unit, eval: evalDot4Unit, bound: boundDot(4), dot: true,
		means: "c[i] + sum of a[4i+j] * b[4imm+j], j in 0..3, wrapping"},
	{id: "Dot2Wrap", args: "a b", result: true, typ: dot2wrap, eval: evalDot2Wrap, bound: boundDot2Wrap, dot: true,
		means: "a[2i] * b[2i] + a[2i+1] * b[2i+1], wrapping"},
	{id: "Dot2", args: "c a b", result: true, typ: dot2, eval: evalDot2, bound: boundDot(2), dot: true,
		means: "c[i] + a[2i] * b[2i] + a[2i+1] * b[2i+1], wrapping"},
	{id: "Dot2Sat", args: "a b", result: true, typ: dot2sat, eval: evalDot2Sat, bound: boundDot2Sat, dot: true,
		means: "a[2i] * b[2i] + a[2i+1] * b[2i+1], saturated to i16"},
	{id: "MulWide", args: "a b", result: true, imm: "imm", typ: mulwide, eval: evalMulWide, bound: boundMul,
		means: "a[i] * b[i], i a lane of half imm (0 low, 1 high) of a and b; imm is 0 if they have no more lanes than the result"},
	{id: "Dot1", args: "c a b", result: true, imm: "imm", typ: dot1, eval: evalDot1, bound: boundDot(1), dot: true,
		means: "c[i] + a[i] * b[i], wrapping, i a lane of half imm (0 low, 1 high) of a and b; imm is 0 if they have no more lanes than the result"},
	{id: "AddPairs", args: "a b", result: true, typ: pairs, eval: evalAddPairs, bound: boundAddPairs,
		means: "sums of lanes 2i and 2i+1, wrapping: first of a, then of b"},
	{id: "Sum2", args: "c a", result: true, typ: sum2, eval: evalSum2, bound: boundSum2,
		means: "c[i] + a[2i] + a[2i+1], wrapping"},
	{id: "CvtF32", args: "a", result: true, typ: converted(f32, i32), eval: evalCvtF32, tiles: true,
		means: "the nearest f32, ties to even"},
	{id: "CvtI32", args: "a", result: true, typ: converted(i32, f32), eval: evalCvtI32,
		means: "the nearest integer, ties to even; outside i32, or NaN, is an error"},
	{id: "CvtHalf", args: "a", result: true, typ: converted(f32, f16), eval: evalCvtHalf, tiles: true,
		means: "the same value; a NaN becomes quiet"},
	{id: "CanonNaN", args: "a", result: true, typ: same(1, []format.DType{f32}), eval: evalCanonNaN, tiles: true,
		means: "every NaN becomes 0x7fc00000"},
	{id: "CvtF16", args: "a", result: true, typ: converted(f16, f32), eval: evalCvtF16,
		means: "the nearest f16, ties to even; a NaN becomes quiet and keeps its sign and upper bits"},
	{id: "CmpGtF", args: "a b", result: true, typ: compared, eval: evalCmpGtF,
		means: "all ones where a > b, else 0, also where one of them is a NaN"},
	{id: "MaxF", args: "a b", result: true, typ: same(2, []format.DType{f32}), eval: arith(nil, maxFloat),
		means: "a where a > b, else b"},
	{id: "MinF", args: "a b", result: true, typ: same(2, []format.DType{f32}), eval: arith(nil, minFloat),
		means: "a where a < b, else b"},
	{id: "RedAdd", args: "a", result: true, typ: toLanes, eval: evalRedAdd, bound: boundRedAdd,
		means: "sum of lanes i*M/N and up to the next multiple, wrapping"},
	{id: "RedMaxS", args: "a", result: true, typ: toLanes, eval: evalRedMaxS, bound: boundArg0,
		means: "largest of lanes i*M/N and up to the next multiple, signed"},
	{id: "MMLA", args: "c a b", result: true, typ: mmla, eval: evalMMLA, bound: boundDot(8), dot: true,
		means: "at 2i + j, c + sum of a[8i+k] * b[8j+k], k in 0..7, wrapping: rows by two columns"},
	lookupInfo(8, false),
	lookupInfo(8, true),
	lookupInfo(16, false),
	lookupInfo(16, true),
	lookupInfo(32, false),
	lookupInfo(32, true),
	lookupInfo(64, false),
	lookupInfo(64, true),
	lookupInfo(128, false),
	lookupInfo(128, true),
	{id: "LookupPair", args: "a b c", result: true, typ: pairLookup, eval: evalLookupPair, bound: boundArgs12,
		means: "the lanes of b, then the lanes of c, at a[i] modulo 2M: one table for all lanes"},
	{id: "LoadRows", result: true, mem: true, apart: true, typ: tileLoad, eval: evalLoadTile(true), tiles: true,
		means: "a tile whose rows are that many bytes apart, each with its elements side by side"},
	{id: "LoadColumns", result: true, mem: true, apart: true, typ: tileLoad, eval: evalLoadTile(false), tiles: true,
		means: "a tile whose columns are that many bytes apart, each with its elements side by side"},
	{id: "StoreRows", args: "a", mem: true, apart: true, typ: tileStore, eval: evalStoreTile(true), tiles: true,
		means: "mem = a, as loadrows reads it"},
	{id: "StoreColumns", args: "a", mem: true, apart: true, typ: tileStore, eval: evalStoreTile(false), tiles: true,
		means: "mem = a, as loadcolumns reads it"},
	{id: "MatMul", args: "c a b", result: true, typ: tileProduct, eval: evalMatMul, bound: boundMatMul, dot: true, tiles: true,
		means: "c + a * b, products of matrices; i32 wraps, f32 is exact: a sum that is no f32 is an error"},
	{id: "Column", args: "a", result: true, imm: "imm", typ: tileColumn, eval: evalColumn, bound: boundArg0, tiles: true,
		means: "column imm of a"},
	{id: "Barrier", typ: noTypes, eval: evalNothing,
		means: "no lane of the workgroup goes on before all are here, and see what the others stored"},
	{id: "Lane", result: true, imm: "imm", typ: oneWord, eval: evalLane,
		means: "the number of the lane in loop imm, a loop of lanes around"},
})

// named gives rows their names in text.
func named(rows []opInfo) []opInfo {
	for i := range rows {
		rows[i].name = strings.ToLower(rows[i].id)
	}
	return rows
}

// Ops lists all operations in their order.
func Ops() []Op {
	var all []Op
	for op := OpInvalid + 1; op.valid(); op++ {
		all = append(all, op)
	}
	return all
}

func (op Op) valid() bool { return op > OpInvalid && int(op) < len(ops) }

// String is the name of op in text: "lookup16".
func (op Op) String() string {
	if !op.valid() {
		return fmt.Sprintf("Op(%d)", uint8(op))
	}
	return ops[op].name
}

// NumArgs is the number of register arguments of op, folded ones included.
func (op Op) NumArgs() int { return (len(ops[op].args) + 1) / 2 }

// HasResult says whether op defines Instr.Dst.
func (op Op) HasResult() bool { return ops[op].result }

// HasMem says whether Instr.Mem is the address op works on. Of the others, an
// instruction with a folded argument may have one, see Instr.HasMem.
func (op Op) HasMem() bool { return ops[op].mem }

// HasImm says whether op uses Instr.Imm.
func (op Op) HasImm() bool { return ops[op].imm != "" }

// Pure says that op neither touches memory nor has an effect but its result: two
// instructions with equal arguments, without Fold, are interchangeable.
func (op Op) Pure() bool { return ops[op].result && !ops[op].mem }

// Orders says that loads before and after op may find other bytes in memory.
func (op Op) Orders() bool { return op.Stores() || op == OpBarrier }

// Stores says that op writes to memory.
func (op Op) Stores() bool { return op == OpStore || op == OpStoreRows || op == OpStoreColumns }

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
	for op := OpInvalid + 1; op.valid(); op++ {
		if n > 0 && ops[op].table == n && ops[op].mod == mod {
			return op
		}
	}
	return OpInvalid
}
