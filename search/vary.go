package search

import (
	"context"
	"math/rand"
	"reflect"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// together are decisions that hardly make sense one without the others.
var together = [][]string{
	{"Rows", "Block", "Tiles", "Run"}, {"Map", "Join", "Mirror", "Head", "Fill", "RowFields", "Chunk"}, {"Cells", "Flush", "Serial"}, {"Value", "Hoist", "Below"},
	{"Dot", "Factor", "Whole"}, {"AlongK", "Lanes", "Octets"}, {"AtGroup", "Super"}, {"Order", "Stage"}, {"Far", "Every"},
}

// decisions are the names of all decisions of a Choice, those about prefetches one by one.
var decisions = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Choice]()) {
		if !f.Anonymous {
			names = append(names, f.Name)
		}
	}
	return names
}()

// Vary returns c with one to three of its decisions, or groups of them, as a sample
// has them. The result may be illegal.
func Vary(rng *rand.Rand, c Choice, p ir.Problem, m lower.Machine) Choice {
	other := Sample(rng, p, m)
	if rng.Intn(3) == 0 {
		other.Cols = pick(rng, append(append(Widths, Wider...), Widest)...)
	}
	for range 1 + rng.Intn(3) {
		c = take(rng, c, other)
	}
	return c
}

// Cross returns a choice with each decision, or group of them, of a or of b.
func Cross(rng *rand.Rand, a, b Choice) Choice {
	for range 1 + rng.Intn(len(together)) {
		a = take(rng, a, b)
	}
	return a
}

// take copies a group of decisions from other: any one, with those that belong to it.
// Tables make a different product: they are taken with all else.
func take(rng *rand.Rand, c, other Choice) Choice {
	if (c.Table == nil) != (other.Table == nil) {
		if rng.Intn(8) == 0 {
			return other
		}
		other.Table, other.Lanes = c.Table, c.Lanes
	}
	to, from := reflect.ValueOf(&c).Elem(), reflect.ValueOf(&other).Elem()
	name := pick(rng, decisions...)
	names := []string{name}
	for _, g := range together {
		for _, n := range g {
			if n == name && rng.Intn(4) > 0 {
				names = g
			}
		}
	}
	for _, n := range names {
		to.FieldByName(n).Set(from.FieldByName(n))
	}
	c.mend()
	return c
}

// mend repairs c: blocks and runs divide the tile, only whole tiles stand side by side, and the far prefetch is farther
// ahead than the near one.
func (c *Choice) mend() {
	if c.Block == 0 || c.Rows%c.Block != 0 {
		c.Block = c.Rows
	}
	if c.Block != c.Rows {
		c.Tiles = 0
	}
	if c.Run != 0 && c.Rows%c.Run != 0 {
		c.Run = 0
	}
	if c.Far <= c.Ahead {
		c.Far, c.Every = 0, false
	}
}

// Near returns the choices that differ from c only in their prefetches. How much a prefetch is worth depends on the
// prefetches that the machine does by itself, and the cost estimate does not know them.
func Near(c Choice) (out []Choice) {
	add := func(change func(*Choice)) {
		x := c
		change(&x)
		if x.mend(); !slices.Contains(out, x) && x != c {
			out = append(out, x)
		}
	}
	for _, rest := range []bool{c.Rest, !c.Rest} {
		for _, ahead := range weightsAhead {
			if c.Tiles > 1 || rest == c.Rest {
				add(func(x *Choice) { x.Rest, x.Ahead = rest, ahead })
			}
		}
	}
	early := actsAhead
	if c.Table != nil {
		early = tablesAhead
	}
	for _, act := range early {
		add(func(x *Choice) { x.Act = act })
	}
	for _, far := range weightsFar {
		for _, every := range []bool{false, true} {
			add(func(x *Choice) { x.Far, x.Every = far, every && far > 0 })
		}
	}
	return out
}

// Orders returns the choices that do c's work in another order, or keep decoded weights from another loop on. The cost
// estimate does not know how many instructions a core then runs at a time.
func Orders(c Choice) (out []Choice) {
	if c.Table != nil {
		return nil
	}
	for i := range orders {
		x := c
		if x.Order = i; x != c {
			out = append(out, x)
		}
	}
	for _, at := range stages {
		x := c
		if x.Stage = at; x != c {
			out = append(out, x)
		}
	}
	return out
}

// Prefetching is t with the prefetches of other.
func Prefetching(t, other schedule.Trace) schedule.Trace {
	prefetches := func(s schedule.Step) bool { _, ok := s.(schedule.Prefetch); return ok }
	t = slices.DeleteFunc(slices.Clone(t), prefetches)
	return append(t, slices.DeleteFunc(slices.Clone(other), func(s schedule.Step) bool { return !prefetches(s) })...)
}

// layout are the decisions about packed matrices and activations. TestRelayout notices if one is left out.
var layout = []string{"AlongK", "Lanes", "Octets", "Rows", "RowFields", "Cells", "Map", "Join", "Mirror", "Head", "Fill", "Run", "Beside", "Lead", "Chunk"}

// Relayout returns c for the packed matrix and the tables of from. The result may be illegal.
func Relayout(c, from Choice) Choice {
	if c.Table != nil || from.Table != nil { // decisions about tables fit only these tables
		cols := c.Cols
		c = from
		c.Cols = cols
		return c
	}
	to, f := reflect.ValueOf(&c).Elem(), reflect.ValueOf(from)
	for _, name := range layout {
		to.FieldByName(name).Set(f.FieldByName(name))
	}
	c.mend()
	return c
}

// Companions returns schedules of all widths for the packed layout of c. The layout is that of one tile, also if c reads
// several tiles side by side. The error is the context's.
func Companions(ctx context.Context, p ir.Problem, t lower.Target, c Choice) ([]Use, error) {
	c.Tiles = 0
	return newDefaults(ctx, p, t).usesOf("", func(d *defaults) (*candidate, error) { return d.candidate(c), nil })
}

// Family names what kind of schedule t is: what it decomposes weights to, and the
// entries of its tables.
func Family(t schedule.Trace) string {
	name := ""
	for _, s := range t {
		switch s := s.(type) {
		case schedule.Decompose:
			name += s.Family + " " + s.Value
		case schedule.QuantizeTable:
			name += " " + s.Kind
		}
	}
	return name
}
