package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The limits of a file's cost, whatever is in it. Time is that of CPUs, so that other processes hardly count.
// The costliest file takes 0.6 s of a core that is idle otherwise; a virtual one beside busy neighbours takes twice that.
// A reader whose time grows faster than its file misses either limit by far.
const (
	MostMemory = 256 << 20
	MostTime   = 3 * time.Second
)

// Campaign is the number of mutants to try: TMACC_MUTANTS, which was asked for then, or otherwise.
func Campaign(otherwise int) (mutants int, asked bool) {
	n, err := strconv.Atoi(os.Getenv("TMACC_MUTANTS"))
	if err != nil {
		return otherwise, false
	}
	return n, true
}

// Seed is the seed of a run: TMACC_SEED, which replays one, or the time.
func Seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("TMACC_SEED"), 10, 64); err == nil {
		return n
	}
	return uint64(time.Now().UnixNano())
}

// Cost is the cost of some work of a process.
type Cost struct {
	Bytes uint64 // allocated on the heap: all allocations together are more than the memory held at any time
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

// Resident is the memory that this process has now, in bytes, on the heap and outside it.
func Resident() uint64 { return status("VmRSS:") }

// Peak is the most memory that this process has had since its start, or since ResetPeak.
func Peak() uint64 { return status("VmHWM:") }

// ResetPeak makes Peak begin again.
func ResetPeak() {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		panic(err)
	}
}

// status is a number of bytes that the kernel says of this process.
func status(name string) (bytes uint64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, after, _ := strings.Cut(string(text), name)
	if _, err := fmt.Sscan(after, &bytes); err != nil {
		panic(err)
	}
	return bytes << 10
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
