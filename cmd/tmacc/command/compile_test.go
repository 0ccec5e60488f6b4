package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// TestMain makes this binary the command for tests that need a process of it, and its own worker.
func TestMain(m *testing.M) {
	llama.Main()
	worker.Main()
	quick = timing.Options{Rounds: 1} // no test wants figures to be good
	bench.Brief()
	chosen.Share()
	if os.Getenv("TMACC_TEST_MAIN") != "" {
		Main(nil)
	}
	folder, err := os.MkdirTemp("", "tmacc-cache-") // of the default schedules that these tests choose
	if err == nil {
		err = os.Setenv(cache.EnvFolder, folder)
	}
	if err != nil {
		panic(err)
	}
	sparing.Run(m, func() { os.RemoveAll(folder) })
}

// read is the content of all files in dir, by name.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

// The package is written, twice the same, as a module of its own only where there
// is none.
func TestCompileWrites(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	compile := []string{"compile", "-no-check", "-format", "w2", "-format", "w4-g32", "-target", "avx2,dotprod", "-o", dir}
	out := ok(t, compile...)
	for _, want := range []string{"package mine in " + dir + ", module mine\n", "W2: w2 weights", "W4G32: ", "w4_g32_avx2_n1", "w2_dotprod_n1", "not checked", "decompose dot"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	files := read(t, dir)
	for _, name := range []string{"mine.go", "mine_test.go", "mine_avx2_amd64.s", "mine_dotprod_arm64.s", "go.mod"} {
		if files[name] == "" {
			t.Errorf("no file %s", name)
		}
	}
	ok(t, compile...)
	for name, text := range read(t, dir) {
		if text != files[name] {
			t.Errorf("%s differs the second time", name)
		}
	}
	below := filepath.Join(dir, "internal", "B-2")
	if out := ok(t, "compile", "-no-check", "-format", "w2", "-target", "avx2", "-o", below); !strings.Contains(out, "package kernels in "+below+"\n") {
		t.Error(out)
	}
	if names := read(t, below); names["go.mod"] != "" || names["kernels.go"] == "" {
		t.Error("a module in a module")
	}
	own := filepath.Join(dir, "own")
	ok(t, "compile", "-no-check", "-format", "w2", "-target", "avx2", "-o", own, "-module", "example.com/own", "-package", "low")
	if f := read(t, own); !strings.HasPrefix(f["go.mod"], "module example.com/own\n") || f["low.go"] == "" {
		t.Error(f["go.mod"])
	}
}

// A module whose name the go command takes for a package of its own, or for several packages, is refused before anything is written.
func TestCompileStandard(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	t.Chdir(t.TempDir())
	for args, path := range map[string]string{"-o math": "math", "-o sub/time": "time", "-o k -module crypto/rand": "crypto/rand", "-o k -module std": "std", "-o all": "all", "-o tool": "tool"} {
		dir := strings.Fields(args)[1]
		want := "tmacc: -o " + dir + ": a module " + path + " would have a name that means something else to the go command: give another with -module, such as -module example.com/" + path
		refused(t, refusal{exitUsage, want, "compile -q -no-check -format w2 -target avx2 " + args})
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("there are %v, %v", files, err)
	}
	ok(t, "compile", "-dry-run", "-format", "w2", "-target", "avx2", "-o", "math", "-module", "example.com/math")
	ok(t, "compile", "-dry-run", "-no-check", "-format", "w2", "-target", "avx2", "-o", "math", "-module", "none")
	refused(t, refusal{exitUsage, "tmacc: -module none: math is in no module, where the go command builds nothing: leave -module out, or give -no-check", "compile -dry-run -format w2 -target avx2 -o math -module none"})
}

// The package is tested for this machine, whatever the environment says to compile programs for.
func TestCompileForeign(t *testing.T) {
	needMeasuring(t)
	t.Setenv("GOOS", "windows")
	t.Setenv("GOARCH", "arm64")
	for _, k := range report(t, 0, "-format", "w2", "-target", "avx2", "-no-measure", "-o", t.TempDir()).Products[0].Kernels {
		if k.Exact != delivery.Checked {
			t.Errorf("%+v", k)
		}
	}
}

// What a killed call has left to do is done; -check and -dry-run change nothing.
func TestCompileCompletes(t *testing.T) {
	dir := t.TempDir()
	done, begun := filepath.Join(dir, "low.go"), filepath.Join(dir, ".tmacc-commit")
	if err := os.Mkdir(begun, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(begun, "low.go"), []byte("package low\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-check"}, {"-dry-run"}, {"-no-check"}} {
		if _, err := os.Stat(done); err == nil {
			t.Errorf("there already before tmacc compile %v", args)
		}
		tmacc(append([]string{"compile", "-q", "-format", "w8", "-target", "avx2", "-o", dir, "-package", "low"}, args...)...)
	}
	if text, err := os.ReadFile(done); err != nil || len(text) == 0 {
		t.Error(err)
	}
	if _, err := os.Stat(begun); err == nil {
		t.Error("the directory stays")
	}
}

// In the checkout of tmacc a package is a module of its own, too.
func TestCompileInCheckout(t *testing.T) {
	dir, err := os.MkdirTemp(".", "testdata-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ok(t, "compile", "-no-check", "-format", "w2", "-target", "avx2", "-o", dir, "-package", "low")
	if f := read(t, dir); !strings.Contains(f["go.mod"], "=> ../../../..\n") {
		t.Error(f["go.mod"])
	}
	os.Remove(filepath.Join(dir, "go.mod"))
	ok(t, "compile", "-no-check", "-format", "w2", "-target", "avx2", "-o", dir, "-package", "low", "-module", "none")
	if f := read(t, dir); f["go.mod"] != "" {
		t.Error(f["go.mod"])
	}
}

// report compiles and returns what -json says.
func report(t *testing.T, code int, args ...string) delivery.Report {
	t.Helper()
	got, out, stderr := tmacc(append([]string{"compile", "-json", "-q"}, args...)...)
	if got != code {
		t.Fatalf("exit code %d, want %d\n%s", got, code, stderr)
	}
	var r delivery.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// A file's matrices are gathered by format and shape; what cannot be read is
// listed.
func TestCompileFile(t *testing.T) {
	r := report(t, 0, "../../../testdata/gguf/llama-q4_0.gguf", "-no-check", "-target", "avx2", "-o", t.TempDir())
	if len(r.Products) != 2 || len(r.Left) != 0 || len(r.Others) != 7 {
		t.Fatalf("%+v", r)
	}
	if p := r.Products[0]; p.Format != "q6_k" || p.ActGroup != 16 || p.Shapes[0].Tensors[0] != "output.weight" {
		t.Errorf("%+v", p)
	}
	p, matrices := r.Products[1], 0
	for _, s := range p.Shapes {
		matrices += s.Count
	}
	if p.Format != "q4_0" || p.ActGroup != 32 || matrices != 22 || p.Kernels[0].Stored != 4.5 || p.Kernels[0].Bits != 4 {
		t.Errorf("%+v", p)
	}
	r = report(t, 0, "../../../testdata/gguf/blocks-i2s.gguf", "-no-check", "-target", "avx2", "-o", t.TempDir())
	if len(r.Products) != 1 || len(r.Left) != 0 || len(r.Floats) != 3 || r.Floats[0] != "I2_S.ref" {
		t.Fatalf("%+v", r)
	}
	if r := report(t, 0, "-model", "bitnet-b1.58-2b-4t", "-no-check", "-target", "avx2", "-o", t.TempDir()); len(r.Products) != 2 || len(r.Products[0].Shapes) != 4 {
		t.Errorf("%+v", r)
	}
}

// A built-in model has a constructor for each role, as a file has.
func TestCompileModel(t *testing.T) {
	dir := t.TempDir()
	ok(t, "compile", "-model", "bitnet-b1.58-2b-4t", "-no-check", "-q", "-target", "avx2", "-o", dir, "-package", "low")
	text := read(t, dir)["low_tensors.go"]
	for _, want := range []string{
		"func NewAttnQ(layer int, data []byte) (AttnQ, error)", "func NewOutput(data format.Source) (Output, error)", "blk.29.ffn_down.weight", "2560 rows of 6912 in I2_S",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in low_tensors.go", want)
		}
	}
	ok(t, "compile", "-model", "llama-3-8b", "-gguf", "../../../testdata/gguf/llama-q4_0.gguf", "-no-check", "-q", "-target", "avx2", "-o", t.TempDir(), "-package", "both")
}

// The package is that of the files beside it, as go generate or they say, or -package; another one is refused.
func TestPackageBeside(t *testing.T) {
	for _, c := range []struct {
		files   map[string]string
		env     string // of go generate
		args    string
		want    string // the package, or
		refusal string
	}{
		{want: "m"},
		{args: "-package other", want: "other"},
		{env: "kernels", want: "kernels"},
		{env: "kernels", args: "-package m", want: "m"},
		{env: "kernels", args: "-o ../m", want: "kernels"},
		{env: "kernels", args: "-o sub", want: "sub"},
		{env: "my_kernels", want: "m"},
		{files: map[string]string{"generate.go": "package kernels"}, env: "kernels", want: "kernels"},
		{files: map[string]string{"generate.go": "package kernels"}, args: "-package kernels", want: "kernels"},
		{files: map[string]string{"generate.go": "package kernels"}, want: "kernels"},
		{files: map[string]string{"generate.go": "package kernels"}, args: "-package m", refusal: "generate.go is of package kernels, the kernels beside it would be of m: give -package kernels"},
		{files: map[string]string{"a.go": "package a", "b.go": "package b"}, refusal: "b.go is of package b, the kernels beside it would be of a"},
		{files: map[string]string{"main.go": "package main"}, env: "main", refusal: "main.go is of package main, the kernels beside it would be of m: kernels cannot be of main: give another directory"},
		{files: map[string]string{"my_test.go": "package other", "ignored.go": "//go:build ignore\n\npackage main", "bad.go": "pakage x", "x.txt": ""}, want: "m"},
	} {
		dir := filepath.Join(t.TempDir(), "m")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		t.Chdir(dir)
		t.Setenv("GOPACKAGE", c.env)
		args := append([]string{"compile", "-format", "w2"}, strings.Fields(c.args)...)
		if !strings.Contains(c.args, "-o") {
			args = append(args, "-o", ".")
		}
		if c.refusal != "" {
			refused(t, refusal{exitUsage, c.refusal, strings.Join(args, " ")})
			continue
		}
		if out := ok(t, append(args, "-dry-run")...); !strings.HasPrefix(out, "would write package "+c.want+" in ") {
			t.Errorf("%+v: %s", c, out)
		}
	}
}

// A schedule of the user's own is the one that is compiled, in a file as show prints it.
func TestCompileTrace(t *testing.T) {
	shown := ok(t, "show", "-format", "w2", "-cols", "2", "-target", "avx2", "-stage", "trace")
	r := report(t, 0, "-format", "w2", "-trace", file(t, "t.json", shown), "-target", "avx2", "-no-check", "-o", t.TempDir())
	if k := r.Products[0].Kernels; len(k) != 1 || k[0].Cols != 2 {
		t.Errorf("%+v", k)
	}
}

func needMeasuring(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("measures for some seconds")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	if len(targeting.Here()) == 0 || !jit.Supported() {
		t.Skip(jit.ErrPlatform)
	}
}

// All of compile: kernels are compared with the definition, the package builds,
// vets and passes its tests, and speeds are there. TestConfigMeasures does the same by a file, with activations in f32.
func TestCompileChecks(t *testing.T) {
	needMeasuring(t)
	checked(t, report(t, 0, "-format", "ternary", "-target", "host", "-o", t.TempDir()), delivery.Checked)
}

// checked looks at the only product of a report, whose kernels must be as exact as said, and measured.
func checked(t *testing.T, r delivery.Report, want delivery.Exactness) {
	t.Helper()
	if len(r.Products) != 1 || len(r.Products[0].Kernels) == 0 {
		t.Fatalf("%+v", r)
	}
	for _, k := range r.Products[0].Kernels {
		if k.Exact != want || k.Speed == nil || k.Speed.GEMV <= 0 || k.Speed.ReadShare <= 0 {
			t.Errorf("%+v", k)
		}
	}
}

// A line of bench -json has these fields and no others, except the commit, which Go does not record in tests.
func TestBenchJSON(t *testing.T) {
	needMeasuring(t)
	out := ok(t, "bench", "-json", "-q", "-format", "w2,codebook6", "-mode", "l2", "-n", "1,9")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 {
		t.Fatal(out)
	}
	want := strings.Fields(`format bits_per_weight group m k n target family exact threads mode ns cycles clock_ghz weights_per_cycle
		gweights_s gb_s ceiling_gb_s ceiling_gmac_s share prepare_ns prepare_cycles host date`)
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	delete(first, "commit")
	for _, name := range want {
		if v, ok := first[name]; !ok || v == "" || name != "group" && v == 0.0 {
			t.Errorf("%s is %v", name, v)
		}
	}
	known := first["family"] == "dot" || first["family"] == "table" // which one is for the model of this machine's core to say
	if len(first) != len(want) || first["m"] != 512.0 || !known || first["mode"] != "l2" {
		t.Error(lines[0])
	}
}

// Ctrl-C leaves neither temporary files nor parts of files.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sends a signal")
	}
	for _, wait := range []time.Duration{500 * time.Millisecond, 4 * time.Second} { // of CPU time, while it chooses schedules
		temp, dir := t.TempDir(), filepath.Join(t.TempDir(), "k")
		cmd := exec.Command(os.Args[0], "compile", "-model", "llama-2-7b", "-o", dir)
		cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1", "TMPDIR="+temp, cache.EnvFolder+"="+t.TempDir(), "TMACC_TEST_SCHEDULES=off")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		runFor(t, cmd.Process, wait)
		cmd.Process.Signal(os.Interrupt)
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.HasSuffix(stderr.String(), "tmacc: interrupted\n") {
			t.Errorf("after %v: %v\n%s", wait, err, stderr.String())
		}
		left, _ := filepath.Glob(filepath.Join(temp, "*"))
		parts, _ := filepath.Glob(filepath.Join(dir, ".*"))
		if len(left)+len(parts) > 0 {
			t.Errorf("after %v there are %v %v", wait, left, parts)
		}
	}
}

