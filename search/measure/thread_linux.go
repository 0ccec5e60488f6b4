package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

const hasThreadTime = true

// threadTime is the CPU time this thread has used.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// pin keeps this thread on cores until the returned function is called. Cores
// that the process may not use are no error: the thread stays where it was.
func pin(cores []int) (unpin func()) {
	var before, set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	if len(cores) == 0 || unix.SchedGetaffinity(0, &before) != nil || unix.SchedSetaffinity(0, &set) != nil {
		return func() {}
	}
	return func() { unix.SchedSetaffinity(0, &before) }
}
