package pool

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counted is work that counts how often each item is done, and notes the lanes that do it.
type counted struct {
	items []atomic.Int32
	lanes []lane
	pause time.Duration // in each call
}

type lane struct {
	inside, left atomic.Int32
	calls        atomic.Int32
}

func newCounted(n, lanes int) *counted {
	return &counted{items: make([]atomic.Int32, n), lanes: make([]lane, lanes)}
}

func (c *counted) Do(l, first, end int) {
	if c.lanes[l].inside.Add(1) != 1 {
		panic("two calls of one lane at once")
	}
	for i := first; i < end; i++ {
		c.items[i].Add(1)
	}
	time.Sleep(c.pause)
	c.lanes[l].calls.Add(1)
	c.lanes[l].inside.Add(-1)
}

func (c *counted) Leave(l int) { c.lanes[l].left.Add(1) }

func (c *counted) check(t *testing.T, what string) {
	t.Helper()
	for i := range c.items {
		if n := c.items[i].Load(); n != 1 {
			t.Fatalf("%s: item %d is done %d times", what, i, n)
		}
	}
	for i := range c.lanes {
		l := &c.lanes[i]
		if left := l.left.Load(); left > 1 || left == 0 && l.calls.Load() > 0 {
			t.Errorf("%s: lane %d left %d times after %d calls", what, i, left, l.calls.Load())
		}
	}
}

// several makes Go run several threads at once for the time of a test.
func several(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// TestRun: each item is done once, for numbers that the grain divides and others, by one Run and by many at once.
func TestRun(t *testing.T) {
	several(t, 4)
	for _, c := range []struct{ n, grain, lanes int }{
		{0, 1, 4}, {1, 1, 1}, {1, 1, 4}, {7, 1, 2}, {7, 3, 2}, {7, 7, 3}, {7, 8, 3}, {1000, 1, 4}, {1000, 64, 4}, {1001, 10, 3}, {5, 1, 100},
	} {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				w := newCounted(c.n, c.lanes)
				Run(w, c.n, c.grain, c.lanes)
				w.check(t, fmt.Sprintf("%+v", c))
			})
		}
		wg.Wait()
	}
}

// TestGrain: calls begin at whole chunks.
func TestGrain(t *testing.T) {
	several(t, 4)
	w := workFunc(func(_, first, end int) {
		if first%16 != 0 || end%16 != 0 && end != 1000 {
			t.Errorf("items %d to %d are not whole chunks of 16", first, end)
		}
	})
	for range 20 {
		Run(w, 1000, 16, 4)
	}
}

type workFunc func(lane, first, end int)

func (f workFunc) Do(lane, first, end int) { f(lane, first, end) }

// TestShared: workers do some of the work, also after they slept.
func TestShared(t *testing.T) {
	several(t, 2)
	for range 3 {
		shared := false
		for range 100 { // a worker may not get a CPU at once
			w := newCounted(64, 2)
			w.pause = 100 * time.Microsecond
			Run(w, 64, 1, 2)
			w.check(t, "shared")
			if shared = w.lanes[0].calls.Load() > 0 && w.lanes[1].calls.Load() > 0; shared {
				break
			}
		}
		if !shared {
			t.Error("one lane did everything, 100 times")
		}
		time.Sleep(20 * spin)
	}
}

// TestNested: work may itself call Run; its workers are busy, so the caller does it alone or with others.
func TestNested(t *testing.T) {
	several(t, 2)
	var sum atomic.Int64
	inner := workFunc(func(_, first, end int) { sum.Add(int64(end - first)) })
	Run(workFunc(func(_, first, end int) {
		for range end - first {
			Run(inner, 100, 1, 2)
		}
	}), 50, 1, 2)
	if sum.Load() != 5000 {
		t.Errorf("%d inner items are done, not 5000", sum.Load())
	}
}

// TestThreads: what a caller asks for, and what it gets.
func TestThreads(t *testing.T) {
	several(t, 3)
	for asked, want := range map[int]int{-1: 3, -7: 3, 0: 1, 1: 1, 2: 2, 3: 3, 4: 3, 1000: 3} {
		if got := Threads(asked); got != want {
			t.Errorf("Threads(%d) = %d, want %d", asked, got, want)
		}
	}
}

// TestParts: each chunk is taken once, also if lanes that have a part never come, and a lane alone
// takes its part in order.
func TestParts(t *testing.T) {
	for _, c := range []struct{ chunks, lanes, come int }{{1, 1, 1}, {7, 1, 1}, {2, 2, 1}, {2, 2, 2}, {64, 2, 1}, {64, 2, 2}, {1000, 7, 3}, {100000, 5, 5}} {
		r := &region{}
		r.divide(c.chunks, c.lanes)
		taken := make([]atomic.Int32, c.chunks)
		var wg sync.WaitGroup
		for own := range c.come {
			wg.Go(func() {
				next := c.chunks * own / c.lanes
				for first, end := r.take(own); first < end; first, end = r.take(own) {
					if c.come == 1 && next < c.chunks/c.lanes && first != next {
						t.Errorf("%+v: from %d, not %d", c, first, next)
					}
					for i := range taken[first:end] {
						taken[first+i].Add(1)
					}
					next = end
				}
			})
		}
		wg.Wait()
		for i := range taken {
			if n := taken[i].Load(); n != 1 {
				t.Fatalf("%+v: chunk %d is taken %d times", c, i, n)
			}
		}
	}
}

// TestWorkersStay: workers are started once, and never more than GOMAXPROCS needs.
func TestWorkersStay(t *testing.T) {
	several(t, 2)
	before := 0
	if have := workers.Load(); have != nil {
		before = len(*have)
	}
	for range 50 {
		Run(newCounted(100, 64), 100, 1, 64)
	}
	if got := len(*workers.Load()); got != max(before, 1) {
		t.Errorf("%d workers, not %d", got, max(before, 1))
	}
	for _, w := range *workers.Load() {
		if s := w.seat.Load(); s != nil && s != asleep {
			t.Error("a worker still has work")
		}
	}
}

// TestNoAllocation: Run allocates nothing once its workers are there.
func TestNoAllocation(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented code allocates")
	}
	several(t, 2)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools
	var sum atomic.Int64
	var w Work = workFunc(func(_, first, end int) { sum.Add(int64(end - first)) })
	const runs = 500
	run := func() {
		for range runs {
			Run(w, 100, 1, 2)
		}
	}
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	if got := (after.Mallocs - before.Mallocs) / runs; got != 0 {
		t.Errorf("%d allocations per call", got)
	}
	if sum.Load() != 2*runs*100 {
		t.Errorf("%d items are done, not %d", sum.Load(), 2*runs*100)
	}
}

// BenchmarkRun is the time of a fork and a join: a Run of little work on two lanes.
func BenchmarkRun(b *testing.B) {
	w := workFunc(func(_, first, end int) {})
	for b.Loop() {
		Run(w, 128, 1, 2)
	}
}
