package session

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/tune"
)

// decides returns the decision about found schedules beside recorded ones, by their times over the default, and the message.
func (s *settler) decides(t *testing.T, found, before float64) (*Decision, string) {
	t.Helper()
	locked, err := s.locked()
	if err != nil {
		t.Fatal(err)
	}
	best := s.found
	if found == 0 {
		best = nil
	}
	all := func(ratio float64) map[string][]float64 { return map[string][]float64{"l2": {ratio}, "dram": {ratio}} }
	s.takes, s.over = map[*tune.Candidate]map[string][]float64{s.old: all(before), s.found: all(found)}, all(found/max(before, 0.01))
	if s.beside = s.measures(nil); locked != nil {
		s.beside = s.measures(locked.Candidate)
	}
	d, err := s.decide(best, locked, false)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := s.Save(&d)
	if err != nil {
		t.Fatal(err)
	}
	return &d, saved.String()
}

// A schedule is recorded if it saves the margin of the default's time beyond the noise. A record stays, or gives way to a faster
// one, and goes when it does not save the margin any more.
func TestRecords(t *testing.T) {
	s := newSettler(t)
	s.Records = t.TempDir()
	path := records.Path(s.Records, s.Target)
	if want := filepath.Join(s.Records, "golden-cove.jsonl"); path != want {
		t.Errorf("%s, want %s", path, want)
	}
	for _, c := range []struct {
		found, before float64
		outcome       Outcome
		says          string
		gain          float64 // of the record afterwards, 0: none
	}{
		{0.98, 0, None, "not recorded: what was found takes 0.980 ± 0.000 of the default's time, and a record has to save 3 % of it beyond the noise", 0},
		{0.8, 0, Locked, "recorded in " + path + ", ", 1.25},
		{0, 0.75, Renewed, "the recorded schedules stay, with the figures of today: nothing was found", 1 / 0.75},
		{0.9, 0.8, Renewed, "the recorded schedules stay, ", 1.25},
		{0.5, 0.8, Locked, "recorded in " + path, 2},
		{0, 0.98, Removed, "removed from " + path + ": what was recorded takes 0.980 ± 0.000 of the default's time", 0},
	} {
		d, says := s.decides(t, c.found, c.before)
		if d.Outcome != c.outcome || !strings.HasPrefix(says, c.says) {
			t.Errorf("%v after %v: %s: %s, want %s: %s", c.found, c.before, d.Outcome, says, c.outcome, c.says)
		}
		l, err := records.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		e := l.Find(s.Problem, s.Target)
		switch {
		case (e != nil) != (c.gain > 0):
			t.Errorf("%v after %v: %+v", c.found, c.before, e)
		case e != nil && (e.Gain() < c.gain-1e-9 || e.Gain() > c.gain+1e-9 || e.Date == "" || !e.For(s.Problem)):
			t.Errorf("%v after %v: gained %v, %+v", c.found, c.before, e.Gain(), e)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Records, tune.LockName)); err == nil {
		t.Error("a lock was written")
	}
}

// An entry that this compiler cannot make, or that is for another problem, is named once, with its place and a remedy. Of a lock, which is sorted again
// when it is read, the place is no number.
func TestUnusedEntry(t *testing.T) {
	for _, record := range []bool{true, false} {
		s := newSettler(t)
		var said []string
		s.Events = func(e Event) { said = append(said, e.String()) }
		place, remedy := "the entry of w2 on amd64/avx2", "the search replaces it if it finds a faster schedule; else remove the entry"
		if s.Lock = filepath.Join(t.TempDir(), tune.LockName); record {
			s.Records = t.TempDir()
			place, remedy = "line 2 (w2 on amd64/avx2)", "the search replaces it if it finds a faster schedule; else remove the line"
		}
		good := tune.Entry{Product: "w2", Target: "amd64/avx2", Problem: tune.ProblemHash(s.Problem), Date: "2026-11-29",
			Figures: []tune.Figures{{Mode: "l2", M: 1, N: 1, K: 1, Ns: 2, DefaultNs: 3}}, Kernels: []tune.Kernel{{Cols: 1, Trace: s.old.Kernels[0].Schedule.Trace}}}
		other, broken, before := good, good, good
		before.Product = "w1"
		other.Problem = "p"
		broken.Kernels = []tune.Kernel{{Cols: 1, Trace: good.Kernels[0].Trace[:1]}}
		for want, e := range map[string]tune.Entry{"": good, "does not compile: ": broken, "is for other levels, scales or activations": other} {
			if err := s.store().change(func(l *tune.Lock) { l.Put(before); l.Put(e) }); err != nil {
				t.Fatal(err)
			}
			said, s.doubted = nil, false
			for range 2 {
				if l, err := s.locked(); err != nil || (l != nil) != (want == "") {
					t.Errorf("%q: %v, %v", want, l, err)
				}
			}
			all := strings.Join(said, "|")
			if want == "" && all == "" {
				continue
			}
			if head := s.store().path + ": " + place + " " + want; want == "" || len(said) != 1 || !strings.HasPrefix(all, head) || !strings.HasSuffix(all, ": "+remedy) {
				t.Errorf("%q, want %s", all, head)
			}
		}
	}
}

