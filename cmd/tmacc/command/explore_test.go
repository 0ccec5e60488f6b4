package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/explore"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

// explored are the answers of tmacc explore -plain -json to the lines of a script, by command, and its exit code.
func explored(t *testing.T, script string, args ...string) (map[string]map[string]any, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"explore", "-plain", "-json", "-q"}, args...)...)
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &out, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	answers := map[string]map[string]any{}
	for d := json.NewDecoder(&out); d.More(); {
		var a map[string]any
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		if a["event"] == nil {
			answers[a["command"].(string)] = a
		}
	}
	if len(answers) == 0 {
		t.Fatalf("no answer: %s", stderr.String())
	}
	return answers, cmd.ProcessState.ExitCode()
}

// A script chooses an illegal tile, mends it, measures, searches, and saves a slower schedule anyway: the lock has it, and so has the package,
// until the default schedule is saved.
func TestExplore(t *testing.T) {
	needMeasuring(t)
	if lacks(targets.ByName("amd64/avx2")) != "" {
		t.Skip("needs AVX2")
	}
	dir := t.TempDir()
	of := []string{"-target", "avx2", "-mode", "l2", "-m", "64", "-k", "256", "-only", "-log", session.NoLog, "-o", dir}
	a, code := explored(t, `edit 7 by=3
problems
undo # the illegal tile
values 11 by
choose 3
measure
search 2
save anyway
nonsense`, append(of, "-format", "w2", "-trace", "../../../search/explore/testdata/w2.json")...)
	if code != exitFailed || a["nonsense"]["error"] == nil {
		t.Errorf("exit code %d, %v", code, a["nonsense"])
	}
	problem, _ := json.Marshal(a["problems"]["reply"])
	if want := `[{"kind":"illegal","stage":"trace","step":7,"text":"split mi: 3 does not divide its extent 8"}]`; string(problem) != want {
		t.Errorf("%s, want %s", problem, want)
	}
	if r, ok := a["measure"]["reply"].(map[string]any); !ok || r["ratio"].(map[string]any)["median"].(float64) <= 0 {
		t.Errorf("%v", a["measure"])
	}
	if r, ok := a["save anyway"]["reply"].(map[string]any); !ok || r["outcome"] != string(session.Locked) {
		t.Fatalf("%v", a["save anyway"])
	}
	check := []string{"compile", "-format", "w2", "-target", "avx2", "-o", dir, "-no-check", "-no-measure"}
	ok(t, check...)
	ok(t, append(check[:7:7], "-check")...)
	a, code = explored(t, "trace\nsave", append(of, "-kernel", "w2")...)
	if r := a["trace"]["reply"].(map[string]any); code != 0 || !strings.HasPrefix(r["origin"].(string), "lock: ") {
		t.Errorf("exit code %d, %v", code, r)
	}
	if r := a["save"]["reply"].(map[string]any); r["outcome"] != string(session.None) {
		t.Errorf("%v is saved though it is slower", r)
	}
	if l, err := tune.ReadLock(filepath.Join(dir, tune.LockName)); err != nil || len(l.Entries) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	a, _ = explored(t, "take default\nsave", append(of, "-kernel", "w2")...)
	if r, ok := a["save"]["reply"].(map[string]any); !ok || r["outcome"] != string(session.Removed) {
		t.Errorf("%v", a["save"])
	}
	if l, err := tune.ReadLock(filepath.Join(dir, tune.LockName)); err != nil || len(l.Entries) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if code, _, text := tmacc(append(check[:7:7], "-check")...); code != exitFailed {
		t.Errorf("the package of a schedule that is not locked any more: exit code %d, %s", code, text)
	}
	ok(t, check...)
	ok(t, append(check[:7:7], "-check")...)
}

// scriptOfPage are the script of docs/explore.md, the arguments that it is given to, and the beginnings of the answers.
var scriptOfPage = regexp.MustCompile("(?ms)^`script.txt`:\n\n```\n(.*?)^```\n\n```\n\\$ tmacc ([^\n]*) < script.txt\n(.*?)^```$")

// pageCut is how many bytes of an answer the page has.
const pageCut = 155

var update = flag.Bool("update", false, "write the answers to the script of docs/explore.md again")

