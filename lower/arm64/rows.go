package arm64

import (
	"fmt"
	"math/bits"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
)

// What a row's Code is: how the printer makes words of the operation.
type (
	// plain is one word: the result in Rd, arguments in Rn and Rm.
	plain struct {
		word uint32             // register and immediate fields zero
		text string             // its assembly, for fmt: result, Rn, Rm, then the immediate
		n, m int                // 1 + the argument in Rn and Rm, or 0
		imm  func(int64) uint32 // immediate field
	}
	// memory is a load, store or prefetch; its offset counts units of 1<<scale bytes.
	memory struct {
		word    uint32
		asm     string // "ldr"
		operand string // "q%d"
		scale   int
		bare    bool // no offset
	}
	move    struct{}        // nothing, or a copy if the registers differ
	unless0 struct{ plain } // a move if the immediate is 0
	ofHalf  struct {        // of the upper half of the arguments if the immediate is 1
		plain
		asm string
	}
	oneOfTwo struct { // UZP2, bit 14, if the immediate is 1
		plain
		arr string
	}
	splat    struct{}         // the instruction depends on the number
	constant struct{ memory } // a load from the kernel's table
)

// Element types by width and kind.
var (
	anyElem  = []format.DType{format.U8, format.I8, format.U16, format.I16, format.F16, format.U32, format.I32, format.F32}
	intElem  = []format.DType{format.U8, format.I8, format.U16, format.I16, format.U32, format.I32}
	mulElem  = []format.DType{format.U16, format.I16, format.U32, format.I32}
	u8Elem   = []format.DType{format.U8}
	signElem = []format.DType{format.I8, format.I16, format.I32}
	f32Elem  = []format.DType{format.F32}
)

// shape says what the fields of a lanewise instruction depend on.
type shape int

const (
	bytewise shape = iota // always .16b or .8b
	sized                 // element size in bits 22-23
	fixed                 // the word names its element size, or the immediate does
)

// lanewise lists the instructions that treat every lane alike, in their 128-bit
// form. The 64-bit form clears bit 30; vectors narrower than 64 bits use it too,
// since nothing reads a register above its type.
var lanewise = []struct {
	op    vir.Op
	elems []format.DType
	asm   string
	word  uint32
	shape shape
	class core.Class
}{
	{vir.OpAnd, anyElem, "and", 0x4e201c00, bytewise, logic},
	{vir.OpOr, anyElem, "orr", 0x4ea01c00, bytewise, logic},
	{vir.OpXor, anyElem, "eor", 0x6e201c00, bytewise, logic},
	{vir.OpAndNot, anyElem, "bic", 0x4e601c00, bytewise, logic},
	{vir.OpShl, intElem, "shl", 0x4f005400, fixed, shift},
	{vir.OpShrU, intElem, "ushr", 0x6f000400, fixed, shift},
	{vir.OpShrS, intElem, "sshr", 0x4f000400, fixed, shift},
	{vir.OpAdd, intElem, "add", 0x4e208400, sized, add},
	{vir.OpAdd, f32Elem, "fadd", 0x4e20d400, fixed, floatAdd},
	{vir.OpSub, intElem, "sub", 0x6e208400, sized, add},
	{vir.OpSub, f32Elem, "fsub", 0x4ea0d400, fixed, floatAdd},
	{vir.OpMul, mulElem, "mul", 0x4e209c00, sized, multiply},
	{vir.OpMul, f32Elem, "fmul", 0x6e20dc00, fixed, floatMul},
	{vir.OpDiv, f32Elem, "fdiv", 0x6e20fc00, fixed, divide},
	{vir.OpAddSat, u8Elem, "uqadd", 0x6e200c00, sized, saturate},
	{vir.OpSubSat, u8Elem, "uqsub", 0x6e202c00, sized, saturate},
	{vir.OpMinS, signElem, "smin", 0x4e206c00, sized, compare},
	{vir.OpMaxS, signElem, "smax", 0x4e206400, sized, compare},
	{vir.OpAbs, signElem, "abs", 0x4e20b800, sized, compare},
	{vir.OpAvgU, []format.DType{format.U8, format.U16}, "urhadd", 0x6e201400, sized, average},
	{vir.OpAvgS, []format.DType{format.I8, format.I16}, "srhadd", 0x4e201400, sized, average},
	{vir.OpCmpGtS, signElem, "cmgt", 0x4e203400, sized, compare},
}

// row is a row without its cost, which a core has for the class.
type row struct {
	class core.Class
	lower.Row
}