// A record may take longer for a purpose, by no more than the margin. A lock may not.
func TestRecordLosses(t *testing.T) {
	for _, c := range []struct {
		record  bool
		dram    float64
		outcome Outcome
	}{{true, 1.02, Locked}, {true, 1.04, None}, {false, 1.02, None}} {
		s := newSettler(t)
		if s.Lock = filepath.Join(t.TempDir(), tune.LockName); c.record {
			s.Records = t.TempDir()
		}
		s.takes, s.over = map[*tune.Candidate]map[string][]float64{s.found: {"l2": {0.6}, "dram": {c.dram}}}, nil
		s.beside = s.measures(nil)
		d, err := s.decide(s.found, nil, false)
		if err != nil || d.Outcome != c.outcome {
			t.Errorf("record %v: %v of the default's time from memory: %s, %v; want %s", c.record, c.dram, d.Outcome, err, c.outcome)
		}
		if advised := strings.Contains(d.Why, "-only"); advised != (d.Outcome == None && !c.record) { // which -record refuses
			t.Errorf("record %v: %s", c.record, d.Why)
		}
	}
}

// The default schedules of a session are called by where they come from, as tmacc show -stage origin calls them.
func TestUsualName(t *testing.T) {
	all, err := records.All()
	if err != nil {
		t.Fatal(err)
	}
	e := all["golden-cove"].Entries[0]
	p, err := ir.Named(e.Product)
	if err != nil {
		t.Fatal(err)
	}
	p.Act.Group = e.ActGroup
	for want, o := range map[string]Options{"record": {}, "default": {Defaults: &defaults.Chooser{NoRecords: true}}} {
		o.Problem, o.Target, o.Log = p, targets.ByName(e.Target), NoLog
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Usual()
		if err != nil || x.Name != want {
			t.Errorf("%q, %v, want %q", x.Name, err, want)
		}
		s.Close()
	}
}

// onCore is a target with another core.
type onCore struct {
	lower.Target
	core core.Core
}

func (x onCore) Machine() lower.Machine {
	m := x.Target.Machine()
	m.Core = x.core
	return m
}

// Records of a user's core or format, and of some purposes only, are refused.
func TestRecordsRefused(t *testing.T) {
	p, target := w2OnAVX2(t)
	own := onCore{target, target.Machine().Core}
	own.core.Own, own.core.Name = true, "mine"
	mine := p
	mine.Weight.Name = "mine"
	for want, o := range map[string]Options{
		"session: records are for built-in formats, and mine is not one": {Target: target, Problem: mine},
		"session: records are for built-in cores, and mine is not one":   {Target: own},
		"session: records are for all purposes: leave Only out":          {Target: target, Only: true},
	} {
		if o.Problem.Weight.Name == "" {
			o.Problem = p
		}
		o.Records, o.Log = t.TempDir(), NoLog
		s, err := Open(context.Background(), o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A search begins with the schedules that From has then, whatever it had when the session was opened. One that it could not measure is left out.
func TestFromOfSearch(t *testing.T) {
	p, target := w2OnAVX2(t)
	s, err := Open(t.Context(), Options{Problem: p, Target: target, Log: NoLog, Scratch: true, Purposes: []Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	uses := s.Default()
	for _, c := range []struct {
		from schedule.Trace
		want int
	}{{nil, 0}, {uses[0].Trace, 1}, {uses[len(uses)-1].Trace, 0}, {uses[0].Trace, 1}} {
		if s.From = nil; c.from != nil {
			s.From = []schedule.Trace{c.from}
		}
		seeds, err := s.seeds(t.Context())
		if err != nil || len(seeds) != c.want || c.want > 0 && seeds[0].Genes[0].Trace.String() != c.from.String() {
			t.Errorf("%d candidates, %v, want %d", len(seeds), err, c.want)
		}
	}
}
