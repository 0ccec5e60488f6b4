// Package page writes a search as one page of HTML that needs no other file: the best so far, the families, the best schedule beside the
// default one, and that schedule at each stage of the compiler.
package page

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/go-fonts/liberation/liberationsansregular"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/tune"
)

// Search is a search of a log.
type Search struct {
	tune.Run
	Trials  []tune.Trial
	Problem *ir.Problem  // nil: of a format that this program does not know, so that the stages are left out
	Target  lower.Target // with Problem
}

// Title says for which product and purposes the search was.
func (s Search) Title() string {
	return s.Product + " on " + s.Run.Target + ", " + tune.PurposesText(s.Purposes...)
}

// Source says on which machine the search ran, when it began, and which tmacc it was of.
func (s Search) Source() (from picture.Source) {
	from.Add(s.CPU, s.Start.UTC().Format(time.DateOnly), s.Compiler)
	return from
}

//go:embed page.html
var pageText string

var whole = template.Must(template.New("page").Parse(pageText))

// content is what the page shows.
type content struct {
	Title, Source string
	Font          template.CSS
	Picture       template.HTML
	Candidates    string
	Ended         string
	Best          float64
	Families      []family
	Dropped       []reason
	Rates         []rate
	Kernels       []kernel
	Missing       string // why there are no stages
}

// family is the trials of one family of schedules.
type family struct {
	Name             string
	Trials, Measured int
	Best             float64 // of the default's time, 0: none was measured
}

type reason struct {
	Number int
	Why    string
}

// rate is what the best schedule reaches for a purpose.
type rate struct {
	Purpose string
	Ns      float64
	Ratio   float64
	GMACS   float64 // products of a weight and an activation
	GBS     float64 // bytes of weights, 0: unknown
}

// kernel is a schedule of the best candidate.
type kernel struct {
	Trace  string
	Stages []stage
}

// Us is the time in microseconds.
func (r rate) Us() float64 { return r.Ns / 1e3 }

type stage struct{ Name, Text string }

// HTML is the page. The error is that of ctx, or says that nothing was measured.
func HTML(ctx context.Context, s Search) ([]byte, error) {
	best := s.best()
	if best == nil {
		return nil, fmt.Errorf("search %s of %s has measured nothing", s.ID, s.Title())
	}
	drawn, err := s.draw()
	if err != nil {
		return nil, err
	}
	c := content{Title: s.Title(), Source: s.Source().String(), Picture: drawn, Candidates: message.Count(len(s.Trials), "candidate"), Best: best.Cost,
		Ended: cmp.Or(s.Ended, "its process"), Families: s.families(), Dropped: s.dropped(), Rates: s.rates(best)}
	c.Font = template.CSS(base64.StdEncoding.EncodeToString(liberationsansregular.TTF))
	for _, g := range best.Genes {
		c.Kernels = append(c.Kernels, s.kernel(ctx, g))
	}
	if s.Problem == nil {
		c.Missing = "The stages are left out: " + s.Product + " is no built-in format, or its target no built-in one."
	}
	var out bytes.Buffer
	if err := cmp.Or(ctx.Err(), whole.Execute(&out, c)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// best is the fastest trial, nil if none was measured.
func (s Search) best() (best *tune.Trial) {
	for i := range s.Trials {
		if t := &s.Trials[i]; t.Error == "" && t.Cost > 0 && (best == nil || t.Cost < best.Cost) {
			best = t
		}
	}
	return best
}

// draw is the best so far over the trials, as SVG.
func (s Search) draw() (template.HTML, error) {
	var tried []tune.Tried
	for i := range s.Trials {
		tried = append(tried, tune.Tried{Family: familyOf(&s.Trials[i]), Cost: s.Trials[i].Cost})
	}
	p, err := picture.Search(s.Title(), s.Source(), tried)
	if err != nil {
		return "", err
	}
	data, err := p.Encode(".svg")
	if err != nil {
		return "", err
	}
	_, svg, _ := strings.Cut(string(data), "<svg") // without what stands before it in a file
	return template.HTML("<svg" + svg), nil        // all of its texts are escaped
}

func familyOf(t *tune.Trial) string {
	if len(t.Genes) == 0 {
		return "unknown"
	}
	return search.Family(t.Genes[0].Trace)
}

// families are the families that were tried, the best first.
func (s Search) families() []family {
	of := map[string]*family{}
	for i := range s.Trials {
		t := &s.Trials[i]
		name := familyOf(t)
		if of[name] == nil {
			of[name] = &family{Name: name}
		}
		f := of[name]
		if f.Trials++; t.Cost > 0 {
			f.Measured++
			if f.Best == 0 || t.Cost < f.Best {
				f.Best = t.Cost
			}
		}
	}
	var out []family
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, *of[name])
	}
	last := func(f family) float64 { // without a time it is the last
		if f.Best == 0 {
			return 1e9
		}
		return f.Best
	}
	slices.SortStableFunc(out, func(a, b family) int { return cmp.Compare(last(a), last(b)) })
	return out
}

// dropped are the reasons why candidates were not measured, the most frequent first.
func (s Search) dropped() (out []reason) {
	for _, why := range slices.Sorted(maps.Keys(s.Run.Dropped)) {
		out = append(out, reason{s.Run.Dropped[why], why})
	}
	slices.SortStableFunc(out, func(a, b reason) int { return b.Number - a.Number })
	return out
}

// rates are what a trial reaches for each purpose that it was measured for.
func (s Search) rates(t *tune.Trial) (out []rate) {
	for i, p := range s.Purposes {
		if i >= len(t.Ns) || i >= len(t.Ratios) || t.Ns[i] == 0 {
			continue
		}
		r := rate{Purpose: tune.PurposesText(p), Ns: t.Ns[i], Ratio: t.Ratios[i], GMACS: float64(p.M) * float64(p.N) * float64(p.K) / t.Ns[i]}
		if s.Problem != nil {
			r.GBS = float64(p.M) * float64(p.K) * float64(s.Problem.Weight.Bits) / 8 / t.Ns[i]
		}
		out = append(out, r)
	}
	return out
}

// kernel is a schedule with its stages, as far as this program makes them.
func (s Search) kernel(ctx context.Context, g tune.Gene) kernel {
	k := kernel{Trace: g.Trace.String()}
	if s.Problem == nil {
		return k
	}
	all := build.Stages(*s.Problem, g.Trace, s.Target)
	for _, x := range all {
		switch x.Name {
		case build.TraceStage, build.NestStage, build.VirStage, build.AssemblyStage:
			text := x.Text
			if x.Name == build.TraceStage {
				_, text, _ = strings.Cut(text, "\n")
			}
			k.add(x.Name, text, x.Err)
		}
	}
	tile, err := build.Tile(all)
	k.add("packed tile", tile, err)
	report, err := build.CostReport(ctx, *s.Problem, all, s.Target)
	k.add("where the cycles go, by the model of the core", report, err)
	return k
}

func (k *kernel) add(name, text string, err error) {
	if err != nil {
		text = "not there: " + err.Error()
	}
	k.Stages = append(k.Stages, stage{name, strings.TrimRight(text, "\n")})
}
