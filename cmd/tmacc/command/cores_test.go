package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/tune"
)

// ownCoreFile is a file with a core of one's own. It is like a built-in one, after the replacements of old texts by new ones.
func ownCoreFile(t *testing.T, like string, replace ...string) string {
	t.Helper()
	text := ok(t, "cores", "-json", like)
	text = strings.Replace(text, `"name": "`+like+`"`, `"name": "my-core"`, 1)
	return file(t, "core.json", strings.NewReplacer(replace...).Replace(text))
}

// A package for a core of one's own names it in its files, its dispatch and its table.
func TestOwnCore(t *testing.T) {
	path, dir := ownCoreFile(t, "zen5"), t.TempDir()
	out := ok(t, "compile", "-q", "-format", "w8", "-target", "avx512vbmi,avx2", "-core", path, "-no-check", "-module", "none", "-o", dir)
	if !strings.Contains(out, "w8_avx512vbmi_my_core_n1 ") {
		t.Errorf("the table has no kernel of the target:\n%s", out)
	}
	files := read(t, dir)
	dispatch := ""
	for name, text := range files {
		if strings.HasSuffix(name, "_dispatch_amd64.go") {
			dispatch = text
		}
		if strings.HasSuffix(name, "_avx512vbmi_my_core_amd64.s") {
			files["kernels"] = name
		}
	}
	own, ordinary := strings.Index(dispatch, `"amd64/avx512vbmi+my-core"`), strings.Index(dispatch, `"amd64/avx512vbmi"`)
	if own < 0 || ordinary < own || files["kernels"] == "" {
		t.Errorf("the package has the core at %d and the ordinary one at %d of its dispatch, kernels in %q", own, ordinary, files["kernels"])
	}
	if !strings.Contains(dispatch, `"AuthenticAMD"`) {
		t.Error("the dispatch does not name the CPUs of the core")
	}
}

// tmacc cores lists a file as it lists the built-in cores.
func TestCoresOfFile(t *testing.T) {
	out := ok(t, "cores", ownCoreFile(t, "golden-cove"))
	if !strings.Contains(out, "my-core") || !strings.Contains(out, "amd64/avx2+my-core") {
		t.Error(out)
	}
	if one := ok(t, "cores", "zen2"); !strings.Contains(one, "amd64/avx2+zen2") || strings.Contains(one, "zen4") {
		t.Error(one)
	}
}

