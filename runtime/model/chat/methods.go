package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// operation is a filter, a test or a method: what it does to v by its arguments. An argument that is not given is undefined.
type operation struct {
	params string // their names; "..." at the end takes any number of arguments
	do     func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error)
}

// with does an operation by arguments that have places or names.
func (o operation) with(r *render, v jinja.Value, positional []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	params := strings.Fields(o.params)
	any := len(params) > 0 && params[len(params)-1] == "..."
	if any {
		params = params[:len(params)-1]
	}
	if len(positional) > len(params) && !any {
		return v, fmt.Errorf("takes %d arguments, not %d", len(params), len(positional))
	}
	a := make([]jinja.Value, max(len(params), len(positional)))
	copy(a, positional)
	for name, x := range named {
		i := slices.Index(params, name)
		if i < len(positional) {
			return v, fmt.Errorf("takes no argument %s here", name)
		}
		a[i] = x
	}
	return o.do(r, v, a)
}

// function is an operation of a node: its first argument is the operand.
func (o operation) function(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	positional := args[:len(args)-len(n.names)]
	named := map[string]jinja.Value{}
	for i, name := range n.names {
		named[name] = args[len(positional)+i]
	}
	return o.with(r, args[0], positional[1:], named)
}

// functions are operations as functions of nodes.
func functions(of map[string]operation) map[string]function {
	out := map[string]function{}
	for name, o := range of {
		out[name] = o.function
	}
	return out
}

// method is a method of a value, nil if it has none of this name.
func (r *render) method(v jinja.Value, name string) func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	var table map[string]operation
	switch {
	case v.IsString():
		table = stringMethods
	case v.IsList():
		table = listMethods
	case v.IsDict():
		table = dictMethods
	}
	o, ok := table[name]
	if !ok {
		return nil
	}
	return func(positional []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
		return o.with(r, v, positional, named)
	}
}

// refused is a method that changes its value, which transformers forbids.
var refused = operation{"...", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	return v, fmt.Errorf("templates must not change %s", r.typeName(v))
}}

var dictMethods = map[string]operation{
	"get": {"key default", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		if a[0].IsString() {
			if x, ok := v.AsDict().Get(a[0].AsString()); ok {
				return x, nil
			}
		}
		if a[1].IsUndefined() {
			return jinja.None(), nil
		}
		return a[1], nil
	}},
	"items": {"", pairs},
	"keys":  {"", keys},
	"values": {"", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
		var out []jinja.Value
		for _, key := range v.AsDict().Keys {
			out = append(out, v.AsDict().Data[key])
		}
		return r.list(out)
	}},
	"copy": {"", func(_ *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) { return v, nil }},
	"pop":  refused, "popitem": refused, "update": refused, "setdefault": refused, "clear": refused,
}

// pairs are the keys of a mapping with their values.
func pairs(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	var out []jinja.Value
	for _, key := range v.AsDict().Keys {
		out = append(out, r.newTuple([]jinja.Value{jinja.NewString(key), v.AsDict().Data[key]}))
	}
	if err := r.spend(64 * len(out)); err != nil {
		return v, err
	}
	return r.list(out)
}

func keys(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	return jinja.NewList(items), err
}

var listMethods = map[string]operation{
	"count": {"value", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		n := 0
		for _, x := range v.AsList().Items {
			same, err := r.equal(x, a[0], 0)
			if err != nil {
				return v, err
			}
			if same {
				n++
			}
		}
		return jinja.NewInt(int64(n)), nil
	}},
	"index": {"value", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		for i, x := range v.AsList().Items {
			if same, err := r.equal(x, a[0], 0); same || err != nil {
				return jinja.NewInt(int64(i)), err
			}
		}
		return v, errors.New("the value is not in the list")
	}},
	"copy":   {"", func(_ *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) { return v, nil }},
	"append": refused, "extend": refused, "insert": refused, "pop": refused, "remove": refused, "clear": refused,
	"reverse": refused, "sort": refused,
}

// ofText is an operation that makes a text of a text.
func ofText(f func(s string) string) operation {
	return operation{"", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) { return r.text(f(v.AsString())) }}
}

