package vir

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// Bounds of a verified function. They keep hostile text from taking memory or
// overflowing an address.
const (
	MaxLanes  = 1024 // lanes of a register
	MaxBytes  = 1024 // bytes of a register
	MaxRegs   = 1 << 16
	MaxDepth  = 32      // nested loops
	maxDisp   = 1 << 30 // bytes from a pointer that an access reaches in loops of constant trip counts, either sign: instructions have 32 bits for what moves it there and back
	maxCount  = 1<<31 - 1
	maxAlign  = 4096
	MaxShared = 1 << 16
)

// Verify checks what every pass keeps and every consumer relies on: types,
// single definition, definition before use, loops, addresses and immediates as
// the comments of Func, Loop, Instr and the operations state them. The error
// names the function and the instruction.
func Verify(f *Func) error {
	v := &verifier{f: f, regs: make([]regState, len(f.Regs)), ids: map[int]bool{}, group: f.Lanes()}
	err := v.header()
	if err == nil && f.Repeat != nil {
		err = v.repeat("repeat", f.Repeat)
	}
	if err == nil {
		err = v.grid()
	}
	if err == nil {
		err = v.body(f.Body)
	}
	if err != nil {
		return fmt.Errorf("vir: func %s: %w", f.Name, err)
	}
	return nil
}

type verifier struct {
	f     *Func
	regs  []regState
	loops []*loopState // enclosing, outermost first
	ids   map[int]bool // loop ids seen
	group []int        // lanes of a workgroup
	tiles int          // 1 + loops of lanes around tiles, 0 while there are none

	parts  bool // a loop of parts is there
	stored bool // something is stored to a buffer that is not shared
}

// regState says where a register is defined.
type regState struct {
	defined bool
	depth   int   // loops around the definition
	left    *Loop // the loop that defines it and has ended
}

type loopState struct {
	loop    *Loop
	carried map[Reg]bool
	defs    []Reg // defined in the body
}

func (v *verifier) header() error {
	if !isIdent(v.f.Name) {
		return fmt.Errorf("%q is no identifier", v.f.Name)
	}
	if n := len(v.f.Regs); n > MaxRegs {
		return fmt.Errorf("%d registers, at most %d are allowed", n, MaxRegs)
	}
	seen := map[string]bool{}
	for i, p := range v.f.Params {
		if !isIdent(p.Name) {
			return fmt.Errorf("parameter %q is no identifier", p.Name)
		}
		if p.Most < 0 || p.Most > p.limit() || p.Int && p.Most > 0 || p.Words && p.Most == 0 {
			return fmt.Errorf("parameter %s: bytes up to %d: want 1 to %d, of a pointer", p.Name, p.Most, p.limit())
		}
		if p.Align < 0 || p.Align&(p.Align-1) != 0 || p.Align > maxAlign || p.Shared > 0 && p.Align > 0 {
			return fmt.Errorf("parameter %s: align %d: want a power of two up to %d, and none of a shared buffer", p.Name, p.Align, maxAlign)
		}
		if p.Shared < 0 || p.Shared > MaxShared || p.Shared > 0 && (p.Int || p.Most > 0) {
			return fmt.Errorf("parameter %s: shared %d: want at most %d bytes", p.Name, p.Shared, MaxShared)
		}
		if i >= len(v.f.Params)-v.f.shared() && p.Shared == 0 {
			return fmt.Errorf("parameter %s: shared buffers come last", p.Name)
		}
		if seen[p.Name] {
			return fmt.Errorf("two parameters %s", p.Name)
		}
		seen[p.Name] = true
	}
	for i, c := range v.f.Consts {
		if len(c) == 0 || len(c) > MaxBytes {
			return fmt.Errorf("const c%d has %d bytes", i, len(c))
		}
	}
	return nil
}