// makeRows are the rows with what they take on a core.
func makeRows(costs core.Costs) []lower.Row {
	var rows []lower.Row
	for _, r := range allRows() {
		if r.class != free {
			cost, ok := costs[r.class]
			if !ok {
				panic("BUG: arm64: a core has no cost of " + string(r.class))
			}
			r.Cost, r.Busy = cost.At(128)
			r.Latency, r.Micros = cost.Latency, cost.Micros(128)
		}
		rows = append(rows, r.Row)
	}
	return rows
}

func allRows() []row {
	rows := []row{
		{prefetch, lower.Row{Op: vir.OpPrefetch, Asm: "prfm", Code: memory{0xf9800000, "prfm", "pldl1keep", 3, false}}},
		{prefetch, lower.Row{Op: vir.OpPrefetch2, Asm: "prfm", Code: memory{0xf9800002, "prfm", "pldl2keep", 3, false}}},
	}
	for _, l := range lanewise {
		for _, e := range l.elems {
			for _, t := range types(e) {
				rows = append(rows, lanewiseRow(l.op, t, l.asm, l.word, l.shape, l.class))
			}
		}
	}
	for _, e := range anyElem {
		for _, t := range types(e) {
			rows = append(rows, typedRows(t)...)
		}
	}
	for _, t := range types(format.U8) { // one row serves every bitcast of its size
		rows = append(rows, row{free, lower.Row{Op: vir.OpBitcast, Dst: t, Args: []vir.Type{t}, Asm: "mov", Code: move{}}})
	}
	rows = append(rows, convertRows()...)
	rows = append(rows, productRows()...)
	rows = append(rows, reduceRows()...)
	return append(rows, lookupRows()...)
}

// types lists the vectors of e that one register holds.
func types(e format.DType) []vir.Type {
	var ts []vir.Type
	for n := 1; n*e.Bits() <= 128; n *= 2 {
		ts = append(ts, vir.Type{Elem: e, Lanes: n})
	}
	return ts
}

func size(t vir.Type) int { return t.Lanes * t.Elem.Bytes() }

// arr is the arrangement of a vector of t, "4s", and bit 30 if it is 128 bits wide.
func arr(t vir.Type) (string, uint32) {
	letter := map[int]string{8: "b", 16: "h", 32: "s"}[t.Elem.Bits()]
	if size(t) > 8 {
		return fmt.Sprint(128/t.Elem.Bits(), letter), 1 << 30
	}
	return fmt.Sprint(64/t.Elem.Bits(), letter), 0
}

func lanewiseRow(op vir.Op, t vir.Type, asm string, word uint32, s shape, class core.Class) row {
	a, q := arr(t)
	if s == bytewise {
		a, _ = arr(vir.Type{Elem: format.U8, Lanes: size(t)})
	}
	word = word&^(1<<30) | q
	if s == sized {
		word |= uint32(bits.Len(uint(t.Elem.Bits()/16))) << 22
	}
	r := row{class, lower.Row{Op: op, Dst: t, Args: []vir.Type{t}, Asm: asm}}
	text := asm + " v%d." + a + ", v%d." + a
	w := int64(t.Elem.Bits())
	switch op {
	case vir.OpAbs:
		r.Code = plain{word: word, text: text, n: 1}
	case vir.OpShl:
		r.Code = plain{word, text + ", #%d", 1, 0, func(i int64) uint32 { return uint32(w+i) << 16 }}
	case vir.OpShrU, vir.OpShrS:
		// A right shift by 0 has no encoding.
		r.Code = unless0{plain{word, text + ", #%d", 1, 0, func(i int64) uint32 { return uint32(2*w-i) << 16 }}}
	default:
		r.Args = []vir.Type{t, t}
		r.Code = plain{word: word, text: text + ", v%d." + a, n: 1, m: 2}
	}
	return r
}

