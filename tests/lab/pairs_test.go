package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	measured "github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/tests/drawn"
)

// choices is the page whose figures are pairs, or are in the list of those that are none.
const choices = "choices.md"

// unpaired are figures of choices that are no pairs: the words of a section, or cells of its tables. A number that is 0 stands for
// all tables, rows or columns. Without words and numbers it is the whole section.
type unpaired struct {
	Section string `json:"section"`
	Table   int    `json:"table,omitempty"`
	Row     int    `json:"row,omitempty"`
	Column  int    `json:"column,omitempty"`
	Text    string `json:"text,omitempty"`
	Reason  string `json:"reason"`
}

// has says that a cell is among what u lists.
func (u unpaired) has(table, row, column int) bool {
	return u.Text == "" && (u.Table == 0 || u.Table == table) && (u.Row == 0 || u.Row == row) && (u.Column == 0 || u.Column == column)
}

// pageSection is a section of a page: its words, and the cells of its tables by row, the first row the header.
type pageSection struct {
	words  string
	tables [][][]string
}

// pageSections are the sections of a page by name, "" what stands before all.
func pageSections(text string) map[string]*pageSection {
	now := &pageSection{}
	all := map[string]*pageSection{"": now}
	inTable := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, begins := strings.CutPrefix(line, "### ")
		switch {
		case begins:
			now = &pageSection{}
			all[name] = now
		case strings.HasPrefix(line, "|"):
			if !inTable {
				now.tables = append(now.tables, nil)
			}
			now.addRow(line)
		default:
			now.words += line + " "
		}
		inTable = strings.HasPrefix(line, "|")
	}
	return all
}

