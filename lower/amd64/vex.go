package amd64

import (
	"encoding/binary"
	"fmt"
	"strings"

	avo "github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vexOpcodes are the instructions of AVX-VNNI, which the Go assembler knows only in
// EVEX encoding, and their opcodes in VEX.66.0F38.W0. Under these names,
// which it refuses, they stand in a function until spell makes bytes of them.
var vexOpcodes = map[string]byte{"VPDPBUSD_VEX": 0x50, "VPDPWSSD_VEX": 0x52}

// vex makes an instruction of vexOpcodes, whose result is also read.
func vex(name string) ctor {
	return func(o ...operand.Op) (*avo.Instruction, error) {
		if _, err := encodeVEX(vexOpcodes[name], o); err != nil {
			return nil, err
		}
		return &avo.Instruction{Opcode: name, Operands: o, Inputs: o, Outputs: o[2:], ISA: []string{"AVXVNNI"}}, nil
	}
}

// encodeVEX encodes VEX.66.0F38.W0 opcode /r; o is a register or memory, a
// register, the result. R, X, B and vvvv are inverted.
//
//	c4  R X B 00010  0 vvvv L 01  opcode  mod reg rm  [SIB]  [displacement]
func encodeVEX(opcode byte, o []operand.Op) ([]byte, error) {
	bits := byte(0)
	switch {
	case len(o) != 3 || !operand.IsM(o[0]) && !operand.IsXMM(o[0]) && !operand.IsYMM(o[0]):
		return nil, fmt.Errorf("operands are not register or memory, register, register")
	case operand.IsXMM(o[1]) && operand.IsXMM(o[2]) && !operand.IsYMM(o[0]):
	case operand.IsYMM(o[1]) && operand.IsYMM(o[2]) && !operand.IsXMM(o[0]):
		bits = 1
	default:
		return nil, fmt.Errorf("registers are not of one size, 128 or 256 bits")
	}
	v, d := number4(o[1]), number4(o[2])
	if v > 15 || d > 15 {
		return nil, fmt.Errorf("register above 15")
	}
	x, b, tail, err := modRM(d, o[0])
	if err != nil {
		return nil, err
	}
	head := []byte{0xc4, (1-d>>3)<<7 | (1-x)<<6 | (1-b)<<5 | 2, (15-v)<<3 | bits<<2 | 1, opcode}
	return append(head, tail...), nil
}

// number4 is the number of a register.
func number4(o operand.Op) byte { return byte(o.(reg.Physical).PhysicalIndex()) }

// modRM encodes operand rm beside register d: the high bits of its index and of its register, and
// what follows the opcode.
func modRM(d byte, rm operand.Op) (x, b byte, tail []byte, err error) {
	d = d & 7 << 3
	m, ok := rm.(operand.Mem)
	if !ok {
		r := number4(rm)
		if r > 15 {
			return 0, 0, nil, fmt.Errorf("register above 15")
		}
		return 0, r >> 3, []byte{3<<6 | d | r&7}, nil
	}
	const (
		sib    = 4 // as rm of a base: SP and R12, whose rm it is, need one; as index: none, which is SP's
		noDisp = 5 // with mod 0: BP and R13, whose rm it is, need a displacement
	)
	index := byte(sib)
	if m.Index != nil && operand.IsR64(m.Index) && number4(m.Index) != sib && m.Scale == 1 {
		index = number4(m.Index)
	}
	if m.Symbol.Name != "" || m.Index != nil && index == sib || !operand.IsR64(m.Base) || m.Disp != int(int32(m.Disp)) {
		return 0, 0, nil, fmt.Errorf("address is not one register or two and 32 bits of displacement")
	}
	base := number4(m.Base)
	rest := []byte{d | base&7}
	if base&7 == sib || index != sib {
		rest = []byte{d | sib, index&7<<3 | base&7}
	}
	switch {
	case m.Disp == 0 && base&7 != noDisp:
	case m.Disp == int(int8(m.Disp)):
		rest[0] |= 1 << 6
		rest = append(rest, byte(m.Disp))
	default:
		rest[0] |= 2 << 6
		rest = binary.LittleEndian.AppendUint32(rest, uint32(m.Disp))
	}
	return index >> 3, base >> 3, rest, nil
}

// spell writes the instructions of vexOpcodes as bytes, with their text before the
// note:
//
//	BYTE $0xc4; BYTE $0xe2; BYTE $0x6d; BYTE $0x50; BYTE $0xd9 // vpdpbusd Y1, Y2, Y3    v3:i32x8 = dot4 v3 v2 v1
//
// A stand-in has the assembler make EVEX-encoded ones.
func (t target) spell(fn *avo.Function, notes map[*avo.Instruction]string) {
	for _, in := range fn.Instructions() {
		opcode, ok := vexOpcodes[in.Opcode]
		if !ok {
			continue
		}
		if t.m.Has&AVXVNNI == 0 {
			in.Opcode = strings.TrimSuffix(in.Opcode, "_VEX")
			continue
		}
		code, err := encodeVEX(opcode, in.Operands)
		if err != nil {
			panic("BUG: amd64: " + err.Error())
		}
		text := strings.ToLower(strings.TrimSuffix(in.Opcode, "_VEX"))
		for i, o := range in.Operands {
			text += [...]string{" ", ", ", ", "}[i] + o.Asm()
		}
		notes[in] = fmt.Sprintf("%-32s %s", text, notes[in])
		in.Opcode, in.Operands = "BYTE", []operand.Op{machineCode(code)}
	}
}

// machineCode is the operand of BYTE, and more BYTEs on the line.
type machineCode []byte

func (c machineCode) Asm() string {
	s := ""
	for i, b := range c {
		if i > 0 {
			s += "; BYTE "
		}
		s += fmt.Sprintf("$0x%02x", b)
	}
	return s
}
