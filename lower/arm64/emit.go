package arm64

import (
	"bytes"
	"fmt"
	"math"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Print makes assembly of k. The argument of the function points at consecutive
// 8-byte words, the parameters. A kernel that has constants gets a read-only table of
// them. A vector instruction is three truths on one line:
//
//	WORD $0x4e819443 // sdot v3.4s, v2.16b, v1.16b    v7:i32x4 = dot4 v3 v5 v6
func (t target) Print(k *lower.Kernel) *lower.Function {
	p := &printer{k: k}
	p.kernel()
	return lower.NewFunction(p.out.String(), nil)
}

// File puts printed functions together. Its name is that of the target.
func (t target) File(pkg string, fs ...lower.Named) (lower.File, error) {
	return t.m.Assembly(fmt.Sprintf("// Kernels of package %s for %s.\n\n", pkg, t.m.Name), fs)
}

type printer struct {
	out    bytes.Buffer
	k      *lower.Kernel
	consts []int // offset of each constant in the kernel's table
	inTemp bool  // whether the temporary holds the table's address
	uses   map[vir.Reg]int
	zero   map[vir.Reg]bool // registers that are 0 wherever they are read
}

func (p *printer) line(format string, args ...any) {
	fmt.Fprintf(&p.out, format+"\n", args...)
}

func (p *printer) kernel() {
	k := p.k
	p.table()
	p.line("\n// func %s(args *byte)", lower.NameMark)
	p.line("TEXT ·%s(SB), NOSPLIT, $0-8", lower.NameMark)
	p.line("\tMOVD args+0(FP), R%d", regArgs)
	p.uses, p.zero = map[vir.Reg]int{}, map[vir.Reg]bool{}
	defined := map[vir.Reg]bool{}
	vir.Walk(k.Func.Body, func(in *vir.Instr, _ []*vir.Loop) {
		for _, r := range in.Args {
			p.uses[r]++
		}
		p.zero[in.Dst] = in.Op == vir.OpSplat && in.Imm == 0 && !defined[in.Dst]
		defined[in.Dst] = true
	})
	if k.Func.Repeat != nil {
		p.line("repeat:")
	}
	for ops := k.Ops; len(ops) > 0; {
		n := p.fused(ops)
		if n == 0 {
			p.op(&ops[0])
			n = 1
		}
		ops = ops[n:]
	}
	if k.Func.Repeat != nil {
		p.repeat(k.Func.Repeat)
	}
	p.line("\tRET")
}

// repeat moves pointers where the parameters are and runs the kernel again.
func (p *printer) repeat(r *vir.Repeat) {
	a, by := gp(0), gp(1)
	p.line("\tMOVD %d(R%d), R%d // %s", 8*r.Count, regArgs, a, p.k.Func.FormatRepeat())
	p.line("\tSUBS $1, R%d", a)
	p.line("\tBLE end")
	p.line("\tMOVD R%d, %d(R%d)", a, 8*r.Count, regArgs)
	for _, m := range r.Moves {
		p.line("\tMOVD %d(R%d), R%d", 8*m.Param, regArgs, a)
		p.line("\tMOVD %d(R%d), R%d", 8*m.By, regArgs, by)
		p.line("\tADD R%d, R%d", by, a)
		p.line("\tMOVD R%d, %d(R%d)", a, 8*m.Param, regArgs)
	}
	p.line("\tJMP repeat")
	p.line("end:")
}

// table prints the kernel's constants, each at a multiple of 16 bytes.
func (p *printer) table() {
	end := 0
	for _, c := range p.k.Func.Consts {
		p.consts = append(p.consts, end)
		end += (len(c) + 15) &^ 15
	}
	if end == 0 {
		return
	}
	data := make([]byte, end)
	for i, c := range p.k.Func.Consts {
		copy(data[p.consts[i]:], c)
	}
	p.line("")
	for i := 0; i < end; i += 8 {
		var w uint64
		for j := range 8 {
			w |= uint64(data[i+j]) << (8 * j)
		}
		p.line("DATA %s+%d(SB)/8, $0x%016x", tableName, i, w)
	}
	p.line("GLOBL %s(SB), RODATA|NOPTR, $%d", tableName, end)
}

// tableName is the symbol of a function's constants.
const tableName = lower.NameMark + "_consts<>"

func (p *printer) op(op *lower.MOp) {
	switch op.Kind {
	case lower.MInstr:
		p.instr(op)
	case lower.MLoadParam:
		p.line("\tMOVD %d(R%d), R%d // %s", 8*op.Param, regArgs, gp(op.GP), p.k.Func.Params[op.Param].Name)
	case lower.MScale:
		p.scale(gp(op.GP), op.Scale)
	case lower.MLoopBegin:
		p.loopBegin(op)
	case lower.MLoopEnd:
		for _, a := range op.Adds {
			if a.By >= 0 {
				p.line("\tADD R%d, R%d", gp(a.By), gp(a.GP))
				continue
			}
			p.line("\tADD $%d, R%d", a.Bytes, gp(a.GP))
		}
		p.line("\tSUBS $1, R%d", gp(op.GP))
		p.line("\tBNE l%d", op.Loop)
		p.line("done%d:", op.Loop)
		p.inTemp = false
	default:
		panic(fmt.Sprintf("BUG: arm64: machine operation of kind %d", op.Kind))
	}
}

// loopBegin: Arm's optimization guides advise to align branch targets to 32 bytes.
func (p *printer) loopBegin(op *lower.MOp) {
	n := gp(op.GP)
	switch {
	case op.Count.Param >= 0:
		p.line("\tMOVD %d(R%d), R%d // %s", 8*op.Count.Param, regArgs, n, p.k.Func.Params[op.Count.Param].Name)
		p.line("\tCMP $0, R%d", n)
		p.line("\tBLE done%d", op.Loop)
	case op.Count.Const <= 0:
		panic(fmt.Sprintf("BUG: arm64: loop l%d runs %d times", op.Loop, op.Count.Const))
	default:
		p.line("\tMOVD $%d, R%d", op.Count.Const, n)
	}
	for _, c := range op.Copy {
		p.line("\tMOVD R%d, R%d", gp(c.Src), gp(c.Dst))
	}
	if l := op.List; l != nil {
		p.line("\tMOVD %d(R%d), R%d // %s", 8*l.Param, regArgs, gp(l.GP), p.k.Func.Params[l.Param].Name)
	}
	p.inTemp = false // another iteration may come from below
	p.line("\tPCALIGN $32")
	p.line("l%d:", op.Loop)
	if op.List != nil {
		p.listed(op.List)
	}
}

// listed reads the number of an iteration and computes its pointers.
func (p *printer) listed(l *lower.GPList) {
	n := gp(l.Number)
	p.line("\tMOVWU (R%d), R%d", gp(l.GP), n)
	for _, s := range l.At {
		p.scale(n, s)
	}
}

func (p *printer) scale(n int, s lower.GPScale) {
	d := gp(s.Dst)
	p.line("\tMOVD $%d, R%d", s.Bytes, d)
	if s.Src < 0 {
		p.line("\tMUL R%d, R%d", n, d)
		return
	}
	p.line("\tMADD R%d, R%d, R%d, R%d", n, gp(s.Src), d, d)
}

// word prints one instruction: its encoding, its assembly, what it computes.
func (p *printer) word(op *lower.MOp, w uint32, text string, args ...any) {
	note := p.k.Func.Format(op.In)
	p.line("\tWORD $0x%08x // %-44s %s", w, fmt.Sprintf(text, args...), note)
}

// comment names an operation that takes no instruction of its own.
func (p *printer) comment(op *lower.MOp) { p.line("\t// %s", p.k.Func.Format(op.In)) }

func (p *printer) instr(op *lower.MOp) {
	if op.Plus > 0 {
		panic("BUG: arm64: an address of two registers")
	}
	switch c := op.Row.Code.(type) {
	case plain:
		p.plain(op, c)
	case unless0:
		if op.In.Imm == 0 {
			p.move(op, op.Args[0])
			return
		}
		p.plain(op, c.plain)
	case ofHalf:
		p.ofHalf(op, c)
	case oneOfTwo:
		c.text = fmt.Sprintf("uzp%d v%%d.%s, v%%d.%[2]s, v%%d.%[2]s", op.In.Imm+1, c.arr)
		c.word |= uint32(op.In.Imm) << 14
		p.plain(op, c.plain)
	case memory:
		p.memory(op, c, gp(op.Base), op.Disp)
	case constant:
		if !p.inTemp {
			p.line("\tMOVD $%s(SB), R%d", tableName, regTemp)
			p.inTemp = true
		}
		p.memory(op, c.memory, regTemp, p.consts[op.In.Imm])
	case splat:
		p.splat(op)
	case move:
		p.move(op, op.Args[0])
	default:
		panic(fmt.Sprintf("BUG: arm64: no printer for %T", c))
	}
}

func (p *printer) plain(op *lower.MOp, c plain) {
	w := c.word | uint32(op.Dst)
	regs := []any{op.Dst}
	if c.n > 0 {
		w |= uint32(op.Args[c.n-1]) << 5
		regs = append(regs, op.Args[c.n-1])
	}
	if c.m > 0 {
		w |= uint32(op.Args[c.m-1]) << 16
		regs = append(regs, op.Args[c.m-1])
	}
	if c.imm != nil {
		w |= c.imm(op.In.Imm)
		regs = append(regs, op.In.Imm)
	}
	p.word(op, w, c.text, regs...)
}

func (p *printer) ofHalf(op *lower.MOp, c ofHalf) {
	c.text = c.asm + " v%d.8h, v%d.8b, v%d.8b"
	if op.In.Imm == 1 {
		c.word |= 1 << 30
		c.text = c.asm + "2 v%d.8h, v%d.16b, v%d.16b"
	}
	p.plain(op, c.plain)
}

// move copies a whole register, or does nothing if it is there already.
func (p *printer) move(op *lower.MOp, from int) {
	if op.Dst == from {
		p.comment(op)
		return
	}
	p.word(op, 0x4ea01c00|uint32(from)<<16|uint32(from)<<5|uint32(op.Dst), "mov v%d.16b, v%d.16b", op.Dst, from)
}

// memory prints an access at base + disp. The offset field holds 0 to 4095 units
// of the access, its unscaled form (bit 24 clear, LDUR) -256 to 255 bytes, LD1R
// none; any other offset is added into the temporary first.
func (p *printer) memory(op *lower.MOp, c memory, base, disp int) {
	units := disp >> c.scale
	inUnits := units<<c.scale == disp && 0 <= units && units < 4096
	inBytes := -256 <= disp && disp < 256
	if disp != 0 && (c.bare || !inUnits && !inBytes) {
		p.line("\tADD $%d, R%d, R%d", disp, base, regTemp)
		p.inTemp = false
		base, disp, units, inUnits = regTemp, 0, 0, true
	}
	w, asm, operand := c.word|uint32(base)<<5, c.asm, c.operand
	switch {
	case inUnits:
		w |= uint32(units) << 10
	default:
		w = w&^(1<<24) | uint32(disp)&0x1ff<<12
		asm = asm[:len(asm)-1] + "u" + asm[len(asm)-1:] // ldur, stur, prfum
	}
	switch op.In.Op {
	case vir.OpPrefetch, vir.OpPrefetch2:
	case vir.OpStore:
		w |= uint32(op.Args[0])
		operand = fmt.Sprintf(operand, op.Args[0])
	default:
		w |= uint32(op.Dst)
		operand = fmt.Sprintf(operand, op.Dst)
	}
	offset := fmt.Sprintf(", #%d", disp)
	if disp == 0 {
		offset = ""
	}
	p.word(op, w, "%s %s, [x%d%s]", asm, operand, base, offset)
}

// splat prints MOVI, MVNI or FMOV if one of them makes the number, else moves it
// through the temporary.
func (p *printer) splat(op *lower.MOp) {
	e := p.k.Func.Regs[op.In.Dst].Elem.Bits()
	v := uint32(op.In.Imm) & (1<<e - 1)
	for w := e; w < 32; w *= 2 {
		v |= v << w
	}
	if w, text, ok := modifiedImm(v); ok {
		p.word(op, w|uint32(op.Dst), text, op.Dst)
		return
	}
	p.line("\tMOVD $0x%x, R%d", v, regTemp)
	p.inTemp = false
	p.word(op, 0x4e040c00|regTemp<<5|uint32(op.Dst), "dup v%d.4s, w%d", op.Dst, regTemp)
}

// modifiedImm returns the instruction that puts v into every 32 bits of a
// register: one byte, shifted left, inverted, or both (Arm ARM, AdvSIMDExpandImm).
func modifiedImm(v uint32) (word uint32, text string, ok bool) {
	field := func(b uint32) uint32 { return b>>5<<16 | b&31<<5 }
	if v == v&0xff*0x01010101 {
		return 0x4f00e400 | field(v&0xff), fmt.Sprintf("movi v%%d.16b, #%d", v&0xff), true
	}
	for invert, asm := range []string{"movi", "mvni"} {
		u := v ^ -uint32(invert)
		op := uint32(0x4f000400 | invert<<29)
		for s := uint32(0); s < 16 && u>>16 == u&0xffff; s += 8 {
			if b := u & 0xffff; b == b>>s&0xff<<s {
				return op | 0x8000 | s/8<<13 | field(b>>s), fmt.Sprintf("%s v%%d.8h, #%d, lsl #%d", asm, b>>s, s), true
			}
		}
		for s := uint32(0); s < 32; s += 8 {
			if u == u>>s&0xff<<s {
				return op | s/8<<13 | field(u>>s), fmt.Sprintf("%s v%%d.4s, #%d, lsl #%d", asm, u>>s, s), true
			}
		}
		for s := uint32(8); s <= 16; s += 8 { // msl shifts ones in
			if ones := uint32(1)<<s - 1; u == u>>s&0xff<<s|ones {
				return op | 0xc000 | (s/8-1)<<12 | field(u>>s), fmt.Sprintf("%s v%%d.4s, #%d, msl #%d", asm, u>>s, s), true
			}
		}
	}
	// FMOV: sign, inverted bit 30 five times over, two exponent bits, four of fraction.
	if e := v >> 25 & 0x3f; v&(1<<19-1) == 0 && (e == 0x20 || e == 0x1f) {
		b := v>>24&0x80 | v>>19&0x7f
		return 0x4f00f400 | field(b), fmt.Sprintf("fmov v%%d.4s, #%v", math.Float32frombits(v)), true
	}
	return 0, "", false
}
