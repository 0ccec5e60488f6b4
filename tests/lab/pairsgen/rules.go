package main

import (
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
)

// all makes pairs, section by section.
var all = []struct {
	name string
	run  func(*gen)
}{
	{"Streams", (*gen).streams}, {"SlowLine", (*gen).slowLine}, {"SlowOne", (*gen).slowOne}, {"SlowFew", (*gen).slowFew},
	{"Scattered", (*gen).scattered}, {"Alone", (*gen).alone}, {"Lead", (*gen).lead}, {"Act", (*gen).act}, {"Tables", (*gen).tables},
	{"GroupLookups", (*gen).groupLookups}, {"Stride", (*gen).stride}, {"Skipping", (*gen).skipping}, {"Tiles", (*gen).tiles},
	{"TilesCost", (*gen).tilesCost}, {"SuperTiles", (*gen).superTiles}, {"HalvesTiles", (*gen).halvesTiles}, {"RowFields", (*gen).rowFields},
	{"DecodeFirst", (*gen).decodeFirst}, {"Widths", (*gen).widths}, {"tightest", (*gen).tightest}, {"worthFilling", (*gen).worthFilling},
	{"wholeShares", (*gen).wholeShares}, {"fissioned", (*gen).fissioned}, {"withoutSuper", (*gen).withoutSuper}, {"fieldsApart", (*gen).fieldsApart},
	{"sideBySide", (*gen).sideBySide}, {"ofEach", (*gen).ofEach}, {"mostArithmetic", (*gen).mostArithmetic}, {"worthTilesMore", (*gen).worthTilesMore},
	{"tablesWin", (*gen).tablesWin}, {"rest", (*gen).rest}, {"families", (*gen).families},
}

// prefetched compares prefetches x and y of the default by one tile, or of what change makes of it.
func prefetched(e env, name, variant string, n int, x, y nest.Streams, change func(search.Choice) (search.Choice, error)) makes {
	return func() (a, b side, err error) {
		c, err := base(name, e, variant, n)
		if err == nil && change != nil {
			c, err = change(c)
		}
		return asks(c, x), asks(c, y), err
	}
}

// twoTiles compares two tiles with prefetches x and one with y.
func twoTiles(e env, name string, n int, x, y func(search.Choice) nest.Streams) makes {
	return func() (a, b side, err error) {
		variant := "one"
		if strings.HasPrefix(name, "q1_0") && e == zen3b {
			variant = "dots" // the default of today is by tables
		}
		c, err := base(name, e, variant, n)
		if err != nil {
			return c, c, err
		}
		b = asks(c, y(c))
		a, err = beside(name, e, b, x(b))
		return a, b, err
	}
}

func always(s nest.Streams) func(search.Choice) nest.Streams {
	return func(search.Choice) nest.Streams { return s }
}

// own are the prefetches of a choice, for one column.
func own(c search.Choice) nest.Streams {
	s := c.Streams
	if c.Table == nil && c.Cols > 0 {
		s.Act /= c.Cols
	}
	return s
}

func ownOfEach(c search.Choice) nest.Streams { return ofEach(own(c)) }

func (g *gen) streams() {
	const sec = "Streams"
	for i, r := range g.rows(sec, 1) {
		alone, both := g.cell(sec, 1, i+1, 2), g.cell(sec, 1, i+1, 3)
		g.add(emerald, r[0], 1, "memory", spanOf(alone.Cell).over(spanOf(both.Cell)), table(sec, alone, both), prefetched(emerald, r[0], "", 1, farther, nest.Streams{Ahead: farther.Ahead}, nil))
	}
	every := farther
	every.Every = true
	g.add(emerald, "w4", 1, "l2", span{ratio: 1.2}, prose(sec, "A `Far` for each line, instead of half of them (`Every`), costs w4 a fifth from l2."), prefetched(emerald, "w4", "", 1, every, farther, nil))
	w8 := "Weights of 8 bits have no `Far`: they run at 35 weights a cycle from l2 without it and 27 with it, and at 5.6 and 5.7 from memory."
	g.add(emerald, "w8", 1, "l2", span{ratio: 35. / 27}, prose(sec, w8), prefetched(emerald, "w8", "", 1, farther, nest.Streams{Ahead: farther.Ahead}, nil))
	g.add(emerald, "w8", 1, "memory", span{ratio: 5.6 / 5.7}, prose(sec, w8), prefetched(emerald, "w8", "", 1, farther, nest.Streams{Ahead: farther.Ahead}, nil))
	// Zen 4: shares by streams, near and far.
	by := []nest.Streams{farther, near, far}
	for i, r := range g.rows(sec, 2) {
		for x := 0; x < 3; x++ {
			for y := 0; y < x; y++ {
				a, b := g.cell(sec, 2, i+1, x+2), g.cell(sec, 2, i+1, y+2)
				if a.Cell != "" && b.Cell != "" {
					g.add(zen4, r[0], 1, "memory", spanOf(b.Cell).over(spanOf(a.Cell)), table(sec, a, b), prefetched(zen4, r[0], "one", 1, by[x], by[y], nil))
				}
			}
		}
	}
	// Zen 3, over 128 bytes ahead, w1 over streams.
	for i, r := range g.rows(sec, 3) {
		than := near
		if r[0] == "w1" {
			than = farther
		}
		for _, x := range []struct {
			col   int
			s     nest.Streams
			place string
		}{{2, steady, "memory"}, {3, steady, "l3"}, {4, far, "memory"}, {5, far, "l3"}, {6, oneKiB, "memory"}} {
			if c := g.cell(sec, 3, i+1, x.col); c.Cell != "" {
				g.add(zen3, r[0], 1, x.place, spanOf(c.Cell), table(sec, c), prefetched(zen3, r[0], "one", 1, x.s, than, nil))
			}
		}
	}
	for _, x := range []struct {
		name, text string
		memory, l3 float64
	}{{"q4_0", "q4_0 0.62 and 0.96", .62, .96}, {"w8", "w8 0.90 and 0.93", .9, .93}, {"w2", "w2 0.71 and 0.95", .71, .95}} {
		g.add(zen3, x.name, 4, "memory", span{ratio: x.memory}, prose(sec, x.text), prefetched(zen3, x.name, "one", 4, steady, near, nil))
		g.add(zen3, x.name, 4, "l3", span{ratio: x.l3}, prose(sec, x.text), prefetched(zen3, x.name, "one", 4, steady, near, nil))
	}
	g.leave(left{Section: sec, Text: "w1 0.97 and w3 1.09", Reason: "the page does not say where weights were"})
	// Zen 5.
	eight := nest.Streams{Ahead: 8 << 10, Act: 128}
	for i, r := range g.rows(sec, 4) {
		name, n := r[0], 1
		if x, ok := strings.CutSuffix(name, ", four columns"); ok {
			name, n = x, 4
		}
		a, b := g.cell(sec, 4, i+1, 3), g.cell(sec, 4, i+1, 2)
		g.add(zen5, name, n, "memory", spanOf(b.Cell).over(spanOf(a.Cell)), table(sec, a, b), func() (a, b side, err error) {
			c, err := base(name, zen5, "likezen4", n)
			return asks(c, eight), c, err
		})
	}
	four := "With 4 KiB ahead w1 has 0.73 and w3 0.84"
	for _, x := range []struct {
		name        string
		four, eight float64
	}{{"w1", .73, .90}, {"w3", .84, .92}} {
		g.add(zen5, x.name, 1, "memory", span{ratio: x.four / x.eight}, prose(sec, four), prefetched(zen5, x.name, "one", 1, eight, nest.Streams{Ahead: 4 << 10, Act: 128}, nil))
	}
	g.add(zen5, "w1", 4, "memory", span{ratio: 65. / 70}, prose(sec, "Then four columns of w1 take 70 us, and 65 with 9 KiB"), prefetched(zen5, "w1", "one", 4, early, eight, nil))
}

