package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/tune"
)

// besides are 8 measurements of each purpose, by the ratio to the base's time, or by several in turn.
func besides(purposes []tune.Purpose, ratios ...float64) (out []tune.Beside) {
	for _, p := range purposes {
		b := tune.Beside{Purpose: p}
		for i := range 8 {
			b.Ns, b.BaseNs = append(b.Ns, 10*ratios[i%len(ratios)]), append(b.BaseNs, 10)
		}
		out = append(out, b)
	}
	return out
}

// settler is a session whose search has ended, and whose candidates take what a test says.
type settler struct {
	*Session
	// old is locked, found is the best; both are complete.
	old, found *tune.Candidate
	// takes is what a candidate takes of the default's time, over what the one that was found takes of that of the locked one: in turn, for the purposes of the
	// search, and for others, by mode.
	takes map[*tune.Candidate]map[string][]float64
	over  map[string][]float64
	asked [][]tune.Purpose // what was measured
}

// w2OnAVX2 is what the tests tune.
func w2OnAVX2(t *testing.T) (ir.Problem, lower.Target) {
	t.Helper()
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	return p, targets.ByName("amd64/avx2")
}

// unmeasured is a session whose ceilings are not known.
func unmeasured(t *testing.T, o Options) *Session {
	t.Helper()
	o.Problem, o.Target = w2OnAVX2(t)
	s := newSession(o)
	s.ceilings = make([]tune.Ceilings, len(s.Purposes))
	return s
}

// newSettler is for one purpose, one activation and weights in the second-level cache.
func newSettler(t *testing.T) *settler {
	t.Helper()
	m, k := measure.Shape(measure.ModeL2)
	s := &settler{Session: unmeasured(t, Options{Purposes: []tune.Purpose{{Mode: measure.ModeL2, M: m, N: 1, K: k}}})}
	x, err := sampled(s.product())
	if err != nil {
		t.Fatal(err)
	}
	s.tuner, s.old, s.found = x.tuner, x.old, x.found
	s.completed = func(c *tune.Candidate) (*tune.Candidate, error) { return c, nil }
	return s
}

// samples are two candidates that are not the default, and their tuner.
type samples struct {
	tuner      *tune.Tuner
	old, found *tune.Candidate
}

var (
	sampling sync.Once
	shared   samples
	failed   error
)

// sampled are samples of the product that all settlers tune, which are compiled once.
func sampled(p tune.Product) (samples, error) {
	sampling.Do(func() { shared, failed = sample(p) })
	return shared, failed
}

func sample(p tune.Product) (x samples, err error) {
	if x.tuner, err = tune.New(context.Background(), p); err != nil {
		return x, err
	}
	space, rng := x.tuner.Space(context.Background()), rand.New(rand.NewSource(1))
	for range 10000 {
		c := space.Sample(rng)
		if _, err := space.Point(c); err != nil || x.tuner.IsDefault(c) {
			continue
		}
		if x.old != nil {
			x.found = c
			return x, nil
		}
		x.old = c
	}
	return x, errors.New("no two samples compile")
}

// measures makes besides of what a test says.
func (s *settler) measures(locked *tune.Candidate) func(base, c *tune.Candidate, purposes []tune.Purpose) ([]tune.Beside, error) {
	return func(base, c *tune.Candidate, purposes []tune.Purpose) (out []tune.Beside, err error) {
		s.asked = append(s.asked, purposes)
		takes := s.takes[s.found]
		switch {
		case base != nil && base == locked && c == s.found:
			takes = s.over
		case base != nil:
			return nil, errors.New("something else is measured beside the locked schedules")
		case c == locked:
			takes = s.takes[s.old]
		}
		for _, p := range purposes {
			ratios := takes[p.Mode]
			if p.N > 1 && takes[p.Mode+" wide"] != nil {
				ratios = takes[p.Mode+" wide"]
			}
			if ratios == nil {
				ratios = []float64{1}
			}
			out = append(out, besides([]tune.Purpose{p}, ratios...)...)
		}
		return out, nil
	}
}

// only is a ratio, or several, of products of one activation out of the second-level cache.
func only(ratios ...float64) map[string][]float64 {
	return map[string][]float64{"l2": ratios, "l2 wide": {1}}
}

