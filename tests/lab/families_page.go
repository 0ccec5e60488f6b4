package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/timing"
)

// median is the median speed of all rounds at a place.
func (e *entrant) median(at int) float64 {
	var xs []float64
	for _, row := range e.speeds {
		xs = append(xs, row[at])
	}
	return timing.Median(xs)
}

// best is the quickest entrant by tables at a place.
func (k *contest) best(at int) *entrant {
	return slices.MaxFunc(k.entrants[1:], func(x, y *entrant) int { return cmp.Compare(x.median(at), y.median(at)) })
}

// ratio is the speed of the best tables at a place, divided by the speed of dot products.
func (k *contest) ratio(at int) float64 { return k.best(at).median(at) / k.entrants[0].median(at) }

// tables names the entrants by tables that are quickest somewhere, and numbers all.
func (k *contest) tables() (text string, number map[*entrant]int) {
	number = map[*entrant]int{}
	var names []string
	for at := range familyColumns() {
		if e := k.best(at); number[e] == 0 {
			number[e] = len(number) + 1
			names = append(names, fmt.Sprintf("%d: %s", number[e], e.tables))
		}
	}
	return strings.Join(names, "<br>"), number
}

// familiesHead is the page above its table.
const familiesHead = `# Where tables win

A product of low-bit weights can be computed by dot products of decoded weights, or by lookups in tables of activation
sums. The format, the instruction set and the place of the weights decide which way is faster. This page was measured by

    %s

on one thread; %s.

A cell such as **1.89 (227) 1** says:

* 1.89: the speed by tables, divided by the speed of the default schedule by dot products. It is bold where tables win.
* 227: the speed by tables in weights (multiply-accumulates) per ns, without preparing the activations.
* 1: which tables they are, by their number in the column *tables*.

Speeds are medians of %d interleaved rounds. Of the schedules by tables, the %d with the best estimates were measured, and the
quickest one counts at each place. *Tables* says how an index is made: from which digits (*signs*: each bit as -1 or +1),
and how many digits each part has. Then it says what entries are: 16 bits (i16), bytes of a lower and an upper
half (split), or bytes with residuals (u8).

`

func familiesPage(command string, all []*contest, skipped []string, from picture.Source) string {
	var b strings.Builder
	tables, rounds := 0, len(all[0].entrants[0].speeds)
	for _, k := range all {
		tables = max(tables, len(k.entrants)-1)
	}
	fmt.Fprintf(&b, familiesHead, command, from, rounds, tables)
	columns := familyColumns()
	fmt.Fprintf(&b, "| format | target | tables | %s |\n|---|---|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)))
	for _, k := range all {
		names, number := k.tables()
		fmt.Fprintf(&b, "| %s | %s | %s |", k.format, k.target, names)
		for i := range columns {
			e := k.best(i)
			cell := fmt.Sprintf("%.2f (%.0f) %d", k.ratio(i), e.median(i), number[e])
			if k.ratio(i) > 1 {
				cell = "**" + cell + "**"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
	b.WriteString("\n![ratio of the speeds by format, target and place](families.svg)\n")
	if len(skipped) > 0 {
		fmt.Fprintf(&b, "\nNot compared: %s.\n", strings.Join(skipped, "; "))
	}
	return b.String()
}

// familyRow is a row of the page's table: a format, a target and a ratio for each column, rounded as on the page.
type familyRow struct {
	format, target string
	ratios         []float64
}

// familyRows returns the rows of the page's table.
func familyRows(all []*contest) (out []familyRow) {
	for _, k := range all {
		row := familyRow{format: k.format, target: k.target}
		for i := range familyColumns() {
			row.ratios = append(row.ratios, math.Round(k.ratio(i)*100)/100)
		}
		out = append(out, row)
	}
	return out
}

// familiesPicture draws the ratios: a plot for each format, a group of bars for each target, a bar for each column.
func familiesPicture(columns []string, rows []familyRow, from picture.Source) (*picture.Picture, error) {
	var groups []picture.Group
	for _, r := range rows {
		groups = append(groups, picture.Group{Plot: r.format, Name: r.target, Ratios: r.ratios})
	}
	return picture.Bars("Speed by tables divided by speed by dot products, bars in this order", "ratio of speeds", from, columns, groups)
}
