// Package explore is a schedule that a person or a program shapes step by step: what it is at every stage of the compiler, which
// next steps are legal, what the model of the core predicts, and what the machine says. It has no logic of its own: steps come from the
// rules of search/space, stages and predictions from search/build, measurements from search/session. It draws nothing.
//
//	problem, target -> Open -> Add, Edit, Delete, Move, Choose, Undo ... -> Measure, Search -> Save
package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// Options name the product to explore. Problem, Target and Columns are required.
type Options struct {
	Problem  ir.Problem
	Target   lower.Selector    // a lower.Target of a CPU, or a spirv.Target of devices of Vulkan
	Columns  int               // of activations for each call of the kernel, and for each product that is measured
	Modes    []string          // where weights are, as measure.ModeL2; none: session.UsualModes
	M, K     int               // of the matrix that is measured, 0: the mode's own
	Trace    schedule.Trace    // to begin with; nil: the lock's, a record's or the default one
	Origin   string            // of Trace
	Lock     string            // the file that Save changes; "": Save fails
	Only     bool              // no products count for Save but those that are measured, of Columns and Modes
	Lacks    string            // what this machine lacks to run the target, "": nothing
	Defaults *defaults.Chooser // nil: as a nil one chooses
	Version  string            // of the program, for the lock
	Log      string            // as session.Options has it
	Flags    []string          // of the command that name all of the above, for commands that reproduce
	Probing  timing.Options    // as session.Options has it
	Hung     time.Duration     // as session.Options has it
	// Device opens a device of Vulkan, for targets of shaders; nil: nothing is measured. It says what takes long.
	Device func(ctx context.Context, say func(string)) (*shaders.Lab, error)
}

// Explorer is one schedule, what it was before, and all known facts about both. Its methods may be called at once; only one of
// Measure, Compare, Search and Save works at a time, and the others return ErrBusy.
type Explorer struct {
	Options
	space    *space.Space
	on       machine
	purposes []fmt.Stringer // of predictions
	usual    schedule.Trace // the default schedule
	baseline []float64      // its predicted times, for each purpose

	mu      sync.Mutex
	history []schedule.Trace
	now     int                       // in history
	cursor  int                       // a step, or the end
	marked  map[string]schedule.Trace // by name
	pairs   map[[2]string]*Measured   // of schedules that were compared, the base last
	list    []Next                    // what was offered last
	known   map[string]*facts
	found   *Found
	stages  map[string][]build.Stage
	session gauge  // nil before the first action
	busy    string // what works now
	hear    func(session.Event)
	stop    context.CancelFunc // of what works now
	ended   chan struct{}      // closed when that has ended
	closed  bool
}

// facts are known about a trace.
type facts struct {
	predicted *Prediction
	measured  *Measured
	reached   Roofline // as last measured
	fault     string   // why it cannot be measured
}

// ErrBusy is the error of an action while another one runs.
var ErrBusy = errors.New("is still running: wait for it, or stop it")

// ErrClosed is the error of an action after Close.
var ErrClosed = errors.New("the exploration has ended")

// Open chooses the schedule to begin with. The error is that of ctx, of the lock, or of a product that has no exact schedule.
func Open(ctx context.Context, o Options) (*Explorer, error) {
	if len(o.Modes) == 0 {
		o.Modes = session.UsualModes
	}
	e := &Explorer{Options: o, marked: map[string]schedule.Trace{}, known: map[string]*facts{}, stages: map[string][]build.Stage{}}
	var err error
	if e.on, err = e.machineOf(); err != nil {
		return nil, err
	}
	e.purposes = e.on.purposes()
	if t, ok := o.Target.(spirv.Target); ok {
		e.space, err = shaders.Space(o.Problem, t, o.Columns)
	} else {
		e.space, err = space.For(o.Problem, o.Target)
	}
	if err != nil {
		return nil, err
	}
	uses, origin, err := e.on.usual(ctx)
	if err != nil {
		return nil, err
	}
	if e.usual, err = build.TraceFor(o.Problem, o.Target, uses, o.Columns); err != nil {
		return nil, err
	}
	if e.baseline, err = e.on.predict(ctx, e.usual); err != nil {
		return nil, fmt.Errorf("the default schedule: %w", err)
	}
	begin, err := e.begin(origin)
	if err != nil {
		return nil, err
	}
	e.history = []schedule.Trace{begin}
	return e, nil
}

// begin is the schedule to begin with. It sets its origin.
func (e *Explorer) begin(usual defaults.Origin) (schedule.Trace, error) {
	if e.Trace != nil {
		return e.Trace, nil
	}
	if e.Lock != "" {
		lock, err := tune.ReadLock(e.Lock)
		if err != nil {
			return nil, err
		}
		if entry := lock.Find(e.Problem, e.Target); entry != nil && entry.For(e.Problem) {
			if i := slices.IndexFunc(entry.Uses(), func(u search.Use) bool { return u.Cols == e.Columns }); i >= 0 {
				e.Origin = string(defaults.Lock) + ": " + e.Lock
				return entry.Uses()[i].Trace, nil
			}
		}
	}
	e.Origin = string(usual)
	return e.usual, nil
}

// Close ends what still measures or searches, waits for its end, and ends the session. Later actions return ErrClosed.
func (e *Explorer) Close() error {
	e.mu.Lock()
	e.closed = true
	stop, ended := e.stop, e.ended
	e.mu.Unlock()
	if stop != nil {
		stop()
		<-ended
	}
	e.mu.Lock()
	s := e.session
	e.session = nil
	e.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}

// Now is the schedule.
func (e *Explorer) Now() schedule.Trace {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.history[e.now]
}

// Before is the schedule that Undo would bring back, the same as Now at the beginning.
func (e *Explorer) Before() schedule.Trace {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.history[max(0, e.now-1)]
}

// Place is Now and Cursor of one moment.
func (e *Explorer) Place() (schedule.Trace, int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.history[e.now], e.cursor
}

// Cursor is the step at which things are added and offered: an index of Now, or its length for the end.
func (e *Explorer) Cursor() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cursor
}

// Go moves the cursor.
func (e *Explorer) Go(step int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.history[e.now]); step < 0 || step > n {
		return fmt.Errorf("step %d: want 0 to %d", step, n)
	}
	e.cursor = step
	return nil
}

// Set replaces the schedule, as one change for Undo. The cursor goes to a step.
func (e *Explorer) Set(t schedule.Trace, cursor int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cursor = min(max(cursor, 0), len(t))
	if same(t, e.history[e.now]) {
		return
	}
	e.history = append(e.history[:e.now+1:e.now+1], slices.Clip(t))
	e.now++
}

// Undo brings the schedule before the last change back, Redo the one after it. The error says that there is none.
func (e *Explorer) Undo() error { return e.turn(-1, "undo") }

// Redo is the opposite of Undo.
func (e *Explorer) Redo() error { return e.turn(1, "redo") }

func (e *Explorer) turn(by int, what string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i := e.now + by; i < 0 || i >= len(e.history) {
		return fmt.Errorf("there is nothing to %s", what)
	}
	e.now += by
	e.cursor = min(e.cursor, len(e.history[e.now]))
	return nil
}

// Reset brings the schedule back that the exploration began with, as a change for Undo.
func (e *Explorer) Reset() {
	e.mu.Lock()
	first := e.history[0]
	e.mu.Unlock()
	e.Set(first, 0)
}

// about finds the facts of a trace. The caller holds e.mu.
func (e *Explorer) about(t schedule.Trace) *facts {
	key := t.Key()
	f := e.known[key]
	if f == nil {
		f = &facts{}
		e.known[key] = f
	}
	return f
}
