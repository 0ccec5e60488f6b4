package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	kept "github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

// studyFormats are the formats of a study: the compiler was made with the first two, and not with the other three.
var studyFormats = weightsOf(defaults.Study())

func weightsOf(products []ir.Problem) (out []format.Weight) {
	for _, p := range products {
		out = append(out, p.Weight)
	}
	return out
}

// studyFormat returns the format of a name.
func studyFormat(name string) format.Weight {
	return studyFormats[slices.IndexFunc(studyFormats, func(w format.Weight) bool { return w.Name == name })]
}

func namesOf(ws []format.Weight) (out []string) {
	for _, w := range ws {
		out = append(out, w.Name)
	}
	return out
}

// Methods of a study: the two that are compared, with the same number of trials, and evolution that goes on.
const (
	methodRandom    = "random"
	methodEvolution = "evolution"
	methodLong      = "evolution, long"
)

// studyMethods are the words of -method.
var studyMethods = map[string]string{"random": methodRandom, "evolution": methodEvolution, "long": methodLong}

type studyFlags struct {
	out           string
	formats       list
	methods       list
	reference     []defaults.Row // schedules that costs are of, instead of the default ones
	seeds, trials int
	budget, long  time.Duration
}

// study searches for schedules of several formats from scratch: by evolution with the cost model, and by measuring random schedules.
// It appends each search to search.jsonl, does not repeat the searches that are there, and writes search.md and search.svg.
func (x *lab) study(ctx context.Context, args []string) error {
	o := studyFlags{formats: namesOf(studyFormats), methods: slices.Sorted(maps.Keys(studyMethods))}
	f := x.flags("study")
	reference := f.String("reference", "", "`file` of export whose schedules costs are divided by (default this commit's default schedules)")
	f.Var(&o.methods, "method", "methods, separated by commas: random, evolution, long")
	f.StringVar(&o.out, "o", ".", "`folder` of search.jsonl, search.md and search.svg")
	f.Var(&o.formats, "format", "formats of the study, separated by commas")
	f.IntVar(&o.seeds, "seeds", 5, "searches of each format and method")
	f.IntVar(&o.trials, "trials", 150, "schedules that a search measures")
	f.DurationVar(&o.long, "long", time.Minute, "how long a further search of each format goes on, 0: none")
	f.DurationVar(&o.budget, "time", 0, "begin no search that would end later, 0: do them all")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	if o.seeds < 1 || o.trials < 1 || o.long < 0 {
		return fmt.Errorf("-seeds %d -trials %d -long %v: want 1 or more, and no negative time", o.seeds, o.trials, o.long)
	}
	for _, name := range o.formats {
		if !slices.Contains(namesOf(studyFormats), name) {
			return fmt.Errorf("study: no format %s: have %s", name, strings.Join(namesOf(studyFormats), ", "))
		}
	}
	for i, name := range o.methods {
		if o.methods[i] = studyMethods[name]; o.methods[i] == "" {
			return fmt.Errorf("study: no method %s: have random, evolution and long", name)
		}
	}
	if *reference != "" {
		var err error
		if o.reference, err = readDefaults(*reference); err != nil {
			return fmt.Errorf("-reference: %w", err)
		}
	}
	if err := folder(o.out); err != nil {
		return err
	}
	return x.runStudy(ctx, o)
}

func (x *lab) runStudy(ctx context.Context, o studyFlags) error {
	path := filepath.Join(o.out, "search.jsonl")
	runs, err := readStudy(path)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(o.budget)
	for _, r := range o.missing(runs) {
		if o.budget > 0 && time.Until(deadline) < o.expected(runs, r) {
			continue
		}
		x.step("%s by %s, seed %d", r.Format, r.Method, r.Seed)
		if err := o.search(ctx, &r); err != nil {
			return err
		}
		runs = append(runs, r)
		if err := appendStudy(path, r); err != nil {
			return err
		}
	}
	fmt.Fprintf(x.out, "%d searches, %d missing\n", len(runs), len(o.missing(runs)))
	return writeStudy(o.out, runs)
}

