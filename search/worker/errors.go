package worker

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"github.com/tmacc/tmacc/search/jit"
)

// IsFault says that err is of code that did what no kernel may do: a *Crash, a *Timeout or a *Wrong.
func IsFault(err error) bool {
	var crash *Crash
	var timeout *Timeout
	var wrong *Wrong
	return errors.As(err, &crash) || errors.As(err, &timeout) || errors.As(err, &wrong)
}

// IsEnvironment says that err is of the machine, not of any code: it refuses or lacks memory, processes, room on a disk, the go command
// or a connection. What failed would fail with other code too.
func IsEnvironment(err error) bool {
	var lost *Lost
	var unable *Unable
	var start *exec.Error
	var refused syscall.Errno
	return errors.As(err, &lost) || errors.As(err, &unable) || errors.As(err, &start) || errors.As(err, &refused) ||
		errors.Is(err, jit.ErrNoGo) || errors.Is(err, jit.ErrTool) || errors.Is(err, jit.ErrPlatform) ||
		errors.Is(err, ErrNoSource) || errors.Is(err, ErrNoMain)
}

// Unable reports what the system of a worker refused, and what helps.
type Unable struct{ Why, Remedy string }

func (e *Unable) Error() string {
	if e.Remedy == "" { // Why says it
		return "worker: " + e.Why
	}
	return "worker: " + e.Why + ": " + e.Remedy
}

// remedies are what helps against what a system refuses.
var remedies = []struct {
	refused syscall.Errno
	remedy  string
}{
	{syscall.ENOMEM, "free memory or raise its limit, or measure smaller matrices (-m, -k)"},
	{syscall.ENOSPC, "make room, or set TMPDIR to a folder on another disk"},
	{syscall.EROFS, "set TMPDIR to a folder that can be written"},
	{syscall.EACCES, "set TMPDIR to a folder that can be written, where programs may run"},
	{syscall.EAGAIN, "raise the limit of processes (ulimit -u)"},
	{syscall.EMFILE, "raise the limit of open files (ulimit -n)"},
}

// remedy is what helps against err if a system refused something, "" if it did not.
func remedy(err error) string {
	if errors.Is(err, jit.ErrPlatform) {
		return "set " + jit.EnvJIT + "=" + jit.Off + ", and go build links kernels"
	}
	if errors.As(err, new(*jit.NoTemporary)) {
		return "set TMPDIR to a folder that can be written"
	}
	for _, x := range remedies {
		if errors.Is(err, x.refused) {
			return x.remedy
		}
	}
	if refused := syscall.Errno(0); errors.As(err, &refused) {
		return "no kernel is to blame: see what the system says"
	}
	return ""
}

// withRemedy is err with what helps behind it.
func withRemedy(err error) error {
	if r := remedy(err); r != "" {
		return fmt.Errorf("%w: %s", err, r)
	}
	return err
}

// Killed reports code whose process was killed from outside each time that it was called: perhaps for the memory that it took, perhaps for what others
// took. Whether other code is spared tells.
type Killed struct {
	What string
	Why  string
}

func (e *Killed) Error() string {
	return fmt.Sprintf("worker: %s: %s, %d times: free memory or raise its limit, or measure smaller matrices (-m, -k)", e.What, e.Why, mostKilled)
}

// exhausted is in what Go says of a process that got no more memory or threads.
var exhausted = regexp.MustCompile(`(?m)^(?:fatal error: |runtime: )?(?:runtime: )?(out of memory|cannot allocate memory|failed to create new OS thread)`)

// Crash reports code that ended its process.
type Crash struct {
	What   string // a trace, or a function
	Signal string // SIGILL, SIGSEGV, ..., or "" if there was none
	Output string // what the process said, its first lines
}

func (e *Crash) Error() string {
	if e.Signal == "" {
		return fmt.Sprintf("worker: %s: ended its process: %s", e.What, firstLine(e.Output))
	}
	return fmt.Sprintf("worker: %s: ended its process with %s", e.What, e.Signal)
}

// Timeout reports code that did not return in time; its process was killed.
type Timeout struct {
	What  string
	Limit time.Duration
}

func (e *Timeout) Error() string {
	return fmt.Sprintf("worker: %s: did not return in %v", e.What, e.Limit)
}

// Wrong reports code that computed something else than its definition.
type Wrong struct{ What, Difference string }

func (e *Wrong) Error() string { return fmt.Sprintf("worker: %s: is wrong: %s", e.What, e.Difference) }

// Refused reports shaders that a device cannot run, by what it says of itself. Why names the product and its kernel.
type Refused struct{ What, Why string }

func (e *Refused) Error() string { return e.Why }

// Lost reports that there is no process, for which no code is to blame: it was killed from outside, or
// cannot be reached or started.
type Lost struct {
	Why         string
	unreachable bool // rather than killed
}

func (e *Lost) Error() string { return "worker: " + e.Why }
