package measure

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/search/timing"
)

// Calibrate measures the numbers of h that loads show: how long lines take from each level, how many come at once,
// how fast they come in one stream and in several, and how fast while all CPUs read. All others stay. It says what begins by step, and how many of
// how many steps that is. It takes some seconds, and memory for DRAMBytes. Interrupted, it returns the error of ctx.
func (l *Lab) Calibrate(ctx context.Context, h core.Hierarchy, step func(what string, now, all int)) (core.Hierarchy, error) {
	now := 0
	begin := func(what string) error {
		now++
		step(what, now, 2*len(h.Latency)+2)
		return ctx.Err()
	}
	if err := begin("the clock"); err != nil {
		return h, err
	}
	best, err := l.Best(timing.Options{}, l.Clock())
	if err != nil {
		return h, err
	}
	clock := best.Rate // cycles in a nanosecond
	if l.Host.L1D > 0 {
		h.First = l.Host.L1D
	}
	fills := 1
	for i, mode := range []string{ModeL2, ModeL3, ModeDRAM} {
		bytes := l.calibrated(mode)
		if err := begin("the latency of " + places[i]); err != nil {
			return h, err
		}
		alone, together, err := chased(ctx, bytes)
		if err != nil {
			return h, err
		}
		h.Latency[i] = math.Round(alone * clock)
		fills = max(fills, int(math.Round(alone/together))) // of memory these may be fewer: its rate is the limit
		if err := begin("the lines that come from " + places[i]); err != nil {
			return h, err
		}
		one, several, err := l.streams(bytes)
		if err != nil {
			return h, err
		}
		h.Line[i] = tenth(clock * timing.LineBytes / one)
		if mode == ModeDRAM {
			h.Several = tenth(clock * timing.LineBytes / max(one, several))
		}
	}
	if err := begin("the lines that come from memory while all CPUs read"); err != nil {
		return h, err
	}
	all, err := l.together(l.calibrated(ModeDRAM))
	if err != nil {
		return h, err
	}
	h.Fills = fills
	h.Shared = 0 // one CPU knows nothing about the others
	if n := runtime.GOMAXPROCS(0); n > 1 {
		h.Shared = max(h.Several, tenth(clock*timing.LineBytes*float64(n)/all))
	}
	return h, ctx.Err()
}

// together is the rate in GB/s at which one thread for each CPU reads its part of bytes, all of them at once.
func (l *Lab) together(bytes int) (rate float64, err error) {
	n := runtime.GOMAXPROCS(0)
	each := make([][]Probe, n)
	for i := range each {
		r, err := newRig(l.img)
		if err != nil {
			return 0, err
		}
		defer r.Close()
		one := &Lab{Host: l.Host, targets: l.targets, img: l.img, rig: r}
		if each[i], err = one.Read(max(bytes/n, readChunk)); err != nil {
			return 0, err
		}
	}
	var all []Probe
	for i := range each[0] {
		var side []Probe
		for _, of := range each {
			side = append(side, of[i])
		}
		all = append(all, Together(side...))
	}
	best, err := l.Best(timing.Options{Rounds: 5}, all)
	return best.Rate, err
}

var places = []string{"the second-level cache", "the third-level cache", "memory"}

// tenth is x to a tenth.
func tenth(x float64) float64 { return math.Round(10*x) / 10 }

// calibrated is how many bytes are read to measure a mode: what lies in no nearer level.
func (l *Lab) calibrated(mode string) int {
	l2 := max(l.Host.L2, 256<<10)
	switch mode {
	case ModeL2: // of few pages, whose addresses every CPU knows
		return min(l2/2, fewPages*pageBytes)
	case ModeL3: // few of these lines are in the second-level cache, and all fit a small part of the third-level one: other machines may have the rest
		return 4 * l2
	}
	return DRAMBytes(l.Host)
}

const (
	pageBytes = 4096
	fewPages  = 64
)

// streams are the rates in GB/s at which bytes are read in one stream and in several.
func (l *Lab) streams(bytes int) (one, several float64, err error) {
	probes, err := l.Read(bytes)
	if err != nil {
		return 0, 0, err
	}
	defer l.free(bytes)
	look := timing.Options{Rounds: 3, MinSample: 200 * time.Microsecond}
	for _, x := range []struct {
		single bool
		rate   *float64
	}{{true, &one}, {false, &several}} {
		some := slices.DeleteFunc(slices.Clone(probes), func(p Probe) bool { return (p.call.Read.Streams == 1) != x.single })
		if some, err = l.Pick(look, some, picked); err != nil {
			return 0, 0, err
		}
		best, err := l.Best(timing.Options{}, some)
		if err != nil {
			return 0, 0, err
		}
		*x.rate = best.Rate
	}
	return one, several, nil
}

// chased are the nanoseconds of a load from bytes of memory, one whose address is what the load before it found, and
// one of many that wait for none.
func chased(ctx context.Context, bytes int) (alone, together float64, err error) {
	m, err := timing.Allocate(bytes, true)
	if err != nil {
		return 0, 0, err
	}
	defer m.Close()
	const each = timing.LineBytes / 4
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&m.Bytes[0])), bytes/4)
	order := scattered(bytes/timing.LineBytes, each)
	for i, at := range order {
		words[at] = order[(i+1)%len(order)]
	}
	const loads = 1 << 12 // of a run, beside which reading the time is nothing
	at, place := uint32(0), 0
	// A quarter of the runs is faster: in the others, other machines may have used the cache or the memory. Few lines still lie in a nearer cache.
	usual := func(run func()) float64 {
		run()
		var ns []float64
		for range 500 {
			if ctx.Err() != nil {
				break
			}
			began := time.Now()
			run()
			ns = append(ns, float64(time.Since(began).Nanoseconds())/loads)
		}
		if len(ns) == 0 {
			return 0
		}
		slices.Sort(ns)
		return ns[len(ns)/4]
	}
	alone = usual(func() { at = follow(words, at, loads) })
	together = usual(func() {
		if place+loads > len(order) {
			place = 0
		}
		sink += gather(words, order[place:min(place+loads, len(order))])
		place += loads
	})
	if n := min(loads, len(order)); n < loads {
		together *= float64(loads) / float64(n)
	}
	sink += at
	return alone, together, ctx.Err()
}

// scattered is the places of lines that are so far apart: one line of each page, in an order that is drawn, then another of each. No
// prefetcher follows that, and the translation of addresses does, as for kernels.
func scattered(lines, each int) (order []uint32) {
	const page = pageBytes / timing.LineBytes
	rng := rand.New(rand.NewPCG(1, 2))
	var orders [][]int
	for range (lines + page - 1) / page {
		orders = append(orders, rng.Perm(page))
	}
	for pass := range page {
		for i, o := range orders {
			if x := i*page + o[pass]; x < lines {
				order = append(order, uint32(x*each))
			}
		}
	}
	return order
}

var sink uint32

// follow loads n times where the load before found.
//
//go:noinline
func follow(words []uint32, at uint32, n int) uint32 {
	for range n {
		at = words[at]
	}
	return at
}

// gather adds up words, as fast as may be: nothing but the lines should be waited for.
//
//go:noinline
func gather(words, order []uint32) uint32 {
	var sums [4]uint32
	for ; len(order) >= 8; order = order[8:] {
		for i := range sums {
			sums[i] += words[order[i]] + words[order[i+4]]
		}
	}
	for _, at := range order {
		sums[0] += words[at]
	}
	return sums[0] + sums[1] + sums[2] + sums[3]
}
