package random

import (
	"encoding/json"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
)

func pick[T any](rng *rand.Rand, xs ...T) T { return xs[rng.Intn(len(xs))] }

// mutate returns t with one random edit: a number, a factor moved between levels of a loop, a flag, a name or a list of names
// changed, a step moved, dropped, repeated or taken from other, another trace
// for the same problem, which also supplies numbers, names and lists. The result
// may be illegal in any way that a trace can be written down. It knows steps only
// by the types of their fields.
func mutate(rng *rand.Rand, t, other schedule.Trace) schedule.Trace {
	m := &mutation{rng: rng, t: slices.Clone(t), other: other}
	if len(t) == 0 {
		m.take()
		return m.t
	}
	edits := []func(){m.number, m.number, m.factor, m.factor, m.flag, m.name, m.name, m.list, m.list, m.crossover, m.crossover, m.move, m.drop, m.repeat, m.take}
	edits[rng.Intn(len(edits))]()
	return m.t
}

type mutation struct {
	rng      *rand.Rand
	t, other schedule.Trace
}

// field is a value within a step: field of step i, element of a list or -1.
type field struct{ step, index, element int }

// choose picks one of all fields, each kind of step as likely as any other.
func (m *mutation) choose(all []field) field {
	var kinds []reflect.Type
	for _, f := range all {
		if k := reflect.TypeOf(m.t[f.step]); !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	kind := pick(m.rng, kinds...)
	return pick(m.rng, slices.DeleteFunc(slices.Clone(all), func(f field) bool { return reflect.TypeOf(m.t[f.step]) != kind })...)
}

// step picks a step of m.t, each kind as likely as any other.
func (m *mutation) step() int {
	var all []field
	for i := range m.t {
		all = append(all, field{step: i})
	}
	return m.choose(all).step
}

// fields lists the fields of t's steps whose type is `kind`. With `elements` it also lists each element of a list or an
// array whose elements have that type.
func fields(t schedule.Trace, kind reflect.Kind, elements bool) []field {
	var out []field
	for i, s := range t {
		v := reflect.ValueOf(s)
		for j := range v.NumField() {
			f := v.Field(j)
			if f.Kind() == kind {
				out = append(out, field{i, j, -1})
			}
			if k := f.Kind(); elements && (k == reflect.Slice || k == reflect.Array) && f.Type().Elem().Kind() == kind {
				for e := range f.Len() {
					out = append(out, field{i, j, e})
				}
			}
		}
	}
	return out
}

// get reads f in t.
func (f field) get(t schedule.Trace) reflect.Value {
	v := reflect.ValueOf(t[f.step]).Field(f.index)
	if f.element >= 0 {
		v = v.Index(f.element)
	}
	return v
}

// set writes f in m.t, in a copy of its step.
func (m *mutation) set(f field, x reflect.Value) {
	old := reflect.ValueOf(m.t[f.step])
	s := reflect.New(old.Type()).Elem()
	s.Set(old)
	v := s.Field(f.index)
	if v.Kind() == reflect.Slice && f.element >= 0 {
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		v.Set(c)
	}
	if f.element >= 0 {
		v = v.Index(f.element)
	}
	v.Set(x)
	m.t[f.step] = s.Interface().(schedule.Step)
}

// number changes a number: by a little, by a factor, or to another of the traces.
func (m *mutation) number() {
	all := fields(m.t, reflect.Int, true)
	if len(all) == 0 {
		return
	}
	f := m.choose(all)
	x := int(f.get(m.t).Int())
	from := append(fields(m.other, reflect.Int, true), f)
	elsewhere := from[m.rng.Intn(len(from))]
	y := x
	if len(from) > 1 && elsewhere != f {
		y = int(elsewhere.get(m.other).Int())
	}
	x = pick(m.rng, 2*x, 2*x, x/2, x/2, x+1, x-1, 3*x, 0, -x, 1<<m.rng.Intn(8), y, y)
	m.set(f, reflect.ValueOf(x))
}

// factor moves a factor between two levels of a loop whose number of iterations is known. A split gets another size of
// its inner loop. The new size divides the split loop, and later splits of either part still divide it.
// The product of all levels stays.
func (m *mutation) factor() {
	var steps []int
	var ways [][]int
	size := map[string]int{} // of loops, as far as it is known
	for i, s := range m.t {
		x, ok := s.(schedule.Split)
		if !ok {
			continue
		}
		n := size[x.Loop]
		if other := m.otherSizes(i, x, n); len(other) > 0 {
			steps, ways = append(steps, i), append(ways, other)
		}
		size[x.Into[0]], size[x.Into[1]] = 0, x.By
		if x.By > 0 {
			size[x.Into[0]] = n / x.By
		}
	}
	if len(steps) == 0 {
		return
	}
	i := m.rng.Intn(len(steps))
	x := m.t[steps[i]].(schedule.Split)
	x.By = pick(m.rng, ways[i]...)
	m.t[steps[i]] = x
}

// mostInner is the longest inner loop that factor makes.
const mostInner = 4096

// otherSizes are what split x, step i, of a loop of n iterations can take for its inner loop instead.
func (m *mutation) otherSizes(i int, x schedule.Split, n int) (out []int) {
	for by := 1; by <= min(n, mostInner); by++ {
		if by != x.By && n%by == 0 && m.divides(i, x.Into[0], n/by) && m.divides(i, x.Into[1], by) {
			out = append(out, by)
		}
	}
	return out
}

// divides says that a loop can have n iterations: what splits it after step i takes a part of it.
func (m *mutation) divides(i int, loop string, n int) bool {
	for _, s := range m.t[i+1:] {
		if x, ok := s.(schedule.Split); ok && x.Loop == loop {
			return x.By > 0 && n%x.By == 0
		}
	}
	return true
}

// flag turns a flag.
func (m *mutation) flag() {
	all := fields(m.t, reflect.Bool, false)
	if len(all) > 0 {
		f := m.choose(all)
		m.set(f, reflect.ValueOf(!f.get(m.t).Bool()))
	}
}

// name replaces a name by another of the same field in other, or by any of t.
func (m *mutation) name() {
	all := fields(m.t, reflect.String, true)
	if len(all) == 0 {
		return
	}
	f := m.choose(all)
	if same := m.same(f); len(same) > 0 && m.rng.Intn(2) == 0 {
		m.set(f, pick(m.rng, same...).get(m.other))
		return
	}
	m.set(f, pick(m.rng, all...).get(m.t))
}

// same lists the fields of other that are the same field as f of the same step.
func (m *mutation) same(f field) []field {
	var out []field
	kind := reflect.TypeOf(m.t[f.step])
	for _, g := range fields(m.other, f.get(m.t).Kind(), f.element >= 0) {
		if g.index == f.index && reflect.TypeOf(m.other[g.step]) == kind && (g.element < 0) == (f.element < 0) {
			out = append(out, g)
		}
	}
	return out
}

// list changes the order or the elements of a list.
func (m *mutation) list() {
	all := slices.DeleteFunc(fields(m.t, reflect.Slice, false), func(f field) bool { return f.get(m.t).Len() == 0 })
	if len(all) == 0 {
		return
	}
	f := m.choose(all)
	v := f.get(m.t)
	c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
	reflect.Copy(c, v)
	i, j := m.rng.Intn(v.Len()), m.rng.Intn(v.Len())
	switch m.rng.Intn(5) {
	case 0: // without i
		c = reflect.AppendSlice(c.Slice(0, i), v.Slice(i+1, v.Len()))
	case 1: // i twice
		c = reflect.Append(c, v.Index(i))
	case 2: // i moved
		c = reflect.AppendSlice(c.Slice(0, i), v.Slice(i+1, v.Len()))
		j = min(j, c.Len())
		tail := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, 0), c.Slice(j, c.Len()))
		c = reflect.AppendSlice(reflect.Append(c.Slice(0, j), v.Index(i)), tail)
	default: // i and j change places
		reflect.Swapper(c.Interface())(i, j)
	}
	if c.Len() == 0 {
		c = reflect.Zero(v.Type()) // as it reads back
	}
	m.set(f, c)
}

