package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// measuring is opened where this machine runs the target.
func measuring(t *testing.T, change func(*Options)) *Explorer {
	t.Helper()
	e := opened(t, change)
	if !slices.ContainsFunc(measure.Targets(), func(x lower.Target) bool { return x.Machine().Name == e.Target.Machine().Name }) {
		t.Skip("this machine does not run " + e.Target.Machine().Name)
	}
	return e
}

// faulty is a target whose candidates have another body than they should.
type faulty struct {
	lower.Target
	body string
}

var candidate = regexp.MustCompile(`TEXT ·k0_n1\(SB\).*\n`)

func (f faulty) File(pkg string, fs ...lower.Named) (lower.File, error) {
	file, err := f.Target.File(pkg, fs...)
	if err == nil && bytes.Contains(file.Data, []byte("reference_n1")) {
		file.Data = candidate.ReplaceAllFunc(file.Data, func(text []byte) []byte { return fmt.Appendf(nil, "%s\t%s\n", text, f.body) })
	}
	return file, err
}

// endless is a body that never returns.
const endless = "endless:\n\tJMP endless"

// A schedule that crashes, hangs or computes something else is a problem from then on, and others can still be measured.
func TestFaults(t *testing.T) {
	for body, why := range map[string]string{"UNDEF": "SIGILL", "RET": "is wrong", endless: "did not return"} {
		e := measuring(t, func(o *Options) {
			if o.Target = (faulty{o.Target.(lower.Target), body}); body == endless {
				o.Hung = 2 * time.Second
			}
		})
		_, err := e.Measure(t.Context(), nil)
		if !worker.IsFault(err) {
			t.Fatalf("%s: %v", body, err)
		}
		if p := e.Problems(); len(p) != 1 || p[0].Kind != FaultKind || !strings.Contains(p[0].Text, why) {
			t.Errorf("%s: %v, want %s", body, p, why)
		}
		e.session, e.Hung = nil, 0
		e.Target = e.Target.(faulty).Target
		if e.on, err = e.machineOf(); err != nil {
			t.Fatal(err)
		}
		if m, err := e.Measure(t.Context(), nil); err != nil || m.Ratio.Median <= 0 || len(e.Problems()) != 0 {
			t.Errorf("%s: then %v, %v, %v", body, m, err, e.Problems())
		}
	}
}

// A measurement can be stopped even while a schedule hangs, which is no fault of the schedule then. So Close need not wait for it.
func TestStopped(t *testing.T) {
	for name, stop := range map[string]func(e *Explorer, cancel func()){
		"context": func(_ *Explorer, cancel func()) { cancel() },
		"close":   func(e *Explorer, _ func()) { e.Close() },
	} {
		e := measuring(t, func(o *Options) { o.Target, o.Hung = faulty{o.Target.(lower.Target), endless}, time.Hour })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := e.Measure(ctx, nil)
			ended <- err
		}()
		time.Sleep(2 * time.Second) // until the schedule runs, on most machines
		stop(e, cancel)
		if err := <-ended; !errors.Is(err, context.Canceled) || e.about(e.Now()).fault != "" {
			t.Errorf("%s: %v, and the problems are %v", name, err, e.Problems())
		}
	}
}

