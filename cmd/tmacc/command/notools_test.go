package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/targeting"
)

// without makes PATH one where no command is.
func without(t *testing.T) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
}

// Without the go command nothing can be checked, which is an error before anything is written, unless no check was asked for.
func TestCompileWithoutGo(t *testing.T) {
	without(t)
	dir := filepath.Join(t.TempDir(), "low")
	const said = "tmacc: compile: the go command is not in PATH, and nothing can be compared, built or tested without it: install Go, or give -no-check for a package that is not checked"
	for _, more := range []string{"", " -no-measure", " -tune 1s"} {
		refused(t, refusal{exitUsage, said, "compile -q -format w2 -target avx2" + more + " -o " + dir})
	}
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s was made", dir)
	}
	if code, out, stderr := tmacc("compile", "-dry-run", "-format", "w2", "-target", "avx2", "-o", dir); code != 0 || !strings.HasPrefix(out, "would write") || stderr != said+"\n" {
		t.Errorf("exit code %d, %s%s", code, out, stderr)
	}
	code, out, stderr := tmacc("compile", "-q", "-no-check", "-format", "w2", "-target", "avx2", "-o", dir)
	if want := "tmacc: the go command is not in PATH: " + filepath.Join(dir, "go.mod") + " is not complete: run go mod tidy there\n"; code != 0 || stderr != want {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
	if !strings.Contains(out, string(delivery.NotRun)) || strings.Contains(out, string(delivery.Checked)) || strings.Contains(out, "passes its tests") {
		t.Errorf("says more than was done:\n%s", out)
	}
	if out := ok(t, "compile", "-q", "-check", "-format", "w2", "-target", "avx2", "-o", dir); !strings.Contains(out, "is up to date") {
		t.Error(out)
	}
}

// What go test leaves out is not said to have passed.
func TestCompilePureGoTags(t *testing.T) {
	needMeasuring(t)
	t.Setenv("GOFLAGS", "-tags=purego")
	t.Setenv("TMACC_JIT", "off") // kernels are compared by a program that is linked, with the flags of its own
	code, _, stderr := tmacc("compile", "-q", "-no-measure", "-format", "w2", "-target", "avx2", "-o", filepath.Join(t.TempDir(), "low"))
	if want := "go test ran the package in pure Go: build tags, of GOFLAGS perhaps, leave out the assembly\n"; code != 0 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %q, want %q", code, stderr, want)
	}
}

// What measures needs the go command, too, and says so.
func TestToolsAreNamed(t *testing.T) {
	if len(targeting.Here()) == 0 {
		t.Skip("no target runs here")
	}
	for _, args := range []string{"bench -q -format w2 -mode l2 -n 1", "compare -q -format w2 -near -mode l2"} {
		cmd := exec.Command(os.Args[0], strings.Fields(args)...) // a process that has not found it before
		cmd.Env = append(os.Environ(), "TMACC_TEST_MAIN=1", "PATH="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the go command is needed") {
			t.Errorf("%s: %v, %s", args, err, out)
		}
	}
}