// crossover puts the members of one list in the order they have in another.
func (m *mutation) crossover() {
	mine, theirs := fields(m.t, reflect.Slice, false), append(fields(m.t, reflect.Slice, false), fields(m.other, reflect.Slice, false)...)
	if len(mine) == 0 {
		return
	}
	f := m.choose(mine)
	n := m.rng.Intn(len(theirs))
	from := m.other
	if n < len(mine) {
		from = m.t
	}
	list, okMine := f.get(m.t).Interface().([]string)
	order, okTheirs := theirs[n].get(from).Interface().([]string)
	if !okMine || !okTheirs {
		return
	}
	common := slices.DeleteFunc(slices.Clone(order), func(s string) bool { return !slices.Contains(list, s) })
	out := slices.Clone(list)
	for i, s := range out {
		if len(common) > 0 && slices.Contains(order, s) {
			out[i], common = common[0], common[1:]
		}
	}
	m.set(f, reflect.ValueOf(out))
}

func (m *mutation) move() {
	i := m.step()
	s := m.t[i]
	m.t = slices.Delete(m.t, i, i+1)
	m.t = slices.Insert(m.t, m.rng.Intn(len(m.t)+1), s)
}

func (m *mutation) drop() {
	i := m.step()
	m.t = slices.Delete(m.t, i, i+1)
}

