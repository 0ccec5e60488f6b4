package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/tests/drawn"
)

// tuned is examples/tuned where it can be generated.
type tuned struct {
	t        *testing.T
	root     string
	packages []string
}

func newTuned(t *testing.T) *tuned {
	t.Helper()
	x := &tuned{t: t, root: filepath.Join(t.TempDir(), "tuned")}
	if err := os.CopyFS(x.root, os.DirFS("../examples/tuned")); err != nil {
		t.Fatal(err)
	}
	configs, err := filepath.Glob(filepath.Join(x.root, "*", "tmacc.yaml"))
	if err != nil || len(configs) < 4 {
		t.Fatalf("%d packages, %v", len(configs), err)
	}
	for _, c := range configs {
		x.packages = append(x.packages, filepath.Base(filepath.Dir(c)))
	}
	inShell(t, x.root, `rm -f go.sum */*_* */*.s
go mod edit -replace github.com/tmacc/tmacc="$TMACC_ROOT"
go mod tidy
go build -o tmacc github.com/tmacc/tmacc/cmd/tmacc
`)
	return x
}

// compile runs tmacc compile in a package and returns what it says, and whether it succeeds.
func (x *tuned) compile(pkg string, flags ...string) (out string, ok bool) {
	x.t.Helper()
	cmd := exec.Command("../tmacc", append([]string{"compile", "-q"}, flags...)...)
	cmd.Dir = filepath.Join(x.root, pkg)
	text, err := cmd.CombinedOutput()
	return string(text), err == nil
}

// write replaces a file until the returned function brings it back.
func (x *tuned) write(path string, text []byte) (restore func()) {
	x.t.Helper()
	before, err := os.ReadFile(path)
	put := func(text []byte) {
		if err == nil {
			err = os.WriteFile(path, text, 0o666)
		}
		if err != nil {
			x.t.Fatal(err)
		}
	}
	put(text)
	return func() { put(before) }
}

// locks are the committed locks. This compiler makes the kernels of one that is current. The compiler that its figures name made the other's; its
// schedules still compile.
var locks = []struct {
	path    string
	current bool
	remedy  string
}{
	{"../examples/tuned/tmacc.lock", true, "measure it again on such a machine: bash docs/lab/tuning.sh renew, or examples for new searches"},
	{"../docs/lab/tuned/tmacc.lock", false, "make it anew on such a machine: bash docs/lab/tuning.sh limits FOLDER and peers FOLDER LIBS"},
}

// TestLocks compiles every entry of the committed locks: each is for the product that has its name, and the kernels of a lock that is current are those that
// were measured.
func TestLocks(t *testing.T) {
	for _, c := range locks {
		l, err := tune.ReadLock(c.path)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Entries) == 0 {
			t.Errorf("%s has no entries", c.path)
		}
		for _, e := range l.Entries {
			if why := stale(t, e, c.current); why != "" {
				t.Errorf("%s: %s on %s, measured by tmacc %s, %s: %s", c.path, e.Product, e.Target, e.Compiler, why, c.remedy)
			}
		}
	}
}

// stale says why an entry of a lock is of no use, "" if it is: current, if its kernels must be those that were measured.
func stale(t *testing.T, e tune.Entry, current bool) string {
	t.Helper()
	p, target := recorded(t, e)
	if !e.For(p) {
		return "is for other levels, scales or activations"
	}
	v, err := build.Variant(t.Context(), p, target, e.Uses())
	if err != nil {
		return fmt.Sprintf("does not compile (%v)", err)
	}
	if other := e.Changed(target, v.Kernels); current && len(other) > 0 {
		return fmt.Sprintf("has other kernels now, for %v columns", other)
	}
	return ""
}

