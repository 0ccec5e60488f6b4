package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker/loopback"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

// A search measures, counts what it drops, and ends by saying what it found and what
// became of it.
func TestTune(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "tuning.db")
	out := ok(t, "tune", "-q", "-only", "-format", "w2", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256", "-trials", "8", "-o", dir, "-log", log)
	for _, want := range []string{"w2 on amd64/avx2, 64 x 256 times 1", ": 8 candidates measured", "ended by trials", "because", "best: ", "locked"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	_, err := os.Stat(filepath.Join(dir, tune.LockName))
	if locked := !strings.Contains(out, "not locked"); locked != (err == nil) {
		t.Errorf("lock file: %v\n%s", err, out)
	}
	checkLog(t, log)
}

// A search begins with the schedules of files: they are among what it measures. For two numbers of activations it wants two.
func TestTuneTraces(t *testing.T) {
	needMeasuring(t)
	trace := traceFile(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace"))
	var usual schedule.Trace
	if data, err := os.ReadFile(trace); err != nil || json.Unmarshal(data, &usual) != nil {
		t.Fatal(err)
	}
	other := slices.DeleteFunc(usual, func(x schedule.Step) bool { return schedule.NameOf(x) == "prefetch" })
	data, err := json.Marshal(append(other, schedule.Prefetch{Bytes: 1984}))
	if err == nil {
		err = os.WriteFile(trace, data, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	const ahead = `{"prefetch":{"bytes":1984}}`
	log := filepath.Join(t.TempDir(), "tuning.db")
	args := []string{"tune", "-q", "-only", "-format", "w2", "-target", "avx2", "-mode", "l2", "-m", "64", "-k", "256", "-trials", "4", "-o", t.TempDir(), "-log", log, "-trace", trace}
	ok(t, append(args, "-n", "1")...)
	if text := ok(t, "log", "-log", log, "-json"); !strings.Contains(text, ahead) {
		t.Errorf("%s is not among what was measured:\n%s", ahead, text)
	}
	refused(t, refusal{exitUsage, "-trace: 1 file: want one for each of the 2 -n, the fewest first", strings.Join(append(args, "-n", "1,4"), " ")})
	wide := traceFile(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-cols", "4", "-stage", "trace"))
	refused(t, refusal{exitUsage, "-trace " + wide + ": more columns than activations: kernels of 4 columns for 1 activations", strings.Join(append(args[:len(args)-1:len(args)-1], wide, "-trace", trace, "-n", "1,4"), " ")})
}

// A file of -trace whose schedule does not compile for the product is named.
func TestTuneTraceMisfits(t *testing.T) {
	needMeasuring(t)
	usual := traceFile(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace"))
	groups := traceFile(t, ok(t, "show", "-format", "w2-g32", "-target", "avx2", "-stage", "trace"))
	refused(t, refusal{exitUsage, "tmacc: -trace " + groups + ": ", "tune -format w2 -target avx2 -mode l2 -n 1,4 -o " + t.TempDir() + " -log none -trace " + usual + " -trace " + groups})
}

// What was measured is listed, exported and pruned.
func checkLog(t *testing.T, log string) {
	t.Helper()
	if out := ok(t, "log", "-log", log); !strings.Contains(out, "w2") || !strings.Contains(out, "trials") {
		t.Errorf("log:\n%s", out)
	}
	lines := 0
	for line := range strings.Lines(ok(t, "log", "-log", log, "-json")) {
		var x struct {
			Product string
			Trial   tune.Trial
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil || x.Product != "w2" || len(x.Trial.Genes) != 1 || len(x.Trial.Genes[0].Trace) == 0 || x.Trial.Cost <= 0 && x.Trial.Error == "" {
			t.Errorf("%v: %s", err, line)
		}
		lines++
	}
	if lines != 8 {
		t.Errorf("%d trials in the log, want 8", lines)
	}
	time.Sleep(time.Millisecond)
	if out := ok(t, "log", "-log", log, "-prune", "1ns"); !strings.Contains(out, "removed 1 searches") {
		t.Error(out)
	}
	if out := ok(t, "log", "-log", log, "-json"); out != "" {
		t.Error(out)
	}
}

// tuneProcess starts tmacc tune in a process of its own.
func tuneProcess(t *testing.T, env []string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd, stdout, stderr = tuneCommand(env, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdout, stderr
}

// tuneCommand is tmacc tune as a process of its own, not started.
func tuneCommand(env []string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	cmd = exec.Command(os.Args[0], append([]string{"tune", "-q", "-only", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256"}, args...)...)
	cmd.Env = append(append(os.Environ(), "TMACC_TEST_MAIN=1"), env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// logged are the hashes of all that is in a log.
func logged(t *testing.T, path string) (hashes []string) {
	t.Helper()
	err := tune.Log{Path: path}.Each(true, func(_ tune.Run, x *tune.Trial) error { hashes = append(hashes, x.Hash); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return hashes
}

// A search that is killed has lost nothing that it measured: one that goes on measures none of it again.
func TestTuneKilled(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "tuning.db")
	cmd, _, _ := tuneProcess(t, nil, "-format", "w2", "-trials", "1000", "-o", dir, "-log", log)
	var before []string
	for len(before) < 8 {
		time.Sleep(50 * time.Millisecond)
		before = logged(t, log)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if before = logged(t, log); len(before) < 8 {
		t.Fatalf("%d candidates are left", len(before))
	}
	out := ok(t, "tune", "-q", "-only", "-target", "avx2", "-mode", "l2", "-n", "1", "-m", "64", "-k", "256", "-format", "w2", "-trials", "4", "-o", dir, "-log", log, "-resume")
	if !strings.Contains(out, ": 4 candidates measured") {
		t.Error(out)
	}
	all := logged(t, log)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != len(before)+4 || len(all) != n {
		t.Errorf("%d candidates of %d in the log are different, after %d and 4", n, len(all), len(before))
	}
}

// Ctrl-C ends the search with the best so far, and begins none of the others; so does SIGTERM: one of them is tried.
func TestTuneInterrupted(t *testing.T) {
	needMeasuring(t)
	for _, signal := range drawn.Some(drawn.New(t), 2, []os.Signal{os.Interrupt, syscall.SIGTERM}) {
		dir := t.TempDir()
		log := filepath.Join(dir, "tuning.db")
		cmd, out, stderr := tuneProcess(t, nil, "-format", "w2,w4", "-o", dir, "-log", log)
		for len(logged(t, log)) < 8 {
			time.Sleep(50 * time.Millisecond)
		}
		cmd.Process.Signal(signal)
		err := cmd.Wait()
		said := strings.HasPrefix(stderr.String(), "tmacc: interrupted: not searched: w4 on ") && strings.Count(stderr.String(), "\n") == 1
		if text := out.String(); cmd.ProcessState.ExitCode() != exitFailed || strings.Count(text, "ended by interrupted") != 1 || strings.Count(text, "best: ") != 1 || !said {
			t.Errorf("%v: %v\n%s%s", signal, err, text, stderr)
		}
	}
}

// Two searches at once finish, with one log and one lock.
func TestTuneTwice(t *testing.T) {
	needMeasuring(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "tuning.db")
	args := []string{"-trials", "8", "-o", dir, "-log", log, "-format"}
	one, out1, err1 := tuneProcess(t, nil, append(args, "w2")...)
	two, out2, err2 := tuneProcess(t, nil, append(args, "w4")...)
	if err := errors.Join(one.Wait(), two.Wait()); err != nil || err1.Len()+err2.Len() > 0 {
		t.Fatalf("%v\n%s%s", err, err1, err2)
	}
	if n := len(logged(t, log)); n != 16 {
		t.Errorf("%d candidates in the log, want 16", n)
	}
	want := 2 - strings.Count(out1.String()+out2.String(), "not locked")
	l, err := tune.ReadLock(filepath.Join(dir, tune.LockName))
	if err != nil || len(l.Entries) != want {
		t.Errorf("%d entries in the lock, %v; want %d", len(l.Entries), err, want)
	}
}

// A search on another machine goes on when its worker is killed there and when the connection is cut, also for
// a while: everything is measured, once.
func TestTuneRunner(t *testing.T) {
	needMeasuring(t)
	server := loopback.Start(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "tuning.db")
	cmd, out, stderr := tuneProcess(t, nil, "-format", "w2", "-trials", "40", "-o", dir, "-log", log, "-runner", server.URL, "-runner-exec", "env LANG=C")
	disturb := []func(){
		func() { server.Kill(t) },
		func() { server.Cut(false) },
		func() { server.Cut(true); time.AfterFunc(time.Second, func() { server.Cut(false) }) },
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for len(disturb) > 0 {
		select {
		case err := <-done:
			t.Fatalf("%v before %d disturbances\n%s%s", err, len(disturb), out, stderr)
		case <-time.After(20 * time.Millisecond):
		}
		if n := len(logged(t, log)); n >= 32-8*len(disturb) {
			disturb[0]()
			disturb = disturb[1:]
		}
	}
	if err := <-done; err != nil || !strings.Contains(out.String(), ": 40 candidates measured") || stderr.Len() > 0 {
		t.Errorf("%v\n%s%s", err, out, stderr)
	}
	all := logged(t, log)
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 40 {
		t.Errorf("%d candidates in the log, want 40", n)
	}
	for _, reason := range []string{"crashed", "timed out", "wrong", "other:"} {
		if strings.Contains(out.String(), reason) {
			t.Errorf("%s:\n%s", reason, out)
		}
	}
}

// compile -tune searches for each format and target that this machine runs, locks, and compiles what it has
// locked, activations in f32 included. What it leaves out is said.
func TestCompileTunes(t *testing.T) {
	needMeasuring(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // of the log
	dir := t.TempDir()
	code, out, stderr := tmacc("compile", "-json", "-q", "-no-check", "-tune", "4s", "-format", "w1-f32act", "-target", "avx2,dotprod", "-o", dir)
	var r delivery.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	if want := "tmacc: w1-f32act is not tuned for arm64/dotprod (this machine lacks an arm64 CPU)\n"; !strings.Contains(stderr, want) {
		t.Errorf("no %q in\n%s", want, stderr)
	}
	if strings.Count(stderr, "candidates measured") != 1 || !strings.Contains(stderr, "ended by time") || !strings.Contains(stderr, "4096 x 4096 times 4, weights in dram") {
		t.Errorf("searched:\n%s", stderr)
	}
	locked := 0
	for _, p := range r.Products {
		locked += len(p.Tuned)
	}
	if locked+strings.Count(stderr, "not locked") != 1 {
		t.Errorf("tuned %d:\n%s", locked, stderr)
	}
}

// unwritable is a directory in which nobody makes a file, not even root.
func unwritable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if f, err := os.CreateTemp(dir, ""); err == nil {
		f.Close()
		dir = "/sys"
	}
	return dir
}

// Where no log can be written, because the disk is full or the user's cache cannot be written, the search says
// so and finds the same. One of the two is tried.
func TestTuneNotLogged(t *testing.T) {
	needMeasuring(t)
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range drawn.Some(drawn.New(t), 2, []struct {
		what      string
		env, args []string
	}{
		{what: "no space left", args: []string{"-log", "/dev/full"}},
		{what: "mkdir", env: []string{"XDG_CACHE_HOME=" + unwritable(t), "GOCACHE=" + strings.TrimSpace(string(cache))}},
	}) {
		dir, what := t.TempDir(), c.what
		cmd, out, stderr := tuneProcess(t, c.env, append([]string{"-format", "w2", "-trials", "4", "-o", dir}, c.args...)...)
		if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "not logged: ") || !strings.Contains(stderr.String(), what) {
			t.Errorf("%s: %v\n%s", what, err, stderr)
		}
		if strings.Count(stderr.String(), "\n") > 2 || !strings.Contains(out.String(), "best: ") {
			t.Errorf("%s:\n%s%s", what, stderr, out)
		}
	}
}

// A search that can measure no more, because there is no room where kernels are assembled, says so and prints the best
// that it has; so does one whose lock cannot be read when it ends. What was measured is logged. One of the two is tried.
func TestTuneBroken(t *testing.T) {
	needMeasuring(t)
	for _, c := range drawn.Some(drawn.New(t), 2, []struct {
		what   string
		breaks func(dir, temp string) error
	}{
		{"cannot measure: ", func(_, temp string) error { return os.RemoveAll(temp) }},
		{tune.LockName + ": has", func(dir, _ string) error {
			return os.WriteFile(filepath.Join(dir, tune.LockName), []byte(`{"version":0}`), 0o666)
		}},
	}) {
		what := c.what
		dir, temp := t.TempDir(), t.TempDir()
		log := filepath.Join(dir, "tuning.db")
		cmd, out, stderr := tuneProcess(t, []string{"TMPDIR=" + temp}, "-format", "w2", "-trials", "30", "-o", dir, "-log", log)
		for len(logged(t, log)) < 8 {
			time.Sleep(50 * time.Millisecond)
		}
		if err := c.breaks(dir, temp); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if err == nil || !strings.Contains(stderr.String(), what) || !strings.Contains(stderr.String(), "tmacc tune -resume goes on") {
			t.Errorf("%s: %v\n%s", what, err, stderr)
		}
		_, best, _ := strings.Cut(out.String(), "best so far, ")
		_, best, _ = strings.Cut(best, "\n")
		line, _, _ := strings.Cut(best, "\n")
		var trace schedule.Trace
		if err := json.Unmarshal([]byte(line), &trace); err != nil || len(trace) == 0 {
			t.Errorf("%s: no trace, %v:\n%s", what, err, out)
		}
	}
}

// A result that cannot be locked is printed, so that tmacc compile -trace can read it.
func TestTuneNotLocked(t *testing.T) {
	p, target := w2OnAVX2(t)
	uses, err := chosen.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	x := &tuning{cli: &cli{out: &out}}
	full := errors.New("tmacc.lock: no space left")
	err = x.unsaved(&session.SaveError{Traces: []schedule.Trace{uses[0].Trace}, Err: full})
	if err == nil || err.Error() != "tmacc.lock: no space left: not locked: the traces above are for tmacc compile -trace" {
		t.Errorf("error %v", err)
	}
	line, _, _ := strings.Cut(out.String(), "\n")
	var trace schedule.Trace
	if err := json.Unmarshal([]byte(line), &trace); err != nil || trace.String() != uses[0].Trace.String() {
		t.Errorf("%v: %s", err, line)
	}
	if err := x.unsaved(&session.SaveError{Err: full}); err.Error() != "tmacc.lock: no space left: the lock is as it was" {
		t.Errorf("error %v", err)
	}
}

// Reasons are not cut. Without any there is no table of them.
func TestTunePrints(t *testing.T) {
	p, target := w2OnAVX2(t)
	var out bytes.Buffer
	x := &tuning{cli: &cli{out: &out}, Options: session.Options{Problem: p, Target: target}}
	reason := strings.Repeat("because ", 40) + "of that"
	x.printFound(&session.Found{Outcome: tune.Outcome[*tune.Candidate]{Trials: 7, Ended: "time", Dropped: map[string]int{reason: 1}}, Took: time.Second})
	if !strings.Contains(out.String(), reason+"\n") {
		t.Error(&out)
	}
	out.Reset()
	x.printFound(&session.Found{Outcome: tune.Outcome[*tune.Candidate]{Ended: "time"}, Took: time.Second})
	if text := out.String(); !strings.HasSuffix(text, ": 0 candidates measured in 1s (0 a minute), ended by time\n") || strings.Count(text, "\n") != 1 {
		t.Error(text)
	}
}

// A search without a result says what helps, of -from-scratch only to who gave it.
func TestTuneNothing(t *testing.T) {
	p, target := w2OnAVX2(t)
	x := &tuning{Options: session.Options{Problem: p, Target: target}}
	for scratch, want := range map[bool]string{
		false: "tune: w2 on amd64/avx2: nothing was measured: give more -time",
		true:  "tune: w2 on amd64/avx2: nothing was measured: give more -time, or leave -from-scratch out",
	} {
		if x.Scratch = scratch; x.nothing().Error() != want {
			t.Errorf("%v, want %s", x.nothing(), want)
		}
	}
}

// w2OnAVX2 is a product that every machine with kernels has.
func w2OnAVX2(t *testing.T) (ir.Problem, lower.Target) {
	t.Helper()
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	target, err := oneTarget("avx2")
	if err != nil {
		t.Fatal(err)
	}
	return p, target
}

// bench -lock measures the schedules of a lock beside the default ones: one that is no good is an error, of the product that
// it is for.
func TestBenchLock(t *testing.T) {
	needMeasuring(t)
	path := filepath.Join(t.TempDir(), tune.LockName)
	bench := []string{"bench", "-q", "-json", "-target", "avx2", "-mode", "l2", "-n", "1", "-lock", path, "-format"}
	if code, _, stderr := tmacc(append(bench, "w2")...); code != exitUsage || !strings.Contains(stderr, path) {
		t.Errorf("no lock: exit code %d: %s", code, stderr)
	}
	p, target := w2OnAVX2(t)
	uses, err := chosen.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	e := tune.Entry{Product: "w2", Target: "amd64/avx2", Problem: tune.ProblemHash(p), Kernels: []tune.Kernel{{Cols: 1, Trace: uses[0].Trace}}}
	put := func() {
		t.Helper()
		if err := tune.ChangeLock(path, func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	put()
	lines := strings.Split(strings.TrimSpace(ok(t, append(bench, "w2,w4")...)), "\n")
	var tuned []bool
	for _, line := range lines {
		var r measure.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		tuned = append(tuned, r.Tuned)
	}
	if !slices.Equal(tuned, []bool{false, true, false}) { // w2, w2 of the lock, w4
		t.Errorf("tuned %v:\n%s", tuned, strings.Join(lines, "\n"))
	}
	e.Kernels[0].Cols = 3
	put()
	ok(t, append(bench, "w4")...)
	if code, _, stderr := tmacc(append(bench, "w2")...); code != exitUsage || !strings.Contains(stderr, "said to be for 3") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// A lock that has a kernel for one column only, tuned for no other, is warned about.
func TestLockNarrow(t *testing.T) {
	p, target := w2OnAVX2(t)
	uses, err := chosen.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for n, warned := range map[int]bool{1: true, 4: false} {
		e := tune.Entry{Product: "w2", Target: "amd64/avx2", Problem: tune.ProblemHash(p), Figures: []tune.Figures{{Mode: "l2", M: 64, N: n, K: 256}},
			Kernels: []tune.Kernel{{Cols: 1, Trace: uses[0].Trace}}}
		if err := tune.ChangeLock(filepath.Join(dir, tune.LockName), func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
			t.Fatal(err)
		}
		code, _, stderr := tmacc("compile", "-q", "-no-check", "-format", "w2", "-target", "avx2", "-o", dir)
		if code != 0 || warned != strings.Contains(stderr, "tmacc: w2 on amd64/avx2: locked for 1 column only; larger products use that kernel column by column\n") {
			t.Errorf("tuned for %d: exit code %d, %s", n, code, stderr)
		}
		if !strings.Contains(stderr, "has other kernels (for 1 column) than") {
			t.Error(stderr)
		}
	}
}

// A lock beside a package that is a module of its own is not its lock, which is said as long as it has none.
func TestLockAstray(t *testing.T) {
	p, target := w2OnAVX2(t)
	uses, err := chosen.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	put := func(path string) {
		e := tune.Entry{Product: "w2", Target: "amd64/avx2", Problem: tune.ProblemHash(p), Figures: []tune.Figures{{Mode: "l2", M: 64, N: 4, K: 256}},
			Kernels: []tune.Kernel{{Cols: 1, Trace: uses[0].Trace}}}
		if err := tune.ChangeLock(path, func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	compile := func() string {
		code, _, stderr := tmacc("compile", "-q", "-no-check", "-format", "w2", "-target", "avx2", "-o", "k")
		if code != 0 {
			t.Fatal(stderr)
		}
		return stderr
	}
	const said = "tmacc: tmacc.lock is not used: k is a module of its own, for which tmacc tune takes -o k\n"
	if text := compile(); strings.Contains(text, "not used") {
		t.Error(text)
	}
	put(tune.LockName)
	if text := compile(); !strings.Contains(text, said) {
		t.Error(text)
	}
	put(filepath.Join("k", tune.LockName))
	if text := compile(); strings.Contains(text, said) {
		t.Error(text)
	}
}

// A table of medians has the times of tuned schedules over the times of the default ones.
func TestBenchTable(t *testing.T) {
	var all []measure.Record
	for _, ns := range []float64{100, 120, 400} {
		all = append(all, measure.Record{Format: "w2", Ns: ns}, measure.Record{Format: "w4", Ns: ns}, measure.Record{Format: "w2", Ns: ns / 2, Tuned: true})
	}
	var ratios []string
	for _, row := range benchTable(bench.Medians(all)).rows {
		ratios = append(ratios, row[0]+" "+row[len(row)-1])
	}
	if want := []string{"w2 ", "w4 ", "w2 0.50"}; !slices.Equal(ratios, want) {
		t.Errorf("%q, want %q", ratios, want)
	}
}

// What a module has locked is what compile compiles, for that target only; -check
// names kernels that differ from the lock, and files that are not current.
func TestLockReplays(t *testing.T) {
	dir := t.TempDir()
	p, target := w2OnAVX2(t)
	var trace schedule.Trace
	if err := json.Unmarshal([]byte(json1(t, ok(t, "show", "-format", "w2", "-cols", "2", "-target", "avx2", "-stage", "trace"))), &trace); err != nil {
		t.Fatal(err)
	}
	var wide schedule.Trace // for a matrix packed otherwise
	if err := json.Unmarshal([]byte(json1(t, ok(t, "show", "-format", "w2", "-cols", "4", "-target", "avx2", "-stage", "trace"))), &wide); err != nil {
		t.Fatal(err)
	}
	for i, x := range wide {
		if x, is := x.(schedule.Split); is && x.Loop == "k" {
			x.By *= 2
			wide[i] = x
		}
	}
	v, err := build.Variant(t.Context(), p, target, []search.Use{{Trace: trace}})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := tune.KernelHash(target, v.Kernels[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	e := tune.Entry{Product: "w2", Target: "amd64/avx2", Problem: tune.ProblemHash(p), Kernels: []tune.Kernel{{Cols: 2, Hash: hash, Trace: trace}}}
	lock := func() {
		t.Helper()
		if err := tune.ChangeLock(filepath.Join(dir, tune.LockName), func(l *tune.Lock) error { l.Put(e); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	lock()
	for maxK, want := range map[string][2]string{
		"200000": {},
		"4194304": {"tmacc: tmacc.lock: w2 on amd64/avx2 has schedules that are not exact for K up to 4194304, so the entry is not used (accumulator acc2 (i32) could overflow: 20971",
			", beyond 2147483647): compile for smaller K, or remove the entry\n"},
	} {
		code, out, stderr := tmacc("compile", "-json", "-q", "-format", "w2", "-target", "avx2", "-o", dir, "-no-check", "-max-k", maxK)
		exact := want[0] == ""
		said := strings.HasPrefix(stderr, want[0]) && strings.HasSuffix(stderr, want[1]) && (stderr == "") == exact
		if tuned := strings.Contains(out, `"tuned"`); code != 0 || !said || tuned != exact {
			t.Errorf("K up to %s: exit code %d, tuned %v, %s", maxK, code, tuned, stderr)
		}
	}
	args := []string{"-format", "w2", "-target", "avx2,avx512", "-o", dir}
	r := report(t, 0, append(args, "-no-check")...)
	if !slices.Equal(r.Products[0].Tuned, []string{"amd64/avx2"}) {
		t.Errorf("tuned %v", r.Products[0].Tuned)
	}
	avx2, others := 0, 0
	for _, k := range r.Products[0].Kernels {
		if k.Target != "amd64/avx2" {
			others++
		} else if avx2++; k.Trace.String() != trace.String() {
			t.Errorf("compiled %v, locked %v", k.Trace, trace)
		}
	}
	if avx2 != 1 || others < 3 {
		t.Errorf("%d kernels by the lock, %d others", avx2, others)
	}
	check := append([]string{"compile", "-check", "-q"}, args...)
	if out := ok(t, check...); !strings.Contains(out, "is up to date") {
		t.Error(out)
	}
	refused := func(what string, want ...string) {
		t.Helper()
		code, _, stderr := tmacc(check...)
		for _, w := range want {
			if code != exitFailed || !strings.Contains(stderr, w) {
				t.Errorf("%s: exit code %d, no %q in %s", what, code, w, stderr)
			}
		}
	}
	e.Kernels[0].Hash = "other" // another compiler measured it
	lock()
	stranger := "w2 on amd64/avx2 has other kernels (for 2 columns) than were measured: the traces were changed, or the compiler: " +
		"run tmacc tune -format w2 -target amd64/avx2 -o " + dir + ", or remove the entry"
	refused("a changed kernel", "tmacc: tmacc.lock: "+stranger)
	if code, _, stderr := tmacc(append([]string{"compile", "-q", "-no-check"}, args...)...); code != 0 || !strings.Contains(stderr, stranger) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a changed kernel: exit code %d, %s", code, stderr)
	}
	e.Kernels[0].Hash = hash
	ahead := slices.Clone(trace)
	for i, x := range ahead {
		if x, is := x.(schedule.Prefetch); is {
			x.Bytes += 64
			ahead[i] = x
		}
	}
	if e.Kernels[0].Trace = ahead; ahead.String() == trace.String() {
		t.Fatalf("%v asks for nothing ahead", trace)
	}
	lock()
	files, err := filepath.Glob(filepath.Join(dir, "*_avx2_amd64.s"))
	if err != nil || len(files) != 1 {
		t.Fatalf("assembly %v, %v; want one", files, err)
	}
	refused("a changed trace", filepath.Base(files[0]), ": run tmacc compile, or go generate; tmacc.lock: ", stranger)
	e.Kernels[0].Trace = trace
	lock()
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], append(text, '\n'), 0o666); err != nil {
		t.Fatal(err)
	}
	refused("a file edited by hand", filepath.Base(files[0]))
	if err := os.WriteFile(files[0], text, 0o666); err != nil {
		t.Fatal(err)
	}
	ok(t, check...)
	e.Compiler, e.Kernels[0].Hash = "v1.2.3", "other"
	lock()
	refused("a changed kernel of a release", "than were measured by tmacc v1.2.3: ")
	e.Compiler, e.Kernels[0].Hash = gomod.Unknown, hash
	e.Problem = "other"
	lock()
	refused("another problem", filepath.Base(files[0]), "w2 on amd64/avx2 has other levels", "or remove the entry")
	e.Problem, e.Kernels[0].Cols = tune.ProblemHash(p), 3
	lock()
	if code, _, stderr := tmacc(check...); code != exitUsage || !strings.Contains(stderr, "a schedule for n = 2 is said to be for 3") {
		t.Errorf("other columns: exit code %d: %s", code, stderr)
	}
	e.Kernels[0].Cols = 2
	e.Kernels = append(e.Kernels, tune.Kernel{Cols: 4, Trace: wide})
	lock()
	if code, _, stderr := tmacc(check...); code != exitUsage || !strings.Contains(stderr, tune.LockName+": ") || !strings.Contains(stderr, "the schedules for n = 2 and 4 are not for one packed matrix") {
		t.Errorf("another layout: exit code %d: %s", code, stderr)
	}
	e.Kernels = e.Kernels[:1]
	lock()
	ok(t, check...)
	e.Target = "amd64/none"
	lock()
	refused("an unknown target", "tmacc.lock: w2 on amd64/none is not used: this tmacc has no such target")
	if err := os.WriteFile(filepath.Join(dir, tune.LockName), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := tmacc(check...); code != exitUsage || !strings.Contains(stderr, tune.LockName) {
		t.Errorf("broken lock: exit code %d: %s", code, stderr)
	}
}