// typedRows are the rows that every type has: memory, copies and rearrangement.
func typedRows(t vir.Type) []row {
	a, q := arr(t)
	n := size(t)
	bytes, _ := arr(vir.Type{Elem: format.U8, Lanes: n})
	scale := bits.Len(uint(n)) - 1
	// Bits 30-31 and 22-23 of LDR and STR hold the size, 16 bytes being 0 with bit 23.
	wide := []uint32{0, 1 << 30, 2 << 30, 3 << 30, 1 << 23}[scale]
	letter := "bhsdq"[scale : scale+1]
	read := memory{0x3d400000 | wide, "ldr", letter + "%d", scale, false}
	write := memory{0x3d000000 | wide, "str", letter + "%d", scale, false}
	rows := []row{
		{load, lower.Row{Op: vir.OpLoad, Dst: t, Asm: "ldr", Code: read}},
		{store, lower.Row{Op: vir.OpStore, Dst: t, Args: []vir.Type{t}, Asm: "str", Code: write}},
		{load, lower.Row{Op: vir.OpConst, Dst: t, Asm: "ldr", Code: constant{read}}},
		{immediate, lower.Row{Op: vir.OpSplat, Dst: t, Asm: "movi", Code: splat{}}},
		{choose, lower.Row{Op: vir.OpBitSel, Dst: t, Args: []vir.Type{t, t, t}, Asm: "bit", Tied: 3,
			Code: plain{word: 0x2ea01c00 | q, text: fmt.Sprintf("bit v%%d.%s, v%%d.%[1]s, v%%d.%[1]s", bytes), n: 2, m: 1}}},
	}
	esize := bits.Len(uint(t.Elem.Bytes())) - 1
	one := vir.Type{Elem: t.Elem, Lanes: 1}
	if t.Lanes == 1 {
		rows = append(rows,
			row{load, lower.Row{Op: vir.OpLoadSplat, Dst: t, Asm: "ldr", Code: read}},
			row{permute, lower.Row{Op: vir.OpSplatLane, Dst: t, Args: []vir.Type{t}, Asm: "mov", Code: move{}}})
	} else {
		rows = append(rows,
			row{loadSplat, lower.Row{Op: vir.OpLoadSplat, Dst: t, Asm: "ld1r",
				Code: memory{0x0d40c000 | q | uint32(esize)<<10, "ld1r", "{v%d." + a + "}", esize, true}}},
			row{permute, lower.Row{Op: vir.OpSplatLane, Dst: t, Args: []vir.Type{one}, Asm: "dup",
				Code: plain{word: 0x0e000400 | q | 1<<(16+esize), text: fmt.Sprintf("dup v%%d.%s, v%%d.%s[0]", a, a[len(a)-1:]), n: 1}}},
			row{permute, lower.Row{Op: vir.OpSpread, Dst: t, Args: []vir.Type{t}, Asm: "dup",
				Code: plain{0x0e000400 | q | 1<<(16+esize), fmt.Sprintf("dup v%%d.%s, v%%d.%s[%%d]", a, a[len(a)-1:]), 1, 0,
					func(i int64) uint32 { return uint32(i) << (17 + esize) }}}})
		rows = append(rows, halfRows(t)...)
		rows = append(rows, unzipRow(t)...)
	}
	return rows
}

// halfRows: DUP takes the upper half as one element, the lower is there already;
// ZIP1 of elements as large as the arguments puts the second above the first.
//
//	half 1 of i8x16    mov d3, v4.d[1]
//	join of i8x8       zip1 v3.2d, v4.2d, v5.2d
func halfRows(t vir.Type) []row {
	h := vir.Type{Elem: t.Elem, Lanes: t.Lanes / 2}
	esize := bits.Len(uint(size(h))) - 1
	letter := "bhsd"[esize : esize+1]
	a, q := fmt.Sprint(8>>esize, letter), uint32(0)
	if esize == 3 {
		a, q = "2d", 1<<30
	}
	return []row{
		{permute, lower.Row{Op: vir.OpHalf, Dst: h, Args: []vir.Type{t}, Asm: "dup",
			Code: unless0{plain{0x5e000400 | 1<<(16+esize), "mov " + letter + "%d, v%d." + letter + "[%d]", 1, 0,
				func(i int64) uint32 { return uint32(i) << (17 + esize) }}}}},
		{permute, lower.Row{Op: vir.OpJoin, Dst: t, Args: []vir.Type{h, h}, Asm: "zip1",
			Code: plain{word: 0x0e003800 | q | uint32(esize)<<22, text: fmt.Sprintf("zip1 v%%d.%s, v%%d.%s, v%%d.%s", a, a, a), n: 1, m: 2}}},
	}
}

// unzipRow: of two whole registers.
func unzipRow(t vir.Type) []row {
	if size(t) != 16 && size(t) != 8 {
		return nil
	}
	a, q := arr(t)
	esize := uint32(bits.Len(uint(t.Elem.Bytes())) - 1)
	return []row{{permute, lower.Row{Op: vir.OpUnzip, Dst: t, Args: []vir.Type{t, t}, Asm: "uzp",
		Code: oneOfTwo{plain{word: 0x0e001800 | q | esize<<22, n: 1, m: 2}, a}}}}
}

