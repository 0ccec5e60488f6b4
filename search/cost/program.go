package cost

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// program is what a call of a kernel does to memory. Calls take fewer elements of K than TypicalK if their weights are many: what they wait for is
// the same from page to page.
type program struct {
	k      *schedule.Kernel
	s      *lower.Selected
	top    loop
	parts  [][]int // of the rows of a tile that each call takes, the offset of each buffer; -1: no weights
	loops  int     // their IDs are below
	trips  int     // of the loop over K
	share  float64 // of the iterations over TypicalK
	sides  int     // tiles of a call
	cycles map[int]float64
}

// loop is a loop: its ID, its trips, the steps of its body, and the instructions after the last one, which take so long each.
type loop struct {
	id, trips   int
	body        []step
	rest, works float64
	each        float64
}

// step is some instructions: an access to memory is the last of them, or a loop follows them.
type step struct {
	gap, works float64 // instructions, and cycles that they take
	kind       kind
	bytes      int
	buf, off   int
	moves      []vir.Stride
	follows    *loop
}

// kind is how an instruction uses memory.
type kind int

const (
	nothing kind = iota
	load
	near   // a prefetch into the first-level cache
	second // a prefetch into the second-level cache
)

// newProgram is what calls of k by its code s do, whose execution units take p.
func newProgram(k *schedule.Kernel, s *lower.Selected, p Pipeline) *program {
	g := &program{k: k, s: s, sides: max(k.Rows/k.Weights.TileM, 1), cycles: map[int]float64{}}
	g.place()
	full := (k.FilledK(TypicalK) + k.StepK - 1) / k.StepK
	bytes := k.Weights.TileBytes(TypicalK) * g.sides / len(g.parts)
	g.trips = max(1, min(full, full*simulated/max(bytes, 1)))
	g.share = float64(g.trips) / float64(full)
	for _, x := range p.Stretches {
		g.cycles[idOf(x.Loop)] += x.Cycles
	}
	g.top = loop{id: idOf(nil), trips: 1}
	g.add(s.Func.Body, &g.top)
	return g
}

// idOf is the ID of a loop, -1 of none.
func idOf(l *vir.Loop) int {
	if l == nil {
		return -1
	}
	return l.ID
}

// place finds where the rows of each call begin in a tile.
func (g *program) place() {
	rows := min(g.k.Rows, g.k.Weights.TileM)
	for row := 0; row < g.k.Weights.TileM; row += rows {
		at := make([]int, len(g.s.Func.Params))
		for i, x := range g.s.Func.Params {
			at[i] = -1
			if part := g.k.Weights.Part(x.Name); part != nil {
				at[i] = part.Offset(row, 0)
			}
		}
		g.parts = append(g.parts, at)
	}
}

// tileBytes is how far one tile is from the next.
func (g *program) tileBytes() int { return g.k.Weights.TileBytes(g.trips * g.k.StepK) }

// add adds a body to l. Instructions of a loop take equally long.
func (g *program) add(body []vir.Node, l *loop) {
	n := 0
	for _, x := range body {
		if in, ok := x.(*vir.Instr); ok && g.s.Rows[in] != nil {
			n++
		}
	}
	l.each = g.cycles[l.id] / float64(max(n, 1))
	for _, x := range body {
		switch x := x.(type) {
		case *vir.Instr:
			if g.s.Rows[x] == nil {
				continue
			}
			l.rest++
			l.works = float64(l.rest * l.each)
			if a := g.access(x); a.kind != nothing {
				l.end(a)
			}
		case *vir.Loop:
			g.loops = max(g.loops, x.ID+1)
			if in := (&loop{id: x.ID, trips: g.tripsOf(x)}); in.trips > 0 {
				g.add(x.Body, in)
				l.end(step{follows: in})
			}
		}
	}
}

// end ends the instructions since the last step.
func (l *loop) end(x step) {
	x.gap, x.works, l.rest, l.works = l.rest, l.works, 0, 0
	l.body = append(l.body, x)
}

// tripsOf is how often a loop runs: over lists of outliers, which are rare, never.
func (g *program) tripsOf(l *vir.Loop) int {
	switch {
	case l.List > 0:
		return 0
	case l.Count.Param >= 0:
		return g.trips
	}
	return l.Count.Const
}

// access is what an instruction reads or asks for. Results are written to lines that stay where they are.
func (g *program) access(in *vir.Instr) step {
	if !in.HasMem() || in.Op == vir.OpStore {
		return step{}
	}
	a := step{kind: load, buf: in.Mem.Buf, off: in.Mem.Off, moves: in.Mem.Stride, bytes: 4}
	switch {
	case in.Op == vir.OpPrefetch:
		a.kind, a.bytes = near, 1
	case in.Op == vir.OpPrefetch2:
		a.kind, a.bytes = second, 1
	case in.Fold > 0 && in.FoldUnit > 0:
		a.bytes = in.FoldUnit
	case in.Fold > 0:
		a.bytes = in.FoldType.Bytes()
	case in.Op == vir.OpLoad:
		a.bytes = g.s.Func.Regs[in.Dst].Bytes()
	}
	for _, x := range in.Mem.Plus {
		if x.Times != 0 && g.s.Func.Params[x.By].Name == lower.ParamName(nest.StepParam("side")) {
			a.off += x.Times * (rowsApart / g.sides / g.k.Weights.TileM * g.tileBytes())
		}
	}
	return a
}

// run simulates calls one after the other. It returns what a call takes once the caches are warm, and what it would take without any waiting.
func (g *program) run(m *memory) (takes, works float64) {
	r := runner{m: m, base: make([]int, len(g.s.Func.Params)), at: make([]int, g.loops+1)}
	tile := g.tileBytes()
	before := max(1, (warm+tile*g.sides-1)/(tile*g.sides))
	began, late := 0.0, 0.0
	for i := range 2*before + 1 {
		if i == before {
			began, late, r.works = m.done, m.late(), 0
		}
		for _, part := range g.parts {
			for j, offset := range part {
				r.base[j] = (j + 1) << 24
				if offset >= 0 {
					r.base[j] = weightsAt*line + i*tile + offset
				}
			}
			r.loop(&g.top)
		}
	}
	calls := float64((before + 1) * len(g.parts))
	return (m.done - began + max(0, m.late()-late)) / calls, r.works / calls
}

// runner runs loops.
type runner struct {
	m     *memory
	base  []int // addresses of buffers
	at    []int // iterations of loops, by ID and 1
	works float64
}

func (r *runner) loop(l *loop) {
	for i := range l.trips {
		r.at[l.id+1] = i
		for j := range l.body {
			x := &l.body[j]
			r.advance(x.gap, x.works, l.each)
			switch {
			case x.follows != nil:
				r.loop(x.follows)
			case x.kind != nothing:
				r.m.access(x.kind, r.address(x), x.bytes)
			}
		}
		r.advance(l.rest, l.works, l.each)
	}
	r.at[l.id+1] = 0
}

// advance runs n instructions, which take so long in all, and each.
func (r *runner) advance(n, works, each float64) {
	if n > 0 {
		r.works += works
		r.m.advance(n, works, each)
	}
}

func (r *runner) address(x *step) int {
	a := r.base[x.buf] + x.off
	for _, s := range x.moves {
		a += s.Bytes * r.at[s.Loop+1]
	}
	return a
}
