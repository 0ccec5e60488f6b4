package chat

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/ardanlabs/jinja"
)

var errLarge = errors.New("the number does not fit in 64 bits")

// makeList is [a, b].
func makeList(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	return r.list(append([]jinja.Value(nil), args...))
}

// makeTuple is (a, b).
func makeTuple(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	return r.newTuple(append([]jinja.Value(nil), args...)), r.spend(16 * len(args))
}

// makeDict is {key: value, key: value}.
func makeDict(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	v := jinja.NewDict()
	for i := 0; i < len(args); i += 2 {
		if !args[i].IsString() {
			return v, fmt.Errorf("a key is %s; only strings are supported", r.typeName(args[i]))
		}
		v.AsDict().Set(args[i].AsString(), args[i+1])
	}
	return v, r.spend(32 * len(args))
}

// negate is -a.
func negate(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	x, ok := numberOf(args[0])
	switch {
	case !ok:
		return args[0], fmt.Errorf("%s has no negative", r.typeName(args[0]))
	case !x.isInt:
		return jinja.NewFloat(-x.f), nil
	case x.i == math.MinInt64:
		return args[0], errLarge
	}
	return jinja.NewInt(-x.i), nil
}

// compare is a == b and the other operators that compare; the operator is the first argument.
func compare(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	op, a, b := args[0].AsString(), args[1], args[2]
	switch op {
	case "==", "!=":
		same, err := r.equal(a, b, 0)
		return jinja.NewBool(same == (op == "==")), err
	case "in", "not in":
		found, err := r.contains(b, a)
		return jinja.NewBool(found == (op == "in")), err
	}
	c, err := r.order(a, b, 0)
	less := map[string]bool{"<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}
	return jinja.NewBool(less[op] && !isNaN(a) && !isNaN(b)), err
}

func isNaN(v jinja.Value) bool { return v.IsFloat() && math.IsNaN(v.AsFloat()) }

// contains reports whether a value is in a string, a list, or the keys of a mapping.
func (r *render) contains(in, v jinja.Value) (bool, error) {
	switch {
	case in.IsString():
		s, err := r.stringOf(v, "the operand")
		if err == nil {
			err = r.spend(len(in.AsString()) / 8)
		}
		return err == nil && strings.Contains(in.AsString(), s), err
	case in.IsDict() && r.objectOf(in) == nil:
		return v.IsString() && in.AsDict().Has(v.AsString()), nil
	}
	items, err := r.items(in)
	for _, x := range items {
		if same, failed := r.equal(x, v, 0); same || failed != nil {
			return same, failed
		}
	}
	return false, err
}

// arithmetic is a + b and the other operators that compute; the operator is the first argument.
func arithmetic(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	op, a, b := args[0].AsString(), args[1], args[2]
	if op == "~" {
		return r.concatenated(a, b)
	}
	if a.IsUndefined() || b.IsUndefined() {
		return a, fmt.Errorf("an operand of %s is undefined", op)
	}
	x, isNumber := numberOf(a)
	y, areNumbers := numberOf(b)
	switch {
	case isNumber && areNumbers && x.isInt && y.isInt && op != "/" && (op != "**" || y.i >= 0):
		i, err := integers(op, x.i, y.i)
		return jinja.NewInt(i), err
	case isNumber && areNumbers:
		f, err := floats(op, x.f, y.f)
		return jinja.NewFloat(f), err
	case op == "+" && a.IsString() && b.IsString():
		return r.concatenated(a, b)
	case op == "+" && a.IsList() && b.IsList() && r.isTuple(a) == r.isTuple(b):
		return r.like(a, append(append([]jinja.Value(nil), a.AsList().Items...), b.AsList().Items...))
	case op == "*" && areNumbers && y.isInt:
		return r.repeated(a, y.i)
	case op == "*" && isNumber && x.isInt:
		return r.repeated(b, x.i)
	case op == "%" && a.IsString():
		values := []jinja.Value{b}
		if r.isTuple(b) {
			values = b.AsList().Items
		}
		return r.percent(a.AsString(), values)
	}
	return a, fmt.Errorf("%s does not take %s and %s", op, r.typeName(a), r.typeName(b))
}

// concatenated is the texts of two values, one behind the other.
func (r *render) concatenated(a, b jinja.Value) (jinja.Value, error) {
	s, err := r.str(a)
	if err != nil {
		return a, err
	}
	t, err := r.str(b)
	return jinja.NewString(s + t), err
}

// like is a list or a tuple, as another one is.
func (r *render) like(v jinja.Value, items []jinja.Value) (jinja.Value, error) {
	if r.isTuple(v) {
		return r.newTuple(items), r.spend(16 * len(items))
	}
	return r.list(items)
}

// repeated is a string or a list n times.
func (r *render) repeated(v jinja.Value, n int64) (jinja.Value, error) {
	size := 0
	switch n = max(n, 0); {
	case v.IsString():
		size = len(v.AsString())
	case v.IsList():
		size = 16 * v.AsList().Len()
	default:
		return v, fmt.Errorf("* does not take %s and an int", r.typeName(v))
	}
	if size == 0 {
		n = 0
	}
	if n > mostWork {
		return v, r.spend(-1)
	}
	if err := r.spend(int(min(n*int64(size), mostWork+1))); err != nil {
		return v, err
	}
	if v.IsString() {
		return jinja.NewString(strings.Repeat(v.AsString(), int(n))), nil
	}
	var items []jinja.Value
	for range n {
		items = append(items, v.AsList().Items...)
	}
	return r.like(v, items)
}

// integers computes with whole numbers. Division and remainder round down.
func integers(op string, a, b int64) (int64, error) {
	if (op == "//" || op == "%") && b == 0 {
		return 0, errors.New("division by zero")
	}
	switch op {
	case "+":
		if c := a + b; (c > a) == (b > 0) {
			return c, nil
		}
	case "-":
		if c := a - b; (c < a) == (b > 0) {
			return c, nil
		}
	case "*":
		return product(a, b)
	case "//", "%":
		if b == -1 { // -2^63 // -1 does not fit
			return integers(map[string]string{"//": "-", "%": "+"}[op], 0, map[string]int64{"//": a, "%": 0}[op])
		}
		q, rest := a/b, a%b
		if rest != 0 && (rest < 0) != (b < 0) {
			q, rest = q-1, rest+b
		}
		if op == "//" {
			return q, nil
		}
		return rest, nil
	case "**":
		return power(a, b)
	}
	return 0, errLarge
}

// product is a * b.
func product(a, b int64) (int64, error) {
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	negative := (a < 0) != (b < 0)
	switch {
	case high == 0 && low <= math.MaxInt64 && negative:
		return -int64(low), nil
	case high == 0 && low <= math.MaxInt64:
		return int64(low), nil
	}
	return 0, errLarge
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// power is a to the power of b, which is not negative.
func power(a, b int64) (int64, error) {
	if a == 0 || a == 1 || a == -1 {
		b = min(b, 2-b%2) // the same, and soon done
	}
	out := int64(1)
	for range min(b, 64) {
		var err error
		if out, err = product(out, a); err != nil {
			return 0, err
		}
	}
	return out, nil
}

// floats computes with floats.
func floats(op string, a, b float64) (float64, error) {
	if b == 0 && (op == "/" || op == "//" || op == "%") || a == 0 && b < 0 && op == "**" {
		return 0, errors.New("division by zero")
	}
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/":
		return a / b, nil
	case "//":
		return math.Floor(a / b), nil
	case "%":
		return a - b*math.Floor(a/b), nil
	}
	return math.Pow(a, b), nil
}

// attribute is a.name. Methods come before the keys of a mapping.
func attribute(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	v, name := args[0], args[1].AsString()
	if x := r.objectOf(v); x != nil {
		out, _ := x.attribute(r, name)
		return out, nil
	}
	if v.IsUndefined() {
		return v, undefinedError(n)
	}
	if m := r.method(v, name); m != nil {
		return jinja.NewCallable(name, m), nil
	}
	if v.IsDict() {
		out, _ := v.AsDict().Get(name)
		return out, nil
	}
	return jinja.Undefined(), nil
}

// item is a[key]. An item that is missing is undefined.
func item(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	v, key := args[0], args[1]
	i, isNumber := numberOf(key)
	switch {
	case v.IsUndefined():
		return v, undefinedError(n)
	case v.IsDict() && key.IsString():
		if out, ok := v.AsDict().Get(key.AsString()); ok {
			return out, nil
		}
	case v.IsList() && isNumber && i.isInt:
		return at(v.AsList().Items, i.i), nil
	case v.IsString() && isNumber && i.isInt:
		items, err := r.items(v)
		return at(items, i.i), err
	}
	if key.IsString() {
		return attribute(r, n, args)
	}
	return jinja.Undefined(), nil
}

// at is an item of a list, from its end if i is negative.
func at(items []jinja.Value, i int64) jinja.Value {
	if i < 0 {
		i += int64(len(items))
	}
	if i < 0 || i >= int64(len(items)) {
		return jinja.Undefined()
	}
	return items[i]
}

// slice is a[from:to:step].
func slice(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	v := args[0]
	switch {
	case v.IsUndefined():
		return v, undefinedError(n)
	case !v.IsString() && !v.IsList():
		return v, fmt.Errorf("%s has no slices", r.typeName(v))
	}
	items, err := r.items(v)
	if err != nil {
		return v, err
	}
	indices, err := r.indices(args[1:], len(items))
	if err != nil {
		return v, err
	}
	out := make([]jinja.Value, len(indices))
	for i, at := range indices {
		out[i] = items[at]
	}
	if v.IsList() {
		return r.like(v, out)
	}
	w := &writer{r: r}
	for _, c := range out {
		w.b.WriteString(c.AsString())
	}
	return w.value()
}

// indices are the places of a slice of n items.
func (r *render) indices(bounds []jinja.Value, n int) ([]int, error) {
	var b [3]int
	for i, v := range bounds {
		if v.IsNone() {
			continue
		}
		x, err := r.intOf(v, "a bound of the slice")
		if err != nil {
			return nil, err
		}
		b[i] = x
	}
	step := b[2]
	if bounds[2].IsNone() {
		step = 1
	}
	if step == 0 {
		return nil, errors.New("the step of a slice is 0")
	}
	from, to, least, most := 0, n, 0, n
	if step < 0 {
		from, to, least, most = n-1, -1, -1, n-1
	}
	within := func(i int) int {
		if i < 0 {
			i += n
		}
		return min(max(i, least), most)
	}
	if !bounds[0].IsNone() {
		from = within(b[0])
	}
	if !bounds[1].IsNone() {
		to = within(b[1])
	}
	var out []int
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		out = append(out, i)
	}
	return out, r.spend(16 * len(out))
}

// setAttribute is {% set namespace.name = value %}.
func setAttribute(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	x, ok := r.objectOf(args[0]).(namespace)
	if !ok {
		return args[0], fmt.Errorf("%s takes no attributes, only a namespace does", r.typeName(args[0]))
	}
	x[args[1].AsString()] = args[2]
	return jinja.None(), nil
}
