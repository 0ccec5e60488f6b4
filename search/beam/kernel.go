package beam

import (
	"context"
	"math"
	"slices"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
)

// kernel is the kernel of a point, and how long calls take.
type kernel struct {
	*schedule.Kernel
	point  space.Point
	code   *lower.Kernel // with registers, nil: not chosen
	err    error
	wrong  float64                  // if there is no kernel: how much is wrong, +Inf: more than other decisions put right
	lines  [cost.Shared + 1]float64 // cycles of a call for the lines of weights in a place
	least  float64                  // cycles of a call without any waiting, or less if its score is no less than a bound even so
	cycles map[cost.Place]float64   // of a call of a core alone, with weights in a place, of places that were asked for
}

// at is the cycles of a call, or less if that was not asked for.
func (k *kernel) at(p cost.Place) float64 { return max(k.least, k.lines[p], k.cycles[p.Alone()]) }

// time is that of n activations by a row of weights at a place, in cycles for cost.TypicalK elements of K.
func (k *kernel) time(n int, at cost.Place) float64 {
	return cost.Blocks(k.at(at), k.at(cost.L2), k.Cols, n) / float64(k.Rows)
}

// knows says that k was evaluated for some purposes.
func (k *kernel) knows(ps []Purpose) bool {
	return !slices.ContainsFunc(ps, func(x Purpose) bool { return k.cycles[x.At.Alone()] == 0 })
}

// score is the weighted mean of the logarithms of the times of some purposes, as multiples of the least times that are known. What is much
// slower than it could be counts more than what that gains elsewhere.
func (c *chooser) score(ks set, ps []Purpose) float64 {
	sum, all := 0.0, 0.0
	for _, x := range ps {
		t := logarithm(ks.time(x.N, x.At)) - c.least[x.Purpose]
		if c.least[x.Purpose] > 0 && t > 0 {
			t += float64(uneven * t * t)
		}
		sum += float64(x.Weight * t)
		all += x.Weight
	}
	return sum / all
}

// uneven is how much more than its logarithm counts, for each unit of that.
const uneven = 2

// leastOf makes the times of some purposes by sets the least known ones.
func (c *chooser) leastOf(ps []Purpose, all []set) {
	for _, x := range ps {
		c.least[x.Purpose] = math.Inf(1)
		for _, ks := range all {
			c.least[x.Purpose] = min(c.least[x.Purpose], logarithm(ks.time(x.N, x.At)))
		}
	}
}

// logarithm is that of x to one part in a million, the same on every host: their libraries differ in the last bits.
func logarithm(x float64) float64 { return float64(math.Round(math.Log(x)*(1<<20)) / (1 << 20)) }

// time is that of n activations, in the blocks that the runtime cuts them into. The first block brings the weights near.
func (ks set) time(n int, at cost.Place) (time float64) {
	for i, blocks := range abi.CutOf(len(ks), func(i int) int { return ks[i].Cols }, n).Blocks(len(ks)) {
		time += ks[i].time(blocks*ks[i].Cols, at)
		at = cost.L2
	}
	return time
}

// muchCode is how wrong code is that is too long: more than code that lacks registers, and less than none.
const muchCode = 1e4

// find evaluates a point for some purposes, unless its score is no less than bound.
func (c *chooser) find(x space.Point, ps []Purpose, bound float64) *kernel {
	key := x.Trace().Key()
	c.mu.Lock()
	k := c.kernels[key]
	c.mu.Unlock()
	if k == nil || k.err == nil && c.score(set{k}, ps) < bound && !k.knows(ps) {
		k = &kernel{point: x, wrong: math.Inf(1)}
		if k.Kernel, k.err = c.space.Kernel(x); k.err == nil {
			for at := range k.lines {
				k.lines[at] = cost.Bringing(c.target.Machine().Core, k.Kernel, cost.Place(at))
			}
			k.err = c.evaluate(k, c.codeOf(k.Kernel), ps, bound)
		}
		c.mu.Lock()
		c.kernels[key] = k
		c.mu.Unlock()
	}
	return k
}

// search is s among kernels for some purposes.
func (c *chooser) search(s Search, ps []Purpose) *Search {
	s.Cost = func(ctx context.Context, x space.Point, bound float64) (float64, error) {
		if err := ctx.Err(); err != nil {
			return math.Inf(1), err
		}
		k := c.find(x, ps, bound)
		if k.err != nil {
			return k.wrong, k.err
		}
		return c.score(set{k}, ps), nil
	}
	s.Distinct = true
	s.Skip = func(rule string, best *Found) bool {
		switch {
		case rule == "chunk": // the model knows nothing about it
			return true
		case rule == "prefetch":
			return best.err != nil || c.waits(best.Point, ps) < worthPrefetching
		}
		return best.err == nil && slices.Contains(settled, rule)
	}
	return &s
}

// settled are rules whose other decisions put wrong kernels right, and hardly ever make right ones faster.
var settled = []string{
	"fill", "decompose", "entries", "call", "runs", "runs in a call", "groups b", "groups c", "groups", "books", "cells", "cells spelled out",
	"fields", "instruction", "sums", "stage",
}

// worthPrefetching is a part of the time: kernels that wait less for memory have no other prefetches.
const worthPrefetching = 0.01

// waits is how much the score of a point is for what it waits for memory.
func (c *chooser) waits(x space.Point, ps []Purpose) float64 {
	k := *c.find(x, ps, math.Inf(1))
	with := c.score(set{&k}, ps)
	k.cycles = nil
	return with - c.score(set{&k}, ps)
}