func (g *gen) slowLine() {
	const sec = "SlowLine"
	for _, x := range []struct {
		name, text string
		ratio      float64
	}{{"q4_0", "q4_0 0.78", .78}, {"w4", "w4 0.81", .81}, {"w8", "w8 1.2", 1.2}} {
		g.add(zen4, x.name, 4, "memory", span{ratio: x.ratio}, prose(sec, x.text), prefetched(zen4, x.name, "one", 4, far, near, nil))
	}
	for i, r := range g.rows(sec, 1) {
		name, _, _ := strings.Cut(r[0], ",")
		for j, place := range []string{"l2", "l3", "memory"} {
			if c := g.cell(sec, 1, i+1, j+2); c.Cell != "" {
				g.add(zen5, name, 1, place, spanOf(c.Cell), table(sec, c), prefetched(zen5, name, "one", 1, nothing, early, nil))
			}
		}
	}
	g.leave(left{Section: sec, Text: "w3 4.3, w4 2.4, with four columns 7", Reason: "cycles of work on a line, one schedule each"})
	g.leave(left{Section: sec, Text: "w8 with 1.39 cycles (1.45 with two columns) and q8_0 with 1.48; w4 has 1.55", Reason: "cycles of work on a line, one schedule each"})
	g.leave(left{Section: sec, Text: "With four columns 1.2.", Reason: "the page names no format"})
}

var inRow = regexp.MustCompile(`, two columns( by two tiles)?$`)

func (g *gen) slowOne() {
	const sec = "SlowOne"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "cycles of work on a line, one schedule each"})
	for i, r := range g.rows(sec, 1) {
		name, n := r[0], 1
		var change func(search.Choice) (search.Choice, error)
		if m := inRow.FindStringSubmatch(name); m != nil {
			name, n = inRow.ReplaceAllString(name, ""), 2
			if m[1] != "" {
				change = func(c search.Choice) (search.Choice, error) { return beside(name, zen4, c, near) }
			}
		}
		for j, place := range []string{"memory", "l3"} {
			c := g.cell(sec, 1, i+1, j+3)
			if c.Cell == "" {
				continue
			}
			x, y := near, far
			if change != nil { // prefetches of each tile
				y = ofEach(far)
			}
			g.add(zen4, name, n, place, spanOf(c.Cell), table(sec, c), prefetched(zen4, name, "one", n, x, y, change))
		}
	}
}

func (g *gen) slowFew() {
	const sec = "SlowFew"
	also := nest.Streams{Ahead: 2 << 10, Far: 8 << 10, Every: true, Act: 128}
	for i, r := range g.rows(sec, 1) {
		for _, name := range strings.Split(r[0], ", ") {
			for j, n := range []int{4, 8} {
				c := g.cell(sec, 1, i+1, j+2)
				g.add(zen4, name, n, "memory", spanOf(c.Cell).inverse(), table(sec, c), prefetched(zen4, name, "one", n, also, far, nil))
			}
		}
	}
	for _, x := range []struct {
		name, text string
		n          int
		speed      float64
	}{{"w2", "w2 1.05", 2, 1.05}, {"q4_0", "q4_0 1.04", 2, 1.04}, {"w4", "but w4 0.95", 2, .95}, {"ternary", "ternary 1.1", 1, 1.1}, {"q1_0", "q1_0 0.87", 1, .87}} {
		g.add(zen4, x.name, x.n, "memory", span{ratio: 1 / x.speed}, prose(sec, x.text), prefetched(zen4, x.name, "one", x.n, also, far, nil))
	}
	g.leave(left{Section: sec, Text: "From l2 0.98 to 1.02", Reason: "several formats, which the page does not name"})
	g.add(zen4, "iq4_nl", 4, "l2", span{ratio: 1 / .94, least: 1 / 1.02, most: 1 / .94}, prose(sec, "but iq4_nl once 0.94"), prefetched(zen4, "iq4_nl", "one", 4, also, far, nil))
	g.leave(left{Section: sec, Text: "which differ by up to 0.03", Reason: "the noise of the figures"})
}

