package worker

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tmacc/tmacc/search/jit"
)

// denying, as the first argument of this program, makes it run the others where memory may not become executable.
const denying = "denying"

var _ = denied()

// denied does not return in a process that is to run something else.
func denied() bool {
	if len(os.Args) > 2 && os.Args[1] == denying {
		if unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != nil {
			os.Exit(cannotDeny)
		}
		panic(syscall.Exec(os.Args[2], os.Args[2:], os.Environ()))
	}
	return false
}

// cannotDeny is the status of a process that this system cannot deny anything.
const cannotDeny = 77

// needDenying skips where the system cannot do that.
func needDenying(t *testing.T) {
	t.Helper()
	exit := (*exec.ExitError)(nil)
	if err := exec.Command(os.Args[0], denying, "/bin/true").Run(); errors.As(err, &exit) && exit.ExitCode() == cannotDeny {
		t.Skip("needs Linux 6.3: PR_SET_MDWE")
	}
	if !jit.Supported() {
		t.Skip(jit.ErrPlatform)
	}
}

// Where memory may not become executable, here or over there, functions are linked and work.
func TestDenied(t *testing.T) {
	if os.Getenv("TMACC_DENIED_TEST") != "" {
		if why := here.Unmapped(); !strings.Contains(why, "mprotect: permission denied") {
			t.Errorf("Unmapped: %q", why)
		}
		runs(t, load(t, Options{}, Linked, broken))
		return
	}
	needDenying(t)
	t.Run("here", func(t *testing.T) {
		cmd := exec.Command(os.Args[0], denying, os.Args[0], "-test.run=^TestDenied$")
		cmd.Env = append(os.Environ(), "TMACC_DENIED_TEST=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("over there", func(t *testing.T) {
		m, err := Emulated(runtime.GOARCH, os.Args[0], denying)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if why := m.Unmapped(); !strings.Contains(why, "mprotect: permission denied") {
			t.Errorf("Unmapped: %q", why)
		}
		runs(t, load(t, Options{On: m}, Linked, broken))
	})
}

// A process whose policy changed after it started may be unable to map functions: that is no fault of the functions.
func TestDeniedLater(t *testing.T) {
	needDenying(t)
	m, err := Emulated(runtime.GOARCH, os.Args[0], denying)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.unmapped = ""
	c, err := Load(Options{On: m}, broken)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.Func("Add", "")
	if err != nil {
		t.Fatal(err)
	}
	err = f.Run(params, args())
	if unable := (*Unable)(nil); !errors.As(err, &unable) || !IsEnvironment(err) || IsFault(err) || !strings.Contains(err.Error(), "set TMACC_JIT=off") {
		t.Errorf("%v", err)
	}
}

// A program that may not run where it was made, as on a disk that is mounted noexec, is no fault of its functions; the error says what to set.
func TestNotExecutable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.exe")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := (&Machine{own: &program{path: path}}).start(nil)
	if lost := (*Lost)(nil); !errors.As(err, &lost) || !IsEnvironment(err) || !strings.Contains(err.Error(), path+": permission denied: set TMPDIR to a folder that can be written, where programs may run") {
		t.Error(err)
	}
}
