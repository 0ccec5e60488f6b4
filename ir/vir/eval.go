package vir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// Arg is the argument for one parameter: bytes for a pointer, else an integer.
type Arg struct {
	Buf []byte
	Int int64
}

// ErrLimit is what EvalLimit reports when the work is not done within its limit.
var ErrLimit = errors.New("instruction limit reached")

// Eval runs f: the definition that every pass and back end is tested against.
// It returns the error of Verify, or an error that names the instruction that
// leaves its buffer, looks up outside a table or converts what does not fit.
// Buffers keep what was stored before an error.
//
// Lanes of a workgroup run in lockstep, and workgroups one after the other. It is an error if what they do depends on
// that: if one stores a byte that another loads or stores, and no barrier of their workgroup is between.
//
// f32 arithmetic rounds every result to nearest even; the payload of a NaN it
// produces is unspecified. Loads, stores and operations on bits keep all bits.
func Eval(f *Func, args []Arg) error { return EvalLimit(f, args, math.MaxInt) }

// EvalLimit is Eval with at most limit instructions and loop iterations, after
// which it returns an error that wraps ErrLimit.
func EvalLimit(f *Func, args []Arg, limit int) error {
	if err := Verify(f); err != nil {
		return err
	}
	own := len(f.Params) - f.shared()
	if len(args) != own {
		return fmt.Errorf("vir: func %s: %d arguments for %d parameters", f.Name, len(args), own)
	}
	args = slices.Concat(args, make([]Arg, f.shared()))
	m := &machine{f: f, args: args, limit: &limit, regs: make([][]int64, len(f.Regs)), iter: map[int]*int{}}
	err := m.aligned()
	if err == nil && f.Lanes() == nil && f.Grid == nil {
		err = m.run(m.compile(f.Body))
	} else if err == nil {
		m.races, m.inner = newRaces(f, args), f.Lanes()
		err = m.grid(len(f.Grid) - 1)
	}
	for n := m.repeats(); err == nil && n > 1; n-- {
		if err = m.move(); err == nil {
			err = m.run(m.compile(f.Body))
		}
	}
	if err != nil {
		return fmt.Errorf("vir: func %s: %w", f.Name, err)
	}
	return nil
}

// repeats is how often the function's body runs.
func (m *machine) repeats() int64 {
	if m.f.Repeat == nil {
		return 1
	}
	return m.args[m.f.Repeat.Count].Int
}

// move moves the pointers between two runs of the body.
func (m *machine) move() error {
	if err := m.spend(); err != nil {
		return err
	}
	for _, v := range m.f.Repeat.Moves {
		a, by := &m.args[v.Param], m.args[v.By].Int
		if by < 0 || by > int64(len(a.Buf)) {
			return fmt.Errorf("%s: %s moves by %d bytes of %d", m.f.FormatRepeat(), m.f.paramName(v.Param), by, len(a.Buf))
		}
		a.Buf = a.Buf[by:]
	}
	return nil
}

// spend takes one from the limit.
func (m *machine) spend() error {
	if *m.limit--; *m.limit < 0 {
		return ErrLimit
	}
	return nil
}

// aligned checks the integers that are known to be multiples.
func (m *machine) aligned() error {
	for i, p := range m.f.Params {
		if p.Int && p.Align > 0 && m.args[i].Int%int64(p.Align) != 0 {
			return fmt.Errorf("%s is %d, no multiple of %d", p.Name, m.args[i].Int, p.Align)
		}
	}
	return nil
}

type machine struct {
	f     *Func
	args  []Arg
	limit *int
	races *races // nil: one lane, one workgroup
	lane  int    // in the workgroup: of code around loops of lanes the first of theirs
	inner []int  // lanes of the loops of lanes that are not around the code
	part  *int   // the number of the open loop's part of a sum, of parts
	parts int
	order *ordered     // what the open loop of parts adds in order
	regs  [][]int64    // lanes, once an instruction defines the register
	iter  map[int]*int // loop id -> the loop's number
	// Lanes that live for one instruction only: a result whose register is also
	// an argument, and a folded argument.
	out, fold [MaxLanes]int64
}

// step is a loop or an instruction, with everything resolved that does not
// change between executions.
type step struct {
	loop    *Loop // nil: an instruction
	count   int
	list    []byte // of u32, or nil
	iter    *int
	body    []step
	part    *int // of a dealt loop, the number of the part that runs, of parts
	parts   int
	carried [][]int64  // of a loop of parts, the registers
	order   *ordered   // of a loop of parts and of the dealt one, what they add in order
	lanes   [][]step   // of a loop of lanes, the body of each
	by      []*machine // that runs each of lanes
	sums    []*sum     // registers that lanes carry

	call
	eval func(*call) error
	copy []int64 // where out goes, if an argument is the result's register
	addr *address
	fold []int64 // argument Fold-1, if there is one
}

