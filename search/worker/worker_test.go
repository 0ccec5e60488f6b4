package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/jit"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// headers give the instructions that functions of tests are made of, and their registers, the same names on all architectures.
var headers = map[string]string{
	"amd64": `
#define A AX
#define B BX
#define C CX
#define D DX
#define MOV MOVQ
#define ADD ADDQ
#define SUBS SUBQ
#define AND ANDQ
#define BNE JNE
`,
	"arm64": `
#define A R0
#define B R1
#define C R2
#define D R3
#define MOV MOVD
`,
}

// function is TEXT of a function of two buffers, in A and B.
func function(name string, body ...string) string {
	return fmt.Sprintf("TEXT ·%s(SB), NOSPLIT, $0-8\n\tMOV args+0(FP), C\n\tMOV 0(C), A\n\tMOV 8(C), B\n\t%s\n\tRET\n\n",
		name, strings.Join(body, "\n\t"))
}

// header is that of this machine.
var header = headerOf(runtime.GOARCH)

func headerOf(arch string) string { return "#include \"textflag.h\"\n" + headers[arch] }

// broken are functions that do one thing wrong each, and one that does not.
var broken = brokenOn(runtime.GOARCH)

func brokenOn(arch string) lower.File {
	return lower.File{Name: "broken.s", Data: []byte(headerOf(arch) +
		function("Add", "MOV (A), D", "ADD $40, D", "MOV D, (B)") +
		function("Slow", "MOV $300000000, D", "loop:", "SUBS $1, D", "BNE loop", "MOV $42, D", "MOV D, (B)") +
		function("UD2", "UNDEF") +
		function("Endless", "loop:", "JMP loop") +
		function("WriteAfter", "MOVB D, 8(B)") +
		function("WriteBefore", "MOVB D, -1(B)") +
		function("ReadAfter", "MOVB 8(A), D") +
		function("ReadBefore", "MOVB -1(A), D") +
		function("Aligned", "MOV B, D", "AND $4095, D", "MOV D, (B)"))}
}

var params = []vir.Param{{Name: "a"}, {Name: "dst"}}

func args() []vir.Arg {
	return []vir.Arg{{Buf: []byte{2, 0, 0, 0, 0, 0, 0, 0}}, {Buf: make([]byte, 8)}}
}