// grid checks the workgroups.
func (v *verifier) grid() error {
	if len(v.f.Grid) > MaxGrid || v.f.Grid != nil && v.f.Repeat != nil {
		return fmt.Errorf("groups: %d dimensions, at most %d and none beside repeat", len(v.f.Grid), MaxGrid)
	}
	for i := range v.f.Grid {
		if err := v.repeat("groups", &v.f.Grid[i]); err != nil {
			return err
		}
		if slices.ContainsFunc(v.f.Grid[:i], func(g Repeat) bool { return g.Count == v.f.Grid[i].Count }) {
			return fmt.Errorf("groups: %s counts two dimensions", v.f.paramName(v.f.Grid[i].Count))
		}
	}
	return nil
}

// lanes checks a loop of lanes.
func (v *verifier) lanes(l *Loop) error {
	depth := 0
	for _, s := range v.loops {
		if s.loop.Lane {
			depth++
		}
	}
	switch {
	case l.Count.Param >= 0 || l.List > 0 || l.Count.Const > MaxLanesOfGroup:
		return fmt.Errorf("lanes are a constant, at most %d", MaxLanesOfGroup)
	case l.Count.Const != v.group[depth]:
		return fmt.Errorf("%d lanes, where other loops have %d", l.Count.Const, v.group[depth])
	case Product(v.group) > MaxLanesOfGroup:
		return fmt.Errorf("lanes %v in all, at most %d", v.group, MaxLanesOfGroup)
	}
	for _, r := range l.Carried {
		if t := v.f.typeOf(r); t.Elem != i32 && (t.Elem != f32 || l.Max) || t.Tile() {
			return fmt.Errorf("lanes carry %v of %v: they have sums of i32 or f32, or the largest of i32", r, v.f.typeOf(r))
		}
	}
	return nil
}

func (v *verifier) repeat(what string, r *Repeat) error {
	is := func(i int, integer bool) bool {
		return i >= 0 && i < len(v.f.Params) && v.f.Params[i].Int == integer && v.f.Params[i].Shared == 0
	}
	if !is(r.Count, true) {
		return fmt.Errorf("%s: %s is no integer", what, v.f.paramName(r.Count))
	}
	moved := map[int]bool{}
	for _, m := range r.Moves {
		switch {
		case is(m.Param, false) && what == "groups" && is(m.By, false) && v.read(m.By):
		case !is(m.Param, false) || !is(m.By, true):
			return fmt.Errorf("%s: %s+%s: want a pointer and an integer%s", what, v.f.paramName(m.Param), v.f.paramName(m.By), map[bool]string{true: ", or a list that nobody stores to or moves"}[what == "groups"])
		case moved[m.Param]:
			return fmt.Errorf("%s: %s moves twice", what, v.f.paramName(m.Param))
		case m.By == r.Count:
			return fmt.Errorf("%s: %s is the count and a number of bytes", what, v.f.paramName(m.By))
		}
		moved[m.Param] = true
	}
	return nil
}

// read says that the function neither stores to pointer parameter n nor moves it.
func (v *verifier) read(n int) bool {
	only := !slices.ContainsFunc(v.f.Grid, func(g Repeat) bool { return slices.ContainsFunc(g.Moves, func(m Move) bool { return m.Param == n }) })
	Walk(v.f.Body, func(in *Instr, _ []*Loop) { only = only && !(in.Op.Stores() && in.Mem.Buf == n) })
	return only
}

// counts says that integer parameter n changes with each run of the body.
func (v *verifier) counts(n int) bool {
	return v.f.Repeat != nil && v.f.Repeat.Count == n || slices.ContainsFunc(v.f.Grid, func(g Repeat) bool { return g.Count == n })
}

func (v *verifier) body(body []Node) error {
	for _, n := range body {
		switch n := n.(type) {
		case *Loop:
			if err := v.loop(n); err != nil {
				return err
			}
		case *Instr:
			if err := v.instr(n); err != nil {
				return fmt.Errorf("%s: %w", v.f.Format(n), err)
			}
		default:
			return fmt.Errorf("node of type %T", n)
		}
	}
	return nil
}

