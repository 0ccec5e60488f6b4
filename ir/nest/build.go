package nest

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Plan is one stage with everything a schedule decided about it. A stage with
// no reduction has no accumulators and stores Final at every point of Loops.
type Plan struct {
	Name         string
	Loops        []Loop          // outermost first
	Reduce       map[string]bool // stage axes that are summed over
	Body         ir.Expr         // what one point adds to the lowest accumulator
	Accumulators []Accumulator   // the one that ends in Final first
	Staged       []Staged
	Out          *ir.Tensor
	Index        []ir.Expr
	Final        ir.Expr // the stored value; reads the first accumulator's Temp by its plain name
}

// Accumulator is a sum, or a largest value, that a reduction keeps in registers. It is set to Init just before loop
// At starts and, when that loop has ended, Flush of it is added to the accumulator
// above (or Final stored). It is indexed by the loops of the output inside At
// and by what it keeps apart.
type Accumulator struct {
	Temp  *ir.Tensor
	Op    ir.Op
	At    string
	Init  ir.Expr // nil: zero
	Flush ir.Expr // in terms of Read{Temp}, and of the sum Beside it; absent on the first accumulator
	Keep  []Keep
	// InMemory says that Temp is no register but a buffer, indexed as the output is. Serial loops over the output may then be inside At.
	InMemory bool
	// Beside is a sum that lives as long as Temp: of Each, which is added whenever the accumulator
	// below is flushed. nil: none.
	Beside *Beside
}

// Beside is a sum beside an accumulator. If the loop Apart is named, what runs in it for this sum runs in a copy of
// its own, when the loop has ended. Over are then the loops of this copy, if they are none of the plan's.
type Beside struct {
	Temp  *ir.Tensor
	Each  ir.Expr
	Apart string
	Over  []Loop
}

// Keep is an index component that separates partial sums until the accumulator's
// flush: the loop Name itself, or, if Value is set, N classes of loop values.
type Keep struct {
	Name  string
	N     int
	Value ir.Expr
}

// Staged is a value computed once inside loop At ("": before every loop) and
// read by name below it.
type Staged struct {
	Temp  *ir.Tensor
	At    string
	Value ir.Expr
}

// Refused reports a plan that has no loop nest. Reason starts with a keyword.
type Refused struct{ What, Reason string }

func (e *Refused) Error() string { return e.What + ": " + e.Reason }

func refuse(what, reason string, args ...any) error {
	return &Refused{what, fmt.Sprintf(reason, args...)}
}

// builder turns one plan into statements.
type builder struct {
	p     *Plan
	pos   map[string]int
	index map[string][]ir.Expr // of staged temps, by name, filled when they are set
}

