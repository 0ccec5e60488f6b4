package space

import (
	"sync"

	"github.com/tmacc/tmacc/schedule"
)

// memo remembers what rules make of states, which never change: neighbours of a point, and the points that a search goes on from, begin
// with the same decisions. It forgets all when it has grown large.
type memo struct {
	mu      sync.Mutex
	offers  map[decided][]schedule.Trace
	states  map[decided]state
	kernels map[schedule.State]kernel
}

// decided is a state, and a decision about it. Offers are equal that have the same first step in memory, and equally many steps: they come
// out of the memo too.
type decided struct {
	rule  int
	state schedule.State
	first *schedule.Step
	steps int
}

type state struct {
	schedule.State
	err error
}

type kernel struct {
	*schedule.Kernel
	err error
}

// mostKnown and mostKernels bound what a memo remembers: a state is a few kilobytes, a kernel a hundred.
const (
	mostKnown   = 1 << 13
	mostKernels = 1 << 7
)

func newMemo() *memo {
	return &memo{offers: map[decided][]schedule.Trace{}, states: map[decided]state{}, kernels: map[schedule.State]kernel{}}
}

// remembered is what a map of m has for key, or what make makes, of at most `most`.
func remembered[K comparable, V any](m *memo, known map[K]V, most int, key K, make func() V) V {
	m.mu.Lock()
	v, ok := known[key]
	m.mu.Unlock()
	if ok {
		return v
	}
	v = make()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(known) >= most {
		clear(known)
	}
	known[key] = v
	return v
}

// offersOf are what list offers by a rule on s.
func (m *memo) offersOf(rule int, s schedule.State, list func() []schedule.Trace) []schedule.Trace {
	return remembered(m, m.offers, mostKnown, decided{rule: rule, state: s}, list)
}

// after is the state after an offer.
func (m *memo) after(s schedule.State, offer schedule.Trace) (schedule.State, error) {
	if len(offer) == 0 {
		return s, nil
	}
	next := remembered(m, m.states, mostKnown, decided{state: s, first: &offer[0], steps: len(offer)}, func() state {
		next, err := after(s, offer)
		return state{next, err}
	})
	return next.State, next.err
}

// kernel is the kernel of s, which nobody may change.
func (m *memo) kernel(s *schedule.Product) (*schedule.Kernel, error) {
	k := remembered(m, m.kernels, mostKernels, schedule.State(s), func() kernel {
		k, err := s.Kernel()
		return kernel{k, err}
	})
	return k.Kernel, k.err
}
