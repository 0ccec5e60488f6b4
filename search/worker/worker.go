// Package worker calls machine code that nothing has verified yet, in a process of
// its own: the program itself, started again (see Main), or, where functions cannot
// be mapped, a program that go build makes of them. Code that faults, never ends,
// writes beside its buffers or computes something else is a typed error that names
// the trace; the process is replaced, and the next call works.
//
// What runs where:
//
//   - Here, on this machine or on another one (see Dial): kernels of candidates, random traces and conformance tests, and every
//     product before package live maps it. A compiler's mistake, or a user's trace that
//     finds one, must cost neither the results of a search nor the process that would
//     report it.
//   - In process, by package live: products that Test has found to equal the
//     definition. They are measured beside probes, in the same rounds on the same thread,
//     and a benchmark of an application would run them so too.
//   - In process, by package measure: probes, the same few loops over registers and
//     buffers for everybody, which its tests run.
//
// Requests and replies are gob messages over the standard input and output of the
// process, or of the ssh that leads to it: a request changes nothing, so one that was lost with its
// process is asked again. Buffers travel in them, and the process copies them to memory between
// pages that cannot be touched, or packs matrices there itself. Timing, and the
// comparison of a product with its definition, take one message each.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/rig"
	"github.com/tmacc/tmacc/search/timing"
)

// Options say how functions are run. The zero value is usual.
type Options struct {
	Limit time.Duration // of a request, in CPU time of its process or a device's time; 0: DefaultLimit
	On    *Machine      // nil: this one
	Build bool          // by go build even where functions can be mapped, as with TMACC_JIT=off
	// Context ends requests, and the process that runs one; nil: only their limit does.
	Context context.Context
}

// DefaultLimit is how long a request may take: a thousand times what one takes
// that is not broken, because machines stall.
const DefaultLimit = 20 * time.Second

// Code is functions in a worker process, until Close. Calls from several goroutines
// take turns.
type Code struct {
	limit   time.Duration
	until   context.Context // of all requests, nil: none
	on      *Machine
	object  *jit.Object // to be mapped by a worker without functions
	built   *program    // or what has them linked
	shaders bool        // there are none: requests have shaders
	mu      sync.Mutex
	p       *process // nil before the first call and after one that ended the process
	fresh   bool     // the next process is to be a new one
}

// Load makes functions of files callable. Where they cannot be mapped, or the
// object files of this Go are not known, it builds a program with them.
func Load(opt Options, files ...lower.File) (*Code, error) {
	c := &Code{limit: cmp.Or(opt.Limit, DefaultLimit), until: opt.Context, on: opt.On.on()}
	if !opt.Build && c.on.Unmapped() == "" {
		if c.on == here && !hooked.Load() {
			return nil, ErrNoMain
		}
		var unknown *jit.ObjectError
		var err error
		if c.object, err = jit.Build(c.on.arch, files...); err == nil {
			return c, nil
		}
		if !errors.As(err, &unknown) {
			return nil, withRemedy(err)
		}
	}
	var err error
	if c.built, err = build(c.on, files); err != nil {
		return nil, withRemedy(err)
	}
	return c, nil
}

// ErrNoMain is what a program gets that does not call Main.
var ErrNoMain = errors.New("worker: this program cannot be its own worker: call session.Main (or worker.Main) first in main or TestMain")

// Close ends the use of c's functions and, if its process was built, removes it.
func (c *Code) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p != nil && c.built == nil {
		c.on.keep(c.p)
	} else if c.p != nil {
		c.p.end()
	}
	c.p = nil
	if c.built == nil {
		return nil
	}
	return c.on.remove(c.built)
}

// Renew makes the next call start a process of its own: one that keeps nothing, neither weights nor the place where they lay.
func (c *Code) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.p != nil {
		c.p.end()
	}
	c.p, c.fresh = nil, true
}

// Object is c's functions, for jit.Map in this process: those that Test has found to be right. The
// error is jit.ErrPlatform if they are linked in a program of their own.
func (c *Code) Object() (*jit.Object, error) {
	if c.built != nil || c.on != here {
		return nil, jit.ErrPlatform
	}
	return c.object, nil
}

// How says how the process of c got its functions: it asks the process.
func (c *Code) How() (How, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.on.persist("starting a worker", func() error { _, err := c.process(); return err })
	if err != nil {
		return "", err
	}
	return c.p.how, nil
}

// How a process got its functions.
type How string

// The ways to get functions.
const (
	Mapped How = "mapped" // assembled, sent and mapped
	Linked How = "linked" // linked by go build
)

// Func is a function of Code; errors call it what.
type Func struct {
	code       *Code
	name, what string
}

// Func returns a function by its name in the assembly; errors call it what, such
// as a trace, or by its name if that is "".
func (c *Code) Func(name, what string) (Func, error) {
	ok := false
	if c.built != nil {
		ok = slices.Contains(c.built.names, name)
	} else {
		_, ok = c.object.Text[name]
	}
	if !ok {
		return Func{}, fmt.Errorf("worker: no function %s", name)
	}
	return Func{c, name, cmp.Or(what, name)}, nil
}

