package shaders

import (
	"context"
	"math"

	"github.com/tmacc/tmacc/ir/nest"
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

// Times are what a product's time is made of, in ns, if it waits for the one before it.
type Times struct {
	Launch, Start float64 // of a dispatch
	Prepare       float64 // until the first workgroups have prepared activations, if they do so themselves
	// What goes on side by side. Each hinders the others: the times add up as orthogonal lengths do.
	Memory, Lines, Compute, Chain float64

	Instructions, Exchanged, Dots, Matrices float64 // parts of Compute; Exchanged is one of Instructions

	Work     spirv.Work
	Bytes    int     // of weights
	Groups   float64 // workgroups
	Resident float64 // of these, on one processor at once
	Rounds   float64 // of workgroups that follow one another
	Words    float64 // of registers of a lane
}

// Total is the time of the product, in ns.
func (t Times) Total() float64 { return t.Launch + t.Start + t.Prepare + t.Beside() }

// Beside is the time of what goes on side by side.
func (t Times) Beside() float64 {
	return math.Sqrt(t.Memory*t.Memory + t.Lines*t.Lines + t.Compute*t.Compute + t.Chain*t.Chain)
}

// Estimate is how long a product takes, in ns, if it waits for the one before it.
func (s *Selected) Estimate(x tune.Purpose) float64 { return s.Times(x).Total() }

// Times are what the time of a product is made of. Its lanes read memory, touch lines, compute, and wait for their own instructions. The
// time is infinite if a workgroup shares more than it may.
func (s *Selected) Times(x tune.Purpose) Times {
	k := s.Problem.WholeK(x.K)
	before, w := s.phases(k)
	if w.Shared > s.on.Shared {
		return Times{Work: w, Chain: math.Inf(1)}
	}
	groups := float64(ceil(x.M, s.Rows) * ceil(x.N, s.Cols) * w.Parts)
	lanes := float64(ceil(w.Lanes, s.on.Subgroup) * s.on.Subgroup)
	words := wordsOf(w)
	resident, processors := resident(s.on, words, lanes), float64(s.on.Processors)
	if s.Quantized != nil { // nobody says what a processor's workgroups share together: it is at least what one may
		resident = min(resident, float64(s.on.Shared/max(w.Shared, 1)))
	}
	all := lanes * groups / busy(groups/processors, resident)

	t := Times{Work: w, Launch: s.on.Launch, Start: s.on.Start, Bytes: ceil(x.M, s.Weights.TileM) * s.Weights.TileBytes(k),
		Groups: groups, Resident: resident, Rounds: max(1, groups/(resident*processors)), Words: words}
	t.Memory = float64(t.Bytes) / s.on.Read
	t.share(s.on, w, all, t.Rounds)
	if w.Matrices > 0 && s.on.Matrices > 0 {
		const kilo = 1e3
		t.Matrices = 2 * w.Matrices * groups / (kilo * s.on.Matrices)
		t.Compute += t.Matrices
	}
	if s.Quantized != nil { // nothing of weights is read while the first workgroups prepare activations; later ones do beside the others
		var first Times
		first.share(s.on, before, all/t.Rounds, 1)
		t.Prepare = first.Beside()
		t.share(s.on, before, all*(1-1/t.Rounds), t.Rounds-1)
	}
	return t
}

// share adds what work takes of what all lanes do, and what a lane waits for itself in some rounds.
func (t *Times) share(on spirv.Speeds, w spirv.Work, all, rounds float64) {
	instructions, dots := (w.Instructions+w.Last/float64(w.Parts))/on.Instructions*all, w.Dots/on.Dots*all
	t.Lines += w.Lines * all / on.Lines
	t.Instructions, t.Exchanged, t.Dots = t.Instructions+instructions, t.Exchanged+w.Exchanged/on.Instructions*all, t.Dots+dots
	t.Compute += instructions + dots
	own := (w.Instructions + w.Last + w.Dots) * on.Step
	loads := float64(w.Iterations) * on.Latency
	chain := own + loads
	if w.Ahead {
		chain = max(own, loads) + on.Latency
	}
	t.Chain += (chain + float64(w.Waits)*on.Latency) * rounds
}

// phases is the work of a workgroup that has k elements of K: what prepares activations, if it does so, and the rest.
func (s *Selected) phases(k int) (before, w spirv.Work) {
	counts := map[string]int{}
	if q := s.Quantized; q != nil {
		for i, name := range q.Nest.Counts {
			counts[nest.CountParam(nest.Loop{Name: name})] = ceil(k, q.CountDiv[i])
		}
	}
	count := func(param int) int {
		if n, ok := counts[s.code.Func.Params[param].Name]; ok {
			return n
		}
		return ceil(k, s.StepK)
	}
	if s.Quantized == nil {
		return before, spirv.WorkOf(s.code, count, s.on.Subgroup)
	}
	before, w = spirv.Phases(s.code, count, s.on.Subgroup)
	before.Iterations = before.Turns
	return before, w
}

// wordsOf is how many words of registers a lane needs.
func wordsOf(w spirv.Work) float64 {
	loaded := float64(w.Loaded) / 4
	if w.Ahead {
		loaded *= 2
	}
	return min(mostWords, fewestWords+wordsOfLoaded*loaded+wordsOfCarried*float64(w.Carried))
}

// resident is how many workgroups of some lanes, each with some words of registers, a processor holds at once.
func resident(on spirv.Speeds, words, lanes float64) float64 {
	return max(1, min(float64(on.Groups), float64(on.Lanes)/lanes, float64(on.Words)/words/lanes))
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
