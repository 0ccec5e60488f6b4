package spirv

import (
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// emit writes the instructions of a row and returns the words of its result.
type emit func(p *printer, in *vir.Instr) []module.ID

// The types of the rows' tables.
var (
	allElems = []format.DType{format.U8, format.I8, format.U16, format.I16, format.U32, format.I32, format.F16, format.F32}
	words32  = []format.DType{format.U32, format.I32}
	small    = []format.DType{format.U8, format.I8, format.U16, format.I16}
)

// types are the registers of lanes of e.
func types(e format.DType) (all []vir.Type) {
	for n := 1; n*e.Bits() <= 128; n *= 2 {
		all = append(all, vir.Type{Elem: e, Lanes: n})
	}
	return all
}

// size is how many words a register of type t has, 1 for a matrix.
func size(t vir.Type) int {
	if t.Tile() {
		return 1
	}
	return (t.Bits() + 31) / 32
}

// lanes is t with another type of lane.
func lanes(t vir.Type, e format.DType) vir.Type { return vir.Type{Elem: e, Lanes: t.Lanes} }

// table collects rows.
type table []lower.Row

// add adds a row that costs some instructions.
func (t *table) add(op vir.Op, dst vir.Type, args []vir.Type, asm string, cost int, code emit) {
	t.need(0, op, dst, args, asm, cost, code)
}

func (t *table) need(has lower.Features, op vir.Op, dst vir.Type, args []vir.Type, asm string, cost int, code emit) {
	*t = append(*t, lower.Row{Op: op, Dst: dst, Args: args, Need: has, Asm: asm, Cost: 10 * cost, Code: code})
}

func makeRows() []lower.Row {
	t := &table{}
	t.memory()
	t.moves()
	t.bits()
	t.integers()
	t.floats()
	t.conversions()
	t.roundings()
	t.products()
	t.lookups()
	t.tiles()
	return *t
}

// memory is what loads, stores and waits.
func (t *table) memory() {
	for _, e := range allElems {
		for _, x := range types(e) {
			t.add(vir.OpLoad, x, nil, "OpLoad", 4, (*printer).load)
			t.add(vir.OpStore, x, []vir.Type{x}, "OpStore", 4, (*printer).store)
			t.add(vir.OpConst, x, nil, "OpConstant", 0, (*printer).constant)
			t.add(vir.OpSplat, x, nil, "OpConstant", 0, (*printer).splat)
			if e.Bits() == 32 {
				t.add(vir.OpLoadSplat, x, nil, "OpLoad", 4, (*printer).load)
			}
		}
	}
	for _, op := range []vir.Op{vir.OpPrefetch, vir.OpPrefetch2} {
		t.add(op, vir.Type{}, nil, "", 0, func(*printer, *vir.Instr) []module.ID { return nil })
	}
	t.add(vir.OpLane, vir.Type{Elem: format.I32, Lanes: 1}, nil, "OpUMod", 0, func(p *printer, in *vir.Instr) []module.ID {
		return []module.ID{p.numbers[int(in.Imm)]}
	})
	t.add(vir.OpBarrier, vir.Type{}, nil, "OpControlBarrier", 10, (*printer).barrier)
}

// moves is what takes registers apart and puts them together.
func (t *table) moves() {
	for n := 1; n <= 16; n *= 2 {
		x := vir.Type{Elem: format.U8, Lanes: n}
		t.add(vir.OpBitcast, x, []vir.Type{x}, "", 0, func(p *printer, in *vir.Instr) []module.ID { return p.arg(in, 0) })
	}
	for _, e := range allElems {
		for _, x := range types(e) {
			one := vir.Type{Elem: e, Lanes: 1}
			t.add(vir.OpSplatLane, x, []vir.Type{one}, "OpIMul", 1, (*printer).splatLane)
			if x.Lanes > 1 {
				half := vir.Type{Elem: e, Lanes: x.Lanes / 2}
				t.add(vir.OpHalf, half, []vir.Type{x}, "OpShiftRightLogical", 1, (*printer).half)
				t.add(vir.OpJoin, x, []vir.Type{half, half}, "OpBitFieldInsert", 1, (*printer).join)
			}
		}
	}
}

// wordwise is a row of an operation on whole words, each by one instruction.
func (t *table) wordwise(op vir.Op, x vir.Type, name string, code module.Op) {
	args := slices.Repeat([]vir.Type{x}, op.NumArgs())
	t.add(op, x, args, name, size(x), func(p *printer, in *vir.Instr) []module.ID {
		return p.each(in, func(_ int, w []module.ID) module.ID { return p.word(code, w...) })
	})
}

// instruction is the instruction of an operation on words.
type instruction struct {
	op   vir.Op
	code module.Op
}

// bits is logic, and shifts by a constant of words.
func (t *table) bits() {
	for _, e := range allElems {
		for _, x := range types(e) {
			t.wordwise(vir.OpAnd, x, "OpBitwiseAnd", module.OpBitwiseAnd)
			t.wordwise(vir.OpOr, x, "OpBitwiseOr", module.OpBitwiseOr)
			t.wordwise(vir.OpXor, x, "OpBitwiseXor", module.OpBitwiseXor)
		}
	}
	for _, e := range words32 {
		for _, x := range types(e) {
			for _, s := range []instruction{{vir.OpShl, module.OpShiftLeftLogical}, {vir.OpShrU, module.OpShiftRightLogical}, {vir.OpShrS, module.OpShiftRightArithmetic}} {
				t.add(s.op, x, []vir.Type{x}, s.code.String(), size(x), func(p *printer, in *vir.Instr) []module.ID {
					return p.each(in, func(_ int, w []module.ID) module.ID { return p.word(s.code, w[0], p.number(uint32(in.Imm))) })
				})
			}
		}
	}
}

// extended is a row of an operation on whole words, each by an extended instruction.
func (t *table) extended(op vir.Op, x vir.Type, name string, code uint32) {
	t.add(op, x, []vir.Type{x, x}, name, size(x), func(p *printer, in *vir.Instr) []module.ID {
		return p.each(in, func(_ int, w []module.ID) module.ID { return p.extended(p.uint, code, w...) })
	})
}

// integers is arithmetic of words.
func (t *table) integers() {
	for _, e := range words32 {
		for _, x := range types(e) {
			t.wordwise(vir.OpAdd, x, "OpIAdd", module.OpIAdd)
			t.wordwise(vir.OpSub, x, "OpISub", module.OpISub)
			t.wordwise(vir.OpMul, x, "OpIMul", module.OpIMul)
		}
	}
	for _, x := range types(format.I32) {
		two := []vir.Type{x, x}
		t.extended(vir.OpMinS, x, "SMin", module.ExtendedSMin)
		t.extended(vir.OpMaxS, x, "SMax", module.ExtendedSMax)
		t.add(vir.OpCmpGtS, x, two, "OpSGreaterThan", 2*size(x), func(p *printer, in *vir.Instr) []module.ID {
			return p.each(in, func(_ int, w []module.ID) module.ID {
				return p.choose(p.m.Emit(module.OpSGreaterThan, p.bool, w...), p.number(^uint32(0)), p.number(0))
			})
		})
	}
}

// floats is arithmetic of 32-bit floats, each result rounded by itself.
func (t *table) floats() {
	for _, x := range types(format.F32) {
		two := []vir.Type{x, x}
		for _, f := range []instruction{{vir.OpAdd, module.OpFAdd}, {vir.OpSub, module.OpFSub}, {vir.OpMul, module.OpFMul}} {
			t.add(f.op, x, two, f.code.String(), size(x), func(p *printer, in *vir.Instr) []module.ID {
				return p.each(in, func(_ int, w []module.ID) module.ID { return p.float(f.code, w...) })
			})
		}
		t.add(vir.OpDiv, x, two, "OpUDiv", 80*size(x), func(p *printer, in *vir.Instr) []module.ID {
			return p.each(in, func(_ int, w []module.ID) module.ID { return p.divide(w[0], w[1]) })
		})
		compared := func(op vir.Op, dst vir.Type, code module.Op, yes, no func(p *printer, w []module.ID) module.ID) {
			t.add(op, dst, two, "OpFOrd", 2*size(x), func(p *printer, in *vir.Instr) []module.ID {
				return p.each(in, func(_ int, w []module.ID) module.ID {
					return p.choose(p.m.Emit(code, p.bool, p.asFloat(w[0]), p.asFloat(w[1])), yes(p, w), no(p, w))
				})
			})
		}
		arg := func(i int) func(*printer, []module.ID) module.ID {
			return func(_ *printer, w []module.ID) module.ID { return w[i] }
		}
		all := func(x uint32) func(*printer, []module.ID) module.ID {
			return func(p *printer, _ []module.ID) module.ID { return p.number(x) }
		}
		compared(vir.OpCmpGtF, lanes(x, format.I32), module.OpFOrdGreaterThan, all(^uint32(0)), all(0))
		compared(vir.OpMaxF, x, module.OpFOrdGreaterThan, arg(0), arg(1))
		compared(vir.OpMinF, x, module.OpFOrdLessThan, arg(0), arg(1))
		t.add(vir.OpCanonNaN, x, []vir.Type{x}, "OpSelect", 3*size(x), func(p *printer, in *vir.Instr) []module.ID {
			return p.each(in, func(_ int, w []module.ID) module.ID { return p.choose(p.nan(w[0]), p.number(0x7fc00000), w[0]) })
		})
	}
}

// conversions is lanes of more and of fewer bits.
func (t *table) conversions() {
	for _, to := range []format.DType{format.I16, format.I32} {
		for _, x := range types(to) {
			for _, from := range small {
				if from.Bits() < to.Bits() {
					t.add(vir.OpWiden, x, []vir.Type{lanes(x, from)}, "OpBitFieldSExtract OpBitFieldUExtract", x.Lanes, (*printer).lanewise)
				}
			}
		}
	}
	for _, from := range []format.DType{format.I16, format.I32} {
		for _, x := range types(from) {
			for _, to := range small {
				if to.Bits() < from.Bits() {
					t.add(vir.OpTrunc, lanes(x, to), []vir.Type{x}, "OpBitFieldInsert", x.Lanes, (*printer).lanewise)
				}
			}
		}
	}
}

// roundings is floats of integers and of 16 bits, and back.
func (t *table) roundings() {
	for _, x := range types(format.F32) {
		ints := lanes(x, format.I32)
		t.add(vir.OpCvtF32, x, []vir.Type{ints}, "OpConvertSToF", size(x), func(p *printer, in *vir.Instr) []module.ID {
			return p.each(in, func(_ int, w []module.ID) module.ID {
				return p.asWord(p.m.Emit(module.OpConvertSToF, p.f32, w[0]))
			})
		})
		t.add(vir.OpCvtI32, ints, []vir.Type{x}, "OpConvertFToS", 2*size(x), func(p *printer, in *vir.Instr) []module.ID {
			return p.each(in, func(_ int, w []module.ID) module.ID {
				return p.m.Emit(module.OpConvertFToS, p.uint, p.extended(p.f32, module.ExtendedRoundEven, p.asFloat(w[0])))
			})
		})
		t.add(vir.OpCvtF16, lanes(x, format.F16), []vir.Type{x}, "OpBitFieldInsert", 30*size(x), func(p *printer, in *vir.Instr) []module.ID {
			var out []module.ID
			for _, w := range p.arg(in, 0) {
				out = append(out, p.toHalf(w))
			}
			return p.pack(lanes(x, format.F16), out)
		})
		t.add(vir.OpCvtHalf, x, []vir.Type{lanes(x, format.F16)}, "OpBitFieldUExtract", 10*size(x), func(p *printer, in *vir.Instr) []module.ID {
			var out []module.ID
			for i := range x.Lanes {
				if p.halves {
					out = append(out, p.unpacked(p.arg(in, 0)[i/2], i%2))
				} else {
					out = append(out, p.ofHalf(p.lane(in, 0, i)))
				}
			}
			return out
		})
	}
}

// products is sums of products of bytes in words, and sums of lanes.
func (t *table) products() {
	for _, x := range types(format.I32) {
		b := vir.Type{Elem: format.I8, Lanes: 4 * x.Lanes}
		for from, code := range []module.Op{module.OpSUDot, module.OpSDot} {
			a := vir.Type{Elem: []format.DType{format.U8, format.I8}[from], Lanes: b.Lanes}
			t.need(Dot, vir.OpDot4, x, []vir.Type{x, a, b}, code.String(), 2*size(x), func(p *printer, in *vir.Instr) []module.ID {
				return p.each(in, func(_ int, w []module.ID) module.ID { return p.dot(code, w[0], w[2], w[1]) })
			})
		}
		for n := 1; n <= x.Lanes; n *= 2 {
			to := vir.Type{Elem: format.I32, Lanes: n}
			t.reduction(vir.OpRedAdd, to, x, "OpIAdd", (*printer).sum)
			t.reduction(vir.OpRedMaxS, to, x, "SMax", (*printer).larger)
		}
	}
}

// reduction is a row that combines runs of words.
func (t *table) reduction(op vir.Op, to, from vir.Type, name string, do func(p *printer, a, b module.ID) module.ID) {
	t.add(op, to, []vir.Type{from}, name, from.Lanes-to.Lanes, func(p *printer, in *vir.Instr) []module.ID {
		return reduce(p, p.arg(in, 0), to.Lanes, do)
	})
}

// reduce combines words, a run of neighbours for each of n.
func reduce(p *printer, w []module.ID, n int, do func(p *printer, a, b module.ID) module.ID) (out []module.ID) {
	for run := range slices.Chunk(w, len(w)/n) {
		x := run[0]
		for _, y := range run[1:] {
			x = do(p, x, y)
		}
		out = append(out, x)
	}
	return out
}

// lookups is tables in registers. The index chooses a word of a table, which is shifted.
func (t *table) lookups() {
	for _, e := range allElems {
		for _, x := range types(e) {
			index := lanes(x, e.Unsigned())
			for n := 8; n <= 128; n *= 2 {
				table := vir.Type{Elem: e, Lanes: max(n, x.Lanes)}
				if table.Bits() > 128 {
					continue
				}
				for _, mod := range []bool{false, true} {
					t.add(vir.Lookup(n, mod), x, []vir.Type{index, table}, "OpVectorExtractDynamic", 4*x.Lanes, func(p *printer, in *vir.Instr) []module.ID {
						return p.lookup(in, p.arg(in, 1), n)
					})
				}
			}
			for m := max(4, x.Lanes); m <= 64 && m*e.Bits() <= 128; m *= 2 {
				table := vir.Type{Elem: e, Lanes: m}
				t.add(vir.OpLookupPair, x, []vir.Type{index, table, table}, "OpVectorExtractDynamic", 5*x.Lanes, func(p *printer, in *vir.Instr) []module.ID {
					return p.lookup(in, slices.Concat(p.arg(in, 1), p.arg(in, 2)), 2*m)
				})
			}
		}
	}
}

// log2 of a power of two.
func log2(n int) uint32 { return uint32(bits.TrailingZeros(uint(n))) }
