package lower

import (
	"encoding/binary"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// constants evaluates every instruction that depends on constants alone and puts
// the results, each value once, at the start of the function. After legalization
// it leaves alone what the target cannot load as one constant.
//
//	loop l0 n                         v1:u8x16 = splat 15
//	    v1:i32x4 = splat 0x0f0f0f0f   loop l0 n
//	    v2:u8x16 = bitcast v1      ->     v4:u8x16 = and v3 v1
//	    v4:u8x16 = and v3 v2
func (t *table) constants(f *vir.Func, legal bool) (*vir.Func, error) {
	c := &constFolder{
		t: t, legal: legal, b: &Builder{F: clone(f)}, mut: mutable(f),
		data: make([][]byte, len(f.Regs)), to: identity(len(f.Regs)), known: map[typed]vir.Reg{}, folded: map[constant][]byte{},
	}
	body := vir.Map(f.Body, c.instr)
	c.b.F.Body = append(c.top, body...)
	return c.b.F, nil
}

type constFolder struct {
	t      *table
	legal  bool
	b      *Builder
	mut    []bool
	data   [][]byte // bytes of each register that is a constant
	to     []vir.Reg
	known  map[typed]vir.Reg
	folded map[constant][]byte
	top    []vir.Node
}

// typed is a type and the bytes of a constant.
type typed struct {
	vir.Type
	data string
}

func (c *constFolder) instr(was *vir.Instr) []*vir.Instr {
	in := rename(was, c.to)
	if in.Dst == vir.NoReg || c.mut[in.Dst] || !in.Op.Pure() || in.Fold > 0 {
		return instead(was, in)
	}
	data := c.eval(in)
	if data == nil {
		return instead(was, in)
	}
	key := typed{c.b.TypeOf(in.Dst), string(data)}
	r, ok := c.known[key]
	if !ok {
		load := c.load(in.Dst, data)
		if load == nil {
			return instead(was, in)
		}
		r = in.Dst
		c.known[key], c.data[r] = r, data
		c.top = append(c.top, load)
	}
	c.to[in.Dst] = r
	return nil
}

// load returns the splat or const that sets dst to data, nil if the target must
// have a row for it and has none.
func (c *constFolder) load(dst vir.Reg, data []byte) *vir.Instr {
	load := &vir.Instr{Op: vir.OpConst, Dst: dst}
	x, isSplat := splatValue(c.b.TypeOf(dst).Elem, data)
	if isSplat {
		splat := &vir.Instr{Op: vir.OpSplat, Dst: dst, Imm: x}
		if c.t.find(c.b.F, splat) != nil || !c.legal && c.t.find(c.b.F, load) == nil {
			return splat
		}
	}
	if c.legal && c.t.find(c.b.F, load) == nil {
		return nil
	}
	load.Imm = c.b.Const(data)
	return load
}

// eval returns the bytes of in's result if they are the same in every run.
func (c *constFolder) eval(in *vir.Instr) []byte {
	switch in.Op {
	case vir.OpConst:
		return c.b.F.Consts[in.Imm]
	case vir.OpSplat:
		return splatBytes(c.b.TypeOf(in.Dst), in.Imm)
	case vir.OpLane: // differs from lane to lane
		return nil
	}
	for _, r := range in.Args {
		if c.data[r] == nil {
			return nil
		}
	}
	if len(in.Args) > maxPureArgs {
		return evalPure(c.b.F, in, c.data)
	}
	key := constant{op: in.Op, imm: in.Imm, of: c.b.TypeOf(in.Dst), args: [maxPureArgs]vir.Reg{vir.NoReg, vir.NoReg, vir.NoReg}}
	copy(key.args[:], in.Args)
	out, ok := c.folded[key]
	if !ok {
		out = evalPure(c.b.F, in, c.data)
		c.folded[key] = out
	}
	return out
}

// constant is an operation on registers that are constants: code that is repeated has it many times.
type constant struct {
	op   vir.Op
	imm  int64
	of   vir.Type
	args [maxPureArgs]vir.Reg
}

// maxPureArgs bounds the arguments of operations whose results are remembered.
const maxPureArgs = 3

// evalPure runs in on constant arguments; nil if that is an error.
func evalPure(f *vir.Func, in *vir.Instr, data [][]byte) []byte {
	g := &vir.Func{Name: "constant", Params: []vir.Param{{Name: "out"}}}
	c := *in
	c.Args = nil
	for _, r := range in.Args {
		g.Consts = append(g.Consts, data[r])
		g.Regs = append(g.Regs, f.Regs[r])
		dst := vir.Reg(len(g.Regs) - 1)
		c.Args = append(c.Args, dst)
		g.Body = append(g.Body, &vir.Instr{Op: vir.OpConst, Dst: dst, Imm: int64(dst)})
	}
	g.Regs = append(g.Regs, f.Regs[in.Dst])
	c.Dst = vir.Reg(len(g.Regs) - 1)
	g.Body = append(g.Body, &c, &vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{c.Dst}})
	out := make([]byte, f.Regs[in.Dst].Bytes())
	if vir.Eval(g, []vir.Arg{{Buf: out}}) != nil {
		return nil
	}
	return out
}

// splatBytes is the value of splat x as type t.
func splatBytes(t vir.Type, x int64) []byte {
	out := make([]byte, 0, t.Bytes()+8)
	for range t.Lanes {
		out = binary.LittleEndian.AppendUint64(out, uint64(x))[:len(out)+t.Elem.Bytes()]
	}
	return out
}

// splatValue is the inverse of splatBytes, if all elements of data are equal.
func splatValue(e format.DType, data []byte) (int64, bool) {
	n := e.Bytes()
	for i := n; i < len(data); i++ {
		if data[i] != data[i-n] {
			return 0, false
		}
	}
	var x int64
	for i := n - 1; i >= 0; i-- {
		x = x<<8 | int64(data[i])
	}
	if e.IsSigned() {
		x = x << (64 - 8*n) >> (64 - 8*n)
	}
	return x, true
}
