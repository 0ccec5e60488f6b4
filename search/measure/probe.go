package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/rig"
	"github.com/tmacc/tmacc/search/timing"
)

// What read and clock probes try.
var (
	readStreams = []int{1, 2, 4}
	readAhead   = []int{0, 4 << 10, 8 << 10}
	dotChains   = []int{8, 10, 12, 16}
)

// clockKind is a loop of dependent additions, each followed by prefetches.
type clockKind struct{ adds, prefetches int }

// clockKinds are the clock probes of an architecture. An addition takes a cycle, or more where a core has a hazard (one needs a second
// one while its scheduler is full, hence the chains whose instructions arrive slowly). Cores of Arm take two or three for one of vectors
// (Figures: docs/lab/choices.md, clockKinds), but one for that of a loop's counter, for which some amd64 cores take none;
// the loop has a prefetch, or it would be left out, so that a core that begins two instructions at a time seems slower than it is.
var clockKinds = map[string][]clockKind{
	"amd64": {{64, 0}, {1, 0}, {2, 0}, {16, 2}, {16, 3}, {16, 4}, {1, 1}, {1, 3}},
	"arm64": {{0, 1}, {1, 0}},
}

// How long a Run lasts, in what it does: some tens of microseconds. Shorter ones
// read too fast, because a core begins a call before the last one has ended; and
// assembly cannot be preempted, so longer ones would delay collections of garbage.
const (
	runSteps  = 100000  // instructions of a probe in registers
	readChunk = 2 << 20 // bytes of a read probe
)

// probeTexts are the probes of t in vir text. Clock and reads are a matter of the
// machine, not of a target: the best target has them.
func probeTexts(t lower.Target, best bool) []string {
	kinds := peakKinds(t)
	for _, m := range mixes(t) {
		kinds = append(kinds, mixKinds(t, m)...)
	}
	var texts []string
	for _, x := range kinds {
		text, _ := mixText(x.kernel(t), x.Ops, x.bytes, x.chains)
		texts = append(texts, text)
	}
	if !best {
		return texts
	}
	for _, c := range clockKinds[t.Machine().Arch()] {
		texts = append(texts, clockText(c))
	}
	for _, r := range readKinds(t) {
		texts = append(texts, readText(r.kernel(), r.bytes, r.streams, r.ahead))
	}
	return texts
}

// vectorBytes lists the vector widths of t from least up, or the widest if it is less.
func vectorBytes(t lower.Target, least int) []int {
	var widths []int
	for n := min(least, t.Machine().VecBits/8); 8*n <= t.Machine().VecBits; n *= 2 {
		widths = append(widths, n)
	}
	return widths
}

// hasRow says whether t does op in one instruction.
func hasRow(t lower.Target, op vir.Op) bool {
	return lower.Can(t, func(r lower.Row) bool { return r.Op == op })
}

// mixes are the instruction mixes that t has.
func mixes(t lower.Target) []Mix {
	table := satMixes
	if hasRow(t, vir.OpDot4) {
		table = dotMixes
	}
	var ms []Mix
	for _, m := range slices.Concat(table, floatMixes) {
		if m = m.on(t); m.possible(t) {
			ms = append(ms, m)
		}
	}
	return ms
}

// peaks are the products of bytes with 32-bit sums that t has. Without any they are those with 16-bit sums,
// although these still have to be added.
func peaks(t lower.Target) []Mix {
	for _, table := range [][]Mix{peaks32, peaks16} {
		if ms := slices.DeleteFunc(slices.Clone(table), func(m Mix) bool { return !m.possible(t) }); len(ms) > 0 {
			return ms
		}
	}
	return nil
}

// maxChains is the number of chains that m has registers for on t, for each instruction that waits for several
// cycles: those it needs besides are inputs and other results.
func maxChains(t lower.Target, m Mix) int {
	w := &writer{}
	_, other := w.inputs(m.Ops, 0)
	seen, chained := map[string]bool{}, 0
	for _, op := range m.Ops {
		if !seen[op] {
			other += width(op, 0)
			if forms[op].waits == cycles {
				chained++
			}
		}
		seen[op] = true
	}
	return min(16, (t.Machine().NumVec-other)/max(chained, 1))
}

// dotChainsOf are the numbers of chains for each instruction of peak m that t has registers for.
func dotChainsOf(t lower.Target, m Mix) []int {
	if !slices.ContainsFunc(m.Ops, func(op string) bool { return forms[op].waits == cycles }) {
		return dotChains[:1]
	}
	most := maxChains(t, m)
	return slices.DeleteFunc(slices.Clone(dotChains), func(n int) bool { return n > most })
}

// mixKind is a mix with a vector size in bytes and a number of chains.
type mixKind struct {
	Mix
	bytes, chains int
}

func (x mixKind) kernel(t lower.Target) string {
	return fmt.Sprintf("mix_%s_%s_%d_%d", t.Machine().Identifier(), strings.NewReplacer("+", "_", " ", "_").Replace(x.Name), 8*x.bytes, x.chains)
}

// mixKinds are m in each vector width of t.
func mixKinds(t lower.Target, m Mix) (kinds []mixKind) {
	for _, bytes := range vectorBytes(t, 32) {
		kinds = append(kinds, mixKind{m, bytes, maxChains(t, m)})
	}
	return kinds
}

// peakKinds are the peaks of t in each vector width and number of chains.
func peakKinds(t lower.Target) (kinds []mixKind) {
	for _, bytes := range vectorBytes(t, 32) {
		for _, m := range peaks(t) {
			for _, chains := range dotChainsOf(t, m) {
				kinds = append(kinds, mixKind{m, bytes, chains})
			}
		}
	}
	return kinds
}

