package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// mostNesting is how deep values may be nested.
const mostNesting = 100

var errNested = fmt.Errorf("a value is nested deeper than %d levels", mostNesting)

// fromJSON is the value of a JSON text. The keys of objects keep their order.
func fromJSON(text []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decoded(d, 0)
	if _, more := d.Token(); err == nil && more != io.EOF {
		err = errors.New("more than one JSON value")
	}
	return v, err
}

func decoded(d *json.Decoder, depth int) (jinja.Value, error) {
	if depth > mostNesting {
		return jinja.None(), errNested
	}
	token, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	switch x := token.(type) {
	case bool:
		return jinja.NewBool(x), nil
	case string:
		return jinja.NewString(x), nil
	case json.Number:
		return fromNumber(x)
	case json.Delim:
		return decodedItems(d, x, depth+1)
	}
	return jinja.None(), nil
}

func fromNumber(x json.Number) (jinja.Value, error) {
	if n, err := x.Int64(); err == nil {
		return jinja.NewInt(n), nil
	}
	f, err := x.Float64()
	return jinja.NewFloat(f), err
}

// decodedItems is the list or the object that begins.
func decodedItems(d *json.Decoder, open json.Delim, depth int) (jinja.Value, error) {
	list, dict := jinja.NewList(nil), jinja.NewDict()
	for d.More() {
		key := ""
		if open == '{' {
			token, err := d.Token()
			if err != nil {
				return list, err
			}
			key = token.(string)
		}
		v, err := decoded(d, depth)
		if err != nil {
			return list, err
		}
		if open == '{' {
			dict.AsDict().Set(key, v)
		} else {
			list.AsList().Append(v)
		}
	}
	_, err := d.Token()
	if open == '{' {
		return dict, err
	}
	return list, err
}

// typeName is the name of a value's type, with its article.
func (r *render) typeName(v jinja.Value) string {
	switch {
	case v.IsUndefined():
		return "an undefined value"
	case v.IsNone():
		return "none"
	case v.IsBool():
		return "a bool"
	case v.IsInt():
		return "an int"
	case v.IsFloat():
		return "a float"
	case v.IsString():
		return "a string"
	case r.isTuple(v):
		return "a tuple"
	case v.IsList():
		return "a list"
	case r.objectOf(v) != nil:
		return "an object"
	case v.IsDict():
		return "a mapping"
	}
	return "a function"
}

// number is a value that Python counts with: true is 1.
type number struct {
	isInt bool
	i     int64
	f     float64
}

func numberOf(v jinja.Value) (x number, ok bool) {
	switch {
	case v.IsInt():
		return number{true, v.AsInt(), float64(v.AsInt())}, true
	case v.IsFloat():
		return number{false, 0, v.AsFloat()}, true
	case v.IsBool() && v.AsBool():
		return number{true, 1, 1}, true
	case v.IsBool():
		return number{isInt: true}, true
	}
	return x, false
}

// intOf is a whole number, or an error that says which argument should be one.
func (r *render) intOf(v jinja.Value, what string) (int, error) {
	x, ok := numberOf(v)
	if !ok || !x.isInt || x.i > math.MaxInt32 || x.i < math.MinInt32 {
		return 0, fmt.Errorf("%s is %s, want a small whole number", what, r.typeName(v))
	}
	return int(x.i), nil
}

// stringOf is a string, or an error that says which argument should be one.
func (r *render) stringOf(v jinja.Value, what string) (string, error) {
	if !v.IsString() {
		return "", fmt.Errorf("%s is %s, want a string", what, r.typeName(v))
	}
	return v.AsString(), nil
}

// items are the values that a loop over v takes.
func (r *render) items(v jinja.Value) ([]jinja.Value, error) {
	switch {
	case v.IsList():
		return v.AsList().Items, nil
	case v.IsUndefined():
		return nil, nil
	case v.IsString():
		runes := []rune(v.AsString())
		items := make([]jinja.Value, len(runes))
		for i, c := range runes {
			items[i] = jinja.NewString(string(c))
		}
		return items, r.spend(16 * len(items))
	case v.IsDict() && r.objectOf(v) == nil:
		keys := v.AsDict().Keys
		items := make([]jinja.Value, len(keys))
		for i, key := range keys {
			items[i] = jinja.NewString(key)
		}
		return items, r.spend(16 * len(items))
	}
	return nil, fmt.Errorf("%s has no items", r.typeName(v))
}

