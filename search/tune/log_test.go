package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
)

// Added trials are there, by run, and pruning removes runs of a time with all trials.
func TestLog(t *testing.T) {
	l := Log{filepath.Join(t.TempDir(), "a", "tuning.db")}
	none := func(Run, *Trial) error { t.Error("something in an empty log"); return nil }
	if err := l.Each(true, none); err != nil {
		t.Fatal(err)
	}
	e, _ := entry(t, "w2", "amd64/avx2")
	start := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for i := range 3 {
		r := &Run{Start: start.AddDate(0, 0, i), Product: fmt.Sprint("w", i)}
		if err := l.Begin(r); err != nil {
			t.Fatal(err)
		}
		if err := l.Add(r, Trial{Genes: []Gene{{Trace: e.Kernels[0].Trace}}, Cost: 0.9}, Trial{Error: "crashed"}); err != nil {
			t.Fatal(err)
		}
		if err := l.Add(r, Trial{Cost: 0.8}); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (s string) {
		t.Helper()
		err := l.Each(true, func(r Run, x *Trial) error {
			s += fmt.Sprintf("%s %d %.1f: %.1f %s %d; ", r.Product, r.Trials, r.Best, x.Cost, x.Error, len(x.Genes))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const n = 1
	all := ""
	for i := range 3 {
		all += fmt.Sprintf("w%d 3 0.8: 0.9  %d; w%[1]d 3 0.8: 0.0 crashed 0; w%[1]d 3 0.8: 0.8  0; ", i, n)
	}
	if got := list(); got != all {
		t.Errorf("have %s\nwant %s", got, all)
	}
	if pruned, err := l.Prune(start.AddDate(0, 0, 2)); err != nil || pruned != 2 {
		t.Errorf("pruned %d, %v", pruned, err)
	}
	if got := list(); !strings.HasPrefix(got, "w2 3") || strings.Count(got, ";") != 3 {
		t.Errorf("after pruning %s", got)
	}
}

// What another tmacc has written and this one cannot read is left out, which is said; what was measured beside other
// default kernels is not to be compared.
func TestLogUnread(t *testing.T) {
	l := Log{filepath.Join(t.TempDir(), "tuning.db")}
	r := &Run{Start: time.Unix(1, 0), Default: "a"}
	if err := errors.Join(l.Begin(r), l.Add(r, Trial{Cost: 1})); err != nil {
		t.Fatal(err)
	}
	err := l.update(func(_, trials *bbolt.Bucket) error {
		return trials.Put([]byte(r.ID+"x"), []byte(`{"genes":[{"trace":[{"step of tomorrow":{}}]}]}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(r, Trial{Cost: 0.9}); err != nil {
		t.Fatal(err)
	}
	n := 0
	var unread *Unread
	if err := l.Each(true, func(Run, *Trial) error { n++; return nil }); !errors.As(err, &unread) || n != 2 || unread.N != 1 || !strings.Contains(err.Error(), "step of tomorrow") {
		t.Errorf("%d trials, %v", n, err)
	}
	if ts, err := l.Before(&Run{Default: "a"}); !errors.As(err, &unread) || len(ts) != 2 {
		t.Errorf("%d trials, %v", len(ts), err)
	}
	if ts, err := l.Before(&Run{Default: "b"}); err != nil || len(ts) != 0 {
		t.Errorf("%d trials beside other kernels, %v", len(ts), err)
	}
}

// Two searches write at once, and lose nothing.
func TestLogShared(t *testing.T) {
	l := Log{filepath.Join(t.TempDir(), "tuning.db")}
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			r := &Run{Start: time.Unix(int64(i), 0)}
			if err := l.Begin(r); err != nil {
				t.Error(err)
			}
			for range 20 {
				if err := l.Add(r, Trial{Cost: 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	if err := l.Each(true, func(Run, *Trial) error { n++; return nil }); err != nil || n != 40 {
		t.Errorf("%d trials, %v; want 40", n, err)
	}
}

// A process that is killed while it writes leaves a log with what it had said it has
// written, which others go on with.
func TestLogKilled(t *testing.T) {
	if path := os.Getenv("TMACC_LOG_TEST"); path != "" {
		l, r := Log{path}, &Run{Start: time.Unix(1, 0)}
		if err := l.Begin(r); err != nil {
			t.Fatal(err)
		}
		for {
			if err := l.Add(r, Trial{Cost: 1}); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(os.Stderr, r.Trials)
		}
	}
	l := Log{filepath.Join(t.TempDir(), "tuning.db")}
	for kill := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestLogKilled$")
		cmd.Env = append(os.Environ(), "TMACC_LOG_TEST="+l.Path)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := 0
		for said < 5+kill {
			if _, err := fmt.Fscanln(out, &said); err != nil {
				t.Fatal(err)
			}
		}
		cmd.Process.Kill()
		rest, _ := io.ReadAll(out)
		for line := range strings.Lines(string(rest)) {
			if strings.HasSuffix(line, "\n") {
				fmt.Sscan(line, &said)
			}
		}
		cmd.Wait()
		var ids []string
		n := map[string]int{}
		err = l.Each(true, func(r Run, _ *Trial) error {
			if n[r.ID]++; n[r.ID] == 1 {
				ids = append(ids, r.ID)
			}
			return nil
		})
		if err != nil || len(ids) != kill+1 {
			t.Fatalf("after %d kills: %d runs, %v", kill+1, len(ids), err)
		}
		most := 0
		for _, c := range n {
			most = max(most, c)
		}
		if most < said {
			t.Errorf("%d trials were written, at most %d are there", said, most)
		}
	}
}

// A log that is damaged, cut off or empty is an error or empty, but never ends the program.
func TestLogDamaged(t *testing.T) {
	l := Log{filepath.Join(t.TempDir(), "tuning.db")}
	r := &Run{Start: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)}
	if err := l.Begin(r); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := range 64 {
		bad := append([]byte(nil), good[:len(good)-(n%8)*len(good)/8]...)
		for at := 8192 + n; at < len(bad); at += 509 {
			bad[at] ^= 0xff
		}
		if err := os.WriteFile(l.Path, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if l.Each(true, func(Run, *Trial) error { return nil }) != nil {
			refused++
		}
	}
	if refused < 8 {
		t.Errorf("%d of 64 damaged logs are refused", refused)
	}
	if err := os.Truncate(l.Path, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Each(true, func(Run, *Trial) error { return nil }); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

// Logs have had the names of a trial's fields since before they were called as they are.
func TestTrialNames(t *testing.T) {
	const logged = `{"genes":null,"hash":"h","ratio":0.9,"ns":[1,2],"parts":[0.8,1]}`
	var x Trial
	if err := json.Unmarshal([]byte(logged), &x); err != nil {
		t.Fatal(err)
	}
	if want := (Trial{Hash: "h", Cost: 0.9, Ns: []float64{1, 2}, Ratios: []float64{0.8, 1}}); !reflect.DeepEqual(x, want) {
		t.Errorf("%+v, want %+v", x, want)
	}
	if text, err := json.Marshal(x); err != nil || string(text) != logged {
		t.Errorf("%s, want %s (%v)", text, logged, err)
	}
}

// Logs of before have the decisions that a trace was made of, which are no longer read.
func TestOldTrials(t *testing.T) {
	var x Trial
	old := `{"genes":[{"choice":{"Lanes":8,"Rows":2},"trace":[{"bind":{"loop":"m","to":"outer"}}]}],"hash":"12","ratio":0.5}`
	if err := json.Unmarshal([]byte(old), &x); err != nil || len(x.Genes) != 1 || x.Genes[0].Trace.String() != "bind m outer" {
		t.Errorf("%v: %+v", err, x)
	}
	data, err := json.Marshal(x.Genes[0])
	if err != nil || strings.Contains(string(data), "choice") {
		t.Errorf("%v: %s", err, data)
	}
}

// A run says what its product is. Logs of before do not: a built-in format is meant only if it is still the same.
func TestDefinition(t *testing.T) {
	own := ir.Problem{Weight: format.Weight{Name: "mine", Bits: 1, Levels: []int{-1, 1}, Per: format.PerRow, Scale: format.F32}}
	w2, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	grouped := w2
	grouped.Act.Group = 32
	for _, x := range []struct {
		run  Run
		want ir.Problem
		why  string
	}{
		{Run{Product: "mine", Defined: &own}, own, ""},
		{Run{Product: "w2"}, w2, ""},
		{Run{Product: "w2", Problem: ProblemHash(w2)}, w2, ""},
		{Run{Product: "w2", Problem: ProblemHash(grouped), ActGroup: 32}, grouped, ""},
		{Run{Product: "w2", Problem: ProblemHash(own)}, ir.Problem{}, "w2 meant something else"},
		{Run{Product: "mine"}, ir.Problem{}, "mine"},
		{Run{Product: "mine", Defined: &ir.Problem{}}, ir.Problem{}, "has no name"},
	} {
		have, err := x.run.Definition()
		if x.why == "" && (err != nil || !reflect.DeepEqual(have, x.want)) || x.why != "" && (err == nil || !strings.Contains(err.Error(), x.why)) {
			t.Errorf("%+v: %+v, %v, want %+v, %q", x.run, have, err, x.want, x.why)
		}
	}
}

// Another search begins with the fastest of what searches for the same product on such a core have measured, on any machine, for any
// purposes: the newest first.
func TestElsewhere(t *testing.T) {
	x := tuner(t, "w2", Purpose{M: 64, N: 1, K: 256}, Purpose{M: 64, N: 4, K: 256})
	l := Log{filepath.Join(t.TempDir(), "tuning.db")}
	own := Run{Start: time.Now(), Problem: ProblemHash(x.Problem), Target: x.Target.Machine().Name, CPU: "here"}
	genes := func(cols ...int) (out []Gene) {
		for _, u := range x.Default {
			if slices.Contains(cols, u.Cols) {
				out = append(out, Gene{Trace: u.Trace})
			}
		}
		return out
	}
	for i, change := range []func(*Run){
		func(r *Run) { r.Target = "another" }, func(r *Run) { r.Problem = "another" }, func(*Run) {}, func(r *Run) { r.CPU = "there" },
	} {
		r := own
		r.Start = r.Start.Add(time.Duration(i) * time.Hour)
		change(&r)
		if err := l.Begin(&r); err != nil {
			t.Fatal(err)
		}
		if err := l.Add(&r, Trial{Cost: 3}, Trial{Error: "wrong"}, Trial{Genes: genes(1, 4), Cost: 1}, Trial{Genes: genes(1), Cost: 2}); err != nil {
			t.Fatal(err)
		}
	}
	trials, err := l.Elsewhere(&own)
	var costs []float64
	for _, x := range trials {
		costs = append(costs, x.Cost)
	}
	if err != nil || !slices.Equal(costs, []float64{1, 2, 1, 2}) {
		t.Fatalf("%v, costs %v", err, costs)
	}
	for i, c := range x.Carried(trials) {
		if _, err := x.point(c); err != nil || len(c.Genes) != 2 || len(c.Kernels) != 2-i%2 {
			t.Errorf("%v: %d kernels of %d genes", err, len(c.Kernels), len(c.Genes))
		}
	}
}

// Figures and sizes that nothing has are no entries of a log: who draws them would not end.
func TestLogUnmeasurable(t *testing.T) {
	for name, write := range map[string]func(l Log, r Run) error{
		"tiny":      func(l Log, r Run) error { return l.Add(&r, Trial{Cost: 5e-324}, Trial{Cost: 1}) },
		"large":     func(l Log, r Run) error { return l.Add(&r, Trial{Cost: 1, Ns: []float64{1e300}}, Trial{Cost: 1}) },
		"negative":  func(l Log, r Run) error { return l.Add(&r, Trial{Cost: 1, Ratios: []float64{-1}}, Trial{Cost: 1}) },
		"predicted": func(l Log, r Run) error { return l.Add(&r, Trial{Cost: 1, Predicted: 1e-300}, Trial{Cost: 1}) },
		"estimate":  func(l Log, r Run) error { return l.Add(&r, Trial{Cost: 1, Estimate: 1e200}, Trial{Cost: 1}) },
		"rows":      func(l Log, r Run) error { r.Purposes = []Purpose{{Mode: "l2", M: -1, N: 1, K: 64}}; return l.Add(&r) },
		"columns": func(l Log, r Run) error {
			r.Purposes = []Purpose{{Mode: "l2", M: 1, N: 1, K: math.MaxInt}}
			return l.Add(&r)
		},
		"ceiling": func(l Log, r Run) error { r.Ceilings = []Ceilings{{ReadGBS: 1e-300}}; return l.Add(&r) },
	} {
		l := Log{filepath.Join(t.TempDir(), "tuning.db")}
		good := Run{Start: time.Now(), Product: "w2", Purposes: []Purpose{{Mode: "l2", M: 64, N: 1, K: 64}}}
		if err := errors.Join(l.Begin(&good), l.Add(&good, Trial{Cost: 1}), write(l, func() Run { r := good; r.ID = "1" + good.ID[1:]; return r }())); err != nil {
			t.Fatal(err)
		}
		unread, trials := (*Unread)(nil), 0
		err := l.Each(true, func(Run, *Trial) error { trials++; return nil })
		if !errors.As(err, &unread) || unread.N != 1 || trials < 1 || trials > 2 {
			t.Errorf("%s: %d trials, %v", name, trials, err)
		}
	}
}
