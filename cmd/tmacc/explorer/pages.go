package explorer

import (
	"context"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/explore"
)

// page is what the stage pane can show.
type page struct {
	name  string
	stage string // whose lines belong to lines of others, "": none do
	lines func(ctx context.Context, e *explore.Explorer) ([]explore.Line, error)
}

// Pages that are no stages.
const (
	answerPage = "answer" // what the last command has answered
	pairPage   = "pair"   // the marked schedule and this one in two columns
	roofPage   = "roof"
)

// firstPage is the one that is shown first.
const firstPage = 1

// pages are the pages in their order.
func pages() []page {
	return []page{
		stage("expr", build.ExprStage),
		stage("nest", build.NestStage),
		{"tile", "", func(_ context.Context, e *explore.Explorer) ([]explore.Line, error) { return text(e.Tile()) }},
		stage("vir", build.VirStage),
		stage("asm", build.AssemblyStage),
		{"cost", "", func(ctx context.Context, e *explore.Explorer) ([]explore.Line, error) { return text(e.CostReport(ctx)) }},
		{roofPage, "", func(_ context.Context, e *explore.Explorer) ([]explore.Line, error) { return text(reached(e), nil) }},
		{pairPage, "", nil},
		{answerPage, "", nil},
	}
}

// reached is what the schedule reaches of what the machine can do.
func reached(e *explore.Explorer) string {
	if r := e.Reached(); r != nil {
		return r.String()
	}
	return "not measured: R measures the schedule, and what the\nmachine can do"
}

// tab is the name of a page in the title of the stage pane.
type tab struct {
	page, at int // column
	name     string
}

// tabs are those that fit a width, the one of the page that is shown among them.
func (m *Model) tabs(width int) (out []tab) {
	all, at := pages(), 1
	for i, p := range all {
		out = append(out, tab{i, at, p.name})
		at += len(p.name) + 1
		for at-1 > width && i <= m.page && len(out) > 1 {
			gone := len(out[0].name) + 1
			out, at = out[1:], at-gone
			for j := range out {
				out[j].at -= gone
			}
		}
		if at-1 > width && i != m.page {
			return out[:len(out)-1]
		}
	}
	return out
}

// show turns to a page by its name.
func (m *Model) show(name string) {
	m.focus = stagePane
	m.page, m.views[stagePane] = slices.IndexFunc(pages(), func(p page) bool { return p.name == name }), view{moved: true}
}

// showSides shows two schedules side by side.
func (m *Model) showSides(x sides) {
	m.sides, m.pair = x, explore.Beside{}
	m.show(pairPage)
}

// stage is the page of a stage, whose lines are compared with the schedule before the last change.
func stage(name, of string) page {
	return page{name, of, func(_ context.Context, e *explore.Explorer) ([]explore.Line, error) {
		return e.Lines(of, e.Now(), e.Before())
	}}
}

func text(s string, err error) ([]explore.Line, error) {
	if err != nil {
		return nil, err
	}
	return plainLines(s), nil
}

// plainLines are lines that are compared with nothing.
func plainLines(s string) (out []explore.Line) {
	for line := range strings.SplitSeq(s, "\n") {
		out = append(out, explore.Line{Text: line, Op: explore.Same})
	}
	return out
}

// wrappedLines are a text in a pane of a width, which also has marks.
func wrappedLines(text string, width int) []explore.Line {
	return plainLines(strings.Join(wrapped(text, max(width-2, 1), len(text)+1), "\n"))
}

// shownLines are the lines of the stage pane.
func (m *Model) shownLines() (out []explore.Line) {
	for _, l := range m.lines {
		if m.both || l.Op != explore.Removed {
			out = append(out, l)
		}
	}
	return out
}

// relate finds the lines and steps that belong to the line under the cursor: of the stage, or else of the trace.
func (m *Model) relate() {
	stage, line := build.TraceStage, m.Cursor()
	if p := pages()[m.page]; m.focus == stagePane && p.stage != "" {
		stage, line = p.stage, -1
		for i, l := range m.shownLines() {
			if l.Op != explore.Removed {
				line++
			}
			if i == m.views[stagePane].at {
				break
			}
		}
	}
	m.related = m.spans.Of(stage, line)
	if stage == build.TraceStage && len(m.related[build.TraceStage]) > 0 { // the cursor says that already
		m.related[build.TraceStage] = nil
	}
}

// follow moves the cursor of the stage pane to the first line that belongs to the one before.
func (m *Model) follow() {
	if m.paired() {
		m.differs(m.views[stagePane].at + 1)
		return
	}
	lines := m.related[pages()[m.page].stage]
	if len(lines) == 0 {
		return
	}
	line := -1
	for i, l := range m.shownLines() {
		if l.Op != explore.Removed {
			line++
		}
		if line == lines[0] {
			m.views[stagePane].at, m.views[stagePane].moved = i, true
			return
		}
	}
}

// differs moves the cursor to the first of some rows, from one on, in which two schedules differ.
func (m *Model) differs(from int) {
	rows := m.pair.Rows
	for i := from; i < len(rows); i++ {
		if rows[i].Op != explore.SameRow && (i == 0 || rows[i-1].Op == explore.SameRow) {
			m.views[stagePane].at = i
			return
		}
	}
}

// isRelated says that a row of the trace or of the stage pane belongs to the line under the cursor of the other.
func (m *Model) isRelated(pane, row int) bool {
	if pane == tracePane {
		return slices.Contains(m.related[build.TraceStage], row)
	}
	line := row
	for _, l := range m.shownLines()[:row] {
		if l.Op == explore.Removed {
			line--
		}
	}
	return slices.Contains(m.related[pages()[m.page].stage], line)
}
