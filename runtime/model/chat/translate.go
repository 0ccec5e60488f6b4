package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"
)

// translator turns the source of a template into a template of the library that means the same, in one pass.
//
// Control flow, variables and calls are the library's. Each operation is a call of a function of this package, with the
// number of its node: {{ a + b }} becomes {{_(3,_(2,k0,u_0,u_1))}}, where node 2 adds and node 3 prints. So values are
// Python's, errors have a place, and work is counted. White space was cut by the lexer.
type translator struct {
	src     string
	symbols []symbol
	at      int
	depth   int
	err     *Error // the first one

	out        strings.Builder
	nodes      []node
	constants  map[string]jinja.Value
	variables  map[string]string // the library's name of each name of the source
	macros     map[string]macro
	loops      []*loopTag // that contain the present tag
	ifs        int        // that contain it
	temporary  int
	generation bool
	tables
}

// node is an operation at a place of the source.
type node struct {
	f        function
	operand  string   // the source of the operand that may be at fault
	from, to int      // the place
	names    []string // of the last arguments, which have names
}

// macro is a macro's name and how many arguments it takes.
type macro struct {
	name   string
	params []string
}

// loopTag is a loop that contains the present tag.
type loopTag struct {
	left bool // by break or continue
}

// mostDepth is how deep tags and expressions may be nested.
const mostDepth = 100

// deeper counts a level until the function that it returns is called.
func (t *translator) deeper() func() {
	t.depth++
	if t.depth > mostDepth {
		t.fail(t.peek(), "is nested deeper than %d levels", mostDepth)
	}
	return func() { t.depth-- }
}

// fail notes the first error. Afterwards the source is at its end.
func (t *translator) fail(s symbol, format string, args ...any) {
	t.failAt(s.from, s.to, format, args...)
}

func (t *translator) failAt(from, to int, format string, args ...any) {
	if t.err == nil {
		t.err = &Error{lineOf(t.src, from), excerpt(around(t.src, from, to)), fmt.Sprintf(format, args...)}
	}
	t.at = len(t.symbols) - 1
}

// around is a place of a source, or the tag around it if both are short.
func around(src string, from, to int) string {
	open := max(strings.LastIndex(src[:from], "{{"), strings.LastIndex(src[:from], "{%"))
	if to-from < 8 && open >= 0 && from-open < 40 {
		from = open
		if end := strings.Index(src[to:], "}"); end >= 0 && end < 40 {
			to = min(to+end+2, len(src))
		}
	}
	return src[from:min(to, len(src))]
}

// unexpected says what should stand there.
func (t *translator) unexpected(s symbol, want string) {
	switch text := s.text; {
	case s.kind == ending:
		t.fail(s, "the template ends, want %s", want)
	default:
		t.fail(s, "unexpected %q, want %s", text, want)
	}
}

func (t *translator) peek() symbol { return t.symbols[t.at] }

func (t *translator) advance() symbol {
	s := t.symbols[t.at]
	t.at = min(t.at+1, len(t.symbols)-1)
	return s
}

func (t *translator) is(k kind, text string) bool {
	s := t.peek()
	return s.kind == k && s.text == text
}

// take takes a symbol, if it is the present one.
func (t *translator) take(k kind, text string) bool {
	if !t.is(k, text) {
		return false
	}
	t.at++
	return true
}

func (t *translator) want(k kind, text string) {
	if !t.take(k, text) {
		t.unexpected(t.peek(), text)
	}
}

// emit writes code for the library.
func (t *translator) emit(format string, args ...any) { fmt.Fprintf(&t.out, format, args...) }

// newName is a variable of the library that no source has.
func (t *translator) newName() part {
	t.temporary++
	return part{code: fmt.Sprintf("t%d", t.temporary)}
}

// variable is the library's name of a variable.
func (t *translator) variable(s symbol) string {
	if s.text == "varargs" || s.text == "kwargs" {
		t.fail(s, "the variable %s of macros is not supported", s.text)
	}
	code, ok := t.variables[s.text]
	if !ok {
		code = fmt.Sprintf("u_%d", len(t.variables))
		t.variables[s.text] = code
	}
	return code
}

