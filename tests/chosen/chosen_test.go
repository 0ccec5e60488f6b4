package chosen

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/defaults"
)

// All packages that choosing depends on are in the folders that decide.
func TestDeciding(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/tmacc/tmacc/search/defaults").Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(out)) {
		name, ours := strings.CutPrefix(strings.TrimSpace(line), "github.com/tmacc/tmacc/")
		first, _, _ := strings.Cut(name, "/")
		if !ours {
			continue
		}
		n++
		if !slices.Contains(deciding, first) {
			t.Errorf("%s may decide which schedules are chosen", name)
		}
	}
	if n < 20 {
		t.Errorf("only %d packages", n)
	}
}

// A change of a file that decides, its name, or a file more changes the hash; tests and their data do not.
func TestHash(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range deciding {
		write(dir+"/a.go", "package a")
	}
	write("go.sum", "")
	seen := map[string]string{}
	hashed := func() string {
		t.Helper()
		h, err := hash(root)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	seen[hashed()] = "nothing"
	for _, name := range []string{"ir/a.go", "search/beam/b.go", "lower/amd64/traces/x.json", "go.sum"} {
		write(name, "changed")
		h := hashed()
		if was, ok := seen[h]; ok {
			t.Errorf("a change of %s has the hash of a change of %s", name, was)
		}
		seen[h] = name
	}
	before := hashed()
	for _, name := range []string{"ir/a_test.go", "search/beam/testdata/b.json", "tests/a.go"} {
		if write(name, "changed"); hashed() != before {
			t.Errorf("a change of %s changes the hash", name)
		}
	}
}

// What is shared is what the beam chooses, and is found again by a chooser of any kind.
func TestShare(t *testing.T) {
	t.Setenv(envFolder, filepath.Join(t.TempDir(), "schedules"))
	t.Setenv(envSources, "")
	Share()
	t.Cleanup(func() { defaults.Lend("", nil) })
	if os.Getenv(envSources) == "" {
		t.Fatal("the sources are not known")
	}
	p, err := ir.Named("w1")
	if err != nil {
		t.Fatal(err)
	}
	target := targets.ByName("amd64/avx2")
	want, err := beam.Product(t.Context(), p, target)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		uses, err := Product(t.Context(), p, target)
		if err != nil || len(uses) != len(want) {
			t.Fatalf("%d schedules: %v", len(uses), err)
		}
		for j := range uses {
			if uses[j].Trace.String() != want[j].Trace.String() || (uses[j].Kernel == nil) != (i == 1) {
				t.Errorf("time %d: kernel %d is another", i, j)
			}
		}
	}
	programsShare(t)
	chosen, err := (&defaults.Chooser{NoRecords: true}).Choose(t.Context(), p, target)
	if err != nil || chosen.Uses[0].Kernel != nil || chosen.Kept {
		t.Errorf("%v, %t, %v", chosen.Uses, chosen.Kept, err)
	}
}

// programsShare: a program that is linked with the flags of Program is identified as this one is, and has the folder.
func programsShare(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	cmd := exec.Command("go", "run", "./testdata/program")
	cmd.Env = append(os.Environ(), "GOFLAGS="+Program(home), "TMACC_CACHE="+home)
	out, err := cmd.CombinedOutput()
	if want := version() + "\n1 file\n"; err != nil || string(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}