// isText is an operation that says something about a text.
func isText(f func(s string) bool) operation {
	return operation{"", func(_ *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
		return jinja.NewBool(f(v.AsString())), nil
	}}
}

// all reports whether a text has characters, and all of them are of a kind.
func all(of ...func(c rune) bool) operation {
	return isText(func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(c rune) bool {
			return !slices.ContainsFunc(of, func(is func(rune) bool) bool { return is(c) })
		}) < 0
	})
}

var stringMethods = map[string]operation{
	"upper": ofText(upper), "lower": ofText(lower), "casefold": ofText(lower), "title": ofText(titleMethod), "capitalize": ofText(capitalized),
	"swapcase": ofText(func(s string) string {
		return strings.Map(func(c rune) rune {
			if unicode.IsUpper(c) {
				return unicode.ToLower(c)
			}
			return unicode.ToUpper(c)
		}, s)
	}),
	"isupper": isText(isUpper), "islower": isText(isLower),
	"isalpha": all(unicode.IsLetter), "isdigit": all(unicode.IsDigit), "isdecimal": all(unicode.IsDigit),
	"isnumeric": all(unicode.IsNumber), "isalnum": all(unicode.IsLetter, unicode.IsNumber), "isspace": all(isSpace),
	"strip":  {"chars", strip(true, true)},
	"lstrip": {"chars", strip(true, false)},
	"rstrip": {"chars", strip(false, true)},
	"split":  {"sep maxsplit", split},
	"rsplit": {"sep maxsplit", splitRight},
	"splitlines": {"keepends", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		return r.strings(lines(v.AsString(), a[0].IsTruthy()))
	}},
	"partition":    {"sep", partition(strings.Index, false)},
	"rpartition":   {"sep", partition(strings.LastIndex, true)},
	"startswith":   {"prefix", affix(strings.HasPrefix)},
	"endswith":     {"suffix", affix(strings.HasSuffix)},
	"removeprefix": {"prefix", ofTwo(strings.TrimPrefix)},
	"removesuffix": {"suffix", ofTwo(strings.TrimSuffix)},
	"find":         {"sub", find(strings.Index, false)},
	"rfind":        {"sub", find(strings.LastIndex, false)},
	"index":        {"sub", find(strings.Index, true)},
	"rindex":       {"sub", find(strings.LastIndex, true)},
	"count": {"sub", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		sub, err := r.stringOf(a[0], "the argument of count")
		return jinja.NewInt(int64(strings.Count(v.AsString(), sub))), err
	}},
	"replace": {"old new count", replace},
	"join": {"items", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		return r.joined(a[0], v.AsString(), true)
	}},
	"zfill":  {"width", zeros},
	"ljust":  {"width fillchar", justified(0, 1)},
	"rjust":  {"width fillchar", justified(1, 0)},
	"center": {"width fillchar", justified(1, 1)},
	"format": {"...", braces},
}

// longUpper are letters whose capitals are several letters. Greek letters with an iota below are left out.
var longUpper = strings.NewReplacer("ß", "SS", "ŉ", "ʼN", "ǰ", "J̌", "ΐ", "Ϊ́", "ΰ", "Ϋ́", "և", "ԵՒ", "ẖ", "H̱", "ẗ", "T̈", "ẘ", "W̊", "ẙ", "Y̊",
	"ẚ", "Aʾ", "ﬀ", "FF", "ﬁ", "FI", "ﬂ", "FL", "ﬃ", "FFI", "ﬄ", "FFL", "ﬅ", "ST", "ﬆ", "ST", "ﬓ", "ՄՆ", "ﬔ", "ՄԵ", "ﬕ", "ՄԻ", "ﬖ", "ՎՆ", "ﬗ", "ՄԽ")

func upper(s string) string { return strings.ToUpper(longUpper.Replace(s)) }

func lower(s string) string { return strings.ToLower(strings.ReplaceAll(s, "İ", "i̇")) }

// capitalized has a capital in front and small letters behind it.
func capitalized(s string) string {
	c, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToTitle(c)) + lower(s[n:])
}

