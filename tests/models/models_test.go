package models

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/expected"
	"github.com/tmacc/tmacc/tests/oracle"
	"github.com/tmacc/tmacc/tests/qemu"
)

const pureGo = "purego"

// threads are the ones that a child may use.
const threads = 3

// machine is a kind of child: a target, and a program that runs its kernels.
type machine struct {
	name     string       // of the target, or pureGo
	target   lower.Target // nil: pure Go
	allowed  []string     // names of the targets that this one's CPU runs, the ones that programs try first before others
	command  []string
	emulated bool
}

// newMachine is one on which children run by a command.
func newMachine(t lower.Target, emulated bool, command ...string) *machine {
	m := t.Machine()
	x := &machine{name: m.Name, target: t, command: command, emulated: emulated}
	for _, other := range lower.Preferred(targets.Ordinary()) {
		if o := other.Machine(); o.Arch() == m.Arch() && m.Has&o.Has == o.Has {
			x.allowed = append(x.allowed, o.Name)
		}
	}
	return x
}

// here are pure Go and all targets that this CPU runs.
func here(t *testing.T) []*machine {
	t.Helper()
	out := []*machine{{name: pureGo, allowed: []string{pureGo}, command: os.Args[:1]}}
	if err := live.Mappable(); err != nil {
		t.Skipf("only pure Go runs here: %v", err)
	}
	for _, x := range targets.Ordinary() {
		if x.Machine().Arch() != goruntime.GOARCH {
			continue
		}
		if lacks := timing.ThisHost().Lacks(targets.Features(x)); lacks != nil {
			t.Logf("%s is not run: this CPU lacks %s", x.Machine().Name, strings.Join(lacks, " "))
			continue
		}
		out = append(out, newMachine(x, false, os.Args[0]))
	}
	return out
}

// emulatedArms are the targets that qemu runs.
func emulatedArms(t *testing.T) (out []*machine) {
	t.Helper()
	if goruntime.GOARCH == arm64.Targets()[0].Machine().Arch() {
		return nil // they run here
	}
	program := filepath.Join(t.TempDir(), "models.test")
	cmd := exec.Command("go", "test", "-c", "-o", program, ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, said)
	}
	for _, x := range arm64.Targets() {
		if !x.Machine().Ordinary() {
			continue
		}
		command, err := qemu.Command(x)
		if err != nil {
			t.Skip(err)
		}
		out = append(out, newMachine(x, true, append(command, program)...))
	}
	return out
}

// ask starts a child and waits for its reply.
func (x *machine) ask(ctx context.Context, q request) (r reply, err error) {
	var in, out, said bytes.Buffer
	if err := gob.NewEncoder(&in).Encode(q); err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, x.command[0], x.command[1:]...)
	cmd.Env = append(os.Environ(), envChild+"=1", fmt.Sprintf("GOMAXPROCS=%d", threads), runtime.EnvCPU+"="+strings.Join(x.allowed, ","))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &in, &out, &said
	if err := cmd.Run(); err != nil {
		return r, fmt.Errorf("%w\n%s", err, said.String())
	}
	return r, gob.NewDecoder(&out).Decode(&r)
}

// kernels are compiled for a child that cannot start processes. Nothing compares them with the definition but this test.
func (x *machine) kernels(ctx context.Context, problems []ir.Problem) (map[string]*live.Binary, error) {
	out := map[string]*live.Binary{}
	for _, p := range problems {
		uses, err := search.Default(ctx, p, x.target)
		if err != nil {
			return nil, err
		}
		v, err := build.Variant(ctx, p, x.target, uses)
		if err != nil {
			return nil, err
		}
		f, err := x.target.File("main", v.Functions("")...)
		if err != nil {
			return nil, err
		}
		o, err := jit.Build(x.target.Machine().Arch(), f)
		if err != nil {
			return nil, err
		}
		out[tune.ProblemHash(p)] = &live.Binary{Spec: live.Spec(p, v), Object: *o}
	}
	return out, nil
}