func (g *gen) scattered() {
	const sec = "Scattered"
	for i, r := range g.rows(sec, 1) {
		for j, place := range []string{"memory", "l3", "l2"} {
			c := g.cell(sec, 1, i+1, j+3)
			name, two := strings.CutSuffix(r[0], ", two tiles")
			if j == 0 && c.Cell != "" && strings.HasSuffix(r[1], "ahead") {
				g.leave(left{Section: sec, Table: 1, Row: i + 1, Column: 2, Reason: "a distance, no time"})
			}
			switch {
			case r[0] == "two columns" && place == "memory":
				g.add(zen3, "q4_k", 2, place, span{ratio: .74}, table(sec, c), prefetched(zen3, "q4_k", "one", 2, sparse, far, nil))
				g.add(zen3, "q2_k", 2, place, span{ratio: 1.02}, table(sec, c), prefetched(zen3, "q2_k", "one", 2, sparse, far, nil))
			case strings.HasSuffix(r[0], "columns"):
				g.leave(left{Section: sec, Table: 1, Row: i + 1, Column: j + 3, Reason: "several formats, which the page does not name"})
			case two:
				g.add(zen3, name, 1, place, spanOf(c.Cell), table(sec, c), prefetched(zen3, name, "one", 1, sparse, oneKiB, func(c search.Choice) (search.Choice, error) {
					return beside(name, zen3, c, sparse)
				}))
			default:
				g.add(zen3, name, 1, place, spanOf(c.Cell), table(sec, c), prefetched(zen3, name, "one", 1, sparse, far, nil))
			}
		}
	}
	g.add(zen3, "q3_k", 1, "l3", span{ratio: 1.08}, prose(sec, "q3_k from l3 takes 1.08 of the time by `far`"), prefetched(zen3, "q3_k", "one", 1, steady, far, nil))
	by2 := func(name string) func(search.Choice) (search.Choice, error) {
		return func(c search.Choice) (search.Choice, error) { return beside(name, zen3, c, sparse) }
	}
	g.add(zen3, "iq3_s", 1, "memory", span{ratio: 1.17}, prose(sec, "iq3_s from memory takes 1.17 of the time by 1 KiB"), prefetched(zen3, "iq3_s", "one", 1, steady, oneKiB, by2("iq3_s")))
	q8 := "q8_0 takes 1.4 of the time by 1 KiB ahead from memory, and 1.6 from l3"
	g.add(zen3, "q8_0", 1, "memory", span{ratio: 1.4}, prose(sec, q8), prefetched(zen3, "q8_0", "one", 1, sparse, oneKiB, by2("q8_0")))
	g.add(zen3, "q8_0", 1, "l3", span{ratio: 1.6}, prose(sec, q8), prefetched(zen3, "q8_0", "one", 1, sparse, oneKiB, by2("q8_0")))
	g.leave(left{Section: sec, Text: "with scales beside their groups q2_k 1.36, q5_k 1.22, q4_k 0.96; with scales elsewhere q3_k 0.76, iq4_xs 0.91", Reason: "the page does not say where weights were"})
}

// besideShares sets where what groups share lies.
func besideShares(v bool) func(search.Choice) (search.Choice, error) {
	return func(c search.Choice) (search.Choice, error) { c.Beside = v; return c, nil }
}

func (g *gen) alone() {
	const sec = "Alone"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "bytes, no time"})
	for i, r := range g.rows(sec, 1) {
		name, elsewhere := strings.CutSuffix(r[0], ", scales elsewhere")
		var change func(search.Choice) (search.Choice, error)
		if elsewhere {
			change = besideShares(false)
		}
		for j, place := range []string{"memory", "l3"} {
			c := g.cell(sec, 1, i+1, j+3)
			g.add(zen5, name, 1, place, spanOf(c.Cell), table(sec, c), prefetched(zen5, name, "one", 1, early, far, change))
		}
	}
}

func (g *gen) lead() {
	const sec = "Lead"
	for i, r := range g.rows(sec, 1) {
		name, _, _ := strings.Cut(r[0], ",")
		name += "@256"
		leads := func(a bool, x nest.Streams) makes {
			return func() (p, q side, err error) {
				c, err := base(name, zen4, "one", 1)
				p, q = asks(c, x), asks(c, far)
				p.Lead, q.Lead = a, false
				return p, q, err
			}
		}
		for j, place := range []string{"memory", "l3", "memory"} {
			if c := g.cell(sec, 1, i+1, j+2); c.Cell != "" {
				g.add(zen4, name, 1, place, spanOf(c.Cell), table(sec, c), leads(j < 2, near))
			}
		}
	}
	g.leave(left{Section: sec, Text: "6.5 cycles a line", Reason: "cycles of work on a line, one schedule each"})
	g.leave(left{Section: sec, Text: "Two tiles, 256 bytes ahead, take 0.9 to 0.97 of the time of one tile; q6_k takes 1.02, and 1.3 with 128 bytes", Reason: "the page does not say where weights were"})
}

func (g *gen) act() {
	const sec = "Act"
	for _, name := range []string{"q4_k", "q2_k"} {
		g.add(zen4, name, 1, "memory", span{ratio: .94}, prose(sec, "From memory q4_k and q2_k take 0.94 of the time"), func() (a, b side, err error) {
			c, err := base(name, zen4, "one", 1)
			b = c
			b.Act = 0
			return c, b, err
		})
	}
	for _, x := range []struct {
		name, text string
		n          int
		ratio      float64
	}{{"w3", "w3 0.90", 1, .9}, {"w2", "w2 0.96", 1, .96}, {"q6_k", "q6_k 0.9", 1, .9}, {"w8", "w8 0.95", 4, .95}, {"w8-g64", "w8-g64 1.08", 4, 1.08}} {
		g.add(zen4, x.name, x.n, "memory", span{ratio: x.ratio}, prose(sec, x.text), prefetched(zen4, x.name, "one", x.n, near, nest.Streams{Ahead: 128}, nil))
	}
	g.leave(left{Section: sec, Text: "others 0.98 to 1.02", Reason: "several formats, which the page does not name"})
}

func (g *gen) tables() {
	const sec = "Tables"
	ahead := func(e env) makes {
		return func() (a, b side, err error) {
			c, err := base("w1", e, "one", 4)
			if err == nil && c.Table == nil {
				var u [][]search.Choice
				if u, err = uses("w1", e.target, "tables1"); err == nil {
					c = widthOf(u[0], 4)
				}
			}
			a, b = c, c
			a.Act, b.Act = 2<<10, 0
			return a, b, err
		}
	}
	g.add(emerald, "w1", 4, "memory", span{ratio: 155. / 164}, prose(sec, "155 us with 2 KiB ahead, 164 without"), ahead(emerald))
	g.leave(left{Section: sec, Text: "1.5 to 3 KiB are as good", Reason: "no difference"})
	g.add(zen4, "w1", 4, "memory", span{ratio: 1.09}, prose(sec, "takes 1.09 times as long as without"), ahead(zen4))
	for _, name := range []string{"w2", "ternary"} {
		text := "w2 and ternary by tables cost the same as dot products from caches, and take 1.43 times as long from memory"
		for _, x := range []struct {
			place string
			ratio float64
		}{{"memory", 1.43}, {"l2", 1}, {"l3", 1}} {
			g.add(zen4, name, 1, x.place, span{ratio: x.ratio}, prose("TablesRead", text), tablesOverDots(name, zen4, 1, 1))
		}
	}
	g.leave(left{Section: "TablesRead", Text: "1.3 lies between", Reason: "the constant that was chosen, not measured"})
}

