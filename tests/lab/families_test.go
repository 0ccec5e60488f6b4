package main

import (
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/picture"
)

// TestFamiliesPicture holds the plots of families against the tables of their pages.
func TestFamiliesPicture(t *testing.T) {
	for _, dir := range []string{pages, filepath.Join(pages, "emerald")} {
		columns, rows, from := familiesTable(t, string(readPage(t, filepath.Join(dir, "families.md"))))
		p, err := familiesPicture(columns, rows, from)
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Encode(".svg")
		if err != nil {
			t.Fatal(err)
		}
		same(t, filepath.Join(dir, "families.svg"), string(want))
	}
}

// The page has a row for each contest, with the best tables of each place.
func TestFamiliesPage(t *testing.T) {
	dots := &entrant{speeds: [][]float64{{10, 10, 10, 10, 10}, {30, 10, 10, 10, 10}, {20, 10, 10, 10, 10}}}
	first := &entrant{tables: "bits 4 u8", speeds: [][]float64{{40, 5, 5, 5, 5}, {44, 5, 5, 5, 5}, {4, 5, 5, 5, 5}}}
	second := &entrant{tables: "codes 1 i16", speeds: [][]float64{{1, 8, 5, 5, 5}, {1, 8, 5, 5, 5}, {1, 8, 5, 5, 5}}}
	all := []*contest{{"w2", "avx2", []*entrant{dots, first, second}}}
	var from picture.Source
	from.Add("here", "2026-01-02", "")
	page := familiesPage("go run ./tests/lab families", all, []string{"w8: none"}, from)
	for _, want := range []string{
		"| w2 | avx2 | 1: bits 4 u8<br>2: codes 1 i16 | **2.00 (40) 1** | 0.80 (8) 2 | 0.50 (5) 1 |", "medians of 3 interleaved rounds", "the 2 with the best estimates", "Not compared: w8: none.\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	columns, rows, source := familiesTable(t, page)
	if fmt.Sprint(columns) != fmt.Sprint(familyColumns()) || fmt.Sprint(rows) != fmt.Sprint(familyRows(all)) || source.String() != from.String() {
		t.Errorf("read again: %v %v %v", columns, rows, source)
	}
}

// Products for which a family has no schedule are left out with the reason. A machine that cannot run any is an error.
func TestFamiliesUnmeasured(t *testing.T) {
	needMeasuring(t)
	target, err := targetHere("host")
	if err != nil {
		t.Fatal(err)
	}
	x := &lab{err: io.Discard, quiet: true}
	compare := func(format string) ([]string, error) {
		_, skipped, err := x.compareTargets(t.Context(), format, []targets.Target{target}, familiesFlags{tables: 1}, nil)
		return skipped, err
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	if skipped, err := compare("w8"); err != nil || len(skipped) != 1 || !strings.Contains(skipped[0], "no schedule by tables") {
		t.Errorf("w8: %q, %v", skipped, err)
	}
	if skipped, err := compare("w2"); err == nil || len(skipped) > 0 || !strings.Contains(err.Error(), "gone") {
		t.Errorf("w2: %q, %v", skipped, err)
	}
}

var familiesSource = regexp.MustCompile(`machine: (.*); date: (.*); tmacc: (.*)\.\n`)

// familiesTable reads the table of a page of families.
func familiesTable(t *testing.T, page string) (columns []string, rows []familyRow, from picture.Source) {
	t.Helper()
	m := familiesSource.FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page does not say where it was measured")
	}
	for i, text := range m {
		if text == "not recorded" {
			m[i] = ""
		}
	}
	from.Add(m[1], m[2], m[3])
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "*")
		}
		switch {
		case len(cells) < 4 || strings.HasPrefix(cells[0], "--"):
		case columns == nil:
			columns = cells[3:]
		default:
			row := familyRow{format: cells[0], target: cells[1]}
			for _, cell := range cells[3:] {
				ratio, _, _ := strings.Cut(cell, " ")
				v, err := strconv.ParseFloat(ratio, 64)
				if err != nil {
					t.Fatal(err)
				}
				row.ratios = append(row.ratios, v)
			}
			rows = append(rows, row)
		}
	}
	return columns, rows, from
}
