package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	measured "github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search/cost"
)

// fit tries other numbers of a core's hierarchy, one after the other, on the pairs measured on that core.
func (x *lab) fit(ctx context.Context, args []string) error {
	f := x.flags("fit")
	name := f.String("core", "", "built-in core to try numbers of")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	all := targets.Cores()
	i := slices.IndexFunc(all, func(c core.Core) bool { return c.Name == *name })
	if i < 0 {
		return fmt.Errorf("fit: -core %.40q is no built-in core: see tmacc cores", *name)
	}
	pairs, err := readFitted(ctx, *name)
	if err != nil {
		return err
	}
	best := all[i]
	right, margin := rate(best, pairs)
	fmt.Fprintf(x.out, "%s: %.1f of %d pairs ranked right\n", *name, right, len(pairs))
	for _, number := range numbersOf(&best.Hierarchy) {
		for _, try := range number.others() {
			if err := ctx.Err(); err != nil {
				return err
			}
			old := number.get()
			number.set(try)
			r, m := rate(best, pairs)
			fmt.Fprintf(x.out, "%-10s %6g: %.1f\n", number.name, try, r)
			if r+m > right+margin {
				right, margin = r, m
			} else {
				number.set(old)
			}
		}
	}
	fmt.Fprintf(x.out, "%s: %.1f of %d pairs ranked right with %+v\n", *name, right, len(pairs), best.Hierarchy)
	return nil
}

// number is a number of a hierarchy.
type number struct {
	name string
	get  func() float64
	set  func(float64)
}

// numbersOf are the numbers of h that are measured by no load, and the times that machines of one core differ by.
func numbersOf(h *core.Hierarchy) (all []number) {
	of := func(name string, n *int) {
		all = append(all, number{name, func() float64 { return float64(*n) }, func(x float64) { *n = int(x) }})
	}
	of("fills", &h.Fills)
	of("window", &h.Window)
	of("queue", &h.Queue)
	of("ahead", &h.Ahead)
	of("reach", &h.Reach)
	for i, level := range core.Levels {
		all = append(all, number{"latency " + level, func() float64 { return h.Latency[i] }, func(x float64) { h.Latency[i] = x }})
	}
	return all
}

// others are values to try instead of the one that n has, down to half of it and up to twice as much.
func (n number) others() (all []float64) {
	for _, by := range []float64{0.5, 0.75, 1.33, 2} {
		if x := max(1, math.Round(by*n.get())); x != n.get() && !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

// fitted is a pair with both kernels compiled, and what execution units take for them.
type fitted struct {
	measured.Pair
	sides [2]fittedSide
}

type fittedSide struct {
	k *schedule.Kernel
	s *lower.Selected
	p cost.Pipeline
}

// readFitted reads the decided pairs of products that were measured on a core.
func readFitted(ctx context.Context, name string) (out []fitted, err error) {
	file, err := os.Open(filepath.Join(home, "pairs.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("fit: %w: run it at the root of a checkout", err)
	}
	defer file.Close()
	all, err := measured.Read(file)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.Core != name || !p.Decided() || p.Operator != "" {
			continue
		}
		one := fitted{Pair: p}
		a, b, err := p.Kernels()
		if err != nil {
			return nil, err
		}
		for i, k := range []*schedule.Kernel{a, b} {
			s, err := cost.Compile(ctx, targets.ByName(p.Target), k)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", p.Line, err)
			}
			one.sides[i] = fittedSide{k, s, cost.Run(k, s)}
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, errors.New("fit: no pair was measured on this core: have " + strings.Join(fittedCores(all), ", "))
	}
	return out, nil
}

// fittedCores are the cores that products were measured on.
func fittedCores(all []measured.Pair) (names []string) {
	for _, p := range all {
		if p.Operator == "" && !slices.Contains(names, p.Core) {
			names = append(names, p.Core)
		}
	}
	return names
}

// rate is how many pairs the model ranks right for a core, and less than 1 for how clearly it ranks all.
func rate(c core.Core, pairs []fitted) (right, margin float64) {
	var tries sync.WaitGroup
	logs := make([]float64, len(pairs)) // of predicted ratios, positive if they are right
	slots := make(chan struct{}, runtime.NumCPU())
	for i := range pairs {
		slots <- struct{}{}
		tries.Go(func() {
			p := &pairs[i]
			logs[i] = math.Log(p.time(c, 0)/p.time(c, 1)) * math.Copysign(1, math.Log(p.Ratio))
			<-slots
		})
	}
	tries.Wait()
	for _, x := range logs {
		switch {
		case math.Abs(x) < 1e-6:
			right += 0.5
		case x > 0:
			right++
		}
		margin += 1 / (1 + math.Exp(-x/measuredNoise)) / float64(len(pairs)+1)
	}
	return right, margin
}

// measuredNoise is about how far measured ratios are off.
const measuredNoise = measured.Noise - 1

// time is the model's time of a side.
func (p *fitted) time(c core.Core, side int) float64 {
	x := p.sides[side]
	at, err := cost.PlaceOf(p.Mode)
	if err != nil {
		panic("BUG: " + err.Error()) // Read has checked it
	}
	return cost.Product(c, x.k, x.s, x.p, p.N, at)
}