// tablesOverDots compares the best tables with dot products.
func tablesOverDots(name string, e env, n, tiles int) makes {
	return func() (a, b side, err error) {
		t, err := uses(name, e.target, "tables1")
		if err != nil {
			return a, b, err
		}
		variant := "dots"
		if tiles > 1 {
			variant = "dotuses"
		}
		d, err := uses(name, e.target, variant)
		if err != nil {
			return a, b, err
		}
		return widthOf(t[0], n), widthOf(d[0], n), nil
	}
}

func (g *gen) groupLookups() {
	const sec = "GroupLookups"
	asked := nest.Streams{Ahead: 128, Far: 16 << 10, Every: true, Act: 128}
	for _, x := range []struct {
		name, text string
		s          span
	}{{"q1_0", "q1_0 from memory 1.06 to 1.23", spanOf("1.06 to 1.23").inverse()}, {"w1-g128", "w1-g128 1.0", span{ratio: 1}}} {
		g.add(zen4, x.name, 1, "memory", x.s, prose(sec, x.text), func() (a, b side, err error) {
			c, err := base(x.name, zen4, "", 1)
			if err != nil || c.Table == nil || c.Tiles != 2 {
				return a, b, fmt.Errorf("%v, table %v, tiles %d", err, c.Table, c.Tiles)
			}
			return asks(c, asked), asks(c, ofEach(far)), nil
		})
	}
	g.leave(left{Section: sec, Text: "1.13 and 1.2 by `go run ./tests/lab threads`", Reason: "the same comparison, in the range of the other figure"})
	g.leave(left{Section: sec, Text: "Without groups w1 has 0.75 of the bandwidth with 128 bytes alone, instead of 0.64, by `tmacc bench`, but takes 1.3 times as long", Reason: "two measurements that contradict each other"})
}

func (g *gen) stride() {
	const sec = "Stride"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "bytes, no time"})
	set := func(name string, change func(*search.Choice)) func() (side, error) {
		return func() (side, error) {
			c, err := base(name, zen5, "one", 1)
			change(&c)
			return c, err
		}
	}
	cells := func(n, flush int, serial bool) func(*search.Choice) {
		return func(c *search.Choice) {
			if c.Rows, c.Block = 4, 4; n > 0 {
				c.Cells = n
			}
			c.Flush, c.Serial, c.Factor = flush, serial, ""
		}
	}
	rows := []struct {
		name   string
		make   func() (side, error)
		s      span
		shapeM int
		shapeK int
	}{
		{"w4", set("w4", cells(4, 1, false)), spanOf("2.60 to 2.67"), 512, 2048},
		{"w4", set("w4", cells(8, 1, false)), spanOf("3.38 to 4.80"), 512, 2048},
		{"w4", set("w4", cells(8, 4, true)), spanOf("2.76 to 2.84"), 512, 2048},
		{"w8", set("w8", cells(4, 1, false)), spanOf("1.69 to 1.87"), 256, 1024},
		{"w8", set("w8", cells(8, 1, false)), spanOf("1.71 to 2.54"), 256, 1024},
		{"w8", set("w8", cells(16, 1, false)), spanOf("1.66 to 2.03"), 256, 1024},
		{"w4-g64", set("w4-g64", cells(0, 1, false)), spanOf("4.97 to 5.20"), 512, 2048},
		{"w4-g64", set("w4-g64", cells(0, 4, true)), spanOf("3.48 to 3.63"), 512, 2048},
	}
	for _, x := range [][2]int{{1, 0}, {2, 1}, {4, 3}, {5, 3}, {7, 6}} {
		p, q := rows[x[0]], rows[x[1]]
		a, b := g.cell(sec, 1, x[0]+1, 3), g.cell(sec, 1, x[1]+1, 3)
		s := span{p.s.ratio / q.s.ratio, p.s.least / q.s.most, p.s.most / q.s.least}
		g.add(zen5, p.name, 1, "l2", s, table(sec, a, b), func() (a, b side, err error) {
			if a, err = p.make(); err == nil {
				b, err = q.make()
			}
			return a, b, err
		})
		last := &g.pairs[len(g.pairs)-1].p
		last.M, last.K = p.shapeM, p.shapeK
	}
	for _, x := range []struct {
		name  string
		ratio float64
		text  string
	}{{"w4-g128", .36, "w4-g128 0.36"}, {"w4-g256", .39, "w4-g256 0.39"}, {"w8-g128", .46, "w8-g128 0.46"}} {
		g.add(zen4, x.name, 1, "memory", span{ratio: x.ratio}, prose(sec, x.text), func() (a, b side, err error) {
			c, err := base(x.name, zen4, "plain", 1)
			if err != nil {
				return c, c, err
			}
			a = ofRows(x.name, c, 4)
			a.Run = 0
			b = a
			b.Run = 1
			return a, b, nil
		})
	}
	g.leave(left{Section: sec, Text: "512 x 2048 from l2 0.98", Reason: "the page names no format"})
}

// ofRows is c with whole tiles of that many row vectors, in loops over pieces as they are there.
func ofRows(name string, c search.Choice, rows int) search.Choice {
	p := product(name)
	c.Rows, c.Block = rows, rows
	bytes := 0
	for _, x := range p.Weight.Shared() {
		if x.Span > 0 && x.Span <= p.Weight.Group {
			bytes += x.Elem.Bytes()
		}
	}
	c.Beside = bytes > 0 && p.Weight.Group < p.Unit() && bytes*c.Rows*c.RowFields%4 == 0
	return c
}

// fitting is c with the largest row blocks whose kernel fits the registers.
func fitting(name string, e env, c search.Choice) (side, error) {
	var err error
	for ; c.Block >= 1; c.Block /= 2 {
		for _, super := range []bool{c.Super, false} {
			x := c
			x.Super = super
			if _, err = cost(name, e.target, x); err == nil {
				return x, nil
			}
		}
	}
	return c, err
}

