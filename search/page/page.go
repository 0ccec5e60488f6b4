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
	"math"
	"slices"
	"strings"
	"time"

	"codeberg.org/go-fonts/liberation/liberationsansregular"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
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
	Title      string
	Product    string // and target
	Purposes   string
	Source     string
	Font       template.CSS
	Search     drawing
	Candidates string
	Ended      string
	Best       tune.Ratio
	Faster     bool // than the default
	Within     bool // the noise
	Families   []family
	Dropped    []reason
	Rates      []rate
	Ceilings   *drawing // nil: not known
	Forecasts  *drawing // nil: not recorded
	Models     []model
	Kernels    []kernel
	Missing    string // why there are no stages
}

// family is the trials of one family of schedules.
type family struct {
	Name             string
	Trials, Measured int
	Best             tune.Ratio // of the default's time, 0: none was measured
}

// within reports whether a ratio is 1 within its noise.
func within(r tune.Ratio) bool { return !r.Less() && !r.Greater() && !math.IsInf(r.High, 1) }

// drawing is a picture for wide screens, and for narrow ones.
type drawing struct{ Wide, Narrow template.HTML }

// model is a model of times, and how the order of the candidates by what it said agrees with the measured order.
type model struct {
	Name string
	Of   int     // candidates
	Rank float64 // correlation of the ranks, 1: the same order
}

type reason struct {
	Number int
	Why    string
}

// rate is what the best schedule reaches for a purpose.
type rate struct {
	Purpose      string
	Ns           float64
	Ratio        tune.Ratio // to the default's time
	GMACS        float64    // products of a weight and an activation
	CeilingGMACS float64    // 0: unknown
	GBS          float64    // bytes of weights and scales as stored, 0: unknown
	CeilingGBS   float64    // 0: unknown
}

// kernel is a schedule of the best candidate.
type kernel struct {
	For      string // which numbers of activations, "": all
	Steps    []step
	Compared bool // with the default schedule for that number of activations
	Stages   []stage
}

// step is a step of a trace.
type step struct {
	Text string
	New  bool // the default schedule does not have it
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
	drawn, err := s.drawSearch()
	if err != nil {
		return nil, err
	}
	c := content{Title: s.Title(), Product: s.Product + " on " + s.Run.Target, Purposes: tune.PurposesText(s.Purposes...), Source: s.Source().String(), Search: drawn, Candidates: message.Count(len(s.Trials), "candidate"), Best: best.Ratio(), Faster: best.Cost < 1, Within: within(best.Ratio()),
		Ended: cmp.Or(s.Ended, "its process"), Families: s.families(), Dropped: s.dropped(), Rates: s.rates(best)}
	c.Font = template.CSS(base64.StdEncoding.EncodeToString(liberationsansregular.TTF))
	if c.Ceilings, err = s.drawCeilings(best); err != nil {
		return nil, err
	}
	if c.Models, c.Forecasts, err = s.drawForecasts(); err != nil {
		return nil, err
	}
	for i, g := range best.Genes {
		k := s.kernel(ctx, g)
		if ns := s.widths(); len(ns) == len(best.Genes) && len(ns) > 1 {
			k.For = message.Count(ns[i], "activation")
		}
		c.Kernels = append(c.Kernels, k)
	}
	if s.Problem == nil {
		c.Missing = "The stages are left out: the log does not say what " + s.Product + " is, or " + s.Run.Target + " is no built-in target."
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
		if t := &s.Trials[i]; t.Error == "" && t.Cost > 0 && len(t.Genes) > 0 && (best == nil || t.Cost < best.Cost) {
			best = t
		}
	}
	return best
}

// drawSearch is the best so far over the trials.
func (s Search) drawSearch() (drawing, error) {
	var tried []tune.Tried
	for i := range s.Trials {
		tried = append(tried, tune.Tried{Family: familyOf(&s.Trials[i]), Cost: s.Trials[i].Cost})
	}
	return drawn(picture.Search(s.Title(), s.Source(), tried))
}

// drawn is a picture as SVG.
func drawn(p *picture.Picture, err error) (out drawing, _ error) {
	if err != nil {
		return out, err
	}
	if out.Narrow, err = svgOf(p.Narrow()); err != nil {
		return out, err
	}
	out.Wide, err = svgOf(p)
	return out, err
}

func svgOf(p *picture.Picture) (template.HTML, error) {
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
			if f.Best.Median == 0 || t.Cost < f.Best.Median {
				f.Best = t.Ratio()
			}
		}
	}
	var out []family
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, *of[name])
	}
	last := func(f family) float64 { // without a time it is the last
		if f.Best.Median == 0 {
			return 1e9
		}
		return f.Best.Median
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

// kernel is a schedule with its stages, as far as this program makes them.
func (s Search) kernel(ctx context.Context, g tune.Gene) kernel {
	k := s.compared(g.Trace)
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
	k.add("where the cycles go, by the model of the core", report.String(), err)
	return k
}

// widths are the numbers of activations of the purposes, ascending: a candidate has a schedule for each.
func (s Search) widths() (ns []int) {
	for _, p := range s.Purposes {
		ns = append(ns, p.N)
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// compared is a schedule beside the default one with its columns, if there is one.
func (s Search) compared(t schedule.Trace) (k kernel) {
	known := map[string]bool{}
	for _, u := range s.Usual {
		if s.columns(u) == s.columns(t) {
			k.Compared = true
			for _, x := range u {
				known[schedule.Trace{x}.String()] = true
			}
		}
	}
	for _, x := range t {
		text := schedule.Trace{x}.String()
		k.Steps = append(k.Steps, step{text, k.Compared && !known[text]})
	}
	k.Compared = k.Compared && slices.ContainsFunc(k.Steps, func(x step) bool { return x.New })
	return k
}

// columns is the number of columns of a schedule, 0 if this program cannot compile it.
func (s Search) columns(t schedule.Trace) int {
	if s.Problem == nil {
		return 0
	}
	k, err := schedule.Compile(*s.Problem, t)
	if err != nil {
		return 0
	}
	return k.Cols
}

func (k *kernel) add(name, text string, err error) {
	if err != nil {
		text = "not there: " + err.Error()
	}
	k.Stages = append(k.Stages, stage{name, strings.TrimRight(text, "\n")})
}