// body translates text and tags up to one of the tags that end it, whose name it takes and returns. With no ends it is the
// whole template.
func (t *translator) body(ends ...string) string {
	defer t.deeper()()
	for t.err == nil {
		s := t.advance()
		switch {
		case s.kind == data:
			t.emit("{{%s}}", t.call(printed, s.from, "", t.text(s.text)).code)
		case s.kind == opening && s.text == "{{":
			e := t.tuple(false)
			t.emit("{{%s}}", t.call(printed, e.from, t.source(e), e).code)
			t.want(closing, "}}")
		case s.kind == opening:
			name := t.advance()
			if slices.Contains(ends, name.text) {
				return name.text
			}
			t.statement(s, name)
		case s.kind == ending && len(ends) > 0:
			t.fail(s, "the template ends, want the tag %s", strings.Join(ends, " or "))
		case s.kind == ending:
			return ""
		}
	}
	return ""
}

// statement translates a tag and what belongs to it.
func (t *translator) statement(tag, name symbol) {
	switch name.text {
	case "if":
		t.condition()
	case "for":
		t.loop()
	case "set":
		t.set()
	case "with":
		t.with()
	case "macro":
		t.macro()
	case "call":
		t.callBlock(name)
	case "filter":
		t.filterBlock(name)
	case "print":
		e := t.tuple(false)
		t.emit("{{%s}}", t.call(printed, e.from, t.source(e), e).code)
		t.close()
	case "break", "continue":
		t.leave(name)
	case "generation":
		t.generated(tag, name)
	default:
		t.failAt(tag.from, name.to, "the tag %s is not supported", name.text)
	}
}

// close takes the end of a tag.
func (t *translator) close() { t.want(closing, "%}") }

func (t *translator) condition() {
	t.ifs++
	defer func() { t.ifs-- }()
	e := t.tuple(false)
	t.close()
	t.emit("{%%if %s%%}", e.code)
	for t.err == nil {
		switch t.body("elif", "else", "endif") {
		case "elif":
			e := t.tuple(false)
			t.emit("{%%elif %s%%}", e.code)
		case "else":
			t.emit("{%%else%%}")
			t.close()
			t.body("endif")
			fallthrough
		case "endif":
			t.emit("{%%endif%%}")
			t.close()
			return
		}
		t.close()
	}
}

// scope translates what has variables of its own: a loop of one turn, as loops of the library have.
func (t *translator) scope(inside func()) {
	t.emit("{%%for q in one%%}")
	inside()
	t.emit("{%%endfor%%}")
	if n := len(t.loops); n > 0 && t.loops[n-1].left {
		t.emit("{%%if %s%%}{%%break%%}{%%endif%%}", t.call(leaving, 0, "").code)
	}
}

// apart translates what no break or continue can leave.
func (t *translator) apart(inside func()) {
	loops := t.loops
	t.loops = nil
	inside()
	t.loops = loops
}

// loop translates
//
//	{% for TARGET in VALUES %}BODY{% else %}OTHERWISE{% endfor %}
//
// to a loop over pairs of the object loop and a value:
//
//	{%for t1 in begun(VALUES)%}{%for q in one%}{%set loop=turned(t1)%}{%set TARGET=t1[1]%}BODY{%endfor%}{%else%}OTHERWISE{%endfor%}
func (t *translator) loop() {
	to := t.target()
	t.want(word, "in")
	values := t.tupleOf(t.or, false, "if", "recursive")
	list := t.call(iterated, values.from, t.source(values), values)
	if t.take(word, "if") {
		list = t.chosen(to, list)
	}
	if t.is(word, "recursive") {
		t.fail(t.peek(), "recursive loops are not supported")
	}
	t.close()

	turn, this := t.newName(), &loopTag{}
	t.loops = append(t.loops, this)
	t.emit("{%%for %s in %s%%}{%%for q in one%%}", turn.code, t.call(begun, values.from, "", list).code)
	t.emit("{%%set %s=%s%%}", t.variable(symbol{text: "loop"}), t.call(turned, values.from, "", turn).code)
	t.assign(to, part{code: turn.code + "[1]"})
	end := t.body("else", "endfor")
	t.emit("{%%endfor%%}")
	if this.left {
		t.emit("{%%if %s%%}{%%break%%}{%%endif%%}", t.call(broken, 0, "").code)
	}
	if t.loops = t.loops[:len(t.loops)-1]; end == "else" {
		t.close()
		t.emit("{%%else%%}")
		t.scope(func() { t.body("endfor") })
	}
	t.emit("{%%endfor%%}")
	t.close()
}

