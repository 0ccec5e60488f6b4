package gen_test

import (
	"bytes"
	"flag"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

var update = flag.Bool("update", false, "rewrite golden files")

func problem(t testing.TB, name string, act int) ir.Problem {
	t.Helper()
	p, err := ir.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	if act > 0 {
		p.Act.Group = act
	}
	return p
}

// compile makes the kernels of p with default schedules for targets.
func compile(t testing.TB, name string, p ir.Problem, ts ...lower.Target) gen.Product {
	t.Helper()
	product := gen.Product{Name: name, Problem: p}
	for _, target := range ts {
		uses, err := chosen.Product(t.Context(), p, target)
		if err != nil {
			t.Fatal(err)
		}
		g, err := build.Variant(t.Context(), p, target, uses)
		if err != nil {
			t.Fatal(err)
		}
		product.Variants = append(product.Variants, g)
	}
	return product
}

func root(t testing.TB) string {
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// write puts a module of the package's own into a temporary directory.
func write(t *testing.T, s gen.Spec) string {
	t.Helper()
	s.Module = &gen.Module{Path: "example.com/" + s.Package, Replace: root(t)}
	files, err := gen.Package(s)
	if err != nil {
		t.Fatal(err)
	}
	checkFiles(t, s, files)
	dir := filepath.Join(t.TempDir(), "a module")
	if err := gen.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	if d, err := gen.Differences(dir, files); err != nil || len(d) > 0 {
		t.Errorf("written, and different: %v, %v", d, err)
	}
	return dir
}

// checkFiles: the same bytes every time, formatted as gofmt does.
func checkFiles(t *testing.T, s gen.Spec, files []lower.File) {
	t.Helper()
	again, err := gen.Package(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if again[i].Name != f.Name || !bytes.Equal(again[i].Data, f.Data) {
			t.Errorf("%s: differs when made again", f.Name)
		}
		if !strings.HasSuffix(f.Name, ".go") {
			continue
		}
		if tidy, err := format.Source(f.Data); err != nil || !bytes.Equal(tidy, f.Data) {
			t.Errorf("%s: is not as gofmt has it (%v)", f.Name, err)
		}
	}
}

// tool runs the go command in dir without the network.
func tool(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := try(dir, env, args...)
	if err != nil {
		t.Errorf("%s go %s: %v\n%s", strings.Join(env, " "), strings.Join(args, " "), err, out)
	}
	return out
}

// try is tool that may fail.
func try(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GONOSUMDB=*", "GOWORK=off")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPureGo: a package without kernels builds, vets and passes its tests.
func TestPureGo(t *testing.T) {
	dir := write(t, gen.Spec{Package: "plain", Products: []gen.Product{
		{Name: "A", Problem: problem(t, "w4-g32-z", 32)},
		{Name: "B", Problem: problem(t, "ternary-tensor", 0)},
		{Name: "C", Problem: problem(t, "w2-g16-s64-m", 16)},
		{Name: "D", Problem: problem(t, "cb4x16-g64", 16)},
	}})
	tool(t, dir, nil, "vet", "./...")
	tool(t, dir, nil, "test", "./...")
}

// useTest is a caller of the package that TestEndToEnd makes.
const useTest = `package kern

import (
	"os"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/runtime"
)

// TestFunctions multiplies a matrix of ones by twos: 64 each, and a bias.
func TestFunctions(t *testing.T) {
	if want := os.Getenv("WANT"); !strings.Contains(Q4Info(), "runs on "+want) {
		t.Errorf("%s does not run:\n%s", want, Q4Info())
	}
	const m, n, k = 70, 3, 32
	src := format.Source{Codes: make([]byte, m*k), Scales: make([]float32, m)}
	for i := range src.Codes {
		src.Codes[i] = 9
	}
	for i := range src.Scales {
		src.Scales[i] = 1
	}
	size, err := Q4PackedSize(m, k)
	if err != nil {
		t.Fatal(err)
	}
	packed := make([]byte, size)
	if err := Q4Pack(packed, src, m, k); err != nil {
		t.Fatal(err)
	}
	if back, err := Q4Unpack(packed); err != nil || back.Codes[m*k-1] != 9 {
		t.Fatal(err)
	}
	if size, err = Q4ActSize(n, k); err != nil {
		t.Fatal(err)
	}
	act, x, dst, bias := make([]byte, size), make([]float32, n*k), make([]float32, n*m), make([]float32, m)
	for i := range x {
		x[i] = 2
	}
	bias[m-1] = 0.5
	run := func() {
		if err := Q4PrepareAct(act, x, n, k); err != nil {
			t.Fatal(err)
		}
		for lo := 0; lo < m; lo += Q4Step() {
			if err := Q4Gemm(dst, packed, act, lo, min(lo+Q4Step(), m), runtime.Options{Bias: bias}); err != nil {
				t.Fatal(err)
			}
		}
	}
	run()
	for i, v := range dst {
		if want := 64 + bias[i%m]; v < want-0.01 || v > want+0.01 {
			t.Fatalf("element %d is %v, not %v", i, v, want)
		}
	}
	if a := testing.AllocsPerRun(10, run); a != 0 {
		t.Errorf("%v allocations", a)
	}
}
`

// TestEndToEnd compiles one product for each kind of target and one for fewer, and runs the packages' tests
// natively, in pure Go and emulated.
func TestEndToEnd(t *testing.T) {
	targets := []lower.Target{amd64.ByName("avx512vbmi"), amd64.ByName("avx2"), arm64.ByName("i8mm"), arm64.ByName("dotprod"), arm64.ByName("neon")}
	dir := write(t, gen.Spec{Package: "kern", Version: "v0.0.0-test", Products: []gen.Product{
		compile(t, "Q4", problem(t, "q4_0", 32), targets...),
		compile(t, "W2", problem(t, "w2", 0), amd64.ByName("avx2"), arm64.ByName("dotprod")), // on others it takes what they can run
	}})
	if err := os.WriteFile(filepath.Join(dir, "use_test.go"), []byte(useTest), 0o666); err != nil {
		t.Fatal(err)
	}
	vet(t, dir)
	tool(t, dir, []string{"WANT=purego"}, "test", "-tags", "purego", ".")
	if goruntime.GOARCH == "amd64" {
		tests := testBinary(t, dir, "amd64")
		for _, env := range [][]string{{"WANT=amd64/avx2", "TMACC_CPU=-avx512vbmi"}, {"WANT=amd64"}} {
			start(t, dir, env, tests)
		}
	}
	t.Run("arm64", func(t *testing.T) {
		emulator, tests := qemu(t), testBinary(t, dir, "arm64")
		for want, cpu := range map[string]string{"i8mm": "max", "dotprod": "neoverse-n1", "neon": "cortex-a57"} {
			start(t, dir, []string{"WANT=arm64/" + want}, emulator, "-cpu", cpu, tests)
		}
	})
}

// testBinary is the program that go test runs for the package in dir, linked once for several runs.
func testBinary(t *testing.T, dir, arch string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), arch+".test")
	tool(t, dir, []string{"GOARCH=" + arch}, "test", "-c", "-o", path, ".")
	return path
}

// start runs a program in dir that must succeed and pass tests.
func start(t *testing.T, dir string, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "PASS\n" {
		t.Errorf("%s %s %s: %v\n%s", strings.Join(env, " "), program, strings.Join(args, " "), err, out)
	}
}

// TestMixed: files of two packages do not build together, in whatever order one
// replaces the other.
func TestMixed(t *testing.T) {
	amd := []string{"GOARCH=amd64"}
	s := gen.Spec{Package: "mixed", Products: []gen.Product{compile(t, "W2", problem(t, "w2", 0), amd64.ByName("avx2"))}}
	dir := write(t, s)
	s.Version = "v1.2.3" // all else is the same
	files, err := gen.Package(s)
	if err != nil {
		t.Fatal(err)
	}
	put := func(f lower.File) {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range files {
		put(f)
		out, err := try(dir, amd, "test", "-c", "-o", os.DevNull, ".")
		if last := i == len(files)-1; (err == nil) != last {
			t.Errorf("with %d of %d files of the other package: %v\n%s", i+1, len(files), err, out)
		}
	}
	i := slices.IndexFunc(files, func(f lower.File) bool { return f.Name == "mixed_avx2_amd64.s" })
	put(lower.File{Name: files[i].Name, Data: bytes.ReplaceAll(files[i].Data, []byte("const_build_"), []byte("const_build_1"))})
	if out, err := try(dir, amd, "build", "."); err == nil || !strings.Contains(out, files[i].Name) {
		t.Errorf("assembly of another package builds: %v\n%s", err, out)
	}
}

// qemu is the emulator of arm64.
func qemu(t *testing.T) string {
	path, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("needs qemu-aarch64 (Debian: qemu-user)")
	}
	return path
}

// vet checks the package for linux/amd64 and for one in three of the other kinds of systems, or all with TMACC_LONG=1.
func vet(t *testing.T, dir string) {
	systems := drawn.Some(drawn.New(t), 3, []string{"linux/arm64", "windows/amd64", "darwin/arm64", "linux/riscv64", "linux/386", "js/wasm"})
	for _, system := range append([]string{"linux/amd64"}, systems...) {
		goos, arch, _ := strings.Cut(system, "/")
		tool(t, dir, []string{"GOOS=" + goos, "GOARCH=" + arch}, "vet", "./...")
		if testing.Short() && goruntime.GOARCH == "amd64" {
			return
		}
	}
	tool(t, dir, nil, "vet", "-tags", "purego", "./...")
}
