package worker

import (
	"time"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/rig"
	"github.com/tmacc/tmacc/search/timing"
)

// greeting is the first message of a process.
type greeting struct {
	How      How
	Host     timing.Host
	Unmapped string          // why the process cannot map functions, "" if it can, or has them linked
	Device   *deviceGreeting // nil of a process that runs machine code
}

// request has one member set besides Limit, after which the process ends itself.
type request struct {
	Limit time.Duration
	Load  *jit.Object // in place of the functions loaded before
	Call  *callRequest
	Test  *testRequest
	Time  *timeRequest
	Probe *probeRequest
	Read  bool          // the bandwidth of reading a device's memory
	Like  *spirv.Speeds // all that a device does at best; what no shader shows is as these say
}

// callRequest calls a function with each of several lists of arguments, between
// guard pages, twice.
type callRequest struct {
	Func  string
	Names []string // of parameters
	Bufs  [][]byte // each once, however many calls have it
	Calls [][]argument
}

// argument is a number, or if Buf is not 0 buffer number Buf - 1.
type argument struct {
	Int int64
	Buf int
}

// testRequest compares a product with its definition.
type testRequest struct {
	Spec runtime.Spec // without Fn: kernels have the names of functions
	Seed uint64
}

// timeRequest measures products, each in turn in every round. If the odd ones take no more than Most times as long as the
// even ones, in the geometric mean, each two are then measured again, by Longer.
type timeRequest struct {
	Products        []Timed
	Options, Longer timing.Options
	Most            float64 // 0: once is all
}

// probeRequest times calls of functions, which read and write memory of their own that is freed again.
type probeRequest struct {
	Calls   []rig.Call
	Options timing.Options
}

// change is an argument after a call that changed its bytes.
type change struct {
	Call, Arg int
	Buf       []byte
}

// reply answers a request. Problem is a fault of the request, or of this machine if there is a Remedy for it;
// Wrong is one of the code.
type reply struct {
	Problem, Wrong string
	Refused, Lost  bool     // the device cannot run the shaders of the Problem; it is lost
	Skipped        []string // by a Test: kernels that the device does not run
	Remedy         string
	Changed        []change        // by a Call
	Samples        []timing.Sample // by a Time or a Probe
	ReadGBS        float64         // by a Read
	Speeds         *spirv.Speeds   // by Like
}