// Run runs f twice on args, as vir.Eval runs a function: once with pages that cannot
// be touched right before the buffers, once right after them, so that an access
// that Eval refuses is a *Crash. Runs that differ are a *Wrong. Buffers hold the
// result.
func (f Func) Run(params []vir.Param, args []vir.Arg) error {
	return f.RunAll(params, [][]vir.Arg{args})
}

// RunAll is Run for each of calls, in one request. All see buffers as they are before the first.
func (f Func) RunAll(params []vir.Param, calls [][]vir.Arg) error {
	q := callRequest{Func: f.name, Calls: make([][]argument, len(calls))}
	for _, p := range params {
		q.Names = append(q.Names, p.Name)
	}
	known := map[buffer]int{}
	for i, args := range calls {
		if len(args) != len(params) {
			return fmt.Errorf("worker: %s: %d arguments for %d parameters", f.what, len(args), len(params))
		}
		q.Calls[i] = make([]argument, len(args))
		for j, a := range args {
			if params[j].Int {
				q.Calls[i][j].Int = a.Int
				continue
			}
			b := buffer{unsafe.SliceData(a.Buf), len(a.Buf)}
			if known[b] == 0 {
				q.Bufs = append(q.Bufs, a.Buf)
				known[b] = len(q.Bufs)
			}
			q.Calls[i][j].Buf = known[b]
		}
	}
	r, err := f.code.ask(context.Background(), f.what, request{Call: &q})
	if err != nil {
		return err
	}
	for _, c := range r.Changed {
		copy(calls[c.Call][c.Arg].Buf, c.Buf)
	}
	return nil
}

// Probe times calls of functions in interleaved rounds.
func (c *Code) Probe(opt timing.Options, calls ...rig.Call) ([]timing.Sample, error) {
	r, err := c.ask(context.Background(), "a probe", request{Probe: &probeRequest{calls, opt}})
	if err != nil {
		return nil, err
	}
	return r.Samples, nil
}

// buffer identifies the memory of an argument.
type buffer struct {
	first *byte
	size  int
}

// Run emits k for t and runs it once on args, as vir.Eval runs its function.
func Run(t lower.Target, k *lower.Kernel, args []vir.Arg) error {
	file, err := lower.Emit(t, "main", k)
	if err != nil {
		return err
	}
	c, err := Load(Options{}, file)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.Func(k.Func.Name, "")
	if err != nil {
		return err
	}
	return f.Run(k.Func.Params, args)
}

// ask sends a request about what to the process and waits for the reply, until ctx or the one of all requests ends. It asks again if the process
// is lost for no fault of its own: requests change nothing.
func (c *Code) ask(ctx context.Context, what string, q request) (r *reply, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until != nil {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(c.until, stop)()
	}
	err = c.on.persist(what, func() error {
		r, err = c.askOnce(ctx, what, q)
		return err
	})
	return r, err
}

func (c *Code) askOnce(ctx context.Context, what string, q request) (*reply, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("worker: %s: %w", what, ctx.Err())
	}
	p, err := c.process()
	if err != nil {
		return nil, err
	}
	r, err := p.ask(ctx, q, c.limit)
	switch {
	case err != nil:
		c.p = nil
		if err = p.cause(what, c.limit, err); ctx.Err() != nil {
			err = fmt.Errorf("worker: %s: %w", what, ctx.Err())
		}
		return nil, err
	case r.Lost:
		c.p = nil
		p.end()
		return nil, &Crash{what, "", r.Problem}
	case r.Refused:
		return nil, &Refused{what, r.Problem}
	case r.Wrong != "":
		return nil, &Wrong{what, r.Wrong}
	}
	return r, r.problem(what)
}

// problem is the error of a mishap that is no fault of the code, or nil.
func (r *reply) problem(what string) error {
	switch {
	case r.Remedy != "":
		return &Unable{r.Problem, r.Remedy}
	case r.Problem != "":
		return fmt.Errorf("worker: %s: %s", what, r.Problem)
	}
	return nil
}

// process is one that has c's functions.
func (c *Code) process() (*process, error) {
	if c.p != nil {
		return c.p, nil
	}
	if c.built != nil {
		p, err := c.on.start(c.built)
		c.p = p
		return p, err
	}
	start := c.on.ready
	if c.fresh {
		start = func() (*process, error) { return c.on.start(nil) }
	}
	p, err := start()
	if err != nil {
		return nil, err
	}
	c.fresh = false
	if c.shaders {
		if err := c.on.onItsDevice(p); err != nil {
			p.end()
			return nil, err
		}
		c.p = p
		return p, nil
	}
	r, err := p.ask(context.Background(), request{Load: c.object}, c.limit)
	if err != nil {
		return nil, blameless("loading functions", p.cause("loading functions", c.limit, err))
	}
	if err := r.problem("loading functions"); err != nil {
		p.end()
		return nil, err
	}
	c.p = p
	return p, nil
}
