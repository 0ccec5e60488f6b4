package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// worker is a goroutine that works on regions of others, one at a time.
type worker struct {
	// seat is nil while the worker looks for work, asleep while it sleeps, the lane that it
	// is offered, or busy while it works on one.
	seat atomic.Pointer[seat]
	wake chan struct{}
	_    [64]byte // the next worker's seat lies in another cache line
}

// asleep and busy are no lanes, but states of workers.
var asleep, busy = new(seat), new(seat)

var (
	workers     atomic.Pointer[[]*worker]
	moreWorkers sync.Mutex
)

// workersFor is the first n workers. It starts those that have not been needed before; they
// stay for as long as the process runs.
func workersFor(n int) []*worker {
	if have := workers.Load(); have != nil && len(*have) >= n {
		return (*have)[:n]
	}
	moreWorkers.Lock()
	defer moreWorkers.Unlock()
	var all []*worker
	if have := workers.Load(); have != nil {
		all = append(all, *have...)
	}
	for len(all) < n {
		w := &worker{wake: make(chan struct{}, 1)}
		all = append(all, w)
		go w.loop()
	}
	workers.Store(&all)
	return all[:n]
}

// offer offers s to w and reports whether w had nothing to do.
func (w *worker) offer(s *seat) bool {
	if w.seat.CompareAndSwap(nil, s) {
		return true
	}
	if w.seat.CompareAndSwap(asleep, s) {
		w.wake <- struct{}{}
		return true
	}
	return false
}

// loop works on what it is offered, spins a while and sleeps, for ever.
func (w *worker) loop() {
	offered := func() bool { return w.seat.Load() != nil }
	for {
		if !spinUntil(offered) && w.seat.CompareAndSwap(nil, asleep) {
			<-w.wake
		}
		s := w.seat.Load()
		if s == nil || !w.seat.CompareAndSwap(s, busy) {
			continue // the caller has done it all
		}
		r := s.r
		r.do(s.lane)
		w.seat.Store(nil)
		if r.finished.Add(1) == 0 {
			r.done <- struct{}{}
		}
	}
}

// spin is how long a worker looks for new work, and a caller for the end of the work of others,
// before it sleeps. Waking a sleeper takes some 10 us.
const spin = 50 * time.Microsecond

// patience is how long a thread spins before it lets others run, goroutines and threads of its
// CPU. Most waits are over by then. runtime.Gosched may take 20 to 90 us (Figures:
// docs/lab/choices.md, patience), and a background task that gets the CPU keeps it for milliseconds.
const patience = 10 * time.Microsecond

// spinUntil waits for a condition for about as long as spin and reports whether it holds. After its
// patience it lets other goroutines run, and other threads on its CPU: on a machine with more to do
// than it has CPUs, a worker that just finished would otherwise spin where its caller waits to go on.
func spinUntil(holds func() bool) bool {
	if holds() {
		return true
	}
	began := time.Now()
	for {
		for range 16 {
			pause()
			if holds() {
				return true
			}
		}
		waited := time.Since(began)
		if waited > spin {
			return false
		}
		if waited > patience {
			runtime.Gosched()
			yield()
		}
	}
}
