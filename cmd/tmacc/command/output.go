package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/tmacc/tmacc/gen/message"
)

// output is standard output: it writes nothing more after an error, which it remembers.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(data []byte) (n int, err error) {
	if o.err == nil {
		n, o.err = o.to.Write(data)
	}
	return n, o.err
}

// printJSON writes v as indented JSON.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table is text in columns.
type table struct {
	head []string
	rows [][]string
	// wide is the column that gives way if the lines are wider than the
	// terminal, -1 for none. It is never cut: what tells rows apart may be at the end.
	wide int
	// parts separates the items of the cells of the wide column, if these are lists that
	// have much in common from row to row.
	parts string
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// leastWide is the least width of a wrapped column.
const leastWide = 20

// print writes the table, its lines at most width wide if t.wide allows (0: any).
// Columns of numbers are right-aligned. If the lines are too wide, lists in the wide column
// say only how they differ from the row above. If the lines are still too wide, the column is
// wrapped. If the other columns leave it less than leastWide, its cells go below their rows.
func (t *table) print(w io.Writer, width int) {
	if t.wide < 0 || width <= 0 || t.excess(width) <= 0 {
		t.align(w, nil)
		return
	}
	short := t
	if t.parts != "" {
		short = t.differences()
	}
	widths, _ := short.measure()
	excess := short.excess(width)
	switch room := widths[t.wide] - excess; {
	case excess <= 0:
		short.align(w, nil)
	case room >= leastWide:
		short.folded(room).align(w, nil)
	default:
		others, below := short.split(width)
		others.align(w, below)
	}
	if short != t && len(t.rows) > 1 {
		note := t.head[t.wide] + ": … is what the row above has there."
		fmt.Fprintf(w, "\n%s\n", strings.Join(wrap(note, width), "\n"))
	}
}

// excess is by how much the lines are wider than width.
func (t *table) excess(width int) int {
	total := -2
	widths, _ := t.measure()
	for _, x := range widths {
		total += x + 2
	}
	return total - width
}

// align writes the rows in columns. below has the lines to write below the head, and below each row; nil: none.
func (t *table) align(w io.Writer, below [][]string) {
	widths, number := t.measure()
	for i, row := range append([][]string{t.head}, t.rows...) {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if number[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString(cell + "  ")
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		if below != nil {
			for _, line := range below[i] {
				fmt.Fprintln(w, line)
			}
		}
	}
}

// folded returns the table with its wide column wrapped: each line is a row.
func (t *table) folded(width int) *table {
	out := &table{head: t.head, wide: t.wide}
	for _, row := range t.rows {
		for i, line := range wrap(row[t.wide], width) {
			if i > 0 {
				row = make([]string, len(row))
			}
			row = slices.Clone(row)
			row[t.wide] = line
			out.rows = append(out.rows, row)
		}
	}
	return out
}

// split returns the table without its wide column, and the cells of that column as indented lines: of the head, then of each row.
func (t *table) split(width int) (others *table, below [][]string) {
	const indent = "    "
	without := func(row []string) []string {
		lines := wrap(row[t.wide], width-len(indent))
		for i := range lines {
			lines[i] = indent + lines[i]
		}
		below = append(below, lines)
		return slices.Delete(slices.Clone(row), t.wide, t.wide+1)
	}
	others = &table{head: without(t.head), wide: -1}
	for _, row := range t.rows {
		others.rows = append(others.rows, without(row))
	}
	return others, below
}

// differences returns the table with lists in the wide column that say how they differ from the row above.
func (t *table) differences() *table {
	out := &table{head: t.head, wide: t.wide}
	for i, row := range t.rows {
		if i > 0 {
			before, list := strings.Split(t.rows[i-1][t.wide], t.parts), strings.Split(row[t.wide], t.parts)
			row = slices.Clone(row)
			row[t.wide] = strings.Join(changes(before, list), t.parts)
		}
		out.rows = append(out.rows, row)
	}
	return out
}

// changes returns a list with an ellipsis for each run of items that the list before has too, in the same order. Between
// ellipses, an item replaces one of the list before that begins with the same word. Items that nothing replaces are named as left out.
func changes(before, list []string) (out []string) {
	same := common(before, list)
	for i := 0; ; i++ {
		n, m := len(before), len(list)
		if i < len(same) {
			n, m = slices.Index(before, same[i]), slices.Index(list, same[i])
		}
		out = append(out, list[:m]...)
		for _, item := range unmatched(before[:n], list[:m]) {
			out = append(out, "without "+item)
		}
		if i == len(same) {
			return out
		}
		if before, list = before[n+1:], list[m+1:]; len(out) == 0 || out[len(out)-1] != "…" {
			out = append(out, "…")
		}
	}
}

// unmatched returns the items that have no partner in others: one that begins with the same word.
func unmatched(items, others []string) (out []string) {
	first := func(item string) string { word, _, _ := strings.Cut(item, " "); return word }
	others = slices.Clone(others)
	for _, item := range items {
		i := slices.IndexFunc(others, func(o string) bool { return first(o) == first(item) })
		if i < 0 {
			out = append(out, item)
			continue
		}
		others = slices.Delete(others, i, i+1)
	}
	return out
}

// common returns a longest list of items that a and b both have, in that order.
func common(a, b []string) (out []string) {
	length := make([][]int, len(a)+1) // of the common parts of a[i:] and b[j:]
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if length[i][j] = max(length[i+1][j], length[i][j+1]); a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			out, i, j = append(out, a[i]), i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return out
}

// wrap breaks s at spaces into lines of at most width characters, and inside of longer words.
func wrap(s string, width int) (lines []string) {
	width = max(width, 1)
	line := []rune(nil)
	for word := range strings.FieldsSeq(s) {
		if n := len(line) + 1 + utf8.RuneCountInString(word); len(line) > 0 && n <= width {
			line = append(append(line, ' '), []rune(word)...)
			continue
		}
		if len(line) > 0 {
			lines = append(lines, string(line))
		}
		for line = []rune(word); len(line) > width; line = line[width:] {
			lines = append(lines, string(line[:width]))
		}
	}
	return append(lines, string(line))
}

// measure is the width of each column and whether it holds numbers.
func (t *table) measure() (widths []int, number []bool) {
	widths, number = make([]int, len(t.head)), make([]bool, len(t.head))
	for i, h := range t.head {
		widths[i], number[i] = utf8.RuneCountInString(h), len(t.rows) > 0
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			number[i] = number[i] && strings.Trim(row[i], "0123456789.-%") == ""
		}
	}
	return widths, number
}

// counted is message.Count.
func counted(n int, thing string) string { return message.Count(n, thing) }

// shorten cuts s to n characters, the last an ellipsis.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}

// fallbackWidth is the width of an output that is no terminal.
const fallbackWidth = 160

// widthOf is the number of columns of the terminal that w is.
func widthOf(w io.Writer) int {
	if o, ok := w.(*output); ok {
		w = o.to
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return fallbackWidth
}

// quotedIfOdd is message.Quoted.
func quotedIfOdd(text string) string { return message.Quoted(text) }
