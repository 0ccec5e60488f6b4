package chat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/ardanlabs/jinja"
)

// function does the operation of a node. Its arguments are the operands.
type function func(r *render, n *node, args []jinja.Value) (jinja.Value, error)

// tables have the filters and tests by name. They are made for each template, because some of them look others up.
type tables struct{ filterTable, testTable, globals map[string]function }

func newTables() tables {
	t := tables{maps.Clone(filters), tests, newGlobals()}
	maps.Copy(t.filterTable, itemFilters)
	return t
}

// The limits of one rendering.
const (
	mostOutput  = 16 << 20 // bytes of text
	mostWork    = 64 << 20 // about the bytes of all values that are made, besides workPerByte for each byte of the variables
	workPerByte = 64
	eachCall    = 32  // the work of an operation, besides the size of its result
	mostCalls   = 100 // macros within macros
)

// render is one rendering of a template.
type render struct {
	*Template
	ctx     context.Context
	work    int // that may still be done
	output  int // bytes that were printed
	calls   int // macros that run
	left    bool
	again   bool        // left by continue, not by break
	caller  jinja.Value // for the next call
	tuples  map[*jinja.List]bool
	objects map[*jinja.Dict]object
}

// object is a value with attributes of its own.
type object interface {
	attribute(r *render, name string) (jinja.Value, bool)
}

// newObject is the value of an object.
func (r *render) newObject(x object) jinja.Value {
	v := jinja.NewDict()
	r.objects[v.AsDict()] = x
	return v
}

func (r *render) objectOf(v jinja.Value) object {
	if !v.IsDict() {
		return nil
	}
	return r.objects[v.AsDict()]
}

func (r *render) newTuple(items []jinja.Value) jinja.Value {
	v := jinja.NewList(items)
	r.tuples[v.AsList()] = true
	return v
}

func (r *render) isTuple(v jinja.Value) bool { return v.IsList() && r.tuples[v.AsList()] }

// data are the variables for the library.
func (r *render) data(values map[string]jinja.Value) map[string]jinja.Value {
	data := map[string]jinja.Value{
		"_":       jinja.NewCallable("_", r.operate),
		"one":     jinja.NewList(make([]jinja.Value, 1)),
		"missing": jinja.NewCallable(missingName, nil),
	}
	for name, v := range r.constants {
		data[name] = v
	}
	for name, code := range r.variables {
		if v, ok := values[name]; ok {
			data[code] = v
		} else if r.globals[name] != nil {
			data[code] = jinja.NewCallable(globalPrefix+name, nil)
		}
	}
	return data
}

// Names of callables, beside macros' and methods'.
const (
	missingName  = "#"
	globalPrefix = "#"
)

// operate does the operation of a node, the first argument.
func (r *render) operate(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	n := &r.nodes[args[0].AsInt()]
	r.caller = named["caller"]
	v, err := jinja.Undefined(), r.spend(len(args))
	if err == nil {
		v, err = n.f(r, n, args[1:])
	}
	if err != nil && !errors.As(err, new(*Error)) && !errors.Is(err, r.ctx.Err()) {
		err = &Error{lineOf(r.src, n.from), excerpt(around(r.src, n.from, n.to)), err.Error()}
	}
	return v, err
}

// spend counts work that makes n bytes or values.
func (r *render) spend(n int) error {
	before := r.work
	r.work -= n + eachCall
	if r.work < 0 || n < 0 {
		r.work = -1
		return errors.New("too much work: the template may never end")
	}
	if before>>13 != r.work>>13 && r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	return nil
}

// writer makes a text whose bytes are counted.
type writer struct {
	r   *render
	b   strings.Builder
	err error
}

func (w *writer) put(s string) {
	if w.err == nil {
		w.err = w.r.spend(len(s))
	}
	if w.err == nil {
		w.b.WriteString(s)
	}
}

// value is the text as a value.
func (w *writer) value() (jinja.Value, error) { return jinja.NewString(w.b.String()), w.err }

// text is a string as a value, whose bytes are counted.
func (r *render) text(s string) (jinja.Value, error) { return jinja.NewString(s), r.spend(len(s)) }

// list is a list as a value, whose items are counted.
func (r *render) list(items []jinja.Value) (jinja.Value, error) {
	return jinja.NewList(items), r.spend(16 * len(items))
}