func (g *gen) skipping() {
	const sec = "Skipping"
	for i, r := range g.rows(sec, 1) {
		reason := "the page does not say where weights were"
		if strings.Contains(r[1], "several") {
			reason = "several formats, which the page does not name"
		}
		if i < 3 {
			g.leave(left{Section: sec, Table: 1, Row: i + 1, Column: 3, Reason: reason})
		}
	}
	for _, name := range []string{"w4-g64", "mxfp4"} {
		g.add(zen5, name, 4, "memory", span{ratio: 2}, table(sec, g.cell(sec, 1, 4, 3)), func() (a, b side, err error) {
			c, err := base(name, zen5, "one", 4)
			if err != nil {
				return a, b, err
			}
			a = ofRows(name, c, 4)
			a.Block = 2
			return a, ofRows(name, c, 2), nil
		})
	}
	for i, r := range g.rows(sec, 2) {
		name, whole := r[0], 4
		if name == "q5_k" {
			whole = 2
		}
		for j, n := range []int{1, 2, 4} {
			c := g.cell(sec, 2, i+1, j+2)
			g.add(zen4, name, n, "memory", spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				c, err := base(name, zen4, "one", n)
				if err != nil {
					return a, b, err
				}
				if a, err = fitting(name, zen4, ofRows(name, c, 1)); err == nil {
					b, err = fitting(name, zen4, ofRows(name, c, whole))
				}
				return a, b, err
			})
		}
	}
	g.leave(left{Section: sec, Text: "From l2 1.02 with one column, 0.95 with four", Reason: "several formats, which the page does not name"})
	g.leave(left{Section: sec, Text: "take 0.89 to 1.0 of the time of scales behind the record", Reason: "several formats, which the page does not name"})
}

func (g *gen) tiles() {
	const sec = "Tiles"
	for i, r := range g.rows(sec, 1) {
		for j, place := range []string{"memory", "l3", "l2"} {
			c := g.cell(sec, 1, i+1, j+2)
			switch {
			case strings.HasPrefix(r[0], "two columns") && place == "memory":
				g.add(zen4, "iq4_nl", 2, place, span{ratio: .86}, table(sec, c), twoTiles(zen4, "iq4_nl", 2, ownOfEach, own))
			case strings.HasPrefix(r[0], "two columns"):
				g.leave(left{Section: sec, Table: 1, Row: i + 1, Column: j + 2, Reason: "several formats, which the page does not name"})
			default:
				g.add(zen4, r[0], 1, place, spanOf(c.Cell), table(sec, c), twoTiles(zen4, r[0], 1, ownOfEach, own))
			}
		}
	}
	for i, r := range g.rows(sec, 2) {
		for j, place := range []string{"memory", "l3", "l2"} {
			c := g.cell(sec, 2, i+1, j+2)
			g.add(zen3, r[0], 1, place, spanOf(c.Cell), table(sec, c), twoTiles(zen3, r[0], 1, always(oneKiB), always(far)))
		}
	}
	g.leave(left{Section: sec, Text: "w4 takes 1.16 to 1.34, 1.09 and 1.05 of the time by two tiles", Reason: "the layout of all columns is another one today"})
	for i, r := range g.rows(sec, 3) {
		c := g.cell(sec, 3, i+1, 2)
		g.add(zen5b, r[0], 1, "memory", spanOf(c.Cell), table(sec, c), twoTiles(zen5b, r[0], 1, ownOfEach, own))
		if g.cell(sec, 3, i+1, 3).Cell != "" {
			g.leave(left{Section: sec, Table: 3, Row: i + 1, Column: 3, Reason: "no step reads two halves of the rows"})
		}
	}
	g.leave(left{Section: sec, Text: "In times when one stream has 36 GB/s, w4 has 0.97 to 1.00", Reason: "the same comparison, when the machine was less busy"})
	g.leave(left{Section: sec, Table: 4, Reason: "no step reads two halves of the rows"})
	g.leave(left{Section: sec, Text: "w4-g32 1.06 to 1.15, w8 1.09 to 1.26", Reason: "the page does not say where weights were"})
}

func (g *gen) tilesCost() {
	const sec = "TilesCost"
	g.leave(left{Section: sec, Table: 1, Column: 3, Reason: "an estimate, no measurement"})
	for i, r := range g.rows(sec, 1) {
		e, name := map[string]env{"Zen 3": zen3b, "Zen 4": zen4, "Zen 5": zen5b}[r[0]], r[1]
		if e == zen3b {
			switch name {
			case "w3-g32":
				name += "@32"
			case "w1-g16":
				name += "@16"
			}
		}
		for j, place := range []string{"memory", "l3", "l2"} {
			if c := g.cell(sec, 1, i+1, j+4); c.Cell != "" {
				x, y := ownOfEach, own
				if e == zen3b {
					x, y = always(ofEach(steady)), always(steady)
				}
				g.add(e, name, 1, place, spanOf(c.Cell), table(sec, c), twoTiles(e, name, 1, x, y))
			}
		}
	}
}

func (g *gen) superTiles() {
	const sec = "SuperTiles"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "an estimate, no measurement"})
	for i, r := range g.rows(sec, 1) {
		name, _, _ := strings.Cut(r[0], ",")
		for j, place := range []string{"memory", "l3", "l2"} {
			c := g.cell(sec, 1, i+1, j+3)
			g.add(zen3b, name, 1, place, spanOf(c.Cell), table(sec, c), twoTiles(zen3b, name, 1, always(sparse), always(sparse)))
		}
	}
}

func (g *gen) halvesTiles() {
	const sec = "HalvesTiles"
	for _, x := range []struct {
		n     int
		place string
		s     span
		text  string
	}{
		{1, "memory", spanOf("0.78 to 0.81"), "One column takes 0.78 to 0.81"}, {2, "memory", spanOf("0.77 to 0.79"), "two 0.77 to 0.79"},
		{4, "memory", spanOf("0.92 to 0.94"), "four 0.92 to 0.94"},
		{1, "l2", spanOf("0.97 to 1.02"), "from caches 0.97 to 1.02"}, {1, "l3", spanOf("0.97 to 1.02"), "from caches 0.97 to 1.02"},
	} {
		g.add(zen5b, "w2", x.n, x.place, x.s, prose(sec, x.text), func() (a, b side, err error) {
			if a, err = base("w2", zen5b, "halves", x.n); err == nil {
				b, err = base("w2", zen5b, "one", x.n)
			}
			if err == nil && (a.Tiles != 2 || a.Rows != 2 || b.Rows != 4) {
				err = fmt.Errorf("%d tiles of %d and %d rows", a.Tiles, a.Rows, b.Rows)
			}
			return a, b, err
		})
	}
	g.leave(left{Section: sec, Text: "with 256 columns 1.0", Reason: "no difference"})
}

func (g *gen) rowFields() {
	const sec = "RowFields"
	f := func(name string, n int) makes {
		return func() (a, b side, err error) {
			if a, err = base(name, zen4, "one", n); err == nil {
				b, err = base(name, zen4, "plain", n)
			}
			if err == nil && a.RowFields == 1 {
				err = fmt.Errorf("today's default has no rows in a byte")
			}
			return a, b, err
		}
	}
	for i, r := range g.rows(sec, 1) {
		for j, place := range []string{"l2", "l3", "memory"} {
			c := g.cell(sec, 1, i+1, j+2)
			g.add(zen4, r[0], 1, place, spanOf(c.Cell), table(sec, c), f(r[0], 1))
		}
	}
	g.leave(left{Section: sec, Text: "With four columns 0.99 to 1.02", Reason: "no difference, of several formats"})
	g.add(zen4, "w4-g64", 4, "memory", span{ratio: 1.05}, prose(sec, "w4-g64 from memory 1.05"), f("w4-g64", 4))
}

