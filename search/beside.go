package search

import "github.com/tmacc/tmacc/ir/nest"

// Tiles that a kernel for few columns reads side by side: memory sends more of several streams than of one.

// sideBySide is u, or if it is for fewer columns than a small block what takes as many tiles at once as the machine wants and costs little
// more. Row vector after row vector, or without accumulators of fields, they may fit the registers better; but what costs more than one tile, which more streams are to make up for, is only taken in the order of one tile:
// the other reads activations once for each tile, which the estimate takes too lightly. (Zen 3, of the time by one tile, from memory, the third- and the second-level cache: q1_0 with activations in groups of 32, in its order, 1.045 of the cost, 0.89, 0.91 and 0.91, in the other,
// 1.01, 1.09, 1.09 and 1.08; w3-g128, 1.09 of the cost, 0.87, 0.88 and 0.92, and 1.02 of it, 0.94 to 1.06, 1.04 to 1.09 and 1.08 to 1.1. Not so super-blocks: q6_k, 1.12, 0.76 to 0.8, 0.79 to 0.83 and 1.0, and 1.05, 0.72 to 0.79, 0.81 to 0.84 and 1.0. Zen 5, four columns, of the
// time by one tile, two neighbours: q8_0 and w4-g32 1.14 to 1.17 of 256 columns, 0.75 and 1.13 out of memory. Zen 4, two columns of super-blocks with Lead, from memory and the third-level
// cache: iq4_xs 1.25 and 1.27, q3_k 1.04 and 1.02, q5_k 1.03 to 1.14 and 1.0.)
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
	both, err := d.cheapest(all)
	if err == nil && both.cost > u.cost && d.p.Weight.Super == 0 {
		both, err = d.cheapest(same)
	}
	if err != nil || both.cost > worth*u.cost {
		return u
	}
	return both
}

// ofEach is how each of several tiles side by side is asked for where one would be by s. As early would be Ahead/tiles. (Zen 5, 3 KiB instead of
// 4.5: w1, w3, w4, iq4nl, w2-g128 0.97 to 1.02 of the time from the second-level cache, but iq4nl 1.1, 0.90 to 1.02 from the third-level one, 0.86 to
// 1.01 from memory; 1 KiB 1.03 to 1.08 from memory.)
func ofEach(s nest.Streams, tiles int) nest.Streams {
	s.Far = s.Far / tiles / line * line
	if s.Ahead > nearby {
		s.Ahead = s.Ahead * 2 / 3 / tiles / line * line
	}
	return s
}

// mostArithmetic is how many times as long as reading arithmetic may be estimated to take for more streams to be worth more of it (Zen 3, by two tiles, of the time by one, from memory: q1_0 with activations in groups of 32, 2.9 times,
// 0.89; cb4x16, 14 times, 1.07).
const mostArithmetic = 4

// worthTilesMore is the most that a product of several columns by tiles side by side may cost, of what it costs by one: reading matters less than for
// one column (Machine.TilesCost). (Zen 5, of the time by one, from the second- and third-level cache and from memory: of two columns iq4nl, 0.99, took 0.89, 1 and 0.74;
// w2-g64, 1, 1.14, 1.23 and 1.04. Zen 3, by one over by two, from the second-level cache and from memory: w4-g32 1.19
// and 1.17, q4_0 1.12 and 1.12, w2-g32 1.19 and 1.18.)
const worthTilesMore = 0.99

// halved is l or, where the machine wants that and one column does not read several of its tiles side by side, mostly for want of registers, tiles as many times smaller, of which
// kernels for few columns read as many side by side: they decode and sum what those of one tile do, in as many streams more. (Zen 5 whose memory sends two streams more, w2 by two tiles of two row vectors, of the time by one of
// four, from memory in the same pages: of one column 0.78 to 0.81, of two 0.77 to 0.79, of four 0.92 to 0.94; from caches 0.97 to 1.02, of 256 columns 1.0.)
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
