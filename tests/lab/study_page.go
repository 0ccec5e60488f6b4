package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// writeStudy writes search.md and search.svg from the runs in search.jsonl.
func writeStudy(dir string, runs []tune.StudyRun) error {
	if len(pairs(runs, "")) == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "search.md"), []byte(studyPage(runs)), 0o666); err != nil {
		return err
	}
	p, err := studyPicture(runs)
	if err != nil {
		return err
	}
	return savePicture(filepath.Join(dir, "search.svg"), p)
}

// pair is two searches of the same format with the same seed.
type pair struct{ random, evolution *tune.StudyRun }

// pairs returns the pairs of a format, or of all formats for "".
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

// reached is the number of trials after which evolution is as good as random search at its end.
func (p pair) reached() float64 { return float64(p.evolution.Reaches(p.random.Found())) }

// took is the number of trials after which random search was as good as at its end.
func (p pair) took() float64 { return float64(p.random.Reaches(p.random.Found())) }

// each returns a figure of every pair.
func each(ps []pair, figure func(pair) float64) (out []float64) {
	for _, p := range ps {
		out = append(out, figure(p))
	}
	return out
}

// bestKnown is the least confirmed cost of a format, 1 for the default schedule.
func bestKnown(runs []tune.StudyRun, name string) float64 {
	best := 1.0
	for _, r := range runs {
		if r.Format == name {
			best = min(best, r.Best)
		}
	}
	return best
}

// studyHead is the page above its first table.
const studyHead = `# The search against random search

Does the search of tmacc tune do better than luck? Two methods begin from scratch, without the default schedules or any others:

* *random* measures the same kind of samples that the search begins with, in the order in which they come.
* *evolution* mutates and crosses the best measured schedules. A cost model, fitted to this run's own measurements, chooses
  the schedules to measure next.

A trial is a measured schedule. Illegal schedules and known kernels do not count as trials. Both methods compare each kernel with the definition first. They
time it beside the default one, in the same rounds, and measure their best schedules again at the end.

Nobody has made schedules or limits for three of the formats: w5 (levels -16 to 15), w4 in groups of 48, and cb6 (six arbitrary levels: %s). The
settings of the cost model (the number of trees, and how fast they learn) were chosen on these five formats, by how well they order some 300 random samples of each. This page
is written by

    go run ./tests/lab study -o %s

from [search.jsonl](search.jsonl), which has one line for each search, with the cost of each trial. The command first makes the searches that are missing (%d seconds each, on one core).

The table shows %d pairs of searches of %d trials; the two of a pair have the same seed. They search for GEMV of %s weights in the second-level cache, %s, one thread of an
%s. Costs are times divided by the default schedule's, medians of the seeds. *As good after* is the number of trials after which evolution is as good as
random search at its end.

| format | random | evolution | as good after, by seed | median | random took | best known | share after all trials, the worst seed | seconds |
|---|---:|---:|---|---:|---:|---:|---:|---:|
`

// studyMiddle is the page between its two tables.
const studyMiddle = `
![best so far over trials](search.svg)

Over all pairs, by Wilcoxon's signed-rank test (one-sided, exact; pairs that are equal do not count):

| | median | p |
|---|---:|---:|
`

func studyPage(runs []tune.StudyRun) string {
	all := pairs(runs, "")
	trials := len(all[0].random.Costs)
	least, longest := math.Inf(1), 0.0
	for _, p := range all {
		least = min(least, bestKnown(runs, p.evolution.Format)/p.evolution.Best)
		longest = max(longest, p.evolution.Seconds)
	}
	var b strings.Builder
	fmt.Fprintf(&b, studyHead, strings.Trim(fmt.Sprint(studyFormat("cb6").Levels), "[]"), home, int(longest+1), len(all), trials, shapeOf(all[0].random), all[0].random.Target, all[0].random.CPU)
	for _, name := range formatsOf(runs) {
		if ps := pairs(runs, name); len(ps) > 0 {
			b.WriteString(studyRow(name, ps, bestKnown(runs, name), trials))
		}
	}
	b.WriteString(studyMiddle)
	writeTests(&b, all, trials)
	fmt.Fprintf(&b, "\nThese trials took at most %.0f s. After them, evolution from scratch has a schedule with at least %.2f of the speed of the format's best known schedule "+
		"(of all these searches and the default).\n", longest, least)
	for _, r := range runs {
		if r.Method == methodLong {
			fmt.Fprintf(&b, "\nGoing on for %.0f s: %s, %d trials, %.0f a minute, %.3f of the default's time, %.2f of the best known.\n", r.Seconds, r.Format, len(r.Costs),
				float64(len(r.Costs))*60/r.Seconds, r.Best, bestKnown(runs, r.Format)/r.Best)
		}
	}
	return b.String()
}

