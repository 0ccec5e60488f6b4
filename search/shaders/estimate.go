package shaders

import (
	"context"
	"fmt"
	"math"
	"strings"

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

// Parts are what a product takes, in ns. Its lanes read memory, touch lines, compute, and wait for their own instructions and loads. All of that goes on
// side by side, and each hinders the others.
type Parts struct {
	Memory  float64 // reading weights
	Lines   float64 // touching lines of memory
	Compute float64 // instructions of all lanes
	Chain   float64 // a lane's own instructions and loads, of workgroups one after the other
	Launch  float64 // what each dispatch takes

	Groups   float64 // workgroups
	Resident float64 // of them on a processor at once
	Work     spirv.Work
	shared   int // bytes that a workgroup may share
}

// Refused says that a workgroup shares more memory than it may.
func (p Parts) Refused() error {
	if p.Work.Shared <= p.shared {
		return nil
	}
	return fmt.Errorf("a workgroup shares %d bytes: the device has %d", p.Work.Shared, p.shared)
}

// Ns is how long all parts take: they add up as orthogonal lengths do. It is infinite if the product is refused.
func (p Parts) Ns() float64 {
	if p.Refused() != nil {
		return math.Inf(1)
	}
	return p.Launch + math.Sqrt(p.Memory*p.Memory+p.Lines*p.Lines+p.Compute*p.Compute+p.Chain*p.Chain)
}

// Estimate is how long a product takes, in ns, if it waits for the one before it; infinite if a workgroup shares more than it may.
func (s *Selected) Estimate(x tune.Purpose) float64 { return s.Parts(x).Ns() }

// Parts are the parts of that time.
func (s *Selected) Parts(x tune.Purpose) (p Parts) {
	k := s.Problem.WholeK(x.K)
	w := spirv.WorkOf(s.code, ceil(k, s.StepK), s.on.Subgroup)
	p.Work, p.shared = w, s.on.Shared
	p.Groups = float64(ceil(x.M, s.Rows) * ceil(x.N, s.Cols))
	lanes := float64(ceil(w.Lanes, s.on.Subgroup) * s.on.Subgroup)
	processors := float64(s.on.Processors)
	p.Resident = s.resident(w, lanes)
	all := lanes * p.Groups / busy(p.Groups/processors, p.Resident)

	p.Memory = float64(ceil(x.M, s.Weights.TileM)*s.Weights.TileBytes(k)) / s.on.Read
	p.Lines = w.Lines * all / s.on.Lines
	p.Compute = (w.Instructions/s.on.Instructions + w.Dots/s.on.Dots) * all
	if w.Matrices > 0 && s.on.Matrices > 0 {
		const kilo = 1e3
		p.Compute += 2 * w.Matrices * p.Groups / (kilo * s.on.Matrices)
	}
	own := (w.Instructions + w.Dots) * s.on.Step
	loads := float64(w.Iterations) * s.on.Latency
	p.Chain = own + loads
	if w.Ahead {
		p.Chain = max(own, loads) + s.on.Latency
	}
	p.Chain *= max(1, p.Groups/(p.Resident*processors))
	p.Launch = s.on.Launch + s.on.Start
	return p
}

// Report says where the time of products goes, by the model of the device.
func (s *Selected) Report(purposes ...tune.Purpose) string {
	var b strings.Builder
	for i, x := range purposes {
		p := s.Parts(x)
		if i == 0 {
			fmt.Fprintf(&b, "a workgroup of %d lanes computes %d x %d results on a device as %s\n", p.Work.Lanes, s.Rows, s.Cols, s.on.Name)
		}
		fmt.Fprintf(&b, "%s: %.0f workgroups, %.0f at once on a processor\n", tune.PurposesText(x), p.Groups, p.Resident)
		fmt.Fprintf(&b, "  each lane: %.0f instructions, %.0f dot products, %d iterations of %d bytes loaded\n", p.Work.Instructions, p.Work.Dots, p.Work.Iterations, p.Work.Loaded)
		const micro = 1e3
		fmt.Fprintf(&b, "%10s  %s\n", "us", "what takes it")
		for _, part := range []struct {
			ns   float64
			what string
		}{{p.Memory, "reading weights"}, {p.Lines, "touching lines of memory"}, {p.Compute, "computing"}, {p.Chain, "waiting for the instructions and loads before"}, {p.Launch, "the dispatch itself"}} {
			fmt.Fprintf(&b, "%10.1f  %s\n", part.ns/micro, part.what)
		}
		if err := p.Refused(); err != nil {
			fmt.Fprintf(&b, "is impossible: %v\n", err)
			continue
		}
		fmt.Fprintf(&b, "%10.1f  in all: the dispatch, and the root of the sum of squares of the others\n", p.Ns()/micro)
	}
	return strings.TrimRight(b.String(), "\n")
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
