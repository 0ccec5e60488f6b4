package kernels

import (
	goruntime "runtime"
	"sync"

	"github.com/tmacc/tmacc/search/live"
)

// making is one of several products that are made beside one another.
type making struct {
	*Provider
	say    func(Event)
	mapped *live.Code // nil: nothing is mapped
}

// each calls do n times, with a number, at most once at a time for each core. What it says is reported as if one call followed the other.
func (p *Provider) each(n int, do func(m *making, i int)) {
	t := &turns{report: p.say, waiting: make([][]Event, n), ended: make([]bool, n)}
	free := make(chan struct{}, goruntime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			do(&making{Provider: p, say: func(e Event) { t.say(i, e) }}, i)
			t.end(i)
			<-free
		})
	}
	all.Wait()
}

// turns reports the events of several makings: of the first that has not ended at once, and of each later one when those before it have ended.
type turns struct {
	mu      sync.Mutex
	report  func(Event)
	first   int
	waiting [][]Event
	ended   []bool
}

func (t *turns) say(i int, e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i == t.first {
		t.report(e)
		return
	}
	t.waiting[i] = append(t.waiting[i], e)
}

func (t *turns) end(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended[i] = true
	for t.first < len(t.ended) && t.ended[t.first] {
		if t.first++; t.first == len(t.ended) {
			return
		}
		for _, e := range t.waiting[t.first] {
			t.report(e)
		}
	}
}