// A file that is no core is refused by its file and the field.
func TestOwnCoreRefused(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.json")
	if err := os.WriteFile(big, []byte(`{"version": 5}`+strings.Repeat(" ", order.MaxCore)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{ownCoreFile(t, "zen5", `"my-core"`, `"zen4"`), `core.json: name is "zen4", which is a built-in core: choose another`},
		{ownCoreFile(t, "zen5", `"my-core"`, `"avx2"`), `core.json: name is "avx2", which is an instruction set: choose another`},
		{ownCoreFile(t, "zen5", `"my-core"`, `"host"`), `core.json: name is "host", which is a word of -target: choose another`},
		{ownCoreFile(t, "zen5", `avx512vbmi`, `avx1024`), `core.json: isas[0] is "amd64/avx1024": want an instruction set, see tmacc targets`},
		{ownCoreFile(t, "zen5", `amd64/avx512vbmi`, `dotprod`), `core.json: costs.logic is missing: arm64 needs a cost for each of logic, `},
		{ownCoreFile(t, "zen5", `"shuffle"`, `"shuffles"`), `core.json: costs.shuffle is missing`},
		{ownCoreFile(t, "zen5", `"version": 5,`, `"version": 5`), `core.json:3: invalid character`},
		{ownCoreFile(t, "zen5", `"pipeline"`, `"pipelines"`), `core.json: unknown field "pipelines"; there are version, name, `},
		{file(t, "empty.json", " "), `empty.json: is empty: want a core, as tmacc cores -json NAME prints one`},
		{file(t, "binary.json", "\x00\xff"), `binary.json: is no text in UTF-8`},
		{file(t, "model.json", "GGUF1234"), `model.json: is a GGUF file`},
		{big, `big.json: larger than 1 MiB: this is no core`},
		{filepath.Join(t.TempDir(), "missing.json"), `missing.json: no such file`},
	} {
		refused(t, refusal{2, c.want, "compile -format w2 -dry-run -target all -core " + c.path})
		refused(t, refusal{2, c.want, "cores " + c.path})
	}
	refused(t, refusal{2, `is a core for amd64/avx512vbmi, which -target does not name`, "compile -format w2 -dry-run -target avx2 -core " + ownCoreFile(t, "zen5")})
	one, other := ownCoreFile(t, "zen5"), ownCoreFile(t, "zen5", `"holds": true`, `"holds": false`)
	refused(t, refusal{2, `: another core is called my-core`, "compile -format w2 -dry-run -target all -core " + one + " -core " + other})
	refused(t, refusal{2, `-core zen6: there is no such core: have all, golden-cove, `, "compile -format w2 -dry-run -target avx2 -core zen6"})
	refused(t, refusal{2, `cores zen6: there is no such core: have golden-cove, `, "cores zen6"})
}

// A package is up to date whatever the lock has for somebody's own core.
func TestCheckWithOwnCoreInLock(t *testing.T) {
	w, _ := w2OnAVX2(t)
	var trace schedule.Trace
	if err := json.Unmarshal([]byte(json1(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace"))), &trace); err != nil {
		t.Fatal(err)
	}
	dir, args := t.TempDir(), []string{"-q", "-format", "w2", "-target", "avx2", "-module", "none", "-o"}
	if err := tune.ChangeLock(filepath.Join(dir, tune.LockName), func(l *tune.Lock) error {
		l.Put(tune.Entry{Product: "w2", Target: "amd64/avx2+my-core", Problem: tune.ProblemHash(w), Kernels: []tune.Kernel{{Cols: 1, Hash: "measured", Trace: trace}}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const note = "no built-in core is called my-core: if it is one of yours, add -core FILE.json"
	code, _, stderr := tmacc(append([]string{"compile", "-no-check"}, append(args, dir)...)...)
	if code != 0 || !strings.Contains(stderr, note) {
		t.Errorf("compile: exit code %d, want a note: %s", code, stderr)
	}
	if code, out, stderr := tmacc(append([]string{"compile", "-check"}, append(args, dir)...)...); code != 0 || !strings.Contains(out, "is up to date") || !strings.Contains(stderr, note) {
		t.Errorf("compile -check: exit code %d, %s%s", code, out, stderr)
	}
}

// A relative path in tmacc.yaml is that of the file.
func TestOwnCoreInConfig(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(ownCoreFile(t, "zen2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "core.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "tmacc.yaml")
	if err := os.WriteFile(config, []byte("format: w2\ntarget: avx2\ncore: core.json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, "compile", "-dry-run", "-config", config); !strings.Contains(out, " for amd64/avx2+my-core, amd64/avx2\n") {
		t.Error(out)
	}
}

// The ways that commands read -target with -core: of any machine, of one, and one target.
func TestTargetsWithCores(t *testing.T) {
	c, own := new(cli), ownCoreFile(t, "golden-cove")
	for _, x := range []struct {
		words, cores, want string
	}{
		{"avx512", own, "amd64/avx512+my-core, amd64/avx512"},
		{"all", "all", "amd64/avx512, amd64/avx2"},
		{"avx2", "golden-cove", "amd64/avx2"},
	} {
		if ts, err := c.finder().On(intel(), strings.Split(x.words, ","), []string{x.cores}); err != nil || targeting.Names(ts) != x.want {
			t.Errorf("-target %s -core %s: %s, %v; want %s", x.words, x.cores, targeting.Names(ts), err, x.want)
		}
	}
	if _, err := c.finder().On(intel(), []string{"avx2"}, []string{"zen2"}); err == nil || err.Error() != "-core zen2: the machine lacks that core: it is for CPUs of AuthenticAMD or HygonGenuine" {
		t.Error(err)
	}
	for core, want := range map[string]string{"": "amd64/avx2", "zen2": "amd64/avx2+zen2", own: "amd64/avx2+my-core", "golden-cove": "amd64/avx2"} {
		if one, err := c.finder().One("avx2", core); err != nil || one.Machine().Name != want {
			t.Errorf("-target avx2 -core %s: %v; want %s", core, err, want)
		}
	}
	if _, err := c.finder().One("avx2", "all"); err == nil || err.Error() != "-core all: want one core" {
		t.Error(err)
	}
	if one, err := c.finder().OneOn(intel(), "host", own); err != nil || one.Machine().Name != "amd64/avx512+my-core" {
		t.Error(err)
	}
	if _, err := c.finder().OneOn(intel(), "avx2", "zen2"); err == nil || !strings.HasPrefix(err.Error(), "-core zen2: the machine lacks that core") {
		t.Error(err)
	}
}

// An old name of a target is said once per command, and nothing is said of new ones.
func TestOldTargetNames(t *testing.T) {
	const note = `note: target "zen4" is now "avx512vbmi+zen4": -target avx512vbmi -core zen4` + "\n"
	for args, want := range map[string]string{
		"compile -format w2 -dry-run -target zen4,avx2 -target zen4": note,
		"show -format w2 -stage problem -target zen4":                note,
		"show -format w2 -stage problem -target avx512vbmi+zen4":     "",
		"compile -format w2 -dry-run -target avx512vbmi -core zen4":  "",
		"show -format w2 -stage problem -target amd64/zen4":          strings.Replace(note, `"zen4"`, `"amd64/zen4"`, 1),
	} {
		if _, _, stderr := tmacc(strings.Fields(args)...); stderr != want && !(want == "" && !strings.Contains(stderr, "note:")) {
			t.Errorf("%s: %q, want %q", args, stderr, want)
		}
	}
	kernel := "name=A,format=w2,target=zen4,trace=" + file(t, "trace.json", "[]")
	if _, _, stderr := tmacc("compile", "-dry-run", "-target", "avx512vbmi+zen4", "-kernel", kernel); !strings.HasPrefix(stderr, note) {
		t.Errorf("-kernel %s: %q, want %q first", kernel, stderr, note)
	}
}
