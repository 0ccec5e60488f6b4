package session

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/tune"
)

// Progress counts candidates and time; figures of the first purpose are there once the default was measured.
func TestProgress(t *testing.T) {
	s := unmeasured(t, Options{Trials: 60, Limit: 20 * time.Second, Purposes: []tune.Purpose{{Mode: "l2", M: 64, N: 1, K: 256}}})
	s.tuner = &tune.Tuner{ReferenceNs: []float64{100}}
	p := tune.Progress{Trials: 7, Best: 0.5, Dropped: 3}
	const count = "avx2: 7 of 60 measured in 5s of 20s, 3 dropped; best "
	if line := s.progress(p, 5*time.Second).String(); !strings.Contains(line, count+"0.1 us, ") {
		t.Error(line)
	}
	s.best = tune.Ratio{Median: 0.5, Low: 0.45, High: 0.6} // of this search
	if line := s.progress(p, 5*time.Second).String(); !strings.HasSuffix(line, "0.50 ± 0.10 of the default's time") {
		t.Error(line)
	}
	s.best, s.before = tune.Ratio{}, []tune.Ratio{{Median: 0.4, Low: 0.3, High: 0.5}, {Median: 0.5, Low: 0.48, High: 0.52}} // of an earlier one
	if line := s.progress(p, 5*time.Second).String(); !strings.HasSuffix(line, "0.50 ± 0.02 of the default's time") {
		t.Error(line)
	}
	s.best, s.before = tune.Ratio{}, nil
	if line := s.progress(tune.Progress{Trials: 7, Dropped: 7}, 5*time.Second).String(); !strings.HasSuffix(line, "7 dropped") {
		t.Error(line)
	}
	s.tuner.ReferenceNs[0] = 0
	if line := s.progress(p, 5*time.Second).String(); !strings.HasSuffix(line, count+"0.50 of the default's time") {
		t.Error(line)
	}
}

// Trials are reported: those that failed with the reason, faults, and each that is better than all before.
func TestReport(t *testing.T) {
	var said []string
	s := unmeasured(t, Options{Events: func(e Event) { said = append(said, e.String()) }})
	for _, x := range []tune.Trial{{Cost: 0.9, Ratios: []float64{0.9}}, {Cost: 0.95}, {Error: "wrong", Fault: "row 3 is 4, want 5"},
		{Cost: 0.8, Ratios: []float64{0.8}, Low: []float64{0.75}, High: []float64{0.85}}} {
		s.report(x)
	}
	const want = "the best so far takes 0.90 of the default's time, unconfirmed|dropped: wrong|BUG, please report: row 3 is 4, want 5|the best so far takes 0.80 ± 0.05 of the default's time, unconfirmed"
	if have := strings.Join(said, "|"); have != want {
		t.Errorf("%s, want %s", have, want)
	}
}

// A note says what it is about.
func TestNotes(t *testing.T) {
	full := errors.New("the disk is full")
	for about, want := range map[Topic]string{
		NoCeilings: "shares of ceilings are not known: the disk is full", NotLogged: "not logged: the disk is full",
		LogUnread: "the disk is full", NotLockable: "the disk is full: the schedules found will be printed, and not locked",
	} {
		if have := (Note{about, full}).String(); have != want {
			t.Errorf("%s, want %s", have, want)
		}
	}
}
