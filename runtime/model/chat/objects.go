package chat

import (
	"fmt"
	"math"
	"time"

	"github.com/ardanlabs/jinja"
)

// loop is the object loop of a loop over items.
type loop struct {
	items []jinja.Value
	at    int
	seen  jinja.Value // by changed
}

func (l *loop) attribute(r *render, name string) (jinja.Value, bool) {
	n := len(l.items)
	numbers := map[string]int{
		"index": l.at + 1, "index0": l.at, "revindex": n - l.at, "revindex0": n - l.at - 1, "length": n, "depth": 1, "depth0": 0,
	}
	if x, ok := numbers[name]; ok {
		return jinja.NewInt(int64(x)), true
	}
	switch name {
	case "first":
		return jinja.NewBool(l.at == 0), true
	case "last":
		return jinja.NewBool(l.at == n-1), true
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1], true
		}
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1], true
		}
	case "cycle":
		return jinja.NewCallable(name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if len(args) == 0 {
				return jinja.None(), fmt.Errorf("loop.cycle wants values")
			}
			return args[l.at%len(args)], nil
		}), true
	case "changed":
		return jinja.NewCallable(name, func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			now := r.newTuple(args)
			same, err := r.equal(l.seen, now, 0)
			l.seen = now
			return jinja.NewBool(!same), err
		}), true
	}
	return jinja.Undefined(), false
}

// namespace has the attributes that a template sets.
type namespace map[string]jinja.Value

func (x namespace) attribute(_ *render, name string) (jinja.Value, bool) {
	v, ok := x[name]
	return v, ok
}

// cycler gives its values in turn.
type cycler struct {
	items []jinja.Value
	at    int
}

func (c *cycler) attribute(_ *render, name string) (jinja.Value, bool) {
	switch name {
	case "current":
		return c.items[c.at], true
	case "next":
		return jinja.NewCallable(name, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v, nil
		}), true
	case "reset":
		return jinja.NewCallable(name, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
			c.at = 0
			return jinja.None(), nil
		}), true
	}
	return jinja.Undefined(), false
}

// newGlobals are the functions that every template has.
func newGlobals() map[string]function {
	return map[string]function{
		"namespace":       makeNamespace,
		"dict":            makeMapping,
		"range":           makeRange,
		"cycler":          makeCycler,
		"joiner":          makeJoiner,
		"raise_exception": raise,
		"strftime_now":    formatNow,
	}
}

func makeNamespace(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	v, err := makeMapping(r, n, args)
	x := namespace{}
	if err == nil {
		for key, v := range v.AsDict().Data {
			x[key] = v
		}
	}
	return r.newObject(x), err
}

// makeMapping is dict(a=1), also with a mapping as the first argument.
func makeMapping(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	v := jinja.NewDict()
	positional := args[:len(args)-len(n.names)]
	if len(positional) > 1 || len(positional) == 1 && (!positional[0].IsDict() || r.objectOf(positional[0]) != nil) {
		return v, fmt.Errorf("%s takes one mapping, and names with values", n.operand)
	}
	for _, x := range positional {
		for _, key := range x.AsDict().Keys {
			v.AsDict().Set(key, x.AsDict().Data[key])
		}
	}
	for i, name := range n.names {
		v.AsDict().Set(name, args[len(positional)+i])
	}
	return v, r.spend(32 * v.AsDict().Len())
}

// makeRange is range(end), range(begin, end) or range(begin, end, step).
func makeRange(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	if len(n.names) > 0 || len(args) < 1 || len(args) > 3 {
		return jinja.None(), fmt.Errorf("range takes one to three numbers")
	}
	bounds := [3]int{0, 0, 1}
	for i, v := range args {
		x, err := r.intOf(v, "a bound of range")
		if err != nil {
			return v, err
		}
		if len(args) == 1 {
			i = 1
		}
		bounds[i] = x
	}
	from, to, step := int64(bounds[0]), int64(bounds[1]), int64(bounds[2])
	if step == 0 {
		return jinja.None(), fmt.Errorf("the step of range is 0")
	}
	count := max(0, int64(math.Ceil(float64(to-from)/float64(step))))
	if err := r.spend(int(min(16*count, mostWork+1))); err != nil {
		return jinja.None(), err
	}
	items := make([]jinja.Value, count)
	for i := range items {
		items[i] = jinja.NewInt(from + int64(i)*step)
	}
	return jinja.NewList(items), nil
}

func makeCycler(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.None(), fmt.Errorf("cycler wants values")
	}
	return r.newObject(&cycler{items: append([]jinja.Value(nil), args...)}), nil
}

// makeJoiner is a function that gives a separator, but nothing the first time.
func makeJoiner(_ *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	separator, first := jinja.NewString(", "), true
	if len(args) > 0 {
		separator = args[0]
	}
	return jinja.NewCallable("joiner", func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		if first {
			first = false
			return jinja.NewString(""), nil
		}
		return separator, nil
	}), nil
}

// raise ends the rendering with a message of the template.
func raise(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	if len(args) != 1 {
		return jinja.None(), fmt.Errorf("raise_exception wants a message")
	}
	text, err := r.str(args[0])
	if err == nil {
		err = fmt.Errorf("%s", text)
	}
	return jinja.None(), err
}

func formatNow(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	if len(args) != 1 || !args[0].IsString() {
		return jinja.None(), fmt.Errorf("strftime_now wants a format")
	}
	w := &writer{r: r}
	w.time(args[0].AsString(), r.options.Now())
	return w.value()
}

// clock has Go's layouts of the letters of strftime.
var clock = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday",
	'a': "Mon", 'p': "PM", 'I': "03", 'y': "06", 'j': "002", 'e': "_2", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02",
	'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

// shortClock has those without zeros in front, with a minus.
var shortClock = map[byte]string{'m': "1", 'd': "2", 'M': "4", 'S': "5", 'I': "3"}

// time writes a time as C's strftime does.
func (w *writer) time(format string, now time.Time) {
	for i := 0; i < len(format) && w.err == nil; i++ {
		if format[i] != '%' || i+1 == len(format) {
			w.put(format[i : i+1])
			continue
		}
		i++
		layouts, letter := clock, format[i]
		if letter == '-' && i+1 < len(format) {
			i++
			layouts, letter = shortClock, format[i]
		}
		layout, ok := layouts[letter]
		switch {
		case letter == '%':
			w.put("%")
		case letter == 'f':
			w.put(fmt.Sprintf("%06d", now.Nanosecond()/1000))
		case letter == 'n' || letter == 't':
			w.put(map[byte]string{'n': "\n", 't': "\t"}[letter])
		case !ok:
			w.err = fmt.Errorf("strftime_now does not support %%%c", letter)
		default:
			w.put(now.Format(layout))
		}
	}
}