// with adds a mode.
func with(m map[string][]float64, mode string, ratios ...float64) map[string][]float64 {
	m[mode] = ratios
	return m
}

// The best candidate is locked if it is faster than the default, beyond the noise, and faster than the locked schedules.
// It must be slower for no purpose, also for none of the usual purposes that the search did not ask for. Locked schedules
// stay, with today's figures, if nothing is better. They go if today's default is better, beyond the noise.
func TestSettles(t *testing.T) {
	s := newSettler(t)
	noisy := []float64{0.9, 0.98, 1.02, 0.95, 0.99, 1.03, 0.97, 0.96} // 0.975, between the second lowest and the second highest 0.95 to 1.02
	const from = "takes 0.800 ± 0.000 of the default's time"
	for _, c := range []struct {
		name        string
		locked      map[string][]float64 // times of the locked schedules over the default's, nil: nothing is locked
		found       map[string][]float64 // times of the found schedules over the default's, nil: nothing was found
		over        map[string][]float64 // times of the found schedules over the locked ones'
		outcome     Outcome
		says        string
		ns          float64 // the time that the lock has afterwards for the first purpose, 0: no entry
		cpu         string  // the CPU of the lock's entry, "": this one
		mode        string  // the mode of the lock's entry, "": the same
		interrupted bool
		only        bool
	}{
		{"first", nil, only(0.8), nil, Locked, "best: 0.800 ± 0.000 of the default's time", 8, "", "", false, false},
		{"a little, and sure", nil, only(0.995), nil, Locked, "locked in", 9.95, "", "", false, false},
		{"one measurement went wrong", nil, only(0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 1.6), nil, Locked, "locked in", 8, "", "", false, false},
		{"within the noise", nil, only(noisy...), nil, None, "not locked: what was found takes 0.98 ± 0.04 of the default's time, which is within the noise: more -time may find something faster, and a quieter machine tells more", 0, "", "", false, false},
		{"as fast as the default", nil, only(1), nil, None, "not locked: what was found takes 1.000 ± 0.000 of the default's time, which is within the noise", 0, "", "", false, false},
		{"slower than the default", nil, only(1.16), nil, None, "not locked: what was found takes 1.160 ± 0.000 of the default's time: more -time may find something faster", 0, "", "", false, false},
		{"nothing was found", nil, nil, nil, None, "not locked: nothing was found that is faster than the default: more -time may find something", 0, "", "", false, false},
		{"slower from memory", nil, with(only(0.8), "dram", 1.11, 1.1, 1.12), nil, None,
			"not locked: what was found " + from + ", but 1.11 ± 0.01 for dram 4096x4096x1, 1.11 ± 0.01 for dram 4096x4096x4: with -only, the purposes of the search alone decide", 0, "", "", false, false},
		{"slower for more columns", nil, with(only(0.8), "l2 wide", 3), nil, None, from + ", but 3.000 ± 0.000 for l2 512x2048x4, 3.000 ± 0.000 for l2 512x2048x256: with -only,", 0, "", "", false, false},
		{"slower from memory by noise", nil, with(only(0.8), "dram", 1.1, 0.99, 1.05, 0.98), nil, Locked, "locked in", 8, "", "", false, false},
		{"slower from memory, of no account", nil, with(only(0.8), "dram", 1.11), nil, Locked, "locked in", 8, "", "", false, true},
		{"better than the locked one", only(0.9), only(0.8), only(0.89), Locked, "locked in", 8, "", "", false, false},
		{"better by noise", only(0.9), only(0.8), only(noisy...), Renewed, "the locked schedules stay, with the figures of today: what was found takes 0.98 ± 0.04 of the locked one's time, which is within the noise", 9, "", "", false, false},
		{"better, but slower from memory than the locked one", with(only(0.9), "dram", 0.7), only(0.8), with(only(0.89), "dram", 1.4), Renewed,
			"what was found takes 0.890 ± 0.000 of the locked one's time, but 1.400 ± 0.000 for dram 4096x4096x1, 1.400 ± 0.000 for dram 4096x4096x4\n", 9, "", "", false, false},
		{"no better", only(0.7), only(0.8), only(1.14), Renewed, "with the figures of today: what was found takes 1.140 ± 0.000 of the locked one's time", 7, "", "", false, false},
		{"nothing else was found", only(0.7), nil, nil, Renewed, "locked: 0.700 ± 0.000 of the default's time", 7, "", "", false, false},
		{"locked is slower", map[string][]float64{"l2": {1.1}, "dram": {1.1}}, nil, nil, Removed, ": what was locked takes 1.100 ± 0.000 of the default's time, but 1.100 ± 0.000 for l2 512x2048x1, ", 0, "", "", false, false},
		{"locked is slower by noise", map[string][]float64{"l2": {1.1, 0.99, 1.05, 0.98}, "dram": {1.1, 0.99, 1.05, 0.98}}, nil, nil, Renewed, "with the figures of today", 10.2, "", "", false, false},
		{"locked is slower, found is not", map[string][]float64{"l2": {1.1}, "dram": {1.1}}, only(0.8), nil, Locked, "locked in", 8, "", "", false, false},
		{"locked is slower here, and faster elsewhere", with(only(1.05), "dram", 0.7), nil, nil, Renewed, "with the figures of today", 10.5, "", "", false, false},
		{"locked is slower, interrupted", map[string][]float64{"l2": {1.1}, "dram": {1.1}}, nil, nil, Renewed, "with the figures of today", 11, "", "", true, false},
		{"another machine's, slower", map[string][]float64{"l2": {1.1}, "dram": {1.1}}, nil, nil, Stays, "the locked schedules, for other purposes or of another machine, stay: nothing was found", 1, "another", "", false, false},
		{"another machine's, as fast", only(0.8), only(0.8), only(1), Stays, "stay: what was found takes 1.000 ± 0.000 of the locked one's time", 1, "another", "", false, false},
		{"another machine's, beaten", only(0.9), only(0.8), only(0.89), Locked, "locked in", 8, "another", "", false, false},
		{"for another purpose, slower", map[string][]float64{"l2": {1.1}, "dram": {1.1}}, nil, nil, Stays, "stay: nothing was found", 1, "", "l3", false, false},
		{"for another purpose, beaten", only(0.9), only(0.8), only(0.89), Locked, "locked in", 8, "", "l3", false, false},
		{"for another purpose, beaten, which loses by it", with(only(0.9), "l3", 0.8), only(0.8), with(only(0.89), "l3", 1.25), Stays, "but 1.250 ± 0.000 for l3 512x2048x1", 1, "", "l3", false, false},
	} {
		s.Lock, s.Only, s.asked = filepath.Join(t.TempDir(), "new", tune.LockName), c.only, nil
		s.takes, s.over = map[*tune.Candidate]map[string][]float64{s.old: c.locked, s.found: c.found}, c.over
		var locked *lockedBefore
		if c.locked != nil {
			locked = s.locks(t, c.cpu, c.mode)
			s.beside = s.measures(locked.Candidate)
		} else {
			s.beside = s.measures(nil)
		}
		best := s.found
		if c.found == nil {
			best = nil
		}
		d, err := s.decide(best, locked, c.interrupted)
		var saved Saved
		if err == nil {
			saved, err = s.Save(&d)
		}
		r, says := s.Summary(&Found{}), fmt.Sprintf("%v\n%v\n", &d, saved)
		s.Conclude(&r, &d)
		if err != nil || d.Outcome != c.outcome || !strings.Contains(says, c.says) || r.Outcome != c.outcome || r.Why != d.Why {
			t.Errorf("%s: %q, %v, want %q and %q:\n%s", c.name, d.Outcome, err, c.outcome, c.says, says)
		}
		if changed := d.Outcome == Locked || d.Outcome == Renewed || d.Outcome == Removed; (saved.Lock != "") != changed {
			t.Errorf("%s: changed %q", c.name, saved.Lock)
		}
		s.holds(t, c.name, c.ns)
		if c.only && slices.ContainsFunc(s.asked, func(ps []tune.Purpose) bool { return !slices.Equal(ps, s.Purposes) }) {
			t.Errorf("%s: measured %v", c.name, s.asked)
		}
	}
}

