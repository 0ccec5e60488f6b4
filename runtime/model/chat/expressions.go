package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// part is an expression: its code for the library, and its place in the source.
type part struct {
	code     string
	from, to int
	height   int  // of the tree of calls
	called   bool // it is a call
}

// mostHeight limits the recursion of the library.
const mostHeight = 200

// placed is an expression from the beginning of first to the symbol before the present one, made of others.
func (t *translator) placed(from int, code string, of ...part) part {
	e := part{code: code, from: from, to: t.behind()}
	for _, x := range of {
		e.height = max(e.height, x.height+1)
	}
	if e.height > mostHeight {
		t.failAt(e.from, e.to, "is nested deeper than %d levels", mostHeight)
	}
	return e
}

// behind is the end of the symbol before.
func (t *translator) behind() int { return t.symbols[max(t.at-1, 0)].to }

// call is a call of one of our functions. operand is the source that messages name.
func (t *translator) call(f function, from int, operand string, args ...part) part {
	return t.callNamed(f, from, operand, nil, args...)
}

// callNamed is a call whose last arguments have names.
func (t *translator) callNamed(f function, from int, operand string, names []string, args ...part) part {
	t.nodes = append(t.nodes, node{f: f, operand: operand, from: from, to: t.behind(), names: names})
	var b strings.Builder
	fmt.Fprintf(&b, "_(%d", len(t.nodes)-1)
	for _, x := range args {
		b.WriteString("," + x.code)
	}
	b.WriteString(")")
	return t.placed(from, b.String(), args...)
}

// constant is a value.
func (t *translator) constant(v jinja.Value) part {
	name := fmt.Sprintf("k%d", len(t.constants))
	t.constants[name] = v
	return part{code: name}
}

func (t *translator) text(s string) part { return t.constant(jinja.NewString(s)) }

// source is the source of an expression.
func (t *translator) source(e part) string { return t.src[e.from:max(e.from, e.to)] }

// The functions below take the symbols of one precedence of jinja2 each.

// expression is a choice by if and else, or binds stronger.
func (t *translator) expression() part {
	defer t.deeper()()
	e := t.or()
	for t.take(word, "if") {
		condition, otherwise := t.or(), part{code: "undef"}
		if t.take(word, "else") {
			otherwise = t.expression()
		}
		e = t.placed(e.from, "("+e.code+" if "+condition.code+" else "+otherwise.code+")", e, condition, otherwise)
	}
	return e
}

func (t *translator) or() part { return t.logic("or", t.and) }

func (t *translator) and() part { return t.logic("and", t.not) }

// logic is operands of the level below, and a word between them.
func (t *translator) logic(between string, below func() part) part {
	e := below()
	for t.take(word, between) {
		right := below()
		e = t.placed(e.from, "("+e.code+" "+between+" "+right.code+")", e, right)
	}
	return e
}

func (t *translator) not() part {
	from := t.peek().from
	if !t.take(word, "not") {
		return t.comparison()
	}
	defer t.deeper()()
	e := t.not()
	return t.placed(from, "(not "+e.code+")", e)
}

// comparison is a chain such as a < b <= c: neighbours are compared.
func (t *translator) comparison() part {
	left := t.sum()
	whole, chained := left, false
	for op := t.comparer(); op != ""; op = t.comparer() {
		right := t.sum()
		e := t.call(compare, left.from, op, t.text(op), left, right)
		if chained {
			e = t.placed(whole.from, "("+whole.code+" and "+e.code+")", whole, e)
		}
		left, whole, chained = right, e, true
	}
	return whole
}

// comparer takes an operator that compares, or is "".
func (t *translator) comparer() string {
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">="} {
		if t.take(operator, op) {
			return op
		}
	}
	switch {
	case t.take(word, "in"):
		return "in"
	case t.is(word, "not") && t.symbols[t.at+1].text == "in":
		t.at += 2
		return "not in"
	}
	return ""
}

func (t *translator) sum() part     { return t.binary(t.concat, "+", "-") }
func (t *translator) concat() part  { return t.binary(t.product, "~") }
func (t *translator) product() part { return t.binary(t.power, "*", "/", "//", "%") }
func (t *translator) power() part   { return t.binary(t.unary, "**") }

