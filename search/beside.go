package search

import "github.com/tmacc/tmacc/ir/nest"

// Tiles side by side: a kernel for few columns may read several tiles at once. Memory delivers more data in several streams than in one.

// sideBySide returns a schedule like u that reads `Memory.Tiles` tiles at once, if that costs little more than u.
// Else, and for kernels with a small block of columns or more, it returns u.
//
// It tries both loop orders, and schedules without accumulators of fields, because they may fit the registers better.
// A schedule may cost more than u, because the additional streams make up for it. Then it must keep u's loop order:
// the other order reads activations once for each tile, and the estimate counts those reads too low.
// Super-blocks may change the order all the same. With `Lead` and two columns they gain nothing from two tiles.
// Figures: docs/lab/choices.md, sideBySide.
func (u *scheduled) sideBySide(d *defaults) *scheduled {
	if u.beside == nil {
		u.beside = u.findBeside(d)
	}
	return u.beside
}

func (u *scheduled) findBeside(d *defaults) *scheduled {
	c, tiles := u.choice, d.m.Tiles
	if tiles < 2 || c.Tiles > 1 || c.Cols >= small || c.Block != c.Rows || c.Lead && c.Cols > 1 && d.p.Weight.Super > 0 {
		return u
	}
	c.Tiles = tiles
	if c.Streams == u.streams(d.p, d.m) {
		c.Streams = (&scheduled{choice: c, cost: u.cost, bytes: u.bytes}).streams(d.p, d.m)
	}
	super := d.m.SuperTiles
	c.Streams = ofEach(c.Streams, tiles)
	if d.p.Weight.Super > 0 && c.Table == nil && super != (nest.Streams{}) {
		c.Streams = super
		c.Act *= c.Cols
	}
	worth := d.m.TilesCost
	switch {
	case c.Cols > 1:
		worth = worthTilesMore
	case u.cost > mostArithmetic*reading(u.bytes):
		worth = min(worth, 1)
	}
	same, all := []Choice{c}, []Choice{c}
	for _, order := range []int{0, 1} {
		x := c
		if x.Order = order; order != c.Order {
			if c.Cols == 1 {
				x.Stage = "" // for which the usual order is
			}
			all = append(all, x)
		}
		if x.Factor != "" {
			x.Factor = ""
			all = append(all, x)
			if order == c.Order {
				same = append(same, x)
			}
		}
	}
	alike, fail := d.cheapest(same)
	both, err := d.cheapest(all)
	if err == nil && both.cost > u.cost && d.p.Weight.Super == 0 {
		both, err = alike, fail
	}
	if err != nil || both.cost > worth*u.cost {
		return u
	}
	return both
}

// ofEach returns the prefetches of each of `tiles` tiles side by side, where `s` are those that suit one tile alone.
// A prefetch at Ahead/tiles would come equally early. The function asks two thirds of that distance ahead.
// This loses little with weights in the second-level cache, and gains with weights in the third level or in memory.
// Figures: docs/lab/choices.md, ofEach.
func ofEach(s nest.Streams, tiles int) nest.Streams {
	s.Far = s.Far / tiles / line * line
	if s.Ahead > nearby {
		s.Ahead = s.Ahead * 2 / 3 / tiles / line * line
	}
	return s
}

// mostArithmetic is a ratio: the estimated time of the arithmetic over the time to read the weights.
// Above it, additional streams are not worth any additional arithmetic. Figures: docs/lab/choices.md, mostArithmetic.
const mostArithmetic = 4

// worthTilesMore is the most that a product of several columns may cost with tiles side by side, relative to its cost
// with one tile. Reading matters less than for one column, whose limit is `Memory.TilesCost`.
// Figures: docs/lab/choices.md, worthTilesMore.
const worthTilesMore = 0.99

// halved returns l with tiles that are `Memory.Tiles` times smaller, or l itself. Kernels for few columns read
// `Memory.Tiles` small tiles side by side: they decode and sum the rows of one large tile, in more streams.
//
// The machine must ask for this (`HalvesTiles`). It helps only if the kernel for one column does not already read
// several of l's tiles side by side, mostly because registers are few. Figures: docs/lab/choices.md, HalvesTiles.
func (l *candidate) halved() *candidate {
	m, one := l.m, l.best[1]
	if !m.HalvesTiles || l.base.Rows%m.Tiles != 0 || l.p.Weight.Super > 0 || one.choice.Block != one.choice.Rows || one.sideBySide(l.defaults) != one {
		return l
	}
	h := l.candidate(l.base.divided(l.p, m, m.Tiles))
	h.base.Tiles = m.Tiles
	for _, cols := range []int{1, small} {
		whole, err := l.use(cols)
		if half, fail := h.use(cols); err != nil || fail != nil || half.cost > worthHalving*whole.cost {
			return l
		}
	}
	return h
}

// worthHalving is the most that a product may cost with smaller tiles side by side, relative to its cost with one tile.
// The arithmetic is the same; only the additional pointers cost something.
const worthHalving = 1.02
