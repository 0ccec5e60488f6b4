package live

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/sparing"
	"github.com/tmacc/tmacc/tests/template"
)

func TestMain(m *testing.M) {
	worker.Main()
	sparing.Run(m)
}

// least is the target with the fewest features that this machine runs.
func least(t testing.TB) lower.Target {
	t.Helper()
	here := measure.Targets()
	if len(here) == 0 {
		t.Skip(measure.ErrNoTarget)
	}
	return here[0]
}

func usual(t testing.TB, p ir.Problem, target lower.Target) variant.Variant {
	t.Helper()
	uses, err := beam.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	return builtOf(t, p, target, uses)
}

// builtOf makes kernels of all uses, and one that prepares their activations.
func builtOf(t testing.TB, p ir.Problem, target lower.Target, uses []search.Use) variant.Variant {
	t.Helper()
	v, err := build.Variant(t.Context(), p, target, uses)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Each kernel alone and all together give the definition of the product. One product in five runs on each target, or all with TMACC_LONG=1.
func TestSelfTest(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	type product struct {
		format string
		act    int
	}
	draw := drawn.New(t)
	for _, target := range native.TargetsHere(t) {
		if !target.Machine().Ordinary() {
			continue // it has the instructions of another
		}
		for _, c := range drawn.Some(draw, 5, []product{{"w1", 0}, {"w3-g48-z", 16}, {"w4-g32-s256-m", 16}, {"tq2_0", 256}, {"w3-g16-i8-s256-f32act", 0}}) {
			p, err := ir.Named(c.format)
			if err != nil {
				t.Fatal(err)
			}
			if c.act > 0 {
				p.Act.Group = c.act
			}
			v := usual(t, p, target)
			code, err := Assemble(p, v)
			if errors.Is(err, jit.ErrPlatform) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer code.Close()
			sets := [][]int{nil}
			for i := range v.Kernels {
				sets = append(sets, []int{i})
			}
			for _, set := range sets {
				p, err := code.Product(set...)
				if err != nil {
					t.Fatal(err)
				}
				if err := runtime.SelfTest(p, rand.New(rand.NewPCG(1, 2))); err != nil {
					t.Errorf("%s %s, kernels %v: %v", target.Machine().Name, c.format, set, err)
				}
			}
		}
	}
}

// With TMACC_JIT=off kernels are linked by go build: the process that runs them says
// so. They are verified, and nothing is mapped here.
func TestLinked(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	t.Setenv(jit.EnvJIT, jit.Off)
	w, err := format.Lookup("w4-g32")
	if err != nil {
		t.Fatal(err)
	}
	p := ir.Problem{Weight: w}
	v := usual(t, p, least(t))
	f, err := v.Target.File("main", v.Functions("")...)
	if err != nil {
		t.Fatal(err)
	}
	code, err := worker.Load(worker.Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	if how, err := code.How(); err != nil || how != worker.Linked {
		t.Fatalf("kernels are %q, %v; want %q", how, err, worker.Linked)
	}
	if err := test(code, p, v); err != nil {
		t.Error(err)
	}
	if _, err := Assemble(p, v); !errors.Is(err, jit.ErrPlatform) {
		t.Errorf("Assemble: %v, want ErrPlatform", err)
	}
}

// saboteur is a target whose assembly begins with something else.
type saboteur struct {
	lower.Target
	first string // instructions at the beginning of a function; AX and R0 are free
}

func (s saboteur) File(pkg string, fs ...lower.Named) (lower.File, error) {
	f, err := s.Target.File(pkg, fs...)
	f.Data = textLine.ReplaceAllFunc(f.Data, func(line []byte) []byte { return slices.Concat(line, []byte("\n"+s.first)) })
	return f, err
}

var textLine = regexp.MustCompile(`(?m)^TEXT .*$`)

// A product whose code faults, never ends, writes beside its results or computes
// something else is refused with an error that names its schedule.
func TestSabotage(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	w, err := format.Lookup("w2")
	if err != nil {
		t.Fatal(err)
	}
	p, target := ir.Problem{Weight: w}, least(t)
	v := usual(t, p, target)
	v.Kernels = v.Kernels[:1]
	out := 4 * v.Kernels[0].Schedule.Rows * v.Kernels[0].Schedule.Cols
	try := func(p ir.Problem, first string) error {
		v := v
		v.Target = saboteur{target, first}
		f, err := v.Target.File("main", v.Functions("")...)
		if err != nil {
			t.Fatal(err)
		}
		code, err := worker.Load(worker.Options{Limit: 3 * time.Second}, f)
		if err != nil {
			t.Fatal(err)
		}
		defer code.Close()
		return test(code, p, v)
	}
	write := map[string]string{
		"amd64": "\tMOVQ args+0(FP), AX\n\tMOVQ (AX), AX\n\tMOVB AX, %d(AX)\n",
		"arm64": "\tMOVD args+0(FP), R0\n\tMOVD (R0), R0\n\tMOVB R0, %d(R0)\n",
	}[target.Machine().Arch()]
	reversed := p
	reversed.Weight.Name, reversed.Weight.Levels = "reversed", []int{1, 0, -1, -2}
	trace := fmt.Sprint(v.Kernels[0].Schedule.Trace)
	for _, c := range []struct {
		name, first, want string
		problem           ir.Problem
	}{
		{"nothing", "", "", p},
		{"undefined instruction", "\tUNDEF\n", "SIGILL", p},
		{"endless loop", "again:\n\tJMP again\n", "did not return", p},
		{"write after the result", fmt.Sprintf(write, out), "SIGSEGV", p},
		{"write before the result", fmt.Sprintf(write, -1), "SIGSEGV", p},
		{"wrong result", "", "is wrong: " + target.Machine().Name, reversed},
	} {
		err := try(c.problem, c.first)
		if c.want == "" && err == nil {
			continue
		}
		var crash *worker.Crash
		var timeout *worker.Timeout
		var wrong *worker.Wrong
		switch {
		case errors.As(err, &crash), errors.As(err, &timeout), errors.As(err, &wrong):
		default:
			t.Errorf("%s: %v, want a typed error", c.name, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), trace) {
			t.Errorf("%s: %v, want %q and the trace", c.name, err, c.want)
		}
	}
}

// Products by rounded tables pass their test within the bound that they have, and not within
// a quarter of it, or if they claim to be exact.
func TestBounded(t *testing.T) {
	for _, target := range native.TargetsHere(t) {
		for _, c := range []struct {
			format string
			act    int
			table  template.Tables
		}{
			{"w1", 0, template.Tables{Digits: "signs", Parts: []int{4}}},
			{"w2-g64-z", 16, template.Tables{Digits: "signs", Parts: []int{4}}},
			{"ternary", 0, template.Tables{Digits: "levels", Parts: []int{3}, Mirror: true}},
			{"w4-g32-m", 0, template.Tables{Digits: "signs", Parts: []int{4}}},
		} {
			w, err := format.Lookup(c.format)
			if err != nil {
				t.Fatal(err)
			}
			p := ir.Problem{Weight: w, Act: format.Act{Group: c.act}}
			c.table.Low, c.table.Round, c.table.Along, c.table.Narrow = 2, true, 1, true
			x := template.Choice{Lanes: 16, Rows: 1, Block: 1, RowFields: 1, Cells: 1, Flush: 1, Hoist: "flush", Cols: 1, Scale: "end", Table: &c.table}
			v := builtOf(t, p, target, []search.Use{{Cols: 1, Trace: x.Trace(p)}})
			code, err := Assemble(p, v)
			if errors.Is(err, jit.ErrPlatform) || errors.Is(err, exec.ErrNotFound) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatalf("%s: %v", c.format, err)
			}
			code.Close()
			exact := *v.Kernels[0].Schedule
			for _, most := range []int{exact.Deviation.Most / 4, 0} {
				exact.Deviation.Most = most
				v.Kernels[0].Schedule = &exact
				var wrong *worker.Wrong
				if _, err := Assemble(p, v); !errors.As(err, &wrong) {
					t.Errorf("%s on %s, which is off by more than %d for each %d of K: %v", c.format, target.Machine().Name, most, exact.Deviation.Span, err)
				}
			}
		}
	}
}
