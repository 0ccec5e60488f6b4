package vir

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// SyntaxError is text that Parse refuses.
type SyntaxError struct {
	Line    int // from 1
	Problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("vir: line %d: %s", e.Line, e.Problem) }

// Parse reads the text form of one function, which docs/vir.md describes. It
// checks the form only: Verify checks the rest. The error is a *SyntaxError.
func Parse(text string) (*Func, error) {
	p := &parser{f: &Func{}}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := p.line(words, line); err != nil {
			return nil, &SyntaxError{i + 1, err.Error()}
		}
	}
	last := strings.Count(text, "\n") + 1
	switch {
	case p.f.Name == "":
		return nil, &SyntaxError{last, "no function"}
	case len(p.open) > 0:
		return nil, &SyntaxError{last, fmt.Sprintf("loop l%d has no end", p.open[len(p.open)-1].ID)}
	}
	return p.f, nil
}

type parser struct {
	f     *Func
	open  []*Loop
	words []string // rest of the line
}

// next takes a word off the line, or "" at its end.
func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

func (p *parser) line(words []string, line string) error {
	if p.f.Name == "" {
		return p.header(line)
	}
	p.words = words
	err := p.statement()
	if err == nil && len(p.words) > 0 {
		return fmt.Errorf("%.80q is too much", p.words[0])
	}
	return err
}

func (p *parser) statement() error {
	switch p.words[0] {
	case "const":
		return p.constant()
	case "repeat":
		return p.repeat()
	case "groups":
		return p.groups()
	case "loop":
		return p.loop()
	case "end":
		p.next()
		if len(p.open) == 0 {
			return fmt.Errorf("end without a loop")
		}
		p.open = p.open[:len(p.open)-1]
		return nil
	}
	in, err := p.instr()
	if err != nil {
		return err
	}
	p.add(in)
	return nil
}

func (p *parser) add(n Node) {
	body := &p.f.Body
	if len(p.open) > 0 {
		body = &p.open[len(p.open)-1].Body
	}
	*body = append(*body, n)
}

// header reads "func name(a ptr, n int)".
func (p *parser) header(line string) error {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "func ")
	name, params, paren := strings.Cut(rest, "(")
	params, closed := strings.CutSuffix(params, ")")
	if !ok || !paren || !closed {
		return fmt.Errorf("want func name(param ptr, ...), have %.80q", strings.TrimSpace(line))
	}
	if name = strings.TrimSpace(name); !isIdent(name) {
		return fmt.Errorf("%.80q is no identifier", name)
	}
	p.f.Name = name
	if strings.TrimSpace(params) == "" {
		return nil
	}
	for _, s := range strings.Split(params, ",") {
		if err := p.param(strings.Fields(s)); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) param(words []string) error {
	all := strings.Join(words, " ")
	if len(words) < 2 || !isIdent(words[0]) || !slices.Contains([]string{"ptr", "int", "shared"}, words[1]) {
		return fmt.Errorf("parameter %.80q: want name ptr or name int", all)
	}
	if p.paramIndex(words[0]) >= 0 {
		return fmt.Errorf("two parameters %s", words[0])
	}
	q := Param{Name: words[0], Int: words[1] == "int"}
	if n := len(words); n > 3 && words[n-2] == "align" {
		var err error
		if q.Align, err = strconv.Atoi(words[n-1]); err != nil {
			return fmt.Errorf("parameter %.80q: align wants a number", all)
		}
		words = words[:n-2]
	}
	if words[1] == "shared" {
		if len(words) != 3 {
			return fmt.Errorf("parameter %.80q: shared wants a number of bytes", all)
		}
		var err error
		if q.Shared, err = strconv.Atoi(words[2]); err != nil || q.Shared < 1 {
			return fmt.Errorf("parameter %.80q: shared wants a number of bytes", all)
		}
		words = words[:2]
	}
	if len(words) > 2 {
		q.Words = len(words) == 4 && words[3] == "words"
		n, err := strconv.Atoi(words[2])
		if err != nil || n < 1 || n > q.limit() || q.Int || len(words) > 3 && !q.Words {
			return fmt.Errorf("parameter %.80q: a ptr may say how large its bytes are, 1 to %d, or with words how large those are", all, Param{}.limit())
		}
		q.Most = n
	}
	p.f.Params = append(p.f.Params, q)
	return nil
}

func (p *parser) paramIndex(name string) int {
	return slices.IndexFunc(p.f.Params, func(q Param) bool { return q.Name == name })
}