// chosen translates the condition of a loop to a loop before it, which collects the values that meet it.
func (t *translator) chosen(to target, list part) part {
	all, one := t.newName(), t.newName()
	t.emit("{%%set %s=%s%%}{%%for %s in %s%%}{%%for q in one%%}", all.code, t.call(makeList, 0, "").code, one.code, list.code)
	t.assign(to, one)
	condition := t.expression()
	t.emit("{%%if %s%%}{%%set q=%s%%}{%%endif%%}{%%endfor%%}{%%endfor%%}", condition.code, t.call(collected, condition.from, "", all, one).code)
	return all
}

// leave translates break and continue: both end the scope of a turn, and the loop is told which it was.
func (t *translator) leave(name symbol) {
	if len(t.loops) == 0 {
		t.fail(name, "%s stands outside of a loop", name.text)
	} else {
		t.loops[len(t.loops)-1].left = true
	}
	t.emit("{%%set q=%s%%}{%%break%%}", t.call(left, name.from, "", t.constant(jinja.NewBool(name.text == "break"))).code)
	t.close()
}

// target is what a value is assigned to: a variable, an attribute of a namespace, or several targets.
type target struct {
	variable, attribute string
	several             []target
	from                int
}

// target takes a target, which may be a tuple.
func (t *translator) target() target {
	defer t.deeper()()
	whole := target{from: t.peek().from}
	comma := false
	for t.err == nil && !t.ends([]string{"in", "=", "|", ")"}) {
		whole.several = append(whole.several, t.singleTarget())
		if !t.take(operator, ",") {
			break
		}
		comma = true
	}
	if len(whole.several) == 0 {
		t.unexpected(t.peek(), "a variable")
		return whole
	}
	if len(whole.several) == 1 && !comma {
		return whole.several[0]
	}
	return whole
}

func (t *translator) singleTarget() target {
	s := t.advance()
	switch {
	case s.kind == operator && s.text == "(":
		x := t.target()
		t.want(operator, ")")
		return x
	case s.kind != word || t.name(s)[0] != 'u':
		t.unexpected(s, "a variable")
		return target{}
	}
	x := target{variable: t.variable(s), from: s.from}
	if t.take(operator, ".") {
		name := t.advance()
		if name.kind != word {
			t.unexpected(name, "a name")
		}
		x.attribute = name.text
	}
	return x
}

// assign writes an assignment.
func (t *translator) assign(to target, value part) {
	switch {
	case to.attribute != "":
		t.emit("{%%set q=%s%%}", t.call(setAttribute, to.from, "", part{code: to.variable}, t.text(to.attribute), value).code)
	case to.several == nil:
		t.emit("{%%set %s=%s%%}", to.variable, value.code)
	default:
		list, count := t.newName(), t.constant(jinja.NewInt(int64(len(to.several))))
		t.emit("{%%set %s=%s%%}", list.code, t.call(unpacked, to.from, "", value, count).code)
		for i, x := range to.several {
			t.assign(x, part{code: fmt.Sprintf("%s[%d]", list.code, i)})
		}
	}
}

// set translates an assignment of a value, or of the text up to endset.
func (t *translator) set() {
	to := t.target()
	if t.take(operator, "=") {
		t.assign(to, t.tuple(false))
		t.close()
		return
	}
	text := t.filteredText("endset")
	t.assign(to, text)
}

// filterBlock translates text up to endfilter that goes through filters.
func (t *translator) filterBlock(name symbol) {
	t.at-- // the name of the tag stands where others have |
	t.symbols[t.at] = symbol{operator, "|", name.from, name.to}
	text := t.filteredText("endfilter")
	t.emit("{{%s}}", t.call(printed, text.from, "", text).code)
}

