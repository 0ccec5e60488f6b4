package cost

import (
	"math"
	"math/bits"
	"slices"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
)

// tripsOf is how often a loop runs.
type tripsOf func(count vir.Extent, listed bool) float64

// of simulates calls of m.
func of(m *lower.Kernel, trips tripsOf) Pipeline {
	x := newSimulator(m, trips)
	cycles := x.call()
	return Pipeline{Cycles: cycles, Stretches: x.stretches(m.Func, cycles), Vectors: m.Vectors, Scalars: m.Scalars}
}

// Most ports of a core.
const mostPorts = 36

// Cycles of instructions on general registers, which core files do not describe: no loop of a kernel depends on them from one iteration to the
// next. Cores differ by one or two.
const (
	loaded = 5 // a number from the first-level cache
	scaled = 4 // three to multiply it, and one to add
)

// micro is an instruction as a core sees it.
type micro struct {
	dst        int32   // the register it defines, -1: none; vectors and general registers have numbers of their own
	args       []int32 // that it waits for
	base       int32   // general register of its address, -1: none
	read, does []core.Micro
	readTime   int // cycles from the address to the operand from memory
	latency    int
	slots      int // of the front end, and of the window
	results    int // 1: its result needs a vector register
	wide       int // 1: of more than 256 bits
	kind       lower.MKind
	end        int     // MLoopBegin: of its MLoopEnd
	trips      float64 // MLoopBegin
	loop       int     // id
	stretch    int     // that it belongs to
}

// simulator runs code in the order of its text. Each instruction enters as the front end gives it and the window has room,
// and begins as early as its operands and ports allow: an older one has never to wait for a younger one.
type simulator struct {
	core  core.Pipeline
	code  []micro
	ready []int // by register, when it has its value
	ports calendar

	slot    int       // of the front end, next: cycle times width
	retired int       // when all instructions so far have their results
	last    int       // when the last instruction began
	window  flight    // instructions
	results flight    // instructions whose results are in vector registers
	wide    flight    // those among them of more than 256 bits
	waiting []int     // when instructions that have entered begin, a heap: the next first
	extra   float64   // cycles that were not simulated
	steady  []float64 // by loop, cycles of an iteration once it is steady
	count   int       // instructions so far

	parts []part
}

// flight has room for some instructions that have not retired: for each, when the instruction that had its room before has.
type flight struct {
	retired []int
	at      int
}

// room is when there is room for n more instructions.
func (f *flight) room(n int) int {
	if n == 0 || len(f.retired) == 0 {
		return 0
	}
	return f.retired[(f.at+min(n, len(f.retired))-1)%len(f.retired)]
}

// enter puts in n instructions that retire at a time.
func (f *flight) enter(n, retires int) {
	if len(f.retired) == 0 {
		return
	}
	for range n {
		f.retired[f.at] = retires
		if f.at++; f.at == len(f.retired) {
			f.at = 0
		}
	}
}

// part is a stretch: all its simulated runs together, except times and instrs.
type part struct {
	loop          int     // id of the innermost loop around, -1: none
	times         float64 // that it runs in a call
	instrs        int     // of one run
	steps, cycles int
	slots         int
	used          [mostPorts]int // cycles of each port
}

// now is when all instructions so far have retired, by the clock that includes what was not simulated.
func (x *simulator) now() float64 { return float64(x.retired) + x.extra }

// call returns the cycles of a call, once calls follow each other steadily.
func (x *simulator) call() float64 {
	done, mark, from := 0, 0.0, 0
	for {
		x.body(0, len(x.code))
		done++
		switch {
		case from == 0 && x.count >= x.core.Window:
			mark, from = x.now(), done
		case from > 0 && x.count >= 2*x.core.Window:
			return (x.now() - mark) / float64(done-from)
		}
	}
}

// body runs code from one index to another.
func (x *simulator) body(from, to int) {
	for i := from; i < to; i++ {
		if op := &x.code[i]; op.kind == lower.MLoopBegin {
			x.step(op)
			x.loop(i)
			i = op.end
		} else {
			x.step(op)
		}
	}
}