// length is the number of a value's items, or of a string's characters.
func (r *render) length(v jinja.Value) (int, error) {
	switch {
	case v.IsList():
		return v.AsList().Len(), nil
	case v.IsUndefined():
		return 0, nil
	case v.IsString():
		return len([]rune(v.AsString())), nil
	case v.IsDict() && r.objectOf(v) == nil:
		return v.AsDict().Len(), nil
	}
	return 0, fmt.Errorf("%s has no length", r.typeName(v))
}

// nested counts the look at a value at some depth.
func (r *render) nested(depth int) error {
	if depth > mostNesting {
		return errNested
	}
	return r.spend(0)
}

// equal is ==. Numbers are equal whatever their types, a list never equals a tuple.
func (r *render) equal(a, b jinja.Value, depth int) (bool, error) {
	if err := r.nested(depth); err != nil {
		return false, err
	}
	x, isNumber := numberOf(a)
	y, areNumbers := numberOf(b)
	switch {
	case isNumber && areNumbers && x.isInt && y.isInt:
		return x.i == y.i, nil
	case isNumber && areNumbers:
		return x.f == y.f, nil
	case a.IsString() && b.IsString():
		return a.AsString() == b.AsString(), r.spend(len(a.AsString()) / 8)
	case a.IsList() && b.IsList() && r.isTuple(a) == r.isTuple(b):
		return r.equalLists(a.AsList().Items, b.AsList().Items, depth)
	case a.IsDict() && b.IsDict():
		return r.equalDicts(a.AsDict(), b.AsDict(), depth)
	}
	return a.IsNone() && b.IsNone() || a.IsUndefined() && b.IsUndefined(), nil
}

func (r *render) equalLists(a, b []jinja.Value, depth int) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := r.equal(a[i], b[i], depth+1); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