// binary is operands of the level below, and operators between them.
func (t *translator) binary(below func() part, operators ...string) part {
	e := below()
	for {
		i := slices.IndexFunc(operators, func(op string) bool { return t.take(operator, op) })
		if i < 0 {
			return e
		}
		right := below()
		e = t.call(arithmetic, e.from, operators[i], t.text(operators[i]), e, right)
	}
}

// unary is an operand with its sign and its filters, which are for both.
func (t *translator) unary() part { return t.filters(t.signed()) }

func (t *translator) signed() part {
	defer t.deeper()()
	from := t.peek().from
	switch {
	case t.take(operator, "-"):
		return t.postfix(t.call(negate, from, "-", t.signed()))
	case t.take(operator, "+"):
		return t.postfix(t.signed())
	}
	return t.postfix(t.primary())
}

// primary is a name, a constant, or something in brackets.
func (t *translator) primary() part {
	s := t.advance()
	switch s.kind {
	case word:
		return t.placed(s.from, t.name(s))
	case quoted:
		text := s.text
		for t.peek().kind == quoted {
			text += t.advance().text
		}
		return t.placed(s.from, t.text(text).code)
	case integer:
		return t.placed(s.from, t.constant(jinja.NewInt(t.integer(s))).code)
	case floating:
		x, err := strconv.ParseFloat(s.text, 64)
		if err != nil {
			t.fail(s, "the number is too large")
		}
		return t.placed(s.from, t.constant(jinja.NewFloat(x)).code)
	}
	return t.bracketed(s)
}

// integer is the value of a number. Zeros in front do not make it octal.
func (t *translator) integer(s symbol) int64 {
	n, err := strconv.ParseInt(s.text, 10, 64)
	if err != nil {
		n, err = strconv.ParseInt(s.text, 0, 64)
	}
	if err != nil {
		t.fail(s, "the number does not fit in 64 bits")
	}
	return n
}

// name is a constant that has a name, or a variable.
func (t *translator) name(s symbol) string {
	switch s.text {
	case "true", "True":
		return t.constant(jinja.NewBool(true)).code
	case "false", "False":
		return t.constant(jinja.NewBool(false)).code
	case "none", "None":
		return t.constant(jinja.None()).code
	}
	return t.variable(s)
}

// bracketed is a tuple, a list, a dictionary, or an expression in parentheses. The opening bracket is taken.
func (t *translator) bracketed(s symbol) part {
	if s.kind == operator {
		switch s.text {
		case "(":
			e := t.tuple(true, ")")
			t.want(operator, ")")
			return e
		case "[":
			return t.call(makeList, s.from, "", t.items("]", t.expression)...)
		case "{":
			return t.call(makeDict, s.from, "", t.items("}", t.expression, func() part {
				t.want(operator, ":")
				return t.expression()
			})...)
		}
	}
	t.unexpected(s, "an expression")
	return part{code: "undef"}
}

// items are groups of parts with commas between them, up to a closing bracket, which is taken.
func (t *translator) items(end string, group ...func() part) (all []part) {
	for t.err == nil && !t.take(operator, end) {
		for _, f := range group {
			all = append(all, f())
		}
		if !t.take(operator, ",") {
			t.want(operator, end)
			break
		}
	}
	return all
}

// tuple is an expression, or several ones with commas between them. It ends before one of the ends.
func (t *translator) tuple(empty bool, ends ...string) part {
	return t.tupleOf(t.expression, empty, ends...)
}

// tupleOf is a tuple whose items f takes.
func (t *translator) tupleOf(f func() part, empty bool, ends ...string) part {
	from := t.peek().from
	var items []part
	comma := false
	for t.err == nil && !t.ends(ends) {
		items = append(items, f())
		if !t.take(operator, ",") {
			break
		}
		comma = true
	}
	switch {
	case len(items) == 0 && !empty:
		t.unexpected(t.peek(), "an expression")
	case len(items) == 1 && !comma:
		return items[0]
	}
	return t.call(makeTuple, from, "", items...)
}

// ends reports whether the present symbol ends a tuple.
func (t *translator) ends(ends []string) bool {
	s := t.peek()
	return s.kind == closing || s.kind == ending || (s.kind == operator || s.kind == word) && slices.Contains(ends, s.text)
}

// postfix takes attributes, items and calls.
func (t *translator) postfix(e part) part {
	for {
		switch {
		case t.take(operator, "."):
			e = t.attribute(e)
		case t.take(operator, "["):
			e = t.subscript(e)
		case t.is(operator, "("):
			e = t.arguments(call, e)
			e.called = true
		default:
			return e
		}
	}
}

