package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFamiliesPicture holds docs/lab/families.svg, and that of another machine, against the tables of their pages.
func TestFamiliesPicture(t *testing.T) {
	for _, dir := range []string{"../../docs/lab", "../../docs/lab/emerald"} {
		columns, rows, from := familiesTable(t, string(readPage(t, filepath.Join(dir, "families.md"))))
		picture, err := familiesPicture(columns, rows, from)
		if err != nil {
			t.Fatal(err)
		}
		want, err := picture.encode(".svg")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "families.svg")
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || string(have) != string(want) {
			t.Errorf("%s is not what the page beside it says (%v): go test ./cmd/tmacc -run TestFamiliesPicture -update", path, err)
		}
	}
}

var familiesSource = regexp.MustCompile(`machine: (.*); date: (.*); tmacc: (.*)\. Each cell`)

// familiesTable is what a page of families says.
func familiesTable(t *testing.T, page string) (columns []string, rows []familyRow, from source) {
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
	from.add(m[1], m[2], m[3])
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
