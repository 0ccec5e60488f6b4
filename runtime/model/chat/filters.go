package chat

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// filters are the filters by name.
var filters = functions(map[string]operation{
	"abs":        {"", absolute},
	"batch":      {"linecount fill_with", batch},
	"capitalize": {"", ofStr(capitalized)},
	"center":     {"width", centered},
	"count":      {"", lengthOf},
	"d":          {"default_value boolean", defaulted},
	"default":    {"default_value boolean", defaulted},
	"dictsort":   {"case_sensitive by reverse", dictSort},
	"e":          {"", ofStr(escaped)},
	"escape":     {"", ofStr(escaped)},
	"first":      {"", end(false)},
	"float":      {"default", toFloat},
	"groupby":    {"attribute default case_sensitive", groupBy},
	"indent":     {"width first blank", indent},
	"int":        {"default base", toInt},
	"items":      {"", itemsOf},
	"join":       {"d attribute", join},
	"last":       {"", end(true)},
	"length":     {"", lengthOf},
	"list":       {"", listOf},
	"lower":      {"", ofStr(lower)},
	"max":        {"case_sensitive attribute", extreme(1)},
	"min":        {"case_sensitive attribute", extreme(-1)},
	"replace":    {"old new count", replace},
	"reverse":    {"", reversed},
	"round":      {"precision method", rounded},
	"safe":       {"", ofStr(func(s string) string { return s })},
	"sort":       {"reverse case_sensitive attribute", sorted},
	"string":     {"", ofStr(func(s string) string { return s })},
	"sum":        {"attribute start", sum},
	"title":      {"", ofStr(titled)},
	"tojson":     {"ensure_ascii indent separators sort_keys", toJSON},
	"trim": {"chars", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		s, err := r.str(v)
		if err != nil {
			return v, err
		}
		return strip(true, true)(r, jinja.NewString(s), a)
	}},
	"unique":    {"case_sensitive attribute", unique},
	"upper":     {"", ofStr(upper)},
	"wordcount": {"", wordCount},
	"format": {"...", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		s, err := r.str(v)
		if err != nil {
			return v, err
		}
		return r.percent(s, a)
	}},
})

// itemFilters are the filters that look others up, or tests.
var itemFilters = map[string]function{
	"map":        mapped,
	"select":     chosenBy(false, true),
	"reject":     chosenBy(false, false),
	"selectattr": chosenBy(true, true),
	"rejectattr": chosenBy(true, false),
}

// ofStr makes a text of a value's text.
func ofStr(f func(s string) string) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
		s, err := r.str(v)
		if err != nil {
			return v, err
		}
		return r.text(f(s))
	}
}

func absolute(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	x, ok := numberOf(v)
	switch {
	case !ok:
		return v, fmt.Errorf("%s has no absolute value", r.typeName(v))
	case !x.isInt:
		return jinja.NewFloat(math.Abs(x.f)), nil
	case x.i == math.MinInt64:
		return v, errLarge
	}
	return jinja.NewInt(max(x.i, -x.i)), nil
}

// batch makes lists of a number of items each.
func batch(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	n, err := r.intOf(a[0], "linecount")
	if err == nil && n < 1 {
		err = fmt.Errorf("linecount is %d", n)
	}
	if err == nil {
		err = r.spend(32*len(items) + n)
	}
	if err != nil {
		return v, err
	}
	var out []jinja.Value
	for part := range slices.Chunk(items, n) {
		part = slices.Clone(part)
		for len(part) < n && !a[1].IsUndefined() && !a[1].IsNone() {
			part = append(part, a[1])
		}
		out = append(out, jinja.NewList(part))
	}
	return r.list(out)
}

func centered(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	s, err := r.str(v)
	if err != nil {
		return v, err
	}
	if a[0].IsUndefined() {
		a[0] = jinja.NewInt(80)
	}
	return justified(1, 1)(r, jinja.NewString(s), []jinja.Value{a[0], jinja.Undefined()})
}

