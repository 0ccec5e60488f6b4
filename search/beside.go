package search

import "github.com/tmacc/tmacc/ir/nest"

// Tiles that a kernel for few columns reads side by side: memory sends more of several streams than of one.

// sideBySide is u, or if it is for fewer columns than a small block what takes as many tiles at once as the machine wants and costs little
// more. Row vector after row vector, or without accumulators of fields, they may fit the registers better; but what costs more than one tile, which more streams are to
// make up for, is only taken in the order of one tile: the other reads activations once for each tile, which the estimate takes too lightly. That is not so of super-blocks,
// but of two columns of those with Lead two tiles gain nothing. Figures: docs/lab/choices.md, sideBySide.
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

// ofEach is how each of several tiles side by side is asked for where one would be by s. As early would be Ahead/tiles; two thirds of that lose little from
// the second-level cache and gain from the third-level one and from memory. Figures: docs/lab/choices.md, ofEach.
func ofEach(s nest.Streams, tiles int) nest.Streams {
	s.Far = s.Far / tiles / line * line
	if s.Ahead > nearby {
		s.Ahead = s.Ahead * 2 / 3 / tiles / line * line
	}
	return s
}

// mostArithmetic is how many times as long as reading arithmetic may be estimated to take for more streams to be worth more of it.
// Figures: docs/lab/choices.md, mostArithmetic.
const mostArithmetic = 4

// worthTilesMore is the most that a product of several columns by tiles side by side may cost, of what it costs by one: reading matters less than for
// one column (Memory.TilesCost). Figures: docs/lab/choices.md, worthTilesMore.
const worthTilesMore = 0.99

// halved is l or, where the machine wants that and one column does not read several of its tiles side by side, mostly for want of registers, tiles as many times smaller, of which
// kernels for few columns read as many side by side: they decode and sum what those of one tile do, in as many streams more.
// Figures: docs/lab/choices.md, HalvesTiles.
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

// worthHalving is the most that a product by smaller tiles side by side may cost, of what it costs by one: the same, but for pointers.
const worthHalving = 1.02
