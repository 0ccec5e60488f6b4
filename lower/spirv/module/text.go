package module

import (
	"fmt"
	"strings"
)

// instruction is the row of an instruction in the grammar.
type instruction struct {
	name     string
	operands string // kinds, separated by spaces: one that ends in ? may be missing, in * be there any number of times
}

// enumerant is a number with a name, and the kinds of the operands that follow it.
type enumerant struct{ name, operands string }

// Text is the module in the syntax of spirv-as. With --preserve-numeric-ids it makes the same words of it.
func (m *Module) Text() string {
	var b strings.Builder
	words := m.Words()[head:]
	signed := map[ID]bool{} // types of integers with a sign
	for len(words) > 0 {
		n := words[0] >> 16
		if op := Op(words[0]); op == OpTypeInt {
			signed[words[1]] = words[3] == 1
		}
		b.WriteString(line(words[:n], signed))
		words = words[n:]
	}
	return b.String()
}

// line is an instruction as a line.
func line(words []uint32, signed map[ID]bool) string {
	row, ok := instructions[Op(words[0])]
	if !ok {
		panic(fmt.Sprintf("BUG: module: no instruction has opcode %d", Op(words[0])))
	}
	p := &printer{words: words[1:], signed: Op(words[0]) == OpConstant && signed[words[1]]}
	p.kinds(row.operands)
	if len(p.words) > 0 {
		panic("BUG: module: words too many: " + row.name)
	}
	out := row.name + p.out.String()
	if p.result != "" {
		out = p.result + " = " + out
	}
	return out + "\n"
}

// printer writes the operands of an instruction.
type printer struct {
	words  []uint32 // that are left
	out    strings.Builder
	result string
	signed bool // a number has a sign
}

func (p *printer) next() uint32 {
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// kinds writes operands of these kinds.
func (p *printer) kinds(kinds string) {
	for _, k := range strings.Fields(kinds) {
		switch {
		case strings.HasSuffix(k, "*"):
			for len(p.words) > 0 {
				p.operand(k[:len(k)-1])
			}
		case !strings.HasSuffix(k, "?"):
			p.operand(k)
		case len(p.words) > 0:
			p.operand(k[:len(k)-1])
		}
	}
}

// operand writes one operand of a kind.
func (p *printer) operand(kind string) {
	switch kind {
	case "IdResult":
		p.result = fmt.Sprint("%", p.next())
	case "IdResultType", "IdRef", "IdScope", "IdMemorySemantics":
		fmt.Fprint(&p.out, " %", p.next())
	case "PairIdRefIdRef":
		fmt.Fprint(&p.out, " %", p.next(), " %", p.next())
	case "LiteralContextDependentNumber":
		if p.signed {
			fmt.Fprint(&p.out, " ", int32(p.next()))
			return
		}
		fmt.Fprint(&p.out, " ", p.next())
	case "LiteralInteger":
		fmt.Fprint(&p.out, " ", p.next())
	case "LiteralExtInstInteger":
		p.out.WriteString(" " + extended[p.next()])
	case "LiteralString":
		fmt.Fprintf(&p.out, " %q", p.text())
	default:
		p.enumerant(kind)
	}
}

// text is a literal string.
func (p *printer) text() string {
	var b []byte
	for {
		for w, i := p.next(), 0; i < 4; i++ {
			if byte(w>>(8*i)) == 0 {
				return string(b)
			}
			b = append(b, byte(w>>(8*i)))
		}
	}
}

// enumerant writes a number by its name, or a mask by the names of its bits, and what follows it.
func (p *printer) enumerant(kind string) {
	all, ok := enumerants[kind]
	if !ok {
		panic("BUG: module: no operands of kind " + kind)
	}
	w := p.next()
	if e, ok := all[w]; ok {
		p.out.WriteString(" " + e.name)
		p.kinds(e.operands)
		return
	}
	var names, operands []string
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if w&bit != 0 {
			names, operands = append(names, all[bit].name), append(operands, all[bit].operands)
		}
	}
	p.out.WriteString(" " + strings.Join(names, "|"))
	p.kinds(strings.Join(operands, " "))
}
