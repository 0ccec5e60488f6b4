// Package machine runs kernels for CPUs that are not here.
package machine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Run does what k does where it is printed: on the registers and with the addresses that it has there, in that
// order. Each instruction does what its operation means, whatever its row prints; lanes behind
// its result become zero. Registers hold nothing of use before something is put there. An error names the instruction that leaves its buffer or reads a
// register that does not hold an address.
func Run(k *lower.Kernel, args []vir.Arg) error {
	if len(args) != len(k.Func.Params) {
		return fmt.Errorf("%s: %d arguments for %d parameters", k.Func.Name, len(args), len(k.Func.Params))
	}
	m := &machine{k: k, args: slices.Clone(args), gp: make([]value, k.Machine.NumGP), vec: make([][]byte, k.Machine.NumVec)}
	for i := range m.vec {
		m.vec[i] = make([]byte, k.Machine.VecBits/8)
	}
	for {
		if err := m.run(); err != nil {
			return fmt.Errorf("%s on %s: %w", k.Func.Name, k.Machine.Name, err)
		}
		r := k.Func.Repeat
		if r == nil {
			return nil
		}
		if m.args[r.Count].Int--; m.args[r.Count].Int <= 0 {
			return nil
		}
		for _, move := range r.Moves {
			a := &m.args[move.Param]
			by := m.args[move.By].Int
			if by < 0 || by > int64(len(a.Buf)) {
				return fmt.Errorf("%s: moves %s by %d bytes of %d", k.Func.Name, k.Func.Params[move.Param].Name, by, len(a.Buf))
			}
			a.Buf = a.Buf[by:]
		}
	}
}

// Text is all of k that Run depends on: two kernels of one text do the same to equal arguments. Names of instructions
// are not in it, as Run does not look at them.
func Text(k *lower.Kernel) []byte {
	f, m := k.Func, k.Machine
	text := fmt.Appendf(nil, "%d %d %d %v %x", m.NumGP, m.NumVec, m.VecBits, f.Params, f.Consts)
	if f.Repeat != nil {
		text = append(text, f.FormatRepeat()...)
	}
	for i := range k.Ops {
		op := &k.Ops[i]
		text = fmt.Appendf(text, "\n%d ", op.Kind)
		if op.Kind == lower.MInstr {
			text = append(text, f.Format(op.In)...)
			text = fmt.Appendf(text, " %d %d %v %d %d %d", op.Row.Tied, op.Dst, op.Args, op.Base, op.Plus, op.Disp)
			continue
		}
		text = fmt.Appendf(text, "%d %d %d %v %v %v %v", op.Loop, op.GP, op.Param, op.Scale, op.Count, op.Copy, op.Adds)
		if op.List != nil {
			text = fmt.Appendf(text, "%v", *op.List)
		}
	}
	return text
}

// value is what a general register holds: an offset into the buffer of a parameter, or a number.
type value struct{ param, n int }

// The param of a number, and of what a register holds that nothing was put into.
const (
	number  = -1
	nothing = -2
)

type machine struct {
	k     *lower.Kernel
	args  []vir.Arg
	gp    []value
	vec   [][]byte
	begin []int // of the loops around, by index into k.Ops
	unit  vir.Unit
}

func (m *machine) run() (err error) {
	for i := range m.gp {
		m.gp[i] = value{nothing, 0}
	}
	for i, v := range m.vec {
		for j := range v {
			v[j] = byte(0x51 + 29*i + 71*j)
		}
	}
	for at := 0; at < len(m.k.Ops) && err == nil; {
		at, err = m.op(at)
	}
	return err
}

// op does the operation at at, and says which is next.
func (m *machine) op(at int) (next int, err error) {
	op := &m.k.Ops[at]
	switch op.Kind {
	case lower.MInstr:
		if err := m.instr(op); err != nil {
			return 0, fmt.Errorf("%s: %w", m.k.Func.Format(op.In), err)
		}
	case lower.MLoadParam:
		m.gp[op.GP] = m.param(op.Param)
	case lower.MScale:
		return at + 1, m.scale(op.GP, op.Scale)
	case lower.MLoopBegin:
		return m.loopBegin(at)
	case lower.MLoopEnd:
		return m.loopEnd(at)
	default:
		return 0, fmt.Errorf("machine operation of kind %d", op.Kind)
	}
	return at + 1, nil
}

func (m *machine) param(n int) value {
	if m.k.Func.Params[n].Int {
		return value{number, int(m.args[n].Int)}
	}
	return value{n, 0}
}

// number is what general register gp holds, if that is no address.
func (m *machine) number(gp int) (int, error) {
	if m.gp[gp].param != number {
		return 0, fmt.Errorf("g%d is no number", gp)
	}
	return m.gp[gp].n, nil
}

