package operators

import (
	"errors"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
)

// The shares of random traces that must lower: of all, and on each target of the space that steps propose.
const (
	leastShare    = 0.30
	leastProposed = 0.40
)

// TestRandomTraces compiles random schedules of random operators, half of them of the space that steps propose. One in four of the
// others is spoiled by a random step. Each is refused for a
// typed reason, or lowered, run, and equal to the definition. TMACC_SEED replays a run, TMACC_TRACES says how many to try.
func TestRandomTraces(t *testing.T) { randomTraces(t, native.All(t), 200) }

// TestRandomTracesArm does the same on emulated CPUs.
func TestRandomTracesArm(t *testing.T) { randomTraces(t, native.Arms(t), 60) }

func randomTraces(t *testing.T, targets []lower.Target, n int) {
	n = drawn.Env(t, "TMACC_TRACES", n)
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	fmt.Fprintf(os.Stderr, "%s: TMACC_SEED=%d TMACC_TRACES=%d\n", t.Name(), seed, n)
	rng := rand.New(rand.NewSource(int64(seed)))
	lowered := 0
	for i, target := range targets {
		var all []attempt
		proposed, compiled := 0, 0 // samples of the space
		for range (n + i) / len(targets) {
			a, sample := draw(rng, target)
			if sample {
				proposed++
			}
			switch _, _, err := compile(target, a, 0); {
			case err == nil:
				if all = append(all, a); sample {
					compiled++
				}
			case !typed(err):
				t.Errorf("seed %d: %s on %s: %v: %v", seed, a.Name, target.Machine().Name, a.Trace, err)
			}
		}
		t.Logf("%s: %d of %d samples lowered that steps propose", target.Machine().Name, compiled, proposed)
		if float64(compiled) < leastProposed*float64(proposed) {
			t.Errorf("seed %d: %s: %d of %d samples lowered that steps propose, want %.0f %%", seed, target.Machine().Name, compiled, proposed, 100*leastProposed)
		}
		lowered += len(all)
		run(t, rng, target, all)
	}
	t.Logf("%d of %d traces lowered", lowered, n)
	if float64(lowered) < leastShare*float64(n) {
		t.Errorf("%d of %d traces lowered, want %.0f %%", lowered, n, 100*leastShare)
	}
}

// typed says that a trace is refused for a reason that has a type.
func typed(err error) bool {
	var illegal *schedule.Illegal
	var unfinished *schedule.Unfinished
	var refused *nest.Refused
	var pressure *lower.Pressure
	return errors.As(err, &illegal) || errors.As(err, &unfinished) || errors.As(err, &refused) || errors.As(err, &pressure)
}

// draw is a random schedule of a random operator, and whether it is a sample of the space that steps propose.
func draw(rng *rand.Rand, on lower.Target) (a attempt, sample bool) {
	all := operator.All()
	a.Operator = all[rng.Intn(len(all))]
	if rng.Intn(2) == 0 {
		if x, err := space.ForOperator(a.Operator, on).Sample(rng); err == nil {
			a.Trace = x.Trace()
			return a, true
		}
	}
	for _, st := range a.Graph.Stages {
		if rng.Intn(3) == 0 && a.try(schedule.Inline{Stage: st.Out.Name}) {
			continue
		}
		a.loops(rng, st)
	}
	if in := a.Graph.Inputs[rng.Intn(len(a.Graph.Inputs))]; rng.Intn(2) == 0 {
		a.try(schedule.Prefetch{Tensor: in.Name, Bytes: 64 * rng.Intn(40), Far: 64 * rng.Intn(200), Every: rng.Intn(2) == 0})
	}
	if len(a.Trace) > 0 && rng.Intn(4) == 0 {
		i, j := rng.Intn(len(a.Trace)), rng.Intn(len(a.Trace))
		a.Trace[i], a.Trace[j] = a.Trace[j], a.Trace[i]
	}
	return a, false
}

// try adds steps if they apply.
func (a *attempt) try(steps ...schedule.Step) bool {
	t := append(slices.Clone(a.Trace), steps...)
	if _, err := t.ReplayOperator(schedule.NewOperator(a.Operator)); err != nil {
		return false
	}
	a.Trace = t
	return true
}

// loops splits, orders and binds the loops of a stage. Loops of the output that are not unrolled are outside those of a sum.
func (a *attempt) loops(rng *rand.Rand, st ir.Stage) {
	var outer, inner, sums []string
	for i, d := range st.Axes {
		o, in := a.split(rng, d)
		last := i == len(st.Axes)-1
		for j, name := range append(o, in...) {
			switch lane := last && j == len(o); {
			case lane && rng.Intn(4) > 0 && a.try(schedule.Bind{Loop: name, To: "vector"}), rng.Intn(2) == 0 && a.try(schedule.Bind{Loop: name, To: "unrolled"}):
				inner = append(inner, name)
			default:
				outer = append(outer, name)
			}
		}
	}
	for _, d := range st.Reduce {
		o, in := a.split(rng, d)
		sums = append(append(sums, o...), in...)
		if len(in) > 0 && rng.Intn(2) == 0 {
			a.try(schedule.Bind{Loop: in[0], To: "unrolled"})
		}
	}
	a.try(schedule.Reorder{Order: slices.Concat(outer, sums, inner)})
}

// split divides the loop of an axis, or not.
func (a *attempt) split(rng *rand.Rand, d ir.Dim) (outer, inner []string) {
	by := 1 << rng.Intn(6)
	o, i := fmt.Sprintf("o%d", len(a.Trace)), fmt.Sprintf("i%d", len(a.Trace))
	whole := rng.Intn(8) == 0 && a.try(schedule.Split{Loop: d.Name, By: by, Into: schedule.Pair{o, i}}, schedule.Fuse{Outer: o, Inner: i, Into: d.Name})
	if by == 1 || whole || !a.try(schedule.Split{Loop: d.Name, By: by, Into: schedule.Pair{o, i}}) {
		if d.N > 0 {
			return nil, []string{d.Name}
		}
		return []string{d.Name}, nil
	}
	return []string{o}, []string{i}
}