func convertRows() []row {
	var rows []row
	unary := func(op vir.Op, to, from format.DType, asm, text string, word uint32, class core.Class) {
		for _, t := range types(to) {
			f := vir.Type{Elem: from, Lanes: t.Lanes}
			if size(f) <= 16 {
				rows = append(rows, row{class, lower.Row{Op: op, Dst: t, Args: []vir.Type{f}, Asm: asm, Code: plain{word: word, text: text, n: 1}}})
			}
		}
	}
	unary(vir.OpWiden, format.I16, format.I8, "sshll", "sshll v%d.8h, v%d.8b, #0", 0x0f08a400, widen)
	unary(vir.OpWiden, format.I16, format.U8, "ushll", "ushll v%d.8h, v%d.8b, #0", 0x2f08a400, widen)
	unary(vir.OpWiden, format.I32, format.I16, "sshll", "sshll v%d.4s, v%d.4h, #0", 0x0f10a400, widen)
	unary(vir.OpWiden, format.I32, format.U16, "ushll", "ushll v%d.4s, v%d.4h, #0", 0x2f10a400, widen)
	for _, to := range []format.DType{format.I8, format.U8} {
		unary(vir.OpTrunc, to, format.I16, "xtn", "xtn v%d.8b, v%d.8h", 0x0e212800, narrow)
	}
	for _, to := range []format.DType{format.I16, format.U16} {
		unary(vir.OpTrunc, to, format.I32, "xtn", "xtn v%d.4h, v%d.4s", 0x0e612800, narrow)
	}
	unary(vir.OpCvtF32, format.F32, format.I32, "scvtf", "scvtf v%d.4s, v%d.4s", 0x4e21d800, convert)
	unary(vir.OpCvtI32, format.I32, format.F32, "fcvtns", "fcvtns v%d.4s, v%d.4s", 0x4e21a800, convert)
	unary(vir.OpCvtHalf, format.F32, format.F16, "fcvtl", "fcvtl v%d.4s, v%d.4h", 0x0e217800, toFloat)
	unary(vir.OpCvtF16, format.F16, format.F32, "fcvtn", "fcvtn v%d.4h, v%d.4s", 0x0e216800, toFloat)
	for _, t := range types(format.F32) {
		a, q := arr(t)
		rows = append(rows, row{compare, lower.Row{Op: vir.OpCmpGtF, Dst: vir.Type{Elem: format.I32, Lanes: t.Lanes}, Args: []vir.Type{t, t}, Asm: "fcmgt",
			Code: plain{word: 0x2ea0e400 | q, text: fmt.Sprintf("fcmgt v%%d.%s, v%%d.%[1]s, v%%d.%[1]s", a), n: 1, m: 2}}})
	}
	return rows
}

// productRows: products of bytes in 16 bits, of all lanes or of the lower or the upper half of registers, and sums
// of pairs.
func productRows() []row {
	of := func(e format.DType, n int) vir.Type { return vir.Type{Elem: e, Lanes: n} }
	var rows []row
	for _, n := range []int{1, 2, 4, 8, 16} {
		dst, bytes := of(format.I16, min(n, 8)), of(format.I8, n)
		rows = append(rows,
			row{multiplyBytes, lower.Row{Op: vir.OpMulWide, Dst: dst, Args: []vir.Type{bytes, bytes}, Asm: "smull", Code: ofHalf{plain{word: 0x0e20c000, n: 1, m: 2}, "smull"}}},
			row{multiplyBytes, lower.Row{Op: vir.OpDot1, Dst: dst, Args: []vir.Type{dst, bytes, bytes}, Asm: "smlal", Tied: 1, Code: ofHalf{plain{word: 0x0e208000, n: 2, m: 3}, "smlal"}}})
	}
	for _, t := range []vir.Type{of(format.I16, 8), of(format.I16, 4), of(format.I32, 4), of(format.I32, 2)} {
		rows = append(rows, lanewiseRow(vir.OpAddPairs, t, "addp", 0x4e20bc00, sized, addPairs))
	}
	for n := 1; n <= 4; n *= 2 {
		d, q := arr(of(format.I32, n))
		h, _ := arr(of(format.I16, 2*n))
		rows = append(rows, row{sumPairs, lower.Row{Op: vir.OpSum2, Dst: of(format.I32, n), Args: []vir.Type{of(format.I32, n), of(format.I16, 2*n)}, Asm: "sadalp", Tied: 1,
			Code: plain{word: 0x0e606800 | q, text: "sadalp v%d." + d + ", v%d." + h, n: 2}}})
	}
	return rows
}

