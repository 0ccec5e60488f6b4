package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/tune"
)

// tuned copies examples/tuned to where it can be generated.
func tuned(t *testing.T) (root string, packages []string) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "tuned")
	if err := os.CopyFS(root, os.DirFS("../examples/tuned")); err != nil {
		t.Fatal(err)
	}
	configs, err := filepath.Glob(filepath.Join(root, "*", "tmacc.yaml"))
	if err != nil || len(configs) < 4 {
		t.Fatalf("%d packages, %v", len(configs), err)
	}
	for _, c := range configs {
		packages = append(packages, filepath.Base(filepath.Dir(c)))
	}
	return root, packages
}

// TestTuned generates the packages of examples/tuned from the lock that is there, twice with equal
// bytes, builds them, and finds every entry of the lock used. The lock never changes by that.
func TestTuned(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	root, packages := tuned(t)
	lock, err := os.ReadFile(filepath.Join(root, tune.LockName))
	if err != nil {
		t.Fatal(err)
	}
	setup := `rm -f go.sum */*_* */*.s
go mod edit -replace github.com/tmacc/tmacc="$TMACC_ROOT"
go mod tidy
go build -o tmacc github.com/tmacc/tmacc/cmd/tmacc
`
	compile := "for p in " + strings.Join(packages, " ") + "; do (cd $p && ../tmacc compile -q -no-check); done\n"
	inShell(t, root, setup+compile)
	first := packageFiles(t, root, packages)
	out := inShell(t, root, "rm -f */*_*\n"+compile+"go vet ./...\n")
	second := packageFiles(t, root, packages)
	if len(first) < 4*len(packages) || len(first) != len(second) {
		t.Errorf("%d files, then %d", len(first), len(second))
	}
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs the second time", name)
		}
	}
	l, err := tune.ParseLock(tune.LockName, lock)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range l.Entries {
		if !strings.Contains(out, tune.LockName+" for ") || !usedIn(out, e) {
			t.Errorf("nobody uses %s on %s:\n%s", e.Product, e.Target, out)
		}
	}
	if after, err := os.ReadFile(filepath.Join(root, tune.LockName)); err != nil || string(after) != string(lock) {
		t.Errorf("the lock has changed: %v", err)
	}
}

// usedIn says that a compilation lists the target of an entry behind its product.
func usedIn(out string, e tune.Entry) bool {
	for line := range strings.Lines(out) {
		if strings.Contains(line, " "+e.Product+" ") && strings.Contains(line, tune.LockName) && strings.Contains(line, e.Target) {
			return true
		}
	}
	return false
}

// packageFiles is the text of the files of packages, by path.
func packageFiles(t *testing.T, root string, packages []string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range packages {
		entries, err := os.ReadDir(filepath.Join(root, p))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if slices.Contains([]string{"tmacc.yaml", "generate.go"}, e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(root, p, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[p+"/"+e.Name()] = string(text)
		}
	}
	return out
}
