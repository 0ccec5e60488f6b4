package chat

import (
	"errors"
	"fmt"
	"math"

	"github.com/ardanlabs/jinja"
)

// tests are the tests by name.
var tests = func() map[string]function {
	comparisons := map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
		"<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"}, "in": {"in"},
	}
	table := functions(map[string]operation{
		"defined":   is(func(_ *render, v jinja.Value) bool { return !v.IsUndefined() }),
		"undefined": is(func(_ *render, v jinja.Value) bool { return v.IsUndefined() }),
		"none":      is(func(_ *render, v jinja.Value) bool { return v.IsNone() }),
		"boolean":   is(func(_ *render, v jinja.Value) bool { return v.IsBool() }),
		"true":      is(func(_ *render, v jinja.Value) bool { return v.IsBool() && v.AsBool() }),
		"false":     is(func(_ *render, v jinja.Value) bool { return v.IsBool() && !v.AsBool() }),
		"integer":   is(func(_ *render, v jinja.Value) bool { return v.IsInt() }),
		"float":     is(func(_ *render, v jinja.Value) bool { return v.IsFloat() }),
		"number":    is(func(_ *render, v jinja.Value) bool { return v.IsNumber() || v.IsBool() }),
		"string":    is(func(_ *render, v jinja.Value) bool { return v.IsString() }),
		"callable":  is(func(_ *render, v jinja.Value) bool { return v.IsCallable() }),
		"mapping":   is(func(r *render, v jinja.Value) bool { return v.IsDict() && r.objectOf(v) == nil }),
		"iterable":  is(hasItems),
		"sequence":  is(hasItems),
		"upper":     isOfText(isUpper),
		"lower":     isOfText(isLower),
		"odd": {"", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
			return r.rest(v, jinja.NewInt(2), 1)
		}},
		"even": {"", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
			return r.rest(v, jinja.NewInt(2), 0)
		}},
		"divisibleby": {"num", func(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
			return r.rest(v, a[0], 0)
		}},
		"sameas": {"other", same},
	})
	for op, names := range comparisons {
		operator := jinja.NewString(op)
		for _, name := range names {
			table[name] = func(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
				if len(args) != 2 {
					return args[0], fmt.Errorf("the test %s wants a value", name)
				}
				return compare(r, n, []jinja.Value{operator, args[0], args[1]})
			}
		}
	}
	return table
}()

// is is a test without arguments.
func is(f func(r *render, v jinja.Value) bool) operation {
	return operation{"", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
		return jinja.NewBool(f(r, v)), nil
	}}
}

func isOfText(f func(s string) bool) operation {
	return operation{"", func(r *render, v jinja.Value, _ []jinja.Value) (jinja.Value, error) {
		s, err := r.str(v)
		return jinja.NewBool(f(s)), err
	}}
}

// hasItems reports whether a loop takes a value. An undefined one has no items.
func hasItems(r *render, v jinja.Value) bool {
	return v.IsString() || v.IsList() || v.IsUndefined() || v.IsDict() && r.objectOf(v) == nil
}

// rest reports whether a division leaves a certain rest.
func (r *render) rest(v, by jinja.Value, want float64) (jinja.Value, error) {
	x, isNumber := numberOf(v)
	y, areNumbers := numberOf(by)
	switch {
	case !isNumber || !areNumbers:
		return v, errors.New("the test wants numbers")
	case y.f == 0:
		return v, errors.New("division by zero")
	case x.isInt && y.isInt:
		rest, err := integers("%", x.i, y.i)
		return jinja.NewBool(float64(rest) == want), err
	}
	return jinja.NewBool(x.f-y.f*math.Floor(x.f/y.f) == want), nil
}

// same reports whether two values are one: the same list or mapping, or equal constants of one type.
func same(r *render, v jinja.Value, a []jinja.Value) (jinja.Value, error) {
	b := a[0]
	switch {
	case v.IsList() && b.IsList():
		return jinja.NewBool(v.AsList() == b.AsList()), nil
	case v.IsDict() && b.IsDict():
		return jinja.NewBool(v.AsDict() == b.AsDict()), nil
	case r.typeName(v) != r.typeName(b):
		return jinja.NewBool(false), nil
	}
	equal, err := r.equal(v, b, 0)
	return jinja.NewBool(equal), err
}