// printed is {{ value }}.
func printed(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	s, err := r.str(args[0])
	if r.output += len(s); err == nil && r.output > mostOutput {
		err = fmt.Errorf("writes more than %d bytes", mostOutput)
	}
	return jinja.NewString(s), err
}

// iterated is a list of the values that a loop takes.
func iterated(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	items, err := r.items(args[0])
	if err != nil {
		return jinja.Undefined(), err
	}
	return jinja.NewList(items), nil
}

// collected adds a value to a list.
func collected(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	args[0].AsList().Append(args[1])
	return jinja.None(), nil
}

// unpacked is a list of exactly n values.
func unpacked(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	items, err := r.items(args[0])
	if n := int(args[1].AsInt()); err == nil && len(items) != n {
		err = fmt.Errorf("%d values for %d variables", len(items), n)
	}
	return jinja.NewList(items), err
}

// begun makes pairs of the object loop and a value.
func begun(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	items := args[0].AsList().Items
	if err := r.spend(64 * len(items)); err != nil {
		return jinja.Undefined(), err
	}
	loop := r.newObject(&loop{items: items, at: -1})
	pairs := make([]jinja.Value, len(items))
	for i, x := range items {
		pairs[i] = jinja.NewList([]jinja.Value{loop, x})
	}
	return jinja.NewList(pairs), nil
}

// turned moves the loop of a pair to its next value, and returns it.
func turned(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	v := args[0].AsList().Items[0]
	r.objectOf(v).(*loop).at++
	return v, nil
}

// left ends the turn of a loop by break or continue.
func left(r *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	r.left, r.again = true, !args[0].AsBool()
	return jinja.None(), nil
}

// leaving reports whether the turn of a loop is ending.
func leaving(r *render, _ *node, _ []jinja.Value) (jinja.Value, error) {
	return jinja.NewBool(r.left), nil
}

// broken reports whether a turn that has ended was the last one.
func broken(r *render, _ *node, _ []jinja.Value) (jinja.Value, error) {
	v := jinja.NewBool(r.left && !r.again)
	r.left, r.again = false, false
	return v, nil
}

// isMissing reports whether an argument of a macro was not given.
func isMissing(_ *render, _ *node, args []jinja.Value) (jinja.Value, error) {
	return jinja.NewBool(args[0].IsCallable() && args[0].AsCallable().Name == missingName), nil
}

// call calls its first argument.
func call(r *render, n *node, args []jinja.Value) (jinja.Value, error) {
	f, args := args[0], args[1:]
	switch {
	case f.IsUndefined():
		return f, undefinedError(n)
	case !f.IsCallable():
		return f, fmt.Errorf("%s is %s and cannot be called", n.operand, r.typeName(f))
	}
	c := f.AsCallable()
	if name, ok := strings.CutPrefix(c.Name, globalPrefix); ok {
		return r.globals[name](r, n, args)
	}
	positional := args[:len(args)-len(n.names)]
	named := map[string]jinja.Value{}
	for i, name := range n.names {
		named[name] = args[len(positional)+i]
	}
	if m, ok := r.macros[c.Name]; ok {
		return r.callMacro(c, m, positional, named)
	}
	if !r.caller.IsUndefined() {
		return f, errors.New("the tag call wants a macro")
	}
	return c.Fn(positional, named)
}

// callMacro calls a macro, by the library's names of its parameters.
func (r *render) callMacro(c *jinja.Callable, m macro, positional []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	if len(positional) > len(m.params) {
		return jinja.Undefined(), fmt.Errorf("the macro %s takes %d arguments, not %d", m.name, len(m.params), len(positional))
	}
	byCode := map[string]jinja.Value{}
	for i, name := range m.params {
		if v, ok := named[name]; ok && i >= len(positional) {
			byCode[r.variables[name]] = v
			delete(named, name)
		}
	}
	for name := range named {
		return jinja.Undefined(), fmt.Errorf("the macro %s takes no argument %s here", m.name, name)
	}
	if !r.caller.IsUndefined() {
		byCode["caller"] = r.caller
	}
	if r.calls++; r.calls > mostCalls {
		return jinja.Undefined(), fmt.Errorf("more than %d macros call one another", mostCalls)
	}
	defer func() { r.calls-- }()
	return c.Fn(positional, byCode)
}

func undefinedError(n *node) error { return fmt.Errorf("'%s' is undefined", n.operand) }
