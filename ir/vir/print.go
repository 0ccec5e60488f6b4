package vir

import (
	"fmt"
	"strings"
)

// String is f in the text form that Parse reads. If f passes Verify, parsing it
// gives f again, except that registers no instruction mentions lose their type.
func (f *Func) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "func %s(", f.Name)
	for i, p := range f.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.Name)
		switch {
		case p.Shared > 0:
			fmt.Fprintf(&b, " shared %d", p.Shared)
		case p.Int:
			b.WriteString(" int")
		default:
			b.WriteString(" ptr")
		}
		if p.Most > 0 {
			fmt.Fprintf(&b, " %d", p.Most)
		}
		if p.Words {
			b.WriteString(" words")
		}
		if p.Align > 0 {
			fmt.Fprintf(&b, " align %d", p.Align)
		}
	}
	b.WriteString(")\n")
	for i, c := range f.Consts {
		fmt.Fprintf(&b, "\tconst c%d %x\n", i, c)
	}
	if f.Repeat != nil {
		fmt.Fprintf(&b, "\t%s\n", f.FormatRepeat())
	}
	for _, g := range f.Grid {
		fmt.Fprintf(&b, "\tgroups %s\n", f.formatMoves(g))
	}
	f.print(&b, f.Body, 1)
	return b.String()
}

// FormatRepeat prints Func.Repeat as String does: "repeat tiles codes+bytes out+step".
func (f *Func) FormatRepeat() string { return "repeat " + f.formatMoves(*f.Repeat) }

func (f *Func) formatMoves(r Repeat) string {
	s := f.paramName(r.Count)
	for _, m := range r.Moves {
		s += fmt.Sprintf(" %s+%s", f.paramName(m.Param), f.paramName(m.By))
	}
	return s
}

func (f *Func) print(b *strings.Builder, body []Node, depth int) {
	pad := strings.Repeat("\t", depth)
	for _, n := range body {
		switch n := n.(type) {
		case *Instr:
			fmt.Fprintf(b, "%s%s\n", pad, f.Format(n))
		case *Loop:
			fmt.Fprintf(b, "%s%s\n", pad, f.formatLoop(n))
			f.print(b, n.Body, depth+1)
			fmt.Fprintf(b, "%send\n", pad)
		default:
			panic(fmt.Sprintf("BUG: vir: unknown node %T", n))
		}
	}
}

func (f *Func) formatLoop(l *Loop) string {
	s := fmt.Sprintf("loop l%d ", l.ID)
	if l.Count.Param >= 0 {
		if s += f.paramName(l.Count.Param); l.Count.Less != 0 {
			s += fmt.Sprintf("-%d", l.Count.Less)
		}
	} else {
		s += fmt.Sprint(l.Count.Const)
	}
	if l.Lane {
		s += " lane"
	}
	if l.Part {
		s += " part"
	}
	if l.Dealt {
		s += " dealt"
	}
	if l.Max {
		s += " max"
	}
	if l.List > 0 {
		s += " list " + f.paramName(l.List-1)
	}
	if l.Ahead {
		s += " ahead"
	}
	if len(l.Carried) > 0 {
		s += " carry"
	}
	for _, r := range l.Carried {
		s += fmt.Sprintf(" v%d", r)
	}
	return s
}

// Format prints one instruction of f as String does:
// "v0:i32x16 = dot4 v0 v3 [act+4 l0*16 i8x64 splat 4]". It prints wrong
// instructions too, for error messages.
func (f *Func) Format(in *Instr) string {
	var b strings.Builder
	if in.Dst != NoReg {
		fmt.Fprintf(&b, "%v:%v = ", in.Dst, f.typeOf(in.Dst))
	}
	b.WriteString(in.Op.String())
	if in.Op.valid() && in.Op.HasMem() {
		b.WriteString(" " + f.formatMem(in.Mem))
		if ops[in.Op].apart {
			b.WriteString(" by " + f.formatApart(in.Mem.Apart))
		}
	}
	for i, r := range in.Args {
		if i == in.Fold-1 {
			b.WriteString(" " + f.formatFold(in))
		} else {
			b.WriteString(" " + r.String())
		}
	}
	switch {
	case in.Op == OpConst:
		fmt.Fprintf(&b, " c%d", in.Imm)
	case in.Op.valid() && in.Op.HasImm():
		fmt.Fprintf(&b, " %d", in.Imm)
	}
	return b.String()
}

func (f *Func) formatMem(m Mem) string {
	s := fmt.Sprintf("%s%+d", f.paramName(m.Buf), m.Off)
	for _, st := range m.Stride {
		s += fmt.Sprintf(" l%d*%d", st.Loop, st.Bytes)
		if st.Times != 0 {
			s += fmt.Sprintf("+%d*%s", st.Times, f.paramName(st.By))
		}
	}
	for _, x := range m.Plus {
		if x.Times != 0 {
			s += fmt.Sprintf(" %s*%d", f.paramName(x.By), x.Times)
		}
	}
	return s
}

func (f *Func) formatApart(a Apart) string {
	s := fmt.Sprint(a.Bytes)
	if a.Times != 0 {
		s += fmt.Sprintf("+%d*%s", a.Times, f.paramName(a.By))
	}
	return s
}

func (f *Func) formatFold(in *Instr) string {
	if in.FoldConst > 0 {
		return fmt.Sprintf("[c%d %v]", in.FoldConst-1, in.FoldType)
	}
	s := fmt.Sprintf("[%s %v", f.formatMem(in.Mem), in.FoldType)
	if in.FoldUnit != 0 {
		s += fmt.Sprintf(" splat %d", in.FoldUnit)
	}
	return s + "]"
}

// String is the name of r in text: "v7".
func (r Reg) String() string {
	if r == NoReg {
		return "none"
	}
	return fmt.Sprintf("v%d", int32(r))
}

func (f *Func) paramName(i int) string {
	if i < 0 || i >= len(f.Params) {
		return fmt.Sprintf("param%d", i)
	}
	return f.Params[i].Name
}

// typeOf is the type of r, or the zero type if f has no r.
func (f *Func) typeOf(r Reg) Type {
	if r < 0 || int(r) >= len(f.Regs) {
		return Type{}
	}
	return f.Regs[r]
}

// ArgType is the type of argument i of in, folded or not.
func (f *Func) ArgType(in *Instr, i int) Type {
	if i == in.Fold-1 {
		return in.FoldType
	}
	return f.typeOf(in.Args[i])
}