// address is a Mem whose loops are resolved.
type address struct {
	buf   []byte
	off   int
	bytes int
	runs  int   // stretches that are accessed
	each  int   // bytes of each
	most  Param // of a load: what bounds its bytes or words
	terms []addrTerm
}

type addrTerm struct {
	iter  *int
	bytes int
}

func (m *machine) compile(body []Node) []step {
	steps := make([]step, 0, len(body))
	for _, n := range body {
		switch n := n.(type) {
		case *Loop:
			count := n.Count.Const
			if n.Count.Param >= 0 {
				count = int(m.args[n.Count.Param].Int) - n.Count.Less
			}
			if n.Lane {
				steps = append(steps, m.lanes(n))
				continue
			}
			iter := new(int)
			m.iter[n.ID] = iter
			s := step{loop: n, count: count, iter: iter, parts: 1}
			if n.Dealt {
				s.part, s.parts = m.part, m.parts
				if m.order != nil && m.order.dealt == n {
					s.order = m.order
				}
			}
			if n.Part {
				m.part, m.parts = iter, count
				for _, r := range n.Carried {
					s.carried = append(s.carried, m.regs[r])
				}
				s.order = newOrdered(m, n)
				m.order = s.order
			}
			s.body = m.compile(n.Body)
			if n.List > 0 {
				s.list = m.args[n.List-1].Buf
			}
			steps = append(steps, s)
		case *Instr:
			steps = append(steps, m.instr(n))
		}
	}
	return steps
}

func (m *machine) instr(in *Instr) step {
	s := step{eval: ops[in.Op].eval, call: call{in: in}}
	for i, r := range in.Args {
		s.typ[i] = m.f.ArgType(in, i)
		switch {
		case i != in.Fold-1:
			s.arg[i] = m.regs[r]
		case in.FoldConst > 0:
			s.arg[i] = make([]int64, in.FoldType.Lanes)
			unpack(in.FoldType.Elem, s.arg[i], m.f.Consts[in.FoldConst-1])
		default:
			s.fold = m.fold[:in.FoldType.Lanes]
			s.arg[i] = s.fold
		}
	}
	if in.Op.HasResult() {
		s.dst = m.f.Regs[in.Dst]
		if m.regs[in.Dst] == nil {
			m.regs[in.Dst] = make([]int64, s.dst.Lanes)
		}
		s.out = m.regs[in.Dst]
		if slices.Contains(in.Args, in.Dst) {
			s.copy, s.out = s.out, m.out[:s.dst.Lanes]
		}
	}
	switch in.Op {
	case OpConst:
		s.mem = m.f.Consts[in.Imm]
	case OpLane:
		s.lane = m.iter[int(in.Imm)]
	}
	if n := m.f.MemBytes(in); n > 0 {
		s.addr = m.address(in.Mem, n)
		if s.addr.runs, s.addr.each = m.f.TileRuns(in); s.addr.runs == 0 {
			s.addr.runs, s.addr.each = 1, n
		} else {
			s.apart = in.Mem.Apart.Bytes + m.bytes(in.Mem.Apart.Multiple)
			s.addr.bytes = (s.addr.runs-1)*s.apart + s.addr.each
		}
		if !in.Op.Stores() {
			s.addr.most = m.f.Params[in.Mem.Buf]
		}
	}
	return s
}

func (m *machine) address(mem Mem, bytes int) *address {
	a := &address{buf: m.args[mem.Buf].Buf, off: mem.Off, bytes: bytes}
	for _, s := range mem.Stride {
		a.terms = append(a.terms, addrTerm{m.iter[s.Loop], s.Bytes + m.bytes(s.Multiple)})
	}
	for _, x := range mem.Plus {
		a.off += m.bytes(x)
	}
	return a
}

func (m *machine) bytes(x Multiple) int { return x.Times * int(m.args[x.By].Int) }

// MemBytes is the number of bytes that in reads or writes at Mem; a prefetch
// does neither.
func (f *Func) MemBytes(in *Instr) int {
	switch {
	case in.FoldConst > 0:
		return 0
	case in.Fold > 0 && in.FoldUnit > 0:
		return in.FoldUnit
	case in.Fold > 0:
		return in.FoldType.Bytes()
	}
	switch in.Op {
	case OpLoad:
		return f.Regs[in.Dst].Bytes()
	case OpLoadSplat:
		return f.Regs[in.Dst].Elem.Bytes()
	case OpStore:
		return f.Regs[in.Args[0]].Bytes()
	case OpLoadRows, OpLoadColumns, OpStoreRows, OpStoreColumns:
		return f.tileBytes(in)
	}
	return 0
}

