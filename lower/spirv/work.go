package spirv

import (
	"slices"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Work is what a lane does while its workgroup runs once.
type Work struct {
	Instructions float64 // on words, without dot products
	Dots         float64 // dot products of four bytes in a word
	Looped       float64 // of Instructions and Dots, the ones in the run-time loop
	Exchanged    float64 // of Instructions, the ones by which lanes combine what they have
	Lines        float64 // of memory that a subgroup's loads and stores touch, divided by its lanes
	Matrices     float64 // products and sums by cooperative matrices, of all lanes together
	Iterations   int     // of the run-time loop, or of the loop in it that loads
	Loaded       int     // bytes that one iteration loads from what the workgroup alone reads
	Ahead        bool    // they are loaded an iteration before
	Carried      int     // words of a lane that it carries
	Lanes        int     // of the workgroup
	Shared       int     // bytes
	Parts        int     // workgroups that share each sum, at least 1
	Waits        int     // for memory, besides those for what iterations load: one after the other
	Turns        int     // iterations of all run-time loops that load from memory, one loop after the other
	Last         float64 // instructions that only the last one of these workgroups has
}

// WorkOf counts the work of a function that was selected for a target. A run-time loop runs count times, by the number of its parameter, and
// subgroups have some lanes.
func WorkOf(s *lower.Selected, count func(param int) int, subgroup int) Work {
	return workOf(s, s.Func.Body, count, subgroup)
}

// Phases counts the work before the first node of a function that reads what moves from workgroup to workgroup of a row, and the work from there on.
func Phases(s *lower.Selected, count func(param int) int, subgroup int) (before, rest Work) {
	at := slices.IndexFunc(s.Func.Body, func(n vir.Node) bool { return readsOwn(s.Func, n) })
	if at < 0 {
		at = 0
	}
	return workOf(s, s.Func.Body[:at], count, subgroup), workOf(s, s.Func.Body[at:], count, subgroup)
}

// readsOwn says that a node loads what the workgroup alone reads.
func readsOwn(f *vir.Func, n vir.Node) (own bool) {
	vir.Walk([]vir.Node{n}, func(in *vir.Instr, _ []*vir.Loop) { own = own || loadsOwn(f, in) })
	return own
}

// loadsOwn says that an instruction loads from a buffer that moves with the first loop over workgroups.
func loadsOwn(f *vir.Func, in *vir.Instr) bool {
	return loads(in) && len(f.Grid) > 0 && slices.ContainsFunc(f.Grid[0].Moves, func(m vir.Move) bool { return m.Param == in.Mem.Buf })
}

func loads(in *vir.Instr) bool { return in.HasMem() && !in.Op.Stores() && in.Dst != vir.NoReg }

func workOf(s *lower.Selected, body []vir.Node, count func(param int) int, subgroup int) Work {
	c := &counter{s: s, counts: count, subgroup: subgroup, lanes: s.Func.Lanes()}
	c.Work = Work{Iterations: 1, Lanes: vir.Product(c.lanes), Parts: 1}
	for _, p := range s.Func.Params {
		c.Shared += p.Shared
	}
	c.body(body, where{times: 1})
	return c.Work
}

// counter counts Work.
type counter struct {
	Work
	s               *lower.Selected
	counts          func(param int) int
	count, subgroup int // count is that of the loop that workgroups deal out
	lanes           []int
	inTurn          *vir.Loop // of lanes, whose floats are kept until the last workgroup adds them
}

// where is a place in the code: how often it runs, loops of lanes around it, and whether it is in the run-time loop.
type where struct {
	times  float64
	lanes  []*vir.Loop
	inside bool
	ahead  bool
}

func (c *counter) body(body []vir.Node, at where) {
	for _, n := range body {
		switch n := n.(type) {
		case *vir.Instr:
			c.instr(n, at)
		case *vir.Loop:
			c.loop(n, at)
		}
	}
}

func (c *counter) loop(l *vir.Loop, at where) {
	in := at
	switch {
	case l.Lane:
		in.lanes = append(slices.Clip(at.lanes), l)
		c.body(l.Body, in)
		if l == c.inTurn {
			c.keep(l, at.times)
		} else {
			c.across(l, at)
		}
		return
	case l.Part:
		c.Parts = l.Count.Const
		dealt, lanes := c.s.Func.Ordered(l)
		if len(lanes) > 0 {
			c.inTurn = lanes[0]
		}
		c.body(l.Body, at)
		if dealt == nil {
			c.parts(l)
		} else {
			c.turns(l, lanes, at)
		}
		return
	case l.Count.Param >= 0:
		count := c.counts(l.Count.Param)
		n := max(0, count-l.Count.Less)
		if l.Dealt { // the workgroup with most of them
			c.count, n = count, ceil(n, c.Parts)
		}
		if !at.inside && c.fromMemory(l) {
			c.Turns += n
		}
		in.times, in.inside, in.ahead = at.times*float64(n), true, l.Ahead || l.Count.Less > 0
		c.Iterations = max(c.Iterations, n)
		c.carry(l)
		before := c.Instructions + c.Dots
		defer func() { c.Looped += c.Instructions + c.Dots - before }()
	default:
		in.times = at.times * float64(l.Count.Const)
		in.ahead = at.ahead || l.Ahead
	}
	c.body(l.Body, in)
}

// fromMemory says that a loop loads from memory, not only from what lanes share.
func (c *counter) fromMemory(l *vir.Loop) (found bool) {
	vir.Walk(l.Body, func(in *vir.Instr, _ []*vir.Loop) {
		found = found || loads(in) && c.s.Func.Params[in.Mem.Buf].Shared == 0
	})
	return found
}

// carry counts what a loop carries, of matrices the part of a lane.
func (c *counter) carry(l *vir.Loop) {
	for _, r := range l.Carried {
		t := c.s.Func.Regs[r]
		if t.Tile() {
			c.Carried += t.Bits() / 32 / c.subgroup
		} else {
			c.Carried += size(t)
		}
	}
}

func (c *counter) instr(in *vir.Instr, at where) {
	const tenths = 10
	f := c.s.Func
	switch {
	case in.Op == vir.OpMatMul:
		c.Matrices += at.times * float64(f.Regs[in.Args[1]].Lanes*f.Regs[in.Args[2]].Columns()*c.Lanes/c.subgroup)
	case in.Op == vir.OpDot4:
		c.Dots += at.times * float64(size(f.Regs[in.Dst]))
	case in.HasMem():
		c.Instructions += at.times
	default:
		c.Instructions += at.times * float64(c.s.Rows[in].Cost) / tenths
	}
	if !in.HasMem() {
		return
	}
	c.Lines += at.times * c.lines(in, at.lanes) / float64(c.subgroup)
	if at.inside && loadsOwn(f, in) {
		c.Loaded += f.Regs[in.Dst].Bits() / 8
		c.Iterations = max(c.Iterations, int(at.times))
		c.Ahead = c.Ahead || at.ahead
	}
}

// across counts how the lanes of a loop combine what they carry, as printer.across writes it.
func (c *counter) across(l *vir.Loop, at where) {
	var words, floats int
	for _, r := range l.Carried {
		if n := size(c.s.Func.Regs[r]); c.s.Func.Regs[r].Elem == format.F32 {
			floats += n
		} else {
			words += n
		}
	}
	joined := c.s.Func.Joined(l)
	if len(at.lanes) > 0 && slices.Contains(c.s.Func.Joined(at.lanes[len(at.lanes)-1]), l) { // which exchanges for it
		return
	}
	n, inner, before := lanesOf(l, joined), vir.Product(c.lanes[len(at.lanes)+1+len(joined):]), c.Instructions
	defer func() { c.Exchanged += c.Instructions - before }()
	if n&(n-1) != 0 {
		floats, words = floats+words, 0
	}
	for block := n * inner; floats > 0; floats -= block {
		c.Instructions += at.times * float64(2*n+4*min(floats, block)+6)
	}
	for step := inner; words > 0 && step < n*inner; step *= 2 {
		each := 2 // a shuffle and a sum
		if step >= c.subgroup {
			each = 4
		}
		c.Instructions += at.times * float64(each*words)
	}
}

// parts counts how workgroups add up what a loop of parts carries, as printer.ofAll writes it: they add, count, and one of them loads and clears the sums.
func (c *counter) parts(l *vir.Loop) {
	const accesses, barriers, address = 3, 3, 4
	words := 0
	for _, r := range l.Carried {
		words += size(c.s.Func.Regs[r])
	}
	c.Instructions += float64(words*(accesses+address) + barriers*10)
	c.Lines += float64(accesses*(words+1)) / float64(c.subgroup)
	c.Waits += accesses
}

// keep counts how a lane keeps its words of a number of iterations, as inTurn.keep writes it.
func (c *counter) keep(l *vir.Loop, times float64) {
	const access, address = 1, 4
	words := 0
	for _, r := range l.Carried {
		words += size(c.s.Func.Regs[r])
	}
	c.Instructions += times * float64(words*(access+address))
	c.Lines += times * float64(words*4) / lineBytes
}

// turns counts how the last workgroup reads what all lanes have kept, adds it in the order of iterations and lanes, and leaves zeros, as printer.inTurns writes it. It
// touches all lines that the workgroups touch that share the sums.
func (c *counter) turns(l *vir.Loop, lanes []*vir.Loop, at where) {
	const accesses, barriers = 2, 3
	last := &counter{s: c.s, count: c.count, subgroup: c.subgroup, lanes: c.lanes}
	for range accesses {
		last.keep(l, float64(c.count))
	}
	if len(lanes) > 0 {
		at.times = float64(c.count)
		last.across(lanes[0], at)
	} else {
		c.keep(l, float64(ceil(c.count, c.Parts)))
		last.Instructions += float64(c.count * len(l.Carried))
	}
	c.Last += last.Instructions
	c.Lines += last.Lines / float64(c.Parts)
	c.Instructions += barriers * 10
	c.Waits += 2 + ceil(c.count, upcomingTurns)
}

// lineBytes is what a subgroup reads of memory at once.
const lineBytes = 128

// lines is how many lines the first subgroup touches by an instruction.
func (c *counter) lines(in *vir.Instr, lanes []*vir.Loop) float64 {
	f, bytes := c.s.Func, 4
	switch {
	case in.Op == vir.OpLoadSplat:
	case in.Dst != vir.NoReg:
		bytes = f.Regs[in.Dst].Bits() / 8
	case len(in.Args) > 0:
		bytes = f.ArgType(in, 0).Bits() / 8
	}
	shared := f.Params[in.Mem.Buf].Shared > 0
	switch {
	case in.Mem.Apart != (vir.Apart{}) && shared: // of a tile, which all lanes touch together
		return float64(ceil(bytes, lineBytes))
	case in.Mem.Apart != (vir.Apart{}):
		return float64(c.apart(in))
	case shared: // hidden behind other instructions
		return 0
	}
	touched := map[int]bool{}
	for lane := range min(c.subgroup, c.Lanes) {
		address, rest := 0, lane/vir.Product(c.lanes[len(lanes):])
		for _, l := range slices.Backward(lanes) {
			address += rest % l.Count.Const * moved(in.Mem.Stride, l.ID)
			rest /= l.Count.Const
		}
		for at := address / lineBytes; at <= (address+bytes-1)/lineBytes; at++ {
			touched[at] = true
		}
	}
	return float64(len(touched))
}

// apart is how many rows or columns of a tile an instruction touches, which lie apart in memory.
func (c *counter) apart(in *vir.Instr) int {
	r := in.Dst
	if in.Op.Stores() {
		r = in.Args[0]
	}
	t := c.s.Func.Regs[r]
	if in.Op == vir.OpLoadRows || in.Op == vir.OpStoreRows {
		return t.Rows
	}
	return t.Columns()
}

func ceil(a, b int) int { return (a + b - 1) / b }

// far is the distance that a number of bytes, which is a parameter, stands for.
const far = 1 << 16

// moved is how far an address moves with a loop.
func moved(strides []vir.Stride, loop int) (bytes int) {
	for _, s := range strides {
		if s.Loop == loop {
			bytes += s.Bytes + s.Times*far
		}
	}
	return bytes
}