// runFor waits until a process has used some CPU time, or where no file says that, as long.
func runFor(t *testing.T, p *os.Process, wait time.Duration) {
	t.Helper()
	const ticks = 100 // in a second, on all architectures
	for used := time.Duration(0); used < wait; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
		_, text, _ := strings.Cut(string(data), ") ")
		fields := strings.Fields(text)
		if err != nil || len(fields) < 13 {
			time.Sleep(wait)
			return
		}
		if fields[0] == "Z" {
			t.Errorf("it has ended after %v of CPU time", used)
			return
		}
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		used = time.Duration(user+system) * time.Second / ticks
	}
}

// Ctrl-C ends what waits for a pipe.
func TestInterruptPipe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("sends a signal")
	}
	in, begin, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer begin.Close()
	cmd := exec.Command(os.Args[0], "show", "-format", "w4", "-trace", "-")
	cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hanging := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer hanging.Stop()
	if _, err := begin.Write(bytes.Repeat([]byte(" "), 1<<17)); err != nil { // more than a pipe holds: now it reads, and waits for more
		t.Fatal(err)
	}
	cmd.Process.Signal(os.Interrupt)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || stderr.String() != "tmacc: interrupted\n" {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}

// In a module that does not require tmacc the package does not build, and the error says what to do.
func TestCompileUnrequired(t *testing.T) {
	needMeasuring(t)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("go.mod", []byte("module example.com/mine\n\ngo 1.26.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := tmacc("compile", "-q", "-format", "w2", "-target", "avx2", "-no-measure", "-o", "k")
	if code != exitFailed || !strings.Contains(stderr, "whose module does not require "+gomod.Path+": go mod edit -replace "+gomod.Path+"=") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// What none of several targets can compile is listed, each with its reason.
func TestCompileNowhere(t *testing.T) {
	code, out, stderr := tmacc("compile", "-no-check", "-format", "w8", "-max-k", "16777216", "-target", "avx2,dotprod", "-o", filepath.Join(t.TempDir(), "none"))
	if code != exitUnsupported || !strings.Contains(stderr, "nothing of this can be compiled") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if strings.Contains(out, "…") {
		t.Errorf("a reason is cut in\n%s", out)
	}
	for _, target := range []string{"amd64/avx2", "arm64/dotprod"} {
		if !strings.Contains(out, target+" ") {
			t.Errorf("%s is not listed in\n%s", target, out)
		}
	}
}

// K of a measured product is whole groups.
func TestBenchWholeGroups(t *testing.T) {
	needMeasuring(t)
	var r measure.Record
	out := ok(t, "bench", "-json", "-q", "-format", "w3-g48", "-mode", "l2", "-m", "64", "-n", "1")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.K != 2064 {
		t.Errorf("%v: %s", err, out)
	}
}
