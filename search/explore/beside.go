package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/session"
)

// Names of schedules that exist without Mark.
const (
	NowPoint     = "now"     // the schedule at hand
	BeforePoint  = "before"  // the one before the last change
	FirstPoint   = "first"   // the one that the exploration began with
	DefaultPoint = "default" // the default schedule
	BestPoint    = "best"    // what the last search has found
	MarkedPoint  = "marked"  // what Mark has remembered without a name; the default schedule if nothing
)

// pointNames are the names that Mark does not take, except MarkedPoint.
var pointNames = []string{NowPoint, BeforePoint, FirstPoint, DefaultPoint, BestPoint, MarkedPoint}

// Mark remembers the schedule by a name, "" for MarkedPoint. The error says that the name means something else, or is no word.
func (e *Explorer) Mark(name string) error {
	switch {
	case name == "":
		name = MarkedPoint
	case slices.Contains(pointNames, name) && name != MarkedPoint:
		return fmt.Errorf("%s already names a schedule: choose another name", name)
	case slices.Contains(StageNames(), name):
		return fmt.Errorf("%s is a stage: choose another name", name)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.marked) >= mostMarked && e.marked[name] == nil {
		return fmt.Errorf("%d schedules are marked, and no more can be: use one of their names again", mostMarked)
	}
	e.marked[name] = e.history[e.now]
	return nil
}

// mostMarked bounds the schedules that are marked.
const mostMarked = 100

