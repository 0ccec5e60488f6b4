package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes this binary its own worker.
func TestMain(m *testing.M) {
	worker.Main()
	Brief()
	chosen.Share()
	sparing.Run(m)
}

// A gauge doubts its figures if the core did something else during many samples, or if they are above the machine's best.
func TestDoubts(t *testing.T) {
	sample := func(alone ...bool) timing.Sample {
		return timing.Sample{Rounds: append(make([]float64, len(alone)), math.NaN()), Alone: append(alone, false)} // the last took none
	}
	for _, c := range []struct {
		samples []timing.Sample
		beyond  int
		said    string
	}{
		{nil, 0, ""},
		{[]timing.Sample{sample(true, true, true), sample(true, false)}, 0, ""},
		{[]timing.Sample{sample(true, true), sample(false, false)}, 0, "during 2 of 4 samples"},
		{nil, 1, "1 figure is above what this machine did at best"},
		{nil, 2, "2 figures are above what this machine did at best"},
		{timing.TimeWork(timing.Options{Rounds: 3}, timing.Work{Run: func() { time.Sleep(time.Millisecond) }}), 0, "during 9 of 9 samples"},
	} {
		if len(c.samples) == 1 && runtime.GOOS != "linux" {
			continue // nobody knows there how long a thread had its core
		}
		g := &Gauge{Beyond: c.beyond}
		g.Count(c.samples)
		said := strings.Join(g.Doubts(), "\n")
		if (c.said == "") != (said == "") || !strings.Contains(said, c.said) {
			t.Errorf("%+v: %q", c.samples, said)
		}
	}
}

// Small products are measured in every mode, large ones in one. A mode or a number that was given twice is measured once.
func TestPlaces(t *testing.T) {
	const dram, l3, l2 = measure.ModeDRAM, measure.ModeL3, measure.ModeL2
	for _, c := range []struct {
		modes []string
		ns    []int
		m, k  int
		want  string
	}{
		{[]string{dram, l3, l2, l3}, []int{1, 4, 256, 4}, 0, 0, "dram 4096x4096 [1 4]; l3 4096x4096 [1 4 256]; l2 512x2048 [1 4]"},
		{[]string{l2, dram}, []int{256, 8, 9}, 32, 64, "l2 32x64 [256 8 9]; dram 32x64 [8]"},
		{[]string{dram, l2}, []int{9}, 0, 64, "dram 4096x64 [9]"},
		{nil, []int{1}, 0, 0, ""},
	} {
		var all []string
		for _, p := range Places(c.modes, c.ns, c.m, c.k) {
			all = append(all, fmt.Sprintf("%s %dx%d %v", p.Mode, p.M, p.K, p.Ns))
		}
		if have := strings.Join(all, "; "); have != c.want {
			t.Errorf("%v %v: %s, want %s", c.modes, c.ns, have, c.want)
		}
	}
}