// load loads files one way or the other, and checks that it was that way.
func load(t *testing.T, opt Options, want How, files ...lower.File) *Code {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	if want == Mapped && !jit.Supported() {
		t.Skip(jit.ErrPlatform)
	}
	c, err := Load(opt, files...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if how, err := c.How(); err != nil || how != want {
		t.Fatalf("functions are %q, %v; want %q", how, err, want)
	}
	return c
}

// runs checks that a function is right.
func runs(t *testing.T, c *Code) {
	t.Helper()
	f, err := c.Func("Add", "")
	if err != nil {
		t.Fatal(err)
	}
	a := args()
	if err := f.Run(params, a); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(a[1].Buf); got != 42 {
		t.Errorf("2 + 40 is %d", got)
	}
}

// Each fault is an error that names the trace and says what happened, and the next
// call works, whether functions are mapped or linked.
func TestFaults(t *testing.T) {
	faults := []struct{ name, signal string }{
		{"UD2", "SIGILL"}, {"WriteAfter", "SIGSEGV"}, {"WriteBefore", "SIGSEGV"}, {"ReadAfter", "SIGSEGV"}, {"ReadBefore", "SIGSEGV"},
	}
	for _, how := range []How{Mapped, Linked} {
		t.Run(string(how), func(t *testing.T) {
			c := load(t, Options{Limit: 2 * time.Second, Build: how == Linked}, how, broken)
			runs(t, c)
			for _, x := range faults {
				f, err := c.Func(x.name, "trace of "+x.name)
				if err != nil {
					t.Fatal(err)
				}
				var crash *Crash
				if err := f.Run(params, args()); !errors.As(err, &crash) || crash.Signal != x.signal || crash.What != "trace of "+x.name {
					t.Errorf("%s: %v (%+v), want a Crash by %s", x.name, err, crash, x.signal)
				}
				runs(t, c)
			}
			f, err := c.Func("Endless", "endless trace")
			if err != nil {
				t.Fatal(err)
			}
			var timeout *Timeout
			if err := f.Run(params, args()); !errors.As(err, &timeout) || timeout.What != "endless trace" {
				t.Errorf("endless loop: %v", err)
			}
			runs(t, c)
			if f, err = c.Func("Aligned", "a trace"); err != nil {
				t.Fatal(err)
			}
			var wrong *Wrong
			if err := f.Run(params, args()); !errors.As(err, &wrong) || wrong.What != "a trace" || !strings.Contains(wrong.Difference, "dst") {
				t.Errorf("result that depends on addresses: %v", err)
			}
			runs(t, c)
		})
	}
}

// An emulated machine maps functions of its own architecture, and faults there are told apart.
func TestEmulated(t *testing.T) {
	qemu, err := exec.LookPath("qemu-aarch64")
	if err != nil {
		t.Skip("needs qemu-aarch64")
	}
	m, err := Emulated("arm64", qemu, "-cpu", "neoverse-n1")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if h := m.Host(); h.Arch != "arm64" || h.Lacks([]string{"ASIMDDP"}) != nil || h.Lacks([]string{"I8MM"}) == nil {
		t.Errorf("host %+v", h)
	}
	c := load(t, Options{On: m, Limit: 5 * time.Second}, Mapped, brokenOn("arm64"))
	runs(t, c)
	for name, signal := range map[string]string{"UD2": "SIGILL", "WriteAfter": "SIGSEGV", "WriteBefore": "SIGSEGV", "ReadAfter": "SIGSEGV", "ReadBefore": "SIGSEGV"} {
		wants(t, c, name, func(err error) bool { x := (*Crash)(nil); return errors.As(err, &x) && x.Signal == signal })
		runs(t, c)
	}
	wants(t, c, "Endless", func(err error) bool { x := (*Timeout)(nil); return errors.As(err, &x) })
	runs(t, c)
}

// With TMACC_JIT=off nothing is mapped: go build links the functions.
func TestForced(t *testing.T) {
	t.Setenv(jit.EnvJIT, jit.Off)
	runs(t, load(t, Options{}, Linked, broken))
	if _, err := jit.Build(runtime.GOARCH, broken); !errors.Is(err, jit.ErrPlatform) {
		t.Errorf("jit.Build: %v, want ErrPlatform", err)
	}
}

// A process serves one Code after another, and several at once have their own.
func TestTurns(t *testing.T) {
	one := load(t, Options{}, Mapped, broken)
	two := load(t, Options{}, Mapped, lower.File{Name: "b.s", Data: []byte(header + function("Add", "MOV $42, D", "MOV D, (B)"))})
	for range 2 {
		runs(t, one)
		runs(t, two)
	}
	pid := one.p.cmd.Process.Pid
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	three := load(t, Options{}, Mapped, broken)
	runs(t, three)
	first := three.p.cmd.Process.Pid
	three.Renew()
	if runs(t, three); three.p.cmd.Process.Pid == first || three.p.cmd.Process.Pid == pid {
		t.Error("a process is no new one after Renew")
	}
	three = load(t, Options{}, Mapped, broken)
	runs(t, three)
	four := load(t, Options{}, Mapped, broken)
	runs(t, four)
	if three.p.cmd.Process.Pid != pid && four.p.cmd.Process.Pid != pid {
		t.Error("an idle process was not used again")
	}
}

// TestRunAll: calls of one request share buffers, and each sees them as they were before.
func TestRunAll(t *testing.T) {
	c := load(t, Options{}, Mapped, broken)
	f, err := c.Func("Add", "")
	if err != nil {
		t.Fatal(err)
	}
	from, second := args()[0], args()[1]
	chained, third := args()[1], args()[1]
	if err := f.RunAll(params, [][]vir.Arg{{from, chained}, {from, second}, {chained, third}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint64{42, 42, 40} {
		if got := binary.LittleEndian.Uint64([]vir.Arg{chained, second, third}[i].Buf); got != want {
			t.Errorf("call %d stored %d, want %d", i, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	c := load(t, Options{}, Mapped, broken)
	if _, err := c.Func("Sub", ""); err == nil || !strings.Contains(err.Error(), "Sub") {
		t.Errorf("unknown function: %v", err)
	}
	f, err := c.Func("Add", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Run(params, args()[:1]); err == nil || !strings.Contains(err.Error(), "1 arguments for 2") {
		t.Errorf("too few arguments: %v", err)
	}
	for _, build := range []bool{false, true} {
		for name, text := range map[string]string{"nothing to assemble": header, "NONSENSE": header + function("A", "NONSENSE A")} {
			if _, err := Load(Options{Build: build}, lower.File{Name: "f0.s", Data: []byte(text)}); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%q, build %v: %v", text, build, err)
			}
		}
	}
	hooked.Store(false)
	defer hooked.Store(true)
	if _, err := Load(Options{}, broken); !errors.Is(err, ErrNoMain) {
		t.Errorf("without Main: %v", err)
	}
}