// With -only, schedules that are locked for more purposes than the search has neither go nor lose the other figures.
func TestSettlesOnly(t *testing.T) {
	for ratio, says := range map[float64]string{1.1: "stay: nothing was found", 0.9: "stay: nothing was found"} {
		s := newSettler(t)
		s.Lock = filepath.Join(t.TempDir(), "new", tune.LockName)
		s.takes = map[*tune.Candidate]map[string][]float64{s.old: {"l2": {ratio}, "dram": {0.7}}}
		all := s.purposes(nil)
		s.Only = true
		if _, err := s.put(&judged{s.old, besides(all, 0.1), 1}); err != nil {
			t.Fatal(err)
		}
		locked, err := s.locked()
		if err != nil {
			t.Fatal(err)
		}
		s.beside = s.measures(locked.Candidate)
		d, err := s.decide(nil, locked, false)
		var saved Saved
		if err == nil {
			saved, err = s.Save(&d)
		}
		if err != nil || d.Outcome != Stays || !strings.Contains(saved.String(), says) {
			t.Errorf("%v of the default's time: %q, %v:\n%v", ratio, d.Outcome, err, saved)
		}
		l, err := tune.ReadLock(s.Lock)
		if err != nil || len(l.Entries) != 1 || len(l.Entries[0].Figures) != len(all) {
			t.Errorf("the lock has %+v, %v; want one entry with figures of %d purposes", l, err, len(all))
		}
	}
}