// longWays are all ways: caches, threads, pieces, alone and among others.
func longWays() (out []way) {
	for _, cache := range []model.CacheType{model.CacheF16, model.CacheF32} {
		for n := 1; n <= threads; n++ {
			for _, piece := range []int{0, 7, 1} {
				out = append(out, way{cache, n, piece, false}, way{cache, n, piece, true})
			}
		}
	}
	return out
}

// shortWays have every value of every part of a way.
var shortWays = []way{
	{model.CacheF16, 1, 0, false},
	{model.CacheF16, 3, 7, true},
	{model.CacheF16, 2, 1, false},
	{model.CacheF32, 2, 0, true},
	{model.CacheF32, 3, 7, false},
}

// shortPrompt is how many tokens of a prompt are computed where not all are: the last ones are in the second page of the cache.
const shortPrompt = 66

// newTask is the comparison of a model.
func newTask(t *testing.T, name string, long bool) task {
	t.Helper()
	x := expected.Open(t, name)
	out := task{Path: x.Path, Decode: 2, Ways: shortWays}
	if long {
		out.Decode, out.Ways = 8, longWays()
	}
	for _, p := range x.Prompts {
		var tokens []int32
		for _, token := range p.Tokens() {
			tokens = append(tokens, int32(token))
		}
		if long {
			out.Prompts = append(out.Prompts, tokens)
		} else if len(tokens) > shortPrompt {
			out.Prompts = [][]int32{tokens[:shortPrompt]}
		}
	}
	if len(out.Prompts) == 0 {
		t.Fatalf("%s has no prompt of %d tokens", name, shortPrompt)
	}
	return out
}

// TestSameLogits: the logits of models have the same bits in pure Go and on each target of this CPU, for any number of threads, cache by
// cache, however a prompt is divided, alone and among other sequences. Each target has a process of its own. With TMACC_LONG=1 all
// models of TMACC_DATA are computed in all ways.
func TestSameLogits(t *testing.T) {
	long, names := check.NewDraw(t).Long(), expected.Committed
	if long && os.Getenv("TMACC_DATA") != "" {
		names = nil
		for _, x := range oracle.Models {
			names = append(names, path.Base(x.Name))
		}
	}
	var tasks []task
	for _, name := range names {
		tasks = append(tasks, newTask(t, name, long))
	}
	compare(t, here(t), tasks)
}

// TestSameLogitsEmulated: the same on Arm, against pure Go here.
func TestSameLogitsEmulated(t *testing.T) {
	draw := check.NewDraw(t)
	arms := emulatedArms(t)
	if arms == nil {
		t.Skip("Arm's targets run here")
	}
	var tasks []task
	for _, name := range check.Some(draw, 2, []string{"bitnet-tq2_0", "llama-q4_0"}) {
		tasks = append(tasks, newTask(t, name, false))
	}
	compare(t, append(here(t)[:1], check.Some(draw, 3, arms)...), tasks)
}

// compare computes tasks on machines, the first of which is pure Go, and compares all with what that computes first.
func compare(t *testing.T, machines []*machine, tasks []task) {
	t.Helper()
	replies := make([]reply, len(machines))
	errs := make([]error, len(machines))
	q := request{Tasks: tasks, Folder: filepath.Join(t.TempDir(), "kernels")}
	needed, err := problems(tasks)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	slots := make(chan bool, goruntime.GOMAXPROCS(0))
	for i, x := range machines {
		slots <- true
		all.Go(func() {
			q := q
			if x.emulated {
				q.Kernels, errs[i] = x.kernels(t.Context(), needed)
			}
			if errs[i] == nil {
				replies[i], errs[i] = x.ask(t.Context(), q)
			}
			<-slots
		})
	}
	all.Wait()
	for i, x := range machines {
		if errs[i] != nil {
			t.Errorf("%s: %v", x.name, errs[i])
			continue
		}
		x.checkRan(t, &replies[i], needed)
		x.checkLogits(t, tasks, replies[0].Logits, replies[i].Logits)
	}
}

