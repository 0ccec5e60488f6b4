package main

import (
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/search/space"
)

// drawn is how many schedules are compiled at once, and bred from how many of the best ones. Drivers take minutes for huge shaders: the
// search tries none of more than mostCode bytes or with few lanes, and waits for none longer than mostWait.
const (
	drawn     = 96
	bred      = 6
	mostCode  = 32 << 10
	leastLane = 32
	mostWait  = 3 * time.Second
)

// searched looks for schedules of a problem that are faster at a shape than those that were timed, in the time for that. What it returns
// is compiled and has the bits of the definition.
func (x *lab) searched(b *bench, all []*timed, s shape) (found []*candidate, err error) {
	target, _ := spirv.ByName("spirv/dot")
	sp, err := space.For(all[0].c.problem, target)
	if err != nil {
		return nil, err
	}
	sp = sp.Columns(all[0].c.kernel.Cols).Prepared()
	h := &hunt{lab: x, b: b, sp: sp, shape: s, rng: rand.New(rand.NewSource(1)), seen: map[string]bool{}}
	for _, t := range all {
		if p, err := sp.Parse(t.c.Trace); err == nil {
			h.pool = append(h.pool, kept{p, t})
		}
	}
	known := len(h.pool)
	until := time.Now().Add(x.improve)
	for time.Now().Before(until) && !x.over() {
		h.round(all[0].Problem, until)
	}
	x.log("%s %v: %d schedules timed beside %d that the space has of %d", all[0].Problem, s, h.timed, known, len(all))
	for _, k := range h.pool[:min(len(h.pool), 2*bred)] {
		if k.t.new {
			found = append(found, k.t.c)
		}
	}
	return x.right(found), nil
}

// kept is a point that was timed.
type kept struct {
	at space.Point
	t  *timed
}

// hunt is one search.
type hunt struct {
	*lab
	b     *bench
	sp    *space.Space
	shape shape
	rng   *rand.Rand
	seen  map[string]bool
	pool  []kept // the fastest first
	timed int
}

// round draws, compiles and times some schedules.
func (h *hunt) round(problem string, until time.Time) {
	slices.SortStableFunc(h.pool, func(a, b kept) int { return int(a.t.Ns - b.t.Ns) })
	var points []space.Point
	var entries []entry
	for began := time.Now(); len(points) < drawn && time.Since(began) < h.improve/3; {
		p, err := h.draw()
		if err != nil {
			continue
		}
		trace := p.Trace()
		if key := trace.String(); !h.seen[key] {
			h.seen[key] = true
			points, entries = append(points, p), append(entries, entry{Problem: problem, Cols: 1, Name: fmt.Sprintf("drawn %d", len(h.seen)), Trace: trace})
		}
	}
	for i, c := range h.compiled(entries, until) {
		if c == nil || h.over() || time.Now().After(until.Add(time.Second)) {
			continue
		}
		t, err := h.b.time(c, h.shape, 0, 3)
		if err != nil {
			continue
		}
		t.new = true
		h.timed++
		h.pool = append(h.pool, kept{points[i], t})
		if len(h.pool) > 8*bred {
			slices.SortStableFunc(h.pool, func(a, b kept) int { return int(a.t.Ns - b.t.Ns) })
			if last := h.pool[len(h.pool)-1].t; last.new {
				last.c.free()
			}
			h.pool = h.pool[:len(h.pool)-1]
		}
	}
	slices.SortStableFunc(h.pool, func(a, b kept) int { return int(a.t.Ns - b.t.Ns) })
}

// draw is a sample, a neighbour of one of the best, or a mixture of two of them.
func (h *hunt) draw() (space.Point, error) {
	if best := h.pool[:min(bred, len(h.pool))]; len(best) > 0 {
		one, other := best[h.rng.Intn(len(best))], best[h.rng.Intn(len(best))]
		switch h.rng.Intn(4) {
		case 0, 1:
			return h.sp.Mutate(h.rng, one.at)
		case 2:
			return h.sp.Cross(h.rng, one.at, other.at)
		}
	}
	return h.sp.Sample(h.rng)
}

// compiled compiles schedules, several at a time: nil are those that do not lower, or not in time.
func (x *lab) compiled(all []entry, until time.Time) []*candidate {
	type result struct {
		i int
		c *candidate
	}
	results := make(chan result, len(all))
	until = until.Add(time.Second)
	go x.parallel(len(all), func(i int) {
		var c *candidate
		if time.Now().Before(until) {
			caught(func() (err error) {
				c, err = x.compile(all[i], mostCode)
				return err
			})
		}
		results <- result{i, c}
	})
	out := make([]*candidate, len(all))
	late := time.After(time.Until(until) + mostWait)
	for range all {
		select {
		case r := <-results:
			out[r.i] = r.c
		case <-late:
			return out
		}
	}
	return out
}

// right are the candidates whose small products have the bits of the definition.
func (x *lab) right(all []*candidate) []*candidate {
	wrong := make([]error, len(all))
	x.parallel(len(all), func(i int) { wrong[i] = caught(func() error { return x.checked(all[i]) }) })
	var out []*candidate
	for i, c := range all {
		if wrong[i] != nil {
			x.Refused = append(x.Refused, refused{c.Problem, c.Name + " " + c.Trace.String(), wrong[i].Error(), true})
			continue
		}
		out = append(out, c)
	}
	return out
}

// parallel calls do for 0 to n-1 in their order, several at a time.
func (x *lab) parallel(n int, do func(i int)) {
	var wait sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !x.over(); i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wait.Wait()
}

func (c *candidate) free() { c.pipeline.Free() }