func reduceRows() []row {
	i32 := func(n int) vir.Type { return vir.Type{Elem: format.I32, Lanes: n} }
	i8 := func(n int) vir.Type { return vir.Type{Elem: format.I8, Lanes: n} }
	reduce := func(op vir.Op, n int, class core.Class, asm, text string, word uint32, m int) row {
		return row{class, lower.Row{Op: op, Dst: i32(1), Args: []vir.Type{i32(n)}, Asm: asm, Code: plain{word: word, text: text, n: 1, m: m}}}
	}
	dot4 := func(n int, a, b string, word uint32) row {
		return row{dot, lower.Row{Op: vir.OpDot4, Dst: i32(n), Args: []vir.Type{i32(n), i8(4 * n), i8(4 * n)}, Need: ASIMDDP, Asm: "sdot", Tied: 1,
			Code: plain{word: word, text: fmt.Sprintf("sdot v%%d.%s, v%%d.%s, v%%d.%s", a, b, b), n: 2, m: 3}}}
	}
	dot4unit := func(n int, a, b string, word uint32) row {
		return row{dot, lower.Row{Op: vir.OpDot4Unit, Dst: i32(n), Args: []vir.Type{i32(n), i8(4 * n), i8(16)}, Need: ASIMDDP, Asm: "sdot", Tied: 1,
			Code: plain{word, fmt.Sprintf("sdot v%%d.%s, v%%d.%s, v%%d.4b[%%d]", a, b), 2, 3,
				func(i int64) uint32 { return uint32(i&1<<21 | i>>1<<11) }}}}
	}
	mmla := func(e format.DType, asm string, word uint32) row {
		return row{matrix, lower.Row{Op: vir.OpMMLA, Dst: i32(4), Args: []vir.Type{i32(4), {Elem: e, Lanes: 16}, i8(16)}, Need: I8MM, Asm: asm, Tied: 1,
			Code: plain{word: word, text: asm + " v%d.4s, v%d.16b, v%d.16b", n: 2, m: 3}}}
	}
	return []row{
		mmla(format.I8, "smmla", 0x4e80a400),
		mmla(format.U8, "usmmla", 0x4e80ac00),
		dot4unit(4, "4s", "16b", 0x4f80e000),
		dot4unit(2, "2s", "8b", 0x0f80e000),
		dot4unit(1, "2s", "8b", 0x0f80e000),
		dot4(4, "4s", "16b", 0x4e809400),
		dot4(2, "2s", "8b", 0x0e809400),
		dot4(1, "2s", "8b", 0x0e809400),
		reduce(vir.OpRedAdd, 4, across, "addv", "addv s%d, v%d.4s", 0x4eb1b800, 0),
		reduce(vir.OpRedAdd, 2, addPairs, "addp", "addp v%d.2s, v%d.2s, v%d.2s", 0x0ea0bc00, 1),
		{free, lower.Row{Op: vir.OpRedAdd, Dst: i32(1), Args: []vir.Type{i32(1)}, Asm: "mov", Code: move{}}},
		reduce(vir.OpRedMaxS, 4, across, "smaxv", "smaxv s%d, v%d.4s", 0x4eb0a800, 0),
		reduce(vir.OpRedMaxS, 2, addPairs, "smaxp", "smaxp v%d.2s, v%d.2s, v%d.2s", 0x0ea0a400, 1),
		{free, lower.Row{Op: vir.OpRedMaxS, Dst: i32(1), Args: []vir.Type{i32(1)}, Asm: "mov", Code: move{}}},
	}
}

// lookupRows: TBL yields 0 for an index past the table; vir forbids such indices.
func lookupRows() []row {
	var rows []row
	for _, e := range []format.DType{format.U8, format.I8} {
		for _, t := range types(e) {
			a, q := arr(t)
			args := []vir.Type{{Elem: format.U8, Lanes: t.Lanes}, {Elem: e, Lanes: 16}}
			rows = append(rows, row{lookup, lower.Row{Op: vir.OpLookup16, Dst: t, Args: args, Asm: "tbl",
				Code: plain{word: 0x0e000000 | q, text: fmt.Sprintf("tbl v%%d.%s, {v%%d.16b}, v%%d.%s", a, a), n: 2, m: 1}}})
		}
	}
	return rows
}
