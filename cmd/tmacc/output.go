package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/tmacc/tmacc/ir/format"
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
	// wide is the column that is shortened if the lines are wider than the
	// terminal, -1 for none.
	wide int
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// print writes the table, its lines at most width wide if t.wide allows (0: any).
// Columns of numbers are right-aligned.
func (t *table) print(w io.Writer, width int) {
	widths, number := t.measure()
	if t.wide >= 0 && width > 0 {
		total := 0
		for _, x := range widths {
			total += x + 2
		}
		widths[t.wide] = max(len(t.head[t.wide]), min(widths[t.wide], widths[t.wide]-(total-2-width)))
	}
	for _, row := range append([][]string{t.head}, t.rows...) {
		var b strings.Builder
		for i, cell := range row {
			cell = shorten(cell, widths[i])
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if number[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString(cell + "  ")
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// markdown writes the table for a page.
func (t *table) markdown(w io.Writer) {
	_, number := t.measure()
	rule := make([]string, len(t.head))
	for i := range rule {
		if rule[i] = "---"; number[i] {
			rule[i] = "---:"
		}
	}
	for _, row := range append([][]string{t.head, rule}, t.rows...) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
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

// counted is a number of things: "1 column", "2 columns".
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// shorten cuts s to n characters, the last an ellipsis.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(0, n-1)]) + "…"
}

// fallbackWidth is the width of what is no terminal.
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

// most is how many bytes of a text from outside a message repeats.
const most = 80

// quotedIfOdd is text as a message repeats it: as it is, or quoted if it cannot be printed on one line, or has spaces,
// and cut if it is long.
func quotedIfOdd(text string) string {
	short := text
	if len(short) > most {
		short = short[:most]
	}
	if short == "" || !format.OneLine(short) || strings.ContainsAny(short, " \"") {
		short = strconv.Quote(short)
	}
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", short, len(text))
	}
	return short
}

// printable is text with escapes for what a terminal does not print, but acts on: a name that a user gave may have any bytes.
func printable(text string) string {
	if format.OneLine(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}