func (r *render) equalDicts(a, b *jinja.Dict, depth int) (bool, error) {
	if a == b || r.objects[a] != nil || r.objects[b] != nil || a.Len() != b.Len() {
		return a == b, nil
	}
	for _, key := range a.Keys {
		y, ok := b.Get(key)
		if !ok {
			return false, nil
		}
		if same, err := r.equal(a.Data[key], y, depth+1); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// order is negative if a is less than b, positive if it is greater, and 0 otherwise.
func (r *render) order(a, b jinja.Value, depth int) (int, error) {
	if err := r.nested(depth); err != nil {
		return 0, err
	}
	x, isNumber := numberOf(a)
	y, areNumbers := numberOf(b)
	switch {
	case isNumber && areNumbers && x.isInt && y.isInt:
		return compareOrdered(x.i, y.i), nil
	case isNumber && areNumbers:
		return compareOrdered(x.f, y.f), nil
	case a.IsString() && b.IsString():
		return strings.Compare(a.AsString(), b.AsString()), r.spend(len(a.AsString()) / 8)
	case a.IsList() && b.IsList() && r.isTuple(a) == r.isTuple(b):
		p, q := a.AsList().Items, b.AsList().Items
		for i := range min(len(p), len(q)) {
			if c, err := r.order(p[i], q[i], depth+1); c != 0 || err != nil {
				return c, err
			}
		}
		return compareOrdered(len(p), len(q)), nil
	}
	return 0, fmt.Errorf("%s and %s have no order", r.typeName(a), r.typeName(b))
}

func compareOrdered[T int | int64 | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// str is the text of a value as Python's str has it. An undefined value has none.
func (r *render) str(v jinja.Value) (string, error) {
	switch {
	case v.IsString():
		return v.AsString(), r.spend(len(v.AsString()))
	case v.IsUndefined():
		return "", nil
	}
	w := &writer{r: r}
	w.repr(v, 0)
	return w.b.String(), w.err
}

// repr writes a value as Python's repr does.
func (w *writer) repr(v jinja.Value, depth int) {
	if depth > mostNesting && w.err == nil {
		w.err = errNested
	}
	switch {
	case w.err != nil:
	case v.IsString():
		w.put(quote(v.AsString()))
	case v.IsFloat():
		w.put(floatText(v.AsFloat()))
	case v.IsUndefined():
		w.put("Undefined")
	case v.IsList():
		w.reprList(v, depth)
	case v.IsDict() && w.r.objectOf(v) == nil:
		w.reprDict(v.AsDict(), depth)
	case v.IsDict() || v.IsCallable():
		w.err = fmt.Errorf("%s cannot be printed", w.r.typeName(v))
	default:
		w.put(v.String())
	}
}

func (w *writer) reprList(v jinja.Value, depth int) {
	items, open, end := v.AsList().Items, "[", "]"
	if w.r.isTuple(v) {
		open, end = "(", ")"
		if len(items) == 1 {
			end = ",)"
		}
	}
	w.put(open)
	for i, x := range items {
		if i > 0 {
			w.put(", ")
		}
		w.repr(x, depth+1)
	}
	w.put(end)
}

func (w *writer) reprDict(d *jinja.Dict, depth int) {
	w.put("{")
	for i, key := range d.Keys {
		if i > 0 {
			w.put(", ")
		}
		w.put(quote(key))
		w.put(": ")
		w.repr(d.Data[key], depth+1)
	}
	w.put("}")
}

// quote is Python's repr of a string.
func quote(s string) string {
	mark := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		mark = '"'
	}
	var b strings.Builder
	b.WriteRune(mark)
	for _, c := range s {
		switch {
		case c == mark || c == '\\':
			b.WriteString("\\" + string(c))
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteRune(mark)
	return b.String()
}

// floatText is Python's repr of a float: the shortest digits, with an exponent below 1e-4 and from 1e16 on.
func floatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	text := strconv.FormatFloat(f, 'e', -1, 64)
	_, exponent, _ := strings.Cut(text, "e")
	if n, err := strconv.Atoi(exponent); err == nil && -4 <= n && n < 16 {
		text = strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
	}
	return text
}

// jsonForm says how JSON is written.
type jsonForm struct {
	between, colon string
	indent         string // of each level
	lines          bool   // items stand on lines of their own
	ascii, sorted  bool
}

// json writes a value as Python's json.dumps does.
func (w *writer) json(v jinja.Value, form *jsonForm, depth int) {
	if depth > mostNesting && w.err == nil {
		w.err = errNested
	}
	switch {
	case w.err != nil:
	case v.IsNone():
		w.put("null")
	case v.IsBool():
		w.put(strings.ToLower(v.String()))
	case v.IsInt():
		w.put(v.String())
	case v.IsFloat():
		w.put(strings.NewReplacer("inf", "Infinity", "nan", "NaN").Replace(floatText(v.AsFloat())))
	case v.IsString():
		w.put(jsonString(v.AsString(), form.ascii))
	case v.IsList():
		items := v.AsList().Items
		w.jsonItems("[", "]", len(items), form, depth, func(i int) { w.json(items[i], form, depth+1) })
	case v.IsDict() && w.r.objectOf(v) == nil:
		w.jsonDict(v.AsDict(), form, depth)
	default:
		w.err = fmt.Errorf("%s cannot be written as JSON", w.r.typeName(v))
	}
}

// jsonItems writes brackets and the items between them.
func (w *writer) jsonItems(open, end string, n int, form *jsonForm, depth int, each func(i int)) {
	w.put(open)
	for i := range n {
		if i > 0 {
			w.put(form.between)
		}
		if form.lines {
			w.put("\n" + strings.Repeat(form.indent, depth+1))
		}
		each(i)
	}
	if form.lines && n > 0 {
		w.put("\n" + strings.Repeat(form.indent, depth))
	}
	w.put(end)
}

func (w *writer) jsonDict(d *jinja.Dict, form *jsonForm, depth int) {
	keys := d.Keys
	if form.sorted {
		keys = sortedKeys(d)
	}
	w.jsonItems("{", "}", len(keys), form, depth, func(i int) {
		w.put(jsonString(keys[i], form.ascii) + form.colon)
		w.json(d.Data[keys[i]], form, depth+1)
	})
}

// jsonString is a string in JSON. Python escapes only what must be, or all but ASCII.
func jsonString(s string, ascii bool) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteString("\\" + string(c))
		case c < 0x20 && strings.ContainsRune("\b\f\n\r\t", c):
			b.WriteString(map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}[c])
		case c < 0x20 || ascii && c >= 0x7f && c < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, c)
		case ascii && c >= 0x10000:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(c-0x10000)>>10, 0xdc00+(c-0x10000)&0x3ff)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
