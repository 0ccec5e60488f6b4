package cost

import (
	"context"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/schedule"
)

// Estimate is how long a call of a kernel takes.
type Estimate struct {
	Cycles   float64 // of a call
	Pipeline Pipeline
}

// Compile selects the code of k for target.
func Compile(ctx context.Context, target lower.Target, k *schedule.Kernel) (*lower.Selected, error) {
	f, err := lower.Vectorize(k.Nest, k.Nest.Name)
	if err != nil {
		return nil, err
	}
	return lower.Select(ctx, target, f)
}

// On is the estimate of a call by k, whose selected code is s, on a core with memory like h.
func On(c core.Core, k *schedule.Kernel, s *lower.Selected, at Place) Estimate {
	return With(c, k, s, Run(k, s), at)
}

// With is the estimate of a call whose instructions take p.
func With(c core.Core, k *schedule.Kernel, s *lower.Selected, p Pipeline, at Place) Estimate {
	g := newProgram(k, s, p)
	m := newMemory(c, at, g)
	took := m.run(g)
	return Estimate{p.Cycles + max(0, took-g.cycles)/g.share, p}
}
