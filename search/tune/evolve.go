// Package tune searches for schedules by evolution: the fastest schedules have the
// most offspring, and of the offspring a cost model, fitted to what this run has
// measured, decides which are measured next.
package tune

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Space is what Evolve searches: things of type G.
type Space[G any] struct {
	Sample func(rng *rand.Rand) G
	Mutate func(rng *rand.Rand, a, b G) G // a, changed; b may supply parts
	// Near returns things that differ from g in a way that the model cannot judge, nil: there are none. When nothing
	// better has turned up for a while, all things near the best one are measured.
	Near func(g G) []G
	// Join puts together the best parts of all measured things; `gs` are the newest of them. It is nil if things have no
	// parts that can be exchanged. Results that were not proposed before are measured next.
	Join func(gs []G) []G
	// Point estimates g before it is measured. An error drops g; Reason
	// classifies it. It is called for several things at once.
	Point  func(g G) (Point, error)
	Reason func(error) string
	// Expect hears what the model predicts of the cost of g, just before g is measured; nil: nobody.
	Expect func(g G, cost float64)
	// Measure returns the cost of each, or why it has none.
	Measure func(gs []G) []Result
}

// Point is what a cost model knows.
type Point struct {
	ID       string // equal for things that cost the same
	Family   string // one of a few; some members of each family are measured early
	Estimate float64
	Features []float64
}

// Result is a cost, lower is better, or why there is none.
type Result struct {
	Cost   float64
	Ratios []float64 // to the default's time for each purpose; Cost is made of them; 0: not known
	Err    error
	Known  bool // it was measured before: this is no trial
}

// Options bound a search. Zero values are sensible, except for Trials and Rng.
type Options struct {
	Trials   int  // measured at most
	Batch    int  // measured at once, 0: 8
	Propose  int  // new proposals that are lowered for each one measured, 0: 4
	Patience int  // trials without a better one before it ends, 0: Trials
	Random   bool // measure samples as they come, for comparison
	Rng      *rand.Rand
	Progress func(Progress)
}

// keep is how many of the best are returned.
const keep = 8

// Progress is where a search stands.
type Progress struct {
	Trials  int     // measured, and those that failed
	Best    float64 // cost
	Dropped int
}

// Found is a thing and its cost.
type Found[G any] struct {
	G      G
	Cost   float64
	ratios []float64
}

// Outcome is what a search found, the best first.
type Outcome[G any] struct {
	Best    []Found[G]
	Trials  int
	Tried   []Tried        // each trial, in turn, and what was known
	Dropped map[string]int // by reason
	Ended   string         // trials, patience, interrupted or exhausted
}

// Tried is a trial: the estimate of a thing that was measured, and the result.
type Tried struct {
	Family string
	Cost   float64 // 0: it failed
}

// parents is how many of the best have offspring.
const parents = 24

// evolution is a search in progress.
type evolution[G any] struct {
	Space[G]
	Options
	out      Outcome[G]
	measured []Found[G]   // the best first
	leaders  [][]Found[G] // for each purpose, if there are several, the best by its ratio
	purposes int          // that have ratios
	seen     map[string]bool
	pool     []proposal[G]  // lowered, not measured
	tried    map[string]int // by family
	next     []proposal[G]  // joined, or near what was the best, not measured
	around   bool           // the neighbours of the best were proposed
	model    model
	since    int // trials since the best was found
}

// proposal is a thing that can be measured.
type proposal[G any] struct {
	g         G
	p         Point
	predicted float64
}

// Evolve searches s, from seeds and samples, until the trials or the patience are
// used up, nothing new turns up, or ctx ends: then too it returns what it has.
// Equal seeds of Rng and equal results of Measure give equal outcomes.
func Evolve[G any](ctx context.Context, s Space[G], opt Options, seeds ...G) Outcome[G] {
	opt.Batch, opt.Propose = cmp.Or(opt.Batch, 8), cmp.Or(opt.Propose, 4)
	opt.Patience = cmp.Or(opt.Patience, opt.Trials)
	e := &evolution[G]{Space: s, Options: opt, seen: map[string]bool{}, tried: map[string]int{}}
	e.out.Dropped = map[string]int{}
	for {
		switch {
		case ctx.Err() != nil:
			e.out.Ended = "interrupted"
		case e.out.Trials >= e.Trials:
			e.out.Ended = "trials"
		case e.since >= e.Patience:
			e.out.Ended = "patience"
		}
		if e.out.Ended != "" {
			break
		}
		if len(seeds) > 0 {
			some := seeds[:min(len(seeds), atOnce)]
			seeds = seeds[len(some):]
			for new := e.points(ctx, some); len(new) > 0 && e.out.Trials < e.Trials && ctx.Err() == nil; { // known ones are no trials
				n := min(len(new), e.Trials-e.out.Trials)
				e.measure(ctx, new[:n])
				new = new[n:]
			}
			continue
		}
		batch := e.propose(ctx)
		if len(batch) == 0 && ctx.Err() == nil {
			e.out.Ended = "exhausted"
			break
		}
		e.measure(ctx, batch)
	}
	e.out.Best = e.measured[:min(len(e.measured), keep)]
	return e.out
}