func lengthOf(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	n, err := r.length(v)
	return jinja.NewInt(int64(n)), err
}

func defaulted(_ *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	switch {
	case !v.IsUndefined() && (v.IsTruthy() || !a[1].IsTruthy()):
		return v, nil
	case a[0].IsUndefined():
		return jinja.NewString(""), nil
	}
	return a[0], nil
}

// sortedKeys are the keys of a mapping in the order of their characters.
func sortedKeys(d *jinja.Dict) []string { return slices.Sorted(slices.Values(d.Keys)) }

// dictSort is the pairs of a mapping, by key or by value.
func dictSort(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	if !v.IsDict() || r.objectOf(v) != nil {
		return v, fmt.Errorf("%s has no keys", r.typeName(v))
	}
	by := 0
	switch {
	case a[1].IsUndefined() || a[1].IsString() && a[1].AsString() == "key":
	case a[1].IsString() && a[1].AsString() == "value":
		by = 1
	default:
		return v, errors.New(`by is neither "key" nor "value"`)
	}
	list, err := pairs(r, v, nil)
	if err != nil {
		return v, err
	}
	keyOf := func(pair jinja.Value) (jinja.Value, error) { return folded(pair.AsList().Items[by], a[0]), nil }
	return r.sortedBy(list.AsList().Items, keyOf, a[2].IsTruthy())
}

// folded is a key for sorting: a string in small letters, unless capitals count.
func folded(v, sensitive jinja.Value) jinja.Value {
	if v.IsString() && !sensitive.IsTruthy() {
		return jinja.NewString(lower(v.AsString()))
	}
	return v
}

// sortedBy is a list of items in the order of their keys.
func (r *render) sortedBy(items []jinja.Value, keyOf func(jinja.Value) (jinja.Value, error), reverse bool) (jinja.Value, error) {
	type keyed struct{ key, v jinja.Value }
	all := make([]keyed, len(items))
	var failed error
	for i, v := range items {
		key, err := keyOf(v)
		if err != nil {
			return v, err
		}
		all[i] = keyed{key, v}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		c, err := r.order(a.key, b.key, 0)
		if failed == nil {
			failed = err
		}
		if reverse {
			return -c
		}
		return c
	})
	out := make([]jinja.Value, len(all))
	for i := range all {
		out[i] = all[i].v
	}
	if failed != nil {
		return jinja.None(), failed
	}
	return r.list(out)
}

// attributeOf gives the attribute of an item that a path such as "function.name" names, or the item itself if v is undefined.
func (r *render) attributeOf(v jinja.Value) func(item jinja.Value) (jinja.Value, error) {
	return func(x jinja.Value) (jinja.Value, error) {
		if v.IsUndefined() || v.IsNone() {
			return x, nil
		}
		keys := []jinja.Value{v}
		if v.IsString() {
			keys = nil
			for name := range strings.SplitSeq(v.AsString(), ".") {
				key := jinja.NewString(name)
				if n, err := strconv.ParseInt(name, 10, 64); err == nil {
					key = jinja.NewInt(n)
				}
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			var err error
			if x, err = item(r, &node{operand: "the item"}, []jinja.Value{x, key}); err != nil {
				return x, err
			}
		}
		return x, r.spend(0)
	}
}

// end is the first or the last item.
func end(last bool) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
		items, err := r.items(v)
		i := int64(0)
		if last {
			i = -1
		}
		return at(items, i), err
	}
}

// toFloat is Python's float, or the default value.
func toFloat(_ *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	if x, ok := numberOf(v); ok {
		return jinja.NewFloat(x.f), nil
	}
	if v.IsString() {
		if f, err := strconv.ParseFloat(strings.TrimFunc(v.AsString(), isSpace), 64); err == nil {
			return jinja.NewFloat(f), nil
		}
	}
	if a[0].IsUndefined() {
		return jinja.NewFloat(0), nil
	}
	return a[0], nil
}

