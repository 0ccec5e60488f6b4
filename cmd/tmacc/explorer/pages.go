package explorer

import (
	"context"
	"strings"

	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/explore"
)

// page is what the stage pane can show.
type page struct {
	name  string
	lines func(ctx context.Context, e *explore.Explorer) ([]explore.Line, error)
}

// answerPage shows what the last command has answered.
const answerPage = "answer"

// firstPage is the one that is shown first.
const firstPage = 1

// pages are the pages in their order.
func pages() []page {
	return []page{
		stage("expr", build.ExprStage),
		stage("nest", build.NestStage),
		{"tile", func(_ context.Context, e *explore.Explorer) ([]explore.Line, error) { return text(e.Tile()) }},
		stage("vir", build.VirStage),
		stage("asm", build.AssemblyStage),
		{"cost", func(ctx context.Context, e *explore.Explorer) ([]explore.Line, error) { return text(e.CostReport(ctx)) }},
		{answerPage, nil},
	}
}

// stage is the page of a stage, whose lines are compared with the schedule before the last change.
func stage(name, of string) page {
	return page{name, func(_ context.Context, e *explore.Explorer) ([]explore.Line, error) {
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

// shownLines are the lines of the stage pane.
func (m *Model) shownLines() (out []explore.Line) {
	for _, l := range m.lines {
		if m.both || l.Op != explore.Removed {
			out = append(out, l)
		}
	}
	return out
}