// locks locks the old candidate, on a CPU and for a mode. "" stands for today's CPU or mode.
func (s *settler) locks(t *testing.T, cpu, mode string) *lockedBefore {
	t.Helper()
	if _, err := s.put(&judged{s.old, besides(s.Purposes, 0.1), 1}); err != nil {
		t.Fatal(err)
	}
	err := tune.ChangeLock(s.Lock, func(l *tune.Lock) error {
		e := &l.Entries[0]
		e.Host.CPU, e.Figures[0].Mode = cmp.Or(cpu, e.Host.CPU), cmp.Or(mode, e.Figures[0].Mode)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	locked, err := s.locked()
	if err != nil || locked == nil || locked.same != (cpu == "" && mode == "") {
		t.Fatalf("%+v, %v", locked, err)
	}
	return locked
}

// holds checks what the lock has of the first purpose, 0: no entry; and that it names all purposes that it was measured for.
func (s *settler) holds(t *testing.T, name string, ns float64) {
	t.Helper()
	l, err := tune.ReadLock(s.Lock)
	if err != nil {
		t.Fatal(err)
	}
	e := l.Find(s.Problem, s.Target)
	if (e != nil) != (ns > 0) || e != nil && e.Figures[0].Ns != ns {
		t.Errorf("%s: the lock has %+v, want %v ns", name, e, ns)
	}
	if e != nil && ns != 1 && !s.Only && len(e.Figures) < 5 {
		t.Errorf("%s: the lock has figures of %d purposes, want all: %+v", name, len(e.Figures), e.Figures)
	}
}

// An error of the machine while the best is measured again changes no lock.
func TestUndecided(t *testing.T) {
	s := newSettler(t)
	s.Lock = filepath.Join(t.TempDir(), tune.LockName)
	locked := s.locks(t, "", "")
	broken := &tune.Unmeasured{Err: errors.New("no memory")}
	s.beside = func(_, _ *tune.Candidate, _ []tune.Purpose) ([]tune.Beside, error) { return nil, broken }
	for _, best := range []*tune.Candidate{nil, s.found} {
		if _, err := s.decide(best, locked, false); !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	f := &Found{Logged: true}
	f.Trials = 7
	if err := (&Broken{f, broken}); err.Error() != "after 7 candidates: cannot measure: no memory; the lock is as it was; what was measured is logged: tmacc tune -resume goes on" {
		t.Error(err)
	}
	s.holds(t, "undecided", 1)
}

// The candidate to lock is the fastest of the confirmed ones that is not the default, if it is no slower than the default.
// If it is slower, its time is reported.
func TestHopeful(t *testing.T) {
	s := newSettler(t)
	usual := s.tuner.Seeds(t.Context())[0]
	if _, err := s.tuner.Space(t.Context()).Point(usual); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		all  []tune.Confirmed
		want *tune.Candidate
		says string
	}{
		{[]tune.Confirmed{{Candidate: s.found, Cost: 0.9}, {Candidate: s.old, Cost: 0.95}}, s.found, ": the fastest of the others takes 0.90 of their time"},
		{[]tune.Confirmed{{Candidate: usual, Cost: 0.9}, {Candidate: s.old, Cost: 0.95}}, s.old, ": the fastest of the others takes 0.95 of their time"},
		{[]tune.Confirmed{{Candidate: usual, Cost: 1}, {Candidate: s.old, Cost: 1.12}}, nil, ": the fastest of the others takes 1.12 of their time"},
		{[]tune.Confirmed{{Candidate: usual, Cost: 0.99}}, nil, ""},
	} {
		if have, says := s.hopeful(c.all), s.nearest(c.all); have != c.want || says != c.says {
			t.Errorf("%v %q, want %v %q", have, says, c.want, c.says)
		}
	}
}

// The purposes of a packed matrix are the purposes of the search, the usual ones and the locked ones, each once. With
// -only they are the purposes of the search.
func TestPurposes(t *testing.T) {
	s := newSettler(t)
	locked := &lockedBefore{figures: []tune.Figures{{Mode: "l3", M: 4096, N: 1, K: 4096}, {Mode: "dram", M: 4096, N: 4, K: 4096}}}
	const usual = "l2 512x2048x1, l2 512x2048x4, l2 512x2048x256, dram 4096x4096x1, dram 4096x4096x4"
	if have := tune.PurposesText(s.purposes(nil)...); have != usual {
		t.Errorf("have %s, want %s", have, usual)
	}
	if have := tune.PurposesText(s.purposes(locked)...); have != usual+", l3 4096x4096x1" {
		t.Errorf("have %s, want %s, and l3", have, usual)
	}
	if s.Only = true; tune.PurposesText(s.purposes(locked)...) != "l2 512x2048x1" {
		t.Errorf("with -only %s", tune.PurposesText(s.purposes(locked)...))
	}
	for _, p := range s.purposes(nil) {
		if (p.Total > 0) != (p.Mode == measure.ModeDRAM) {
			t.Errorf("%+v", p)
		}
	}
}

// Purposes of a caller get whole units of K and the bytes that their mode cycles through; without any, the usual ones count.
func TestWholePurposes(t *testing.T) {
	s := unmeasured(t, Options{Purposes: []Purpose{{Mode: measure.ModeDRAM, M: 8, N: 1, K: 1}, {Mode: measure.ModeL2, M: 8, N: 1, K: 1, Total: 5}}})
	if p := s.Purposes; p[0].Total == 0 || p[1].Total != 0 || p[0].K != s.Problem.WholeK(1) {
		t.Errorf("%+v", p)
	}
	if s := unmeasured(t, Options{}); tune.PurposesText(s.Purposes...) != tune.PurposesText(s.Others...) || len(s.Purposes) != 5 {
		t.Errorf("%+v", s.Purposes)
	}
}

// What -json prints of a search has what was decided, with the figures of all purposes, or why it failed.
func TestSummary(t *testing.T) {
	s := newSettler(t)
	f := &Found{Took: 2 * time.Second}
	f.Trials, f.Ended = 7, "time"
	r := s.Summary(f)
	if r.Outcome != Failed || r.Measured != 7 || r.Seconds != 2 || r.Product != "w2" || r.Target != "amd64/avx2" {
		t.Errorf("%+v", r)
	}
	all := s.purposes(nil)
	s.Conclude(&r, &Decision{Outcome: None, judged: &judged{s.found, besides(all, 0.9, 0.8), 1}, Why: "it loses"})
	if r.Outcome != None || r.Why != "it loses" || len(r.Figures) != len(all) || len(r.Traces) != len(s.found.Kernels) || *r.Ratio != (tune.Ratio{Median: r.Ratio.Median, Low: 0.8, High: 0.9}) ||
		r.Figures[4].Purpose != all[4] || r.Figures[4].Ns != 8.5 || r.Figures[4].DefaultNs != 10 {
		t.Errorf("%+v", r)
	}
}
