// Package pool shares work among threads that are kept ready between calls: products,
// the preparation of activations, and whatever else a model does row by row.
//
// Run divides items among lanes. A lane is a goroutine that works on one Run at a time:
// lane 0 is the caller, the others are workers that nothing else keeps busy. Each lane begins
// with a part of its own and, when that is done, takes half of what another has left. So a
// thread that gets no CPU holds nobody up. A call allocates nothing.
package pool

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Work is what the lanes of a Run share.
type Work interface {
	// Do does the items from first up to end. Calls of different lanes run at once; calls of
	// one lane follow each other.
	Do(lane, first, end int)
}

// Leaver is Work that keeps something for each lane while it lasts.
type Leaver interface {
	// Leave is called once by each lane that came, when nothing is left for it to do.
	Leave(lane int)
}

// Threads is how many lanes a caller gets for n threads: at most GOMAXPROCS,
// which a negative number asks for; 0 and 1 are the caller's alone.
func Threads(threads int) int {
	if threads == 0 || threads == 1 {
		return 1
	}
	most := runtime.GOMAXPROCS(0)
	if threads < 0 {
		return most
	}
	return min(threads, most)
}

// Run does items 0 to n-1 of w in at most `lanes` lanes, and returns when all are done. A lane
// takes whole chunks of grain items; the last may be shorter. Lanes are numbered from 0 to lanes-1.
func Run(w Work, n, grain, lanes int) {
	chunks := (n + grain - 1) / grain
	if lanes = min(lanes, chunks); lanes <= 1 {
		if n > 0 {
			w.Do(0, 0, n)
			leave(w, 0)
		}
		return
	}
	r := regions.Get().(*region)
	r.work, r.n, r.grain = w, n, grain
	r.divide(chunks, lanes)
	r.offer()
	r.do(0)
	r.join()
	r.work = nil // keeps nothing of the caller's alive
	regions.Put(r)
}

// region is one Run.
type region struct {
	work     Work
	n, grain int
	parts    []part // of each lane
	seats    []seat // of each lane but the caller's, which a worker is offered
	offered  []*worker
	finished atomic.Int32  // workers that are done, minus those that the caller sleeps for
	done     chan struct{} // receives when the caller sleeps and all are done
}

var regions = sync.Pool{New: func() any { return &region{done: make(chan struct{}, 1)} }}

// seat is a lane of a region.
type seat struct {
	r    *region
	lane int
}

// part holds the remaining chunks of one lane. The lane does them in their order: one long
// stream is read faster than many short ones. Figures: docs/lab/choices.md, part.
type part struct {
	left atomic.Uint64 // the first chunk, and the end in the upper half
	_    [56]byte      // the next part lies in another cache line
}

func (t *part) set(first, end int) { t.left.Store(uint64(first) | uint64(end)<<32) }

// take takes chunks from first up to end, none if none is left: the first half of them for the
// lane whose part it is, the last half for another.
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

// divide gives each lane a part of about the same length.
func (r *region) divide(chunks, lanes int) {
	if cap(r.parts) < lanes {
		r.parts, r.seats = make([]part, lanes), make([]seat, lanes)
	}
	r.parts, r.seats = r.parts[:lanes], r.seats[:lanes]
	for i := range r.parts {
		r.parts[i].set(chunks*i/lanes, chunks*(i+1)/lanes)
		r.seats[i] = seat{r, i}
	}
}

// do does chunks until none is left, and leaves.
func (r *region) do(lane int) {
	for {
		first, end := r.take(lane)
		if first == end {
			leave(r.work, lane)
			return
		}
		r.work.Do(lane, first*r.grain, min(end*r.grain, r.n))
	}
}

func leave(w Work, lane int) {
	if l, ok := w.(Leaver); ok {
		l.Leave(lane)
	}
}

// take takes chunks from first up to end, none if none is left: of the lane's own part, or half of
// what another has left. Of that it does one half first and keeps the other as its part.
func (r *region) take(lane int) (first, end int) {
	if first, end = r.parts[lane].take(true); first < end {
		return first, end
	}
	for i := 1; i < len(r.parts); i++ {
		if first, end = r.parts[(lane+i)%len(r.parts)].take(false); first < end {
			half := first + (end-first+1)/2
			r.parts[lane].set(half, end)
			return first, half
		}
	}
	return 0, 0
}

// offer offers a lane to each worker that has nothing to do, while there are any.
func (r *region) offer() {
	r.offered = r.offered[:0]
	lane := 1
	for _, w := range workersFor(runtime.GOMAXPROCS(0) - 1) {
		if lane == len(r.seats) {
			return
		}
		if w.offer(&r.seats[lane]) {
			r.offered = append(r.offered, w)
			lane++
		}
	}
}

// join takes lanes back from workers that have not begun and waits for the others.
func (r *region) join() {
	began := int32(0)
	for i, w := range r.offered {
		if !w.seat.CompareAndSwap(&r.seats[i+1], nil) {
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
