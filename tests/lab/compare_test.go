package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/tune"
	shared "github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

// rowsFile writes the default schedules of products for a target of this machine, as changed.
func rowsFile(t *testing.T, change func(*defaults.Row), names ...string) string {
	t.Helper()
	on, err := targetHere("host")
	if err != nil {
		t.Skip(err)
	}
	return rowsFor(t, on, change, names...)
}

func rowsFor(t *testing.T, on targets.Target, change func(*defaults.Row), names ...string) string {
	t.Helper()
	products, err := defaults.Products(names)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, p := range products {
		r, err := defaults.By(t.Context(), p, on, func() ([]search.Use, error) { return shared.Product(t.Context(), p, on) })
		if err == nil {
			change(&r)
			err = defaults.Write(&text, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return file(t, "rows.jsonl", text.String())
}

// Equal schedules are not measured. Others are, once, and the schedules of one column count for nothing else.
func TestCompare(t *testing.T) {
	needMeasuring(t)
	old := rowsFile(t, func(*defaults.Row) {}, "w2", "w4")
	now := rowsFile(t, func(r *defaults.Row) {
		if r.Problem.Name() == "w2" {
			r.Kernels = r.Kernels[1:]
		}
	}, "w2", "w4")
	log := t.TempDir() + "/log"
	args := []string{"compare", "-q", "-mode", "l2", "-n", "1,4", "-o", log, old, now}
	if out := ok(t, append([]string{"compare", "-report"}, args[2:]...)...); !strings.HasPrefix(out, "3 rows, 3 of them with the same schedules; 1 not measured\n") {
		t.Error(out)
	}
	out := ok(t, args...)
	if !strings.HasPrefix(out, "4 rows, 3 of them with the same schedules; 0 not measured\n") || strings.Count(out, " l2 n=1 ") != 2 {
		t.Error(out)
	}
	var s comparison
	if err := json.Unmarshal([]byte(ok(t, append([]string{"compare", "-json"}, args[1:]...)...)), &s); err != nil || s.Rows != 4 || len(s.Worst) != 1 || len(s.Worst[0].Ratios) < leastRepeats {
		t.Errorf("%+v, %v", s, err)
	}
	if data, err := os.ReadFile(log); err != nil || strings.Count(string(data), "\n") != 1 {
		t.Errorf("the log is %s, %v", data, err)
	}
}

// The summary of rows is their geometric mean, the share above limits, and the worst.
func TestComparison(t *testing.T) {
	var rows []compared
	for i, ratio := range []float64{1, 0.5, 2, 1.1, 1.04, 0} {
		rows = append(rows, compared{Name: fmt.Sprint("p", i), Mode: "l2", N: 1 + i%2, Same: i == 0, Ratio: tune.Ratio{Median: ratio, Low: ratio * 0.9, High: ratio * 1.1}, now: &defaults.Row{Target: "t"}})
	}
	s := summary(rows)
	if s.Rows != 5 || s.Missing != 1 || s.Same != 1 || s.Above105 != 0.4 || s.Surely != 0.2 || s.Above115 != 1 {
		t.Errorf("%+v", s)
	}
	if want := math.Pow(1.1*1.04, 1./5); math.Abs(s.Mean-want) > 1e-9 || math.Abs(s.Means["n=2"]-math.Sqrt(0.55)) > 1e-9 {
		t.Errorf("means %v %v", s.Mean, s.Means)
	}
	if s.Worst[0].Name != "p2" || s.Best[0].Name != "p1" || len(s.Worst) != 4 {
		t.Errorf("worst %v", s.Worst)
	}
}

// The time to choose is that of the programs' own rows: the least of the rounds.
func TestChoosing(t *testing.T) {
	needMeasuring(t)
	if runtime.GOOS == "windows" {
		t.Skip("needs programs in sh")
	}
	program := func(seconds float64) string {
		rows := rowsFile(t, func(r *defaults.Row) { r.Seconds = seconds }, "w2")
		path := file(t, "program", "#!/bin/sh\ncat "+rows+"\n")
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	on, err := targetHere("host")
	if err != nil {
		t.Fatal(err)
	}
	name := on.Machine().Name
	out := ok(t, "choosing", "-q", "-format", "w2", "-only", regexp.QuoteMeta(name)+"$", "-rounds", "1", program(2), program(3))
	if !strings.Contains(out, "| w2 "+name+" | 2000 | 3000 | 1.50 | 3000 | 1.000 |") || !strings.Contains(out, "new over old: median 1.50, largest 1.50, all together 1.50;") {
		t.Error(out)
	}
	refused(t, "no such file", "choosing", "-q", "-format", "w2", "-only", regexp.QuoteMeta(name)+"$", "/nofile", "/nofile")
}

// A product is tuned once.
func TestHeldout(t *testing.T) {
	needMeasuring(t)
	log := t.TempDir() + "/log"
	args := []string{"heldout", "-q", "-format", "w2", "-mode", "l2", "-n", "1", "-trials", "2", "-o", log}
	if out := ok(t, append(args, "-report")...); strings.Contains(out, "median") {
		t.Error(out)
	}
	for range 2 {
		if out := ok(t, args...); !strings.Contains(out, "of 1 products; 0 not measured") {
			t.Error(out)
		}
	}
	if data, err := os.ReadFile(log); err != nil || strings.Count(string(data), "\n") != 1 {
		t.Errorf("the log is %s, %v", data, err)
	}
}

// Searches of two commits are paired by format and seed, and must be of one machine and of the same reference.
func TestSearches(t *testing.T) {
	run := func(method string, seed int64, reference string, best float64, costs ...float64) tune.StudyRun {
		return tune.StudyRun{Format: "w2", Method: method, Seed: seed, CPU: "c", Reference: reference, Costs: costs, Best: best, Seconds: 60}
	}
	old := []tune.StudyRun{run(methodEvolution, 1, "r", .5, 1, .8, .5), run(methodEvolution, 2, "r", .4, 1, .4, .6), run(methodRandom, 1, "r", .3, .3)}
	now := []tune.StudyRun{run(methodEvolution, 1, "r", .5, .5, .4, .1), run(methodEvolution, 2, "r", .5, .5, .5, .2), run(methodLong, 1, "r", .4, .4)}
	page, err := searchesPage(old, now, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| w2 | 0.450 | 0.450 | 1, never | 1.025 |", "2 pairs: geometric mean of new over old 1.000", "w2 in 60 s: 0.400, which is 0.750 of the speed",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	now[0].Reference = "other"
	if _, err := searchesPage(old, now, 2); err == nil || !strings.Contains(err.Error(), `the reference is "r" and "other"`) {
		t.Errorf("error %v", err)
	}
	if _, err := searchesPage(old, nil, 2); err == nil {
		t.Error("no searches are no error")
	}
}
