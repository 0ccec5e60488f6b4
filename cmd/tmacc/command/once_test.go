package command

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/chosen"
	"github.com/tmacc/tmacc/tests/drawn"
)

// compile lowers each kernel once and prints each kernel once, with default schedules, by a trace and by a lock, with the
// verification, or with -check: beyond the kernels among which default schedules are chosen, once, it lowers the preparation of activations.
func TestCompiledOnce(t *testing.T) {
	chosen.Alone(t)
	on := []string{"avx2", "dotprod"}
	check := []string{"-no-check"}
	if _, err := exec.LookPath("go"); err == nil && !testing.Short() {
		check = []string{"-no-measure"} // which verifies what this machine runs, and builds the package
	}
	for _, name := range drawn.Some(drawn.New(t), 2, []string{"w2", "w4-g32"}) {
		t.Setenv(cache.EnvFolder, t.TempDir())
		w, err := format.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		p := ir.Problem{Weight: w}
		kernels, tried := 0, lower.Work{} // kernels of default schedules, and the work of choosing them
		var locked []tune.Entry
		for _, short := range on {
			target := targets.ByName(short)
			before := lower.Done()
			uses, err := beam.Product(t.Context(), p, target)
			if err != nil {
				t.Fatal(err)
			}
			work := lower.Done().Since(before)
			kernels, tried.Lowered, tried.Printed = kernels+len(uses), tried.Lowered+work.Lowered, tried.Printed+work.Printed
			locked = append(locked, lockedEntry(t, p, target, uses[0]))
		}
		dir := t.TempDir()
		args := append([]string{"compile", "-q", "-format", name, "-target", on[0] + "," + on[1], "-o", dir}, check...)
		want := lower.Work{Lowered: tried.Lowered + int64(len(on)), Printed: int64(kernels + len(on))}
		worked(t, want, args...)
		want = lower.Work{Lowered: int64(kernels + len(on)), Printed: int64(kernels + len(on))} // by schedules that are kept
		worked(t, want, args...)

		trace := file(t, "t.json", json1(t, ok(t, "show", "-format", name, "-target", on[0], "-stage", "trace")))
		worked(t, lower.Work{Lowered: 2, Printed: 2}, append([]string{"compile", "-q", "-format", name, "-trace", trace, "-target", on[0], "-o", t.TempDir()}, check...)...)

		if err := tune.ChangeLock(filepath.Join(dir, tune.LockName), func(l *tune.Lock) error {
			for _, e := range locked {
				l.Put(e)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		want = lower.Work{Lowered: int64(2 * len(on)), Printed: int64(2 * len(on))}
		worked(t, want, args...)
		worked(t, want, append(slices.Clone(args[:len(args)-len(check)]), "-check")...)
	}
}

// lockedEntry is a lock's entry with one schedule.
func lockedEntry(t *testing.T, p ir.Problem, target lower.Target, u search.Use) tune.Entry {
	t.Helper()
	v, err := build.Variant(t.Context(), p, target, []search.Use{u})
	if err != nil {
		t.Fatal(err)
	}
	hash, err := tune.KernelHash(target, v.Kernels[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	return tune.Entry{Product: p.Name(), Target: target.Machine().Name, Problem: tune.ProblemHash(p), Kernels: []tune.Kernel{{Cols: u.Cols, Hash: hash, Trace: u.Trace}}}
}

// worked runs a command that must succeed and compares its work.
func worked(t *testing.T, want lower.Work, args ...string) {
	t.Helper()
	before := lower.Done()
	ok(t, args...)
	if got := lower.Done().Since(before); got != want {
		t.Errorf("%v: lowered %d kernels and printed %d, want %d and %d", args, got.Lowered, got.Printed, want.Lowered, want.Printed)
	}
}