func (g *gen) decodeFirst() {
	const sec = "DecodeFirst"
	for i, r := range g.rows(sec, 1) {
		label, _, _ := strings.Cut(r[0], ", which")
		label, _, _ = strings.Cut(label, " (")
		c := g.cell(sec, 1, i+1, 2)
		for _, name := range strings.Split(label, ", ") {
			g.add(zen4, name, 1, "l2", spanOf(strings.Replace(c.Cell, " and ", " to ", 1)), table(sec, c), func() (a, b side, err error) {
				b, err = base(name, zen4, "plain", 1)
				a = b
				a.Stage = "s"
				return a, b, err
			})
		}
	}
}

func (g *gen) widths() {
	const sec = "Widths"
	of := func(name string, x, y int) makes {
		return func() (a, b side, err error) {
			c, err := base(name, emerald, "", 12)
			if err != nil {
				return a, b, err
			}
			wide := func(cols int) (side, error) {
				var all []search.Choice
				for block := c.Rows; block >= 1; block /= 2 {
					for _, below := range []int{8, 4, 0} {
						for _, order := range []int{0, 2} {
							d := c
							d.Cols, d.Block, d.Below, d.Order, d.Tiles = cols, block, below, order, 0
							all = append(all, d)
						}
					}
				}
				best, _, err := cheapest(name, emerald.target, all...)
				return best, err
			}
			if a, err = wide(x); err == nil {
				b, err = wide(y)
			}
			return a, b, err
		}
	}
	w4 := "w4-g32 with 16 columns 0.53, with 14 0.56, with 8 0.53"
	g.add(emerald, "w4-g32", 256, "l3", span{ratio: .53 / .56}, prose(sec, w4), of("w4-g32", 14, 8))
	g.add(emerald, "w4-g32", 256, "l3", span{ratio: .53 / .56}, prose(sec, w4), of("w4-g32", 14, 16))
	g.add(emerald, "q6_k", 256, "l3", span{ratio: 1.17}, prose(sec, "q6_k with 22 takes 1.17 times as long"), of("q6_k", 22, 14))
	g.add(emerald, "ternary", 256, "l3", span{ratio: .74 / .8}, prose(sec, "ternary 0.80 and 0.74"), of("ternary", 22, 14))
	g.add(emerald, "w3", 256, "l3", span{ratio: .78 / .81}, prose(sec, "w3 0.81 and 0.78"), of("w3", 22, 14))
	g.leave(left{Section: "worthWidest", Reason: "differences of 2 percent and estimates"})
}

func (g *gen) tightest() {
	const sec = "tightest"
	g.leave(left{Section: sec, Reason: "the page does not say what the alternative was: today codewords lie along K"})
}

func (g *gen) worthFilling() {
	const sec = "worthFilling"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "bits, no time"})
	for i, to := range []int{260, 140} {
		name := []string{"ternary-g256-f16", "ternary-g128-f16"}[i]
		for j, place := range []string{"memory", "l3"} {
			c := g.cell(sec, 1, i+1, j+3)
			g.add(zen4, name, 1, place, spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				c, err := base("ternary-g128-f16", zen4, "plain", 1)
				if err != nil {
					return a, b, err
				}
				w, err := base("ternary", zen4, "plain", 1)
				if err != nil {
					return a, b, err
				}
				filled := c
				filled.Map, filled.Join, filled.Mirror, filled.Head, filled.RowFields, filled.Fill = "words", 5, w.Mirror, w.Head, 1, to
				filled.Below, filled.Factor, filled.Serial, filled.Flush = 0, "", false, 1
				plain := c
				if c.Fill == 0 && c.Join == 0 {
					a, b = filled, plain
					a, err = fitting(name, zen4, a)
					return a, b, err
				}
				return a, b, fmt.Errorf("the default is filled")
			})
		}
	}
	g.leave(left{Section: sec, Text: "Four columns 1.03 and 1.07", Reason: "the page does not say where weights were"})
}

func (g *gen) wholeShares() {
	const sec = "wholeShares"
	for i, r := range g.rows(sec, 1) {
		for j, x := range []struct {
			n     int
			place string
		}{{1, "memory"}, {1, "l3"}, {4, "memory"}, {4, "l3"}} {
			c := g.cell(sec, 1, i+1, j+2)
			g.add(zen5, r[0], x.n, x.place, spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				c, err := base(r[0], zen5, "one", x.n)
				if x.n == 1 {
					c = asks(c, early)
				}
				a, b = c, c
				a.Beside, b.Beside = true, false
				return a, b, err
			})
		}
	}
}

func (g *gen) fissioned() {
	const sec = "fissioned"
	for i, r := range g.rows(sec, 1) {
		name := r[0] + "@256"
		for j, x := range []struct {
			n     int
			place string
		}{{4, "l2"}, {4, "l3"}, {256, "l3"}, {4, "memory"}} {
			c := g.cell(sec, 1, i+1, j+2)
			g.add(zen3, name, x.n, x.place, spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				if a, err = base(name, zen3, "one", 4); err != nil {
					return a, b, err
				}
				if !a.Fission || a.Cols != 4 || a.Rows != 1 {
					return a, b, fmt.Errorf("today's default of four columns: fission %v, %d columns, %d row vectors", a.Fission, a.Cols, a.Rows)
				}
				two, err := base(name, zen3, "one", 2)
				if err != nil {
					return a, b, err
				}
				two = ofRows(name, two, 2)
				two.Fission, two.Tiles, two.Cols = false, 0, 2
				b, err = fitting(name, zen3, two)
				return a, b, err
			})
		}
	}
	for _, x := range []struct{ place, text, span string }{
		{"l2", "q2_k takes 0.88 to 0.93 of the time from l2", "0.88 to 0.93"}, {"l3", "1.02 to 1.13 from l3", "1.02 to 1.13"}, {"memory", "0.92 to 1.07 from memory", "0.92 to 1.07"}} {
		g.add(zen3, "q2_k", 1, x.place, spanOf(x.span), prose(sec, x.text), func() (a, b side, err error) {
			c, err := base("q2_k", zen3, "one", 1)
			if err != nil {
				return a, b, err
			}
			small, err := fitting("q2_k", zen3, ofRows("q2_k", c, 1))
			if err != nil {
				return a, b, err
			}
			if a, err = beside("q2_k", zen3, small, sparse); err != nil {
				return a, b, err
			}
			b, err = fitting("q2_k", zen3, asks(ofRows("q2_k", c, 2), sparse))
			return a, b, err
		})
	}
	g.leave(left{Section: sec, Text: "two columns take 1.08 times as long this way", Reason: "the page does not say where weights were"})
}

