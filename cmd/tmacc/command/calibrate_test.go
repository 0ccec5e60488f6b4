package command

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/timing"
)

// A machine's ceilings and its calibration are two commands.
func TestCalibrateRefused(t *testing.T) {
	if code, _, stderr := tmacc("host", "-ceilings", "-calibrate"); code != exitUsage || !strings.Contains(stderr, "tmacc: -calibrate and -ceilings: want one of them\n") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// The CPUs of a measured core are this one's family and model, and none where they are unknown.
func TestThisCPU(t *testing.T) {
	h := timing.Host{Vendor: "x", Family: 6, Model: 7}
	if s := thisCPU(h); len(s) != 1 || !s[0].Has(h.ID()) {
		t.Errorf("%+v is not of %+v", h, s)
	}
	h.Model = 8
	if s := thisCPU(timing.Host{Vendor: "x", Family: 6, Model: 7}); s[0].Has(h.ID()) {
		t.Error("another model is among them")
	}
	if s := thisCPU(timing.Host{}); s != nil {
		t.Errorf("%+v of an unknown CPU", s)
	}
}

// A measured core's table names each number beside the built-in one.
func TestPrintHierarchy(t *testing.T) {
	var out bytes.Buffer
	h := targets.Cores()[0].Hierarchy
	h.Latency[2] = 1234
	printHierarchy(&out, "like", targets.Cores()[0].Hierarchy, h)
	for _, want := range append([]string{"like", "1234", "several streams", "all cores read"}, core.Levels[:]...) {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

// show -cost says what bounds a kernel's loops and what it waits for.
func TestShowCost(t *testing.T) {
	out := ok(t, "show", "-format", "w2", "-target", "avx2", "-cost")
	for _, want := range []string{"bound by", "loop l0", "waiting for weights in l2", "waiting for weights in dram", "waiting for weights in shared", "registers: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for _, args := range []string{"-format w2 -cost -stage nest", "-format w2 -cost -prepare", "-op softmax -cost"} {
		if code, _, stderr := tmacc(append([]string{"show"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(stderr, "cost") {
			t.Errorf("show %s: exit code %d, %s", args, code, stderr)
		}
	}
}

// A core that stands for CPUs without a name is told from one that names this CPU.
func TestAboutCore(t *testing.T) {
	for name, want := range map[string]string{
		"avx512vbmi":      "core: golden-cove, which stands for all CPUs that no other core names; tmacc host -calibrate measures the one here\n",
		"avx512vbmi+zen5": "core: zen5\n",
	} {
		if got := aboutCore(targets.ByName(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A calibration is in doubt if its thread had less than four fifths of its core, and not where the system does not tell.
func TestAttention(t *testing.T) {
	for want, a := range map[string]attention{
		"this machine is busy: for 43 % of the time the core did something else: calibrate again when nothing else runs": {elapsed: 10 * time.Second, used: 5700 * time.Millisecond},
		"": {elapsed: 10 * time.Second, used: 8100 * time.Millisecond},
	} {
		if got := a.doubt(); got != want {
			t.Errorf("%+v: %q, want %q", a, got, want)
		}
	}
	for _, a := range []attention{{elapsed: time.Second}, {}, {elapsed: time.Second, used: 2 * time.Second}} {
		if got := a.doubt(); got != "" {
			t.Errorf("%+v: %q", a, got)
		}
	}
	if timing.ProcessTime() == 0 {
		return
	}
	var a attention
	a.pause() // nothing was watched
	a.watch()
	for began := timing.ProcessTime(); timing.ProcessTime() < began+20*time.Millisecond; {
	}
	a.pause()
	if a.used < 20*time.Millisecond || a.elapsed <= 0 {
		t.Errorf("%v used of %v", a.used, a.elapsed)
	}
	before := a
	if a.pause(); a != before {
		t.Errorf("%+v after a second pause, %+v before", a, before)
	}
}
