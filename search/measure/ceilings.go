package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/search/timing"
)

// Modes of measuring: where the weights come from.
const (
	ModeDRAM = "dram" // copies of a 4096 x 4096 matrix that total DRAMBytes are cycled
	ModeL3   = "l3"   // one 4096 x 4096 matrix
	ModeL2   = "l2"   // a 512 x 2048 tile
)

// Shape is the usual M and K of a mode.
func Shape(mode string) (m, k int) {
	if mode == ModeL2 {
		return 512, 2048
	}
	return 4096, 4096
}

// MinDRAM is how much memory must pass before a byte is read again for its read to
// count as one from DRAM, unless the cache is larger (see DRAMBytes).
const MinDRAM = 544 << 20

// DRAMBytes is how much memory mode dram cycles through on host h: MinDRAM, or
// twice the last-level cache where that is more.
func DRAMBytes(h timing.Host) int { return max(MinDRAM, 2*h.L3) }

// WorkingSet is how many bytes of memory the weights of a mode occupy: one matrix of `matrix` bytes, or in mode dram
// enough copies to fill `dram` bytes.
func WorkingSet(dram int, mode string, matrix int) int {
	if mode == ModeDRAM {
		return max(matrix, dram)
	}
	return matrix
}

// Ceilings are what one core of the host reached at best, in one run.
type Ceilings struct {
	ClockGHz float64                       `json:"clock_ghz"`
	Read     map[string]Ceiling            `json:"read"` // GB/s by mode
	Dot      map[string]Ceiling            `json:"dot"`  // GMAC/s by target without architecture
	Mix      map[string]map[string]Ceiling `json:"mix"`  // Gweights/s by target and mix
}

// WeightsPerCycle is the ceiling of an instruction mix, 0 if it was not measured.
func (c Ceilings) WeightsPerCycle(target, mix string) float64 {
	if c.ClockGHz == 0 {
		return 0
	}
	if m := c.Mix[target][mix]; m.PerCycle > 0 {
		return m.PerCycle
	}
	return c.Mix[target][mix].Rate / c.ClockGHz
}

// readBits is the width of the weights whose l2 and l3 working sets Ceilings
// reads.
const readBits = 4

// picked is how many of the read probes, after a short look at all, are timed.
const picked = 4

// Ceilings measures what this host reaches: clock, read bandwidth of every mode,
// dot product peak and instruction mixes of every target. It takes a few seconds
// and twice DRAMBytes of memory, which it frees. Interrupted, it returns the error of ctx
// after what it is at, within a second or two.
func (l *Lab) Ceilings(ctx context.Context, opt timing.Options) (Ceilings, error) {
	c := Ceilings{Read: map[string]Ceiling{}, Dot: map[string]Ceiling{}, Mix: map[string]map[string]Ceiling{}}
	for _, mode := range []string{ModeL2, ModeL3, ModeDRAM} {
		if err := ctx.Err(); err != nil {
			return Ceilings{}, err
		}
		m, k := Shape(mode)
		bytes := WorkingSet(DRAMBytes(l.Host), mode, m*k*readBits/8)
		best, err := l.bestRead(opt, bytes)
		if err != nil {
			return Ceilings{}, err
		}
		c.Read[mode] = best
	}
	if err := ctx.Err(); err != nil {
		return Ceilings{}, err
	}
	return c, l.compute(opt, &c)
}

func (l *Lab) bestRead(opt timing.Options, bytes int) (Ceiling, error) {
	probes, err := l.Read(bytes)
	if err != nil {
		return Ceiling{}, err
	}
	defer l.free(bytes)
	look := timing.Options{Rounds: 3, MinSample: 200 * time.Microsecond}
	if probes, err = l.Pick(look, probes, picked); err != nil {
		return Ceiling{}, err
	}
	return l.Best(opt, probes)
}

// group is probes of one kind and where their ceiling goes.
type group struct {
	probes []Probe
	into   func(Ceiling)
}

// compute measures clock, peaks and mixes in the same rounds, so that a change of
// clock is the same for all.
func (l *Lab) compute(opt timing.Options, c *Ceilings) error {
	groups := []group{{l.Clock(), func(best Ceiling) { c.ClockGHz = best.Rate }}}
	for _, t := range l.targets {
		of, err := l.computeGroups(t.Machine().ShortName(), c)
		if err != nil {
			return err
		}
		groups = append(groups, of...)
	}
	var all []Probe
	for _, g := range groups {
		all = append(all, g.probes...)
	}
	samples, err := l.time(opt, all)
	if err != nil {
		return err
	}
	clock := RatesByRound(groups[0].probes, samples)
	for _, g := range groups {
		g.into(fastest(g.probes, samples, clock))
		samples = samples[len(g.probes):]
	}
	return nil
}

// computeGroups are the peak and the mixes of a target.
func (l *Lab) computeGroups(target string, c *Ceilings) ([]group, error) {
	dot, err := l.Dot(target)
	if err != nil {
		return nil, err
	}
	groups := []group{{dot, func(best Ceiling) { c.Dot[target] = best }}}
	c.Mix[target] = map[string]Ceiling{}
	for _, m := range l.Mixes(target) {
		probes, err := l.Mix(target, m.Name)
		if err != nil {
			return nil, err
		}
		groups = append(groups, group{probes, func(best Ceiling) { c.Mix[target][m.Name] = best }})
	}
	return groups, nil
}

// fastest is the best rate of probes that took samples, in rounds of such clocks if they are known.
func fastest(probes []Probe, samples []timing.Sample, clock []float64) Ceiling {
	var best Ceiling
	for i, p := range probes {
		if r := p.Rate(samples[i].Min); r > best.Rate {
			best = Ceiling{p.Name, p.Unit, r, over(p.Amount, samples[i].Cycles(clock))}
		}
	}
	return best
}

// String is c as a table, in a fixed order.
func (c Ceilings) String() string {
	var s strings.Builder
	row := func(what string, best Ceiling, note string) {
		fmt.Fprintf(&s, "%-28s %9.2f %-10s %s%s\n", what, best.Rate, best.Unit, best.Probe, note)
	}
	fmt.Fprintf(&s, "%-28s %9.2f GHz\n", "clock", c.ClockGHz)
	for _, mode := range slices.Sorted(maps.Keys(c.Read)) {
		row("read "+mode, c.Read[mode], "")
	}
	for _, t := range slices.Sorted(maps.Keys(c.Dot)) {
		row("peak "+t, c.Dot[t], "")
		for _, m := range slices.Sorted(maps.Keys(c.Mix[t])) {
			row("mix "+t+" "+m, c.Mix[t][m], fmt.Sprintf(", %.1f weights/cycle", c.WeightsPerCycle(t, m)))
		}
	}
	return s.String()
}