// loop runs the loop that begins at code index at, whose begin has run: until an iteration takes as long as the one before,
// and the others by that time.
func (x *simulator) loop(at int) {
	begin := &x.code[at]
	n, known := begin.trips, x.steady[begin.loop]
	warm, measured := x.core.Window+x.core.Window/2, x.core.Window/2
	if known > 0 {
		warm, measured = x.core.Window, 0
	}
	start, done, mark, from := x.count, 0.0, x.now(), 0.0
	for ; done < n; done++ {
		run := x.count - start
		switch {
		case known == 0 && from == 0 && run >= warm && done >= 2:
			mark, from = x.now(), done
		case known > 0 && run >= warm && done >= 2:
			x.extra += float64((n - done) * known)
			return
		case from > 0 && run >= warm+measured && done >= from+2:
			x.steady[begin.loop] = (x.now() - mark) / (done - from)
			x.extra += float64((n - done) * x.steady[begin.loop])
			return
		}
		before := x.now()
		x.body(at+1, begin.end)
		x.step(&x.code[begin.end])
		if left := n - done; left < 1 {
			x.extra -= float64((1 - left) * (x.now() - before))
		}
	}
}

// step runs an instruction.
func (x *simulator) step(op *micro) {
	x.count++
	x.slot = max(x.slot, x.core.Width*max(x.window.room(op.slots), x.results.room(op.results), x.wide.room(op.wide)))
	if len(op.does) > 0 && len(x.waiting) == x.core.Waiting {
		x.slot = max(x.slot, x.next()*x.core.Width)
	}
	enter := (x.slot + op.slots) / x.core.Width
	x.slot += op.slots
	if op.kind == lower.MLoopEnd { // what follows a taken branch enters in another cycle
		x.slot = (x.slot + x.core.Width - 1) / x.core.Width * x.core.Width
	}
	x.ports.pass(x.slot / x.core.Width)
	begin, result := enter, enter
	if x.core.Window == 1 {
		begin = max(begin, x.last)
	}
	p := &x.parts[op.stretch]
	if len(op.read) > 0 || op.readTime > 0 {
		if op.base >= 0 {
			begin = max(begin, x.ready[op.base])
		}
		start := x.start(p, op.read, begin)
		begin = start + op.readTime
		result = begin
	}
	for _, r := range op.args {
		begin = max(begin, x.ready[r])
	}
	result = max(begin, result)
	if len(op.does) > 0 {
		begin = x.start(p, op.does, begin)
		result = begin
		x.wait(begin)
	}
	result += op.latency
	x.last = max(begin, enter)
	if op.dst >= 0 {
		x.ready[op.dst] = result
	}
	p.cycles += max(0, result-x.retired)
	x.retired = max(x.retired, result)
	x.window.enter(op.slots, x.retired)
	x.results.enter(op.results, x.retired)
	x.wide.enter(op.wide, x.retired)
	p.steps++
	p.slots += op.slots
}

