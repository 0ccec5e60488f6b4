package runtime

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// AllThreads, for Options.Threads, is as many threads as GOMAXPROCS allows, which
// Go sets to the CPUs that the process may use and to the limit of its cgroup.
const AllThreads = -1

// Call is one product of GemmAll: what Gemm is given, for all rows of the matrix.
type Call struct {
	Product     *Product
	Dst         []float32
	Packed, Act []byte
	Options     Options // Threads does not count here
	matrix      *Matrix // whose Call made it, nil if none did
}

// ready is an error if c has no product, or a matrix that is closed.
func (c *Call) ready() error {
	if c.matrix != nil {
		return c.matrix.usable()
	}
	return c.Product.ready()
}

// GemmAll multiplies several matrices under one fork and join, of up to threads
// threads as Options.Threads counts them: say, those of queries, keys and values,
// which share their activations. It checks all calls before it begins the first.
// No two of them may write the same element.
func GemmAll(threads int, calls ...Call) error {
	r := regions.Get().(*region)
	defer r.release()
	for i := range calls {
		c := &calls[i]
		err := c.ready()
		if err == nil {
			err = r.add(c.Product).open(c.Dst, c.Packed, c.Act, &c.Options)
		}
		if err != nil {
			return fmt.Errorf("GemmAll: call %d of %d: %w", i+1, len(calls), err)
		}
	}
	r.run(threads)
	return nil
}

// spin is how long a worker looks for new work, and a caller for the end of the
// work of others, before it sleeps. Waking a sleeper takes some 10 us.
const spin = 50 * time.Microsecond

// A region is cut into so many chunks per thread, so that a thread that does not
// get on leaves the others little to wait for, but none of less than leastChunk
// bytes of weights, which take a microsecond or two.
const (
	chunksPerThread = 64
	leastChunk      = 16 << 10
)

// region is work that threads share: products of ranges of rows, or the preparation
// of activations, in chunks.
type region struct {
	tasks    []task
	prepare  preparation
	chunks   int
	parts    []part        // of each thread that may come
	came     atomic.Int32  // threads that have a part
	finished atomic.Int32  // workers that are done, minus those the caller sleeps for
	done     chan struct{} // receives when the caller sleeps and all are
	offered  []*worker
}

// part is what is left of the chunks of one thread, which it does in their order: one long
// stream is read faster than many short ones (Emerald Rapids, two threads: 3 to 5 %). One that
// has none left takes the last half of another's.
type part struct {
	left atomic.Uint64 // the first chunk, and the end in the upper half
	_    [56]byte      // the next one lies in another cache line
}

func (t *part) set(first, end int) { t.left.Store(uint64(first) | uint64(end)<<32) }

// take takes chunks from first up to end, none if none is left: the first half for the thread
// whose part it is, the last for another.
func (t *part) take(own bool) (first, end int) {
	for {
		left := t.left.Load()
		first, end := int(uint32(left)), int(left>>32)
		if first >= end {
			return 0, 0
		}
		half := (end - first + 1) / 2
		rest := uint64(first+half) | uint64(end)<<32
		if own {
			end = first + half
		} else {
			rest = uint64(first) | uint64(end-half)<<32
			first = end - half
		}
		if t.left.CompareAndSwap(left, rest) {
			return first, end
		}
	}
}

var regions = sync.Pool{New: func() any { return &region{done: make(chan struct{}, 1)} }}

// release returns r to its pool without keeping the caller's buffers alive.
func (r *region) release() {
	for i := range r.tasks {
		t := &r.tasks[i]
		t.p.release(t.scratch)
		*t = task{}
	}
	r.tasks, r.prepare = r.tasks[:0], preparation{}
	regions.Put(r)
}

// preparation is PrepareAct of rows of activations, if p is not nil.
type preparation struct {
	p          *Product
	act        []byte
	x          []float32
	n, k, rows int // rows of a chunk
}

func (t *preparation) run(first, end int) {
	if err := t.p.PrepareActRows(t.act, t.x, t.n, t.k, first*t.rows, min(end*t.rows, t.n)); err != nil {
		panic("BUG: runtime: " + err.Error()) // checked before
	}
}

// leastPrepared is how many activations a chunk has at least: some microseconds of work.
const leastPrepared = 16 << 10

// PrepareActThreads is PrepareAct by up to so many threads, as Options.Threads counts
// them, for many rows. The result does not depend on their number.
func (p *Product) PrepareActThreads(act []byte, x []float32, n, k, threads int) error {
	if p.ready() != nil || threads == 0 || threads == 1 || n <= p.ActStep() {
		return p.PrepareAct(act, x, n, k)
	}
	if err := p.PrepareActRows(act, x, n, k, 0, 0); err != nil { // checks all, writes the header
		return err
	}
	r := regions.Get().(*region)
	defer r.release()
	threads = r.threads(threads)
	blocks := max(ceilDiv(n, p.ActStep()*threads*chunksPerThread), ceilDiv(leastPrepared, p.ActStep()*k))
	r.prepare = preparation{p, act, x, n, k, blocks * p.ActStep()}
	r.chunks = ceilDiv(n, r.prepare.rows)
	r.share(threads)
	return nil
}

// run does all of r with up to so many threads, this one among them.
func (r *region) run(threads int) {
	threads = r.threads(threads)
	if threads > 1 {
		r.cut(threads)
	}
	if threads > 1 && r.chunks > 1 {
		r.share(threads)
		return
	}
	for i := range r.tasks {
		r.tasks[i].run()
	}
}

