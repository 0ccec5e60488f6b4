package measure

import (
	"errors"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/cpuid/v2"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/rig"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/sparing"
)

func TestMain(m *testing.M) {
	worker.Main()
	sparing.Run(m)
}

// brief is as short as a measurement can be: it says nothing about speed.
var brief = timing.Options{Rounds: 1, MinSample: time.Nanosecond}

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
		for i, s := range timing.Time(brief, runs(probes)...) {
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

// Probes of a DRAM-sized set take too long for a test; probes of a small one show
// that every part of Ceilings finds its probes.
func TestCompute(t *testing.T) {
	l := openLab(t)
	c := Ceilings{Dot: map[string]Ceiling{}, Mix: map[string]map[string]Ceiling{}}
	if err := l.compute(brief, &c); err != nil {
		t.Fatal(err)
	}
	for _, target := range l.Targets() {
		name := target.Machine().ShortName()
		if c.ClockGHz <= 0 || c.Dot[name].Rate <= 0 {
			t.Errorf("%s: clock %v, peak %v", name, c.ClockGHz, c.Dot[name])
		}
		for _, m := range l.Mixes(name) {
			if c.WeightsPerCycle(name, m.Name) <= 0 {
				t.Errorf("%s: %s is %v", name, m.Name, c.Mix[name][m.Name])
			}
		}
	}
	best, err := l.bestRead(brief, 1<<20)
	if err != nil || best.Rate <= 0 || l.rig.Sets() > 0 {
		t.Errorf("best read %v, error %v, %d working sets left", best, err, l.rig.Sets())
	}
}

// TestLabOn times probes in a worker.
func TestLabOn(t *testing.T) {
	here := openLab(t)
	l, err := NewLabOn(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reads, err := l.Read(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	picked, err := l.Pick(brief, append(l.Clock(), reads...), 3)
	if err != nil || len(picked) != 3 {
		t.Fatalf("picked %v, error %v", picked, err)
	}
	best, err := l.Best(brief, reads)
	if err != nil || best.Rate <= 0 || best.Unit != "GB/s" {
		t.Errorf("best read %+v, error %v", best, err)
	}
	for _, target := range here.Targets() {
		name := target.Machine().Name
		probes, err := l.Dot(name)
		if err != nil {
			t.Fatal(err)
		}
		if best, err := l.Best(brief, probes); err != nil || best.Rate <= 0 {
			t.Errorf("%s: best peak %+v, error %v", name, best, err)
		}
	}
	if _, err := l.Best(brief, []Probe{{Name: "nothing", call: rig.Call{Func: "nothing"}}}); err == nil || !strings.Contains(err.Error(), "no function nothing") {
		t.Errorf("a probe that is not there: %v", err)
	}
}

func TestLabRefuses(t *testing.T) {
	l := openLab(t)
	other := map[string]string{"amd64": "neon", "arm64": "avx2"}[runtime.GOARCH]
	if _, err := l.Dot(other); err == nil {
		t.Errorf("%s has a peak here", other)
	}
	if _, err := l.Mix(l.targets[0].Machine().ShortName(), "and+or"); err == nil {
		t.Error("there is no mix and+or")
	}
	if _, err := l.Read(1000); err == nil {
		t.Error("1000 bytes can be read")
	}
}

// A probe whose work a pass removes is refused.
func TestCompileRefuses(t *testing.T) {
	targets := Targets()
	if len(targets) == 0 {
		t.Skip("needs a CPU that runs a target")
	}
	const text = `func f(x ptr, out ptr, n int)
	v0:i32x4 = load x+0
	v2:i32x4 = load x+16
	loop l0 n carry v0
		v1:i32x4 = add v2 v2
		v0:i32x4 = add v0 v2
	end
	store out+0 v0
`
	if _, err := compile(targets[0], text); err == nil {
		t.Error("a dead addition was dropped without a word")
	}
}

// All probes lower, whether or not this machine runs them.
func TestProbeTexts(t *testing.T) {
	for _, target := range targets.All() {
		if _, err := assembly(target, probeTexts(target, true)); err != nil {
			t.Error(err)
		}
	}
}

// The rate of a peak is in products that its instructions make, that of a clock in additions that wait for each other.
func TestAmounts(t *testing.T) {
	products := map[string]int{"dot1": 1, "dot4": 4, "dot4s": 4, "mmla": 8, "dot2sat": 2} // for each lane of the result, of 16 or 32 bits
	lane := map[string]int{"dot1": 2, "dot4": 4, "dot4s": 4, "mmla": 4, "dot2sat": 2}
	kinds := map[string][]string{"neon": {"dot1"}, "dotprod": {"dot4s"}, "i8mm": {"dot4s", "mmla"}, "avx2": {"dot2sat"}, "avxvnni": {"dot4"}, "zen5": {"dot4"}}
	for name, want := range kinds {
		target := targets.ByName(name)
		l := &Lab{Host: timing.Host{Arch: target.Machine().Arch()}, targets: []lower.Target{target}}
		probes := l.Clock()
		for _, p := range probes {
			if adds := max(1, strings.Count(clockTextOf(t, l, p), " = add ")); p.Amount != float64(p.call.Steps*adds) {
				t.Errorf("%s: %s is %v in %d steps of %d", name, p.Name, p.Amount, p.call.Steps, adds)
			}
		}
		var have []string
		for _, x := range peakKinds(target) {
			text, _ := mixText(x.kernel(target), x.Ops, x.bytes, x.chains)
			op, _, _ := strings.Cut(forms[x.Ops[0]].rhs, " ")
			p := l.mix(target, x)
			if want := p.call.Steps * strings.Count(text, " = "+op+" ") * x.bytes / lane[x.Name] * products[x.Name]; p.Amount != float64(want) {
				t.Errorf("%s: %s is %v products, want %d", name, p.Name, p.Amount, want)
			}
			if !slices.Contains(have, x.Name) {
				have = append(have, x.Name)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: peaks %v, want %v", name, have, want)
		}
	}
}

// clockTextOf is the kernel of a clock probe.
func clockTextOf(t *testing.T, l *Lab, p Probe) string {
	t.Helper()
	for _, c := range clockKinds[l.Host.Arch] {
		if c.kernel() == p.call.Func {
			return clockText(c)
		}
	}
	t.Fatalf("no kernel %s", p.call.Func)
	return ""
}

func TestThisHost(t *testing.T) {
	h := timing.ThisHost()
	if h.Cores < 1 || h.OS != runtime.GOOS || h.Arch != runtime.GOARCH || h.String() == "" {
		t.Errorf("host %+v", h)
	}
	if DRAMBytes(timing.Host{}) <= 512<<20 || DRAMBytes(timing.Host{L3: 1 << 30}) != 2<<30 {
		t.Error("the DRAM working set fits into a cache")
	}
}

// The processor is asked for every feature by a name that it knows.
func TestFeatureNames(t *testing.T) {
	for _, target := range targets.All() {
		for _, name := range targets.Features(target) {
			if cpuid.ParseFeature(name) == cpuid.UNKNOWN {
				t.Errorf("%s: no feature is called %s", target.Machine().Name, name)
			}
		}
	}
}

func TestMixText(t *testing.T) {
	text, rounds := mixText("f", []string{"and", "dot4"}, 64, 8)
	if rounds != mixSteps/2 {
		t.Errorf("%d rounds", rounds)
	}
	for _, want := range []string{
		"loop l0 n carry v3 v4 v5 v6 v7 v8 v9 v10 v11\n",
		"v3:u8x64 = and v0 v1\n\t\tv4:i32x16 = dot4 v4 v0 v2\n\t\tv3:u8x64 = and v0 v1\n\t\tv5:i32x16 = dot4 v5 v0 v2\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A mix has the instructions that its target has.
func TestMixOn(t *testing.T) {
	for _, c := range []struct{ target, mix, want string }{
		{"avxvnni", "and+dot", "and dot4"},
		{"avxvnni", "lookup+dot", "and lookup16 dot4 shru and lookup16 dot4"},
		{"avx512", "lookup+dot", "and lookup16 dot4 shru and lookup16 dot4"},
		{"avx512vbmi", "lookup+dot", "lookup64mod dot4 shru lookup64mod dot4"},
		{"avxvnni", "planes", strings.Repeat("and dot4 and dot4 shru and andnot or ", 2) + strings.TrimSpace(strings.Repeat("and dot4 ", 4))},
	} {
		i := slices.IndexFunc(dotMixes, func(m Mix) bool { return m.Name == c.mix })
		if got := strings.Join(dotMixes[i].on(amd64.ByName(c.target)).Ops, " "); got != c.want {
			t.Errorf("%s on %s: %s, want %s", c.mix, c.target, got, c.want)
		}
	}
	if dotMixes[3].Ops[0] != "lookup64mod" {
		t.Error("the table has changed")
	}
}
