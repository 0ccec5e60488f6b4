package spirv

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv/module"
)

// Shape is a product of cooperative matrices, which the lanes of a subgroup hold together: C is Rows by Columns, A has Depth
// columns of From, and B has Depth rows. Sums are of 32 bits.
type Shape struct {
	Rows, Columns, Depth int
	From                 format.DType
}

func (s Shape) String() string {
	return fmt.Sprintf("%dx%dx%d %v", s.Rows, s.Columns, s.Depth, s.From)
}

func (s Shape) a() vir.Type { return vir.TileOf(s.From, s.Rows, s.Depth, vir.UseA) }
func (s Shape) b() vir.Type { return vir.TileOf(s.From, s.Depth, s.Columns, vir.UseB) }

// c is the type of the sums, with other elements than their own if they are converted.
func (s Shape) c(e format.DType) vir.Type { return vir.TileOf(e, s.Rows, s.Columns, vir.UseC) }

// sum is the type of an element of the sums.
func (s Shape) sum() format.DType {
	if s.From == format.F16 {
		return format.F32
	}
	return format.I32
}

// Shapes are the products that devices have: each has some of them, which the extension VK_KHR_cooperative_matrix lists.
var Shapes = []Shape{
	{16, 16, 32, format.I8}, {16, 16, 16, format.I8}, {8, 16, 32, format.I8}, {8, 8, 8, format.I8},
	{16, 16, 16, format.F16}, {8, 16, 16, format.F16}, {16, 8, 16, format.F16}, {16, 8, 8, format.F16}, {8, 8, 8, format.F16},
}

// tiles is products of cooperative matrices, what reads and writes them, and arithmetic of their sums.
func (t *table) tiles() {
	seen := map[vir.Type]bool{}
	moved := func(x vir.Type) {
		if seen[x] {
			return
		}
		seen[x] = true
		t.need(Tiles, vir.OpSplat, x, nil, "OpConstantComposite", 1, (*printer).splatTile)
		for _, op := range []vir.Op{vir.OpLoadRows, vir.OpLoadColumns} {
			t.need(Tiles, op, x, nil, "OpCooperativeMatrixLoadKHR", 8, (*printer).loadTile)
		}
		for _, op := range []vir.Op{vir.OpStoreRows, vir.OpStoreColumns} {
			t.need(Tiles, op, x, []vir.Type{x}, "OpCooperativeMatrixStoreKHR", 8, (*printer).storeTile)
		}
	}
	sums := map[vir.Type]bool{}
	for _, s := range Shapes {
		a, b, c := s.a(), s.b(), s.c(s.sum())
		t.need(Tiles, vir.OpMatMul, c, []vir.Type{c, a, b}, "OpCooperativeMatrixMulAddKHR", 16, (*printer).matMul)
		for _, x := range []vir.Type{a, b, s.c(format.I32), s.c(format.F32), s.c(format.F16)} {
			moved(x)
		}
		if f := s.c(format.F32); !sums[f] {
			sums[f] = true
			t.sums(f)
		}
	}
}

// sums is arithmetic of sums that are f, element by element.
func (t *table) sums(f vir.Type) {
	two := func(op vir.Op, x vir.Type, code module.Op) {
		t.need(Tiles, op, x, []vir.Type{x, x}, code.String(), 8, func(p *printer, in *vir.Instr) []module.ID {
			a, b := p.arg(in, 0)[0], p.arg(in, 1)[0]
			if zero := p.everywhere(x, 0); code == module.OpFAdd && (a == zero || b == zero) { // see float
				return p.elements(x, func(x ...module.ID) module.ID {
					w := p.word(module.OpBitcast, x[0])
					return p.m.Emit(module.OpBitcast, p.f32, p.choose(p.equal(w, p.number(1<<31)), p.number(0), w))
				}, a+b-zero)
			}
			if x.Elem == format.F32 && !p.rounds {
				return p.elements(x, func(x ...module.ID) module.ID {
					r := p.m.Emit(code, p.f32, x...)
					p.m.Declare(module.OpDecorate, r, module.DecorationNoContraction)
					return r
				}, a, b)
			}
			r := p.m.Emit(code, p.tile(x), a, b)
			if x.Elem == format.F32 {
				p.m.Declare(module.OpDecorate, r, module.DecorationNoContraction)
			}
			return []module.ID{r}
		})
	}
	two(vir.OpAdd, f, module.OpFAdd)
	two(vir.OpSub, f, module.OpFSub)
	two(vir.OpMul, f, module.OpFMul)
	i := f.With(format.I32)
	two(vir.OpAdd, i, module.OpIAdd)
	two(vir.OpSub, i, module.OpISub)
	two(vir.OpMul, i, module.OpIMul)
	one := func(op vir.Op, dst, from vir.Type, code module.Op) {
		t.need(Tiles, op, dst, []vir.Type{from}, code.String(), 8, func(p *printer, in *vir.Instr) []module.ID {
			return []module.ID{p.m.Emit(code, p.tile(dst), p.arg(in, 0)[0])}
		})
	}
	one(vir.OpCvtF32, f, i, module.OpConvertSToF)
	one(vir.OpCvtHalf, f, f.With(format.F16), module.OpFConvert)
	t.need(Tiles, vir.OpCanonNaN, f, []vir.Type{f}, "OpSelect", 32, func(p *printer, in *vir.Instr) []module.ID {
		return p.elements(f, func(x ...module.ID) module.ID {
			w := p.word(module.OpBitcast, x[0])
			return p.m.Emit(module.OpBitcast, p.f32, p.choose(p.nan(w), p.number(0x7fc00000), w))
		}, p.arg(in, 0)[0])
	})
	for _, x := range []vir.Type{f, i} {
		t.need(Tiles, vir.OpBitcast, x, []vir.Type{x}, "", 0, func(p *printer, in *vir.Instr) []module.ID { return p.arg(in, 0) })
	}
}

