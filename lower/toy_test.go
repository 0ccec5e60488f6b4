package lower

import (
	"errors"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// Capabilities of the toy machine.
const (
	toyDotU Features = 1 << iota // dot4 of u8 and i8
	toyDotI                      // dot4 of i8 and i8
	toyDot2                      // dot2 and dot2sat
	toySel                       // bitsel, selmsb of bytes, maxs
	toyAbs                       // sign
	toySign                      // rows for signed and unsigned types alike
	toyAll  Features = 1<<iota - 1

	toyProducts Features = 1 << iota // besides: mulwide, dot1, addpairs, sum2, spread, dot4unit, unzip, mmla, shifts of bytes
)

// toy is a machine of 128 bits whose binary operations overwrite their first
// argument. It has few instructions, so most operations need an expansion.
type toy struct {
	m    Machine
	rows []Row
}

func newToy(has Features) toy {
	t := toy{m: Machine{Name: "toy", ISA: ISA{VecBits: 128, NumVec: 8, NumGP: 6, Narrow: 2, Has: has}}}
	t.op(vir.OpPrefetch, vir.Type{})
	for _, e := range []format.DType{format.U8, format.I8, format.U16, format.I16, format.U32, format.I32, format.F32, format.F16} {
		for n := 1; n*e.Bits() <= 128; n *= 2 {
			t.addType(vir.Type{Elem: e, Lanes: n})
		}
	}
	return t
}

func (t toy) Machine() Machine                             { return t.m }
func (t toy) Rows() []Row                                  { return t.rows }
func (t toy) Expand(_ *Builder, _ *vir.Instr) []*vir.Instr { return nil }
func (t toy) Print(k *Kernel) *Function                    { return &Function{} }
func (t toy) File(pkg string, fs ...Named) (File, error) {
	return File{}, errors.New("toy prints nothing")
}
func (t *toy) add(r Row) { t.rows = append(t.rows, r) }
func (t *toy) op(op vir.Op, dst vir.Type, args ...vir.Type) {
	t.add(Row{Op: op, Dst: dst, Args: args, Asm: op.String(), Cost: 5})
}

// binary adds a two-address operation that can read its second argument from
// memory.
func (t *toy) binary(op vir.Op, d vir.Type) {
	t.add(Row{Op: op, Dst: d, Args: []vir.Type{d, d}, Asm: op.String(), Cost: 5, Tied: 1, Fold: []int{2}})
}

func (t *toy) addType(d vir.Type) {
	half := vir.Type{Elem: d.Elem, Lanes: d.Lanes / 2}
	if t.m.Has&toySign == 0 && (d.Elem == format.U16 || d.Elem == format.U32) {
		t.op(vir.OpBitcast, d, d)
		return
	}
	t.op(vir.OpLoad, d)
	t.op(vir.OpConst, d)
	t.op(vir.OpStore, d, d)
	t.op(vir.OpSplat, d)
	t.op(vir.OpBitcast, d, d)
	if d.Elem.Bits() == 32 {
		t.op(vir.OpLoadSplat, d)
	}
	if d.Lanes > 1 {
		t.op(vir.OpHalf, half, d)
		t.op(vir.OpJoin, d, half, half)
	}
	for _, op := range []vir.Op{vir.OpAnd, vir.OpOr, vir.OpXor} {
		t.binary(op, d)
	}
	if t.m.Has&toySel != 0 {
		t.add(Row{Op: vir.OpBitSel, Dst: d, Args: []vir.Type{d, d, d}, Asm: "bitsel", Cost: 5, Tied: 1})
	}
	t.addArith(d)
	t.addOther(d)
}

func (t *toy) addArith(d vir.Type) {
	if d.Elem == format.F16 {
		return
	}
	t.binary(vir.OpAdd, d)
	t.binary(vir.OpSub, d)
	if d.Elem.Bits() > 8 {
		t.binary(vir.OpMul, d)
		for _, op := range []vir.Op{vir.OpShl, vir.OpShrU} {
			if d.Elem != format.F32 {
				t.op(op, d, d)
			}
		}
	} else if t.m.Has&toyProducts != 0 {
		t.op(vir.OpShrU, d, d)
	}
	if t.m.Has&toyProducts != 0 && d.Lanes > 1 {
		t.op(vir.OpSpread, d, d)
		t.op(vir.OpUnzip, d, d, d)
	}
	if t.m.Has&toyProducts != 0 && d.Lanes > 1 && (d.Elem == format.I16 || d.Elem == format.I32) {
		t.op(vir.OpAddPairs, d, d, d)
	}
	if d.Elem == format.F32 {
		t.op(vir.OpDiv, d, d, d)
		t.op(vir.OpCvtF32, d, vir.Type{Elem: format.I32, Lanes: d.Lanes})
		t.op(vir.OpCvtHalf, d, vir.Type{Elem: format.F16, Lanes: d.Lanes})
		t.op(vir.OpCvtF16, vir.Type{Elem: format.F16, Lanes: d.Lanes}, d)
	}
	if t.m.Has&toySel != 0 && d.Elem == format.I8 {
		t.op(vir.OpSelMSB, d, d, d, d)
	}
	if t.m.Has&toySel != 0 && d.Elem == format.I16 {
		t.binary(vir.OpMaxS, d)
	}
}

func (t *toy) addOther(d vir.Type) {
	with := func(e format.DType, lanes int) vir.Type { return vir.Type{Elem: e, Lanes: lanes} }
	switch d.Elem {
	case format.I32:
		t.op(vir.OpWiden, d, with(format.U16, d.Lanes))
		t.op(vir.OpWiden, d, with(format.I16, d.Lanes))
		t.op(vir.OpCvtI32, d, with(format.F32, d.Lanes))
		n := 4 * d.Lanes
		t.add(Row{Op: vir.OpDot4, Dst: d, Args: []vir.Type{d, with(format.U8, n), with(format.I8, n)}, Need: toyDotU, Asm: "dotu", Cost: 10, Tied: 1, Fold: []int{3}, FoldSplat: []int{3}})
		t.add(Row{Op: vir.OpDot4, Dst: d, Args: []vir.Type{d, with(format.I8, n), with(format.I8, n)}, Need: toyDotI, Asm: "doti", Cost: 10, Tied: 1})
		pair := with(format.I16, 2*d.Lanes)
		t.add(Row{Op: vir.OpDot2Wrap, Dst: d, Args: []vir.Type{pair, pair}, Need: toySel, Asm: "madd", Cost: 10})
		t.add(Row{Op: vir.OpDot2, Dst: d, Args: []vir.Type{d, pair, pair}, Need: toyDot2, Asm: "dot2", Cost: 10, Tied: 1})
		t.add(Row{Op: vir.OpDot4Unit, Dst: d, Args: []vir.Type{d, with(format.I8, n), with(format.I8, 16)}, Need: toyProducts, Asm: "dot4unit", Cost: 10, Tied: 1})
		if bytes := with(format.I8, 16); d.Lanes == 4 {
			t.add(Row{Op: vir.OpMMLA, Dst: d, Args: []vir.Type{d, bytes, bytes}, Need: toyProducts, Asm: "mmla", Cost: 10, Tied: 1})
		}
		t.add(Row{Op: vir.OpSum2, Dst: d, Args: []vir.Type{d, pair}, Need: toyProducts, Asm: "sum2", Cost: 10, Tied: 1})
	case format.I16:
		t.op(vir.OpWiden, d, with(format.U8, d.Lanes))
		t.op(vir.OpWiden, d, with(format.I8, d.Lanes))
		t.op(vir.OpTrunc, d, with(format.I32, d.Lanes))
		t.add(Row{Op: vir.OpDot2Sat, Dst: d, Args: []vir.Type{with(format.U8, 2*d.Lanes), with(format.I8, 2*d.Lanes)}, Need: toyDot2, Asm: "dot2sat", Cost: 10})
		for n := d.Lanes; n <= 2*d.Lanes && n <= 16; n *= 2 {
			bytes := with(format.I8, n)
			t.add(Row{Op: vir.OpMulWide, Dst: d, Args: []vir.Type{bytes, bytes}, Need: toyProducts, Asm: "mulwide", Cost: 10})
			t.add(Row{Op: vir.OpDot1, Dst: d, Args: []vir.Type{d, bytes, bytes}, Need: toyProducts, Asm: "dot1", Cost: 10, Tied: 1})
		}
	case format.I8:
		t.add(Row{Op: vir.OpSign, Dst: d, Args: []vir.Type{d, d}, Need: toyAbs, Asm: "sign", Cost: 5})
		t.op(vir.OpTrunc, d, with(format.I16, d.Lanes))
		t.op(vir.OpLookup16, d, with(format.U8, d.Lanes), with(format.I8, 16))
	}
}

// toys are those with all combinations of capabilities that matter to
// expansions.
func toys() []toy {
	var all []toy
	for _, has := range []Features{0, toyDotU, toyDotI | toySel, toyDot2 | toyAbs | toySign, toyProducts, toyAll} {
		all = append(all, newToy(has))
	}
	return all
}