// The median round stands for all of a measurement, apart for tuned schedules and other modes.
func TestMedians(t *testing.T) {
	var all []measure.Record
	for _, ns := range []float64{300, 100, 200} {
		all = append(all, measure.Record{Format: "w2", N: 1, Ns: ns}, measure.Record{Format: "w2", N: 1, Ns: ns / 2, Tuned: true}, measure.Record{Format: "w2", N: 1, Ns: ns / 4, Mode: "l2"})
	}
	var have []float64
	for _, r := range Medians(all) {
		have = append(have, r.Ns)
	}
	if want := []float64{200, 100, 50}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// Records are read up to the first that is none, which is named.
func TestParseRecords(t *testing.T) {
	records, err := ParseRecords([]byte(`{"limits":"l","host":"here","date":"d"} {"format":"w1","ns":2} {"format":"w2","host":"there"}`))
	if err != nil || len(records) != 3 || records[1].Host != "here" || records[1].Date != "d" || records[2].Host != "there" || records[2].Date != "" {
		t.Error(records, err)
	}
	if _, err := ParseRecords([]byte(`{"format":"w1"} []`)); err == nil || !strings.Contains(err.Error(), "record 2: ") {
		t.Error(err)
	}
}

// A check asks for each product once, and only for its formats.
func TestCheckAsks(t *testing.T) {
	limits := measure.Limits{AVX2: map[string]measure.Limit{"w2": {Bits: 2, L2: 1, DRAMShare: 1}}}
	c := Check{Limits: limits, Host: measure.Ceilings{Dot: map[string]measure.Ceiling{"avx2": {Rate: 1}}}}
	all, err := c.Products()
	if err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	for i, x := range all {
		if x.Class != "avx2" || slices.Contains(all[:i], x) {
			t.Errorf("asked %v", all)
		}
	}
	c.Formats = []string{"w2"}
	if all, err = c.Products(); err != nil || !slices.Equal(all, []Asked{{"w2", "avx2"}}) {
		t.Error(all, err)
	}
	for _, v := range c.Verdicts(nil) {
		if v.Format != "w2" || v.Pass {
			t.Errorf("without records: %v", v)
		}
	}
	c.Formats = []string{"w9"}
	if _, err = c.Products(); err == nil || err.Error() != "has no limit for w9" {
		t.Error(err)
	}
	if p := c.Places(); !p[len(p)-1].Extreme {
		t.Errorf("places %v", p)
	}
}

// What was checked is read again as it was written; other lines are refused.
func TestChecked(t *testing.T) {
	x := Checked{About{"limits.json", "here", "2026-01-02", "c0ffee"}, []measure.Record{{Format: "w2", Ns: 1}}, []measure.Verdict{{Rule: "share", Format: "w2"}}}
	var b bytes.Buffer
	if err := x.Encode(&b); err != nil {
		t.Fatal(err)
	}
	back, err := ParseChecked(b.Bytes())
	if err != nil || fmt.Sprint(back) != fmt.Sprint(x) {
		t.Errorf("%+v, %v", back, err)
	}
	head, _, _ := strings.Cut(b.String(), "\n")
	for text, want := range map[string]string{
		"":                     "line 1: not the first line of bench -check -json",
		`{"format":"w2"}`:      "line 1: not the first line of bench -check -json",
		head:                   "no records and verdicts",
		head + "\n{}":          "line 2: not a line of bench -check -json",
		b.String() + "{} {}\n": "line 4: not a line of bench -check -json",
	} {
		if _, err := ParseChecked([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// The schedules of a lock are measured beside the default ones, or in their place; a lock without the product changes nothing.
func TestSuiteLock(t *testing.T) {
	p, target, uses := w2Here(t)
	lock := &tune.Lock{}
	lock.Put(tune.Entry{Product: "w2", Target: target.Machine().Name, Problem: tune.ProblemHash(p), Kernels: []tune.Kernel{{Cols: uses[0].Cols, Trace: uses[0].Trace}}})
	s := &Suite{Lock: lock}
	defer s.Close()
	other := p
	other.Act.Group = 64
	if err := errors.Join(s.AddUsual(t.Context(), p, target), s.AddUsual(t.Context(), other, target)); err != nil {
		t.Fatal(err)
	}
	s.Lock = nil
	if err := s.AddBoth(t.Context(), p, target); err != nil {
		t.Fatal(err)
	}
	s.Lock = lock
	if err := s.AddBoth(t.Context(), p, target); err != nil {
		t.Fatal(err)
	}
	var tuned []bool
	for _, x := range s.Subjects {
		tuned = append(tuned, x.Tuned)
	}
	if want := []bool{true, false, false, false, true}; !slices.Equal(tuned, want) {
		t.Errorf("tuned %v, want %v", tuned, want)
	}
	s.Subjects = s.Subjects[1:4]
	if u := s.Untuned(); len(u) != 3 {
		t.Errorf("untuned %v", u)
	}
}

// w2Here returns a product and its default schedules for the least target of this machine.
func w2Here(t *testing.T) (ir.Problem, targets.Target, []search.Use) {
	t.Helper()
	here := measure.TargetsOn(timing.ThisHost())
	if len(here) == 0 || jit.Mappable() != nil {
		t.Skip("needs a CPU with a target, and executable memory")
	}
	w, err := format.Lookup("w2")
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	uses, err := chosen.Product(t.Context(), p, here[0])
	if err != nil {
		t.Fatal(err)
	}
	return p, here[0], uses
}

// A suite measures its products at its places, round after round, and says so; interrupted, it ends.
func TestSuite(t *testing.T) {
	p, target, uses := w2Here(t)
	s := &Suite{Places: []Place{{Mode: measure.ModeL2, M: 64, K: 256, Ns: []int{1, 2}}, {Mode: measure.ModeL2, M: 64, K: 256, Ns: []int{1}, Extreme: true}}}
	defer s.Close()
	for _, tuned := range []bool{false, true} {
		if err := s.Add(t.Context(), p, target, uses[:1], tuned); err != nil {
			t.Fatal(err)
		}
	}
	if u := s.Untuned(); len(u) > 0 {
		t.Errorf("untuned %v", u)
	}
	g, err := NewGauge(timing.Options{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var steps []string
	var records []measure.Record
	tell := func(r measure.Record) { records = append(records, r) }
	if err := s.Run(t.Context(), g, 2, func(s Step) { steps = append(steps, s.String()) }, tell); err != nil {
		t.Fatal(err)
	}
	if len(steps) != 4 || steps[2] != "round 2 of 2: w2 on "+target.Machine().ShortName()+", l2" {
		t.Errorf("steps %q", steps)
	}
	if len(records) != 8 || records[1].N != 2 || records[2].Tuned != true || records[7].Ns <= 0 || records[7].GWeightsS <= 0 {
		t.Errorf("records %+v", records)
	}
	ctx, stop := context.WithCancel(t.Context())
	err = s.Run(ctx, g, 2, func(Step) { stop() }, tell)
	if !errors.Is(err, context.Canceled) || len(records) != 8 {
		t.Errorf("interrupted: %v, %d records", err, len(records))
	}
	if err := s.Add(ctx, p, target, uses, false); !errors.Is(err, context.Canceled) || len(s.Subjects) != 2 {
		t.Errorf("interrupted: %v", err)
	}
}

// A check runs at least the rounds that rules want, and says what it was measured with.
func TestCheckRun(t *testing.T) {
	p, target, uses := w2Here(t)
	s := &Suite{Places: []Place{{Mode: measure.ModeL2, M: 64, K: 256, Ns: []int{1}}}}
	defer s.Close()
	if err := s.Add(t.Context(), p, target, uses[:1], false); err != nil {
		t.Fatal(err)
	}
	g, err := NewGauge(timing.Options{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	class := measure.Class(target.Machine().Name)
	limit := map[string]measure.Limit{"w2": {Bits: 2, L2: 1e-6, DRAMShare: 1}}
	c := Check{Name: "limits.json", Formats: []string{"w2"}, Limits: measure.Limits{AVX2: limit, AVXVNNI: limit, AVX512VBMI: limit},
		Host: measure.Ceilings{Dot: map[string]measure.Ceiling{class: {Rate: 1}}}}
	rounds := 0
	out, err := c.Run(t.Context(), s, g, 1, func(Step) { rounds++ })
	if err != nil || rounds != measure.Rounds || len(out.Records) != 1 || out.About.Limits != "limits.json" || out.About.Host == "" || out.About.Date == "" {
		t.Errorf("%d rounds, %+v, %v", rounds, out, err)
	}
	for _, v := range out.Verdicts {
		if v.Rule == "l2 weights/cycle" && v.Target == class && (v.Rounds != measure.Rounds || !v.Pass) {
			t.Errorf("%+v", v)
		}
	}
	if measure.Missed(out.Verdicts) == len(out.Verdicts) {
		t.Errorf("all are missed: %v", out.Verdicts)
	}
}
