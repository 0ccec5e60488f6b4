package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// TableUses are up to n ways to make products of p by tables, those that are estimated to
// cost least first, each with the schedules of all widths as Default has them. Default tries
// a few of them for codes of at most two bits. It is an error if p has none on the machine.
// Interrupted, it returns the error of ctx.
func TableUses(ctx context.Context, p ir.Problem, t lower.Target, n int) ([][]Use, error) {
	type costed struct {
		*candidate
		cost float64
	}
	var all []costed
	fail := fmt.Errorf("more than %d bits", mostTableBits)
	d := newDefaults(ctx, p, t)
	for _, base := range allTables(p, t) {
		l := d.candidate(base)
		one, err := l.use(1)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			fail = err
			continue
		}
		all = append(all, costed{l, one.cost})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%v on %s: no schedule by tables: %w", p.Weight, t.Machine().Name, fail)
	}
	keep := func(n int) { // of each kind of tables the best
		slices.SortStableFunc(all, func(x, y costed) int { return cmp.Compare(x.cost, y.cost) })
		seen := map[string]bool{}
		all = slices.DeleteFunc(all, func(x costed) bool {
			kind := fmt.Sprint(x.best[1].trace[:2]) // decompose and quantize_table
			if seen[kind] || len(seen) == n {
				return true
			}
			seen[kind] = true
			return false
		})
	}
	keep(4 * n) // by one column, then by all widths
	for i, l := range all {
		all[i].cost = l.blocks()
	}
	keep(n)
	var out [][]Use
	for _, l := range all {
		first, err := schedule.Compile(p, l.best[1].trace)
		if err != nil {
			return nil, err // it compiled before
		}
		out = append(out, slices.DeleteFunc(l.uses(), func(u Use) bool {
			// The bit planes of a block of rows lie together, so that another size of block is another layout.
			k, err := schedule.Compile(p, u.Trace)
			return err != nil || !k.SharesBuffers(first)
		}))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// mostTableBits is the most bits of a weight whose codes make an index.
const mostTableBits = 4

// allTables are the layouts of every way to look into tables and to cut an index.
func allTables(p ir.Problem, t lower.Target) (out []Choice) {
	w := p.Weight
	if w.Bits > mostTableBits {
		return nil
	}
	add := func(c Choice, rows int, x TableChoice) {
		c.Rows, c.Table = rows, &x
		out = append(out, c.fitTables(p))
	}
	for _, c := range tableForms(p, t) {
		x := *c.Table
		if x.Exact {
			x.Digits, x.Parts = exact(p).Digits, exact(p).Parts
			add(c, c.Rows, x)
			continue
		}
		low := x.Low
		for _, d := range tableDigits(w) {
			x.Digits, x.Mirror, x.Low = d.Digits, d.Mirror, low
			if d.Mirror {
				x.Low = min(low, mirrorLow)
			}
			ways := x.parts(w)
			slices.SortFunc(ways, slices.Compare)
			for _, x.Parts = range slices.CompactFunc(ways, slices.Equal) {
				for _, rows := range []int{1, 2, 4} {
					add(c, rows, x)
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
