package search

import (
	"fmt"
	"math/rand"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
)

// FloatLayout is the usual layout of p's codes for tables of f32 activations. Each lane is a row. A word has 32 bits
// and holds all the indices that fit. Where a group ends within a word, neighbouring rows share the word.
func FloatLayout(p ir.Problem, m lower.Machine) Choice {
	c := Choice{Lanes: m.VecBits / 32, Rows: 8, RowFields: 1, Cells: 1, Flush: 1, Hoist: "none", Order: 1, Scale: "end", Streams: m.Streams, Serial: true}
	if m.FewVectors() {
		c.Rows = 4
	}
	c.Table = floatTable(p, 1)
	c.shareWords(p)
	c.Rows = max(c.Rows/c.RowFields, 1)
	g := p.GroupK()
	c.AtGroup = g > 0 && p.Weight.Unit()/g > mostGroups
	return c
}

// shareWords puts several rows in each word until every group ends at the end of a word. Rows can share only words of
// codes. A number that joins several codes fills a word of one row, so joined codes become plain codes first.
func (c *Choice) shareWords(p ir.Problem) {
	for g := p.GroupK(); g > 0 && g%(c.Table.unit()*max(c.Table.fields(p.Weight)/c.RowFields, 1)) != 0; {
		if c.Table.Digits == ir.DigitLevels {
			c.Table.Digits = ir.DigitCodes
		} else {
			c.RowFields *= 2
		}
	}
}

// floatTable returns tables of f32 activations with `parts` parts. One index of a part stands for `Act.Float`
// activations. The index is made of codes, or of codes joined to one number where that takes fewer bits.
func floatTable(p ir.Problem, parts int) *TableChoice {
	w, by := p.Weight, p.Act.Float
	t := &TableChoice{Digits: ir.DigitCodes, Float: true, Along: 1}
	if _, bits, err := format.JoinCodes(len(w.Levels), by, 0); err == nil && bits < by*w.Bits {
		t.Digits = ir.DigitLevels
	}
	for range parts {
		t.Parts = append(t.Parts, by)
	}
	return t
}

// chooseFloats is chooseLayout for f32 activations.
func (d *defaults) chooseFloats() (*candidate, error) {
	l, err := d.cheapestTables([]Choice{FloatLayout(d.p, d.m)})
	if err != nil {
		return nil, fmt.Errorf("f32 activations summed by %d: %w; sum fewer at once, or quantize them", d.p.Act.Float, err)
	}
	return l, nil
}

// sampleFloats makes c a random schedule by tables of f32 activations.
func (c *Choice) sampleFloats(rng *rand.Rand, p ir.Problem, m lower.Machine) {
	w := p.Weight
	t := floatTable(p, pick(rng, 1, 1, 1, 2))
	if t.Digits == ir.DigitCodes && w.Bits == 1 && w.Levels[0] == -w.Levels[1] {
		t.Digits = pick(rng, ir.DigitCodes, ir.DigitSigns)
	}
	t.Keep = rng.Intn(3) == 0
	c.Table, c.AlongK, c.Octets, c.Chunk = t, false, false, 0
	c.Lanes = m.VecBits / 32
	if rng.Intn(4) == 0 {
		c.Lanes = max(c.Lanes/2, 4)
	}
	c.RowFields, c.Cells = pick(rng, 1, 1, 2), c.Flush*pick(rng, 1, 2, 4)
	if p.GroupK()%t.unit() == 0 {
		c.shareWords(p)
	}
	cell := t.unit() * max(t.fields(w)/c.RowFields, 1)
	for g := p.GroupK(); g > 0 && c.Flush > 1 && g%(cell*c.Flush) != 0; {
		c.Flush /= 2
	}
	for c.Block*c.Cols*c.RowFields > 8 && c.Cols > 1 {
		c.Cols--
	}
}
