package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

// Schedules of files are measured beside the default: the table has a row for each, and JSON their traces.
func TestCompare(t *testing.T) {
	needMeasuring(t)
	trace := traceFile(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace"))
	args := []string{"compare", "-q", "-format", "w2", "-target", "avx2", "-mode", "l2", "-m", "64", "-k", "256"}
	out := ok(t, append(args, "-trace", trace)...)
	for _, want := range []string{"l2 n=1", "  default\n", "  " + trace + "\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	lines := 0
	for line := range strings.Lines(ok(t, append(args, "-trace", trace, "-n", "1,4", "-json")...)) {
		var r session.Tried
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Cost <= 0 || len(r.Figures) != 2 || r.Figures[1].N != 4 || r.Figures[1].Ns <= 0 || r.Figures[1].DefaultNs <= 0 || len(r.Traces) == 0 {
			t.Errorf("%s", line)
		}
		lines++
	}
	if lines != 2 {
		t.Errorf("%d schedules were compared, want 2", lines)
	}
}

// The table has ratios to the default's time beside each, the best first.
func TestCompareTable(t *testing.T) {
	figures := func(ns, usual float64) session.TriedFigure {
		return session.TriedFigure{Purpose: tune.Purpose{Mode: "l2", N: 4}, Ns: ns, DefaultNs: usual}
	}
	var b strings.Builder
	compareTable([]tune.Purpose{{Mode: "l2", N: 4}}, []session.Tried{
		{Schedule: "slow", Cost: 1.5, Figures: []session.TriedFigure{figures(30, 20)}},
		{Schedule: "quick", Cost: 0.5, Figures: []session.TriedFigure{figures(20, 40)}},
	}).print(&b, 0)
	const want = "of the default  l2 n=4  schedule\n         0.500   0.500  quick\n         1.500   1.500  slow\n"
	if b.String() != want {
		t.Errorf("have\n%swant\n%s", b.String(), want)
	}
}

// traceFile writes the schedule that tmacc show printed.
func traceFile(t *testing.T, shown string) string {
	t.Helper()
	_, list, _ := strings.Cut(shown, "\n")
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(path, []byte(list), 0o666); err != nil {
		t.Fatal(err)
	}
	var trace schedule.Trace
	if err := json.Unmarshal([]byte(list), &trace); err != nil {
		t.Fatal(err)
	}
	return path
}

// What cannot be compared is refused before anything is measured.
func TestCompareRefuses(t *testing.T) {
	needMeasuring(t)
	four := traceFile(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-cols", "4", "-stage", "trace"))
	other := traceFile(t, ok(t, "show", "-format", "w4-g32", "-target", "avx2", "-stage", "trace"))
	for _, c := range []struct {
		args string
		want string
	}{
		{"-trace " + four, "give a -format"},
		{"-format w2", "nothing to compare"},
		{"-format w2 -near -target all", "-target all"},
		{"-format w2 -near -mode l4", `unknown mode "l4"`},
		{"-format w2 -near -n 0", "-n 0"},
		{"-format w2-g32 -near -k 100", "-k 100: w2-g32 wants a multiple of 32"},
		{"-format w2 -target avx2 -trace " + four, four + ": more columns than activations: kernels of 4 columns for 1 activations"},
		{"-format w2 -target avx2 -trace " + other, other + ": "},
		{"-format w2 -trace no.json", "no.json"},
	} {
		code, out, stderr := tmacc(append([]string{"compare", "-q"}, strings.Fields(c.args)...)...)
		if code == 0 || out != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.args, code, out+stderr, c.want)
		}
	}
}
