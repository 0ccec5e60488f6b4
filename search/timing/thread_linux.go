package timing

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the CPU time this thread has used, unless the system does not say.
func threadTime() (used time.Duration, known bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}

// Spread keeps this thread on the last of the CPUs that it may use and all other
// threads of the process off it, until the returned function is called: else the
// system may leave threads that work together on one CPU while others are busy. With
// fewer than two CPUs it does nothing. The caller is locked to its thread.
func Spread() (restore func()) {
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || all.Count() < 2 {
		return func() {}
	}
	// Go would count the CPUs of any of its threads and run on that many.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	ours, others := unix.CPUSet{}, all
	for cpu := len(all)*64 - 1; ; cpu-- {
		if all.IsSet(cpu) {
			ours.Set(cpu)
			others.Clear(cpu)
			break
		}
	}
	place := func(ours, others unix.CPUSet) {
		self := unix.Gettid()
		tasks, _ := os.ReadDir("/proc/self/task")
		for _, t := range tasks {
			if id, err := strconv.Atoi(t.Name()); err == nil && id != self {
				unix.SchedSetaffinity(id, &others) // one that has ended is no error
			}
		}
		unix.SchedSetaffinity(self, &ours)
	}
	place(ours, others)
	return func() { place(all, all) }
}
