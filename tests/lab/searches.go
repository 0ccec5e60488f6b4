package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// searches compares two files of search.jsonl, which study made by two commits on one machine. Their costs must be of the same schedules:
// see study -reference.
func (x *lab) searches(_ context.Context, args []string) error {
	f := x.flags("searches")
	trials := f.Int("trials", 100, "trials of the new searches that count")
	if err := x.parse(f, args, 2); err != nil {
		return err
	}
	if err := between("trials", *trials, 1, 1<<20); err != nil {
		return err
	}
	old, err := readStudy(f.Arg(0))
	if err != nil {
		return err
	}
	now, err := readStudy(f.Arg(1))
	if err != nil {
		return err
	}
	page, err := searchesPage(old, now, *trials)
	fmt.Fprint(x.out, page)
	return err
}

// rivals is a search of the old commit, and the new commit's of the same format and seed.
type rivals struct{ old, now tune.StudyRun }

// rivalsOf pairs the searches of a method. It is an error if costs cannot be compared.
func rivalsOf(old, now []tune.StudyRun, method string) (all []rivals, err error) {
	for _, a := range old {
		for _, b := range now {
			if a.Method != method || b.Method != method || a.Format != b.Format || a.Seed != b.Seed {
				continue
			}
			for _, x := range []struct{ what, old, now string }{
				{"target", a.Target, b.Target}, {"cpu", a.CPU, b.CPU}, {"reference", a.Reference, b.Reference},
				{"product", fmt.Sprint(a.M, a.N, a.K), fmt.Sprint(b.M, b.N, b.K)},
			} {
				if x.old != x.now {
					return nil, fmt.Errorf("searches: %s, seed %d: the %s is %q and %q: both must be of one machine, and the new ones by -reference", a.Format, a.Seed, x.what, x.old, x.now)
				}
			}
			all = append(all, rivals{a, b})
		}
	}
	return all, nil
}

// foundBy is the least cost of the first trials.
func foundBy(r tune.StudyRun, trials int) float64 {
	found := tune.BestSoFar(r.Costs[:min(trials, len(r.Costs))])
	if len(found) == 0 {
		return math.Inf(1)
	}
	return found[len(found)-1]
}

func searchesPage(old, now []tune.StudyRun, trials int) (page string, err error) {
	all, err := rivalsOf(old, now, methodEvolution)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", errors.New("searches: no format and seed is in both files")
	}
	page = fmt.Sprintf("| format | old after %d trials | new after %d | as good after, by seed | ratio |\n| --- | ---: | ---: | --- | ---: |\n", len(all[0].old.Costs), trials)
	var differences []float64
	for _, name := range namesOf(studyFormats) {
		var olds, news, reached, own []float64
		for _, r := range all {
			if r.old.Format != name {
				continue
			}
			a, b := r.old.Found(), foundBy(r.now, trials)
			olds, news, reached, own = append(olds, a), append(news, b), append(reached, float64(r.now.Reaches(a))), append(own, b/a)
			differences = append(differences, math.Log(b/a))
		}
		if len(own) > 0 {
			page += fmt.Sprintf("| %s | %.3f | %.3f | %s | %.3f |\n", name, timing.Median(olds), timing.Median(news), trialsText(reached, trials), timing.Median(own))
		}
	}
	mean := 0.0
	for _, d := range differences {
		mean += d / float64(len(differences))
	}
	var opposite []float64
	for _, d := range differences {
		opposite = append(opposite, -d)
	}
	page += fmt.Sprintf("\n%d pairs: geometric mean of new over old %.3f; by Wilcoxon's signed-rank test new is less: p = %.2g, new is more: p = %.2g\n",
		len(all), math.Exp(mean), tune.Wilcoxon(differences), tune.Wilcoxon(opposite))
	long, err := longPage(old, now)
	return page + "\n" + long, err
}

// longPage says how close the new commit's long searches come to the best that any search found.
func longPage(old, now []tune.StudyRun) (page string, err error) {
	if _, err := rivalsOf(old, now, methodLong); err != nil {
		return "", err
	}
	for _, name := range namesOf(studyFormats) {
		best := min(bestKnown(old, name), bestKnown(now, name))
		for _, r := range now {
			if r.Format == name && r.Method == methodLong {
				page += fmt.Sprintf("%s in %.0f s: %.3f, which is %.3f of the speed of the best that any search found\n", name, r.Seconds, r.Best, best/r.Best)
			}
		}
	}
	return page, nil
}
