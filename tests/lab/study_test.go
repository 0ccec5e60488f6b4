package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/tune"
)

// TestSearchPage holds search.md and its picture against the searches that they are written from, and
// roofline.svg against its records.
func TestSearchPage(t *testing.T) {
	runs, err := readStudy(filepath.Join(pages, "search.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	if err := writeStudy(temp, runs); err != nil {
		t.Fatal(err)
	}
	records, err := bench.ParseRecords(readPage(t, filepath.Join(pages, "roofline.jsonl")))
	if err != nil {
		t.Fatal(err)
	}
	p, err := picture.Roofline(records)
	if err != nil {
		t.Fatal(err)
	}
	if err := savePicture(filepath.Join(temp, "roofline.svg"), p); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"search.md", "search.svg", "roofline.svg"} {
		same(t, filepath.Join(pages, name), string(readPage(t, filepath.Join(temp, name))))
	}
}

// The page of three pairs of searches follows from their costs. A line that is no search is an error.
func TestStudyPage(t *testing.T) {
	run := func(method string, seed int64, best float64, costs ...float64) tune.StudyRun {
		return tune.StudyRun{Format: "w2", Method: method, Seed: seed, Target: "t", CPU: "c", M: 1, K: 2, N: 1, Costs: costs, Best: best, Seconds: 3}
	}
	runs := []tune.StudyRun{
		run(methodRandom, 1, .8, 2, 0, 1, .8), run(methodEvolution, 1, .5, .7, .6, .5, .5),
		run(methodRandom, 2, .9, 2, 1, .9, 1), run(methodEvolution, 2, .4, 1, .9, .4, .5),
		run(methodRandom, 3, .5, .5, 1, 1, 1), run(methodEvolution, 3, .6, 1, 1, .6, 1),
		run(methodLong, 1, .4, 1, .4),
	}
	page := studyPage(runs)
	for _, want := range []string{
		"3 pairs of searches of 4 trials", "GEMV of 1 x 2 weights",
		"| w2 | 0.800 | 0.500 | 1, 2, never | 2 | 3 | 0.400 | 0.667 | 3 |",
		"; fewer than half | 2 |", "at least 0.67 of the speed", "Going on for 3 s: w2, 2 trials, 40 a minute, 0.400 of the default's time, 1.00 of the best known",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	refused(t, "invalid character", "study", "-o", filepath.Dir(file(t, "search.jsonl", "x\n")))
}

// A study does the missing searches, once.
func TestStudy(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	args := []string{"study", "-q", "-o", dir, "-format", "w2", "-seeds", "1", "-trials", "9", "-long", "0"}
	if out := ok(t, args...); out != "2 searches, 0 missing\n" {
		t.Fatal(out)
	}
	runs, err := readStudy(filepath.Join(dir, "search.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Best <= 0 || r.Default <= 0 || len(r.Costs) == 0 || len(r.Costs) != 9 {
			t.Errorf("%+v", r)
		}
	}
	ok(t, args...)
	if again, err := readStudy(filepath.Join(dir, "search.jsonl")); err != nil || len(again) != 2 {
		t.Errorf("the second time there are %d searches, %v", len(again), err)
	}
}
