package worker

import (
	"errors"
	"fmt"
	"time"
)

// IsFault says that err is of code that did what no kernel may do: a *Crash, a *Timeout or a *Wrong.
func IsFault(err error) bool {
	var crash *Crash
	var timeout *Timeout
	var wrong *Wrong
	return errors.As(err, &crash) || errors.As(err, &timeout) || errors.As(err, &wrong)
}

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

// Lost reports that there is no process, for which no code is to blame: it was killed from outside, or
// cannot be reached or started.
type Lost struct {
	Why         string
	unreachable bool // rather than killed
}

func (e *Lost) Error() string { return "worker: " + e.Why }
