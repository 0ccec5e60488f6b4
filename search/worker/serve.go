package worker

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/rig"
	"github.com/tmacc/tmacc/search/timing"
)

// envWorker tells a program that it is a worker.
const envWorker = "TMACC_WORKER"

var hooked atomic.Bool

// Main makes the program fit to be its own worker. Called first in main or TestMain,
// it returns at once unless this process was started as a worker: then it serves
// and ends the process.
func Main() {
	if os.Getenv(envWorker) == "" {
		hooked.Store(true)
		return
	}
	Serve(nil)
}

// Serve answers requests on standard input until that ends, and ends the process.
// linked are functions of the program, to be called with a pointer to their
// parameters; a program without any maps what it is sent.
func Serve(linked map[string]func(*uint64)) {
	signal.Ignore(os.Interrupt, syscall.SIGTERM) // the parent decides
	debug.SetGCPercent(-1)                       // it could not stop code that never ends, and would wait for it: see serve
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	out := os.Stdout
	os.Stdout = os.Stderr
	s := &server{linked: linked, how: Mapped, weights: map[string]*weights{}}
	if linked != nil {
		s.how = Linked
	}
	if err := s.serve(os.Stdin, out); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type server struct {
	how      How
	linked   map[string]func(*uint64)
	img      *jit.Image
	weights  map[string]*weights // of the request, and kept ones
	round    int                 // requests for times so far
	spare    *timing.Copies      // memory for the next weights
	matrices []matrix
}

func (s *server) serve(in io.Reader, out io.Writer) error {
	w := bufio.NewWriter(out)
	enc := gob.NewEncoder(w)
	send := func(x any) error {
		if err := enc.Encode(x); err != nil {
			return err
		}
		return w.Flush()
	}
	hello := greeting{How: s.how, Host: timing.ThisHost(), Device: greetDevice()}
	if err := jit.Mappable(); err != nil && s.linked == nil {
		hello.Unmapped = err.Error()
	}
	if err := send(hello); err != nil {
		return err
	}
	for q := range requests(in) {
		late := endAt(q.Limit, hello.Device == nil)
		r := s.answer(q)
		late()
		if err := send(r); err != nil {
			return err
		}
		collect()
	}
	return nil
}

// garbage is how many bytes the heap may hold between requests: collecting after each takes longer
// than most of them.
const garbage = 64 << 20

func collect() {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(heap); heap[0].Value.Uint64() > garbage {
		runtime.GC()
	}
}

// exitLate is the status of a process that took longer for a request than it may.
const exitLate = 92

// busy is how many times its limit a request may take on a machine that is busy with other things.
const busy = 5

// endAt ends the process when a request has taken its limit, until stop is called. By CPU time, a busy machine has busy times the limit for it: code
// that never returns uses CPU time all along.
func endAt(limit time.Duration, byCPU bool) (stop func()) {
	began, used := time.Now(), timing.ProcessTime()
	done := make(chan struct{})
	go func() {
		for left := limit; left > 0; left = min(limit-(timing.ProcessTime()-used), busy*limit-time.Since(began)) {
			select {
			case <-done:
				return
			case <-time.After(left):
			}
			if !byCPU || timing.ProcessTime() == 0 { // where the system does not say it, either
				break
			}
		}
		os.Exit(exitLate)
	}()
	return func() { close(done) }
}

// requests reads them, and ends the process when there are no more, even while code
// of the last one runs: its parent is gone.
func requests(in io.Reader) <-chan *request {
	c := make(chan *request)
	go func() {
		dec := gob.NewDecoder(bufio.NewReader(in))
		for {
			q := new(request)
			if err := dec.Decode(q); err != nil {
				os.Exit(0)
			}
			c <- q
		}
	}()
	return c
}

func (s *server) answer(q *request) *reply {
	r := new(reply)
	var err error
	switch {
	case q.Load != nil:
		err = s.load(q.Load)
	case q.Call != nil:
		err = s.call(q.Call, r)
	case q.Test != nil:
		err = s.test(q.Test, r)
	case q.Time != nil:
		err = s.time(q.Time, r)
	case q.Probe != nil:
		err = s.probe(q.Probe, r)
	case q.Read && vulkan != nil:
		r.ReadGBS, err = vulkan.ReadGBS()
	case q.Like != nil && vulkan != nil:
		r.Speeds, err = vulkan.Calibrate(*q.Like)
	default: // an empty reply would say that a test was passed
		err = errors.New("BUG: worker: a request for nothing")
	}
	if err != nil {
		r.Problem, r.Remedy = err.Error(), remedy(err)
		r.Refused, r.Lost = vulkan != nil && vulkan.Refused(err), vulkan != nil && vulkan.Lost()
	}
	return r
}

func (s *server) load(o *jit.Object) error {
	if s.img != nil {
		if err := s.img.Close(); err != nil {
			return err
		}
	}
	var err error
	s.img, err = jit.Map(o)
	return err
}

// function calls the function of a name with its parameters, 8-byte words.
func (s *server) function(name string) (func(words []uint64), error) {
	if f, ok := s.linked[name]; ok {
		return func(words []uint64) { f(unsafe.SliceData(words)) }, nil
	}
	if s.img == nil {
		return nil, fmt.Errorf("no function %s", name)
	}
	f, err := s.img.Func(name)
	return f.Call, err
}

func (s *server) call(q *callRequest, r *reply) error {
	f, err := s.function(q.Func)
	if err != nil {
		return err
	}
	for i := range q.Calls {
		if err := q.callTwice(f, i, r); err != nil || r.Wrong != "" {
			return err
		}
	}
	return nil
}

func (s *server) probe(q *probeRequest, r *reply) error {
	on, err := rig.New(s.function)
	if err != nil {
		return err
	}
	defer on.Close()
	var calls []func()
	for _, c := range q.Calls {
		f, err := on.Func(c)
		if err != nil {
			return err
		}
		calls = append(calls, f)
	}
	r.Samples = timing.Time(q.Options, calls...)
	return nil
}

// callTwice calls with buffers that begin at a guard page and with some that end at
// one.
func (q *callRequest) callTwice(f func([]uint64), number int, r *reply) error {
	args := q.Calls[number]
	first, err := q.callGuarded(f, args, true)
	if err != nil {
		return err
	}
	second, err := q.callGuarded(f, args, false)
	if err != nil {
		return err
	}
	for i := range args {
		if !bytes.Equal(first[i], second[i]) {
			r.Wrong = fmt.Sprintf("parameter %s depends on the alignment of the buffers", q.Names[i])
			return nil
		}
		if first[i] != nil {
			r.Changed = append(r.Changed, change{number, i, first[i]})
		}
	}
	return nil
}

// callGuarded returns the buffers that a call has changed.
func (q *callRequest) callGuarded(f func([]uint64), args []argument, low bool) ([][]byte, error) {
	words := make([]uint64, max(1, len(args)))
	bufs := make([]guarded, len(args))
	defer func() {
		for _, b := range bufs {
			b.free()
		}
	}()
	for i, a := range args {
		if a.Buf == 0 {
			words[i] = uint64(a.Int)
			continue
		}
		was, err := q.Bufs[a.Buf-1], error(nil)
		if bufs[i], err = guard(len(was), low); err != nil {
			return nil, err
		}
		copy(bufs[i].buf, was)
		words[i] = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(bufs[i].buf))))
	}
	f(words)
	changed := make([][]byte, len(args))
	for i, a := range args {
		if a.Buf > 0 && !bytes.Equal(bufs[i].buf, q.Bufs[a.Buf-1]) {
			changed[i] = bytes.Clone(bufs[i].buf)
		}
	}
	return changed, nil
}
