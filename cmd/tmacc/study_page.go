package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// writeStudy writes search.md and search.svg of what is in search.jsonl.
func writeStudy(dir string, runs []tune.StudyRun) error {
	if len(pairs(runs, "")) == 0 {
		return nil
	}
	if err := writeFile(filepath.Join(dir, "search.md"), []byte(studyPage(runs))); err != nil {
		return err
	}
	picture, err := studyPicture(runs)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "search.svg"), picture)
}

// pair is two searches of the same format with the same seed.
type pair struct{ random, evolution *tune.StudyRun }

// pairs are those of a format, or "" of all.
func pairs(runs []tune.StudyRun, name string) (out []pair) {
	for i := range runs {
		r := &runs[i]
		if r.Method != methodRandom || name != "" && r.Format != name {
			continue
		}
		for j := range runs {
			if e := &runs[j]; e.Method == methodEvolution && e.Format == r.Format && e.Seed == r.Seed {
				out = append(out, pair{r, e})
			}
		}
	}
	return out
}

// reached is after how many trials evolution is as good as random search is after all of its own.
func (p pair) reached() float64 { return float64(p.evolution.Reaches(p.random.Found())) }

// took is after how many trials random search was as good as at its end.
func (p pair) took() float64 { return float64(p.random.Reaches(p.random.Found())) }

// each is a figure of all pairs.
func each(ps []pair, figure func(pair) float64) (out []float64) {
	for _, p := range ps {
		out = append(out, figure(p))
	}
	return out
}

// bestKnown is the least confirmed cost of a format, or that of the default.
func bestKnown(runs []tune.StudyRun, name string) float64 {
	best := 1.0
	for _, r := range runs {
		if r.Format == name {
			best = min(best, r.Best)
		}
	}
	return best
}