// The script of docs/explore.md has the answers that the page shows. Commands that measure are left out. A change of the default schedule makes other answers.
func TestExplorePage(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the page was made on amd64: where products of floats are fused, schedules may be others")
	}
	const page = "../../../docs/explore.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	at := scriptOfPage.FindSubmatchIndex(data)
	if at == nil {
		t.Fatalf("no script in %s", page)
	}
	script, args, want := string(data[at[2]:at[3]]), string(data[at[4]:at[5]]), string(data[at[6]:at[7]])
	cmd := exec.Command(os.Args[0], append(strings.Fields(args), "-q", "-log", session.NoLog, "-o", t.TempDir())...)
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
	cmd.Stdin = strings.NewReader(strings.TrimSuffix(script, "measure\nsave\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	got := ""
	for line := range strings.Lines(string(out)) {
		if len(line) > pageCut {
			line = line[:pageCut] + "...\n"
		}
		got += line
	}
	if all := string(out); !strings.Contains(all, `"kind":"illegal"`) || !strings.Contains(all, `"predicted"`) {
		t.Fatalf("the script of %s is there to make a step illegal, and to list others: name steps that do\n%s", page, got)
	}
	switch {
	case *update:
		if err := os.WriteFile(page, slices.Concat(data[:at[6]], []byte(got), data[at[7]:]), 0o666); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s has other answers. If the default schedule is another one, run\n\n  go test ./cmd/tmacc/command -run TestExplorePage -update\n\nNow:\n%s\non the page:\n%s", page, got, want)
	}
}

// A script that cannot be read to its end is an error, after the commands before.
func TestExploreUnread(t *testing.T) {
	a, code := explored(t, "command\nexport "+strings.Repeat("x", mostLine)+"\nhelp\n",
		"-format", "w2", "-target", "avx2", "-mode", "l2", "-trace", "../../../search/explore/testdata/w2.json", "-o", t.TempDir())
	if code != exitUsage || a["command"] == nil || a["help"] != nil {
		t.Errorf("exit code %d, %v", code, a)
	}
}

func TestExploreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range [][2]string{
		{"", "explore: give a -format, or a -kernel of the lock"},
		{"-format w2 -kernel w2 -plain", "explore: give a -format, or a -kernel of the lock"},
		{"-format w2 -plain -cols 0", "-cols 0: want 1 to"},
		{"-format w2 -plain -mode l1", `unknown mode "l1": have dram, l3, l2`},
		{"-format w2 -json", "-json: is for -plain"},
		{"-format w2", "are no terminal: give -plain"},
		{"-kernel w2 -plain -o " + dir, tune.LockName + " has no schedule: run tmacc tune, or give a -format"},
		{"-format w2 -plain -target sse", `unknown target "sse"`},
		{"-format w2 -plain -target spirv -only", "-only: is not for devices: leave it out with -target spirv"},
		{"-format w2 -plain -target avx2 -device 0", "-device: is for -target spirv"},
		{"-format w2 -plain -target spirv -core zen4", "-core zen4: is not of a device"},
		{"-format w2 -plain -trace none.json", "none.json"},
	} {
		code, _, text := tmacc(append([]string{"explore"}, strings.Fields(c[0])...)...)
		if code != exitUsage || !strings.Contains(text, c[1]) {
			t.Errorf("explore %s: exit code %d, %q, want %q", c[0], code, text, c[1])
		}
	}
}

// -kernel names one schedule of the lock, and says what to add where that is not enough.
func TestExploreKernel(t *testing.T) {
	dir := t.TempDir()
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(product, target string, act int, problem string, cols ...int) (e tune.Entry) {
		e = tune.Entry{Product: product, Target: target, ActGroup: act, Problem: problem}
		for _, n := range cols {
			e.Kernels = append(e.Kernels, tune.Kernel{Cols: n, Hash: "00", Trace: schedule.Trace{schedule.Bind{Loop: "m", To: "outer"}}})
		}
		return e
	}
	if err := tune.ChangeLock(filepath.Join(dir, tune.LockName), func(l *tune.Lock) error {
		for _, e := range []tune.Entry{
			entry("w2", "amd64/avx2", 0, "another", 1), entry("w2", "arm64/dotprod", 0, tune.ProblemHash(p), 2, 4), entry("w2", "arm64/dotprod", 32, tune.ProblemHash(p), 1),
			entry("mine", "amd64/avx2", 0, "mine", 1), entry("w3", "amd64/other", 0, "x", 1),
		} {
			l.Put(e)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"w2", "has mine on avx2, w2 on avx2, w2 on dotprod, w2 on dotprod with -act-group 32, w3 on amd64/other, which cannot be explored: choose one by -target, or by -act-group"},
		{"w2 -target dotprod", "choose one by -target, or by -act-group"},
		{"w2 -target dotprod -act-group 0", "has kernels of 2, 4 columns: choose one by -cols"},
		{"w2 -target avx2", "has the schedule of another format of this name: run tmacc tune, or give a -format"},
		{"w2 -target avx2 -act-group 32", tune.LockName + " has mine on avx2"},
		{"mine", "its format is in a file: give that as -format, with -target amd64/avx2"},
		{"w3", "w3 on amd64/other, which cannot be explored"},
	} {
		code, _, text := tmacc(append([]string{"explore", "-plain", "-o", dir, "-kernel"}, strings.Fields(c[0])...)...)
		if code != exitUsage || !strings.Contains(text, c[1]) {
			t.Errorf("-kernel %s: exit code %d, %q, want %q", c[0], code, text, c[1])
		}
	}
}

// An answer that JSON cannot express is an error in JSON, and a command that failed.
func TestExploreNoJSON(t *testing.T) {
	var out bytes.Buffer
	p := plainExplorer{nil, &out, nil, nil, true, 7}
	err := p.answer("measure", &explore.Measured{Ratio: tune.Ratio{Median: 1, High: math.Inf(1)}}, nil)
	if want := `{"line":7,"command":"measure","error":"the answer is no JSON: `; err == nil || !strings.HasPrefix(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v, %q, want %s", err, out.String(), want)
	}
}
