package command

import (
	"fmt"
	"image"
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

// Pictures of several products do not take each other's names.
func TestPlotOf(t *testing.T) {
	p := session.Options{Problem: ir.Problem{Weight: format.Weight{Name: "w2"}}, Target: amd64.ByName("avx2")}
	for plot, want := range map[string]string{"": "", "a/b.svg": "a/b-w2-avx2.svg"} {
		if got := plotOf(plot, p); got != want {
			t.Errorf("%q: %q, want %q", plot, got, want)
		}
	}
}

// reportsPage holds the page of a log to its last search that has measured something, or to the one of -run.
func reportsPage(t *testing.T, log string) {
	path := filepath.Join(t.TempDir(), "search.html")
	for of, want := range map[string]string{"w1": "0.50</b>", "": "3.00</b>"} {
		args := []string{"report", "-log", log, "-html", path}
		if of != "" {
			_, id, _ := strings.Cut(ok(t, "report", "-log", log, "-o", t.TempDir()), "search-"+of+"-amd64-avx2-")
			args = append(args, "-run", id[:16])
		}
		ok(t, args...)
		if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v: the page has no %s", of, err, want)
		}
	}
	for args, want := range map[string]string{
		"-log " + log + " -html none/x.html":         "-html none/x.html: none: no such file",
		"-log " + log + " -html " + path + " -run 0": "-run 0: the log has no such search",
		"-run 0":                           "-run: is for -html",
		"-html x -o y":                     "html",
		"-html":                            "flag needs an argument: -html file; see tmacc report -h",
		"-html=":                           "-html: want the name of a file: tmacc report -html search.html",
		"-log none -html " + path + ".not": "none",
	} {
		if code, _, text := tmacc(append([]string{"report"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(text, want) {
			t.Errorf("report %s: exit code %d, %q, want %q", args, code, text, want)
		}
	}
}

// The report has a picture of each search of the log that has measured something.
func TestReport(t *testing.T) {
	l := tune.Log{Path: filepath.Join(t.TempDir(), "tuning.db")}
	for i, costs := range [][]float64{{2, 0.5}, {0}, {3}} {
		r := &tune.Run{Start: time.Unix(int64(i), 0), Product: fmt.Sprint("w", i+1), Target: "amd64/avx2", Purposes: []tune.Purpose{{Mode: "l2", M: 1, N: 1, K: 1}}}
		if err := l.Begin(r); err != nil {
			t.Fatal(err)
		}
		for _, c := range costs {
			x := tune.Trial{Genes: []tune.Gene{{Trace: schedule.Trace{schedule.Decompose{Family: "dot", Value: "affine"}}}}, Cost: c}
			if c == 0 {
				x.Error = "crashed"
			}
			if err := l.Add(r, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	reportsPage(t, l.Path)
	for _, kind := range picture.Types {
		dir := t.TempDir()
		paths := strings.Fields(ok(t, "report", "-log", l.Path, "-o", dir, "-type", kind[1:]))
		if len(paths) != 2 || !strings.Contains(paths[0], "search-w1-amd64-avx2-") || !strings.Contains(paths[1], "search-w3-") {
			t.Fatalf("pictures %v", paths)
		}
		f, err := os.Open(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if kind == ".png" {
			if _, name, err := image.DecodeConfig(f); err != nil || name != "png" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"dot affine: 0.50, 2 trials", "date: 1970-01-01", "w1 on amd64/avx2, l2 1x1x1"} {
			if !strings.Contains(string(data), want) {
				t.Errorf("no %q in\n%s", want, data)
			}
		}
	}
	empty := filepath.Join(t.TempDir(), "no.db")
	nothing := tune.Log{Path: filepath.Join(t.TempDir(), "nothing.db")}
	if err := nothing.Begin(&tune.Run{Start: time.Unix(1, 0), Product: "w1", Target: "amd64/avx2"}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Dir(empty))
	for _, r := range []refusal{
		{2, `want svg or png`, "report -type gif"},
		{2, `no such file`, "report -log " + empty},
		{2, `: is a folder: want a file`, "report -log " + filepath.Dir(empty)},
		{2, `nothing to draw`, "report -log none"},
		{2, `report: there is no log yet, ` + filepath.Join(filepath.Dir(empty), "tmacc", "tuning.db") + `: run tmacc tune, or name a log with -log`, "report -html x.html"},
		{2, empty + `: no such file`, "report -html x.html -log " + empty},
		{2, `is empty: run tmacc tune, or name another log with -log`, "report -html x.html -log " + file(t, "empty.db", "")},
		{2, `nothing.db has measured something: run tmacc tune with more -time`, "report -html x.html -log " + nothing.Path},
		{2, `-log none: -html needs a log`, "report -log none -html x.html"},
		{2, `record 1: `, "report -log none -bench " + file(t, "bad.jsonl", "[]")},
		{2, `no records of products with one column`, "report -log none -bench " + file(t, "none.jsonl", "{}")},
		{2, `search.pdf: a picture is an .svg or a .png`, "tune -format w2 -plot search.pdf"},
	} {
		refused(t, r)
	}
}

// A picture that cannot be written is one line that names the file.
func TestUnwritablePicture(t *testing.T) {
	bench := file(t, "bench.jsonl", `{"format":"w1","target":"avx2","mode":"l2","n":1,"clock_ghz":1,"ceiling_gb_s":2,"gb_s":1}`)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "roofline.svg", "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, refusal{2, filepath.Join(dir, "roofline.svg") + ": ", "report -log none -bench " + bench + " -o " + dir})
	refused(t, refusal{2, filepath.Join(dir, "roofline.svg") + ": is a folder: want a file", "tune -format w2 -plot " + filepath.Join(dir, "roofline.svg")})
	refused(t, refusal{2, "-o " + bench + ": is not a directory", "report -log none -bench " + bench + " -o " + bench})
}

// Records say where they were measured, or their first line does if bench -check -json printed them.
func TestRecordsSaySource(t *testing.T) {
	const record = `{"format":"w1","target":"avx2","mode":"l2","n":1,"clock_ghz":1,"ceiling_gb_s":2,"gb_s":1`
	for name, text := range map[string]string{
		"own":  record + `,"host":"here","date":"2026-01-02","commit":"c0ffee"}`,
		"head": `{"limits":"limits.json","host":"here","date":"2026-01-02","commit":"c0ffee"}` + "\n" + record + `}` + "\n" + `{"rule":"share","target":"avx2"}`,
	} {
		dir := t.TempDir()
		ok(t, "report", "-o", dir, "-log", "none", "-bench", file(t, "bench.jsonl", text))
		data, err := os.ReadFile(filepath.Join(dir, "roofline.svg"))
		if err != nil || !strings.Contains(string(data), "machine: here; date: 2026-01-02; tmacc: c0ffee") {
			t.Errorf("%s: %v\n%s", name, err, data)
		}
	}
}
