package kernels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/sparing"
)

// child, in the environment, makes this test binary a process that asks for a product and prints what it heard and made. Where
// the process is to be killed follows on a second line: the text that begins an event.
const child = "TMACC_TEST_KERNELS"

func TestMain(m *testing.M) {
	chosen.Share()
	folder, killed, ok := strings.Cut(os.Getenv(child), "\n")
	if !ok {
		worker.Main()
		sparing.Run(m)
		return
	}
	if os.Getenv("PATH") != "" { // without it nothing may need a worker, which fails without Main
		worker.Main()
	}
	p, err := New(context.Background(), Options{Folder: folder, Say: func(e Event) {
		fmt.Println("event:", e)
		if killed != "" && strings.HasPrefix(e.String(), killed) {
			os.Exit(7)
		}
	}})
	var x *runtime.Product
	if err == nil {
		x, err = p.Product(w2(), format.Act{})
	}
	if err == nil {
		err = runtime.SelfTest(x, rand.New(rand.NewPCG(1, 2)))
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("made:", p.Made()[0].Origin, x.Target())
}

// process is a child.
func process(folder, killed string, env ...string) (code int, out string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), child+"="+folder+"\n"+killed), env...)
	text, _ := cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), string(text)
}

// w2 is a format whose kernels are quickly compiled.
func w2() format.Weight {
	w, err := format.Lookup("w2")
	if err != nil {
		panic(err)
	}
	return w
}

// heard is a provider and the texts of its events.
type heard struct {
	*Provider
	said []string
}

