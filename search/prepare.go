package search

import (
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// DefaultTables are the tables that the default schedules of p on a machine read, nil
// if they read none.
func DefaultTables(p ir.Problem, t lower.Target) (*ir.Tables, error) {
	uses, err := Default(p, t)
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		k, err := schedule.Compile(p, u.Trace)
		if err != nil {
			return nil, err
		}
		if k.Tables != nil {
			return k.Tables, nil
		}
	}
	return nil, nil
}

// DefaultPrepare chooses the schedule of p's activation preparation on a
// machine: every stage in full vectors, lanes over the elements of a group, or
// over groups where a stage has one value each, and over the entries of tables.
func DefaultPrepare(p ir.Problem, tables *ir.Tables, t lower.Target) (schedule.Trace, error) {
	lanes := t.Machine().VecBits / 32
	b := &prepareTrace{group: p.Act.Group, lanes: lanes}
	b.reduction("amax", p.Act.Group, 1)
	for _, stage := range []string{"finite", "inv", "ascale"} {
		b.perGroup(stage)
	}
	b.elements("act")
	b.reduction("sums", p.GroupK(), 4)
	if tables != nil {
		b.tables(tables)
	}
	_, err := schedule.CompilePrepare(p, tables, b.t)
	return b.t, err
}

type prepareTrace struct {
	group, lanes int
	t            schedule.Trace
}

func (b *prepareTrace) split(loop string, by int, outer, inner string) {
	b.t = append(b.t, schedule.Split{Loop: loop, By: by, Into: [2]string{outer, inner}})
}

func (b *prepareTrace) bind(loop, to string) {
	b.t = append(b.t, schedule.Bind{Loop: loop, To: to})
}

// One iteration of a loop over ungrouped K handles as many elements as stretch vectors
// of 32 bits hold: the trips of 4096 elements are so few that a core foresees the last
// (4 vectors instead of 16 took 7 % longer on Emerald Rapids). Sums go into unroll
// accumulators in turn.
const (
	stretch = 16
	unroll  = 4
)

// reduction: for g { unroll u { vector v { acc[u,v] += ... } } }, each lane and,
// without groups, each unrolled vector an accumulator of its own. Bytes are
// summed in fours first.
func (b *prepareTrace) reduction(stage string, group, fours int) {
	k, lanes := stage+".k", b.lanes
	if group > 0 {
		for group%(lanes*fours) != 0 {
			lanes /= 2
		}
		b.split(k, lanes*fours, stage+".u", stage+".vj")
		b.bind(stage+".u", "unrolled")
	} else {
		b.split(k, stretch*lanes, stage+".o", stage+".tuv")
		b.split(stage+".tuv", unroll*lanes*fours, stage+".t", stage+".uv")
		b.bind(stage+".t", "unrolled")
		b.split(stage+".uv", lanes*fours, stage+".u", stage+".vj")
		b.bind(stage+".u", "unrolled")
	}
	b.split(stage+".vj", fours, stage+".v", stage+".j")
	b.bind(stage+".v", "vector")
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
		b.bind(stage+".u", "unrolled")
	} else {
		b.split(stage+".k", stretch*lanes, stage+".o", stage+".uv")
		b.split(stage+".uv", lanes, stage+".u", stage+".v")
		b.bind(stage+".u", "unrolled")
	}
	b.bind(stage+".v", "vector")
}

// tables: all tables of a block of units, lanes over entries of one.
func (b *prepareTrace) tables(t *ir.Tables) {
	b.linear("wide", 2*b.lanes)
	lanes := 2 * b.lanes
	for q := range t.Parts {
		lanes = min(lanes, t.Stored(q))
	}
	b.split("table.u", t.Together, "table.b", "table.i")
	b.bind("table.i", "unrolled")
	b.split("table.x", lanes, "table.o", "table.v")
	b.bind("table.o", "unrolled")
	b.bind("table.v", "vector")
}

// linear: lanes are elements of K.
func (b *prepareTrace) linear(stage string, lanes int) {
	b.split(stage+".k", lanes, stage+".o", stage+".v")
	b.bind(stage+".v", "vector")
}