// toInt is Python's int, or the default value. Fractions are cut off.
func toInt(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	base := 10
	if !a[1].IsUndefined() {
		var err error
		if base, err = r.intOf(a[1], "base"); err != nil || base < 2 || base > 36 {
			return v, fmt.Errorf("base is not supported")
		}
	}
	f := math.NaN()
	if x, ok := numberOf(v); ok {
		if x.isInt {
			return jinja.NewInt(x.i), nil
		}
		f = x.f
	}
	if v.IsString() {
		s := strings.TrimFunc(v.AsString(), isSpace)
		if prefix, ok := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]; ok && strings.HasPrefix(strings.ToLower(s), prefix) {
			s = s[len(prefix):]
		}
		n, err := strconv.ParseInt(s, base, 64)
		switch {
		case err == nil:
			return jinja.NewInt(n), nil
		case errors.Is(err, strconv.ErrRange):
			return v, errLarge
		}
		if x, err := strconv.ParseFloat(s, 64); err == nil {
			f = x
		}
	}
	switch {
	case math.Abs(f) < 1<<63:
		return jinja.NewInt(int64(f)), nil
	case math.Abs(f) <= math.MaxFloat64:
		return v, errLarge
	case a[0].IsUndefined():
		return jinja.NewInt(0), nil
	}
	return a[0], nil
}

// groupBy is pairs of an attribute and the items that have it.
func groupBy(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	attribute := r.attributeOf(a[0])
	keyOf := func(x jinja.Value) (jinja.Value, error) {
		key, err := attribute(x)
		if key.IsUndefined() {
			key = a[1]
		}
		return folded(key, a[2]), err
	}
	list, err := r.sortedBy(items, keyOf, false)
	if err != nil {
		return v, err
	}
	var groups []jinja.Value
	var last jinja.Value
	for _, x := range list.AsList().Items {
		key, _ := keyOf(x) // it had one before
		same, err := r.equal(key, last, 0)
		if err != nil {
			return v, err
		}
		if !same || len(groups) == 0 {
			name, _ := attribute(x)
			if name.IsUndefined() {
				name = a[1]
			}
			groups = append(groups, r.newTuple([]jinja.Value{name, jinja.NewList(nil)}))
		}
		groups[len(groups)-1].AsList().Items[1].AsList().Append(x)
		last = key
	}
	return r.list(groups)
}

// indent puts spaces before lines, but not before the first one or before empty ones unless asked.
func indent(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	if v.IsUndefined() {
		return v, errors.New("the text is undefined")
	}
	s, err := r.str(v)
	if err != nil {
		return v, err
	}
	before := "    "
	switch {
	case a[0].IsString():
		before = a[0].AsString()
	case !a[0].IsUndefined():
		width, err := r.intOf(a[0], "width")
		if err == nil {
			err = r.spend(max(width, 0))
		}
		if err != nil {
			return v, err
		}
		before = strings.Repeat(" ", max(width, 0))
	}
	w := &writer{r: r}
	for i, line := range lines(s+"\n", false) {
		if i > 0 {
			w.put("\n")
		}
		if i == 0 && a[1].IsTruthy() || i > 0 && (line != "" || a[2].IsTruthy()) {
			w.put(before)
		}
		w.put(line)
	}
	return w.value()
}

func itemsOf(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	switch {
	case v.IsUndefined():
		return jinja.NewList(nil), nil
	case !v.IsDict() || r.objectOf(v) != nil:
		return v, errors.New("Can only get item pairs from a mapping.") //nolint: templates look for jinja2's words
	}
	return pairs(r, v, nil)
}

func join(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	separator, err := r.str(a[0])
	if err != nil {
		return v, err
	}
	if !a[1].IsUndefined() {
		items, err := r.items(v)
		if err != nil {
			return v, err
		}
		var out []jinja.Value
		for _, x := range items {
			if x, err = r.attributeOf(a[1])(x); err != nil {
				return v, err
			}
			out = append(out, x)
		}
		v = jinja.NewList(out)
	}
	return r.joined(v, separator, false)
}

