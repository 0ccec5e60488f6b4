package tune

import (
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/worker"
)

// repeats is how often Beside measures: of 8 ratios one may be chance in either direction.
const repeats = 8

// Complete is c as a lock has it, with kernels of all widths (see Uses), each of which equals the definition.
func (t *Tuner) Complete(c *Candidate) (*Candidate, error) {
	e := Entry{}
	for _, u := range t.Uses(c) {
		e.Kernels = append(e.Kernels, Kernel{Cols: u.Cols, Trace: u.Trace})
	}
	whole, err := t.Locked(&e)
	if err != nil {
		return nil, err
	}
	return whole, t.Verify(whole)
}

// Beside measures c for purposes beside base, nil: the default schedules. Both must be complete. How fast a kernel reads weights out of a cache depends on
// where they lie, for as long as the process lives: so each time a new process measures them, and the order changes. Out of memory the copies of
// both lie between each other, so one process does. An error for which c is not to blame is an *Unmeasured.
func (t *Tuner) Beside(base, c *Candidate, purposes []Purpose) ([]Beside, error) {
	cs := []*Candidate{c}
	if base != nil {
		cs = append(cs, base)
	}
	code, err := t.load(cs)
	if err != nil {
		return nil, t.unassembled(c, err)
	}
	defer code.Close()
	to := t.reference
	if base != nil {
		to = t.target(base, 1)
	}
	own, theirs := live.Spec(t.Problem, t.target(c, 0)), live.Spec(t.Problem, to)
	out := make([]Beside, len(purposes))
	for _, slow := range []bool{false, true} {
		for i := range repeats {
			if i == 0 || !slow {
				code.Renew()
			}
			for p, x := range purposes {
				if x.Total > 0 != slow {
					continue
				}
				at := worker.Timed{M: x.M, N: x.N, K: x.K, Total: x.Total}
				a, b := at, at
				a.Spec, a.Keep, b.Spec = theirs, true, own
				out[p].Purpose = x
				ns, baseNs, err := inTurn(code, a, b, i%2 > 0)
				if err != nil {
					return nil, t.blame(code, err)
				}
				out[p].Ns, out[p].BaseNs = append(out[p].Ns, ns), append(out[p].BaseNs, baseNs)
			}
		}
	}
	return out, nil
}

// inTurn is how long b takes, and a, the first in each round unless swapped.
func inTurn(code *worker.Code, a, b worker.Timed, swapped bool) (ns, baseNs float64, err error) {
	if swapped {
		a, b = b, a
	}
	s, err := code.Time("the best", confirm, a, b)
	if err != nil {
		return 0, 0, err
	}
	if swapped {
		return s[0].Min, s[1].Min, nil
	}
	return s[1].Min, s[0].Min, nil
}
