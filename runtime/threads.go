package runtime

import (
	"fmt"
	"sync"

	"github.com/tmacc/tmacc/runtime/pool"
)

// AllThreads, for Options.Threads, is GOMAXPROCS threads, which
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
// threads as Options.Threads counts them: say, the products of queries, keys and values,
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
	for i := range calls {
		if err := r.tasks[i].onDevice(calls[i].matrix); err != nil {
			return fmt.Errorf("GemmAll: call %d of %d: %w", i+1, len(calls), err)
		}
	}
	r.run(threads)
	return nil
}

// chunksPerThread is into how many chunks per thread a region is cut, so that a thread that does not
// get on leaves the others little to wait for, but none of less than leastChunk
// bytes of weights, which take a microsecond or two.
const (
	chunksPerThread = 64
	leastChunk      = 16 << 10
)

// region is products of ranges of rows that threads share, in chunks.
type region struct {
	tasks []task
	lanes []*scratch // the memory of each lane but the caller's, which has that of the tasks
}

var regions = sync.Pool{New: func() any { return new(region) }}

// release returns r to its pool without keeping the caller's buffers alive.
func (r *region) release() {
	for i := range r.tasks {
		t := &r.tasks[i]
		t.p.release(t.scratch)
		*t = task{}
	}
	r.tasks = r.tasks[:0]
	regions.Put(r)
}

// add adds a product to r, to be opened.
func (r *region) add(p *Product) *task {
	r.tasks = append(r.tasks, task{p: p, scratch: p.pool.Get().(*scratch)})
	return &r.tasks[len(r.tasks)-1]
}

// run does all of r with up to `threads` threads, including this one.
func (r *region) run(threads int) {
	if threads = pool.Threads(threads); threads > 1 {
		if chunks := r.cut(threads); chunks > 1 {
			for len(r.lanes) < threads-1 {
				r.lanes = append(r.lanes, new(scratch))
			}
			pool.Run(r, chunks, 1, threads)
			return
		}
	}
	for i := range r.tasks {
		r.tasks[i].run()
	}
}

// cut cuts the rows of the tasks into chunks of about the same work, and returns how many they are.
func (r *region) cut(threads int) (chunks int) {
	total := 0
	for i := range r.tasks {
		total += r.tasks[i].work()
	}
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
		t.rows, t.first = each*step, chunks
		chunks += ceilDiv(tiles, each)
	}
	return chunks
}

// Do does chunks of the tasks.
func (r *region) Do(lane, first, end int) {
	for i := range r.tasks {
		t := r.tasks[i]
		from, to := max(first-t.first, 0), end-t.first
		if t.rows == 0 || to <= 0 || t.lo+from*t.rows >= t.hi {
			continue
		}
		t.lo, t.hi = t.lo+from*t.rows, min(t.lo+to*t.rows, t.hi)
		if lane > 0 {
			t.scratch = r.lanes[lane-1]
		}
		t.run()
	}
}

// Leave keeps nothing of the caller's alive.
func (r *region) Leave(lane int) {
	if lane > 0 {
		r.lanes[lane-1].forget()
	}
}

// preparation is PrepareAct of rows of activations that threads share.
type preparation struct {
	p    *Product
	act  []byte
	x    []float32
	n, k int
}

var preparations = sync.Pool{New: func() any { return new(preparation) }}

// Do prepares rows from first up to end.
func (t *preparation) Do(_, first, end int) {
	if err := t.p.PrepareActRows(t.act, t.x, t.n, t.k, first, end); err != nil {
		panic("BUG: runtime: " + err.Error()) // checked before
	}
}

// leastPrepared is how many activations a chunk has at least: some microseconds of work.
const leastPrepared = 16 << 10

// PrepareActThreads is PrepareAct by up to `threads` threads, as Options.Threads counts
// them, for many rows. The result does not depend on their number.
func (p *Product) PrepareActThreads(act []byte, x []float32, n, k, threads int) error {
	if p.ready() != nil || threads == 0 || threads == 1 || n <= p.ActStep() {
		return p.PrepareAct(act, x, n, k)
	}
	if err := p.PrepareActRows(act, x, n, k, 0, 0); err != nil { // checks all, writes the header
		return err
	}
	threads = pool.Threads(threads)
	blocks := max(ceilDiv(n, p.ActStep()*threads*chunksPerThread), ceilDiv(leastPrepared, p.ActStep()*k))
	t := preparations.Get().(*preparation)
	*t = preparation{p, act, x, n, k}
	pool.Run(t, n, blocks*p.ActStep(), threads)
	*t = preparation{}
	preparations.Put(t)
	return nil
}