// joined is the texts of items with a separator between them. Python's method takes nothing but strings.
func (r *render) joined(v jinja.Value, separator string, onlyStrings bool) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	w := &writer{r: r}
	for i, x := range items {
		if onlyStrings && !x.IsString() {
			return v, fmt.Errorf("an item of join is %s, want a string", r.typeName(x))
		}
		s, err := r.str(x)
		if err != nil {
			return v, err
		}
		if i > 0 {
			w.put(separator)
		}
		w.put(s)
	}
	return w.value()
}

func listOf(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	return r.list(slices.Clone(items))
}

// extreme is the largest item, or the smallest.
func extreme(sign int) func(*render, jinja.Value, []jinja.Value) (jinja.Value, error) {
	return func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
		items, err := r.items(v)
		if err != nil || len(items) == 0 {
			return jinja.Undefined(), err
		}
		best, bestKey := items[0], jinja.Undefined()
		for i, x := range items {
			key, err := r.attributeOf(a[1])(x)
			if err != nil {
				return v, err
			}
			key = folded(key, a[0])
			c := 1
			if i > 0 {
				if c, err = r.order(key, bestKey, 0); err != nil {
					return v, err
				}
				c *= sign
			}
			if c > 0 {
				best, bestKey = x, key
			}
		}
		return best, nil
	}
}

func reversed(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	if v.IsString() {
		return r.joined(jinja.NewList(items), "", true)
	}
	return r.list(items)
}

// rounded is a number with some digits behind the point; half goes to the even digit.
func rounded(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	x, ok := numberOf(v)
	if !ok {
		return v, fmt.Errorf("%s cannot be rounded", r.typeName(v))
	}
	digits := 0
	if !a[0].IsUndefined() {
		var err error
		if digits, err = r.intOf(a[0], "precision"); err != nil || digits < 0 || digits > 300 {
			return v, errors.New("the precision is not supported")
		}
	}
	method, _ := r.str(a[1])
	scale := math.Pow10(digits)
	switch {
	case method == "ceil":
		return jinja.NewFloat(math.Ceil(x.f*scale) / scale), nil
	case method == "floor":
		return jinja.NewFloat(math.Floor(x.f*scale) / scale), nil
	case method != "" && method != "common":
		return v, errors.New("the method is not common, ceil or floor")
	case x.isInt:
		return v, nil
	}
	f, err := strconv.ParseFloat(strconv.FormatFloat(x.f, 'f', digits, 64), 64)
	return jinja.NewFloat(f), err
}

func sorted(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	attribute := r.attributeOf(a[2])
	return r.sortedBy(items, func(x jinja.Value) (jinja.Value, error) {
		key, err := attribute(x)
		return folded(key, a[1]), err
	}, a[0].IsTruthy())
}

func sum(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	total := a[1]
	if total.IsUndefined() {
		total = jinja.NewInt(0)
	}
	for _, x := range items {
		if x, err = r.attributeOf(a[0])(x); err == nil {
			total, err = arithmetic(r, nil, []jinja.Value{jinja.NewString("+"), total, x})
		}
		if err != nil {
			return v, err
		}
	}
	return total, nil
}

