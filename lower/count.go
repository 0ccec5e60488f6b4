package lower

import "sync/atomic"

// Work counts what this process has made. Tests hold that nothing is made twice.
type Work struct {
	Lowered int64 // kernels
	Printed int64 // functions
}

var lowered, printed atomic.Int64

// Done is the work of this process so far.
func Done() Work { return Work{lowered.Load(), printed.Load()} }

// Since is the work after an earlier one.
func (w Work) Since(earlier Work) Work {
	return Work{w.Lowered - earlier.Lowered, w.Printed - earlier.Printed}
}