// constant reads "const c0 0f0f".
func (p *parser) constant() error {
	p.next()
	n, err := number(p.next(), "c")
	if err != nil {
		return err
	}
	if n != len(p.f.Consts) {
		return fmt.Errorf("c%d: the next constant is c%d", n, len(p.f.Consts))
	}
	if len(p.f.Body) > 0 || p.f.Repeat != nil || p.f.Grid != nil {
		return fmt.Errorf("c%d: constants come first", n)
	}
	b, err := hex.DecodeString(p.next())
	if err != nil || len(b) == 0 {
		return fmt.Errorf("c%d: want bytes in hexadecimal", n)
	}
	p.f.Consts = append(p.f.Consts, b)
	return nil
}

// repeat reads "repeat tiles codes+bytes out+bytes*2".
func (p *parser) repeat() error {
	p.next()
	if len(p.f.Body) > 0 || p.f.Repeat != nil || p.f.Grid != nil {
		return fmt.Errorf("repeat stands once, before what it repeats")
	}
	r, err := p.dimension("repeat")
	p.f.Repeat = r
	return err
}

// groups reads "groups tiles codes+bytes out+bytes", a dimension of the grid.
func (p *parser) groups() error {
	p.next()
	if len(p.f.Body) > 0 || p.f.Repeat != nil || len(p.f.Grid) == MaxGrid {
		return fmt.Errorf("groups stand before all that they run, at most %d times and not beside repeat", MaxGrid)
	}
	r, err := p.dimension("groups")
	if err != nil {
		return err
	}
	p.f.Grid = append(p.f.Grid, *r)
	return nil
}

// dimension reads "tiles codes+bytes out+bytes".
func (p *parser) dimension(what string) (*Repeat, error) {
	name := func(w string) (int, error) {
		i := p.paramIndex(w)
		if i < 0 {
			return 0, fmt.Errorf("%s: no parameter %.80q", what, w)
		}
		return i, nil
	}
	count, err := name(p.next())
	if err != nil {
		return nil, err
	}
	r := &Repeat{Count: count}
	for len(p.words) > 0 {
		param, by, _ := strings.Cut(p.next(), "+")
		var m Move
		if m.Param, err = name(param); err != nil {
			return nil, err
		}
		if m.By, err = name(by); err != nil {
			return nil, err
		}
		r.Moves = append(r.Moves, m)
	}
	return r, nil
}

// loop reads "loop l0 16 list blocks carry v1 v2" and opens the loop.
func (p *parser) loop() error {
	p.next()
	id, err := number(p.next(), "l")
	if err != nil {
		return err
	}
	l := &Loop{ID: id}
	if l.Count, err = p.extent(p.next()); err != nil {
		return err
	}
	for _, word := range []struct {
		name string
		set  *bool
	}{{"lane", &l.Lane}, {"part", &l.Part}, {"dealt", &l.Dealt}, {"max", &l.Max}} {
		if len(p.words) > 0 && p.words[0] == word.name {
			p.next()
			*word.set = true
		}
	}
	if len(p.words) > 1 && p.words[0] == "list" {
		p.next()
		name := p.next()
		if l.List = 1 + p.paramIndex(name); l.List == 0 {
			return fmt.Errorf("list: no parameter %s", name)
		}
	}
	if len(p.words) > 0 && p.words[0] == "ahead" {
		p.next()
		l.Ahead = true
	}
	if len(p.words) > 0 {
		if l.Carried, err = p.carried(); err != nil {
			return err
		}
	}
	if len(p.open) == MaxDepth {
		return fmt.Errorf("more than %d nested loops", MaxDepth)
	}
	p.add(l)
	p.open = append(p.open, l)
	return nil
}

func (p *parser) carried() ([]Reg, error) {
	if w := p.next(); w != "carry" || len(p.words) == 0 {
		return nil, fmt.Errorf("%.80q: want carry and registers", w)
	}
	var regs []Reg
	for len(p.words) > 0 {
		r, err := p.reg(p.next())
		if err != nil {
			return nil, err
		}
		regs = append(regs, r)
	}
	return regs, nil
}

func (p *parser) extent(w string) (Extent, error) {
	if n, err := number(w, ""); err == nil {
		return Extent{Const: n, Param: -1}, nil
	}
	name, fewer, some := strings.Cut(w, "-")
	i := p.paramIndex(name)
	if i < 0 {
		return Extent{}, fmt.Errorf("trip count %.80q is neither a number nor a parameter", w)
	}
	x := Extent{Param: i}
	if some {
		var err error
		if x.Less, err = number(fewer, ""); err != nil || x.Less == 0 {
			return Extent{}, fmt.Errorf("trip count %.80q: want a parameter less a number", w)
		}
	}
	return x, nil
}

