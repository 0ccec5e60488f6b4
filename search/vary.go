package search

import (
	"math"
	"math/rand"
	"reflect"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// together are decisions that hardly make sense one without the others.
var together = [][]string{
	{"Rows", "Block", "Tiles", "Run"}, {"Map", "Join", "Mirror", "Head", "Fill", "RowFields", "Chunk"}, {"Cells", "Flush", "Serial"}, {"Value", "Hoist", "Below"},
	{"Dot", "Factor", "Whole"}, {"AlongK", "Lanes"}, {"AtGroup", "Super"}, {"Order", "Stage"}, {"Far", "Every"},
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

// mend makes blocks and runs divide the tile, tiles side by side whole, and what is asked for far ahead be farther than
// what is not.
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

// layout are the decisions about the packed matrix.
var layout = []string{"AlongK", "Lanes", "Rows", "RowFields", "Cells", "Map", "Join", "Mirror", "Head", "Fill", "Run", "Beside", "Lead", "Chunk"}

// Relayout returns c for the packed matrix and the tables of from. The result may be illegal.
func Relayout(c, from Choice) Choice {
	if c.Table != nil || from.Table != nil { // what sums and looks up fits only its tables
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

// Companions are schedules of all widths for the packed layout of c, which is one tile's whatever c reads side by side.
func Companions(p ir.Problem, t lower.Target, c Choice) []Use {
	c.Tiles = 0
	l := newCandidate(c)
	return l.uses(p, t)
}

// Estimate is about how long a product of one weight and one activation takes by a
// kernel, in tenths of a cycle: arithmetic, or where weights come from memory, the
// time to read them if that is longer.
func Estimate(k *schedule.Kernel, m *lower.Kernel, memory bool) float64 {
	cost := costPerProduct(k, m)
	if memory {
		bytes := float64(k.Weights.TileBytes(typicalK)) / float64(k.Weights.TileM*typicalK)
		cost = max(cost, 10*bytes/bytesPerCycle/float64(k.Cols))
	}
	return cost
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

// Features describe a kernel to a model of its cost: sizes, what bounds it by the costs of its
// instructions, and what its loops do for each product, by logarithms.
func Features(k *schedule.Kernel, m *lower.Kernel) []float64 {
	var spread, prefetch, lookup, dot, folded, outside float64
	var regs [64]bool
	lists, depth, deepest := 0.0, 0, 0
	for _, op := range m.Ops {
		switch op.Kind {
		case lower.MLoopBegin:
			depth++
			deepest = max(deepest, depth)
			if op.List != nil {
				lists++
			}
		case lower.MLoopEnd:
			depth--
		case lower.MInstr:
			if op.Dst >= 0 && op.Dst < len(regs) {
				regs[op.Dst] = true
			}
			switch o := op.In.Op; {
			case depth == 0:
				outside++
			case o == vir.OpPrefetch || o == vir.OpPrefetch2:
				prefetch++
			case o == vir.OpLoadSplat:
				spread++
			case o >= vir.OpLookup8 && o <= vir.OpLookupPair:
				lookup++
			case o == vir.OpDot4 || o == vir.OpDot2:
				dot++
			}
			if op.In.Fold > 0 {
				folded++
			}
		}
	}
	used := 0.0
	for _, r := range regs {
		if r {
			used++
		}
	}
	w := workOf(k, m)
	products := float64(k.Rows * k.Cols * k.StepK)
	each := func(n float64) float64 { return math.Log((n + 1) / products) }
	bytes := float64(k.Weights.TileBytes(typicalK)) / float64(k.Weights.TileM*typicalK)
	tables := 0.0
	if k.Tables != nil {
		tables = 1
	}
	return []float64{
		math.Log(w.total), math.Log(w.alu + 1e-4), math.Log(w.mem + 1e-4), math.Log(w.issue + 1e-4), math.Log(w.chain + 1e-4),
		float64(k.Rows), float64(k.Cols), float64(k.StepK), float64(k.Weights.TileM), bytes, tables, lists,
		each(dot), each(lookup), each(folded), each(spread), each(prefetch), math.Log(outside + 1), math.Log(float64(len(m.Ops))),
		used, float64(deepest), math.Log(products),
	}
}