// TestTuned generates packages of examples/tuned from the lock that is there: one in four, or all with TMACC_LONG=1. Each
// builds, and generated again, for -check, has the same bytes; if all are generated, every entry of the lock is
// used, and the lock never changes by that. That all entries are current is for TestLocks.
// A trace or a hash that is changed in the lock, and a file that is edited by hand, are found and named.
func TestTuned(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	x := newTuned(t)
	path := filepath.Join(x.root, tune.LockName)
	lock, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tune.ParseLock(tune.LockName, lock)
	if err != nil {
		t.Fatal(err)
	}
	users := make([]string, len(l.Entries))
	packages := drawn.Some(drawn.New(t), 4, x.packages)
	for _, p := range packages {
		out, ok := x.compile(p, "-no-check")
		if !ok {
			t.Errorf("%s is not made:\n%s", p, out)
		}
		for i, e := range l.Entries {
			if usedIn(out, e) {
				users[i] = p
			}
		}
		if out, ok := x.compile(p, "-check"); !ok || !strings.Contains(out, "is up to date") {
			t.Errorf("generated twice, %s is not the same (after a change of the compiler: bash docs/lab/tuning.sh renew):\n%s", p, out)
		}
	}
	inShell(t, x.root, "go vet ./"+strings.Join(packages, " ./")+"\n")
	for i, e := range l.Entries {
		if users[i] == "" && len(packages) == len(x.packages) {
			t.Errorf("nobody uses %s on %s", e.Product, e.Target)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(lock) {
		t.Errorf("the lock has changed: %v", err)
	}
	if !t.Failed() {
		x.forge(l)
	}
}

// forge changes what the first entry of the lock says and makes, one after the other, beside a package of that alone.
func (x *tuned) forge(l *tune.Lock) {
	const pkg = "forged"
	e := &l.Entries[0]
	kernel, path := &e.Kernels[0], filepath.Join(x.root, tune.LockName)
	if err := os.Mkdir(filepath.Join(x.root, pkg), 0o777); err != nil {
		x.t.Fatal(err)
	}
	compile := func(flag string) (out string, ok bool) {
		return x.compile(pkg, "-format", e.Product, "-target", filepath.Base(e.Target), "-o", ".", flag)
	}
	if out, ok := compile("-no-check"); !ok || !usedIn(out, *e) {
		x.t.Fatalf("%s on %s is not tuned:\n%s", e.Product, e.Target, out)
	}
	found := func(what string, names ...string) {
		x.t.Helper()
		out, ok := compile("-check")
		for _, name := range names {
			if ok || !strings.Contains(out, name) {
				x.t.Errorf("%s: not found, want %q in\n%s", what, name, out)
			}
		}
	}
	write := func() (restore func()) {
		text, err := l.Text()
		if err != nil {
			x.t.Fatal(err)
		}
		return x.write(path, text)
	}
	stranger := e.Product + " on " + e.Target + " has other kernels (for "

	hash := kernel.Hash
	kernel.Hash = "0"
	restore := write()
	found("another kernel", stranger)
	restore()
	kernel.Hash = hash

	last := len(kernel.Trace) - 1
	if _, ok := kernel.Trace[last].(schedule.Prefetch); ok {
		kernel.Trace = kernel.Trace[:last]
	} else {
		kernel.Trace = append(kernel.Trace, schedule.Prefetch{Bytes: 4096})
	}
	restore = write()
	found("another trace", stranger, ".s")
	restore()

	edited, err := filepath.Glob(filepath.Join(x.root, pkg, "*.s"))
	if err != nil || len(edited) != 1 {
		x.t.Fatalf("assembly of %s: %v, %v", e.Target, edited, err)
	}
	text, err := os.ReadFile(edited[0])
	if err != nil {
		x.t.Fatal(err)
	}
	restore = x.write(edited[0], append(text, "// by hand\n"...))
	found("a file edited by hand", filepath.Base(edited[0]))
	restore()
	if out, ok := compile("-check"); !ok {
		x.t.Errorf("all as it was before: %s", out)
	}
}

// usedIn says that a compilation lists the target of an entry behind its product.
func usedIn(out string, e tune.Entry) bool {
	for line := range strings.Lines(out) {
		_, targets, _ := strings.Cut(line, tune.LockName+" for ")
		targets, _, _ = strings.Cut(targets, ";")
		if strings.Contains(line, " "+e.Product+" ") && slices.Contains(strings.Split(strings.TrimSpace(targets), ", "), e.Target) {
			return true
		}
	}
	return false
}
