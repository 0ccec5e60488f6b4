package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
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

// WorkingSet is how many bytes of memory the weights of a mode occupy on h, in
// copies of bytes: that of one matrix.
func WorkingSet(h Host, mode string, matrix int) int {
	if mode == ModeDRAM {
		return max(matrix, DRAMBytes(h))
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
	return c.Mix[target][mix].Rate / c.ClockGHz
}

// readBits is the width of the weights whose l2 and l3 working sets Ceilings
// reads.
const readBits = 4

// picked is how many of the read probes, after a short look at all, are timed.
const picked = 4

// Ceilings measures what this host reaches: clock, read bandwidth of every mode,
// dot product peak and instruction mixes of every target. It takes a few seconds
// and twice DRAMBytes of memory, which it frees.
func (l *Lab) Ceilings(opt Options) (Ceilings, error) {
	c := Ceilings{Read: map[string]Ceiling{}, Dot: map[string]Ceiling{}, Mix: map[string]map[string]Ceiling{}}
	for _, mode := range []string{ModeL2, ModeL3, ModeDRAM} {
		m, k := Shape(mode)
		bytes := WorkingSet(l.Host, mode, m*k*readBits/8)
		best, err := l.bestRead(opt, bytes)
		if err != nil {
			return Ceilings{}, err
		}
		c.Read[mode] = best
	}
	return c, l.compute(opt, &c)
}

func (l *Lab) bestRead(opt Options, bytes int) (Ceiling, error) {
	probes, err := l.Read(bytes)
	if err != nil {
		return Ceiling{}, err
	}
	defer l.Release(bytes)
	look := Options{Rounds: 3, MinSample: 200 * time.Microsecond, Cores: opt.Cores}
	return Best(opt, Pick(look, probes, picked)), nil
}

// compute measures clock, peaks and mixes in the same rounds, so that a change of
// clock is the same for all.
func (l *Lab) compute(opt Options, c *Ceilings) error {
	type group struct {
		into  func(Ceiling)
		count int
	}
	var groups []group
	var all []Probe
	add := func(probes []Probe, into func(Ceiling)) {
		groups = append(groups, group{into, len(probes)})
		all = append(all, probes...)
	}
	add(l.Clock(), func(best Ceiling) { c.ClockGHz = best.Rate })
	for _, t := range l.targets {
		name := shortName(t)
		dot, err := l.Dot(name)
		if err != nil {
			return err
		}
		add(dot, func(best Ceiling) { c.Dot[name] = best })
		c.Mix[name] = map[string]Ceiling{}
		for _, m := range mixes(t) {
			probes, err := l.Mix(name, m.Name)
			if err != nil {
				return err
			}
			add(probes, func(best Ceiling) { c.Mix[name][m.Name] = best })
		}
	}
	samples := Time(opt, runs(all)...)
	for _, g := range groups {
		g.into(fastest(all[:g.count], samples))
		all, samples = all[g.count:], samples[g.count:]
	}
	return nil
}

// fastest is the best rate of probes that took samples.
func fastest(probes []Probe, samples []Sample) Ceiling {
	var best Ceiling
	for i, p := range probes {
		if r := p.Rate(samples[i].Min); r > best.Rate {
			best = Ceiling{p.Name, p.Unit, r}
		}
	}
	return best
}

// Fprint writes c as a table, in a fixed order.
func (c Ceilings) Fprint(w io.Writer) error {
	p := func(what string, best Ceiling, note string) {
		fmt.Fprintf(w, "%-28s %9.2f %-10s %s%s\n", what, best.Rate, best.Unit, best.Probe, note)
	}
	fmt.Fprintf(w, "%-28s %9.2f GHz\n", "clock", c.ClockGHz)
	for _, mode := range slices.Sorted(maps.Keys(c.Read)) {
		p("read "+mode, c.Read[mode], "")
	}
	for _, t := range slices.Sorted(maps.Keys(c.Dot)) {
		p("peak "+t, c.Dot[t], "")
		for _, m := range slices.Sorted(maps.Keys(c.Mix[t])) {
			p("mix "+t+" "+m, c.Mix[t][m], fmt.Sprintf(", %.1f weights/cycle", c.WeightsPerCycle(t, m)))
		}
	}
	return nil
}
