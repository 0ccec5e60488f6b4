package explore

import (
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

var update = flag.Bool("update", false, "rewrite testdata")

// TestMain makes this test its own worker.
func TestMain(m *testing.M) {
	session.Main()
	chosen.Share()
	sparing.Run(m)
}

// usual chooses default schedules without records.
var usual = &defaults.Chooser{NoRecords: true}

// given is a schedule that stays the same when default ones change.
func given(t *testing.T) (out schedule.Trace) {
	t.Helper()
	data, err := os.ReadFile("testdata/w2.json")
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// opened explores the given schedule.
func opened(t *testing.T, change func(*Options)) *Explorer {
	t.Helper()
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Problem: p, Target: targets.ByName("amd64/avx2"), Columns: 1, Modes: []string{"l2"}, M: 64, K: 256,
		Trace: given(t), Origin: "a file", Defaults: usual, Only: true, Log: session.NoLog, Flags: []string{"-format", "w2", "-target", "avx2"}}
	if change != nil {
		change(&o)
	}
	e, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// figures are numbers that follow from the model of the core, which has tests of its own.
var figures = regexp.MustCompile(`\b\d+\.\d{3,4}\b`)

// The answers to a script are those in the file.
func TestScript(t *testing.T) {
	const path = "testdata/script.txt"
	e := opened(t, func(o *Options) { o.Lacks = "AVX2" })
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(want)) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ ")
		if !ok {
			continue
		}
		text := ""
		if r, err := e.Do(t.Context(), command, nil); err != nil {
			text = "error: " + err.Error()
		} else {
			text = r.String()
		}
		b.WriteString("$ " + command + "\n" + figures.ReplaceAllString(text, "#") + "\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != string(want) && !*update {
		t.Errorf("-update rewrites testdata, for git diff: %s is not\n%s", path, b.String())
	}
}

// Steps that are printed can be read again, and so can their JSON.
func TestParseStep(t *testing.T) {
	for _, x := range append(given(t), schedule.Decompose{Family: "table", Value: "codes", Parts: []int{1, 2}, Mirror: true},
		schedule.Prefetch{Bytes: 4096, Every: true}, schedule.Stage{Value: "w", At: "u", Ahead: true}, schedule.Pack{Tensor: "act", Chunk: 16}) {
		alone := schedule.Trace{x}
		data, err := json.Marshal(alone)
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{strings.Trim(string(data), "[]")}
		if _, ok := x.(schedule.Pack); !ok { // two lists have to be named
			texts = append(texts, alone.String())
		}
		for _, text := range texts {
			y, err := ParseStep(strings.TrimSuffix(text, "]"))
			if err != nil || !reflect.DeepEqual(x, y) {
				t.Errorf("%s is read as %#v, %v", text, y, err)
			}
		}
	}
	if _, err := ParseStep("spilt m 2 a b"); err == nil || !strings.Contains(err.Error(), `no transform "spilt" (have `) {
		t.Error(err)
	}
	x, err := ParseStep("pack codes order=mt,kt,words fields=s,f map=dense")
	if want := (schedule.Pack{Tensor: "codes", Order: []string{"mt", "kt", "words"}, Fields: []string{"s", "f"}, Map: "dense"}); err != nil || !reflect.DeepEqual(x, want) {
		t.Errorf("%#v, %v", x, err)
	}
}

// Each next step is predicted as the schedule that it leads to, and choosing it leads there.
func TestNext(t *testing.T) {
	e := opened(t, nil)
	list, err := e.Next(t.Context(), 5, false)
	if err != nil || len(list) < 3 {
		t.Fatalf("%v, %v", list, err)
	}
	refused := 0
	for i, n := range list {
		cycles, err := e.on.predict(t.Context(), n.Trace)
		switch {
		case n.Rule != "tile" || n.At != 5 || n.Number != i+1:
			t.Errorf("%+v is no decision of the tile", n)
		case err != nil:
			refused++
			if n.Predicts.Refused != err.Error() {
				t.Errorf("%s: %q, want %v", n.Text(), n.Predicts.Refused, err)
			}
		case math.Abs(n.Predicts.Ratio-cycles[0]/e.baseline[0]) > 1e-9:
			t.Errorf("%s: %v of the default's time, want %v", n.Text(), n.Predicts.Ratio, cycles[0]/e.baseline[0])
		case i > 0 && list[i-1].Predicts.Ratio > n.Predicts.Ratio:
			t.Errorf("%s is faster than the one before", n.Text())
		}
	}
	if refused == len(list) {
		t.Error("all are refused")
	}
	if _, err := e.Choose(1); err != nil || e.Now().String() != list[0].Trace.String() || e.Cursor() != 5 {
		t.Errorf("%v: %v at %d", err, e.Now(), e.Cursor())
	}
	if err := e.Undo(); err != nil || e.Now().String() != given(t).String() {
		t.Errorf("%v: %v", err, e.Now())
	}
}

// Schedules that read alike in a line, because a loop may be the last of the order or the first of the fields, are two.
func TestSameText(t *testing.T) {
	e := opened(t, nil)
	packed := func(order, fields []string) schedule.Trace {
		out := given(t)
		for i, x := range out {
			if _, ok := x.(schedule.Pack); ok {
				out[i] = schedule.Pack{Tensor: "codes", Order: order, Fields: fields, Map: "dense"}
			}
		}
		return out
	}
	order := []string{"mt", "kt", "ks", "ro", "r", "words", "l", "x", "jo", "ji"}
	a, b := packed(append(slices.Clip(order), "u"), []string{"s", "f"}), packed(order, []string{"u", "s", "f"})
	if a.String() != b.String() || a.Key() == b.Key() {
		t.Fatalf("%v\n%v", a, b)
	}
	layouts := map[string]bool{}
	for _, x := range []schedule.Trace{a, b} {
		text, err := e.Text(x, build.LayoutStage)
		if err != nil {
			t.Fatal(err)
		}
		layouts[text] = true
	}
	if len(layouts) != 2 {
		t.Errorf("both have the layout of one: %v", layouts)
	}
	e.Set(a, 0)
	if e.Set(b, 0); e.Now().Key() != b.Key() {
		t.Errorf("the change is lost: %v", e.Now())
	}
}

// Offers are chosen in turn, each in the place of the one before. After another change they would lose it, and have to be listed again.
func TestChooseStale(t *testing.T) {
	e := opened(t, nil)
	do := func(line string) error { _, err := e.Do(t.Context(), line, nil); return err }
	for _, list := range []string{"steps 5", "values 5 by"} {
		if err := errors.Join(do("reset"), do(list), do("choose 1"), do("choose 2"), do("undo"), do("choose 2")); err != nil {
			t.Errorf("%s: %v", list, err)
		}
		if err := errors.Join(do("reset"), do(list), do("edit 7 by=16")); err != nil {
			t.Fatal(err)
		}
		before := e.Now().String()
		if err := do("choose 1"); err == nil || !strings.Contains(err.Error(), "list it again") || e.Now().String() != before {
			t.Errorf("%s: %v, and the edit is lost: %v", list, err, e.Now())
		}
	}
}

// A shell gives what Command prints to tmacc, whatever names a schedule and the flags have.
func TestCommand(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	hostile := "a'; echo x >&2; \"$HOME\" `id` \\\\n #{b,c}~[d]!\t"
	e := opened(t, func(o *Options) { o.Flags = []string{"-format", hostile, "-core", "", "-n", "1"} })
	x := e.Now()[5].(schedule.Split)
	x.Loop = hostile
	if err := e.Replace(5, x); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(e.Now())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(shell, "-c", `tmacc() { cat; for a in "$@"; do printf '\n%s' "$a"; done; }; `+e.Command()).CombinedOutput()
	if want := string(want) + "\n" + strings.Join([]string{"compare", "-format", hostile, "-core", "", "-n", "1", "-trace", "-"}, "\n"); err != nil || string(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}

// A schedule that lacks steps is offered those that the rules make of what it has; other kinds of steps apply anywhere, and each is legal.
func TestNextOpen(t *testing.T) {
	e := opened(t, nil)
	e.Set(given(t)[:25], 25)
	list, err := e.Next(t.Context(), 25, false)
	if err != nil || len(list) == 0 || list[0].Rule != "instruction" || list[0].Steps[0] != (schedule.Tensorize{Loop: "ji", To: "dot2"}) || list[0].Predicts.Refused != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	whole := given(t)
	for at := range len(whole) + 1 {
		e.Set(whole[:at], at)
		list, err := e.single(whole[:at], at)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range list {
			if _, err := e.state(n.Trace[:at+1]); err != nil {
				t.Errorf("after %d steps: %s: %v", at, n.Text(), err)
			}
		}
	}
}

// Mend makes the steps behind an illegal one fit it.
func TestMend(t *testing.T) {
	e := opened(t, nil)
	x := e.Now()[5].(schedule.Split)
	x.By *= 3
	if err := errors.Join(e.Replace(5, x), e.Replace(7, schedule.Split{Loop: "mi", By: 5, Into: schedule.Pair{"ro", "mb"}})); err != nil {
		t.Fatal(err)
	}
	if p := e.Problems(); len(p) != 1 || p[0].Step != 7 || p[0].Kind != IllegalKind {
		t.Fatalf("%v", p)
	}
	if err := e.Mend(); err != nil || e.Now()[5] != schedule.Step(x) {
		t.Errorf("%v: %v", err, e.Now())
	}
	if _, err := e.state(e.Now()); err != nil {
		t.Error(err)
	}
}

// Legal values of a field lead to schedules in which the step has them.
func TestValues(t *testing.T) {
	e := opened(t, nil)
	list, err := e.Values(t.Context(), 5, "by")
	if err != nil {
		t.Fatal(err)
	}
	var values []int
	for _, n := range list {
		values = append(values, n.Steps[0].(schedule.Split).By)
		if !reflect.DeepEqual(n.Trace[5], n.Steps[0]) {
			t.Errorf("%v is not step 5 of %v", n.Steps, n.Trace)
		}
	}
	if !slices.Contains(values, 8) || !slices.Contains(values, 16) {
		t.Errorf("tiles of %v rows", values)
	}
}

// Lines of a list that another lacks are added, lines that it lacks are removed, and the rest is the same.
func TestCompared(t *testing.T) {
	for _, c := range [][3]string{
		{"a b c", "a b c", " a b c"},
		{"a b c", "a x c", " a-b+x c"},
		{"", "a b", "+a+b"},
		{"a b c d", "b d e", "-a b-c d+e"},
	} {
		out := ""
		for _, l := range compared(strings.Fields(c[0]), strings.Fields(c[1])) {
			out += string(l.Op) + l.Text
		}
		if out != c[2] {
			t.Errorf("%s beside %s: %q, want %q", c[1], c[0], out, c[2])
		}
	}
}

// Lines that two schedules have in common are in one row, and others beside a line of the same instruction.
func TestAligned(t *testing.T) {
	left := besideLines("#include\n\nTEXT f\nloop:\n\tVADD  X1, X2 // v1\n\tVAND X1, X2, X3\n\tRET\n", build.AssemblyStage)
	right := besideLines("// head\n\nTEXT f\nloop:\n\tVADD X1,   X2 // v9\n\tVOR X1, X2\n\tVAND X4, X2, X3\n\tVSUB X1, X2\n\tRET\n", build.AssemblyStage)
	want := []Row{{"TEXT f", "TEXT f", SameRow}, {"loop:", "loop:", SameRow}, {"  VADD X1, X2", "  VADD X1, X2", SameRow}, {"", "  VOR X1, X2", RightRow},
		{"  VAND X1, X2, X3", "  VAND X4, X2, X3", OtherRow}, {"", "  VSUB X1, X2", RightRow}, {"  RET", "  RET", SameRow}}
	if rows := aligned(left, right); !reflect.DeepEqual(rows, want) {
		t.Errorf("%q\nwant\n%q", rows, want)
	}
	if rows := aligned(right, left); len(rows) != len(want) || rows[3] != (Row{"  VOR X1, X2", "", LeftRow}) {
		t.Errorf("%q", rows)
	}
}

// Problems say of what kind they are.
func TestProblems(t *testing.T) {
	for _, c := range []struct {
		kind string
		at   int
		line string
	}{
		{IllegalKind, 7, "edit 7 by=3"},
		{UnfinishedKind, -1, "delete 25"},
		{OverflowKind, -1, "delete 30"},
		{PressureKind, -1, "values 11 by; choose 1"},
	} {
		e := opened(t, nil)
		for line := range strings.SplitSeq(c.line, ";") {
			if _, err := e.Do(t.Context(), line, nil); err != nil {
				t.Fatal(err)
			}
		}
		p := e.Problems()
		if len(p) != 1 || p[0].Kind != c.kind || p[0].Step != c.at {
			t.Errorf("%s: %v, want %s at %d", c.line, p, c.kind, c.at)
		}
		if r := p[0].Registers; (r != nil) != (c.kind == PressureKind) || r != nil && numberOf(r.Values) != r.Need {
			t.Errorf("%s: %+v, want a value for each register that is needed", c.line, r)
		}
	}
}

func numberOf(all []Live) (n int) {
	for _, v := range all {
		n += v.Number
	}
	return n
}

// A command with more arguments than it takes is refused, and changes nothing.
func TestRefused(t *testing.T) {
	e := opened(t, nil)
	for _, line := range []string{"mark x y", "go 3 4", "delete 1 2 3", "move 1 2 3", "reset x", "export a b", "help x", "steps 1 all 2"} {
		if _, err := e.Do(t.Context(), line, nil); err == nil || !strings.Contains(err.Error(), "was also given") {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"related vir 0", "related asm 100000", "related trace -1"} {
		if _, err := e.Do(t.Context(), line, nil); err == nil || !strings.Contains(err.Error(), ": want ") {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{"mark best", "mark asm", "take nothing", "compare a b", "beside nest a", "take best"} {
		if r, err := e.Do(t.Context(), line, nil); err == nil {
			t.Errorf("%s: %v", line, r)
		}
	}
	if len(e.marked) > 0 || e.Cursor() != 0 || len(e.history) > 1 {
		t.Errorf("marked %v, cursor at %d, %d changes", e.marked, e.Cursor(), len(e.history)-1)
	}
}

// An exported schedule can be opened.
func TestExport(t *testing.T) {
	e := opened(t, nil)
	path := filepath.Join(t.TempDir(), "t.json")
	if _, err := e.Do(t.Context(), "export "+path, nil); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	var back schedule.Trace
	if err = errors.Join(err, json.Unmarshal(data, &back)); err != nil || back.String() != e.Now().String() {
		t.Errorf("%v: %v", err, back)
	}
}