func (m *mutation) repeat() {
	m.t = slices.Insert(m.t, m.rng.Intn(len(m.t)+1), m.t[m.step()])
}

// take inserts a step of other, about where it stands there.
func (m *mutation) take() {
	if len(m.other) == 0 {
		return
	}
	i := m.rng.Intn(len(m.other))
	at := i*len(m.t)/len(m.other) + m.rng.Intn(3) - 1
	m.t = slices.Insert(m.t, min(max(at, 0), len(m.t)), m.other[i])
}

// Mutations leave their arguments alone, can be written down and read again, and
// almost always change something.
func TestMutate(t *testing.T) {
	p, err := ir.Named("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	sp, err := space.For(p, amd64.ByName("avx2"))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewSource(1))
	var all []schedule.Trace
	for range 50 {
		x, err := sp.Sample(rng)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x.Trace())
	}
	unchanged := 0
	for range 2000 {
		a, b := pick(rng, all...), pick(rng, all...)
		if rng.Intn(10) == 0 {
			b = nil
		}
		before := a.String() + b.String()
		x := mutate(rng, a, b)
		if a.String()+b.String() != before {
			t.Fatalf("an argument changed from\n%s\nto\n%s", before, a.String()+b.String())
		}
		if x.String() == a.String() {
			unchanged++
		}
		data, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		var read schedule.Trace
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if !reflect.DeepEqual(read, x) {
			t.Fatalf("%v, read back %v", x, read)
		}
	}
	if unchanged > 500 {
		t.Errorf("%d of 2000 mutations change nothing", unchanged)
	}
	if m := mutate(rng, nil, nil); len(m) != 0 {
		t.Errorf("a mutation of nothing is %v", m)
	}
}

// A factor moves between the levels of a loop: every split is legal, and the product of the levels stays.
func TestMutateFactor(t *testing.T) {
	trace := schedule.Trace{
		schedule.Split{Loop: "k", By: 48, Into: [2]string{"kt", "kc"}},
		schedule.Split{Loop: "kc", By: 16, Into: [2]string{"ks", "kk"}},
		schedule.Split{Loop: "kk", By: 4, Into: [2]string{"u", "kj"}},
	}
	rng := rand.New(rand.NewSource(1))
	found := map[[2]int]bool{}
	for range 1000 {
		m := &mutation{rng: rng, t: slices.Clone(trace)}
		m.factor()
		top, by, inner := m.t[0].(schedule.Split).By, m.t[1].(schedule.Split).By, m.t[2].(schedule.Split).By
		if top != 48 || 48%by != 0 || by%inner != 0 || by == 16 && inner == 4 {
			t.Fatalf("%v of %v", m.t, trace)
		}
		found[[2]int{by, inner}] = true
	}
	want := map[[2]int]bool{{4, 4}: true, {8, 4}: true, {12, 4}: true, {24, 4}: true, {48, 4}: true, {16, 1}: true, {16, 2}: true, {16, 8}: true, {16, 16}: true}
	if !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	m := &mutation{rng: rng, t: slices.Clone(trace[:1])}
	if m.factor(); !reflect.DeepEqual(m.t, trace[:1]) {
		t.Errorf("%v: a loop of unknown length is split otherwise", m.t)
	}
}