// problems are the products of the models, each once.
func problems(tasks []task) (out []ir.Problem, err error) {
	seen := map[string]bool{}
	for _, x := range tasks {
		f, err := gguf.Open(x.Path)
		if err != nil {
			return nil, err
		}
		for _, p := range kernels.Needed(f) {
			if id := tune.ProblemHash(p); !seen[id] {
				seen[id] = true
				out = append(out, p)
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// checkRan fails if a child ran kernels of another target than it was asked for, or none.
func (x *machine) checkRan(t *testing.T, r *reply, needed []ir.Problem) {
	t.Helper()
	if len(r.Products) != len(needed) {
		t.Errorf("%s: the child made the products %v, want %d", x.name, r.Products, len(needed))
	}
	for _, p := range r.Products {
		if p.Target != x.name {
			t.Errorf("%s: the child ran %s on %s", x.name, p.Product, p.Target)
		}
	}
	running, have := operators(r.Operators)
	want := pureGo // of operators
	if i := slices.IndexFunc(have, func(name string) bool { return slices.Contains(x.allowed, name) }); i >= 0 {
		want = have[i]
	}
	if running != want {
		t.Errorf("%s: operators ran on %s, want %s:\n%s", x.name, running, want, r.Operators)
	}
	t.Logf("%s: %d sequences; products %v; operators on %s", x.name, len(r.Logits), r.Products, running)
}

// operators is the target that float operators ran on, and the targets that the program has them for, best first, by what ops.Info says.
func operators(info string) (running string, have []string) {
	running = pureGo
	for line := range strings.Lines(info) {
		if on, ok := strings.CutPrefix(line, "float operators run on "); ok {
			running, _, _ = strings.Cut(on, " (")
		} else if name, _, ok := strings.Cut(line, ": "); ok {
			have = append(have, name)
		}
	}
	return running, have
}

// checkLogits compares a child's logits with the ones that pure Go computed first of the same model and prompt, by the same type of cache.
func (x *machine) checkLogits(t *testing.T, tasks []task, want, have []logits) {
	t.Helper()
	sequences := 0
	for i := range tasks {
		sequences += len(tasks[i].Prompts) * len(tasks[i].Ways)
	}
	if len(have) != sequences {
		t.Errorf("%s: %d sequences were computed, want %d", x.name, len(have), sequences)
	}
	differ := 0
	for _, h := range have {
		i := slices.IndexFunc(want, func(w logits) bool {
			return w.Path == h.Path && w.Prompt == h.Prompt && w.Way.Cache == h.Way.Cache
		})
		if i < 0 {
			t.Fatalf("%s: nothing to compare %s with", x.name, h)
		}
		w := want[i]
		if slices.Equal(w.Rows, h.Rows) && slices.Equal(w.Tokens, h.Tokens) {
			continue
		}
		if differ++; differ <= 5 {
			t.Errorf("%s: %s: the logits after token %d differ from the ones in pure Go (%s)", x.name, h, firstDifference(w.Rows, h.Rows), w)
		}
	}
	if differ > 5 {
		t.Errorf("%s: %d of %d sequences differ", x.name, differ, len(have))
	}
}

func (l logits) String() string {
	cache := map[model.CacheType]string{model.CacheF16: "f16", model.CacheF32: "f32"}[l.Way.Cache]
	among := "alone"
	if l.Way.Among {
		among = "among others"
	}
	return fmt.Sprintf("%s, prompt %d, %s cache, %d threads, pieces of %d, %s", filepath.Base(l.Path), l.Prompt, cache, l.Way.Threads, l.Way.Piece, among)
}

// firstDifference is the number of the first row that two lists do not share.
func firstDifference(a, b []uint64) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
