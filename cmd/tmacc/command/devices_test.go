package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/drawn"
)

// program is a folder with tmacc-vulkan, which is built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(os.Getenv(cache.EnvFolder), "programs-") // which goes with the tests
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir, "../tmacc-vulkan").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, nil
})

// device is the preferred device. It skips a test where there is none, and puts the program with Vulkan into PATH.
func device(t *testing.T) *shaders.Device {
	t.Helper()
	dir, err := program()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	lab, err := shaders.Open(t.Context(), "", func(what string) { t.Error(what) })
	if err != nil {
		t.Skip(err)
	}
	defer lab.Close()
	return lab.Device()
}

// noted is what a command on d prints, which must say on standard error if d is a software device.
func noted(t *testing.T, d *shaders.Device, args ...string) string {
	t.Helper()
	code, out, stderr := tmacc(args...)
	if code != 0 || d.Software != strings.Contains(stderr, "tmacc: "+d.Name+" is a software device: this CPU does its work") {
		t.Fatalf("tmacc %s: exit code %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return out
}

// lanes is a schedule of w2 for devices.
var lanes = filepath.Join("..", "..", "..", "tests", "shaders", "testdata", "w2.lanes.json")

func TestBenchDevice(t *testing.T) {
	d := device(t)
	var r deviceRecord
	text := noted(t, d, "bench", "-target", "spirv", "-format", "w2", "-trace", lanes, "-mode", "l2", "-m", "64", "-k", "512", "-n", "2", "-json", "-q")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if r.Target != "spirv/dot" || r.Ns <= 0 || r.GBS <= 0 || r.CeilingGBS <= 0 || r.Share <= 0 || r.Device == nil || r.Device.Name == "" || r.Bits != "equal" || r.N != 2 {
		t.Errorf("%s", text)
	}
}

// A script on a device chooses an illegal tile, takes it back, measures, searches, measures again after the search has ended its worker, and saves the trace that is shown: the
// lock has it, and so has the package. The log has the search. Saving the default schedule removes the product from the lock.
func TestExploreDevice(t *testing.T) {
	device(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "log.db")
	of := []string{"-target", "spirv", "-mode", "l2", "-m", "64", "-k", "512", "-log", log, "-o", dir}
	a, code := explored(t, `edit 3 by=0
problems
undo
search 5
measure
save anyway`, append(of, "-format", "w2", "-trace", lanes)...)
	if p, ok := a["problems"]["reply"].([]any); !ok || len(p) != 1 || p[0].(map[string]any)["kind"] != "illegal" {
		t.Errorf("%v", a["problems"])
	}
	found, is := a["search 5"]["reply"].(map[string]any)
	if !is || code != 0 {
		t.Fatalf("exit code %d, %v", code, a)
	}
	if r, ok := a["save anyway"]["reply"].(map[string]any); !ok || r["outcome"] != string(session.Locked) {
		t.Fatalf("%v", a["save anyway"])
	}
	var want schedule.Trace
	data, err := os.ReadFile(lanes)
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	l, fail := tune.ReadLock(filepath.Join(dir, tune.LockName))
	if err != nil || fail != nil || len(l.Entries) != 1 || len(l.Entries[0].Kernels) != 1 || l.Entries[0].Kernels[0].Trace.String() != want.String() {
		t.Errorf("%+v, %v, %v, want %v", l, fail, err, want)
	}
	var runs []tune.Run
	err = tune.Log{Path: log}.Each(false, func(r tune.Run, _ *tune.Trial) error { runs = append(runs, r); return nil })
	if err != nil || len(runs) != 1 || runs[0].Ended != found["ended"] || float64(runs[0].Trials) != found["measured"] || runs[0].Target != "spirv/dot" || len(runs[0].Usual) != 1 {
		t.Errorf("%+v, %v, want a run that found %v", runs, err, found)
	}
	page := filepath.Join(dir, "page.html")
	ok(t, "report", "-html", page, "-log", log)
	check := []string{"compile", "-format", "w2", "-target", "spirv", "-o", dir, "-no-check", "-no-measure"}
	ok(t, check...)
	ok(t, append(check[:7:7], "-check")...)
	a, _ = explored(t, "trace\ntake default\nsave", append(of, "-kernel", "w2")...)
	if r := a["trace"]["reply"].(map[string]any); !strings.HasPrefix(r["origin"].(string), "lock: ") {
		t.Errorf("%v", r["origin"])
	}
	if r, ok := a["save"]["reply"].(map[string]any); !ok || r["outcome"] != string(session.Removed) {
		t.Errorf("%v", a["save"])
	}
}

// Each number of activations has a place on a device, also where the CPU's third level of cache would be its only one.
func TestDevicePlaces(t *testing.T) {
	for _, modes := range [][]string{{measure.ModeL3}, {measure.ModeL2, measure.ModeL3, measure.ModeDRAM}, {measure.ModeL3, measure.ModeDRAM}} {
		found := map[int]int{}
		for _, at := range devicePlaces(modes, []int{1, 64}, 0, 0) {
			for _, n := range at.Ns {
				found[n]++
			}
			if at.Mode == measure.ModeL3 && len(modes) > 1 {
				t.Errorf("%v: a place in the third level", modes)
			}
		}
		if found[1] == 0 || found[64] != 1 {
			t.Errorf("%v: %v", modes, found)
		}
	}
}

func TestBenchDeviceRefused(t *testing.T) {
	broken := file(t, "broken.json", "{\n]")
	for _, c := range [][2]string{
		{"bench -target spirv,avx2", "-target spirv,avx2: devices and CPUs are measured one after the other: name either"},
		{"bench -target spirv -core zen4", "-core zen4: is not of a device, as -target spirv wants: have general, h200"},
		{"bench -device 1", "-device 1: is for -target spirv"},
		{"bench -target spirv/tiles", `unknown target "spirv/tiles": of devices there are spirv/`},
		{"show -format w2 -target spirv/", `unknown target "spirv/": of devices there are spirv/`},
		{"compile -format w2 -target host,spirv/tiles -o x", `unknown target "spirv/tiles": of devices there are spirv/`},
		{"compile -format w2 -target spirv -o x -core none.json", "none.json: no such file"},
		{"compile -format w2 -target spirv -o x -core " + broken, "broken.json:2: invalid character"},
		{"compile -format w2 -target spirv -o x -core zen4", "-core zen4: is not of a device, as -target spirv wants"},
		{"show -format w2 -target spirv -core " + broken, "broken.json:2: invalid character"},
		{"run -device 1", "-device 1: is for -target spirv"},
		{"run -target avx2", "-target avx2: want host, or spirv, for a device of Vulkan"},
		{"bench -target spirv,spirv/plain -model x.gguf", "-target spirv,spirv/plain: a model runs by the shaders of one target"},
		{"bench -target spirv -peer llama=x -model x.gguf", "-peer: does not measure devices"},
		{"tune -format w2 -target spirv -resume", "-resume: is not for devices: leave it out with -target spirv"},
		{"tune -format w2 -device 1", "-device 1: is for -target spirv"},
		{"tune -format w2 -trace " + lanes, "-trace: 1 file: want one for each of the 3 -n"},
	} {
		refused(t, refusal{exitUsage, c[1], c[0]})
	}
}

// A model on a device writes what it writes on the CPU. The program with Vulkan has the streams and the exit code.
func TestRunOnDevice(t *testing.T) {
	device(t)
	onCPU := ok(t, "run", "-n", "3", "-q")
	code, text, stderr := runProcess(nil, "-n", "3", "-target", "spirv")
	if code != 0 || text != onCPU {
		t.Errorf("exit code %d: %q, want %q\n%s", code, text, onCPU, stderr)
	}
	if !strings.Contains(stderr, "tq2_0 on ") || strings.Contains(stderr, "tq2_0 on amd64") || !strings.Contains(stderr, "(compiled)") {
		t.Errorf("%s", stderr)
	}
	if code, _, stderr := runProcess(nil, "-target", "spirv", "-context", "4"); code != exitUsage || !strings.Contains(stderr, "-context 4 has room for") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// Without a loader, or a device of that name, the command says what to do.
func TestNoDevice(t *testing.T) {
	device(t)
	refused(t, refusal{exitUsage, `no device is named "nvidia-9": choose one of 0: `, "bench -target spirv -format w2 -q -device nvidia-9"})
	t.Setenv("TMACC_VULKAN", filepath.Join(t.TempDir(), "no-loader"))
	refused(t, refusal{exitUsage, "there is no loader", "bench -target spirv -format w2 -q"})
	refused(t, refusal{exitUsage, "or name its file in TMACC_VULKAN", "tune -target spirv -format w2 -q"})
}

// TestTuneDevice: a search measures given schedules beside the default ones, and locks the best if it is faster.
func TestTuneDevice(t *testing.T) {
	d := device(t)
	dir := t.TempDir()
	var r struct {
		Measured int
		Target   string
		Outcome  string
		Lock     string
	}
	text := noted(t, d, "tune", "-target", "spirv", "-format", "w2", "-trace", lanes, "-mode", "l2", "-m", "64", "-k", "512", "-n", "1", "-trials", "3", "-o", dir,
		"-log", filepath.Join(dir, "log.db"), "-json", "-q")
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if r.Measured < 2 || r.Target != "spirv/dot" || (r.Outcome == "locked") != (r.Lock != "") {
		t.Errorf("%s", text)
	}
	if log := ok(t, "log", "-log", filepath.Join(dir, "log.db")); !strings.Contains(log, "spirv/dot") {
		t.Errorf("the log has no search on the device: %s", log)
	}
}

// user is a test of somebody who uses a package with shaders: products on the device have the bits of products on the CPU.
const user = `package kernels

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

func TestDevice(t *testing.T) {
	const m, n, k = 67, 5, 512
	rng := rand.New(rand.NewPCG(1, 1))
	src := W2.Weight().NewSource(make([]byte, m*k), m, k, func(format.Shared, int) float32 { return float32(rng.NormFloat64()) })
	for i := range src.Codes {
		src.Codes[i] = byte(rng.IntN(4))
	}
	x := make([]float32, n*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	multiply := func(p *runtime.Product) []float32 {
		w, err := p.NewMatrix(src, m, k)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		y := make([]float32, n*m)
		for range 2 {
			if err := w.Multiply(y, x, n, runtime.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		size, _ := p.ActSize(n, k)
		act, z := make([]byte, size), make([]float32, n*m)
		if err := p.PrepareAct(act, x, n, k); err != nil {
			t.Fatal(err)
		}
		if err := runtime.GemmAll(runtime.AllThreads, w.Call(z, act), w.Call(y, act)); err != nil {
			t.Fatal(err)
		}
		for i := range y {
			if y[i] != z[i] {
				t.Fatal("Multiply and GemmAll differ")
			}
		}
		return y
	}
	g, err := W2.On("spirv")
	if err != nil {
		t.Fatal(err)
	}
	if g.Device() == "" || W2.Device() != "" || !strings.Contains(g.Info(), "runs on spirv/dot (chosen by the caller, "+g.Device()+")") {
		t.Error(g.Device(), W2.Device(), g.Info())
	}
	onCPU, onDevice := multiply(W2), multiply(g)
	for i := range onCPU {
		if onCPU[i] != onDevice[i] {
			t.Fatalf("element %d is %v on the CPU, %v on the device", i, onCPU[i], onDevice[i])
		}
	}
	if _, err := W2.On("spirv@nothing of that name"); err == nil || !strings.Contains(err.Error(), "choose one of") {
		t.Error(err)
	}
}

func TestNoDevice(t *testing.T) {
	t.Setenv("TMACC_VULKAN", "no-loader")
	if _, err := W2.On("spirv@another"); err == nil || !strings.Contains(err.Error(), "W2: vulkan: ") {
		t.Error(err)
	}
}
`

// TestCompileShaders: a package with shaders gives the bits of its CPU kernels, and builds everywhere: one in three of the other builds is tried.
func TestCompileShaders(t *testing.T) {
	d := device(t)
	dir := filepath.Join(t.TempDir(), "kernels")
	args := []string{"compile", "-kernel", "name=W2,format=w2,target=spirv,trace=" + lanes, "-target", "host,spirv", "-o", dir}
	noted(t, d, append(args, "-no-measure")...) // it compares the shaders with the definition on the device
	ok(t, append(args, "-check")...)
	if names, err := filepath.Glob(filepath.Join(dir, "*_w2_dot_n1*.spv")); err != nil || len(names) != 2 {
		t.Errorf("shaders %v, %v", names, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "user_test.go"), []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	others := [][]string{{"", "vet", "-tags", "purego", "."}, {"GOOS=windows", "vet", "."}, {"GOOS=js GOARCH=wasm", "vet", "."}}
	for _, run := range append(drawn.Some(drawn.New(t), 3, others), []string{"", "test", "."}) {
		cmd := exec.Command("go", run[1:]...)
		cmd.Env = append(os.Environ(), strings.Fields(run[0])...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %v: %v\n%s", run, err, out)
		}
	}
	damaged(t, dir)
	ok(t, "compile", "-format", "w2", "-target", "host", "-no-check", "-o", dir)
	out, err := goList(dir)
	if names, _ := filepath.Glob(filepath.Join(dir, "*spirv*")); err != nil || len(names) > 0 || strings.Contains(out, "purego") || strings.Contains(out, "vulkan") {
		t.Errorf("a package without shaders has %v, imports %s, %v", names, out, err)
	}
}

func goList(dir string) (string, error) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// damaged exchanges a shader: the package says so.
func damaged(t *testing.T, dir string) {
	t.Helper()
	name := filepath.Join(dir, "kernels_w2_dot_n1.spv")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-run", "TestDevice", ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the shader is of another package: run tmacc compile again") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestHostDevice: a calibration is a file that -core accepts, and default schedules are the same by the same speeds.
func TestHostDevice(t *testing.T) {
	device(t)
	if out := ok(t, "host", "-target", "spirv"); !strings.Contains(out, "general") || !strings.Contains(out, "a load from memory, ns") {
		t.Error(out)
	}
	own := file(t, "own.json", ok(t, "host", "-calibrate", "-target", "spirv", "-json"))
	if out := ok(t, "show", "-format", "w2", "-target", "spirv", "-core", own, "-stage", "trace"); !strings.Contains(out, "decompose") {
		t.Error(out)
	}
	wrong := file(t, "wrong.json", `{"device_version": 1, "name": "x"}`)
	refused(t, refusal{exitUsage, "devices is missing", "show -format w2 -target spirv -core " + wrong})
	for _, c := range [][2]string{
		{"host -target avx2", `host -target avx2: want spirv`},
		{"host -device 1", "-device 1: is for -target spirv"},
		{"bench -target spirv -core h200,general", "-core h200,general: default schedules of shaders are for one device: name one"},
		{"compile -format w2 -target avx2 -core h200 -o x", "-core h200: is of a device: give it with -target spirv"},
	} {
		refused(t, refusal{exitUsage, c[1], c[0]})
	}
}