// share does all chunks of r with up to so many threads.
func (r *region) share(threads int) {
	r.divide(min(threads, r.chunks))
	r.offer(len(r.parts) - 1)
	r.work(nil)
	r.join()
}

// divide gives each of so many threads a part of about the same length.
func (r *region) divide(threads int) {
	r.parts = grow(r.parts, threads)
	for i := range r.parts {
		r.parts[i].set(r.chunks*i/threads, r.chunks*(i+1)/threads)
	}
	r.came.Store(0)
}

// threads is how many may work on r.
func (r *region) threads(threads int) int {
	if threads == 0 || threads == 1 {
		return 1
	}
	most := runtime.GOMAXPROCS(0)
	if threads < 0 {
		return most
	}
	return min(threads, most)
}

// cut cuts the rows of the tasks into chunks of about the same work.
func (r *region) cut(threads int) {
	total := 0
	for i := range r.tasks {
		total += r.tasks[i].work()
	}
	r.chunks = 0
	for i := range r.tasks {
		t := &r.tasks[i]
		step := t.p.Step()
		tiles := ceilDiv(t.hi-t.lo, step)
		if tiles == 0 {
			continue
		}
		each := max(total/(threads*chunksPerThread)/(t.work()/tiles), leastChunk/t.w.tileBytes, 1)
		if each > 1 {
			each = roundUp(each, t.side())
		}
		t.rows, t.first = each*step, r.chunks
		r.chunks += ceilDiv(tiles, each)
	}
}

// work does chunks until none is left, with the memory of a worker, or nil for
// that of the tasks.
func (r *region) work(s *scratch) {
	own := int(r.came.Add(1)) - 1
	for {
		first, end := r.take(own)
		switch {
		case first == end:
			return
		case r.prepare.p != nil:
			r.prepare.run(first, end)
		default:
			r.multiply(s, first, end)
		}
	}
}

// take takes chunks from first up to end, none if none is left: of the thread's own part, or
// half of what it takes of another's, and has the rest for its own.
func (r *region) take(own int) (first, end int) {
	if first, end = r.parts[own].take(true); first < end {
		return first, end
	}
	for i := 1; i < len(r.parts); i++ {
		if first, end = r.parts[(own+i)%len(r.parts)].take(false); first < end {
			half := first + (end-first+1)/2
			r.parts[own].set(half, end)
			return first, half
		}
	}
	return 0, 0
}

// multiply does chunks of the tasks.
func (r *region) multiply(s *scratch, first, end int) {
	for i := range r.tasks {
		t := r.tasks[i]
		from, to := max(first-t.first, 0), end-t.first
		if t.rows == 0 || to <= 0 || t.lo+from*t.rows >= t.hi {
			continue
		}
		t.lo, t.hi = t.lo+from*t.rows, min(t.lo+to*t.rows, t.hi)
		if s != nil {
			t.scratch = s
		}
		t.run()
	}
}

// offer offers r to so many workers that have nothing to do.
func (r *region) offer(n int) {
	r.offered = r.offered[:0]
	for _, w := range workersFor(runtime.GOMAXPROCS(0) - 1) {
		if len(r.offered) == n {
			return
		}
		if w.job.CompareAndSwap(nil, r) {
			r.offered = append(r.offered, w)
		} else if w.job.CompareAndSwap(asleep, r) {
			r.offered = append(r.offered, w)
			w.wake <- struct{}{}
		}
	}
}

// join takes r back from workers that have not begun and waits for the others.
func (r *region) join() {
	began := int32(0)
	for i, w := range r.offered {
		if !w.job.CompareAndSwap(r, nil) {
			began++
		}
		r.offered[i] = nil
	}
	if spinUntil(func() bool { return r.finished.Load() == began }) {
		r.finished.Store(0)
	} else if r.finished.Add(-began) != 0 {
		<-r.done
	}
}

// worker is a goroutine that works on regions of others, one at a time.
type worker struct {
	// job is nil while the worker looks for work, asleep while it sleeps, a region
	// that it is offered, or busy while it works on one.
	job     atomic.Pointer[region]
	wake    chan struct{}
	scratch scratch
	_       [64]byte // the next one's job lies in another cache line
}

// asleep and busy are no regions, but states of workers.
var asleep, busy = new(region), new(region)

var (
	workers     atomic.Pointer[[]*worker]
	moreWorkers sync.Mutex
)

// workersFor is the first n workers. It starts those that have not been needed
// before; they stay.
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

// loop works on what it is offered, spins a while and sleeps, for ever.
func (w *worker) loop() {
	offered := func() bool { return w.job.Load() != nil }
	for {
		if !spinUntil(offered) && w.job.CompareAndSwap(nil, asleep) {
			<-w.wake
		}
		if r := w.job.Load(); r != nil && w.job.CompareAndSwap(r, busy) {
			r.work(&w.scratch)
			w.scratch.forget()
			w.job.Store(nil)
			if r.finished.Add(1) == 0 {
				r.done <- struct{}{}
			}
		}
	}
}

// patience is how long a thread spins before it lets others run, goroutines and threads of its
// CPU: most waits are over by then, runtime.Gosched may take 20 to 90 us (beside other processes,
// Emerald Rapids), and a background task that gets the CPU keeps it for milliseconds.
const patience = 10 * time.Microsecond

// spinUntil waits for a condition for about as long as spin and reports whether it
// holds. After its patience it lets other goroutines run, and other threads on its CPU:
// on a machine with more to do than it has CPUs, a worker that just finished would
// otherwise spin where its caller waits to go on.
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