// titled begins each word with a capital. Words end at white space, hyphens and opening brackets.
func titled(s string) string {
	first := true
	return strings.Map(func(c rune) rune {
		begins := first
		first = isSpace(c) || strings.ContainsRune("-({[<", c)
		if begins {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	}, s)
}

// toJSON is transformers' tojson: Python's json.dumps, where other characters than ASCII stay as they are.
func toJSON(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	form := &jsonForm{between: ", ", colon: ": ", ascii: a[0].IsTruthy(), sorted: a[3].IsTruthy()}
	switch {
	case a[1].IsString():
		form.lines, form.indent = true, a[1].AsString()
	case !a[1].IsUndefined() && !a[1].IsNone():
		n, err := r.intOf(a[1], "indent")
		if err == nil && n > mostNesting {
			err = fmt.Errorf("indent is %d, at most %d is supported", n, mostNesting)
		}
		if err != nil {
			return v, err
		}
		form.lines, form.indent = true, strings.Repeat(" ", max(n, 0))
	}
	if form.lines {
		form.between = ","
	}
	if !a[2].IsUndefined() && !a[2].IsNone() {
		items, err := r.items(a[2])
		if err != nil || len(items) != 2 || !items[0].IsString() || !items[1].IsString() {
			return v, errors.New("separators are not two strings")
		}
		form.between, form.colon = items[0].AsString(), items[1].AsString()
	}
	w := &writer{r: r}
	w.json(v, form, 0)
	return w.value()
}

// unique has the first of equal items.
func unique(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	var out, seen []jinja.Value
	for _, x := range items {
		key, err := r.attributeOf(a[1])(x)
		if err != nil {
			return v, err
		}
		key = folded(key, a[0])
		known, err := r.contains(jinja.NewList(seen), key)
		if err != nil {
			return v, err
		}
		if !known {
			out, seen = append(out, x), append(seen, key)
		}
	}
	return r.list(out)
}

// wordCount counts runs of letters, digits and underscores.
func wordCount(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
	s, err := r.str(v)
	words := strings.FieldsFunc(s, func(c rune) bool { return !isLetter(c) && !unicode.IsNumber(c) })
	return jinja.NewInt(int64(len(words))), err
}

// mapped has an attribute of each item, or what a filter makes of it.
func mapped(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	items, err := r.items(args[0])
	if err != nil {
		return args[0], err
	}
	positional := args[1 : len(args)-len(n.names)]
	each := func(x jinja.Value) (jinja.Value, error) { return x, errors.New("map wants a filter or an attribute") }
	if len(positional) > 0 {
		name, err := r.stringOf(positional[0], "the filter")
		f := r.filterTable[name]
		if err != nil || f == nil {
			return args[0], fmt.Errorf("the filter %s is not supported", name)
		}
		each = func(x jinja.Value) (jinja.Value, error) { return f(r, n, append([]jinja.Value{x}, args[2:]...)) }
	} else if i := slices.Index(n.names, "attribute"); i >= 0 {
		attribute, otherwise := r.attributeOf(args[1+i]), jinja.Undefined()
		if i := slices.Index(n.names, "default"); i >= 0 {
			otherwise = args[1+i]
		}
		each = func(x jinja.Value) (jinja.Value, error) {
			v, err := attribute(x)
			if v.IsUndefined() {
				v = otherwise
			}
			return v, err
		}
	}
	out := make([]jinja.Value, len(items))
	for i, x := range items {
		if out[i], err = each(x); err != nil {
			return args[0], err
		}
	}
	return r.list(out)
}

// chosenBy has the items for which a test holds, or does not. With byAttribute the first argument names the tested value. Without a
// test, truth is.
func chosenBy(byAttribute, want bool) function {
	return func(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
		items, err := r.items(args[0])
		if err != nil {
			return args[0], err
		}
		attribute, rest := r.attributeOf(jinja.Undefined()), args[1:]
		if byAttribute {
			if len(rest) == 0 {
				return args[0], errors.New("an attribute is missing")
			}
			attribute, rest = r.attributeOf(rest[0]), rest[1:]
		}
		test := func(_ *render, _ *node, x []jinja.Value) (jinja.Value, error) { return x[0], nil }
		if len(rest) > 0 {
			name, err := r.stringOf(rest[0], "the test")
			if test = r.testTable[name]; err != nil || test == nil {
				return args[0], fmt.Errorf("the test %s is not supported", name)
			}
			rest = rest[1:]
		}
		var out []jinja.Value
		for _, x := range items {
			v, err := attribute(x)
			if err == nil {
				v, err = test(r, n, append([]jinja.Value{v}, rest...))
			}
			if err != nil {
				return args[0], err
			}
			if v.IsTruthy() == want {
				out = append(out, x)
			}
		}
		return r.list(out)
	}
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escaped(s string) string { return htmlEscapes.Replace(s) }