// points lowers things, on all cores. It drops a thing that cannot be lowered or is known. When ctx ends, it lowers no other, and returns none.
func (e *evolution[G]) points(ctx context.Context, gs []G) (out []proposal[G]) {
	points, errs := make([]Point, len(gs)), make([]error, len(gs))
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(len(gs), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(gs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				points[i], errs[i] = e.Point(gs[i])
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	for i, g := range gs {
		p, err := points[i], errs[i]
		switch {
		case err != nil:
			e.out.Dropped[e.Reason(err)]++
		case e.seen[p.ID]:
			e.out.Dropped["known"]++
		default:
			e.seen[p.ID] = true
			out = append(out, proposal[G]{g, p, 0})
		}
	}
	return out
}

// tries is how often a generation looks for something new before it gives up.
const tries = 200

// atOnce is how many proposals are lowered together.
const atOnce = 16

// mostPooled is how many proposals are kept that were not measured: they may look better
// when the model knows more.
const mostPooled = 400

// stuck is the number of trials without a better one after which the neighbours of the best are measured.
const stuck = 32

// nearest queues the neighbours of the best to be measured next, if the search is stuck.
func (e *evolution[G]) nearest(ctx context.Context) {
	if len(e.next) > 0 || e.Near == nil || e.Random || e.since < stuck || len(e.measured) == 0 || e.around {
		return
	}
	for _, p := range e.pool {
		delete(e.seen, p.p.ID)
	}
	e.pool = nil
	e.around = true
	e.next = e.points(ctx, e.Near(e.measured[0].G))
	e.predict(e.next)
}

// propose takes the next batch: what was joined, or is near the best, or out of the pool.
func (e *evolution[G]) propose(ctx context.Context) []proposal[G] {
	want := min(e.Batch, e.Trials-e.out.Trials)
	if e.nearest(ctx); len(e.next) > 0 {
		batch := e.next[:min(want, len(e.next))]
		e.next = e.next[len(batch):]
		return batch
	}
	if e.Random {
		e.fill(ctx, want, want-len(e.pool))
	} else {
		fresh := want * e.Propose
		if len(e.measured) == 0 {
			fresh *= firstGeneration
		}
		e.fill(ctx, want, fresh)
		e.rank(want)
	}
	batch := slices.Clone(e.pool[:min(want, len(e.pool))])
	e.pool = e.pool[len(batch):]
	for _, p := range e.pool[min(len(e.pool), mostPooled):] {
		delete(e.seen, p.p.ID)
	}
	e.pool = slices.Clone(e.pool[:min(len(e.pool), mostPooled)])
	return batch
}

// firstGeneration: for the first batch there are that many times the proposals of the next ones.
const firstGeneration = 6

// fill adds `fresh` new samples, and offspring, to the pool for a batch of `want`.
func (e *evolution[G]) fill(ctx context.Context, want, fresh int) {
	for n := 0; fresh > 0 && n < tries*want && ctx.Err() == nil; n += atOnce {
		var gs []G
		for range atOnce {
			gs = append(gs, e.offspring())
		}
		found := e.points(ctx, gs)
		fresh -= len(found)
		if e.pool = append(e.pool, found...); !e.Random {
			e.predict(e.pool)
		}
	}
}

// A few members of every family are measured, as a family shares what the estimate does not see;
// but no proposal that is predicted to take twice as long as the best (a logarithm).
const (
	tryFamily  = 2
	outOfReach = 0.7
)

// predict sorts proposals by what the model predicts.
func (e *evolution[G]) predict(all []proposal[G]) {
	for i := range all {
		all[i].predicted = e.model.predict(all[i].p)
	}
	slices.SortStableFunc(all, func(a, b proposal[G]) int { return cmp.Compare(a.predicted, b.predicted) })
}

// rank puts the next batch first: three quarters of it are the model's favourites, the
// others are the best of families that were hardly tried, or of the better half by chance.
func (e *evolution[G]) rank(want int) {
	e.predict(e.pool)
	front := min(len(e.pool), want-want/4)
	tried := maps.Clone(e.tried)
	for _, x := range e.pool[:front] {
		tried[x.p.Family]++
	}
	next := front
	for i := front; i < len(e.pool) && next < want && e.pool[i].predicted < e.pool[0].predicted+outOfReach; i++ {
		if x := e.pool[i]; tried[x.p.Family] < tryFamily {
			tried[x.p.Family]++
			e.pool = slices.Insert(slices.Delete(e.pool, i, i+1), next, x)
			next++
		}
	}
	others := e.pool[min(next, len(e.pool)):max(next, len(e.pool)/2)]
	e.Rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
}

// offspring is a sample, or a mutation of one of the best: measured ones, or the ones that are predicted to be fast.
func (e *evolution[G]) offspring() G {
	samples := 5 // every fifth is a sample, at first every second
	if len(e.measured) == 0 {
		samples = 2
	}
	if len(e.measured)+len(e.pool) == 0 || e.Random || e.Rng.Intn(samples) == 0 {
		return e.Sample(e.Rng)
	}
	if len(e.pool) > 0 && (len(e.measured) == 0 || e.Rng.Intn(3) == 0) {
		return e.Mutate(e.Rng, e.pool[e.early(len(e.pool))].g, e.pool[e.early(len(e.pool))].g)
	}
	return e.Mutate(e.Rng, e.parent(), e.parent())
}

// early draws an index below n that stands for a parent; a low one is likelier.
func (e *evolution[G]) early(n int) int {
	x := e.Rng.Float64()
	return int(x * x * float64(min(n, parents)))
}

// parent picks one of the best things; a better one is likelier. Half the time it picks from the best by the cost of all
// purposes, else from the best for one purpose: such a thing may lack only a part that others have.
func (e *evolution[G]) parent() G {
	best := e.measured
	if n := len(e.leaders); n > 0 && e.Rng.Intn(2) == 0 {
		if by := e.leaders[e.Rng.Intn(n)]; len(by) > 0 {
			best = by
		}
	}
	return best[e.early(len(best))].G
}

// lead finds the best things by the ratio of each of several purposes. Things with equal ratios share the part that
// matters for the purpose; of them it takes the one with the best cost of all purposes.
func (e *evolution[G]) lead() {
	if e.leaders = nil; e.purposes < 2 {
		return
	}
	for i := range e.purposes {
		by := slices.DeleteFunc(slices.Clone(e.measured), func(f Found[G]) bool { return len(f.ratios) <= i || f.ratios[i] == 0 })
		slices.SortStableFunc(by, func(a, b Found[G]) int { return cmp.Compare(a.ratios[i], b.ratios[i]) })
		by = slices.CompactFunc(by, func(a, b Found[G]) bool { return a.ratios[i] == b.ratios[i] })
		e.leaders = append(e.leaders, by[:min(len(by), parents)])
	}
}

// measure measures a batch and learns from its results.
func (e *evolution[G]) measure(ctx context.Context, batch []proposal[G]) {
	var gs []G
	for _, x := range batch {
		gs = append(gs, x.g)
		if e.Expect != nil {
			e.Expect(x.g, math.Exp(e.model.predict(x.p)))
		}
	}
	best := math.Inf(1)
	if len(e.measured) > 0 {
		best = e.measured[0].Cost
	}
	for _, x := range batch {
		e.tried[x.p.Family]++
	}
	var good []G
	for i, r := range e.Measure(gs) {
		if broken := (*Unmeasured)(nil); errors.As(r.Err, &broken) || errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, context.DeadlineExceeded) {
			continue // no trial
		}
		e.out.Tried = append(e.out.Tried, Tried{batch[i].p.Family, r.Cost})
		if !r.Known {
			e.out.Trials++
			e.since++
		}
		if r.Err != nil {
			e.out.Dropped[e.Reason(r.Err)]++
			continue
		}
		if r.Cost < best {
			best, e.since, e.around = r.Cost, 0, false
		}
		e.measured, good = append(e.measured, Found[G]{gs[i], r.Cost, r.Ratios}), append(good, gs[i])
		e.purposes = max(e.purposes, len(r.Ratios))
		e.model.add(batch[i].p, r.Cost)
	}
	slices.SortStableFunc(e.measured, func(a, b Found[G]) int { return cmp.Compare(a.Cost, b.Cost) })
	e.lead()
	e.model.fit()
	if e.Join != nil && !e.Random {
		e.next = append(e.points(ctx, e.Join(good)), e.next...)
	}
	if e.Progress != nil {
		dropped := 0
		for _, n := range e.out.Dropped {
			dropped += n
		}
		e.Progress(Progress{e.out.Trials, best, dropped})
	}
}
