package hostile

import (
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"
)

// The limits of a file's cost, whatever is in it. Time is that of CPUs, so that other processes do not count.
const (
	MostMemory = 256 << 20
	MostTime   = time.Second
)

// Campaign is the number of mutants to try: TMACC_MUTANTS, which was asked for then, or otherwise.
func Campaign(otherwise int) (mutants int, asked bool) {
	n, err := strconv.Atoi(os.Getenv("TMACC_MUTANTS"))
	if err != nil {
		return otherwise, false
	}
	return n, true
}

// Cost is what a process has used up to some moment, or between two.
type Cost struct {
	Bytes uint64 // allocated: all allocations together are more than the memory held at any time
	Time  time.Duration
}

// Used is the cost of this process so far.
func Used() Cost {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return Cost{s[0].Value.Uint64(), CPUTime()}
}

// Since is the cost since an earlier moment.
func (c Cost) Since() Cost {
	now := Used()
	return Cost{now.Bytes - c.Bytes, now.Time - c.Time}
}

// CPUTime is the time that this process has used of CPUs.
func CPUTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Keep writes a file that fails, and says where.
func Keep(data []byte) string {
	path := filepath.Join(os.TempDir(), "tmacc-hostile.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err.Error()
	}
	return path
}
