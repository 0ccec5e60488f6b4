package shaders

import (
	"context"
	"math"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// Selected is a kernel with the code that a target has for it.
type Selected struct {
	*schedule.Kernel
	code *lower.Selected
	on   spirv.Speeds
}

// mostInstrs bounds the instructions of a shader that is estimated.
const mostInstrs = 1 << 14

// Select selects the code of a kernel. The error wraps a *lower.Unsupported or a *nest.Refused, or is that of ctx.
func Select(ctx context.Context, t spirv.Target, k *schedule.Kernel) (*Selected, error) {
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		return nil, err
	}
	s, err := lower.SelectShort(ctx, t, f, mostInstrs)
	return &Selected{k, s, t.Speeds()}, err
}

// The model's own numbers, fitted to docs/lab/card.jsonl: registers that a lane needs besides, for each word that it loads, which is decoded
// to several, and for each word that a loop carries.
const fewestWords, wordsOfLoaded, wordsOfCarried = 16, 2.5, 0.5

// mostWords is the most registers that a lane has.
const mostWords = 255

// Estimate is how long a product takes, in ns, if it waits for the one before it. Its lanes read memory, touch lines, compute, and wait for
// their own instructions. All of it goes on side by side, and each hinders the others: the times add up as orthogonal lengths do. It is
// infinite if a workgroup shares more than it may.
func (s *Selected) Estimate(x tune.Purpose) float64 {
	k := s.Problem.WholeK(x.K)
	w := spirv.WorkOf(s.code, ceil(k, s.StepK), s.on.Subgroup)
	if w.Shared > s.on.Shared {
		return math.Inf(1)
	}
	groups := float64(ceil(x.M, s.Rows) * ceil(x.N, s.Cols) * w.Parts)
	lanes := float64(ceil(w.Lanes, s.on.Subgroup) * s.on.Subgroup)
	resident, processors := s.resident(w, lanes), float64(s.on.Processors)
	all := lanes * groups / busy(groups/processors, resident)

	memory := float64(ceil(x.M, s.Weights.TileM)*s.Weights.TileBytes(k)) / s.on.Read
	lines := w.Lines * all / s.on.Lines
	compute := (w.Instructions/s.on.Instructions + w.Dots/s.on.Dots) * all
	if w.Matrices > 0 && s.on.Matrices > 0 {
		const kilo = 1e3
		compute += 2 * w.Matrices * groups / (kilo * s.on.Matrices)
	}
	own := (w.Instructions + w.Dots) * s.on.Step
	loads := float64(w.Iterations) * s.on.Latency
	chain := own + loads
	if w.Ahead {
		chain = max(own, loads) + s.on.Latency
	}
	chain += float64(w.Waits) * s.on.Latency
	chain *= max(1, groups/(resident*processors))
	return s.on.Launch + s.on.Start + math.Sqrt(memory*memory+lines*lines+compute*compute+chain*chain)
}

// resident is how many workgroups of some lanes a processor holds at once.
func (s *Selected) resident(w spirv.Work, lanes float64) float64 {
	loaded := float64(w.Loaded) / 4
	if w.Ahead {
		loaded *= 2
	}
	words := min(mostWords, fewestWords+wordsOfLoaded*loaded+wordsOfCarried*float64(w.Carried))
	return max(1, min(float64(s.on.Groups), float64(s.on.Lanes)/lanes, float64(s.on.Words)/words/lanes))
}

// busy is the share of processors that work, with some workgroups for each. One that has one more than others is not as much slower, since
// its lanes wait less for each other.
func busy(groups, resident float64) float64 {
	if groups >= resident {
		return 1
	}
	return math.Sqrt(groups / math.Ceil(groups))
}

func ceil(a, b int) int { return (a + b - 1) / b }
