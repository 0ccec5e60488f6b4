// Package sparing runs tests that compile kernels in two thirds of the CPU time that Go's defaults take.
package sparing

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/tmacc/tmacc/search/garbage"
)

// Garbage is collected as rarely as where kernels are compiled. Above the limit, which
// tests that measure large matrices reach, it is collected as it is needed.
const limit = 2 << 30

// Run runs the tests of a package and ends the process, after it has called the functions of `after`. GOGC and GOMEMLIMIT of the environment count, if they are set. No
// allocations are sampled unless -memprofile asks for them.
func Run(m *testing.M, after ...func()) {
	flag.Parse()
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(garbage.Percent)
		debug.SetMemoryLimit(limit)
	}
	if flag.Lookup("test.memprofile").Value.String() == "" {
		runtime.MemProfileRate = 0
	}
	code := m.Run()
	for _, f := range after {
		f()
	}
	os.Exit(code)
}
