// Package sparing runs tests that compile kernels in two thirds of the CPU time that they take otherwise.
package sparing

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// percent is the GOGC of tests. A kernel that is compiled is garbage soon, and little memory stays in use.
const percent = 400

// Run runs the tests of a package and ends the process. It collects garbage more rarely than Go does by default, unless
// the environment sets GOGC, and samples no allocations unless -memprofile asks for them.
func Run(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if flag.Lookup("test.memprofile").Value.String() == "" {
		runtime.MemProfileRate = 0
	}
	os.Exit(m.Run())
}
