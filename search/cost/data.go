package cost

import (
	"math"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Data is what calls of code do to memory that is no product's: of an operator, or of a preparation of activations.
type Data struct {
	Trips func(count vir.Extent, listed bool) float64 // of a loop, each time that it is entered
	Step  func(param string) int                      // the bytes that an integer parameter is
	Home  Place                                       // of what comes from far away
	// Far is where the buffer of a parameter begins in a call, in bytes from the first byte of all that comes from Home. Negative: it
	// is the same in each call, and near.
	Far func(param string, call int) int
}

// mostAccesses bounds the accesses of a call that are simulated: longer calls do the same again and again.
const mostAccesses = 1 << 14

// Time is the cycles of a call of selected code whose execution units take p, while a call follows the other.
func (d Data) Time(s *lower.Selected, p Pipeline) float64 {
	if math.IsInf(p.Cycles, 0) {
		return p.Cycles
	}
	g := &program{s: s, data: &d, cycles: map[int]float64{}}
	for _, x := range p.Stretches {
		g.cycles[idOf(x.Loop)] += x.Cycles
	}
	g.top = loop{id: idOf(nil), trips: 1}
	g.add(s.Func.Body, &g.top)
	share := g.top.shorten(mostAccesses)
	r := runner{m: newMemory(s.Machine.Core, d.Home), base: make([]int, len(s.Func.Params)), at: make([]int, g.loops+1)}
	began, late := 0.0, 0.0
	const calls = 3
	for i := range calls {
		if i == 1 {
			began, late, r.works = r.m.done, r.m.late(), 0
		}
		for j, x := range s.Func.Params {
			r.base[j] = (j + 1) << 24
			if far := d.Far(x.Name, i); far >= 0 {
				r.base[j] = weightsAt*line + far
			}
		}
		r.loop(&g.top)
	}
	takes := r.m.done - began + max(0, r.m.late()-late)
	return p.Cycles + max(0, takes-r.works)/(calls-1)/share
}

// accesses are how often a call of l uses memory.
func (l *loop) accesses() (n float64) {
	for _, x := range l.body {
		if x.follows != nil {
			n += x.follows.accesses()
		} else {
			n++
		}
	}
	return n * float64(l.trips)
}

// shorten gives the outermost loops in l fewer trips, so that there are about `most` accesses. It returns the share that is left.
func (l *loop) shorten(most float64) float64 {
	all := l.accesses()
	if all <= most {
		return 1
	}
	for _, x := range l.body {
		if x.follows != nil {
			x.follows.trips = max(1, int(float64(x.follows.trips)*most/all))
		}
	}
	return l.accesses() / all
}

// moved is an access with the bytes that parameters move it by. Lines that are written are brought too, but nobody waits for them.
func (d *Data) moved(s *lower.Selected, in *vir.Instr, a step) step {
	if in.Op == vir.OpStore {
		a = step{kind: near, mem: in.Mem, bytes: 1}
	}
	if a.kind == nothing || !in.Mem.Stepped() {
		return a
	}
	by := func(x vir.Multiple) int {
		if x.Times == 0 {
			return 0
		}
		return x.Times * d.Step(s.Func.Params[x.By].Name)
	}
	for _, x := range in.Mem.Plus {
		a.side += by(x)
	}
	a.mem.Stride = slices.Clone(a.mem.Stride)
	for i, x := range a.mem.Stride {
		a.mem.Stride[i].Bytes += by(x.Multiple)
	}
	return a
}