// attribute is e.name, or e.0, which is e[0].
func (t *translator) attribute(e part) part {
	s := t.advance()
	switch s.kind {
	case integer:
		return t.call(item, e.from, t.source(e), e, t.constant(jinja.NewInt(t.integer(s))))
	case word:
	default:
		t.unexpected(s, "a name")
	}
	return t.call(attribute, e.from, t.source(e), e, t.text(s.text))
}

// subscript is e[key] or a slice.
func (t *translator) subscript(e part) part {
	bounds := make([]part, 3)
	at, sliced := 0, false
	for t.err == nil && !t.take(operator, "]") {
		switch {
		case t.is(operator, ":") && at < 2:
			t.at++
			at, sliced = at+1, true
		case bounds[at].code != "":
			t.unexpected(t.peek(), "]")
		default:
			bounds[at] = t.expression()
		}
	}
	if !sliced {
		if bounds[0].code == "" {
			t.unexpected(t.peek(), "an expression")
		}
		return t.call(item, e.from, t.source(e), e, bounds[0])
	}
	for i := range bounds {
		if bounds[i].code == "" {
			bounds[i].code = "none"
		}
	}
	return t.call(slice, e.from, t.source(e), e, bounds[0], bounds[1], bounds[2])
}

// arguments is a call with the arguments in parentheses, if there are any, behind e.
func (t *translator) arguments(f function, e part) part {
	args, names := []part{e}, []string(nil)
	if t.take(operator, "(") {
		defer t.deeper()()
		args = append(args, t.items(")", func() part {
			s := t.peek()
			switch next := t.symbols[min(t.at+1, len(t.symbols)-1)]; {
			case t.is(operator, "*") || t.is(operator, "**"):
				t.fail(s, "arguments from a list or a mapping are not supported")
			case s.kind == word && next.kind == operator && next.text == "=":
				t.at += 2
				names = append(names, s.text)
			case len(names) > 0:
				t.unexpected(s, "a name and =")
			}
			return t.expression()
		})...)
	}
	return t.callNamed(f, e.from, t.source(e), names, args...)
}

// filters takes filters and tests, and calls of their results.
func (t *translator) filters(e part) part {
	for {
		switch {
		case t.take(operator, "|"):
			e = t.filter(e)
		case t.take(word, "is"):
			e = t.test(e)
		case t.is(operator, "("):
			e = t.arguments(call, e)
		default:
			return e
		}
	}
}

// filter takes the name of a filter and its arguments.
func (t *translator) filter(e part) part {
	s := t.advance()
	f := t.filterTable[s.text]
	switch {
	case s.kind != word:
		t.unexpected(s, "the name of a filter")
	case f == nil:
		f = t.unknown(e.from, s.to, "the filter "+s.text)
	}
	return t.arguments(f, e)
}

// unknown is an error that names a filter or a test. Within the tag if it comes when the template gets there, as in jinja2,
// because templates are written for several programs.
func (t *translator) unknown(from, to int, what string) function {
	if t.ifs == 0 {
		t.failAt(from, to, "%s is not supported", what)
	}
	return func(*render, *node, []jinja.Value) (jinja.Value, error) {
		return jinja.None(), fmt.Errorf("%s is not supported", what)
	}
}

// noOperands are words that begin no argument of a test.
var noOperands = []string{"else", "or", "and", "if", "in", "not", "recursive"}

// test takes the name of a test and its arguments.
func (t *translator) test(e part) part {
	negated := t.take(word, "not")
	s := t.advance()
	f := t.testTable[s.text]
	switch {
	case s.kind != word:
		t.unexpected(s, "the name of a test")
	case f == nil:
		f = t.unknown(e.from, s.to, "the test "+s.text)
	}
	var out part
	switch next := t.peek(); {
	case t.is(word, "is"):
		t.fail(next, "tests cannot stand one behind the other")
	case next.kind == word && !slices.Contains(noOperands, next.text), next.kind == quoted, next.kind == integer,
		next.kind == floating, t.is(operator, "["), t.is(operator, "{"):
		x := t.postfix(t.primary())
		out = t.call(f, e.from, t.source(e), e, x)
	default:
		out = t.arguments(f, e)
	}
	if negated {
		return t.placed(e.from, "(not "+out.code+")", out)
	}
	return out
}
