package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
)

// Exactness says whether a kernel's results equal the definition, and how that is known. A kernel that rounds has the
// text "no: " and its bound instead, or "no, " and what else is known.
type Exactness string

// How far a kernel was checked. NotHere and NotRun kernels are proven, but were not run.
const (
	Checked Exactness = "yes"          // proven, and compared with the definition
	Bounded Exactness = "no: bounded"  // compared with the definition, which rounds: format.Act.FloatError
	NotHere Exactness = "not run here" // this machine lacks the target
	NotRun  Exactness = "not checked"  // Options.Unchecked
)

// of is what e says of the kernel k: a kernel that is not exact has a bound.
func (e Exactness) of(k *schedule.Kernel) Exactness {
	switch {
	case k.Exact():
		return e
	case e == Checked:
		return Exactness(fmt.Sprintf("no: within %d for each %d of K", k.Deviation.Most, k.Deviation.Span))
	}
	return "no, " + e
}

// compared is what a comparison with the definition shows.
func (w *product) compared() Exactness {
	if w.Problem.Act.Floats() {
		return Bounded
	}
	return Checked
}

// Fault is a kernel whose result differs from the definition, or that broke another rule: an error in tmacc.
type Fault struct {
	Problem ir.Problem
	Target  lower.Selector
	Err     error // names the schedule
}

func (e *Fault) Error() string {
	return fmt.Sprintf("%v on %s: %v; nothing was written; please report it with this trace", e.Problem.Weight, e.Target.Machine().Name, e.Err)
}

func (e *Fault) Unwrap() error { return e.Err }

// Verify compares all kernels that this machine runs with the definition. A kernel that differs is a *Fault.
func (x *Package) Verify(ctx context.Context) error {
	for _, w := range x.products {
		for i := range w.compiled.Variants {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			v := &w.compiled.Variants[i]
			found, err := x.verify(w, v)
			if err != nil {
				return err
			}
			x.note(w, v, found)
		}
	}
	return x.verifyShaders(ctx)
}

// note keeps what was found about the kernels of w in v.
func (x *Package) note(w *product, v *variant.Variant, found Exactness) {
	for _, k := range v.Kernels {
		x.exact[w.compiled.KernelName(v, k.Name())] = found.of(k.Schedule)
	}
}

// verify compares the kernels of a variant with the definition, if this machine runs them. Kernels that can be mapped are
// kept, to be measured.
func (x *Package) verify(w *product, v *variant.Variant) (Exactness, error) {
	switch {
	case x.Unchecked:
		return NotRun, nil
	case lacks(v.Target) != "":
		return NotHere, nil
	}
	x.say(Checking{w.Problem, v.Target})
	code, err := live.Assemble(w.Problem, *v)
	switch {
	case err == nil:
		x.codes[v] = code
		return w.compared(), nil
	case errors.Is(err, live.ErrPlatform):
		x.unmapped = err
		return w.compared(), nil
	case errors.Is(err, live.ErrNoSource):
		x.unmapped = err
		return NotHere, nil // unless go test runs them
	case live.IsFault(err):
		return "", &Fault{w.Problem, v.Target, err}
	}
	return "", err
}

// lacks names the features that this machine lacks to run t, "" if it runs t.
func lacks(t lower.Target) string { return targeting.Lacks(t, timing.ThisHost()) }