func (v *verifier) loop(l *Loop) error {
	if err := v.checkLoop(l); err != nil {
		return fmt.Errorf("%s: %w", v.f.formatLoop(l), err)
	}
	v.ids[l.ID] = true
	s := &loopState{loop: l, carried: map[Reg]bool{}}
	for _, r := range l.Carried {
		if err := v.use(r); err != nil {
			return fmt.Errorf("%s: %w", v.f.formatLoop(l), err)
		}
		if s.carried[r] {
			return fmt.Errorf("%s: %v carried twice", v.f.formatLoop(l), r)
		}
		s.carried[r] = true
	}
	v.loops = append(v.loops, s)
	err := v.body(l.Body)
	v.loops = v.loops[:len(v.loops)-1]
	for _, r := range s.defs {
		v.regs[r].left = l
	}
	return err
}

func (v *verifier) checkLoop(l *Loop) error {
	switch {
	case l.ID < 0:
		return errors.New("negative loop id")
	case v.ids[l.ID]:
		return fmt.Errorf("two loops l%d", l.ID)
	case len(v.loops) == MaxDepth:
		return fmt.Errorf("more than %d nested loops", MaxDepth)
	case l.Count.Param < 0 && l.Count.Const < 1:
		return fmt.Errorf("a constant trip count is at least 1, not %d", l.Count.Const)
	case l.Count.Param < 0 && l.Count.Const > maxCount:
		return fmt.Errorf("a constant trip count is at most %d, not %d", maxCount, l.Count.Const)
	case l.Count.Less < 0 || l.Count.Less > maxCount || l.Count.Param < 0 && l.Count.Less > 0:
		return fmt.Errorf("%d iterations fewer: want a number of at most %d, and a parameter", l.Count.Less, maxCount)
	case l.Count.Param >= len(v.f.Params):
		return fmt.Errorf("no parameter %d", l.Count.Param)
	case l.Count.Param >= 0 && !v.f.Params[l.Count.Param].Int:
		return fmt.Errorf("%s is a pointer, not a count", v.f.Params[l.Count.Param].Name)
	case l.Count.Param >= 0 && v.counts(l.Count.Param):
		return fmt.Errorf("%s counts how often the body runs", v.f.Params[l.Count.Param].Name)
	case l.List < 0 || l.List > len(v.f.Params):
		return fmt.Errorf("no parameter %d", l.List-1)
	case l.List > 0 && v.f.Params[l.List-1].Int:
		return fmt.Errorf("%s is an integer, not a list", v.f.Params[l.List-1].Name)
	case l.Max && !l.Lane:
		return errors.New("the largest value is for lanes")
	case l.Part:
		return v.part(l)
	case l.Dealt && !v.inPart():
		return errors.New("iterations are dealt to the parts of a loop around, and there is none")
	case l.Dealt && (l.Lane || l.List > 0 || l.Count.Param < 0 || l.Count.Less > 0):
		return errors.New("only iterations that a parameter counts are dealt to parts")
	case l.Lane:
		return v.lanes(l)
	}
	return nil
}

// part checks a loop whose iterations are parts of a sum.
func (v *verifier) part(l *Loop) error {
	switch {
	case l.Lane || l.Dealt || l.Ahead || l.List > 0 || l.Count.Param >= 0 || l.Count.Const > MaxParts:
		return fmt.Errorf("parts are a constant number of workgroups, at most %d", MaxParts)
	case len(v.f.Grid) == 0 || len(v.f.Grid) == MaxGrid:
		return fmt.Errorf("parts are one more dimension of workgroups: want 1 to %d others", MaxGrid-1)
	case v.parts:
		return errors.New("two loops have parts")
	case v.stored:
		return errors.New("all parts would make the store before the loop")
	}
	for _, s := range v.loops {
		if !s.loop.Lane || len(s.loop.Carried) > 0 {
			return fmt.Errorf("parts are in loop l%d, which is no loop of lanes, or carries something", s.loop.ID)
		}
	}
	dealt, _ := v.f.Ordered(l)
	for _, r := range l.Carried {
		switch t := v.f.typeOf(r); {
		case t.Tile() || t.Elem != i32 && t.Elem != f32:
			return fmt.Errorf("parts carry %v of %v: they add i32 or f32", r, t)
		case dealt == nil && t.Elem == f32:
			return fmt.Errorf("parts carry %v of %v, whose order is that of iterations which are dealt: want a loop of these that alone touches it", r, t)
		case dealt != nil && t.Elem == i32:
			return fmt.Errorf("parts carry %v of %v beside floats", r, t)
		}
	}
	v.parts = true
	return nil
}

