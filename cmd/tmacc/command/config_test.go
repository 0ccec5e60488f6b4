package command

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/targeting"
)

// config writes tmacc.yaml into a new folder "low" and makes that the working one.
func config(t *testing.T, text string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "low")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.WriteFile(order.ConfigName, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

const manyKernels = `# two kernels of one format
format: [w2]
target: [avx2]
module: none
no-check: true
kernel:
  - {name: Mine, format: w2, act-group: 32}
  - name: Other
    format: two.json
    max-k: 8192
`

const twoLevels = `{"name": "two", "bits": 1, "levels": [-3, 5], "per": "row", "scale": "f32"}`

// A file says all that flags say; flags on the command line replace its values.
func TestConfig(t *testing.T) {
	config(t, "\ufeff"+manyKernels)
	if err := os.WriteFile("two.json", []byte("\ufeff"+twoLevels), 0o666); err != nil { // as editors on Windows write it
		t.Fatal(err)
	}
	plan := ok(t, "compile", "-dry-run")
	for _, want := range []string{"would write package low in . for amd64/avx2\n", "W2       w2      row        131072", "Mine     w2      32", "Other    two     row          8192"} {
		if !strings.Contains(plan, want) {
			t.Errorf("no %q in\n%s", want, plan)
		}
	}
	if files := slices.Collect(maps.Keys(read(t, "."))); len(files) != 2 {
		t.Errorf("-dry-run wrote %v", files)
	}
	refused(t, refusal{1, "not what tmacc compile writes: low.go, low_avx2_amd64.s, low_dispatch_amd64.go", "compile -check -q"})
	if r := checkReport(t, exitFailed); r.Package != "low" || r.Dir != "." || len(r.Files) != 6 || !slices.Contains(r.Files, "low.go") || !slices.Contains(r.Differences, "low.go") || r.Misfits == nil {
		t.Errorf("%+v", r)
	}
	if out := ok(t, "compile"); !strings.Contains(out, "package low in .\nW2: ") || strings.Contains(out, "GEMV") || !strings.Contains(out, ", 2.01 stored bits per weight\n") {
		t.Error(out)
	}
	files := read(t, ".")
	if text := files["low.go"]; !strings.Contains(text, "func MineGemm(") || !strings.Contains(text, "func OtherLoad(") || !strings.Contains(text, "LimitK: 8192") {
		t.Error("low.go lacks kernels of the file")
	}
	if r := checkReport(t, 0); len(r.Files) != len(files)-2 || r.Differences == nil || len(r.Differences) > 0 {
		t.Errorf("%+v", r)
	}
	if out := ok(t, "compile", "-check"); out != fmt.Sprintf("package low in . is up to date, %d files\n", len(files)-2) {
		t.Error(out)
	}
	// The same bytes from elsewhere, by flags alone, on another number of CPUs.
	t.Setenv("GOMAXPROCS", "1")
	two, err := filepath.Abs("two.json")
	if err != nil {
		t.Fatal(err)
	}
	from, err := filepath.Abs(order.ConfigName)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ok(t, "compile", "-format", "w2", "-target", "avx2", "-module", "none", "-no-check", "-o", "flags", "-package", "low",
		"-kernel", "name=Mine,format=w2,act-group=32", "-kernel", "name=Other,max-k=8192,format="+two)
	ok(t, "compile", "-config", from, "-o", "file", "-package", "low", "-check=false")
	delete(files, order.ConfigName)
	delete(files, "two.json")
	for _, dir := range []string{"flags", "file"} {
		if got := read(t, dir); !maps.Equal(got, files) {
			t.Errorf("%s holds other files than those beside %s", dir, order.ConfigName)
		}
	}
}

// checkReport is what compile -check -json prints, and nothing else.
func checkReport(t *testing.T, code int) (r jsonCheck) {
	t.Helper()
	got, out, stderr := tmacc("compile", "-check", "-json", "-q")
	if got != code || stderr != "" {
		t.Fatalf("exit code %d, want %d\n%s", got, code, stderr)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The targets of a file are those that it names, also if they are what the flag has anyhow; if it names none they are all.
func TestConfigTargets(t *testing.T) {
	if len(targeting.Here()) == 0 {
		t.Skip("no target runs here")
	}
	for text, flag := range map[string]string{"": "all", "target: host": "host", "target: [host]": "host", "target: [host, dotprod]": "host,dotprod"} {
		config(t, "format: w2\n"+text)
		if got, want := ok(t, "compile", "-dry-run"), ok(t, "compile", "-dry-run", "-format", "w2", "-o", ".", "-target", flag); got != want {
			t.Errorf("%q: got\n%swant\n%s", text, got, want)
		}
	}
	config(t, "format: w2\ntarget: host")
	if out := ok(t, "compile", "-dry-run", "-target", "dotprod"); !strings.Contains(out, " for arm64/dotprod\n") {
		t.Errorf("the command line does not count: %s", out)
	}
}

// Speeds are measured if the file says so.
func TestConfigMeasures(t *testing.T) {
	needMeasuring(t)
	config(t, "format: w1-f32act\ntarget: avx2\nno-measure: false")
	checked(t, report(t, 0), delivery.Bounded)
}

// docs/command.md lists the keys.
func TestKeysInDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/command.md")
	for _, keys := range []string{order.ConfigKeys(), order.KernelKeys()} {
		if !strings.Contains(string(text), ": "+keys+".") {
			t.Errorf("docs/command.md does not list %s: %v", keys, err)
		}
	}
}

// Errors name the line and the key.
func TestConfigRefusals(t *testing.T) {
	shown := json1(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace"))
	for text, want := range map[string]string{
		"":                                "tmacc.yaml:1: is empty",
		"# nothing\n":                     "tmacc.yaml:1: is empty",
		"format: w4\n\nformt: w2":         `tmacc.yaml:3: unknown key "formt": have act, act-group, core, format, gguf`,
		"format: w4\nformat: w2":          `tmacc.yaml:2: mapping key "format" already defined`,
		"format: [w4":                     "tmacc.yaml:1: sequence end token",
		"[w4]":                            "tmacc.yaml:1: the file: want keys and values: act, act-group",
		"format: {a: b}":                  "tmacc.yaml:1: format: want a text or a list of texts",
		"format: []":                      "tmacc.yaml:1: format: is an empty list",
		"format: [w4, [w2]]":              "tmacc.yaml:1: format: want a text or a list of texts",
		"format: 'w4,w2'":                 `tmacc.yaml:1: format: "w4,w2": want no comma`,
		"format: &a w4\nmodel: *a":        "tmacc.yaml:1: format: want a text",
		"model: [a]":                      "tmacc.yaml:1: model: want one value",
		"format: w4\nact-group: x":        `tmacc.yaml:2: act-group: "x": want a number`,
		"format: w4\nno-check: 3":         `tmacc.yaml:2: no-check: "3": want true or false`,
		"kernel: [w4]":                    "tmacc.yaml:1: kernel: want keys and values: act-group, format, max-k, name, target, trace",
		"kernel: [{name: A}]":             `tmacc.yaml:1: kernel: "name=A": has no format: add format=FORMAT`,
		"kernel: [{format: w2}]":          `tmacc.yaml:1: kernel: "format=w2": has no name: add name=NAME`,
		"format: w4\ntrace: t.json":       "act, act-group, core, format, gguf, kernel, max-k, model, module, no-check, no-measure, no-records, output, package, target; trace belongs to an entry of kernel",
		"target: all":                     "tmacc.yaml: says nothing to compile: it names none of format, kernel, model, gguf",
		"kernel:\n- name: A\n  formt: w2": `tmacc.yaml:3: unknown key "formt": have act-group, format, max-k, name, target, trace`,
		"kernel: {name: a, format: w2}":   "kernel a: want a name of letters and digits that begins with a capital",
		"kernel: {name: A, format: x1}":   `kernel A: format: unknown format "x1": there are`,
		"format: w2\nkernel: {name: W2, format: w4}":                                                                                    "kernel W2: there are two of that name",
		"kernel: [{name: A, format: w2, trace: t.json}]":                                                                                "kernel A: a trace is for one target: these are 7: give the entry the target of its trace",
		"kernel: [{name: A, format: w2, target: avx2}]":                                                                                 `tmacc.yaml:1: kernel: "name=A,format=w2,target=avx2": the target is that of a trace: add trace=FILE`,
		"kernel: [{name: A, format: w2, target: [avx2], trace: t.json}]":                                                                "tmacc.yaml:1: target: want one value",
		"kernel: [{name: A, format: w2, target: sse, trace: t.json}]":                                                                   `kernel A: unknown target "sse": have host`,
		"target: [avx2, dotprod]\nkernel: [{name: A, format: w2, target: avx512, trace: t.json}]":                                       "kernel A: nothing is compiled for target amd64/avx512: add it to the targets (avx2, dotprod)",
		"kernel: [{name: A, format: w2}, {name: A, format: w2}]":                                                                        "kernel A: there are two of that name: rename one, or give each the target that its trace is for",
		"kernel: [{name: A, format: w2, target: avx2, trace: t.json}, {name: A, format: w2}]":                                           "kernel A: there are two of that name",
		"kernel: [{name: A, format: w2, target: avx2, trace: t.json}, {name: A, format: w2, target: amd64/avx2, trace: t.json}]":        "kernel A: there are two traces for amd64/avx2: leave one out",
		"kernel: [{name: A, format: w2, target: avx2, trace: t.json}, {name: A, format: w4, target: avx512, trace: t.json}]":            "kernel A: entries of one name are one product: these differ in format (w2, w4)",
		"kernel: [{name: A, format: w2, target: avx2, trace: t.json}, {name: A, format: w2, max-k: 64, target: avx512, trace: t.json}]": "these differ in max-k (131072, 64)",
		"format: w4\ntarget: [avx2, sse]":                                                                                               `tmacc.yaml:2: unknown target "sse"`,
		"format: w4\ntarget:\n- avx2\n- neon, sse":                                                                                      `tmacc.yaml:4: unknown target "sse"`,
		"format: w4\noutput: tmacc.yaml":                                                                                                "tmacc.yaml:2: -o tmacc.yaml: is not a directory",
		"format: w4\npackage: my-pkg":                                                                                                   "tmacc.yaml:2: -package my-pkg: the name must be lower-case letters and digits",
		"format: w4\nmodule: 'a:b'":                                                                                                     `tmacc.yaml:2: -module "a:b": want a path`,
		"format: w4\nact: i4":                                                                                                           "tmacc.yaml:2: -act i4: want int8 or f32",
		"max-k: 64\nformat:\n- w4\n- w44":                                                                                               `tmacc.yaml:4: format: unknown format "w44": there are`,
		"\nmodel: gpt":                                                                                                                  `tmacc.yaml:2: unknown model "gpt"`,
		"kernel:\n- {name: A, format: w2}\n- name: B\n  format: w44":                                                                    `tmacc.yaml:3: kernel B: format: unknown format "w44"`,
		"format: w4\nmax-k: -1":                                                                                                         "tmacc.yaml:2: -max-k -1: want 1 to 16777216, or 0: the usual",
		"format: w4\nact-group: 33":                                                                                                     "tmacc.yaml:2: -act-group: format: activation group 33: want 0",
		"format: w4\n---\nformat: w2":                                                                                                   "tmacc.yaml:3: has a second document",
		"gguf: none.gguf":                                                                                                               "tmacc.yaml:1: none.gguf: no such file",
		strings.Repeat("#", order.MaxConfig) + "#":                                                                                      "tmacc.yaml:1: has 16385 bytes",
	} {
		config(t, text)
		if err := os.WriteFile("t.json", []byte(shown), 0o666); err != nil {
			t.Fatal(err)
		}
		refused(t, refusal{2, want, "compile -dry-run"})
	}
	t.Chdir(t.TempDir())
	refused(t, refusal{2, "compile: nothing to compile", "compile"})
	refused(t, refusal{2, `tmacc: unknown target "sse"`, "compile -target sse -config " + file(t, "c.yaml", "format: w4\ntarget: avx9")}) // not the file's
	for option, want := range map[string]string{"-max-k 16777217": "tmacc: -max-k 16777217: want 1 to 16777216, or 0: the usual", "-act-group 33": "tmacc: -act-group: format: activation group 33: want 0"} {
		refused(t, refusal{2, want, "compile -dry-run " + option + " -config " + file(t, "c.yaml", "format: w4")})
	}
	refused(t, refusal{2, "none.yaml: no such file", "compile -config none.yaml"})
	refused(t, refusal{2, `-kernel`, "compile -kernel name=A,name=B"})
	refused(t, refusal{2, `-check and -dry-run: want one of them`, "compile -format w2 -check -dry-run"})
}

// tracesConfig has a product with a trace for each of two targets, and none for the third.
const tracesConfig = `target: [avx2, avx512vbmi, dotprod]
no-measure: true
kernel:
  - {name: Own, format: tq2_0, target: avx2, trace: avx2.json}
  - {name: Own, format: tq2_0, target: amd64/avx512vbmi, trace: vbmi.json}
  - {name: Other, format: tq2_0}
`

// Entries of one name are one product, with the trace of each for its target, and a layout of its own.
func TestTraceForEachTarget(t *testing.T) {
	config(t, tracesConfig)
	for name, args := range map[string][]string{"avx2.json": {"-cols", "2", "-target", "avx2"}, "vbmi.json": {"-cols", "1", "-target", "avx512vbmi"}} {
		text := json1(t, ok(t, append([]string{"show", "-format", "tq2_0", "-stage", "trace"}, args...)...))
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if out := ok(t, "compile", "-dry-run"); !strings.HasSuffix(out, "\nOwn: traces for amd64/avx512vbmi, amd64/avx2\n") {
		t.Error(out)
	}
	var plan order.Plan
	text := ok(t, "compile", "-dry-run", "-json")
	if err := json.Unmarshal([]byte(text), &plan); err != nil || strings.Contains(text, "null") || len(plan.Products) != 2 || len(plan.Products[0].Traced) != 2 || plan.Products[1].Traced != nil {
		t.Error(text, err)
	}
	code, out, stderr := tmacc("compile", "-json", "-no-measure")
	if code != 0 { // the package does not build, or its tests fail
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"tmacc: Own on amd64/avx512vbmi: the trace is for 1 column only; larger products use that kernel column by column\n",
		"tmacc: Own on amd64/avx2: the trace is for 2 columns only; narrower products use that kernel, padded, and take as long as products of 2\n",
	} {
		if strings.Count(stderr, " only; ") != 2 || !strings.Contains(stderr, want) {
			t.Errorf("no %q in\n%s", want, stderr)
		}
	}
	var r delivery.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Products) != 2 {
		t.Fatal(err, out)
	}
	widths := map[string][]int{}
	stored := map[string]float64{}
	for _, k := range r.Products[0].Kernels {
		widths[k.Target] = append(widths[k.Target], k.Cols)
		stored[k.Target] = k.Bits
	}
	if !slices.Equal(widths["amd64/avx2"], []int{2}) || !slices.Equal(widths["amd64/avx512vbmi"], []int{1}) || len(widths["arm64/dotprod"]) < 3 {
		t.Errorf("%v columns", widths)
	}
	if stored["amd64/avx2"] != 2 || stored["amd64/avx512vbmi"] != 1.6 || r.Products[1].Name != "Other" {
		t.Errorf("%v bits for each code", stored)
	}
}

// A trace that does not compile is an error before anything is written, also where other targets have schedules.
func TestIllegalTrace(t *testing.T) {
	config(t, tracesConfig)
	good := json1(t, ok(t, "show", "-format", "tq2_0", "-cols", "2", "-target", "avx2", "-stage", "trace"))
	for name, text := range map[string]string{"avx2.json": good, "vbmi.json": strings.Replace(good, `"loop":"k"`, `"loop":"q"`, 1)} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"compile -q", "compile -dry-run", "compile -check -q"} {
		refused(t, refusal{exitUsage, "tmacc: trace vbmi.json of Own: tq2_0 on amd64/avx512vbmi: step ", args})
	}
	if files := slices.Sorted(maps.Keys(read(t, "."))); !slices.Equal(files, []string{"avx2.json", order.ConfigName, "vbmi.json"}) {
		t.Errorf("there are %v", files)
	}
}

// Shells are offered flags with one dash, and values.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"compile -mod":          "-model\t",
		"compile --mod":         "--model\t",
		"compile -target avx51": "avx512\navx512vbmi\n",
		"compile -format tern":  "ternary\n",
		"compile -model llama":  "llama-2-7b\nllama-2-7b-2bit\nllama-3-8b\n",
		"compil":                "compile\t",
		"tune -target avx51":    "avx512\navx512vbmi\n",
		"bench -format tern":    "ternary\n",
		"show -core gold":       "golden-cove\n:4\n",
		"tune -core al":         "all\n:4\n",
		"show -core al":         ":0\n", // one core: the shell offers files
		"compare -mode l":       "l2\nl3\n",
		"explore -trace x":      "json\n:8\n",
	} {
		if out := ok(t, append([]string{"__complete"}, strings.Fields(args)...)...); !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, want %q", args, out, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := ok(t, "completion", shell); !strings.Contains(out, "__complete") {
			t.Errorf("no script for %s", shell)
		}
	}
}
