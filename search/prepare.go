package search

import (
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TablesOf returns the tables that schedules of p, the narrowest first, read; nil if they read none.
// `chunk` is the number of elements of K whose tables lie together in the widest kernel's blocks.
func TablesOf(p ir.Problem, uses []Use) (tables *ir.Tables, chunk int, err error) {
	for _, u := range uses {
		k, err := schedule.Compile(p, u.Trace)
		if err != nil {
			return nil, 0, err
		}
		if k.Tables != nil {
			tables, chunk = k.Tables, k.Chunk
		}
	}
	return tables, chunk, nil
}

// DefaultPrepare chooses the schedule of p's activation preparation on a machine. Every stage uses full vectors.
// Their lanes are elements of a group; groups, where a stage has one value for each; or entries of tables.
// The tables of `chunk` elements of K lie together, 0: of all elements. This is how a column's tables lie in a block of
// several columns.
func DefaultPrepare(p ir.Problem, tables *ir.Tables, chunk int, t lower.Target) (schedule.Trace, error) {
	lanes := t.Machine().VecBits / 32
	b := &prepareTrace{group: p.Act.Group, lanes: lanes, most: mostTogether(t), chunk: chunk, pairs: addsPairs(t)}
	if !p.Act.Floats() {
		b.quantize(p)
	}
	switch {
	case tables == nil:
	case tables.Residual:
		b.residuals(tables)
	default:
		b.tables(tables)
	}
	_, err := schedule.CompilePreparation(p, tables, b.t)
	return b.t, err
}

type prepareTrace struct {
	group, lanes int
	most         int // lanes of groups that are reduced together
	chunk        int // of tables
	pairs        bool
	t            schedule.Trace
}

// mostTogether is how many lanes of 32 bits the groups that are reduced together may take. It is the lanes of half the
// vector registers if one instruction gathers neighbours from two registers, else 0.
func mostTogether(t lower.Target) int {
	m := t.Machine()
	v := vir.Type{Elem: format.I32, Lanes: m.VecBits / 32}
	if !lower.Can(t, func(r lower.Row) bool { return r.Op == vir.OpLookupPair && r.Dst == v }) {
		return 0
	}
	return min(m.NumVec/2*v.Lanes, vir.MaxBytes/4)
}

// addsPairs says that the target has an instruction that multiplies bytes and adds the products in pairs. Activations
// are then used as they are, and each lane may have its own constant. Other targets multiply by constants of 16 bits,
// preferably by a constant that is the same in all lanes.
func addsPairs(t lower.Target) bool {
	return lower.Can(t, func(r lower.Row) bool { return r.Op == vir.OpDot2Sat })
}

// together is how many groups of `lanes` lanes each are reduced together. Without groups `lanes` is 0.
func (b *prepareTrace) together(lanes int) int {
	if lanes == 0 || lanes&(lanes-1) != 0 || lanes > schedule.MostLanes {
		return 1
	}
	return min(b.most/lanes, b.lanes)
}

// quantize: the stages down to int8.
func (b *prepareTrace) quantize(p ir.Problem) {
	b.reduction("amax", p.Act.Group, 1)
	for _, stage := range []string{"finite", "inv", "ascale"} {
		b.perGroup(stage)
	}
	b.elements("act")
	in := "act.o"
	if p.Act.Group > 0 {
		in = "act.g"
	}
	// While a row is rounded nothing else comes from memory. Figures: docs/lab/choices.md, DefaultPrepare.
	b.t = append(b.t, schedule.Prefetch{In: in})
	b.reduction("sums", p.GroupK(), 4)
}

func (b *prepareTrace) split(loop string, by int, outer, inner string) {
	b.t = append(b.t, schedule.Split{Loop: loop, By: by, Into: [2]string{outer, inner}})
}

func (b *prepareTrace) bind(loop, to string) {
	b.t = append(b.t, schedule.Bind{Loop: loop, To: to})
}

// unrolled unrolls a stage's loop u of `n` iterations. If the group is large, only a part of the loop is unrolled.
func (b *prepareTrace) unrolled(stage string, n int) {
	if n > schedule.MostUnrolled {
		by := schedule.MostUnrolled
		for n%by != 0 {
			by--
		}
		b.split(stage+".u", by, stage+".s", stage+".u")
	}
	b.bind(stage+".u", "unrolled")
}

// One iteration of a loop over ungrouped K handles the elements that `stretch` vectors of 32-bit lanes hold. The loop
// over 4096 elements then has so few iterations that a core predicts its last branch.
// Sums go into `unroll` accumulators in turn. Figures: docs/lab/choices.md, DefaultPrepare.
const (
	stretch = 16
	unroll  = 4
)

// reduction: for g { unroll u { vector v { acc[u,v] += ... } } }, each lane and,
// without groups, each unrolled vector an accumulator of its own. Bytes are
// summed in fours first. Several groups may be lanes too.
func (b *prepareTrace) reduction(stage string, group, fours int) {
	k, lanes, n := stage+".k", b.lanes, b.together(group/fours)
	if group > 0 {
		if n > 1 {
			b.split(stage+".g", n, stage+".go", stage+".gv")
			b.bind(stage+".gv", "vector")
			lanes = group / fours
		}
		for group%(lanes*fours) != 0 {
			lanes /= 2
		}
		b.split(k, lanes*fours, stage+".u", stage+".vj")
		b.unrolled(stage, group/lanes/fours)
	} else {
		b.split(k, stretch*lanes, stage+".o", stage+".tuv")
		b.split(stage+".tuv", unroll*lanes*fours, stage+".t", stage+".uv")
		b.bind(stage+".t", "unrolled")
		b.split(stage+".uv", lanes*fours, stage+".u", stage+".vj")
		b.bind(stage+".u", "unrolled")
	}
	b.split(stage+".vj", fours, stage+".v", stage+".j")
	b.bind(stage+".v", "vector")
	if n > 1 { // groups are lanes of accumulators
		b.t = append(b.t, schedule.Reorder{Order: []string{stage + ".go", stage + ".u", stage + ".gv", stage + ".v", stage + ".j"}})
	}
	b.t = append(b.t, schedule.Rfactor{Loop: stage + ".v"})
	if group == 0 {
		b.t = append(b.t, schedule.Rfactor{Loop: stage + ".u"})
	}
	if fours == 4 {
		b.t = append(b.t, schedule.Tensorize{Loop: stage + ".j", To: "dot4"})
	} else {
		b.bind(stage+".j", "unrolled")
	}
}

// perGroup: lanes are groups.
func (b *prepareTrace) perGroup(stage string) {
	g := stage + ".g"
	if b.group == 0 {
		return // one value
	}
	b.split(g, b.lanes, stage+".o", stage+".v")
	b.bind(stage+".v", "vector")
}

// elements: lanes are elements of a group.
func (b *prepareTrace) elements(stage string) {
	lanes := b.lanes
	if b.group > 0 {
		for b.group%lanes != 0 {
			lanes /= 2
		}
		b.split(stage+".k", lanes, stage+".u", stage+".v")
		b.unrolled(stage, b.group/lanes)
	} else {
		b.split(stage+".k", stretch*lanes, stage+".o", stage+".uv")
		b.split(stage+".uv", lanes, stage+".u", stage+".v")
		b.bind(stage+".u", "unrolled")
	}
	b.bind(stage+".v", "vector")
}

// tables: all tables of a block of units, lanes over entries of one.
func (b *prepareTrace) tables(t *ir.Tables) {
	lanes := b.lanes
	switch {
	case t.Elem == format.F32:
	case !b.pairs:
		lanes *= 2
		b.linear("wide", lanes)
	case t.Split() || t.Rounded():
		lanes *= 4 // bytes
	default:
		lanes *= 2
	}
	for q := range t.Parts {
		lanes = min(lanes, t.Stored(q))
	}
	b.split("table.u", t.Together, "table.b", "table.i")
	b.inChunks("table.b", t.Digits()*t.Together)
	b.bind("table.i", "unrolled")
	b.split("table.x", lanes, "table.o", "table.v")
	b.bind("table.o", "unrolled")
	b.bind("table.v", "vector")
	if t.Elem != format.F32 && b.pairs {
		b.t = append(b.t, schedule.Stage{Value: "wide", At: "table.i"})
	}
}

// residuals: tables with residuals, 64 bytes at once: tables of halves of digits of eight
// units, entries and residuals of four. Spans add up the digits of a unit first.
func (b *prepareTrace) residuals(t *ir.Tables) {
	of := func(stage string, units int, inner ...string) {
		b.split(stage+".u", units, stage+".o", stage+".v")
		for _, l := range append([]string{".v"}, inner...) {
			b.bind(stage+l, "vector")
		}
	}
	of("pair", 8, ".h", ".y")
	of("table", 4, ".x")
	b.inChunks("table.o", 4*t.Digits())
	of("residual", 4, ".x")
	b.reduction("offsets", 0, 4)
	b.reduction("span", t.Digits(), min(t.Digits(), 4))
	b.split("excess.u", unroll*b.lanes, "excess.o", "excess.tv")
	b.split("excess.tv", b.lanes, "excess.t", "excess.v")
	b.bind("excess.t", "unrolled")
	b.bind("excess.v", "vector")
}

// inChunks splits a loop over tables whose iteration makes the tables of `elements` elements of K. It does so only if a
// chunk is a whole number of iterations. Else the tables are made where other code moves them to their places.
func (b *prepareTrace) inChunks(loop string, elements int) {
	if b.chunk == 0 || b.chunk%elements != 0 || b.chunk > schedule.MostChunk {
		return
	}
	b.t = append(b.t, schedule.Pack{Tensor: "table", Chunk: b.chunk})
	n := b.chunk / elements
	b.split(loop, n, "table.c", "table.j")
	if n <= stretch {
		b.bind("table.j", "unrolled")
	}
}

// linear: lanes are elements of K.
func (b *prepareTrace) linear(stage string, lanes int) {
	b.split(stage+".k", lanes, stage+".o", stage+".v")
	b.bind(stage+".v", "vector")
}