// studyRow is the row of a format in the first table. known is the best known cost.
func studyRow(name string, ps []pair, known float64, trials int) string {
	median := func(figure func(pair) float64) float64 { return timing.Median(each(ps, figure)) }
	reached := each(ps, pair.reached)
	return fmt.Sprintf("| %s | %.3f | %.3f | %s | %.0f | %.0f | %.3f | %.3f | %.0f |\n", name,
		median(func(p pair) float64 { return p.random.Best }), median(func(p pair) float64 { return p.evolution.Best }),
		trialsText(reached, trials), timing.Median(reached), median(pair.took), known,
		slices.Min(each(ps, func(p pair) float64 { return known / p.evolution.Best })), median(func(p pair) float64 { return p.evolution.Seconds }))
}

// writeTests writes the rows of the second table: figures of all pairs, and how likely their differences are by chance.
func writeTests(b *strings.Builder, all []pair, trials int) {
	row := func(what string, figure, difference func(pair) float64) {
		fmt.Fprintf(b, "| %s | %.3g | %.2g |\n", what, timing.Median(each(all, figure)), tune.Wilcoxon(each(all, difference)))
	}
	row(fmt.Sprintf("trials until evolution is as good as random search after %d; fewer than half", trials), pair.reached,
		func(p pair) float64 { return p.reached() - float64(trials)/2 })
	share := func(p pair) float64 { return p.reached() / p.took() }
	row("the same, divided by the trials until random search was as good itself; fewer", share, func(p pair) float64 { return p.reached() - p.took() })
	row("the same; fewer than half", share, func(p pair) float64 { return p.reached() - p.took()/2 })
	row("time of evolution's best, measured again at length, divided by that of random search's best; less", func(p pair) float64 { return p.evolution.Best / p.random.Best },
		func(p pair) float64 { return p.evolution.Best - p.random.Best })
}

// shapeOf is the size of a search's product: "512 x 2048".
func shapeOf(r *tune.StudyRun) string { return fmt.Sprintf("%d x %d", r.M, r.K) }

// trialsText lists numbers of trials. A number above trials is "never".
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

// formatsOf lists the formats of runs, in the order of the study.
func formatsOf(runs []tune.StudyRun) (out []string) {
	for _, w := range studyFormats {
		if slices.ContainsFunc(runs, func(r tune.StudyRun) bool { return r.Format == w.Name }) {
			out = append(out, w.Name)
		}
	}
	return out
}

// studyPicture draws for each format the best so far of every search, and the medians.
func studyPicture(runs []tune.StudyRun) (*picture.Picture, error) {
	methods := []string{methodRandom, methodEvolution}
	var from picture.Source
	for _, r := range runs {
		if slices.Contains(methods, r.Method) {
			from.Add(r.CPU, r.Date, r.Commit)
		}
	}
	var panels []picture.Panel
	for _, name := range formatsOf(runs) {
		panel := picture.Panel{Title: name}
		for _, method := range methods {
			var searches [][]float64
			for _, r := range runs {
				if r.Format == name && r.Method == method {
					searches = append(searches, r.Costs)
				}
			}
			panel.Costs = append(panel.Costs, searches)
		}
		panels = append(panels, panel)
	}
	return picture.Searches("Best time so far divided by the default's: each search thin, their median thick", from, methods, panels)
}