func (c clockKind) kernel() string { return fmt.Sprintf("clock_%d_%d", c.adds, c.prefetches) }

func (c clockKind) String() string {
	switch {
	case c.adds == 0:
		return fmt.Sprintf("loop, %d prefetches each time", c.prefetches)
	case c.prefetches == 0:
		return fmt.Sprintf("%d adds", c.adds)
	}
	return fmt.Sprintf("%d adds, %d prefetches after each", c.adds, c.prefetches)
}

// Clock probes are chains of dependent 128-bit additions, or of additions to a loop's counter: see clockKinds. Their rate is in
// GHz; the largest is the clock.
func (l *Lab) Clock() []Probe {
	var probes []Probe
	for _, c := range clockKinds[l.Host.Arch] {
		chain := max(1, c.adds)
		n := max(1, runSteps/chain)
		probes = append(probes, l.inRegisters(c.String(), "GHz", float64(n*chain), c.kernel(), n))
	}
	return probes
}

// RatesByRound are the best rates of probes in each round of their samples, 0 where none had the core for itself.
func RatesByRound(probes []Probe, samples []timing.Sample) []float64 {
	rates := make([]float64, len(samples[0].Rounds))
	for i := range rates {
		for j, p := range probes {
			if s := samples[j]; s.Alone[i] {
				rates[i] = max(rates[i], p.Rate(s.Rounds[i]))
			}
		}
	}
	return rates
}

// Dot probes multiply int8 in registers, in 8 to 16 chains; their rate is in
// GMAC/s. For a target without dot4 (AVX2) they are dot2sat, two products per
// 16-bit lane, without the additions that a sum needs; for NEON without it dot1, one.
func (l *Lab) Dot(target string) ([]Probe, error) {
	t, err := l.target(target)
	if err != nil {
		return nil, err
	}
	var probes []Probe
	for _, x := range peakKinds(t) {
		p := l.mix(t, x)
		p.Unit = "GMAC/s"
		if len(dotChainsOf(t, x.Mix)) > 1 {
			p.Name += fmt.Sprintf(", %d chains", x.chains)
		}
		probes = append(probes, p)
	}
	return probes, nil
}

// Mix probes run an instruction mix of the target in registers, in each vector
// width; their rate is in Gweights/s.
func (l *Lab) Mix(target, mix string) ([]Probe, error) {
	t, err := l.target(target)
	if err != nil {
		return nil, err
	}
	for _, m := range mixes(t) {
		if m.Name != mix {
			continue
		}
		var probes []Probe
		for _, x := range mixKinds(t, m) {
			probes = append(probes, l.mix(t, x))
		}
		return probes, nil
	}
	return nil, fmt.Errorf("measure: target %s has no instruction mix %q", target, mix)
}

// Mixes lists the instruction mixes of a target, none if it is not of this machine.
func (l *Lab) Mixes(target string) []Mix {
	t, err := l.target(target)
	if err != nil {
		return nil
	}
	return mixes(t)
}

func (l *Lab) mix(t lower.Target, x mixKind) Probe {
	kernel := x.kernel(t)
	_, rounds := mixText(kernel, x.Ops, x.bytes, x.chains)
	n := max(1, runSteps/(rounds*len(x.Ops)))
	weights := n * rounds * x.Vectors * x.bytes
	return l.inRegisters(fmt.Sprintf("%s of %d bits", x.Name, 8*x.bytes), "Gweights/s", float64(weights), kernel, n)
}

// readKind is a way to read memory.
type readKind struct{ bytes, streams, ahead int }

func readKinds(t lower.Target) []readKind {
	var kinds []readKind
	for _, bytes := range vectorBytes(t, 16) {
		for _, streams := range readStreams {
			for _, ahead := range readAhead {
				kinds = append(kinds, readKind{bytes, streams, ahead})
			}
		}
	}
	return kinds
}

func (r readKind) kernel() string {
	return fmt.Sprintf("read_%d_%d_%d", 8*r.bytes, r.streams, r.ahead)
}

func (r readKind) String() string {
	s := fmt.Sprintf("%d bits, %d streams", 8*r.bytes, r.streams)
	if r.streams == 1 {
		s = strings.TrimSuffix(s, "s")
	}
	if r.ahead > 0 {
		s += fmt.Sprintf(", prefetch %d KiB ahead", r.ahead>>10)
	}
	return s
}

// Read probes read a working set of `bytes` bytes over and over, in all vector
// widths, 1 to 4 streams, with and without prefetch and huge pages; their rate is
// in GB/s. For DRAM, bytes is DRAMBytes; for a kernel, its footprint. Here the working
// sets exist (twice: in huge pages and without) until the lab is closed. A worker has one at a time, in huge pages as weights that it
// measures: the other machine may have little memory.
func (l *Lab) Read(bytes int) ([]Probe, error) {
	const least = readLoads * timing.LineBytes
	if bytes < least {
		return nil, fmt.Errorf("measure: a working set of %d bytes is too small to read; the least is %d", bytes, least)
	}
	chunk := bytes / ((bytes + readChunk - 1) / readChunk) / least * least
	var probes []Probe
	pages := []bool{true, false}
	if l.rig == nil {
		pages = pages[:1]
	}
	for _, huge := range pages {
		for _, r := range readKinds(l.targets[len(l.targets)-1]) {
			name := r.String()
			if huge {
				name += ", huge pages"
			}
			read := rig.Read{Set: rig.Set{Bytes: bytes, Huge: huge}, Chunk: chunk, Streams: r.streams}
			p, err := l.probe(name, "GB/s", float64(chunk), rig.Call{Func: r.kernel(), Steps: chunk / (readLoads * r.bytes), Read: read})
			if err != nil {
				return nil, err
			}
			probes = append(probes, p)
		}
	}
	return probes, nil
}