func (g *gen) withoutSuper() {
	const sec = "withoutSuper"
	g.leave(left{Section: sec, Table: 1, Column: 5, Reason: "instructions, no time"})
	g.leave(left{Section: sec, Table: 1, Column: 6, Reason: "instructions, no time"})
	side2 := func(name string, n int) (with, without side, err error) {
		c, err := base(name, zen3b, "one", n)
		if err != nil {
			return with, without, err
		}
		two, err := beside(name, zen3b, c, sparse)
		if err != nil {
			return with, without, err
		}
		with, without = two, two
		with.Super, without.Super = true, false
		return with, without, nil
	}
	for i, r := range g.rows(sec, 1) {
		for j, place := range []string{"l2", "l3", "memory"} {
			c := g.cell(sec, 1, i+1, j+2)
			g.add(zen3b, r[0], 1, place, spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				with, without, err := side2(r[0], 1)
				return without, with, err
			})
		}
	}
	for _, x := range []struct {
		place string
		ratio float64
	}{{"l2", .85}, {"memory", .92}} {
		g.add(zen3b, "q3_k", 1, x.place, span{ratio: x.ratio}, prose(sec, "q3_k kept the registers and gave up its second tile: 0.85 and 0.92, from l2 and memory"), func() (a, b side, err error) {
			_, a, err = side2("q3_k", 1)
			if err != nil {
				return a, b, err
			}
			b, err = base("q3_k", zen3b, "one", 1)
			b = asks(b, sparse)
			b.Super = true
			return a, b, err
		})
	}
	noise := "the noise of the figures, or within it"
	for _, text := range []string{"The default beside itself was 0.95 to 1.04", "Two and four columns take 0.97 to 1.04, and two columns of q2_k from memory 0.93", "where the default beside itself was 0.95 to 1.05"} {
		g.leave(left{Section: sec, Text: text, Reason: noise})
	}
}

func (g *gen) fieldsApart() {
	const sec = "fieldsApart"
	for _, x := range []struct{ name, text, span string }{{"iq4nl", "iq4nl 0.8", "0.8"}, {"ternary", "ternary 0.75 to 0.8", "0.75 to 0.8"}} {
		g.add(zen5, x.name, 1, "l2", spanOf(x.span), prose(sec, x.text), func() (a, b side, err error) {
			u, err := uses(x.name, zen5.target, "dots")
			if err != nil {
				return a, b, err
			}
			a = widthOf(u[0], 1)
			b = a
			b.Factor = ""
			if a.Factor != "f" {
				err = fmt.Errorf("the default has factor %q", a.Factor)
			}
			return a, b, err
		})
	}
}

func (g *gen) sideBySide() {
	const sec = "sideBySide"
	g.leave(left{Section: sec, Table: 1, Column: 3, Reason: "an estimate, no measurement"})
	for i, r := range g.rows(sec, 1) {
		name, _, _ := strings.Cut(r[0], ",")
		other := r[1] == "the other"
		for j, place := range []string{"memory", "l3", "l2"} {
			c := g.cell(sec, 1, i+1, j+4)
			g.add(zen3b, name, 1, place, spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				variant := "one"
				if name == "q1_0" {
					variant = "dots" // the default of today is by tables
				}
				b, err = base(name, zen3b, variant, 1)
				if err != nil {
					return a, b, err
				}
				s := ofEach(own(b))
				if product(name).Weight.Super > 0 {
					s = sparse
				}
				a = asks(b, s)
				a.Tiles = 2
				if other {
					a.Order, a.Stage = 1-b.Order, ""
				}
				if a.Factor != "" {
					x := a
					x.Factor = ""
					a, _, err = cheapest(name, zen3b.target, a, x)
				}
				return a, b, err
			})
		}
	}
	g.leave(left{Section: sec, Text: "0.88 to 0.9 of the time of one tile everywhere", Reason: "the table above has it"})
	tiles := func(e env, name string, n int) makes {
		return func() (a, b side, err error) {
			if b, err = base(name, e, "one", 4); err == nil {
				a, err = beside(name, e, b, ofEach(own(b)))
			}
			return a, b, err
		}
	}
	many := "q8_0 and w4-g32 1.14 to 1.17 of 256 columns, 0.75 and 1.13 from memory"
	for _, x := range []struct {
		name  string
		n     int
		place string
		s     span
	}{{"q8_0", 256, "l3", spanOf("1.14 to 1.17")}, {"w4-g32", 256, "l3", spanOf("1.14 to 1.17")}, {"q8_0", 4, "memory", span{ratio: .75}}, {"w4-g32", 4, "memory", span{ratio: 1.13}}} {
		g.add(zen5, x.name, x.n, x.place, x.s, prose(sec, many), tiles(zen5, x.name, 4))
	}
	for i, r := range g.rows(sec, 2) {
		for j, place := range []string{"memory", "l3"} {
			c := g.cell(sec, 2, i+1, j+2)
			g.add(zen4, r[0], 2, place, spanOf(c.Cell), table(sec, c), twoTiles(zen4, r[0], 2, ownOfEach, own))
		}
	}
}

func (g *gen) ofEach() {
	const sec = "ofEach"
	for j := range 3 {
		g.leave(left{Section: sec, Table: 1, Row: 1, Column: j + 2, Reason: "a range over several formats"})
	}
	three, later := nest.Streams{Ahead: 3 << 10, Act: 128}, nest.Streams{Ahead: 4608, Act: 128}
	c := g.cell(sec, 1, 2, 2)
	g.add(zen5, "iq4nl", 1, "l2", spanOf(c.Cell), table(sec, c), prefetched(zen5, "iq4nl", "one", 1, three, later, func(c search.Choice) (search.Choice, error) { return beside("iq4nl", zen5, c, three) }))
	for j := 1; j < 3; j++ {
		g.leave(left{Section: sec, Table: 1, Row: 2, Column: j + 2, Reason: "a range over several formats"})
	}
	g.leave(left{Section: sec, Text: "not 4.5", Reason: "a distance, no time"})
	g.leave(left{Section: sec, Text: "3 KiB over 4.5", Reason: "a distance, no time"})
	g.leave(left{Section: sec, Text: "1 KiB ahead takes 1.03 to 1.08 from memory", Reason: "several formats, which the page does not name"})
}