// Build makes the statements of p.
func Build(p *Plan) ([]Stmt, error) {
	b := &builder{p: p, pos: map[string]int{}, index: map[string][]ir.Expr{}}
	for i, l := range p.Loops {
		if _, twice := b.pos[l.Name]; twice {
			return nil, refuse(l.Name, "two loops have this name")
		}
		if by, around := b.pos[l.ListedBy]; l.ListedBy != "" && (!around || p.Loops[by].Kind != Unrolled || l.N != 0 || l.Kind != Serial) {
			return nil, refuse(l.Name, "a listed loop is counted at run time, inside the unrolled loop %s", l.ListedBy)
		}
		if by, around := b.pos[l.DealtTo]; l.DealtTo != "" && (!around || p.Loops[by].Kind != Part || l.N != 0 || l.Kind != Serial || l.ListedBy != "") {
			return nil, refuse(l.Name, "iterations that are dealt are counted at run time, inside the parts %s", l.DealtTo)
		}
		b.pos[l.Name] = i
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	var out []Stmt
	st, err := b.stage("", 0)
	if err != nil {
		return nil, err
	}
	body, err := b.walk(0)
	return append(append(out, st...), body...), err
}

// at is the position of accumulator i's loop.
func (b *builder) at(i int) int { return b.pos[b.p.Accumulators[i].At] }

// below is the position of the loop of the accumulator below i, behind all loops if there is none.
func (b *builder) below(i int) int {
	if i+1 == len(b.p.Accumulators) {
		return len(b.p.Loops)
	}
	return b.at(i + 1)
}

// check refuses plans whose accumulators would have to live in memory, or whose
// accumulators do not nest.
func (b *builder) check() error {
	p := b.p
	for i, acc := range p.Accumulators {
		at, ok := b.pos[acc.At]
		if !ok {
			return refuse(acc.Temp.Name, "no loop %q", acc.At)
		}
		if acc.InMemory && (i > 0 || len(p.Accumulators) == 1 || acc.Beside != nil) {
			return refuse(acc.Temp.Name, "only the last accumulator can be in memory, if it adds up others and has no sum beside it")
		}
		if i > 0 && at < b.at(i-1) {
			return refuse(acc.Temp.Name, "loop %s is outside loop %s of the accumulator above", acc.At, p.Accumulators[i-1].At)
		}
		if !p.Reduce[p.Loops[at].Root] {
			return refuse(acc.Temp.Name, "loop %s is not a reduction", acc.At)
		}
		if err := b.checkKeep(i); err != nil {
			return err
		}
		if s := acc.Beside; s != nil && s.Apart != "" {
			pos, ok := b.pos[s.Apart]
			if !ok || pos < at || pos >= b.below(i) && s.Over == nil || !p.Reduce[p.Loops[pos].Root] {
				return refuse(s.Temp.Name, "%s is no loop over what %s adds up: it cannot have a copy", s.Apart, acc.Temp.Name)
			}
		}
	}
	if len(p.Accumulators) == 0 {
		return b.checkPointwise()
	}
	for i := range p.Accumulators {
		if err := b.checkFlush(i); err != nil {
			return err
		}
	}
	if err := b.checkPairs(); err != nil {
		return err
	}
	held := b.at(0) // registers hold sums inside this loop
	if p.Accumulators[0].InMemory {
		held = b.below(0)
	}
	for i, l := range p.Loops {
		if p.Reduce[l.Root] && i < b.at(0) {
			return refuse(l.Name, "this reduction loop is outside the accumulator %s", p.Accumulators[0].Temp.Name)
		}
		if p.Reduce[l.Root] && l.Kind.Outside() {
			return refuse(l.Name, "a reduction cannot be split over calls")
		}
		if l.Kind == Lane && !p.Reduce[l.Root] && i > b.at(0) {
			return refuse(l.Name, "lanes have accumulators of their own: move it outside %s", p.Loops[b.at(0)].Name)
		}
		if l.Kind == Part && i != b.at(0) {
			return refuse(l.Name, "parts of a sum are around all that is summed: at the loop %s", p.Loops[b.at(0)].Name)
		}
		if l.Kind == Part && (p.Accumulators[0].InMemory || len(p.Accumulators) == 1 || p.Accumulators[1].Temp.Elem != format.I32) {
			return refuse(l.Name, "parts are of sums of integers, and then of one result")
		}
		if l.Kind == Part && b.at(1) != i {
			if err := b.checkOrdered(i); err != nil {
				return err
			}
		}
		if l.Kind == Part && slices.ContainsFunc(p.Loops[:i], func(o Loop) bool { return !o.Kind.Outside() && o.Kind != Lane }) {
			return refuse(l.Name, "parts of a sum are inside the loops of workgroups and lanes only")
		}
		if l.Kind == Lane && p.Accumulators[0].InMemory {
			return refuse(l.Name, "lanes have sums in registers only")
		}
		if l.Kind == Group && p.Accumulators[0].InMemory {
			return refuse(l.Name, "workgroups have sums in registers only: they run at once, and a call has one memory for sums")
		}
		if !p.Reduce[l.Root] && l.Kind == Serial && i > held {
			return refuse(l.Name, "accumulators cannot be indexed by a serial loop; unroll it or move it outside %s", p.Loops[held].Name)
		}
	}
	return b.checkVectors()
}

// checkOrdered: the parts, at loop part, of a sum of floats are added in the order of iterations that are dealt, and of lanes in these. So
// each of them adds one.
func (b *builder) checkOrdered(part int) error {
	dealt := false
	for _, l := range b.p.Loops[part+1 : b.at(1)] {
		switch {
		case !b.p.Reduce[l.Root] || l.N == 1:
		case l.DealtTo == b.p.Loops[part].Name && !dealt:
			dealt = true
		case l.Kind != Lane || !dealt:
			return refuse(l.Name, "parts of a sum of floats are added in the order of iterations that are dealt: inside these are lanes only, and then sums of integers")
		}
	}
	if !dealt || len(b.p.Accumulators[1].Keep) > 0 {
		return refuse(b.p.Loops[part].Name, "parts of a sum of floats take one sum of integers for each iteration that is dealt")
	}
	return nil
}

// checkKeep: what accumulator i keeps apart must be summed before it is stored, and
// vary while the accumulator lives.
func (b *builder) checkKeep(i int) error {
	acc := b.p.Accumulators[i]
	if i > 0 && len(acc.Keep) > 0 && b.p.Accumulators[i-1].Beside != nil && b.p.Accumulators[i-1].Beside.Over == nil {
		return refuse(acc.Temp.Name, "it cannot keep %s apart: %s is added when it is flushed, once", acc.Keep[0].Name, b.p.Accumulators[i-1].Beside.Temp.Name)
	}
	for _, k := range acc.Keep {
		if i == 0 {
			return refuse(acc.Temp.Name, "the last accumulator has one sum to store; it cannot keep %s apart", k.Name)
		}
		if k.Value != nil {
			continue
		}
		switch pos, ok := b.pos[k.Name]; {
		case !ok:
			return refuse(acc.Temp.Name, "no loop %q to keep apart", k.Name)
		case pos < b.at(i):
			return refuse(acc.Temp.Name, "loop %s is outside %s: its sums are apart already", k.Name, acc.At)
		}
	}
	return nil
}

// checkFlush: all iterations that accumulator i adds up have one factor, as it is added once, when it has ended. A scale of a group, for example, belongs to a sum
// that lives within the group, or keeps groups apart.
func (b *builder) checkFlush(i int) error {
	acc := b.p.Accumulators[i]
	values := []ir.Expr{acc.Flush}
	if i == 0 {
		values = []ir.Expr{b.p.Final}
	} else if s := b.p.Accumulators[i-1].Beside; s != nil && s.Apart == "" {
		values = append(values, s.Each)
	}
	reads := map[string]bool{}
	for _, e := range values {
		b.axes(e, reads)
	}
	domain, _ := b.domain(i)
	for _, l := range b.p.Loops[b.at(i):] {
		open := slices.ContainsFunc(domain, func(o Loop) bool { return o.Name == l.Name })
		if b.p.Reduce[l.Root] && !open && l.N != 1 && (reads[l.Root] || reads[l.Name]) {
			return refuse(acc.Temp.Name, "its factor differs from one iteration of %s to the next, which it adds up: begin it inside that loop", l.Name)
		}
	}
	return nil
}

// axes adds the axes and loops that e depends on to those in `to`, also through staged values.
func (b *builder) axes(e ir.Expr, to map[string]bool) {
	ir.Walk(e, func(x ir.Expr) {
		switch x := x.(type) {
		case ir.Axis:
			to[x.Name] = true
		case ir.Read:
			at := slices.IndexFunc(b.p.Staged, func(s Staged) bool { return x.Index == nil && s.Temp.Name == x.T.Name })
			if at >= 0 {
				b.axes(b.p.Staged[at].Value, to)
			}
		}
	})
}

// checkPairs: the lanes that a pair loop makes of the lowest accumulator are apart in
// the one above.
func (b *builder) checkPairs() error {
	low := len(b.p.Accumulators) - 1
	for i, l := range b.p.Loops {
		if l.Kind == Pair && (low == 0 || i < b.at(low)) {
			return refuse(l.Name, "a pair needs an accumulator around it, in lanes, and another one above that")
		}
	}
	return nil
}

// checkPointwise refuses a reduction without accumulators.
func (b *builder) checkPointwise() error {
	for _, l := range b.p.Loops {
		if b.p.Reduce[l.Root] {
			return refuse(l.Name, "a reduction needs an accumulator")
		}
	}
	return nil
}

// checkVectors: a vector loop of the reduction must be kept apart by the lowest
// accumulator, unless the dot product sums it.
func (b *builder) checkVectors() error {
	for _, l := range b.p.Loops {
		if l.Kind != Vector || !b.p.Reduce[l.Root] {
			continue
		}
		if !slices.ContainsFunc(b.p.Accumulators, func(acc Accumulator) bool {
			return slices.ContainsFunc(acc.Keep, func(k Keep) bool { return k.Name == l.Name })
		}) {
			return refuse(l.Name, "lanes of a reduction need an accumulator each: rfactor it")
		}
	}
	return nil
}

// walk builds the loops from position i inwards.
func (b *builder) walk(i int) ([]Stmt, error) {
	if i == len(b.p.Loops) {
		return b.point()
	}
	l := b.p.Loops[i]
	inner, err := b.stage(l.Name, i+1)
	if err != nil {
		return nil, err
	}
	if l.Kind == Averaged {
		if inner != nil || slices.ContainsFunc(b.p.Accumulators, func(acc Accumulator) bool { return acc.At == l.Name }) {
			return nil, refuse(l.Name, "nothing is set, added up or kept in a loop that is averaged")
		}
		return b.walk(i + 1)
	}
	body, err := b.walk(i + 1)
	if err != nil {
		return nil, err
	}
	var out []Stmt
	for n := range b.p.Accumulators {
		if b.at(n) == i {
			out = append(out, b.init(n)...)
		}
	}
	out = append(out, wrap([]Loop{l}, append(inner, body...)...))
	for n := len(b.p.Accumulators) - 1; n >= 0; n-- {
		if s := b.p.Accumulators[n].Beside; s != nil && s.Apart == l.Name {
			out = append(out, b.copied(n)...)
		}
		if b.at(n) == i {
			out = append(out, b.flush(n)...)
		}
	}
	return out, nil
}

// point is the innermost statement.
func (b *builder) point() ([]Stmt, error) {
	n := len(b.p.Accumulators) - 1
	if n < 0 {
		return []Stmt{&Assign{b.p.Out, b.p.Index, Set, 0, b.p.Final}}, nil
	}
	acc := b.p.Accumulators[n]
	return []Stmt{&Assign{acc.Temp, b.indexOf(n, nil), Accumulate, acc.Op, b.resolve(b.p.Body)}}, nil
}

// outLoops are the loops of the output inside position at.
func (b *builder) outLoops(at int) []Loop {
	var out []Loop
	for i, l := range b.p.Loops {
		if i > at && !b.p.Reduce[l.Root] && !l.Kind.Outside() {
			out = append(out, l)
		}
	}
	return out
}

// indexOf is the index of accumulator n. Names in open are loops
// that the statement reopens under the name of a Keep with classes.
func (b *builder) indexOf(n int, open map[string]bool) []ir.Expr {
	if b.p.Accumulators[n].InMemory {
		return b.p.Index
	}
	var idx []ir.Expr
	for _, l := range b.outLoops(b.at(n)) {
		idx = append(idx, ir.Axis{Name: l.Name})
	}
	for i := range n + 1 {
		for _, k := range b.p.Accumulators[i].Keep {
			if k.Value == nil || open[k.Name] {
				idx = append(idx, ir.Axis{Name: k.Name})
			} else {
				idx = append(idx, k.Value)
			}
		}
	}
	return idx
}

// domain is the loops over all elements of accumulator n that are alive
// where it is set and flushed: loops of the plan in their order, then loops over
// classes that no loop determines. Loops that are open there already, though the
// accumulator keeps them apart, stay where they are.
func (b *builder) domain(n int) (loops []Loop, open map[string]bool) {
	kept := map[string]bool{}
	for i := range n + 1 {
		for _, k := range b.p.Accumulators[i].Keep {
			if k.Value == nil {
				kept[k.Name] = true
			}
		}
	}
	have := map[string]bool{}
	for i, l := range b.p.Loops {
		switch inside := i > b.at(n) && !b.p.Reduce[l.Root] && !l.Kind.Outside(); {
		case i < b.at(n):
			have[l.Name] = true
		case inside || kept[l.Name]:
			if inside && l.Kind == Serial { // around sums in memory: here all are set or stored, by code without pointers that move
				l.Kind = Unrolled
			}
			loops = append(loops, l)
			have[l.Name] = true
		}
	}
	open = map[string]bool{}
	for i := range n + 1 {
		for _, k := range b.p.Accumulators[i].Keep {
			if k.Value != nil && !determined(k.Value, have) {
				loops = append([]Loop{{Name: k.Name, N: k.N, Kind: Unrolled}}, loops...)
				open[k.Name] = true
			}
		}
	}
	return loops, open
}

func determined(e ir.Expr, have map[string]bool) bool {
	ok := true
	ir.Walk(e, func(x ir.Expr) {
		if a, is := x.(ir.Axis); is && !have[a.Name] {
			ok = false
		}
	})
	return ok
}

func (b *builder) init(n int) []Stmt {
	acc := b.p.Accumulators[n]
	loops, open := b.domain(n)
	v := acc.Init
	if v == nil {
		v = ir.Const{T: acc.Temp.Elem}
	}
	if n < len(b.p.Accumulators)-1 {
		loops = apart(loops)
	}
	out := []Stmt{wrap(loops, &Assign{acc.Temp, b.indexOf(n, open), Set, 0, b.resolve(v)})}
	if s := acc.Beside; s != nil && s.Apart != acc.At {
		out = append(out, b.initBeside(n))
	}
	return out
}

func (b *builder) initBeside(n int) Stmt {
	s := b.p.Accumulators[n].Beside
	loops, open := b.domain(n)
	return wrap(apart(loops), &Assign{s.Temp, b.indexOf(n, open), Set, 0, ir.Const{T: s.Temp.Elem}})
}

// copied computes the sum Beside accumulator n in copies of the loop Apart and of the loops in it that the accumulator adds up.
func (b *builder) copied(n int) (out []Stmt) {
	acc, s := b.p.Accumulators[n], b.p.Accumulators[n].Beside
	if s.Apart == acc.At {
		out = append(out, b.initBeside(n))
	}
	loops, open := b.domain(n)
	loops = slices.DeleteFunc(loops, func(l Loop) bool { return b.pos[l.Name] < b.pos[s.Apart] }) // they are open
	over := slices.Clone(s.Over)
	for _, l := range b.p.Loops[b.pos[s.Apart]:b.below(n)] {
		if s.Over == nil && b.p.Reduce[l.Root] && l.Kind != Averaged { // averages are of products
			over = append(over, l)
		}
	}
	return append(out, wrap(append(over, apart(loops)...), &Assign{s.Temp, b.indexOf(n, open), Accumulate, ir.Add, b.resolve(s.Each)}))
}

// flush adds accumulator n to the one above, and to the sum beside that, or stores the final value.
func (b *builder) flush(n int) []Stmt {
	acc := b.p.Accumulators[n]
	loops, open := b.domain(n)
	idx := b.indexOf(n, open)
	v := acc.Flush
	if n == 0 {
		v = b.p.Final
	}
	v = b.readTemp(v, acc.Temp, idx)
	if acc.Beside != nil {
		v = b.readTemp(v, acc.Beside.Temp, idx)
	}
	if n == 0 {
		return []Stmt{wrap(apart(loops), &Assign{b.p.Out, b.p.Index, Set, 0, b.resolve(v)})}
	}
	up, above := b.p.Accumulators[n-1], b.indexOf(n-1, open)
	add := &Assign{up.Temp, above, Accumulate, up.Op, b.resolve(b.classes(v, n, open))}
	if up.InMemory {
		add.How, add.Value = Set, ir.Binary{Op: up.Op, X: ir.Read{T: up.Temp, Index: above}, Y: add.Value}
	}
	out := []Stmt{wrap(apart(loops), add)}
	if s := up.Beside; s != nil && s.Apart == "" {
		out = append(out, wrap(apart(loops), &Assign{s.Temp, above, Accumulate, ir.Add, b.resolve(s.Each)}))
	}
	return out
}

// apart is loops as they run above the lowest accumulator, pairs unrolled.
func apart(loops []Loop) []Loop {
	out := slices.Clone(loops)
	for i := range out {
		if out[i].Kind == Pair {
			out[i].Kind = Unrolled
		}
	}
	return out
}

// classes replaces the names of classes that no loop is opened for, because other
// loops determine them, by their values.
func (b *builder) classes(e ir.Expr, n int, open map[string]bool) ir.Expr {
	value := map[string]ir.Expr{}
	for i := range n + 1 {
		for _, k := range b.p.Accumulators[i].Keep {
			if k.Value != nil && !open[k.Name] {
				value[k.Name] = k.Value
			}
		}
	}
	return ir.Map(e, func(x ir.Expr) ir.Expr {
		if a, ok := x.(ir.Axis); ok && value[a.Name] != nil {
			return value[a.Name]
		}
		return x
	})
}

// readTemp gives reads of t their index.
func (b *builder) readTemp(e ir.Expr, t *ir.Tensor, idx []ir.Expr) ir.Expr {
	return ir.Map(e, func(x ir.Expr) ir.Expr {
		if r, ok := x.(ir.Read); ok && r.T.Name == t.Name {
			return ir.Read{T: t, Index: idx}
		}
		return x
	})
}

// wrap puts statements into loops, in which pairs are lanes.
func wrap(loops []Loop, body ...Stmt) Stmt {
	for i := len(loops) - 1; i >= 0; i-- {
		l := loops[i]
		if l.Kind == Pair {
			l.Kind = Vector
		}
		body = []Stmt{&For{l, body}}
	}
	return body[0]
}

// stage computes the values staged inside loop at; from is the first position
// below it.
func (b *builder) stage(at string, from int) ([]Stmt, error) {
	var out []Stmt
	for _, s := range b.p.Staged {
		if s.At != at {
			continue
		}
		value := b.resolve(s.Value)
		roots := map[string]bool{}
		ir.Walk(value, func(x ir.Expr) {
			if a, ok := x.(ir.Axis); ok {
				roots[a.Name] = true
			}
		})
		var loops []Loop
		var idx []ir.Expr
		for _, l := range append(b.over(s.Temp.Name), b.p.Loops[from:]...) {
			if !roots[l.Root] && !roots[l.Name] || l.Kind.Outside() {
				continue
			}
			if l.Kind == Averaged {
				return nil, refuse(s.Temp.Name, "differs from one iteration of %s to the next, which are averaged", l.Name)
			}
			if l.Kind == Serial || l.Kind == Lane {
				return nil, refuse(s.Temp.Name, "staged outside the serial loop %s it depends on", l.Name)
			}
			loops = append(loops, l)
			idx = append(idx, ir.Axis{Name: l.Name})
		}
		if !reads(b.p.Body, s.Temp.Name) {
			loops = apart(loops)
		}
		b.index[s.Temp.Name] = idx
		out = append(out, wrap(loops, &Assign{s.Temp, idx, Set, 0, value}))
	}
	return out, nil
}

// over are the loops that only a sum beside an accumulator has, if it adds up the value called name.
func (b *builder) over(name string) (loops []Loop) {
	for _, acc := range b.p.Accumulators {
		if acc.Beside != nil && reads(acc.Beside.Each, name) {
			loops = append(loops, acc.Beside.Over...)
		}
	}
	return loops
}

// reads says that e reads the value called name.
func reads(e ir.Expr, name string) bool {
	found := false
	if e != nil {
		ir.Walk(e, func(x ir.Expr) {
			r, ok := x.(ir.Read)
			found = found || ok && r.T.Name == name
		})
	}
	return found
}

// resolve gives reads of staged values their index.
func (b *builder) resolve(e ir.Expr) ir.Expr {
	return ir.Map(e, func(x ir.Expr) ir.Expr {
		if r, ok := x.(ir.Read); ok && r.Index == nil {
			if idx, known := b.index[r.T.Name]; known {
				return ir.Read{T: r.T, Index: idx}
			}
		}
		return x
	})
}