// inPart says that a loop with parts is open.
func (v *verifier) inPart() bool {
	return slices.ContainsFunc(v.loops, func(s *loopState) bool { return s.loop.Part })
}

func (v *verifier) instr(in *Instr) error {
	if !in.Op.valid() {
		return errors.New("no such operation")
	}
	if n := in.Op.NumArgs(); len(in.Args) != n {
		return fmt.Errorf("%d arguments, want %d", len(in.Args), n)
	}
	for _, check := range []func(*Instr) error{v.args, v.types, v.checkApart, v.address, v.imm} {
		if err := check(in); err != nil {
			return err
		}
	}
	if in.Op.Stores() && v.f.Params[in.Mem.Buf].Shared == 0 {
		if v.inPart() {
			return errors.New("parts of a sum store to shared buffers only")
		}
		v.stored = true
	}
	if !in.Op.HasResult() {
		return nil
	}
	return v.define(in.Dst)
}

func (v *verifier) args(in *Instr) error {
	if in.Fold != 0 {
		return v.fold(in)
	}
	if in.FoldConst != 0 {
		return errors.New("a constant, but no argument to fold")
	}
	for _, r := range in.Args {
		if err := v.use(r); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) fold(in *Instr) error {
	if in.Fold < 1 || in.Fold > len(in.Args) {
		return fmt.Errorf("no argument %d to fold", in.Fold)
	}
	if in.Op.HasMem() {
		return fmt.Errorf("%v already has an address", in.Op)
	}
	if err := checkType(in.FoldType); err != nil {
		return err
	}
	if in.FoldConst != 0 {
		if err := v.constant(int64(in.FoldConst-1), in.FoldType, "argument"); err != nil {
			return err
		}
	}
	u := in.FoldUnit
	if m := in.Mem; in.FoldConst != 0 && (u != 0 || m.Buf != 0 || m.Off != 0 || m.Stride != nil || m.Plus != [2]Multiple{}) {
		return errors.New("a constant is neither repeated nor at an address")
	}
	if u != 0 && (u < in.FoldType.Elem.Bytes() || u > in.FoldType.Bytes() || u&(u-1) != 0) {
		return fmt.Errorf("no unit of %d bytes in %v", u, in.FoldType)
	}
	for i, r := range in.Args {
		if i == in.Fold-1 {
			if r != NoReg {
				return fmt.Errorf("%v stands where an argument is folded", r)
			}
		} else if err := v.use(r); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) use(r Reg) error {
	if r < 0 || int(r) >= len(v.regs) {
		return fmt.Errorf("no register v%d", int32(r))
	}
	if !v.regs[r].defined {
		return fmt.Errorf("%v is used before it is defined", r)
	}
	if l := v.regs[r].left; l != nil {
		return fmt.Errorf("%v is used after loop l%d, which defines it", r, l.ID)
	}
	return nil
}

// define marks r defined here. A second definition must be carried by each loop
// that is around it but not around the first.
func (v *verifier) define(r Reg) error {
	s := &v.regs[r]
	if !s.defined {
		*s = regState{defined: true, depth: len(v.loops)}
		if len(v.loops) > 0 {
			in := v.loops[len(v.loops)-1]
			in.defs = append(in.defs, r)
		}
		return nil
	}
	if s.left != nil || s.depth == len(v.loops) {
		return fmt.Errorf("%v is already defined", r)
	}
	for _, l := range v.loops[s.depth:] {
		if !l.carried[r] {
			return fmt.Errorf("%v is already defined, and loop l%d does not carry it", r, l.loop.ID)
		}
	}
	return nil
}

func (v *verifier) address(in *Instr) error {
	if !in.HasMem() {
		return nil
	}
	m := in.Mem
	if m.Buf < 0 || m.Buf >= len(v.f.Params) {
		return fmt.Errorf("no parameter %d", m.Buf)
	}
	if p := v.f.Params[m.Buf]; p.Int {
		return fmt.Errorf("%s is an integer, not a pointer", p.Name)
	}
	if m.Off < -maxDisp || m.Off > maxDisp {
		return fmt.Errorf("offset %d is out of range", m.Off)
	}
	for i, s := range m.Stride {
		if err := v.stride(s); err != nil {
			return err
		}
		if i > 0 && m.Stride[i-1].Loop >= s.Loop {
			return errors.New("strides are not in the order of their loops")
		}
	}
	if err := v.reach(in); err != nil {
		return err
	}
	for i, x := range m.Plus {
		if err := v.multiple(x); err != nil {
			return err
		}
		if i > 0 && x.Times != 0 && (m.Plus[i-1].Times == 0 || m.Plus[i-1].By >= x.By) {
			return errors.New("multiples are not in the order of their parameters")
		}
	}
	return nil
}

// reach checks how far from its pointer in is at most, one iteration of loops counted whose trip count is a parameter.
func (v *verifier) reach(in *Instr) error {
	m := in.Mem
	far := max(m.Off, -m.Off) + v.accessed(in)
	for _, s := range m.Stride {
		times := 1
		if i := slices.IndexFunc(v.loops, func(l *loopState) bool { return l.loop.ID == s.Loop }); v.loops[i].loop.Count.Param < 0 {
			times = v.loops[i].loop.Count.Const
		}
		if far += times * max(s.Bytes, -s.Bytes); far > maxDisp {
			break // the next might overflow it
		}
	}
	if far > maxDisp {
		return fmt.Errorf("reaches %d bytes from %s: out of range, at most %d", far, v.f.Params[m.Buf].Name, maxDisp)
	}
	return nil
}

// accessed is how many bytes in, whose types are right, reads or writes: 0 of what it only asks for.
func (v *verifier) accessed(in *Instr) int {
	if in.Fold > 0 {
		if in.FoldUnit > 0 {
			return in.FoldUnit
		}
		return in.FoldType.Bytes()
	}
	switch in.Op {
	case OpStore:
		return v.f.Regs[in.Args[0]].Bytes()
	case OpLoad:
		return v.f.Regs[in.Dst].Bytes()
	case OpLoadSplat:
		return v.f.Regs[in.Dst].Elem.Bytes()
	case OpLoadRows, OpLoadColumns, OpStoreRows, OpStoreColumns:
		return v.f.tileBytes(in)
	}
	return 0
}

func (v *verifier) multiple(x Multiple) error {
	switch {
	case x == Multiple{}:
		return nil
	case x.Times == 0 || x.By < 0 || x.By >= len(v.f.Params):
		return fmt.Errorf("%d times parameter %d", x.Times, x.By)
	case !v.f.Params[x.By].Int:
		return fmt.Errorf("%s is a pointer, not a number of bytes", v.f.Params[x.By].Name)
	case v.counts(x.By):
		return fmt.Errorf("%s counts how often the body runs", v.f.Params[x.By].Name)
	case x.Times < -maxDisp || x.Times > maxDisp:
		return fmt.Errorf("%d times %s is out of range", x.Times, v.f.Params[x.By].Name)
	}
	return nil
}

func (v *verifier) stride(s Stride) error {
	if s.Bytes == 0 && s.Times == 0 || s.Bytes < -maxDisp || s.Bytes > maxDisp {
		return fmt.Errorf("stride of %d bytes", s.Bytes)
	}
	if err := v.multiple(s.Multiple); err != nil {
		return fmt.Errorf("stride: %w", err)
	}
	i := slices.IndexFunc(v.loops, func(l *loopState) bool { return l.loop.ID == s.Loop })
	if i < 0 {
		return fmt.Errorf("loop l%d is not around it", s.Loop)
	}
	if s.Times != 0 && v.loops[i].loop.List > 0 {
		return fmt.Errorf("loop l%d is over a list: no stride of a parameter", s.Loop)
	}
	return nil
}

func (v *verifier) types(in *Instr) error {
	var dst Type
	if in.Op.HasResult() {
		if in.Dst < 0 || int(in.Dst) >= len(v.regs) {
			return fmt.Errorf("no register v%d", int32(in.Dst))
		}
		dst = v.f.Regs[in.Dst]
		if err := checkType(dst); err != nil {
			return err
		}
	} else if in.Dst != NoReg {
		return fmt.Errorf("%v has no result", in.Op)
	}
	arg := make([]Type, len(in.Args))
	for i := range arg {
		arg[i] = v.f.ArgType(in, i)
	}
	if rule := ops[in.Op].typ; !rule.ok(dst, arg) {
		return fmt.Errorf("arguments are %v; %v is %s", arg, in.Op, rule.sig)
	}
	return v.checkTiles(in, dst, arg)
}

func checkType(t Type) error {
	if t.Elem == format.Invalid {
		return errors.New("register without a type")
	}
	if !slices.Contains(elems, t.Elem) {
		return fmt.Errorf("%v: registers have no lanes of %v", t, t.Elem)
	}
	if n := t.Lanes; n < 1 || n > MaxLanes || n&(n-1) != 0 || t.Bytes() > MaxBytes {
		return fmt.Errorf("%v: lanes are a power of two, at most %d and %d bytes", t, MaxLanes, MaxBytes)
	}
	if t.Use != NoTile || t.Rows != 0 {
		return checkTile(t)
	}
	return nil
}

func (v *verifier) imm(in *Instr) error {
	switch in.Op {
	case OpShl, OpShrU, OpShrS:
		if n := int64(v.f.Regs[in.Dst].Elem.Bits()); in.Imm < 0 || in.Imm >= n {
			return fmt.Errorf("a shift by %d is not in 0..%d", in.Imm, n-1)
		}
	case OpHalf, OpUnzip:
		if in.Imm != 0 && in.Imm != 1 {
			return fmt.Errorf("no half %d", in.Imm)
		}
	case OpSpread, OpDot4Unit, OpMulWide, OpDot1: // a part of the last argument
		last, of := len(in.Args), in.FoldType
		if in.Fold != last {
			of = v.f.Regs[in.Args[last-1]]
		}
		part := map[Op]int{OpSpread: 1, OpDot4Unit: 4}[in.Op]
		if part == 0 {
			part = v.f.Regs[in.Dst].Lanes
		}
		if n := int64(of.Lanes / part); in.Imm < 0 || in.Imm >= n {
			return fmt.Errorf("no part %d of %d", in.Imm, n)
		}
	case OpColumn:
		if n := int64(v.f.ArgType(in, 0).Columns()); in.Imm < 0 || in.Imm >= n {
			return fmt.Errorf("no column %d of %d", in.Imm, n)
		}
	case OpConst:
		return v.constant(in.Imm, v.f.Regs[in.Dst], "register")
	case OpLane:
		if !slices.ContainsFunc(v.loops, func(s *loopState) bool { return s.loop.Lane && int64(s.loop.ID) == in.Imm }) {
			return fmt.Errorf("no loop of lanes l%d is around", in.Imm)
		}
	}
	return nil
}

// constant: number n is as long as what it becomes, a vector of type t.
func (v *verifier) constant(n int64, t Type, what string) error {
	if n < 0 || n >= int64(len(v.f.Consts)) {
		return fmt.Errorf("no constant c%d", n)
	}
	if have, want := len(v.f.Consts[n]), t.Bytes(); have != want {
		return fmt.Errorf("the constant has %d bytes, the %s %d", have, what, want)
	}
	return nil
}

// isIdent says whether s is an ASCII identifier.
func isIdent(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