// Point is a schedule by its name. The error names those that there are.
func (e *Explorer) Point(name string) (schedule.Trace, error) {
	if name == BestPoint {
		if f := e.Best(); f != nil {
			return f.Trace, nil
		}
		return nil, ErrNoBest
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.marked[name]; t != nil {
		return t, nil
	}
	switch name {
	case NowPoint:
		return e.history[e.now], nil
	case BeforePoint:
		return e.history[max(0, e.now-1)], nil
	case FirstPoint:
		return e.history[0], nil
	case DefaultPoint, MarkedPoint:
		return e.usual, nil
	}
	have := slices.Clone(pointNames)
	for x := range e.marked {
		if x != MarkedPoint {
			have = append(have, x)
		}
	}
	slices.Sort(have[len(pointNames):])
	return nil, fmt.Errorf("no schedule is marked as %.40q: have %s", name, strings.Join(have, ", "))
}

// wordsOf names a point in texts.
func wordsOf(name string) string {
	switch name {
	case DefaultPoint:
		return defaultWords
	case NowPoint, MarkedPoint, FirstPoint, BestPoint:
		return "the " + map[string]string{NowPoint: "schedule", MarkedPoint: "marked schedule", FirstPoint: "first schedule", BestPoint: "best schedule found"}[name]
	}
	return name
}

// Compare measures one point beside another one, in the same rounds.
func (e *Explorer) Compare(ctx context.Context, own, base string, hear func(session.Event)) (*Measured, error) {
	t, err := e.Point(own)
	if err != nil {
		return nil, err
	}
	other, err := e.Point(base)
	if err != nil {
		return nil, err
	}
	m, err := e.beside(ctx, hear, t, other, base)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pairs == nil || len(e.pairs) > mostMarked {
		e.pairs = map[[2]string]*Measured{}
	}
	e.pairs[[2]string{t.Key(), other.Key()}] = m
	return m, nil
}

// Beside is a stage of two schedules in two columns.
type Beside struct {
	Stage    string    `json:"stage"`
	Left     string    `json:"left"`  // names
	Right    string    `json:"right"` // of the points
	Predicts float64   `json:"predicted,omitempty"`
	Measured *Measured `json:"measured,omitempty"` // the right one beside the left one, if Compare has measured it
	Rows     []Row     `json:"rows"`
}

// Row is a line of each, or of one.
type Row struct {
	Left  string `json:"left,omitempty"`
	Right string `json:"right,omitempty"`
	Op    RowOp  `json:"op"`
}

// RowOp says which of two schedules has the line of a row.
type RowOp string

// Both, both with other operands, only the left one, or only the right one.
const (
	SameRow  RowOp = " "
	OtherRow RowOp = "|"
	LeftRow  RowOp = "<"
	RightRow RowOp = ">"
)

// Beside is a stage of two points in two columns, lines that both have in one row. The error says that one has not got so far.
func (e *Explorer) Beside(ctx context.Context, stage, left, right string) (Beside, error) {
	b := Beside{Stage: stage, Left: left, Right: right}
	var traces [2]schedule.Trace
	var lines [2][]string
	var predicted [2]Prediction
	for i, name := range []string{left, right} {
		var err error
		if traces[i], err = e.Point(name); err != nil {
			return b, err
		}
		text, err := e.Text(traces[i], stage)
		if err != nil {
			return b, fmt.Errorf("%s: %w", wordsOf(name), err)
		}
		lines[i] = besideLines(text, stage)
		if predicted[i], err = e.Predict(ctx, traces[i]); err != nil {
			return b, err
		}
	}
	if l, r := predicted[0], predicted[1]; l.Refused == "" && r.Refused == "" {
		b.Predicts = r.Ratio / l.Ratio
	}
	e.mu.Lock()
	b.Measured = e.pairs[[2]string{traces[1].Key(), traces[0].Key()}]
	if same(traces[0], e.usual) && b.Measured == nil {
		b.Measured = e.about(traces[1]).measured
	}
	e.mu.Unlock()
	b.Rows = aligned(lines[0], lines[1])
	return b, nil
}

// besideLines are the lines of a stage. Assembly has neither its head nor comments, and its words stand behind one space.
func besideLines(text, stage string) (out []string) {
	if stage != build.AssemblyStage {
		return linesOf(strings.ReplaceAll(text, "\t", "  "), stage)
	}
	if i := strings.Index(text, "\nTEXT"); i >= 0 {
		text = text[i+1:]
	}
	for line := range strings.SplitSeq(text, "\n") {
		code, _, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		if len(words) == 0 {
			continue
		}
		if strings.HasPrefix(code, "\t") || strings.HasPrefix(code, "  ") {
			words[0] = "  " + words[0]
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// aligned are two lists of lines in rows. Between lines that both have, lines of the same first word stand beside each other.
func aligned(left, right []string) (out []Row) {
	var removed, added []string
	flush := func() {
		out = append(out, paired(removed, added)...)
		removed, added = nil, nil
	}
	for _, l := range compared(left, right) {
		switch l.Op {
		case Removed:
			removed = append(removed, l.Text)
		case Added:
			added = append(added, l.Text)
		default:
			flush()
			out = append(out, Row{l.Text, l.Text, SameRow})
		}
	}
	flush()
	return out
}

// paired are rows of lines that all differ.
func paired(left, right []string) (out []Row) {
	first := func(lines []string) (words []string) {
		for _, l := range lines {
			word, _, _ := strings.Cut(strings.TrimSpace(l), " ")
			words = append(words, word)
		}
		return words
	}
	for _, l := range compared(first(left), first(right)) {
		switch l.Op {
		case Removed:
			out, left = append(out, Row{left[0], "", LeftRow}), left[1:]
		case Added:
			out, right = append(out, Row{"", right[0], RightRow}), right[1:]
		default:
			out, left, right = append(out, Row{left[0], right[0], OtherRow}), left[1:], right[1:]
		}
	}
	return out
}

// Head names both schedules, counts their lines, and says how their times differ.
func (b Beside) Head() []string {
	n := map[RowOp]int{}
	for _, r := range b.Rows {
		n[r.Op]++
	}
	lines := []string{fmt.Sprintf("%s: %s on the left, %s on the right; %d lines same, %d with other operands, %d only left, %d only right",
		b.Stage, wordsOf(b.Left), wordsOf(b.Right), n[SameRow], n[OtherRow], n[LeftRow], n[RightRow])}
	return append(lines, "right over left: "+b.Ratios())
}

// Ratios are the predicted and the measured time of the right one over the left one's.
func (b Beside) Ratios() string {
	text := "not predicted"
	if b.Predicts > 0 {
		text = fmt.Sprintf("predicted %.3f", b.Predicts)
	}
	if b.Measured == nil {
		return text + ", not measured"
	}
	return fmt.Sprintf("%s, measured %v", text, b.Measured.Ratio)
}

// Names are what both columns are.
func (b Beside) Names() Row { return Row{wordsOf(b.Left), wordsOf(b.Right), SameRow} }

// columnWide is the width of a column of text.
const columnWide = 56

// Text is b, each column of a width.
func (b Beside) Text(width int) string {
	lines := b.Head()
	for _, r := range b.Rows {
		lines = append(lines, r.Text(width))
	}
	return trimmed(strings.Join(lines, "\n"))
}

func (b Beside) String() string { return b.Text(columnWide) }

// Text is a row, each column of a width.
func (r Row) Text(width int) string {
	return fmt.Sprintf("%s %s %s", column(r.Left, width), r.Op, column(r.Right, width))
}

// column is text of a width, cut or filled.
func column(text string, width int) string {
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:max(width-1, 0)]) + "…"
	}
	return text + strings.Repeat(" ", width-len(runes))
}

// pair are the names of two points among arguments, the base first: marked and now, one and now, or both.
func pair(args []string) (base, own string, err error) {
	switch len(args) {
	case 0:
		return MarkedPoint, NowPoint, nil
	case 1:
		return args[0], NowPoint, nil
	case 2:
		return args[0], args[1], nil
	}
	return "", "", errors.New("want two names of schedules at most")
}
