//go:build unix

package timing

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTime is the CPU time that all threads of this process have used, 0 where the system does not say.
func ProcessTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
