package command

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/chosen"
)

// Of a log, searches that found something faster are pairs, which can be read. Others are named, with the reason.
func TestLogPairs(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	on := targets.ByName("avx2")
	purposes := []tune.Purpose{{Mode: "l2", M: 512, N: 1, K: 2048}}
	x, err := tune.New(t.Context(), tune.Product{Problem: p, Target: on, Layouts: chosen.Layouts, Purposes: purposes})
	if err != nil {
		t.Fatal(err)
	}
	faster := slices.DeleteFunc(slices.Clone(x.Default[0].Trace), func(x schedule.Step) bool { _, ok := x.(schedule.Prefetch); return ok })
	faster = append(faster, schedule.Prefetch{Bytes: 5 << 10})
	trial := tune.Trial{Genes: []tune.Gene{{Trace: faster}}, Ratios: []float64{0.75}}
	good := tune.Run{Start: time.Now(), Product: "w2", Target: on.Machine().Name, Problem: tune.ProblemHash(p), Purposes: purposes, CPU: "a CPU", Core: "zen4", Default: x.DefaultHash}
	own, elsewhere, earlier := good, good, good
	own.Product, elsewhere.Target, earlier.Default = "my-format", "amd64/avx2+my-core", "another"
	described := own // of a format in a file
	other := p
	other.Weight.Name = own.Product
	described.Defined, described.Problem = &other, tune.ProblemHash(other)
	log := tune.Log{Path: filepath.Join(t.TempDir(), "tuning.db")}
	add := func(r tune.Run, x tune.Trial) {
		t.Helper()
		if err := log.Begin(&r); err != nil {
			t.Fatal(err)
		}
		if err := log.Add(&r, x); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []tune.Run{good, own, described, elsewhere, earlier} {
		add(r, trial)
	}
	// A search beside a record, or an earlier default schedule, which today's choice is not.
	beside, err := tune.New(t.Context(), tune.Product{Problem: p, Target: on, Purposes: purposes, Usual: func(context.Context, ir.Problem, targets.Target) ([]search.Use, error) {
		return []search.Use{{Cols: 1, Trace: faster}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	recorded := good
	recorded.Start = good.Start.Add(time.Second)
	recorded.Default, recorded.Usual = beside.DefaultHash, []schedule.Trace{faster}
	add(recorded, tune.Trial{Genes: []tune.Gene{{Trace: x.Default[0].Trace}}, Ratios: []float64{0.5}})
	code, out, text := tmacc("log", "-log", log.Path, "-pairs")
	all, err := pairs.Read(strings.NewReader(out))
	if code != 0 || err != nil || len(all) != 2 || all[0].Ratio != 0.75 || all[0].Core != "zen4" || all[1].Ratio != 0.5 || all[1].B.String() != faster.String() {
		t.Errorf("exit code %d, %v:\n%s", code, err, out)
	}
	for _, want := range []string{`of my-format: `, "of my-format: my-format is not built in: pairs are of built-in formats", "target amd64/avx2+my-core: want a built-in one", "of w2: the search measured other default schedules"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if code, _, text := tmacc("log", "-log", log.Path, "-pairs", "-json"); code != 2 || !strings.Contains(text, "-pairs: want it without -json and -prune") {
		t.Errorf("exit code %d: %s", code, text)
	}
}