// filteredText takes filters, the end of the tag, and a text up to another tag.
func (t *translator) filteredText(end string) part {
	text := t.newName()
	text.from, text.to = t.peek().from, t.peek().from
	name := text.code
	for t.take(operator, "|") {
		text = t.filter(text)
	}
	t.close()
	t.emit("{%%set %s%%}", name)
	t.apart(func() { t.scope(func() { t.body(end) }) })
	t.close()
	t.emit("{%%endset%%}")
	return text
}

// with translates a scope with variables, whose values are computed outside of it.
func (t *translator) with() {
	var to []target
	var values []part
	for t.err == nil && !t.is(closing, "%}") {
		to = append(to, t.singleTarget())
		t.want(operator, "=")
		name := t.newName()
		t.emit("{%%set %s=%s%%}", name.code, t.expression().code)
		values = append(values, name)
		if !t.take(operator, ",") {
			break
		}
	}
	t.close()
	t.scope(func() {
		for i, x := range to {
			t.assign(x, values[i])
		}
		t.body("endwith")
	})
	t.close()
}

// macro translates a macro. It has a name of its own, so that a call can look its parameters up.
func (t *translator) macro() {
	s := t.advance()
	if s.kind != word {
		t.unexpected(s, "the name of a macro")
	}
	name := t.newName().code
	params, defaults := t.parameters()
	t.close()
	m := macro{name: s.text}
	var codes []string
	for i, p := range params {
		m.params = append(m.params, p.text)
		codes = append(codes, t.variable(p))
		if defaults[i] != "" {
			codes[i] += "=missing"
		}
	}
	t.macros[name] = m
	t.emit("{%%macro %s(%s)%%}{%%set %s=caller%%}", name, strings.Join(codes, ","), t.variable(symbol{text: "caller"}))
	for i, p := range params {
		if defaults[i] != "" {
			t.emit("{%%if %s%%}{%%set %s=%s%%}{%%endif%%}", t.call(isMissing, 0, "", part{code: t.variable(p)}).code, t.variable(p), defaults[i])
		}
	}
	t.apart(func() { t.body("endmacro") })
	t.close()
	t.emit("{%%endmacro%%}{%%set %s=%s%%}", t.variable(s), name)
}

// parameters are names in parentheses, with the code of their default values, or "".
func (t *translator) parameters() (names []symbol, defaults []string) {
	t.want(operator, "(")
	for t.err == nil && !t.take(operator, ")") {
		s := t.advance()
		if s.kind != word {
			t.unexpected(s, "the name of a parameter")
		}
		names, defaults = append(names, s), append(defaults, "")
		if t.take(operator, "=") {
			defaults[len(defaults)-1] = t.expression().code
		}
		if !t.take(operator, ",") {
			t.want(operator, ")")
			break
		}
	}
	return names, defaults
}

// callBlock translates a call of a macro that gets the text up to endcall as caller().
func (t *translator) callBlock(name symbol) {
	var codes []string
	if t.is(operator, "(") {
		params, defaults := t.parameters()
		for i, p := range params {
			codes = append(codes, t.variable(p))
			if defaults[i] != "" {
				t.fail(p, "the parameters of caller cannot have default values")
			}
		}
	}
	e := t.postfix(t.primary())
	if !e.called {
		t.fail(name, "want a call of a macro")
	}
	t.close()
	t.emit("{%%call")
	if len(codes) > 0 {
		t.emit("(%s)", strings.Join(codes, ","))
	}
	t.emit(" %s%%}", e.code)
	t.apart(func() { t.body("endcall") })
	t.close()
	t.emit("{%%endcall%%}")
}

// generated translates the text of the model up to endgeneration, which transformers marks for training.
func (t *translator) generated(tag, name symbol) {
	if !t.generation {
		t.failAt(tag.from, name.to, "the tag generation is transformers' own and was not asked for")
	}
	t.close()
	t.scope(func() { t.body("endgeneration") })
	t.close()
}