// elements computes each element of a matrix of the ones of others. Each lane does so for the elements that it has.
func (p *printer) elements(t vir.Type, do func(x ...module.ID) module.ID, matrices ...module.ID) []module.ID {
	vars := make([]module.ID, len(matrices)) // the first one becomes the result
	for i, x := range matrices {
		vars[i] = p.m.Local(p.pointer(module.StorageClassFunction, p.tile(t)))
		p.m.Do(module.OpStore, vars[i], x)
	}
	head, body, next, end := p.m.NewID(), p.m.NewID(), p.m.NewID(), p.m.NewID()
	length := p.m.Emit(module.OpCooperativeMatrixLengthKHR, p.uint, p.tile(t))
	before := p.label
	p.m.Do(module.OpBranch, head)
	p.begins(head)
	number, patch := p.phi(p.number(0), before, next)
	more := p.less(number, length)
	p.m.Do(module.OpLoopMerge, end, next, module.LoopControlUnroll)
	p.m.Do(module.OpBranchConditional, more, body, end)
	p.begins(body)
	places, values := make([]module.ID, len(vars)), make([]module.ID, len(vars))
	for i, v := range vars {
		places[i] = p.m.Emit(module.OpAccessChain, p.pointer(module.StorageClassFunction, p.component(t.Elem)), v, number)
		values[i] = p.m.Emit(module.OpLoad, p.component(t.Elem), places[i])
	}
	p.m.Do(module.OpStore, places[0], do(values...))
	p.m.Do(module.OpBranch, next)
	p.begins(next)
	p.m.Patch(patch, p.sum(number, p.number(1)))
	p.m.Do(module.OpBranch, head)
	p.begins(end)
	return []module.ID{p.m.Emit(module.OpLoad, p.tile(t), vars[0])}
}

// tile is the type of a cooperative matrix.
func (p *printer) tile(t vir.Type) module.ID {
	use := map[vir.Use]uint32{vir.UseA: module.CooperativeMatrixUseMatrixAKHR, vir.UseB: module.CooperativeMatrixUseMatrixBKHR, vir.UseC: module.CooperativeMatrixUseMatrixAccumulatorKHR}[t.Use]
	return p.m.Type(module.OpTypeCooperativeMatrixKHR, p.component(t.Elem), p.number(module.ScopeSubgroup), p.number(uint32(t.Rows)), p.number(uint32(t.Columns())), p.number(use))
}

// component is the type of an element of a cooperative matrix.
func (p *printer) component(e format.DType) module.ID {
	switch e {
	case format.F32:
		return p.f32
	case format.F16:
		p.m.Declare(module.OpCapability, module.CapabilityFloat16)
		return p.m.Type(module.OpTypeFloat, 16)
	case format.I8:
		p.m.Declare(module.OpCapability, module.CapabilityInt8)
	}
	return p.m.Type(module.OpTypeInt, uint32(e.Bits()), 1)
}

// splatTile is a matrix with a number in every element.
func (p *printer) splatTile(in *vir.Instr) []module.ID {
	t := p.f.Regs[in.Dst]
	x := uint32(in.Imm)
	if n := t.Elem.Bits(); n < 32 && t.Elem != format.F16 { // as numbers with a sign are written
		x = uint32(int32(x<<(32-n)) >> (32 - n))
	}
	return []module.ID{p.everywhere(t, x)}
}

// everywhere is the matrix whose elements have the bits x.
func (p *printer) everywhere(t vir.Type, x uint32) module.ID {
	return p.m.Constant(module.OpConstantComposite, p.tile(t), p.m.Constant(module.OpConstant, p.component(t.Elem), x))
}

