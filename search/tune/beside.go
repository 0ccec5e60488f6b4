package tune

import (
	"context"
	"slices"

	"github.com/tmacc/tmacc/search/worker"
)

// repeats is how often Beside measures: of 8 ratios one may be chance in either direction.
const repeats = 8

// Complete is c as a lock has it, with kernels of all widths (see Uses); each was verified against the definition. It is not
// interrupted: what was found is to be locked.
func (t *Tuner) Complete(c *Candidate) (*Candidate, error) {
	uses, err := t.Uses(context.Background(), c)
	if err != nil {
		return nil, err
	}
	e := Entry{}
	for _, u := range uses {
		e.Kernels = append(e.Kernels, Kernel{Cols: u.Cols, Trace: u.Trace})
	}
	whole, err := t.Locked(&e)
	if err != nil {
		return nil, err
	}
	return whole, t.Verify(whole)
}

// Beside measures c for `purposes` beside `base`; nil stands for the default schedules. Both must be complete.
//
// How fast a kernel reads weights out of a cache depends on where they lie, and they stay there as long as the process
// lives. So each measurement has a new process, and the order of the two changes. For weights in memory the copies of both
// lie between each other. One process then makes all measurements, because it takes long to set up.
//
// An error for which c is not to blame is an *Unmeasured.
func (t *Tuner) Beside(base, c *Candidate, purposes []Purpose) ([]Beside, error) {
	cs, to := []*Candidate{c}, t.reference
	if base != nil {
		cs, to = append(cs, base), t.target(base, 1)
	}
	code, err := t.loadFor(settled*t.Limit, cs)
	if err != nil {
		return nil, t.unassembled(c, err)
	}
	defer code.Close()
	own, theirs := t.target(c, 0).spec(t.Problem), to.spec(t.Problem)
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
				out[p].Purpose = x
				at := worker.Timed{M: x.M, N: x.N, K: x.K, Total: x.Total}
				in := [2]worker.Timed{at, at}
				in[0].Spec, in[0].Keep, in[1].Spec = theirs, true, own
				if err := out[p].measure(code, in, i%2 > 0); err != nil {
					return nil, t.blame(code, err)
				}
			}
		}
	}
	return out, nil
}

// measure adds a time of the base and of the candidate, the first in each round unless swapped.
func (x *Beside) measure(code *worker.Code, in [2]worker.Timed, swapped bool) error {
	if swapped {
		slices.Reverse(in[:])
	}
	s, err := code.Time("the best", confirm, in[:]...)
	if err != nil {
		return err
	}
	if swapped {
		slices.Reverse(s)
	}
	x.BaseNs, x.Ns = append(x.BaseNs, s[0].Min), append(x.Ns, s[1].Min)
	return nil
}