// instr reads "v1:u8x64 = load codes+0 l0*64".
func (p *parser) instr() (*Instr, error) {
	in := &Instr{Dst: NoReg}
	w := p.next()
	reg, typ, hasDst := strings.Cut(w, ":")
	if hasDst {
		if err := p.dst(in, reg, typ); err != nil {
			return nil, err
		}
		w = p.next()
	}
	if in.Op = opByName(w); in.Op == OpInvalid {
		return nil, fmt.Errorf("unknown operation %.80q", w)
	}
	if hasDst != in.Op.HasResult() {
		return nil, fmt.Errorf("%v %s", in.Op, map[bool]string{true: "has a result", false: "has no result"}[in.Op.HasResult()])
	}
	if in.Op.HasMem() {
		mem, err := p.mem()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", in.Op, err)
		}
		in.Mem = mem
	}
	if ops[in.Op].apart {
		if err := p.apart(&in.Mem.Apart); err != nil {
			return nil, fmt.Errorf("%v: %w", in.Op, err)
		}
	}
	if err := p.operands(in); err != nil {
		return nil, fmt.Errorf("%v: %w", in.Op, err)
	}
	return in, nil
}

func opByName(name string) Op {
	for op := OpInvalid + 1; op.valid(); op++ {
		if ops[op].name == name {
			return op
		}
	}
	return OpInvalid
}

// dst reads the register "v1" of type "u8x64" and the equals sign after it.
func (p *parser) dst(in *Instr, reg, typ string) error {
	r, err := p.reg(reg)
	if err != nil {
		return err
	}
	t, err := parseType(typ)
	if err != nil {
		return err
	}
	if have := p.f.Regs[r]; have != (Type{}) && have != t {
		return fmt.Errorf("%v is %v here and %v above", r, t, have)
	}
	if w := p.next(); w != "=" {
		return fmt.Errorf("%.80q: want = after %v:%v", w, r, t)
	}
	p.f.Regs[r] = t
	in.Dst = r
	return nil
}

func (p *parser) operands(in *Instr) error {
	for i := range in.Op.NumArgs() {
		w := p.next()
		if fold, ok := strings.CutPrefix(w, "["); ok {
			if in.Fold > 0 || in.Op.HasMem() {
				return fmt.Errorf("two addresses, or arguments in brackets")
			}
			in.Fold = i + 1
			in.Args = append(in.Args, NoReg)
			p.words = append([]string{fold}, p.words...)
			if err := p.fold(in); err != nil {
				return err
			}
			continue
		}
		r, err := p.reg(w)
		if err != nil {
			return err
		}
		in.Args = append(in.Args, r)
	}
	if in.Op.HasImm() {
		return p.imm(in)
	}
	return nil
}

func (p *parser) imm(in *Instr) (err error) {
	w := p.next()
	if in.Op == OpConst {
		var n int
		n, err = number(w, "c")
		in.Imm = int64(n)
		return err
	}
	if in.Imm, err = strconv.ParseInt(w, 10, 64); err != nil {
		return fmt.Errorf("immediate %.80q is no number", w)
	}
	return nil
}

// fold reads "act+4 l0*16 i8x64]", "act+4 l0*16 i8x64 splat 4]" or "c0 i8x64]".
func (p *parser) fold(in *Instr) (err error) {
	end := slices.IndexFunc(p.words, func(w string) bool { return strings.HasSuffix(w, "]") })
	if end < 0 {
		return fmt.Errorf("[ without ]")
	}
	after := p.words[end+1:]
	p.words = slices.Clone(p.words[:end+1])
	p.words[end] = strings.TrimSuffix(p.words[end], "]")
	if digits, ok := strings.CutPrefix(p.words[0], "c"); ok && digits != "" && strings.Trim(digits, "0123456789") == "" { // a parameter has an offset behind its name
		var n int
		if n, err = number(p.next(), "c"); err != nil {
			return err
		}
		in.FoldConst = n + 1
	} else if in.Mem, err = p.mem(); err != nil {
		return err
	}
	if in.FoldType, err = parseType(p.next()); err != nil {
		return err
	}
	if len(p.words) > 0 && in.FoldConst == 0 {
		if w := p.next(); w != "splat" {
			return fmt.Errorf("%.80q: want splat", w)
		}
		if in.FoldUnit, err = number(p.next(), ""); err != nil {
			return err
		}
	}
	if len(p.words) > 0 {
		return fmt.Errorf("%.80q is too much", p.words[0])
	}
	p.words = after
	return nil
}