// matrixAt is the place of a matrix in memory: a pointer to its first element, its layout, and how far rows or columns are apart, in
// elements. These are words, or of shared buffers units if all rows are aligned.
func (p *printer) matrixAt(in *vir.Instr) (pointer module.ID, rest []module.ID) {
	var t vir.Type
	if in.Op.Stores() {
		t = p.f.ArgType(in, 0)
	} else {
		t = p.f.Regs[in.Dst]
	}
	layout, row := uint32(module.CooperativeMatrixLayoutRowMajorKHR), t.Columns()*t.Elem.Bytes()
	if in.Op == vir.OpLoadColumns || in.Op == vir.OpStoreColumns {
		layout, row = module.CooperativeMatrixLayoutColumnMajorKHR, t.Rows*t.Elem.Bytes()
	}
	a, by, param := p.address(in.Mem), in.Mem.Apart, in.Mem.Buf
	align := min(a.aligned(), lowest(16|by.Bytes))
	if by.Times != 0 {
		align = min(align, lowest(16|by.Times*p.align(by.By)))
	}
	if need := max(4, min(16, row)); align < need { // VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986
		p.refuse(p.f.Format(in), "rows of a matrix begin at multiples of %d bytes", need)
	}
	unit := 4
	if p.f.Params[param].Shared > 0 && align >= p.sharedUnit(param) {
		unit = p.sharedUnit(param)
	}
	apart := p.number(uint32(by.Bytes / unit))
	if by.Times != 0 {
		apart = p.word(module.OpShiftRightLogical, p.sum(p.times(p.push[by.By], by.Times), p.number(uint32(by.Bytes))), p.number(log2(unit)))
	}
	return p.at(param, unit, a), append([]module.ID{p.number(layout), apart}, p.access(p.exchanges(param))...)
}

func (p *printer) loadTile(in *vir.Instr) []module.ID {
	pointer, rest := p.matrixAt(in)
	return []module.ID{p.m.Emit(module.OpCooperativeMatrixLoadKHR, p.tile(p.f.Regs[in.Dst]), append([]module.ID{pointer}, rest...)...)}
}

func (p *printer) storeTile(in *vir.Instr) []module.ID {
	pointer, rest := p.matrixAt(in)
	p.m.Do(module.OpCooperativeMatrixStoreKHR, append([]module.ID{pointer, p.arg(in, 0)[0]}, rest...)...)
	return nil
}

func (p *printer) matMul(in *vir.Instr) []module.ID {
	t := p.f.Regs[in.Dst]
	args := []module.ID{p.arg(in, 1)[0], p.arg(in, 2)[0], p.arg(in, 0)[0]}
	if t.Elem == format.I32 {
		args = append(args, module.CooperativeMatrixOperandsMatrixASignedComponentsKHR|module.CooperativeMatrixOperandsMatrixBSignedComponentsKHR|
			module.CooperativeMatrixOperandsMatrixCSignedComponentsKHR|module.CooperativeMatrixOperandsMatrixResultSignedComponentsKHR)
	}
	a := p.f.Regs[in.Args[1]]
	if s := (Shape{t.Rows, t.Columns(), a.Columns(), a.Elem}); !slices.Contains(p.shader.Shapes, s) {
		p.shader.Shapes = append(p.shader.Shapes, s)
	}
	return []module.ID{p.m.Emit(module.OpCooperativeMatrixMulAddKHR, p.tile(t), args...)}
}

// refuse remembers the first thing that no shader has.
func (p *printer) refuse(what, reason string, args ...any) {
	if p.refused == nil {
		p.refused = &nest.Refused{What: what, Reason: fmt.Sprintf(reason, args...)}
	}
}

// holders is the number of lanes that hold the tiles of f together, 0 if it has none.
func holders(f *vir.Func) (n int) {
	vir.Walk(f.Body, func(in *vir.Instr, loops []*vir.Loop) {
		if in.Op == vir.OpSplat || n > 0 || !(in.Dst != vir.NoReg && f.Regs[in.Dst].Tile() || len(in.Args) > 0 && f.ArgType(in, 0).Tile()) {
			return
		}
		depth := 0
		for _, l := range loops {
			if l.Lane {
				depth++
			}
		}
		n = vir.Product(f.Lanes()[depth:])
	})
	return n
}

// exchanges says that lanes may load from a buffer what others have stored to it: it is shared, or the function does both.
func (p *printer) exchanges(param int) bool {
	return p.f.Params[param].Shared > 0 || p.stored[param] && p.fetched[param]
}

// access is the operand of loads and stores in a buffer by which lanes exchange something. The memory model of Vulkan, which
// cooperative matrices need, wants it. Other loads need not be there when lanes wait for each other.
func (p *printer) access(exchanged bool) []uint32 {
	if !p.vulkan || !exchanged {
		return nil
	}
	return []uint32{module.MemoryAccessNonPrivatePointer}
}