func (m *machine) run(steps []step) error {
	for i := range steps {
		s := &steps[i]
		var err error
		switch {
		case s.lanes != nil:
			err = fork([]*step{s})
		case s.loop != nil:
			err = m.loop(s)
		default:
			err = m.one(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one runs an instruction.
func (m *machine) one(s *step) error {
	if err := m.spend(); err != nil {
		return err
	}
	if s.in.Op == OpBarrier && m.races != nil {
		m.races.epoch++
	}
	if err := m.exec(s); err != nil {
		return fmt.Errorf("%s: %w", m.f.Format(s.in), err)
	}
	return nil
}

func (m *machine) loop(s *step) error {
	if s.loop.Part {
		return parts([]*machine{m}, [][]step{{*s}}, 0)
	}
	for i := range s.times() {
		if err := m.number(s, i); err != nil {
			return err
		}
		s.order.begin(*s.iter)
		if err := m.run(s.body); err != nil {
			return err
		}
		s.order.end()
	}
	return nil
}

// times is how often a loop runs.
func (s *step) times() int {
	if s.part == nil {
		return s.count
	}
	return max(0, (s.count-*s.part+s.parts-1)/s.parts)
}

// number sets the number of a loop for iteration i.
func (m *machine) number(s *step, i int) error {
	if err := m.spend(); err != nil {
		return err
	}
	*s.iter = i
	if s.part != nil {
		*s.iter = *s.part + i*s.parts
	}
	if s.loop.List > 0 {
		if len(s.list) < 4*(i+1) {
			return fmt.Errorf("%s: number %d of a list of %d bytes", m.f.formatLoop(s.loop), i, len(s.list))
		}
		*s.iter = int(binary.LittleEndian.Uint32(s.list[4*i:]))
	}
	return nil
}

func (m *machine) exec(s *step) error {
	if s.addr != nil {
		if err := m.access(s); err != nil {
			return err
		}
	}
	if err := s.eval(&s.call); err != nil {
		return err
	}
	copy(s.copy, s.out)
	return nil
}

// holds refuses bytes, at offset off of the buffer, beyond what p says of them.
func (p Param) holds(mem []byte, off int) error {
	switch {
	case p.Most == 0:
		return nil
	case p.Words && (off%4 != 0 || len(mem)%4 != 0):
		return fmt.Errorf("bytes [%d,%d) of %s are no whole words", off, off+len(mem), p.Name)
	}
	d := i8
	if p.Words {
		d = i32
	}
	lanes := make([]int64, len(mem)/d.Bytes())
	unpack(d, lanes, mem)
	for i, x := range lanes {
		if x > int64(p.Most) || x < -int64(p.Most) {
			return fmt.Errorf("%s %d of %s is %d, beyond %d", map[bool]string{false: "byte", true: "word"}[p.Words], off/d.Bytes()+i, p.Name, x, p.Most)
		}
	}
	return nil
}

// access finds the bytes of s and reads its folded argument, if it has one.
func (m *machine) access(s *step) error {
	a := s.addr
	if s.apart < 0 || s.apart > maxDisp || s.in.Op.Stores() && a.runs > 1 && s.apart < a.each {
		return fmt.Errorf("rows or columns are %d bytes apart", s.apart)
	}
	off := a.off
	for _, t := range a.terms {
		off += *t.iter * t.bytes
	}
	if off < 0 || off > len(a.buf)-a.bytes {
		return fmt.Errorf("bytes [%d,%d) of %s, which has %d", off, off+a.bytes, m.f.Params[s.in.Mem.Buf].Name, len(a.buf))
	}
	s.mem = a.buf[off : off+a.bytes]
	lane := m.lane
	if n, _ := m.f.TileRuns(s.in); n > 0 && m.races != nil {
		m.races.tiles--
		lane = m.races.tiles
	}
	for i := range a.runs {
		at := i * s.apart
		if m.races != nil {
			if err := m.races.access(lane, s.in, off+at, a.each); err != nil {
				return err
			}
		}
		if err := a.most.holds(s.mem[at:at+a.each], off+at); err != nil {
			return err
		}
	}
	if s.fold == nil {
		return nil
	}
	unpackFold(s.in.FoldType.Elem, s.fold, s.mem)
	return nil
}

// unpackFold reads a folded argument from its unit, or from all its bytes.
func unpackFold(d format.DType, v []int64, mem []byte) {
	n := len(mem) / d.Bytes()
	unpack(d, v[:n], mem)
	for i := n; i < len(v); i += n {
		copy(v[i:], v[:n])
	}
}