// titleMethod begins each run of letters with a capital.
func titleMethod(s string) string {
	before := ' '
	return strings.Map(func(c rune) rune {
		first := !unicode.IsLetter(before)
		before = c
		if first {
			return unicode.ToTitle(c)
		}
		return unicode.ToLower(c)
	}, s)
}

func isUpper(s string) bool { return s == strings.ToUpper(s) && s != strings.ToLower(s) }
func isLower(s string) bool { return s == strings.ToLower(s) && s != strings.ToUpper(s) }

// strip takes white space, or other characters, from the ends of a text.
func strip(left, right bool) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		is := isSpace
		if !a[0].IsUndefined() && !a[0].IsNone() {
			chars, err := r.stringOf(a[0], "the argument of strip")
			if err != nil {
				return v, err
			}
			is = func(c rune) bool { return strings.ContainsRune(chars, c) }
		}
		s := v.AsString()
		if left {
			s = strings.TrimLeftFunc(s, is)
		}
		if right {
			s = strings.TrimRightFunc(s, is)
		}
		return r.text(s)
	}
}

// strings is a list of texts.
func (r *render) strings(all []string) (jinja.Value, error) {
	out := make([]jinja.Value, len(all))
	for i, s := range all {
		out[i] = jinja.NewString(s)
	}
	return r.list(out)
}

// separation has the arguments of split. A separator "" stands for white space, a limit below 0 for none.
func (r *render) separation(v jinja.Value, a []jinja.Value) (separator string, limit int, err error) {
	limit = -1
	if !a[0].IsUndefined() && !a[0].IsNone() {
		if separator, err = r.stringOf(a[0], "the separator"); err == nil && separator == "" {
			err = errors.New("the separator is empty")
		}
	}
	if err == nil && !a[1].IsUndefined() {
		limit, err = r.intOf(a[1], "maxsplit")
	}
	if err == nil {
		err = r.spend(len(v.AsString()))
	}
	return separator, limit, err
}

func split(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	separator, limit, err := r.separation(v, a)
	if err != nil {
		return v, err
	}
	rest := v.AsString()
	if separator != "" && limit < 0 {
		return r.strings(strings.Split(rest, separator))
	}
	if separator != "" {
		return r.strings(strings.SplitN(rest, separator, limit+1))
	}
	var out []string
	for rest = strings.TrimLeftFunc(rest, isSpace); rest != "" && limit != len(out); {
		end := strings.IndexFunc(rest, isSpace)
		if end < 0 {
			end = len(rest)
		}
		out, rest = append(out, rest[:end]), strings.TrimLeftFunc(rest[end:], isSpace)
	}
	if rest != "" {
		out = append(out, rest)
	}
	return r.strings(out)
}

// splitRight is rsplit, which splits at the last separators.
func splitRight(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	separator, limit, err := r.separation(v, a)
	if err != nil {
		return v, err
	}
	rest := v.AsString()
	var out []string
	for limit != len(out) {
		at, size := strings.LastIndex(rest, separator), len(separator)
		if separator == "" {
			rest = strings.TrimRightFunc(rest, isSpace)
			at = strings.LastIndexFunc(rest, isSpace)
			_, size = utf8.DecodeRuneInString(rest[max(at, 0):])
		}
		if at < 0 {
			break
		}
		out, rest = append(out, rest[at+size:]), rest[:at]
	}
	if separator == "" {
		rest = strings.TrimRightFunc(rest, isSpace)
	}
	if separator != "" || rest != "" {
		out = append(out, rest)
	}
	slices.Reverse(out)
	return r.strings(out)
}

