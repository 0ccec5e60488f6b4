package search

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TableWidths are the column-block widths that TableUses has kernels for.
var TableWidths = []int{1, 4}

// TableUses chooses schedules of p by tables, as Default does among all: for one
// column the choice that costs least, for more the cheapest of the same packed
// layout and tables. It is an error if p has none on the machine.
func TableUses(p ir.Problem, t lower.Target) ([]Use, error) {
	var uses []Use
	var first *schedule.Kernel
	fail := fmt.Errorf("more than %d bits", mostTableBits)
	for _, cols := range TableWidths {
		var best *scheduled
		for _, c := range tableChoices(p.Weight, t.Machine(), cols) {
			s, err := c.build(p, t)
			if err != nil {
				fail = err
				continue
			}
			if (best == nil || s.cost < best.cost) && (first == nil || sharesBuffers(p, first, s.trace)) {
				best = s
			}
		}
		if best == nil {
			continue
		}
		if first == nil {
			first, _ = schedule.Compile(p, best.trace) // which compiled before
		}
		uses = append(uses, Use{cols, best.trace, best.choice})
	}
	if first == nil || uses[0].Cols != 1 {
		return nil, fmt.Errorf("%v on %s: no schedule by tables: %w", p.Weight, t.Machine().Name, fail)
	}
	return uses, nil
}

// sharesBuffers says that a trace reads the packed matrices and the tables of k.
func sharesBuffers(p ir.Problem, k *schedule.Kernel, trace schedule.Trace) bool {
	x, err := schedule.Compile(p, trace)
	return err == nil && x.Weights.Hash() == k.Weights.Hash() && x.Tables.ID() == k.Tables.ID()
}

// mostTableBits is the most bits of a weight whose codes make an index.
const mostTableBits = 4

// tableChoices are schedules by tables worth a look: every way to cut an index, in
// lanes of rows and, where dot products sum neighbouring lanes, of units along K.
func tableChoices(w format.Weight, m lower.Machine, cols int) []Choice {
	if w.Bits > mostTableBits {
		return nil
	}
	var out []Choice
	for _, d := range tableDigits(w) {
		for _, form := range tableForms(m) {
			form.Table.Digits, form.Table.Mirror = d.Digits, d.Mirror
			if d.Mirror {
				form.Table.Low = min(form.Table.Low, mirrorLow)
			}
			ways := form.Table.parts(w)
			for i, cut := range ways {
				if slices.ContainsFunc(ways[:i], func(x []int) bool { return slices.Equal(x, cut) }) {
					continue
				}
				for _, rows := range []int{1, 2, 4} {
					c, t := form, *form.Table
					c.Rows, c.Block, c.Cols, c.Table = rows, rows, cols, &t
					t.Parts = cut
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// tableDigits are the digits of w that indices are made of.
func tableDigits(w format.Weight) []TableChoice {
	out := []TableChoice{{Digits: ir.DigitSigns}, {Digits: ir.DigitBits}, {Digits: ir.DigitCodes}, {Digits: ir.DigitLevels},
		{Digits: ir.DigitSigns, Mirror: true}}
	if w.Symmetric() {
		out = append(out, TableChoice{Digits: ir.DigitLevels, Mirror: true})
	}
	return out
}

// mirrorLow is the most bits of a lower half that can be negated.
const mirrorLow = 7

// tableForms are how vectors look into tables: 16-bit entries in lanes of rows, or
// two of them by a dot product; bytes along K, four by a dot product; bytes in lanes
// of rows, summed as bytes first.
func tableForms(m lower.Machine) []Choice {
	form := func(lane, flush, cells int, t TableChoice) Choice {
		return Choice{Lanes: m.VecBits / lane, RowFields: 1, Flush: flush, Cells: cells, Hoist: "init", Scale: "end", Ahead: 4096, Table: &t}
	}
	bytes := form(8, 4, 32, TableChoice{Low: 5, Along: 1, Bytes: true, Pairs: true})
	bytes.Serial = true
	return []Choice{
		form(16, 8, 8, TableChoice{Along: 1, Narrow: true}),
		form(16, 16, 16, TableChoice{Along: 1, Narrow: true}),
		form(32, 1, 4, TableChoice{Along: 2}),
		form(32, 1, 4, TableChoice{Low: 8, Along: 4}),
		bytes,
	}
}
