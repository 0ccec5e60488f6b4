package amd64

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/gotypes"
	avo "github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	avoprinter "github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// checks are the avo passes that functions with physical registers need.
var checks = pass.Concat(
	pass.Verify,
	pass.FunctionPass(pass.LabelTarget),
	pass.FunctionPass(pass.VerifyAllocation),
	pass.FunctionPass(pass.RequiredISAExtensions),
)

// Print makes assembly of k. The argument of the function points at consecutive
// 8-byte words, the parameters.
func (t target) Print(k *lower.Kernel) *lower.Function {
	f, constants := t.function(k)
	text, err := avoprinter.NewGoAsm(avoprinter.Config{Name: "tmacc"}).Print(f)
	if err != nil {
		panic(fmt.Sprintf("BUG: %s: %v", t.m.Name, err))
	}
	_, body, _ := strings.Cut(string(text), "\n") // the first line is for a file
	return lower.NewFunction(body, constants)
}

// File puts printed functions together. Its name is that of the target.
func (t target) File(_ string, fs ...lower.Named) (lower.File, error) {
	return t.m.Assembly("", fs)
}

// function is the avo form of k, checked and commented, and the constants that it reads.
func (t target) function(k *lower.Kernel) (*avo.File, []lower.Constant) {
	f := avo.NewFile()
	b := &function{t: t, k: k, pool: &pool{}, notes: map[*avo.Instruction]string{}}
	f.AddSection(b.build())
	if err := checks.Execute(f); err != nil {
		panic(fmt.Sprintf("BUG: %s: %v", t.m.Name, err))
	}
	t.spell(b.fn, b.notes)
	annotate(b.fn, b.notes)
	return f, b.pool.constants
}

// function builds one kernel.
type function struct {
	t     target
	k     *lower.Kernel
	pool  *pool
	notes map[*avo.Instruction]string
	fn    *avo.Function
}

func (b *function) build() *avo.Function {
	b.fn = avo.NewFunction(lower.NameMark)
	b.fn.Attributes = attr.NOSPLIT
	sig, err := gotypes.ParseSignature("func(args *byte)")
	if err != nil {
		panic("BUG: amd64: " + err.Error())
	}
	b.fn.SetSignature(sig)
	r := b.k.Func.Repeat
	if r != nil {
		b.fn.AddLabel("repeat")
	}
	for i := range b.k.Ops {
		b.op(&b.k.Ops[i])
	}
	if r != nil {
		b.repeat(r)
	}
	if wide(b.fn) {
		b.ins(f0(x86.VZEROUPPER))
	}
	b.ins(f0(x86.RET))
	return b.fn
}

// repeat moves pointers where the parameters are and runs the kernel again.
func (b *function) repeat(r *vir.Repeat) {
	args, bytes := gp(0), gp(1)
	param := func(n int) operand.Op { return operand.Mem{Base: args, Disp: 8 * n} }
	b.ins(f2(x86.MOVQ), operand.NewParamAddr("args", 0), args)
	b.ins(f1(x86.DECQ), param(r.Count))
	b.ins(f1(x86.JLE), operand.LabelRef("end"))
	for _, m := range r.Moves {
		b.ins(f2(x86.MOVQ), param(m.By), bytes)
		b.ins(f2(x86.ADDQ), bytes, param(m.Param))
	}
	b.ins(f1(x86.JMP), operand.LabelRef("repeat"))
	b.fn.AddLabel("end")
}

func f0(f func() (*avo.Instruction, error)) ctor {
	return func(...operand.Op) (*avo.Instruction, error) { return f() }
}

func (b *function) ins(f ctor, ops ...operand.Op) {
	p := &printer{}
	p.ins(f, ops...)
	b.fn.AddInstruction(p.out[0])
}

func (b *function) op(m *lower.MOp) {
	switch m.Kind {
	case lower.MInstr:
		b.instr(m)
	case lower.MLoadParam:
		b.loadParam(m.Param, gp(m.GP))
	case lower.MScale:
		b.scale(gp(m.GP), m.Scale)
	case lower.MLoopBegin:
		b.loopBegin(m)
	case lower.MLoopEnd:
		for _, a := range m.Adds {
			if a.By >= 0 {
				b.ins(f2(x86.ADDQ), gp(a.By), gp(a.GP))
				continue
			}
			b.ins(f2(x86.ADDQ), number(a.Bytes), gp(a.GP))
		}
		b.ins(f1(x86.DECQ), gp(m.GP))
		b.ins(f1(x86.JNZ), operand.LabelRef(label("loop", m)))
		b.fn.AddLabel(avo.Label(label("done", m)))
	default:
		panic(fmt.Sprintf("BUG: amd64: machine operation of kind %d", m.Kind))
	}
}

func gp(n int) reg.Register {
	if n < 0 || n >= numGP {
		panic(fmt.Sprintf("BUG: amd64: no general register %d", n))
	}
	return gpRegs[n]
}

func label(what string, m *lower.MOp) string { return fmt.Sprintf("%s%d", what, m.Loop) }

// number is n as an immediate of the smallest form.
func number(n int) operand.Op {
	if n == int(int8(n)) {
		return operand.I8(n)
	}
	return imm32(n)
}

// imm32 is n as an immediate of 32 bits, which suffice for what vir.Verify lets pass.
func imm32(n int) operand.Op {
	if n != int(int32(n)) {
		panic(fmt.Sprintf("BUG: amd64: %d does not fit 32 bits", n))
	}
	return operand.I32(n)
}