// provider is one for a folder, which maps kernels on this machine.
func provider(t *testing.T, folder string) *heard {
	t.Helper()
	h := &heard{}
	var err error
	if h.Provider, err = New(t.Context(), Options{Folder: folder, Say: func(e Event) { h.said = append(h.said, e.String()) }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// mapped skips where kernels are not compiled and mapped.
func mapped(t *testing.T) {
	t.Helper()
	target, _ := choose()
	if err := live.Mappable(); err != nil || target == nil || assembler() != nil {
		t.Skip("kernels are not compiled and mapped here")
	}
}

// one is a making by p alone.
func (p *heard) one() *making { return &making{Provider: p.Provider, say: p.say} }

func files(t *testing.T, folder string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// The first process compiles kernels, the second maps them: it has no go command, and could not start a worker.
func TestKept(t *testing.T) {
	mapped(t)
	folder := filepath.Join(t.TempDir(), "kernels")
	target, _ := choose()
	name := target.Machine().Name
	code, out := process(folder, "")
	want := fmt.Sprintf("event: compiling kernels of w2 for %s\nevent: checking kernels of w2 on %[1]s against the definition\nevent: \nmade: compiled %[1]s\n", name)
	if code != 0 || out != want {
		t.Fatalf("first: exit code %d\n%s\nwant\n%s", code, out, want)
	}
	if code, out := process(folder, "", "PATH="); code != 0 || out != "made: kept "+name+"\n" {
		t.Errorf("second: exit code %d\n%s", code, out)
	}
	if n := len(files(t, folder)); n != 1 {
		t.Errorf("%d files", n)
	}
}

// Without the go command and without kept kernels there is pure Go, and one line says why.
func TestWithoutGo(t *testing.T) {
	mapped(t)
	code, out := process(filepath.Join(t.TempDir(), "kernels"), "", "PATH=")
	want := "event: w2 runs in pure Go, about 200 times slower: jit: the go command is needed to assemble kernels, and is not in PATH: install Go from https://go.dev/dl, and the next start compiles them\nmade: none purego\n"
	if code != 0 || out != want {
		t.Errorf("exit code %d\n%s\nwant\n%s", code, out, want)
	}
}

// Processes that compile the same at once all have kernels, and keep them once.
func TestAtOnce(t *testing.T) {
	mapped(t)
	folder := filepath.Join(t.TempDir(), "kernels")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if code, out := process(folder, ""); code != 0 || strings.Contains(out, "pure Go") || strings.Contains(out, "not kept") {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}
	all.Wait()
	if code, out := process(folder, "", "PATH="); code != 0 || !strings.HasPrefix(out, "made: kept") || len(files(t, folder)) != 1 {
		t.Errorf("afterwards: exit code %d, %d files\n%s", code, len(files(t, folder)), out)
	}
}

// A process that is killed while it compiles or verifies leaves nothing that disturbs the next.
func TestKilled(t *testing.T) {
	mapped(t)
	folder := filepath.Join(t.TempDir(), "kernels")
	for _, at := range []string{"compiling", "checking"} {
		if code, out := process(folder, at); code != 7 {
			t.Fatalf("%s: exit code %d\n%s", at, code, out)
		}
		if left := files(t, folder); len(left) != 0 {
			t.Errorf("%s: left %v", at, left)
		}
	}
	if code, out := process(folder, ""); code != 0 || !strings.Contains(out, "made: compiled") {
		t.Errorf("afterwards: exit code %d\n%s", code, out)
	}
}

// Kernels of another compiler, target, schedule, format, activation or ABI are others; so are damaged ones.
func TestIdentity(t *testing.T) {
	mapped(t)
	folder := filepath.Join(t.TempDir(), "kernels")
	first := provider(t, folder)
	if _, err := first.Product(w2(), format.Act{}); err != nil {
		t.Fatal(err)
	}
	problem := ir.Problem{Weight: w2()}
	again := provider(t, folder)
	if b := again.one().kept(problem, again.identity(again.compiler(), problem, nil)); b == nil {
		t.Fatal("the same kernels are not found")
	}
	for what, change := range map[string]func(p *Provider, x *ir.Problem) *tune.Entry{
		"compiler": func(p *Provider, _ *ir.Problem) *tune.Entry {
			p.compiler = func() string { return "other" }
			return nil
		},
		"schedule":   func(*Provider, *ir.Problem) *tune.Entry { return &tune.Entry{} },
		"activation": func(_ *Provider, x *ir.Problem) *tune.Entry { x.Act.Group = 16; return nil },
		"format":     func(_ *Provider, x *ir.Problem) *tune.Entry { x.Weight.Levels = []int{1, 0, -1, -2}; return nil },
		"K":          func(_ *Provider, x *ir.Problem) *tune.Entry { x.MaxK = 64; return nil },
	} {
		p, x := provider(t, folder), problem
		e := change(p.Provider, &x)
		if b := p.one().kept(x, p.identity(p.compiler(), x, e)); b != nil || len(p.said) != 0 {
			t.Errorf("another %s: kernels are found, %v", what, p.said)
		}
	}
	for _, field := range []string{`"isa":"` + again.target.Machine().ISA.Name, `"core":"`, `"abi":`, `"compiler":"` + again.compiler()} {
		if !strings.Contains(string(again.identity(again.compiler(), problem, nil)), field) {
			t.Errorf("identity %s lacks %s", again.identity(again.compiler(), problem, nil), field)
		}
	}
	if id := again.compiler(); len(id) != 64 || id != first.compiler() {
		t.Errorf("this program is %s", id)
	}
}

// Damaged kernels are said to be so, and are compiled again.
func TestDamaged(t *testing.T) {
	mapped(t)
	folder := filepath.Join(t.TempDir(), "kernels")
	if _, err := provider(t, folder).Product(w2(), format.Act{}); err != nil {
		t.Fatal(err)
	}
	path := files(t, folder)[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p := provider(t, folder)
	if _, err := p.Product(w2(), format.Act{}); err != nil {
		t.Fatal(err)
	}
	if want := "kernels of w2 in " + folder + ": damaged, and made again"; p.said[0] != want || p.Made()[0].Origin != Compiled {
		t.Errorf("%q, want %s; %v", p.said, want, p.Made())
	}
	last := provider(t, folder)
	if _, err := last.Product(w2(), format.Act{}); err != nil || len(last.said) != 0 || last.Made()[0].Origin != Kept {
		t.Errorf("%v, %q, %v", err, last.said, last.Made())
	}
}

// A folder that others can write is refused.
func TestUnsafe(t *testing.T) {
	mapped(t)
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o770); err != nil {
		t.Fatal(err)
	}
	var unsafe *cache.Unsafe
	if _, err := New(t.Context(), Options{Folder: folder}); !errors.As(err, &unsafe) {
		t.Errorf("%v, want a cache.Unsafe", err)
	}
}

// Where a folder cannot be made, kernels are compiled all the same, and an event says that they are not kept.
func TestNotKept(t *testing.T) {
	mapped(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := provider(t, filepath.Join(file, "kernels"))
	x, err := p.Product(w2(), format.Act{})
	if err != nil || x.Target() == "purego" || !strings.HasPrefix(p.said[0], "kernels are not kept, and are compiled again at each start: ") || !strings.Contains(p.said[0], file) {
		t.Errorf("%v, %s, %q", err, x.Target(), p.said)
	}
}

// A product is made once.
func TestOnce(t *testing.T) {
	t.Setenv(runtime.EnvCPU, "purego")
	p := provider(t, t.TempDir())
	a, err := p.Product(w2(), format.Act{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Product(w2(), format.Act{})
	c, fail := p.Product(w2(), format.Act{Group: 32})
	if err != nil || fail != nil || a != b || a == c || len(p.Made()) != 2 {
		t.Errorf("%v, %v, %p %p %p, %v", err, fail, a, b, c, p.Made())
	}
	if want := "w2 runs in pure Go, about 200 times slower: this CPU runs no other with TMACC_CPU=purego"; len(p.said) != 1 || p.said[0] != want {
		t.Errorf("%q, want once %s", p.said, want)
	}
}

// Needed lists what a model asks for, in that order, and refuses what models refuse.
func TestNeeded(t *testing.T) {
	for name, want := range map[string]string{"llama-q4_0": "q4_0 by 32, q6_k by 16", "bitnet-tq2_0": "q6_k by 16, tq2_0 by 256", "qwen3-q2_0": "q2_0 by 32"} {
		f, err := gguf.Open(filepath.Join("../../testdata/gguf", name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var asked, names asking
		m, err := model.New(f, &asked, model.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m.Close()
		needed, err := Needed(f, model.Options{})
		for _, x := range needed {
			names.add(x.Weight, x.Act)
		}
		if err != nil || strings.Join(names, ", ") != want || !slices.Equal(names, asked) {
			t.Errorf("%s: %v, asked for %v, want %s: %v", name, names, asked, want, err)
		}
		if _, err := Needed(f, model.Options{Head: "Q5_0"}); err == nil {
			t.Error("a head of a type that models refuse is needed")
		}
	}
}

// asking is the products that a model has asked for.
type asking []string

func (a *asking) add(w format.Weight, x format.Act) {
	*a = append(*a, fmt.Sprintf("%s by %d", w.Name, x.Group))
}

func (a *asking) Product(w format.Weight, x format.Act) (*runtime.Product, error) {
	a.add(w, x)
	return model.PureGo{}.Product(w, x)
}

// The first expected product that is asked for makes all of them, and events are as if one were made after the other. One that cannot be
// made is an error when it is asked for, and so is one that is asked for after the context has ended.
func TestExpect(t *testing.T) {
	mapped(t)
	w1, err := format.Lookup("w1")
	if err != nil {
		t.Fatal(err)
	}
	expected := []ir.Problem{{Weight: w1}, {Weight: w2(), Act: format.Act{Group: 7}}, {Weight: w2()}, {Weight: w1}}
	folder := t.TempDir()
	target, _ := choose()
	name := target.Machine().Name
	want := []string{"compiling kernels of w1 for " + name + " (1 of 4)", "checking kernels of w1 on " + name + " against the definition (1 of 4)", "",
		"compiling kernels of w2 for " + name + " (3 of 4)", "checking kernels of w2 on " + name + " against the definition (3 of 4)", ""}
	for range 2 {
		p := provider(t, folder)
		p.Expect(expected)
		x, err := p.Product(w2(), format.Act{})
		if err != nil || !slices.Equal(p.said, want) {
			t.Fatalf("%v, %q, want %q", err, p.said, want)
		}
		if err := runtime.SelfTest(x, rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Error(err)
		}
		if _, err := p.Product(w1, format.Act{}); err != nil || len(p.said) != len(want) || len(p.Made()) != 2 || p.Made()[0].Problem.Weight.Name != "w1" {
			t.Errorf("%v, %q, %v", err, p.said, p.Made())
		}
		want = nil // the second has them
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := New(ctx, Options{Folder: t.TempDir(), Say: func(e Event) {
		if _, ok := e.(Compiling); ok {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Expect(expected)
	for _, w := range []format.Weight{w1, w2()} {
		if _, err := p.Product(w, format.Act{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", w.Name, err)
		}
	}
	if len(p.Made()) != 0 {
		t.Errorf("made %v", p.Made())
	}
}

// Events of products that are made beside one another come as if one were made after the other, whichever ends first.
func TestTurns(t *testing.T) {
	var got []string
	x := &turns{report: func(e Event) { got = append(got, e.String()) }, waiting: make([][]Event, 3), ended: make([]bool, 3)}
	say := func(i int, text string) { x.say(i, NotKept{errors.New(text)}) }
	want := func(texts ...string) {
		t.Helper()
		for i := range texts {
			texts[i] = NotKept{errors.New(texts[i])}.String()
		}
		if !slices.Equal(got, texts) {
			t.Errorf("%q, want %q", got, texts)
		}
	}
	say(2, "c1")
	say(0, "a1")
	say(1, "b1")
	want("a1")
	x.end(1)
	say(0, "a2")
	want("a1", "a2")
	x.end(0)
	want("a1", "a2", "b1", "c1")
	say(2, "c2")
	x.end(2)
	want("a1", "a2", "b1", "c1", "c2")
}

// Where nothing may be mapped, products are in pure Go.
func TestUnmapped(t *testing.T) {
	mapped(t)
	t.Setenv(jit.EnvJIT, jit.Off)
	p := provider(t, t.TempDir())
	x, err := p.Product(w2(), format.Act{})
	if err != nil || x.Target() != "purego" || len(p.said) != 1 || !strings.Contains(p.said[0], "TMACC_JIT is off") {
		t.Errorf("%v, %s, %q", err, x.Target(), p.said)
	}
}

// TMACC_CPU chooses the target that kernels are compiled for.
func TestTarget(t *testing.T) {
	mapped(t)
	last, _ := choose()
	t.Setenv(runtime.EnvCPU, last.Machine().ISA.Name)
	if got, err := choose(); err != nil || got.Machine().ISA.Name != last.Machine().ISA.Name {
		t.Errorf("%v, %v", got, err)
	}
	t.Setenv(runtime.EnvCPU, "purego")
	if got, err := choose(); got != nil || err == nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A product that cannot be is an error; so is one that is asked for after the context has ended.
func TestRefuses(t *testing.T) {
	p := provider(t, t.TempDir())
	if _, err := p.Product(w2(), format.Act{Group: 7}); err == nil || !strings.Contains(err.Error(), "7") {
		t.Error(err)
	}
	mapped(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended, err := New(ctx, Options{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer ended.Close()
	if _, err := ended.Product(w2(), format.Act{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
}

// The schedules of a lock count before the default ones; a lock whose traces do not compile is at fault.
func TestLock(t *testing.T) {
	mapped(t)
	problem := ir.Problem{Weight: w2()}
	target, _ := choose()
	uses, err := chosen.Product(t.Context(), problem, target)
	if err != nil {
		t.Fatal(err)
	}
	one := tune.Kernel{Cols: uses[0].Cols, Trace: uses[0].Trace}
	entry := tune.Entry{Product: "w2", Target: target.Machine().Name, Problem: tune.ProblemHash(problem), Kernels: []tune.Kernel{one}}
	folder := t.TempDir()
	for _, origin := range []Origin{Compiled, Kept} {
		p, err := New(t.Context(), Options{Folder: folder, Lock: &tune.Lock{Entries: []tune.Entry{entry}}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		x, err := p.Product(w2(), format.Act{})
		if err != nil || p.Made()[0].Origin != origin || strings.Count(x.Info(), " columns") != 1 {
			t.Errorf("%v, %v\n%s", err, p.Made(), x.Info())
		}
	}
	entry.Kernels[0].Trace = one.Trace[:1]
	p, err := New(t.Context(), Options{Folder: folder, Lock: &tune.Lock{Entries: []tune.Entry{entry}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var bad *tune.LockError
	if _, err := p.Product(w2(), format.Act{}); !errors.As(err, &bad) {
		t.Errorf("%v, want a LockError", err)
	}
}

// BenchmarkKept is the second start of a provider with a product.
func BenchmarkKept(b *testing.B) {
	folder := filepath.Join(b.TempDir(), "kernels")
	for b.Loop() {
		p, err := New(b.Context(), Options{Folder: folder})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Product(w2(), format.Act{}); err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// TestShaderIdentity: shaders are kept for the speeds of a device that chose their schedules.
func TestShaderIdentity(t *testing.T) {
	problem, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	target, _ := spirv.ByName("spirv")
	other := target.Speeds()
	other.Read++
	known := map[string]bool{}
	for _, x := range []spirv.Target{target, target.With(target.Speeds()), target.With(other)} {
		p := &Provider{compiler: func() string { return "one" }, device: &Device{Here: &shaders.Here{Device: &worker.Device{Name: "card"}}, Target: x}}
		known[string(p.shaderIdentity("shaders", problem, nil))] = true
	}
	if len(known) != 2 {
		t.Errorf("%d identities of two speeds", len(known))
	}
}