// A measurement stands beside the default schedule, with its noise. A slower schedule is saved only anyway; the default one removes it.
func TestSave(t *testing.T) {
	lock := filepath.Join(t.TempDir(), tune.LockName)
	e := measuring(t, func(o *Options) { o.Lock, o.Probing = lock, timing.Options{Rounds: 1} })
	before := e.Now()
	do := func(line string) Reply {
		t.Helper()
		r, err := e.Do(t.Context(), line, nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return r
	}
	do("values 11 by")
	do("choose 3") // half of the lanes
	m := do("measure").(*Measured)
	if f := m.Figures; len(f) != 1 || f[0].Ns <= 0 || f[0].BaseNs <= 0 || m.Ratio.Low > m.Ratio.Median || m.Ratio.High < m.Ratio.Median || m.Ratio.High == m.Ratio.Low {
		t.Errorf("%+v", m)
	}
	if r := do("roofline").(Roofline); len(r) != 1 || r[0].GMACS <= 0 || r[0].GBS <= 0 || r[0].CeilingGMACS <= 0 || strings.Count(r.String(), "[#") != 2 {
		t.Errorf("%+v\n%v", r, r)
	}
	m = do("measure").(*Measured)
	if s := do("trace").(State); s.Measured != m {
		t.Errorf("%+v is not what was measured", s.Measured)
	}
	if s := do("save").(Saved); s.Outcome != session.None || s.Lock != "" {
		t.Errorf("%+v: a slower schedule is saved", s)
	}
	if s := do("save anyway").(Saved); s.Outcome != session.Locked || s.Lock != lock {
		t.Errorf("%+v", s)
	}
	l, err := tune.ReadLock(lock)
	if err != nil || len(l.Entries) != 1 || l.Entries[0].Kernels[0].Trace.String() != e.Now().String() {
		t.Fatalf("%+v, %v", l, err)
	}
	again := measuring(t, func(o *Options) { o.Lock, o.Trace = lock, nil })
	if again.Now().String() != e.Now().String() || !strings.HasPrefix(again.Origin, "lock") {
		t.Errorf("the lock is not opened: %v of %s", again.Now(), again.Origin)
	}
	e.Set(e.usual, 0)
	if s := do("save").(Saved); s.Outcome != session.Removed {
		t.Errorf("%+v", s)
	}
	if l, err := tune.ReadLock(lock); err != nil || len(l.Entries) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	do("undo")
	do("undo")
	if e.Now().String() != before.String() {
		t.Errorf("%v, want %v", e.Now(), before)
	}
}

// A search tells of what it finds while it runs, and can be stopped. Only one thing is measured at a time.
func TestSearch(t *testing.T) {
	e := measuring(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy error
	f, err := e.Search(ctx, time.Minute, func(x session.Event) {
		if _, ok := x.(session.Better); ok && e.Best() != nil {
			_, busy = e.Measure(t.Context(), nil)
			stop()
		}
	})
	if err != nil || f.Tried == 0 || !errors.Is(busy, ErrBusy) {
		t.Fatalf("%+v, %v; meanwhile %v", f, err, busy)
	}
	if err := e.TakeBest(); err != nil || e.Now().String() != f.Trace.String() {
		t.Errorf("%v: %v", err, e.Now())
	}
	if _, err := schedule.Compile(e.Problem, e.Now()); err != nil {
		t.Error(err)
	}
	stop()
	if f, err := e.Search(ctx, time.Minute, nil); err == nil || e.Best() != nil {
		t.Errorf("a search that is stopped at once finds %+v, %v, and before it %+v", f, err, e.Best())
	}
}

// canned is a gauge whose answers are known.
type canned struct {
	gauge
	e     *Explorer
	found schedule.Trace
	err   error // of measuring
}

func (c *canned) search(context.Context, time.Duration, schedule.Trace) (*Found, error) {
	c.e.said(session.Better{Ratio: tune.Ratio{Median: 0.5, Low: 0.4, High: 0.6}, Traces: []schedule.Trace{c.found}})
	return &Found{Cost: 0.5, Trace: c.found, Ended: "time", Tried: 2}, nil
}

func (c *canned) beside(context.Context, schedule.Trace, schedule.Trace, string) ([]tune.Beside, error) {
	return []tune.Beside{{Ns: []float64{9, 8, 9, 8, 9, 8}, BaseNs: []float64{10, 10, 10, 10, 10, 10}}}, c.err
}

func (c *canned) Close() error { return nil }

// The best of a search is measured again beside the default schedule, so that its noise is known. What goes wrong then is heard, and the best
// stays unconfirmed. The default schedule needs no confirmation.
func TestConfirmed(t *testing.T) {
	e := opened(t, nil)
	c := &canned{e: e, found: given(t)[:20]}
	e.session = c
	f, err := e.Search(t.Context(), time.Second, nil)
	if err != nil || f.Confirmed == nil || f.Confirmed.Ratio.String() != "0.85 ± 0.05" || f.Confirmed.Base != defaultWords || f.Confirmed != e.about(c.found).measured {
		t.Errorf("%+v, %v", f, err)
	}
	c.found, c.err = given(t)[:10], &worker.Crash{What: "it", Output: "SIGILL"}
	heard := ""
	f, err = e.Search(t.Context(), time.Second, func(x session.Event) {
		if n, ok := x.(session.Note); ok {
			heard = n.String()
		}
	})
	if err != nil || f.Confirmed != nil || !strings.Contains(heard, "the best could not be measured again: ") || e.about(c.found).fault == "" {
		t.Errorf("%+v, %v, heard %q", f, err, heard)
	}
	c.found = e.usual
	before := func(session.Event) {
		if !e.Best().IsDefault() {
			t.Errorf("found %+v", e.Best())
		}
	}
	if f, err = e.Search(t.Context(), time.Second, before); err != nil || f.Confirmed != nil || !f.IsDefault() {
		t.Errorf("%+v, %v", f, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c.found, c.err = given(t)[:20], nil
	f, err = e.Search(ctx, time.Second, func(session.Event) { stop() })
	if err != nil || f.Confirmed != nil || !strings.Contains(f.String(), "took 0.50 ± 0.10 of the time of the default schedule, which is unconfirmed") {
		t.Errorf("stopped: %+v, %v", f, err)
	}
}

// A find is called faster only if it is so beyond the noise of measuring it again.
func TestFoundText(t *testing.T) {
	measured := func(low, high float64) *Measured {
		return &Measured{Base: defaultWords, Ratio: tune.Ratio{Median: (low + high) / 2, Low: low, High: high}}
	}
	for want, f := range map[string]Found{
		"2 candidates, ended by time; none was faster than the default schedule":                                                                        {Cost: 0.99, usual: true},
		"2 candidates, ended by time; the best took 0.90 of the time of the default schedule, which is unconfirmed: best takes it, measure confirms it": {Cost: 0.9},
		"2 candidates, ended by time; the best took 0.90 ± 0.05 of the time of the default schedule, which is unconfirmed: best takes it, measure confirms it": {Cost: 0.9,
			Noise: &measured(0.85, 0.95).Ratio},
		"2 candidates, ended by time; the best takes 0.85 ± 0.05 of the time of the default schedule, and best takes it": {Cost: 0.8, Confirmed: measured(0.8, 0.9)},
		"2 candidates, ended by time; the best takes 1.00 ± 0.10 of the time of the default schedule, which is not faster beyond the noise; best takes it": {Cost: 0.8,
			Confirmed: measured(0.9, 1.1)},
	} {
		f.Tried, f.Ended = 2, "time"
		if text, _, _ := strings.Cut(f.String(), "\n"); text != want {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}

// Close stops a search, waits for it, and its log is complete. Nothing is measured afterwards.
func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuning.db")
	e := measuring(t, func(o *Options) { o.Log = path })
	found, ended := make(chan bool, 1), make(chan error, 1)
	go func() {
		_, err := e.Search(t.Context(), time.Hour, func(x session.Event) {
			if _, ok := x.(session.Better); ok {
				select {
				case found <- true:
				default:
				}
			}
		})
		ended <- err
	}()
	select {
	case <-found:
	case err := <-ended:
		t.Fatal("the search ends before it finds anything: ", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if e.busy != "" {
		t.Error(e.busy + " goes on")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	last := tune.Run{}
	err := tune.Log{Path: path}.Each(true, func(r tune.Run, _ *tune.Trial) error { last = r; return nil })
	if err != nil || last.Ended == "" {
		t.Errorf("the log has %+v, %v", last, err)
	}
	if _, err := e.Measure(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