// addRow adds a line of its last table to s.
func (s *pageSection) addRow(line string) {
	if strings.HasPrefix(line, "|-") {
		return
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	last := &s.tables[len(s.tables)-1]
	*last = append(*last, cells)
}

func readPairs(t *testing.T) []measured.Pair {
	t.Helper()
	all, err := measured.Read(bytes.NewReader(readPage(t, filepath.Join(pages, "pairs.jsonl"))))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readUnpaired(t *testing.T) (all []unpaired) {
	t.Helper()
	for line := range bytes.Lines(readPage(t, filepath.Join(pages, "unpaired.jsonl"))) {
		var u unpaired
		if err := format.UnmarshalWhole(line, &u); err != nil {
			t.Fatalf("line %d: %v", len(all)+1, err)
		}
		all = append(all, u)
	}
	return all
}

// logged is the page of pairs that tmacc log -pairs printed: their text is the number of the search.
const logged = "log"

var searchID = regexp.MustCompile(`^[0-9a-f]{16}$`)

// TestPairSources: what a pair quotes stands on its page.
func TestPairSources(t *testing.T) {
	read := map[string]map[string]*pageSection{}
	for _, p := range readPairs(t) {
		s := p.Source
		if s.Page == logged {
			if !searchID.MatchString(s.Text) {
				t.Errorf("line %d: search %q: want 16 hexadecimal digits", p.Line, s.Text)
			}
			continue
		}
		if read[s.Page] == nil {
			read[s.Page] = pageSections(string(readPage(t, filepath.Join(pages, s.Page))))
		}
		at := read[s.Page][s.Section]
		if at == nil || len(s.Figures) == 0 && s.Text == "" {
			t.Errorf("line %d: no section %s of %s, or nothing from it", p.Line, s.Section, s.Page)
			continue
		}
		if !strings.Contains(at.words, s.Text) {
			t.Errorf("line %d: section %s does not say %q", p.Line, s.Section, s.Text)
		}
		for _, f := range s.Figures {
			if f.Table > len(at.tables) || f.Row >= len(at.tables[f.Table-1]) || f.Column > len(at.tables[f.Table-1][f.Row]) || at.tables[f.Table-1][f.Row][f.Column-1] != f.Cell {
				t.Errorf("line %d: section %s has no cell %+v", p.Line, s.Section, f)
			}
		}
	}
}

// Figures: a cell that begins with a digit, and in words a number with a fraction.
var (
	cellFigure = regexp.MustCompile(`^\d`)
	wordFigure = regexp.MustCompile(`\d+\.\d+`)
)

// TestEveryFigure: each figure of the page is in a pair, or in the list of those that are none, which says why.
func TestEveryFigure(t *testing.T) {
	all := pageSections(string(readPage(t, filepath.Join(pages, choices))))
	delete(all, "")
	none, quoted, cells := map[string][]unpaired{}, map[string][]string{}, map[string]bool{}
	cell := func(section string, table, row, column int) string { return fmt.Sprint(section, table, row, column) }
	for _, p := range readPairs(t) {
		if s := p.Source; s.Page == choices {
			quoted[s.Section] = append(quoted[s.Section], s.Text)
			for _, f := range s.Figures {
				cells[cell(s.Section, f.Table, f.Row, f.Column)] = true
			}
		}
	}
	for i, u := range readUnpaired(t) {
		if at := all[u.Section]; at == nil || u.Reason == "" || !strings.Contains(at.words, u.Text) {
			t.Errorf("line %d: section %s is not there, does not say %q, or the reason is missing", i+1, u.Section, u.Text)
		}
		none[u.Section] = append(none[u.Section], u)
		quoted[u.Section] = append(quoted[u.Section], u.Text)
	}
	for name, s := range all {
		whole := slices.ContainsFunc(none[name], func(u unpaired) bool { return u.Text == "" && u.Table == 0 })
		if whole {
			continue
		}
		for _, figure := range wordFigure.FindAllString(without(s.words, quoted[name]), -1) {
			t.Errorf("%s: %s in words is neither a pair nor listed", name, figure)
		}
		for i, table := range s.tables {
			for row, line := range table[1:] {
				for column, text := range line {
					listed := slices.ContainsFunc(none[name], func(u unpaired) bool { return u.has(i+1, row+1, column+1) })
					if paired := cells[cell(name, i+1, row+1, column+1)]; column > 0 && cellFigure.MatchString(text) && paired == listed {
						t.Errorf("%s: table %d, row %d, column %d, %q: in a pair %v, listed %v; want one of both", name, i+1, row+1, column+1, text, paired, listed)
					}
				}
			}
		}
	}
}

// without is words without the quoted ones, the longest first.
func without(words string, quoted []string) string {
	slices.SortFunc(quoted, func(a, b string) int { return len(b) - len(a) })
	for _, q := range quoted {
		if q != "" {
			words = strings.ReplaceAll(words, q, "")
		}
	}
	return words
}

// TestPairsDiffer: the schedules of a pair are different machine code on its target. One pair in ten runs, drawn by
// TMACC_SEED, or all with TMACC_LONG=1.
func TestPairsDiffer(t *testing.T) {
	for _, p := range drawn.Some(drawn.New(t), 10, readPairs(t)) {
		a, b := pairNests(t, p)
		on := targets.ByName(p.Target)
		if reflect.DeepEqual(on.Print(pairCode(t, p, a)), on.Print(pairCode(t, p, b))) {
			t.Errorf("line %d: both schedules are one kernel", p.Line)
		}
	}
}

// pairNests are the loops of both schedules of a product or operator.
func pairNests(t *testing.T, p measured.Pair) (a, b *nest.Nest) {
	t.Helper()
	if p.Operator != "" {
		x, y, err := p.Operators()
		if err != nil {
			t.Fatal(err)
		}
		return x.Nest, y.Nest
	}
	x, y, err := p.Kernels()
	if err != nil {
		t.Fatal(err)
	}
	return x.Nest, y.Nest
}

// pairCode is the machine code of one side of a pair.
func pairCode(t *testing.T, p measured.Pair, n *nest.Nest) *lower.Kernel {
	t.Helper()
	on := targets.ByName(p.Target)
	if on == nil {
		t.Fatalf("line %d: no target %s", p.Line, p.Target)
	}
	code, err := lower.Build(t.Context(), on, n)
	if err != nil {
		t.Fatalf("line %d: %v", p.Line, err)
	}
	return code
}