func (m *machine) scale(gp int, s lower.GPScale) error {
	n, err := m.number(gp)
	if err != nil {
		return err
	}
	if s.Dst == s.Src {
		return fmt.Errorf("g%d is multiplied before it is added to", s.Dst)
	}
	to := value{number, 0}
	if s.Src >= 0 {
		to = m.gp[s.Src]
	}
	m.gp[s.Dst] = value{to.param, to.n + n*s.Bytes}
	return nil
}

func (m *machine) loopBegin(at int) (int, error) {
	op := &m.k.Ops[at]
	count := op.Count.Const
	if op.Count.Param >= 0 {
		count = int(m.args[op.Count.Param].Int)
	}
	m.gp[op.GP] = value{number, count}
	if count <= 0 {
		for m.k.Ops[at].Kind != lower.MLoopEnd || m.k.Ops[at].Loop != op.Loop {
			at++
		}
		return at + 1, nil
	}
	for _, c := range op.Copy {
		m.gp[c.Dst] = m.gp[c.Src]
	}
	if op.List != nil {
		m.gp[op.List.GP] = m.param(op.List.Param)
	}
	m.begin = append(m.begin, at)
	return at + 1, m.listed(op.List)
}

// listed begins an iteration of a loop over a list.
func (m *machine) listed(l *lower.GPList) error {
	if l == nil {
		return nil
	}
	b, err := m.bytes(m.gp[l.GP], 4)
	if err != nil {
		return err
	}
	m.gp[l.Number] = value{number, int(binary.LittleEndian.Uint32(b))}
	for _, s := range l.At {
		if err := m.scale(l.Number, s); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) loopEnd(at int) (int, error) {
	op := &m.k.Ops[at]
	for _, a := range op.Adds {
		by := a.Bytes
		if a.By >= 0 {
			var err error
			if by, err = m.number(a.By); err != nil {
				return 0, err
			}
		}
		m.gp[a.GP].n += by
	}
	left, err := m.number(op.GP)
	if err != nil {
		return 0, err
	}
	m.gp[op.GP].n = left - 1
	begin := m.begin[len(m.begin)-1]
	if m.k.Ops[begin].Loop != op.Loop {
		return 0, fmt.Errorf("loop l%d ends inside of l%d", op.Loop, m.k.Ops[begin].Loop)
	}
	if left > 1 {
		return begin + 1, m.listed(m.k.Ops[begin].List)
	}
	m.begin = m.begin[:len(m.begin)-1]
	return at + 1, nil
}

// bytes are n at an address.
func (m *machine) bytes(at value, n int) ([]byte, error) {
	if at.param < 0 {
		return nil, fmt.Errorf("address %d is of no buffer", at.n)
	}
	buf := m.args[at.param].Buf
	if at.n < 0 || at.n > len(buf)-n {
		return nil, fmt.Errorf("bytes [%d,%d) of %s, which has %d", at.n, at.n+n, m.k.Func.Params[at.param].Name, len(buf))
	}
	return buf[at.n : at.n+n], nil
}

// address is that of op, in the buffer that it is of.
func (m *machine) address(op *lower.MOp) (value, error) {
	at := m.gp[op.Base]
	if at.param != op.In.Mem.Buf {
		return at, fmt.Errorf("g%d is no address of %s", op.Base, m.k.Func.Params[op.In.Mem.Buf].Name)
	}
	at.n += op.Disp
	if op.Plus > 0 {
		plus, err := m.number(op.Plus - 1)
		if err != nil {
			return at, err
		}
		at.n += plus
	}
	return at, nil
}

func (m *machine) instr(op *lower.MOp) error {
	f, in := m.k.Func, op.In
	var mem, dst []byte
	if in.HasMem() {
		at, err := m.address(op)
		if err != nil {
			return err
		}
		if n := f.MemBytes(in); n > 0 { // a prefetch may be outside
			if mem, err = m.bytes(at, n); err != nil {
				return err
			}
		}
	}
	if op.Row.Tied > 0 && op.Args[op.Row.Tied-1] != op.Dst {
		return fmt.Errorf("argument %d is not where the result will be", op.Row.Tied)
	}
	var args [3][]byte
	for i, r := range op.Args {
		if i != in.Fold-1 {
			args[i] = m.vec[r]
		}
	}
	if op.Dst >= 0 {
		dst = m.vec[op.Dst]
	}
	if err := m.unit.Exec(f, in, dst, args[:len(op.Args)], mem); err != nil {
		return err
	}
	if op.Dst >= 0 {
		clear(dst[f.Regs[in.Dst].Bytes():])
	}
	return nil
}