// mem reads "codes+0 l0*64 l1*0+2*n n*3": any number of strides, and multiples of at most one parameter.
func (p *parser) mem() (Mem, error) {
	w := p.next()
	i := strings.IndexAny(w, "+-")
	if i < 0 {
		return Mem{}, fmt.Errorf("address %.80q: want buffer+offset", w)
	}
	m := Mem{Buf: p.paramIndex(w[:i])}
	if m.Buf < 0 {
		return Mem{}, fmt.Errorf("address %.80q: no parameter %s", w, w[:i])
	}
	var err error
	if m.Off, err = strconv.Atoi(w[i:]); err != nil {
		return Mem{}, fmt.Errorf("address %.80q: want buffer+offset", w)
	}
	for len(p.words) > 0 && strings.Contains(p.words[0], "*") {
		if err := p.moves(&m, p.next()); err != nil {
			return Mem{}, err
		}
	}
	return m, nil
}

// apart reads "by 64" or "by 0+1*step".
func (p *parser) apart(a *Apart) error {
	w := p.next()
	if w != "by" {
		return fmt.Errorf("%.80q: want by and a number of bytes", w)
	}
	bytes, multiple, stepped := strings.Cut(p.next(), "+")
	var err error
	if a.Bytes, err = strconv.Atoi(bytes); err != nil {
		return fmt.Errorf("by %.80q: want a number of bytes", bytes)
	}
	if !stepped {
		return nil
	}
	times, of, _ := strings.Cut(multiple, "*")
	if a.Times, err = strconv.Atoi(times); err != nil || a.Times == 0 {
		return fmt.Errorf("by %.80q: want times that is not 0", multiple)
	}
	if a.By = p.paramIndex(of); a.By < 0 {
		return fmt.Errorf("by %.80q: no parameter %s", multiple, of)
	}
	return nil
}

// moves adds "l0*64", "l0*64+2*n" or "n*3" to an address.
func (p *parser) moves(m *Mem, w string) error {
	thing, by, _ := strings.Cut(w, "*")
	loop, err := number(thing, "l")
	if err != nil && p.paramIndex(thing) < 0 {
		return err
	}
	of, times, own := thing, by, true
	if err == nil {
		own = false
		s := Stride{Loop: loop}
		bytes, multiple, stepped := strings.Cut(by, "+")
		if s.Bytes, err = strconv.Atoi(bytes); err != nil {
			return fmt.Errorf("stride %.80q: want loop*bytes, loop*bytes+times*parameter or parameter*times", w)
		}
		m.Stride = append(m.Stride, s)
		if !stepped {
			return nil
		}
		times, of, _ = strings.Cut(multiple, "*")
	}
	n, err := strconv.Atoi(times)
	param := p.paramIndex(of)
	switch {
	case err != nil:
		return fmt.Errorf("stride %.80q: want loop*bytes, loop*bytes+times*parameter or parameter*times", w)
	case param < 0:
		return fmt.Errorf("stride %.80q: no parameter %s", w, of)
	case n == 0 || own && m.Plus[1].Times != 0:
		return fmt.Errorf("stride %.80q: want at most %d parameters, times a number that is not 0", w, len(m.Plus))
	}
	x := Multiple{Times: n, By: param}
	switch {
	case !own:
		m.Stride[len(m.Stride)-1].Multiple = x
	case m.Plus[0].Times == 0:
		m.Plus[0] = x
	default:
		m.Plus[1] = x
	}
	return nil
}

// reg reads "v7" and makes room for it in Func.Regs.
func (p *parser) reg(w string) (Reg, error) {
	n, err := number(w, "v")
	if err != nil {
		return 0, err
	}
	if n >= MaxRegs {
		return 0, fmt.Errorf("%s: registers end at v%d", w, MaxRegs-1)
	}
	for len(p.f.Regs) <= n {
		p.f.Regs = append(p.f.Regs, Type{})
	}
	return Reg(n), nil
}

// number reads a decimal number of 0 or more after prefix.
func number(w, prefix string) (int, error) {
	digits, ok := strings.CutPrefix(w, prefix)
	n, err := strconv.ParseUint(digits, 10, 62)
	if !ok || err != nil {
		kind := map[string]string{"v": "a register", "l": "a loop", "c": "a constant", "": "a number"}[prefix]
		return 0, fmt.Errorf("%.80q: want %s", w, kind)
	}
	return int(n), nil
}

func parseType(w string) (Type, error) {
	elem, lanes, _ := strings.Cut(w, "x")
	var d format.DType
	if n := len(lanes); n > 0 && strings.IndexByte(useNames, lanes[n-1]) > 0 && d.UnmarshalText([]byte(elem)) == nil {
		return parseTile(d, lanes)
	}
	n, err := number(lanes, "")
	if err != nil || d.UnmarshalText([]byte(elem)) != nil {
		return Type{}, fmt.Errorf("%.80q: want a type such as u8x64", w)
	}
	return Type{Elem: d, Lanes: n}, nil
}