// expected is how long a search will take: the time of an earlier one of the same format and method, or a guess.
func (x *studyFlags) expected(runs []tune.StudyRun, r tune.StudyRun) time.Duration {
	if r.Method == methodLong {
		return x.long + 5*time.Second
	}
	seconds := 25.0
	for _, o := range runs {
		if o.Format == r.Format && o.Method == r.Method {
			seconds = o.Seconds
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// missing returns the searches that are not among runs, seed by seed.
func (x *studyFlags) missing(runs []tune.StudyRun) (out []tune.StudyRun) {
	add := func(name, method string, seed int64) {
		r := tune.StudyRun{Format: name, Method: method, Seed: seed}
		if slices.Contains(x.methods, method) && !slices.ContainsFunc(runs, func(o tune.StudyRun) bool {
			return o.Format == r.Format && o.Method == r.Method && o.Seed == r.Seed
		}) {
			out = append(out, r)
		}
	}
	for seed := range int64(x.seeds) {
		for _, name := range x.formats {
			add(name, methodRandom, seed+1)
			add(name, methodEvolution, seed+1)
		}
	}
	for _, name := range x.formats {
		if x.long > 0 {
			add(name, methodLong, 1)
		}
	}
	return out
}

// search does one search and completes its record.
func (x *studyFlags) search(ctx context.Context, r *tune.StudyRun) error {
	p, err := problemOf(studyFormat(r.Format))
	if err != nil {
		return err
	}
	t, err := targetHere("host")
	if err != nil {
		return err
	}
	r.M, r.K = measure.Shape(measure.ModeL2)
	r.N, r.K = 1, p.WholeK(r.K)
	r.Target, r.CPU, r.Date, r.Commit = t.Machine().Name, timing.ThisHost().CPU, bench.Today(), bench.Commit()
	tuner, err := tune.New(ctx, tune.Product{Problem: p, Target: t, Usual: x.usual, Layouts: layouts, Purposes: []tune.Purpose{{Mode: measure.ModeL2, M: r.M, N: r.N, K: r.K}}})
	if err != nil {
		return err
	}
	r.Reference = tuner.DefaultHash
	opt := tune.Options{Trials: x.trials, Rng: rand.New(rand.NewSource(r.Seed)), Random: r.Method == methodRandom}
	if r.Method == methodLong {
		limited, stop := context.WithTimeout(ctx, x.long)
		defer stop()
		ctx, opt.Trials = limited, 1<<20
	}
	start := time.Now()
	out, err := tuner.Search(ctx, opt)
	if err != nil {
		return err
	}
	r.Seconds, r.Dropped = time.Since(start).Seconds(), out.Dropped
	for _, t := range out.Tried {
		r.Costs = append(r.Costs, t.Cost)
	}
	if len(out.Best) == 0 {
		return fmt.Errorf("study: no schedule of %s could be measured: %v", r.Format, out.Dropped)
	}
	best, err := tuner.Confirm(out.Best)
	if err != nil {
		return err
	}
	r.Best, r.Default = best[0].Cost, best[0].DefaultNs[0]
	return nil
}

// layouts are the ones that beam.Layouts finds. Tests share them.
var layouts = (*kept.Chooser)(nil).Layouts

// usual returns the schedules that searches are measured beside: the reference, if there is one, else the defaults.
func (x *studyFlags) usual(ctx context.Context, p ir.Problem, t lower.Target) (uses []search.Use, err error) {
	if x.reference == nil {
		all, err := layouts(ctx, p, t)
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	name := defaults.Name(p, t.Machine().Name)
	i := slices.IndexFunc(x.reference, func(r defaults.Row) bool { return r.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("-reference: has no schedules of %s", name)
	}
	for _, k := range x.reference[i].Kernels {
		uses = append(uses, search.Use{Cols: k.Cols, Trace: k.Trace})
	}
	return uses, nil
}

// readStudy reads the searches of a file, one a line. A file that is not there has none.
func readStudy(path string) (runs []tune.StudyRun, err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		var r tune.StudyRun
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func appendStudy(path string, r tune.StudyRun) error {
	for i, c := range r.Costs {
		r.Costs[i] = float64(int(c*1e4+0.5)) / 1e4
	}
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(r); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(line.Bytes())
	return errors.Join(err, f.Close())
}
