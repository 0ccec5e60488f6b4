package cost

import (
	"testing"

	"github.com/tmacc/tmacc/lower/core"
)

// An instruction enters when there is room for all that it is: the end of a loop is a branch and additions of addresses. What has retired makes room.
func TestFlight(t *testing.T) {
	var none flight
	if none.enter(3, 10); none.room(3) != 0 {
		t.Error("what has no limit waits")
	}
	f := flight{retired: make([]int, 4)}
	f.enter(3, 10)
	for n, want := range []int{0, 0, 10, 10, 10, 10} { // one is free; five never fit, and wait for all
		if got := f.room(n); got != want {
			t.Errorf("room for %d at %d, want %d", n, got, want)
		}
	}
	f.enter(6, 20)
	if f.room(1) != 20 || f.room(4) != 20 {
		t.Errorf("room at %d and %d, want 20", f.room(1), f.room(4))
	}
}

// Behind an instruction of 100 cycles enter those instructions that may be in flight beside it.
func TestInFlight(t *testing.T) {
	for _, x := range []struct {
		name   string
		limit  func(*simulator) *flight
		next   micro
		behind int // of next that enter at once
	}{
		{"instructions", func(s *simulator) *flight { return &s.window }, micro{slots: 1}, 7},
		{"ends of loops with three additions", func(s *simulator) *flight { return &s.window }, micro{slots: 4}, 1},
		{"results", func(s *simulator) *flight { return &s.results }, micro{slots: 1, results: 1}, 7},
		{"wide results", func(s *simulator) *flight { return &s.wide }, micro{slots: 1, results: 1, wide: 1}, 7},
	} {
		s := &simulator{core: core.Pipeline{Width: 1000, Window: 1000, Waiting: 1000}, parts: make([]part, 1)}
		s.window.retired = make([]int, s.core.Window)
		x.limit(s).retired = make([]int, 8)
		x.next.dst, x.next.base = -1, -1
		s.step(&micro{dst: -1, base: -1, slots: 1, results: 1, wide: 1, latency: 100})
		behind := 0
		for s.step(&x.next); s.last == 0; s.step(&x.next) {
			behind++
		}
		if behind != x.behind || s.last != 100 {
			t.Errorf("%s: %d enter at once, and the next one at %d; want %d, and 100", x.name, behind, s.last, x.behind)
		}
	}
}
