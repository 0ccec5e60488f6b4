package cost

import (
	"testing"

	"github.com/tmacc/tmacc/lower/core"
)

// prefetching is a core with a region of 16 lines for its prefetcher, which is at most 3 lines ahead.
func prefetching(change func(*core.Hierarchy)) core.Core {
	c := core.Core{Pipeline: core.Pipeline{Window: 64}, Hierarchy: core.Hierarchy{
		First: 32 << 10, Fills: 16, Latency: [3]float64{10, 40, 200}, Line: [3]float64{1, 2, 4}, Several: 4, Follows: 16 * line, Ahead: 3}}
	change(&c.Hierarchy)
	return c
}

// asked is how many of the lines behind the first ones of weights are asked for after these were, one after the other.
func asked(c core.Core, k kind, lines int) (more int) {
	m := newMemory(Model{Window: 1, Begins: 2, Reach: 4, Asks: 2, Looks: 0.5}, c, DRAM)
	for i := range lines {
		m.advance(1, 1, 1)
		m.access(k, (weightsAt+i)*line, 1)
	}
	for x := weightsAt + lines; m.pages.at(x).ready[x%m.pages.lines] != 0; x++ {
		more++
	}
	return more
}

// A prefetcher follows ascending lines, no farther ahead than the core says and to the end of a region. Only some cores' follow
// prefetches of the kernel.
func TestPrefetcher(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*core.Hierarchy)
		kind   kind
		lines  int
		want   int
	}{
		"one line is no stream":             {func(h *core.Hierarchy) {}, load, 1, 0},
		"ahead":                             {func(h *core.Hierarchy) {}, load, 8, 3},
		"farther ahead":                     {func(h *core.Hierarchy) { h.Ahead = 5 }, load, 9, 5},
		"to the end of a region":            {func(h *core.Hierarchy) {}, load, 14, 2},
		"not beyond it":                     {func(h *core.Hierarchy) {}, load, 16, 0},
		"a longer region":                   {func(h *core.Hierarchy) { h.Follows = 32 * line }, load, 16, 3},
		"a page where the core says none":   {func(h *core.Hierarchy) { h.Follows = 0 }, load, 62, 2},
		"20 lines where it says none":       {func(h *core.Hierarchy) { h.Follows, h.Ahead = 0, 0 }, load, 40, 20},
		"prefetches of the kernel":          {func(h *core.Hierarchy) {}, second, 8, 0},
		"prefetches that train":             {func(h *core.Hierarchy) { h.Trains = true }, second, 8, 3},
		"prefetches that train and a miss":  {func(h *core.Hierarchy) { h.Trains, h.Holds = true, true }, second, 8, 3},
		"prefetches into the nearest cache": {func(h *core.Hierarchy) {}, near, 8, 3},
		"misses":                            {func(h *core.Hierarchy) { h.Misses = true }, load, 8, 3},
		"prefetches are no misses":          {func(h *core.Hierarchy) { h.Misses = true }, near, 8, 0},
	} {
		if got := asked(prefetching(c.change), c.kind, c.lines); got != c.want {
			t.Errorf("%s: %d lines after %d, want %d", name, got, c.lines, c.want)
		}
	}
}

// Where a prefetcher follows misses, loads of lines that have come begin nothing, and loads of lines on their way do.
func TestMisses(t *testing.T) {
	const lines = 8
	for _, c := range []struct {
		misses bool
		pause  float64 // cycles from the prefetches to the loads
		want   bool
	}{{true, 1e4, false}, {true, 0, true}, {false, 1e4, true}} {
		m := newMemory(Model{Window: 1, Begins: 2, Reach: 4, Asks: 2, Looks: 0.5}, prefetching(func(h *core.Hierarchy) { h.Misses = c.misses }), DRAM)
		for i := range lines {
			m.advance(1, 0, 0)
			m.access(second, (weightsAt+i)*line, 1)
		}
		m.advance(1e4, c.pause, c.pause/1e4) // more instructions than the window has
		for i := range lines {
			m.advance(1, 0, 0)
			m.access(load, (weightsAt+i)*line, 1)
		}
		x := weightsAt + lines
		if got := m.pages.at(x).ready[x%m.pages.lines] != 0; got != c.want {
			t.Errorf("misses %v, %v cycles after prefetches: the prefetcher asks for the next line: %v, want %v", c.misses, c.pause, got, c.want)
		}
	}
}

// Lines come no faster than each takes, however long that is.
func TestWire(t *testing.T) {
	const lines = 200
	for _, each := range []float64{0.1, 2, 12.3, 16, 24, 33, 100, 1 << 14} {
		w, last := new(wire), 0.0
		for range lines {
			last = w.next(max(0, last-float64(2*each)), each) // before the lines before it are there
		}
		if least := lines * each; last < 0.999*least || last > 1.001*least+wirePart {
			t.Errorf("%d lines of %v cycles take %v", lines, each, last)
		}
	}
}

// Lines that are all asked for at once come one after the other, also those that come after the wire has forgotten the first.
func TestWireBurst(t *testing.T) {
	for _, each := range []float64{2, 65, 1 << 14} {
		const lines = 1 << 10
		w, last := new(wire), 0.0
		for range lines {
			last = max(last, w.next(0, each))
		}
		if least := lines * each; last < 0.999*least || last > 1.001*least+wirePart {
			t.Errorf("%d lines of %v cycles take %v", lines, each, last)
		}
	}
}

// A core with the least and the most of everything that a file may say makes no kernel's estimate infinite.
func TestOddHierarchies(t *testing.T) {
	for _, cycles := range []float64{0.1, 1 << 14} {
		for _, h := range []core.Hierarchy{{First: 8 << 10, Fills: 1, Follows: 1 << 10, Ahead: 1}, {First: 1 << 20, Fills: 1 << 10, Holds: true, Trains: true, Misses: true, Follows: 64 << 10, Ahead: 1 << 10}} {
			h.Latency, h.Line, h.Several = [3]float64{max(cycles, 1), max(cycles, 1), max(cycles, 1)}, [3]float64{cycles, cycles, cycles}, cycles
			for _, window := range []int{1, 4096} {
				c := core.Core{Pipeline: core.Pipeline{Window: window}, Hierarchy: h}
				for _, k := range []kind{load, near, second} {
					m := newMemory(Fitted, c, DRAM)
					for i := range 1000 {
						m.advance(1, 1, 1)
						m.access(k, (weightsAt+i)*line, 64)
					}
					if !(m.done >= 1000 && m.done+m.late() <= 1e4*(cycles+1000)) {
						t.Errorf("%+v, a window of %d: 1000 lines take %v cycles, and %v more", h, window, m.done, m.late())
					}
				}
			}
		}
	}
}
