package cost

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/schedule"
)

// Place is where the weights of a product are: an index of core.Hierarchy's Latency and Line.
type Place int

// The places of weights, from near to far.
const (
	L2 Place = iota
	L3
	DRAM
)

// String is the name of a place: "l2".
func (p Place) String() string { return core.Levels[p] }

// PlaceOf is the place of a name.
func PlaceOf(name string) (Place, error) {
	for i, level := range core.Levels {
		if name == level {
			return Place(i), nil
		}
	}
	return 0, fmt.Errorf("place %.40q: want one of %s", name, strings.Join(core.Levels[:], ", "))
}

// Estimate is how long a call of a kernel takes, for TypicalK elements of K, while a call follows the other.
type Estimate struct {
	Cycles   float64 // of a call; infinite if there are not enough registers
	Waits    float64 // of these, what it waits for memory
	Pipeline Pipeline
}

// Compile selects the code of k for a target. The error wraps a *lower.Unsupported or a *nest.Refused, or is that of ctx.
func Compile(ctx context.Context, target lower.Target, k *schedule.Kernel) (*lower.Selected, error) {
	f, err := lower.Vectorize(k.Nest, k.Nest.Name)
	if err != nil {
		return nil, err
	}
	return lower.Select(ctx, target, f)
}

// Of estimates a call of k by its selected code s, with the weights in a place.
func Of(k *schedule.Kernel, s *lower.Selected, at Place) Estimate {
	return Waiting(s.Machine.Core, k, s, Run(k, s), at)
}

// Waiting is the estimate of a call whose execution units take p, on a core with the memory of c.
func Waiting(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, at Place) Estimate {
	return Fitted.Waiting(c, k, s, p, at)
}

// Waiting is the function of that name by another model.
func (m Model) Waiting(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, at Place) Estimate {
	if math.IsInf(p.Cycles, 0) {
		return Estimate{Cycles: p.Cycles, Pipeline: p}
	}
	g := newProgram(k, s, p)
	room := newMemory(m, c, at)
	takes, works := g.run(room)
	rooms.Put(room)
	waits := max(0, takes-works) / g.share
	return Estimate{p.Cycles + waits, waits, p}
}

// Product is the time of a product of n columns in cycles for each product of a weight and an activation. Of several blocks of columns, the
// first brings the weights to the second-level cache.
func Product(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, n int, at Place) float64 {
	return Fitted.Product(c, k, s, p, n, at)
}

// Product is the function of that name by another model.
func (m Model) Product(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, n int, at Place) float64 {
	cycles := m.Waiting(c, k, s, p, at).Cycles
	if blocks := float64((n + k.Cols - 1) / k.Cols); blocks > 1 && at != L2 {
		cycles = (cycles + (blocks-1)*m.Waiting(c, k, s, p, L2).Cycles) / blocks
	}
	return cycles / float64(k.Rows*k.Cols*TypicalK)
}

// Report says where the cycles of a call of k by its selected code s go.
func Report(k *schedule.Kernel, s *lower.Selected) string {
	var b strings.Builder
	p := Run(k, s)
	fmt.Fprintf(&b, "a call of %d rows, %d columns and %d elements of K on %s\n", k.Rows, k.Cols, TypicalK, s.Machine.Core.Name)
	if p.Refused != nil {
		fmt.Fprintf(&b, "is impossible: %v\n", p.Refused)
		return b.String()
	}
	fmt.Fprintf(&b, "%10s %8s %8s  %s\n", "cycles", "times", "each", "bound by")
	for _, x := range p.Stretches {
		if x.Instrs > 0 {
			where := "outside loops"
			if x.Loop != nil {
				where = fmt.Sprintf("loop l%d", x.Loop.ID)
			}
			fmt.Fprintf(&b, "%10.0f %8.0f %8.1f  %s (%s, %d instructions)\n", x.Cycles*x.Times, x.Times, x.Cycles, x.Bound, where, x.Instrs)
		}
	}
	products := float64(k.Rows * k.Cols * TypicalK)
	fmt.Fprintf(&b, "%10.0f %17s  execution units: %.4f for each product\n", p.Cycles, "", p.Cycles/products)
	for at := L2; at <= DRAM; at++ {
		e := Waiting(s.Machine.Core, k, s, p, at)
		fmt.Fprintf(&b, "%10.0f %17s  waiting for weights in %s: %.4f for each product in all\n", e.Waits, "", at, e.Cycles/products)
	}
	fmt.Fprintf(&b, "registers: %d for vectors, %d for addresses\n", p.Vectors, p.Scalars)
	return b.String()
}
