package worker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/jit"
)

// Errors of a machine are told from errors of code.
func TestIsEnvironment(t *testing.T) {
	for want, errs := range map[bool][]error{
		true: {
			&Lost{Why: "x"}, &Unable{"x", "y"}, fmt.Errorf("x: %w", jit.ErrNoGo), jit.ErrPlatform, &jit.Denied{Err: syscall.EACCES}, ErrNoSource, ErrNoMain,
			&os.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}, &exec.Error{Name: "go", Err: exec.ErrNotFound},
			jit.ToolError("go build", errors.New("exit status 1"), "mkdir /x: no space left on device"),
		},
		false: {
			&Crash{}, &Timeout{}, &Wrong{}, &Killed{}, errors.New("x"), nil,
			jit.ToolError("go tool asm", errors.New("exit status 1"), "c.s:2: unrecognized instruction"),
		},
	} {
		for _, err := range errs {
			if IsEnvironment(err) != want {
				t.Errorf("%v: %v, want %v", err, !want, want)
			}
		}
	}
}

// What a system refused has a remedy; what code did has none.
func TestRemedy(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("mmap: %w", syscall.ENOMEM), "free memory"},
		{&os.PathError{Op: "mkdir", Path: "/tmp", Err: syscall.ENOSPC}, "make room"},
		{&os.PathError{Op: "mkdir", Path: "/tmp", Err: syscall.EROFS}, "set TMPDIR"},
		{&os.PathError{Op: "fork/exec", Path: "/tmp/x", Err: syscall.EACCES}, "where programs may run"},
		{syscall.EAGAIN, "ulimit -u"},
		{syscall.EMFILE, "ulimit -n"},
		{syscall.EIO, "no kernel is to blame"},
		{&jit.NoTemporary{Folder: "/x", Err: syscall.ENOENT}, "set TMPDIR to a folder that can be written"},
		{&jit.Denied{Err: syscall.EACCES}, "TMACC_JIT=off"},
		{errors.New("the spec is wrong"), ""},
	} {
		if have := remedy(c.err); !strings.Contains(have, c.want) || c.want == "" && have != "" {
			t.Errorf("%v: %q, want %q", c.err, have, c.want)
		}
	}
}

// A reply says whether the machine is to blame.
func TestReplyProblem(t *testing.T) {
	if err := (&reply{}).problem("x"); err != nil {
		t.Error(err)
	}
	if err := (&reply{Problem: "mmap: cannot allocate memory", Remedy: "free memory"}).problem("x"); !IsEnvironment(err) || err.Error() != "worker: mmap: cannot allocate memory: free memory" {
		t.Error(err)
	}
	if err := (&reply{Problem: "no function f"}).problem("x"); err == nil || IsEnvironment(err) || err.Error() != "worker: x: no function f" {
		t.Error(err)
	}
}

// What happens before any function was called is no fault of one; and neither is a process that got no more memory.
func TestBlameless(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&Crash{"x", "", "worker: no gob\nmore"}, "starting: worker: no gob"},
		{&Crash{"x", "SIGILL", ""}, "starting: SIGILL"},
		{&Timeout{"x", time.Minute}, "starting: no answer in 1m0s"},
		{&Lost{Why: "the process was ended: signal: killed"}, "the process was ended"},
	} {
		if err := blameless("starting", c.err); !IsEnvironment(err) || IsFault(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.err, err, c.want)
		}
	}
	for text, want := range map[string]bool{
		"runtime: out of memory: cannot allocate 4194304-byte block (3 in use)\nfatal error: out of memory\n": true,
		"fatal error: runtime: cannot allocate memory\n":                                                      true,
		"runtime: failed to create new OS thread (have 7 already; errno=11)\n":                                true,
		"unexpected fault address 0x0\nfatal error: fault\n[signal SIGSEGV: segmentation violation":           false,
		"panic: out of range\n": false,
	} {
		if exhausted.MatchString(text) != want {
			t.Errorf("%q: %v, want %v", text, !want, want)
		}
	}
}

// Without a folder to write to, nothing is assembled or built, whatever the functions are.
func TestNoTemporaryFolder(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command")
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "gone"))
	for _, build := range []bool{false, true} {
		if _, err := Load(Options{Build: build}, broken); !IsEnvironment(err) || !strings.Contains(err.Error(), "gone") {
			t.Errorf("build %v: %v", build, err)
		}
	}
}