// wait puts an instruction that begins at a time among the waiting ones.
func (x *simulator) wait(begin int) {
	x.waiting = append(x.waiting, begin)
	h := x.waiting
	for i := len(h) - 1; i > 0 && h[(i-1)/2] > h[i]; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

// next takes the waiting instruction that begins first, and returns when.
func (x *simulator) next() int {
	h := x.waiting
	first, last := h[0], len(h)-1
	h[0], h = h[last], h[:last]
	x.waiting = h
	for i := 0; 2*i+1 < last; {
		child := 2*i + 1
		if child+1 < last && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			break
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
	return first
}

// start gives micro-operations their ports, and returns when the last begins.
func (x *simulator) start(p *part, all []core.Micro, from int) int {
	last := from
	for _, m := range all {
		best, port := math.MaxInt, 0
		for set := m.Ports; set != 0; set &= set - 1 {
			i := bits.TrailingZeros64(set)
			if at := x.ports.free(i, from, m.Cycles); at < best || at == best && x.ports.used[i] < x.ports.used[port] {
				best, port = at, i
			}
		}
		x.ports.take(port, best, m.Cycles)
		p.used[port] += m.Cycles
		last = max(last, best)
	}
	return last
}

// calendar has the cycles in which ports are busy.
type calendar struct {
	busy   [mostPorts][]uint64 // bit i of word w: cycle 64*w+i, words in a ring
	used   [mostPorts]int
	passed int // words before are of the past
}

// horizon is how many words of cycles a calendar has.
const horizon = 256

// pass forgets cycles before one.
func (c *calendar) pass(cycle int) {
	for ; c.passed < cycle/64; c.passed++ {
		for i := range c.busy {
			if c.busy[i] != nil {
				c.busy[i][c.passed%horizon] = 0
			}
		}
	}
}

// free is the first cycle from one on from which a port is free for some.
func (c *calendar) free(port, from, cycles int) int {
	words := c.busy[port]
	most := (c.passed + horizon - 2) * 64
	for at := min(from, most); ; {
		word := ^words[at/64%horizon] >> (at % 64)
		if word == 0 {
			if at = (at/64 + 1) * 64; at >= most {
				return most
			}
			continue
		}
		at += bits.TrailingZeros64(word)
		taken := 0
		for i := 1; i < cycles; i++ {
			if words[(at+i)/64%horizon]>>((at+i)%64)&1 != 0 {
				taken = i
			}
		}
		if taken == 0 {
			return at
		}
		at += taken + 1
	}
}

// take makes a port busy.
func (c *calendar) take(port, at, cycles int) {
	for i := at; i < at+cycles; i++ {
		c.busy[port][i/64%horizon] |= 1 << (i % 64)
	}
	c.used[port] += cycles
}

// newSimulator reads the code of m.
func newSimulator(m *lower.Kernel, trips tripsOf) *simulator {
	x := &simulator{core: m.Machine.Pipeline, ready: make([]int, len(m.Func.Regs)+m.Machine.NumGP+64), code: make([]micro, len(m.Ops))}
	x.window.retired = make([]int, max(x.core.Window, 2))
	x.results.retired = make([]int, x.core.Results)
	x.wide.retired = make([]int, x.core.WideResults)
	scalar, _ := core.Micros(x.core.Scalar)
	r := reader{x: x, m: m, gp: int32(len(m.Func.Regs)), scalar: scalar, trips: trips, times: 1}
	r.begin(-1)
	for i := range m.Ops {
		r.read(i)
	}
	r.close()
	for i := range x.code {
		for _, set := range [][]core.Micro{x.code[i].read, x.code[i].does} {
			for _, u := range set {
				for s := u.Ports; s != 0; s &= s - 1 {
					if p := bits.TrailingZeros64(s); x.ports.busy[p] == nil {
						x.ports.busy[p] = make([]uint64, horizon)
					}
				}
			}
		}
	}
	return x
}

// reader makes what a simulator runs of operations.
type reader struct {
	x      *simulator
	m      *lower.Kernel
	gp     int32 // number of the first general register
	scalar []core.Micro
	trips  tripsOf
	begins []int // of the loops around, indices into code
	times  float64
	args   []int32
}

// begin begins a stretch.
func (r *reader) begin(loop int) {
	r.x.parts = append(r.x.parts, part{loop: loop, times: r.times})
}

// read makes code of operation i.
func (r *reader) read(i int) {
	op, c := &r.m.Ops[i], &r.x.code[i]
	*c = micro{dst: -1, base: -1, kind: op.Kind, stretch: len(r.x.parts) - 1}
	switch op.Kind {
	case lower.MInstr:
		r.instr(op, c)
	case lower.MLoadParam:
		c.slots, c.dst, c.does, c.latency = 1, r.gp+int32(op.GP), r.scalar, loaded
	case lower.MScale:
		c.slots, c.dst, c.does, c.latency = 2, r.gp+int32(max(op.Scale.Dst, 0)), r.scalar, scaled
	case lower.MLoopBegin:
		c.slots, c.does, c.latency = 1+len(op.Copy), r.scalar, 1
		c.trips, c.loop = r.trips(op.Count, op.List != nil), op.Loop
		for len(r.x.steady) <= op.Loop {
			r.x.steady = append(r.x.steady, 0)
		}
		r.begins, r.times = append(r.begins, i), r.times*c.trips
		r.begin(op.Loop)
	case lower.MLoopEnd:
		c.slots, c.latency = 1+len(op.Adds), 1
		for range 1 + len(op.Adds) {
			c.does = append(c.does, r.scalar...)
		}
		begin := &r.x.code[r.begins[len(r.begins)-1]]
		r.begins = r.begins[:len(r.begins)-1]
		begin.end, c.loop = i, begin.loop
		r.times /= begin.trips
		around := -1
		if len(r.begins) > 0 {
			around = r.x.code[r.begins[len(r.begins)-1]].loop
		}
		r.begin(around)
	}
	r.x.parts[c.stretch].instrs++
}

// close takes ports away from instructions on vectors, where a wide one closes them.
func (r *reader) close() {
	closed := r.x.core.ClosedPorts()
	if closed == 0 || !slices.ContainsFunc(r.m.Ops, func(op lower.MOp) bool {
		return op.In != nil && op.In.Dst != vir.NoReg && r.m.Func.Regs[op.In.Dst].Bits() > 256
	}) {
		return
	}
	narrowed := map[*core.Micro][]core.Micro{}
	for i := range r.x.code {
		c := &r.x.code[i]
		if c.kind != lower.MInstr || len(c.does) == 0 {
			continue
		}
		all := narrowed[&c.does[0]]
		if all == nil {
			all = slices.Clone(c.does)
			for j := range all {
				if rest := all[j].Ports &^ closed; rest != 0 {
					all[j].Ports = rest
				}
			}
			narrowed[&c.does[0]] = all
		}
		c.does = all
	}
}

// instr reads an instruction on vectors.
func (r *reader) instr(op *lower.MOp, c *micro) {
	in := op.In
	c.dst = int32(in.Dst)
	from := len(r.args)
	for _, a := range in.Args {
		if a != vir.NoReg {
			r.args = append(r.args, int32(a))
		}
	}
	c.args = r.args[from:len(r.args):len(r.args)]
	if op.Row == nil { // another name of a register
		return
	}
	c.slots = 1
	if in.Dst != vir.NoReg {
		c.results = 1
		if r.m.Func.Regs[in.Dst].Bits() > 256 {
			c.wide = 1
		}
	}
	if op.Base >= 0 && in.HasMem() {
		c.base = r.gp + int32(op.Base)
	}
	row := op.Row
	switch {
	case in.Op.HasMem() && in.Dst != vir.NoReg, in.Op == vir.OpConst, in.Op == vir.OpSplat:
		c.read, c.readTime = row.Micros, row.Latency
	case in.Op == vir.OpHalf && in.Imm == 0:
	default:
		c.does, c.latency = row.Micros, row.Latency
		c.slots = max(1, len(row.Micros))
	}
	if in.Op == vir.OpStore {
		c.slots = 1
	}
	if in.Fold > 0 {
		if load := r.m.LoadRow(in); load != nil {
			c.read, c.readTime = load.Micros, load.Latency
		}
		if in.Op == vir.OpTile {
			c.does, c.latency = nil, 0
		}
	}
}

// stretches are the parts of the code of f, which takes some cycles per call.
func (x *simulator) stretches(f *vir.Func, cycles float64) (all []Stretch) {
	loops := map[int]*vir.Loop{}
	vir.Walk(f.Body, func(_ *vir.Instr, around []*vir.Loop) {
		for _, l := range around {
			loops[l.ID] = l
		}
	})
	sum := 0.0
	for i := range x.parts {
		p := &x.parts[i]
		if p.steps == 0 {
			continue
		}
		s := Stretch{Loop: loops[p.loop], Times: p.times, Instrs: p.instrs, Bound: p.bound(x.core.Width)}
		s.Cycles = float64(p.cycles) * float64(p.instrs) / float64(p.steps)
		sum += float64(s.Cycles * s.Times)
		all = append(all, s)
	}
	for i := range all { // also the first runs count, which were slower
		all[i].Cycles *= cycles / max(sum, 1)
	}
	return all
}

// busy is the share of the time from which on ports or the front end are the reason that code takes so long.
const busy = 0.75

// bound says what took longest, by the front end's instructions per cycle.
func (p *part) bound(width int) string {
	most := slices.Max(p.used[:])
	switch least := busy * float64(p.cycles); {
	case float64(most) < least && float64(p.slots/width) < least:
		return "latency"
	case p.slots/width > most:
		return "front end"
	}
	text := "ports"
	for i, n := range p.used {
		if float64(n) > 0.95*float64(most) {
			text += " " + core.PortName(i)
		}
	}
	return text
}