func (g *gen) mostArithmetic() {
	const sec = "mostArithmetic"
	g.leave(left{Section: sec, Text: "q1_0 with activations in groups of 32, 2.9 times, 0.89", Reason: "the first figure of sideBySide, and an estimate"})
	g.add(zen3b, "cb4x16", 1, "memory", span{ratio: 1.07}, prose(sec, "cb4x16, 14 times, 1.07"), twoTiles(zen3b, "cb4x16", 1, ownOfEach, own))
}

func (g *gen) worthTilesMore() {
	const sec = "worthTilesMore"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "an estimate, no measurement"})
	for i, r := range g.rows(sec, 1) {
		for j, place := range []string{"l2", "l3", "memory"} {
			c := g.cell(sec, 1, i+1, j+3)
			g.add(zen5, r[0], 2, place, spanOf(c.Cell), table(sec, c), twoTiles(zen5, r[0], 2, ownOfEach, own))
		}
	}
	for i, r := range g.rows(sec, 2) {
		for j, place := range []string{"l2", "memory"} {
			c := g.cell(sec, 2, i+1, j+2)
			two := twoTiles(zen3b, r[0], 2, ownOfEach, own)
			g.add(zen3b, r[0], 2, place, spanOf(c.Cell), table(sec, c), func() (a, b side, err error) {
				b, a, err = two()
				return a, b, err
			})
		}
	}
}

func (g *gen) tablesWin() {
	const sec = "tablesWin"
	g.leave(left{Section: sec, Table: 1, Column: 2, Reason: "an estimate, no measurement"})
	g.leave(left{Section: sec, Table: 1, Column: 5, Reason: "the page does not say where weights were"})
	for i, r := range g.rows(sec, 1) {
		var e env
		name := ""
		switch i {
		case 0:
			e, name = emerald, "w1"
			e.target = "amd64/avxvnni"
		case 1:
			e, name = zen5, "w1"
			e.target = "amd64/avxvnni"
		case 3:
			e, name = zen5, "w1-g32@32"
		case 5:
			e, name = zen3b, "w1-g32@32"
		case 6:
			e, name = zen3b, "q1_0@32"
		case 7:
			e, name = zen3b, "tq2_0"
		case 8:
			e, name = zen3b, "w1-g16@16"
		}
		for j, x := range []struct {
			col   int
			place string
			n     int
		}{{3, "l2", 1}, {4, "memory", 1}, {6, "l3", 256}} {
			c := g.cell(sec, 1, i+1, x.col)
			if c.Cell == "" {
				continue
			}
			if name == "" {
				g.leave(left{Section: sec, Table: 1, Row: i + 1, Column: x.col, Reason: "the page does not say on which core"})
				continue
			}
			_ = j
			g.add(e, name, x.n, x.place, spanOf(c.Cell).inverse(), table(sec, c), tablesOverDots(name, e, x.n, 2))
		}
		_ = r
	}
	g.leave(left{Section: sec, Text: "q1_0 by tables on that Zen 3 took 0.61 and 0.66 of the time from memory for one column", Reason: "the time of the preparation is part of it"})
}

// rest lists sections without pairs.
func (g *gen) rest() {
	for _, x := range []struct{ sections, reason string }{
		{"sumsByProducts fewVec products fold", "a rule of lowering: both sides have one trace"},
		{"units byteShifts narrow columns", "counts of a model of the core, no measurement"},
		{"Fresh", "a difference of 3 percent"},
		{"tableForms tableUse usualTables", "the page does not say of which format, or where weights were"},
		{"DefaultPrepare UsualAct", "the preparation of activations, or two products"},
		{"matmul", "a float operator, no product"},
		{"look affordable part patience partBytes callBytes bytesPerCycle Compare Cycles clockKinds slower", "how searches measure, how the runtime divides work, or a fact about a machine"},
	} {
		for _, s := range strings.Fields(x.sections) {
			if g.page[s] == nil {
				log.Fatal("no section ", s)
			}
			g.leave(left{Section: s, Reason: x.reason})
		}
	}
}

var familyCell = regexp.MustCompile(`([0-9.]+) \(\d+\) (\d)`)

func (g *gen) families() {
	for _, page := range []struct {
		path string
		e    env
	}{{"families.md", zen5}, {"emerald/families.md", emerald}} {
		text, err := os.ReadFile("docs/lab/" + page.path)
		if err != nil {
			log.Fatal(err)
		}
		row := 0
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if len(cells) != 8 || strings.Contains(line, "---") || strings.Contains(line, "| target |") {
				continue
			}
			row++
			name, e := strings.TrimSpace(cells[0]), page.e
			e.target = "amd64/" + strings.TrimSpace(cells[1])
			kinds := map[string]string{}
			for _, k := range strings.Split(strings.TrimSpace(cells[2]), "<br>") {
				n, what, _ := strings.Cut(k, ": ")
				kinds[n] = what
			}
			for j, at := range []struct {
				n     int
				place string
			}{{1, "l2"}, {1, "l3"}, {1, "memory"}, {4, "memory"}, {64, "l2"}} {
				m := familyCell.FindStringSubmatch(cells[3+j])
				kind := kinds[m[2]]
				src := pairs.Source{Page: page.path, Figures: []pairs.Figure{{Table: 1, Row: row, Column: 4 + j, Cell: strings.TrimSpace(cells[3+j])}}}
				g.add(e, name, at.n, at.place, spanOf(m[1]).inverse(), src, func() (a, b side, err error) {
					more := "tables3"
					if kind == "codes 4 split" {
						more = "tables8"
					}
					u, err := uses(name, e.target, more)
					if err != nil {
						return a, b, err
					}
					d, err := uses(name, e.target, "dotuses")
					if err != nil {
						return a, b, err
					}
					p := product(name)
					for _, cs := range u {
						if tableName(cs[0].Trace(p)) == kind {
							return widthOf(cs, at.n), widthOf(d[0], at.n), nil
						}
					}
					return a, b, fmt.Errorf("%s is not among the best tables of %s on %s", kind, name, e.target)
				})
			}
		}
	}
}

func tableName(t schedule.Trace) string {
	d, q := t[0].(schedule.Decompose), t[1].(schedule.QuantizeTable)
	text := fmt.Sprint(d.Value, " ", strings.Trim(fmt.Sprint(d.Parts), "[]"), " ", q.Kind)
	if d.Mirror {
		text += " mirrored"
	}
	return text
}