func studyPage(runs []tune.StudyRun) string {
	all := pairs(runs, "")
	trials := len(all[0].random.Costs)
	least, longest := math.Inf(1), 0.0
	for _, p := range all {
		least = min(least, bestKnown(runs, p.evolution.Format)/p.evolution.Best)
		longest = max(longest, p.evolution.Seconds)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# The search against random search

Does tmacc tune's search do better than luck? Both begin from scratch, without the default schedules or any other: random search measures the samples that
the search begins with, as they come; evolution mutates and crosses what was measured best, and a cost model, fitted to this run's own
measurements, chooses what is measured next. Neither counts, as a trial, schedules that are illegal or whose kernel is known; both compare each kernel
with the definition before they time it beside the default one, in the same rounds, and measure again what would be their best.
For w5 (levels -16 to 15), w4 in groups of 48 and cb6 (six arbitrary levels: %s) nobody has made schedules or limits. The settings of the cost model (how many trees,
how fast they learn) were chosen by how well they order some 300 random samples of each of these five formats. Written by

    go run ./cmd/tmacc study -o docs/lab

from [search.jsonl](search.jsonl), one line for each search with the cost of each trial; searches that are not there yet are made first (%d seconds each, on one core).

%d pairs of searches of %d trials with the same seeds, GEMV of %s weights in the second-level cache, %s, one thread of an
%s. *Costs* are times by those of the default schedule, medians of the seeds; *as good* is after how many trials evolution is as good as
random search after all of its own.

| format | random | evolution | as good after, by seed | median | random took | best known | share after all trials, the worst seed | seconds |
|---|---:|---:|---|---:|---:|---:|---:|---:|
`, strings.Trim(fmt.Sprint(studyFormat("cb6").Levels), "[]"), int(longest+1), len(all), trials, shapeOf(all[0].random), all[0].random.Target, all[0].random.CPU)
	for _, name := range formatsOf(runs) {
		ps := pairs(runs, name)
		if len(ps) == 0 {
			continue
		}
		median := func(figure func(pair) float64) float64 { return timing.Median(each(ps, figure)) }
		reached := each(ps, pair.reached)
		known := bestKnown(runs, name)
		fmt.Fprintf(&b, "| %s | %.3f | %.3f | %s | %.0f | %.0f | %.3f | %.3f | %.0f |\n", name,
			median(func(p pair) float64 { return p.random.Best }), median(func(p pair) float64 { return p.evolution.Best }),
			trialsText(reached, trials), timing.Median(reached), median(pair.took), known,
			slices.Min(each(ps, func(p pair) float64 { return known / p.evolution.Best })), median(func(p pair) float64 { return p.evolution.Seconds }))
	}
	row := func(what string, figure, difference func(pair) float64) {
		fmt.Fprintf(&b, "| %s | %.3g | %.2g |\n", what, timing.Median(each(all, figure)), tune.Wilcoxon(each(all, difference)))
	}
	b.WriteString("\n![best so far over trials](search.svg)\n\nOf all pairs, by Wilcoxon's signed-rank test (one-sided, exact; pairs that are equal do not count):\n\n| | median | p |\n|---|---:|---:|\n")
	row(fmt.Sprintf("trials that evolution needs to be as good as random search after %d; fewer than half of these", trials), pair.reached,
		func(p pair) float64 { return p.reached() - float64(trials)/2 })
	share := func(p pair) float64 { return p.reached() / p.took() }
	row("... by those after which random search was as good itself; fewer", share, func(p pair) float64 { return p.reached() - p.took() })
	row("... fewer than half", share, func(p pair) float64 { return p.reached() - p.took()/2 })
	row("time of evolution's best, measured again at length, by that of random search's; less", func(p pair) float64 { return p.evolution.Best / p.random.Best },
		func(p pair) float64 { return p.evolution.Best - p.random.Best })
	fmt.Fprintf(&b, "\nAfter these trials, which took at most %.0f s, evolution from scratch has a schedule of at least %.2f of the speed of the best that is known of the "+
		"format: of all of these searches, and the default.\n", longest, least)
	for _, r := range runs {
		if r.Method == methodLong {
			fmt.Fprintf(&b, "\nGoing on for %.0f s: %s, %d trials, %.0f a minute, %.3f of the default's time, %.2f of the best known.\n", r.Seconds, r.Format, len(r.Costs),
				float64(len(r.Costs))*60/r.Seconds, r.Best, bestKnown(runs, r.Format)/r.Best)
		}
	}
	return b.String()
}

// shapeOf is the size of a search's product: "512 x 2048".
func shapeOf(r *tune.StudyRun) string { return fmt.Sprintf("%d x %d", r.M, r.K) }

// trialsText lists numbers of trials; more than there were: never.
func trialsText(reached []float64, trials int) string {
	var out []string
	for _, n := range reached {
		if text := fmt.Sprint(n); n <= float64(trials) {
			out = append(out, text)
		} else {
			out = append(out, "never")
		}
	}
	return strings.Join(out, ", ")
}

// formatsOf are the formats of runs, in the order of the study.
func formatsOf(runs []tune.StudyRun) (out []string) {
	for _, w := range studyFormats {
		if slices.ContainsFunc(runs, func(r tune.StudyRun) bool { return r.Format == w.Name }) {
			out = append(out, w.Name)
		}
	}
	return out
}

// studyPicture draws for each format the best so far of every search, and the medians.
func studyPicture(runs []tune.StudyRun) ([]byte, error) {
	out := picture{title: "Best time so far by the default's: each search thin, their median thick", columns: 3, size: vg.Point{X: 215, Y: 200}}
	methods := []string{methodRandom, methodEvolution}
	for _, r := range runs {
		if slices.Contains(methods, r.Method) {
			out.source.add(r.CPU, r.Date, r.Commit)
		}
	}
	for i, method := range methods {
		l, err := stairs(plotter.XYs{{}}, styleOf(i), studyThick)
		if err != nil {
			return nil, err
		}
		out.legend = append(out.legend, legendEntry{method, []plot.Thumbnailer{l}})
	}
	for _, name := range formatsOf(runs) {
		p := newPlot(name, "trials", "time / default's")
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, shares{}
		var samples []float64
		for i, method := range methods {
			shown, err := addMethod(p, runs, name, method, styleOf(i))
			if err != nil {
				return nil, err
			}
			samples = append(samples, shown...)
		}
		if len(samples) == 0 {
			continue
		}
		p.X.Min = 0
		p.Y.Min, p.Y.Max = view(samples)
		p.Add(horizontal(1))
		out.plots = append(out.plots, p)
	}
	return out.encode(".svg")
}

// How wide the lines of a study are.
const studyThin, studyThick = 0.5, 2.5

// addMethod adds the searches of a format by a method, and their median. It returns the values of all lines at each trial.
func addMethod(p *plot.Plot, runs []tune.StudyRun, name, method string, s style) (samples []float64, _ error) {
	var all [][]float64 // the best so far, of each seed
	shortest := math.MaxInt
	for _, r := range runs {
		if r.Format == name && r.Method == method {
			all, shortest = append(all, tune.BestSoFar(r.Costs)), min(shortest, len(r.Costs))
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	var trials []int
	var middle []float64
	for i := range shortest {
		var costs []float64
		for _, best := range all {
			costs = append(costs, best[i])
		}
		trials, middle = append(trials, i+1), append(middle, timing.Median(costs))
	}
	for i, best := range append(all, middle) {
		points := falls(trials, best[:shortest])
		if len(points) == 0 {
			continue
		}
		width, drawn := studyThin, style{color: s.color}
		if i == len(all) {
			width, drawn = studyThick, s
		}
		l, err := stairs(points, drawn, width)
		if err != nil {
			return nil, err
		}
		p.Add(l)
		samples = append(samples, finite(best[:shortest])...)
	}
	return samples, nil
}
