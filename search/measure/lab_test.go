package measure

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/jit"
)

// brief is as short as a measurement can be: it says nothing about speed.
var brief = Options{Rounds: 1, MinSample: time.Nanosecond}

func openLab(t *testing.T) *Lab {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	l, err := NewLab()
	if errors.Is(err, jit.ErrPlatform) || errors.Is(err, ErrNoTarget) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestProbes(t *testing.T) {
	l := openLab(t)
	check := func(what, unit string, probes []Probe, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if len(probes) == 0 {
			t.Fatalf("%s: no probes", what)
		}
		for i, s := range Time(brief, runs(probes)...) {
			p := probes[i]
			t.Logf("%-22s %-60s %8.2f %s", what, p.Name, p.Rate(s.Min), p.Unit)
			if p.Unit != unit || !(p.Rate(s.Min) > 0) || p.Amount <= 0 {
				t.Errorf("%s: %+v takes %v ns", what, p, s.Min)
			}
		}
	}
	check("clock", "GHz", l.Clock(), nil)
	probes, err := l.Read(3 << 20)
	check("read", "GB/s", probes, err)
	for _, target := range l.Targets() {
		name := target.Machine().Name
		probes, err := l.Dot(name)
		check(name, "GMAC/s", probes, err)
		for _, m := range l.Mixes(name) {
			probes, err := l.Mix(name, m.Name)
			check(name, "Gweights/s", probes, err)
		}
	}
}