// loadParam reads a parameter through the register it goes to, so that no
// register is needed for the argument pointer.
func (b *function) loadParam(n int, r reg.Register) {
	b.ins(f2(x86.MOVQ), operand.NewParamAddr("args", 0), r)
	b.ins(f2(x86.MOVQ), operand.Mem{Base: r, Disp: 8 * n}, r)
}

func (b *function) loopBegin(m *lower.MOp) {
	counter := gp(m.GP)
	switch {
	case m.Count.Param >= 0:
		b.loadParam(m.Count.Param, counter)
		b.ins(f2(x86.TESTQ), counter, counter)
		b.ins(f1(x86.JLE), operand.LabelRef(label("done", m)))
	case m.Count.Const > 0:
		b.ins(f2(x86.MOVQ), imm32(m.Count.Const), counter)
	default:
		b.ins(f1(x86.JMP), operand.LabelRef(label("done", m)))
	}
	for _, c := range m.Copy {
		if c.Src != c.Dst {
			b.ins(f2(x86.MOVQ), gp(c.Src), gp(c.Dst))
		}
	}
	if m.List != nil {
		b.loadParam(m.List.Param, gp(m.List.GP))
	}
	b.fn.AddInstruction(&avo.Instruction{Opcode: "PCALIGN", Operands: []operand.Op{operand.U8(32)}})
	b.fn.AddLabel(avo.Label(label("loop", m)))
	if m.List != nil {
		b.listed(m.List)
	}
}

// listed reads the number of an iteration and computes its pointers.
func (b *function) listed(l *lower.GPList) {
	n := gp(l.Number)
	b.ins(f2(x86.MOVL), operand.Mem{Base: gp(l.GP)}, n.(reg.GPPhysical).As32())
	for _, s := range l.At {
		b.scale(n, s)
	}
}

func (b *function) scale(n reg.Register, s lower.GPScale) {
	b.ins(f3(x86.IMUL3Q), number(s.Bytes), n, gp(s.Dst))
	if s.Src >= 0 {
		b.ins(f2(x86.ADDQ), gp(s.Src), gp(s.Dst))
	}
}

// instr prints a vector operation by its row.
func (b *function) instr(m *lower.MOp) {
	f, in := b.k.Func, m.In
	p := &printer{imm: in.Imm, splat: in.FoldUnit > 0, evex: b.t.m.NumVec > 16, pool: b.pool}
	if m.Base >= 0 {
		imm32(m.Disp) // which avo would cut
		p.mem = operand.Mem{Base: gp(m.Base), Disp: m.Disp}
		if m.Plus > 0 {
			p.mem.Index, p.mem.Scale = gp(m.Plus-1), 1
		}
	}
	if in.Op == vir.OpConst {
		p.constant = f.Consts[in.Imm]
	}
	if in.Op.HasResult() {
		p.dst = b.vector(m.Dst, m.Row.Dst)
	}
	for i, a := range m.Args {
		switch {
		case i == in.Fold-1 && in.FoldConst > 0:
			p.a = append(p.a, b.pool.data(f.Consts[in.FoldConst-1]))
		case i == in.Fold-1:
			p.a = append(p.a, p.mem)
		default:
			p.a = append(p.a, b.vector(a, m.Row.Args[i]))
		}
	}
	m.Row.Code.(emit)(p)
	for i, x := range p.out {
		b.fn.AddInstruction(x)
		if i == 0 {
			b.notes[x] = f.Format(in)
		}
	}
}

func (b *function) vector(n int, t vir.Type) operand.Op {
	if n < 0 || n >= b.t.m.NumVec {
		panic(fmt.Sprintf("BUG: amd64: no vector register %d", n))
	}
	return vector(n, t)
}

// noted is an operand that prints a comment after it.
type noted struct {
	operand.Op
	text string
}

func (n noted) Asm() string { return n.Op.Asm() + n.text }

// wide says whether fn uses more than 128 bits of a register, which would slow
// down what runs after it.
func wide(fn *avo.Function) bool {
	for _, in := range fn.Instructions() {
		for _, o := range in.Operands {
			if operand.IsYMM(o) || operand.IsZMM(o) {
				return true
			}
		}
	}
	return false
}

// noteColumn is where notes begin, if the instruction leaves room.
const noteColumn = 40

// annotate ends instructions with their notes. avo has no comments beside
// instructions and knows no operands but its own, so this comes after its passes.
func annotate(fn *avo.Function, notes map[*avo.Instruction]string) {
	var block []*avo.Instruction // avo aligns the operands of a block
	flush := func() {
		opcode := 0
		for _, in := range block {
			opcode = max(opcode, len(in.OpcodeWithSuffixes()))
		}
		for _, in := range block {
			if note := notes[in]; note != "" {
				annotateInstr(in, opcode+1, note)
			}
		}
		block = nil
	}
	for _, n := range fn.Nodes {
		in, ok := n.(*avo.Instruction)
		if !ok {
			flush()
			continue
		}
		block = append(block, in)
	}
	flush()
}

func annotateInstr(in *avo.Instruction, opcode int, note string) {
	width := opcode - 2
	for _, o := range in.Operands {
		width += 2 + len(o.Asm())
	}
	last := len(in.Operands) - 1
	in.Operands = append([]operand.Op(nil), in.Operands...)
	in.Operands[last] = noted{in.Operands[last], strings.Repeat(" ", max(1, noteColumn-width)) + "// " + note}
}