// lines are the lines of a text, without their ends unless keep is true.
func lines(s string, keep bool) (out []string) {
	for s != "" {
		end := strings.IndexFunc(s, func(c rune) bool { return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", c) })
		if end < 0 {
			return append(out, s)
		}
		_, n := utf8.DecodeRuneInString(s[end:])
		if strings.HasPrefix(s[end:], "\r\n") {
			n = 2
		}
		line := s[:end]
		if keep {
			line = s[:end+n]
		}
		out, s = append(out, line), s[end+n:]
	}
	return out
}

// partition is a text before a separator, the separator, and the text behind it.
func partition(find func(s, sub string) int, last bool) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		separator, err := r.stringOf(a[0], "the separator")
		if err != nil {
			return v, err
		}
		s := v.AsString()
		parts := []string{s, "", ""}
		if last {
			parts = []string{"", "", s}
		}
		if at := find(s, separator); at >= 0 {
			parts = []string{s[:at], separator, s[at+len(separator):]}
		}
		var out []jinja.Value
		for _, s := range parts {
			out = append(out, jinja.NewString(s))
		}
		return r.newTuple(out), r.spend(len(s))
	}
}

// affix reports whether a text begins or ends with one of the texts given.
func affix(has func(s, x string) bool) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		any := a[:1]
		if r.isTuple(a[0]) {
			any = a[0].AsList().Items
		}
		for _, x := range any {
			s, err := r.stringOf(x, "the argument")
			if err != nil || has(v.AsString(), s) {
				return jinja.NewBool(true), err
			}
		}
		return jinja.NewBool(false), nil
	}
}

// ofTwo makes a text of two texts.
func ofTwo(f func(s, x string) string) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		x, err := r.stringOf(a[0], "the argument")
		if err != nil {
			return v, err
		}
		return r.text(f(v.AsString(), x))
	}
}

// find is the place of a text in another one, in characters. If it is missing, that is -1 or an error.
func find(at func(s, sub string) int, must bool) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		sub, err := r.stringOf(a[0], "the argument")
		if err != nil {
			return v, err
		}
		i := at(v.AsString(), sub)
		if i < 0 && must {
			return v, errors.New("the text is not found")
		}
		if i > 0 {
			i = utf8.RuneCountInString(v.AsString()[:i])
		}
		return jinja.NewInt(int64(i)), nil
	}
}

// replace exchanges texts, all of them or the first ones.
func replace(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	s, err := r.str(v)
	if err != nil {
		return v, err
	}
	before, err := r.stringOf(a[0], "the old text")
	if err != nil {
		return v, err
	}
	after, err := r.stringOf(a[1], "the new text")
	if err != nil {
		return v, err
	}
	count := strings.Count(s, before)
	if !a[2].IsUndefined() && !a[2].IsNone() {
		most, err := r.intOf(a[2], "the count")
		if err != nil {
			return v, err
		}
		if most >= 0 {
			count = min(count, most)
		}
	}
	if grown := int64(count) * int64(len(after)); grown > mostWork {
		return v, r.spend(-1)
	} else if err := r.spend(len(s) + int(grown)); err != nil {
		return v, err
	}
	return jinja.NewString(strings.Replace(s, before, after, count)), nil
}

// justified fills a text up to a width, in parts on both sides.
func justified(left, right int) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		width, err := r.intOf(a[0], "the width")
		if err != nil {
			return v, err
		}
		fill := " "
		if !a[1].IsUndefined() {
			if fill, err = r.stringOf(a[1], "the fill"); err == nil && utf8.RuneCountInString(fill) != 1 {
				err = errors.New("the fill is not one character")
			}
		}
		if err == nil {
			err = r.spend(max(0, width*len(fill)))
		}
		more := max(0, width-utf8.RuneCountInString(v.AsString()))
		if err != nil || more == 0 {
			return v, err
		}
		before := more * left / (left + right)
		if left == right { // Python puts the odd one in front of a text of an odd width
			before += more & width & 1
		}
		return r.text(strings.Repeat(fill, before) + v.AsString() + strings.Repeat(fill, more-before))
	}
}

// zeros fills a number up to a width.
func zeros(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	width, err := r.intOf(a[0], "the width")
	if err == nil {
		err = r.spend(max(0, width))
	}
	if err != nil {
		return v, err
	}
	sign, s := "", v.AsString()
	if s != "" && strings.IndexByte("+-", s[0]) >= 0 {
		sign, s = s[:1], s[1:]
	}
	return r.text(sign + strings.Repeat("0", max(0, width-len(sign)-utf8.RuneCountInString(s))) + s)
}
