package lower

import (
	"fmt"

	"github.com/tmacc/tmacc/ir/vir"
)

// Addresses become a general register and a constant distance. Every buffer has a
// pointer; inside a loop, every stride of it has a pointer that moves by the
// stride at the end of an iteration:
//
//	load x+64 l0*128   ->   x: GP0        loop l0: GP0 += 128        load 64(GP0)
//
// The moving pointer takes the register of the pointer outside if nothing in the
// loop needs that one and its later users know how far it went (the trip count is
// a constant, which their distances then account for) or there are none.
// Otherwise it is a copy. A loop over a list has pointers of its own, which every
// iteration computes from those outside. Where a multiple of a parameter belongs to an
// address, it is added to the pointer for this one access, or if that is in a loop, to a pointer of
// its own before all loops. A stride with a multiple of a parameter is a register that is computed before the loop. The
// pointer is then a copy.
//
// That is a pointer for each buffer that is read at several such places. Where general registers do not
// suffice, and addresses may be sums of two, the parameter is a register for all of them:
//
//	load x+64 l0*128 step*1 ->   x: GP0, step: GP1     loop l0: GP0 += 128        load 64(GP0)(GP1)

// pointer is one value of an address of a buffer: that at the start of an
// iteration of loop, apart from the offset.
type pointer struct {
	origin
	parent *pointer     // the same buffer outside loop; nil for a parameter
	loop   *vir.Loop    // nil for a parameter
	bytes  int          // per iteration of loop ...
	more   vir.Multiple // ... and so much more, held by register step
	step   int
	moving []*pointer
	fixed  map[*vir.Loop]bool // loops that use it as it is
	last   int                // of a parameter: the last step that needs it
	gp     int
	drift  int // how far gp is ahead of the pointer at the step at hand
	start  int // drift at the begin of an iteration of loop
}

// pointers finds the pointer of every access of a function.
type pointers struct {
	params map[origin]*pointer
	at     []*pointer // by step, of instructions with an address
	plus   []*pointer // by step, of a parameter that is added to it
	moving map[*vir.Loop][]*pointer
}

// origin is where addresses begin: at a buffer, or multiples of parameters behind it.
type origin struct {
	buf  int
	plus [2]vir.Multiple
}

// findPointers finds them. With sums, parameters have registers of their own that addresses in loops add once.
func findPointers(steps []step, sums bool) *pointers {
	p := &pointers{params: map[origin]*pointer{}, at: make([]*pointer, len(steps)), plus: make([]*pointer, len(steps)), moving: map[*vir.Loop][]*pointer{}}
	var loops []step
	for at, s := range steps {
		switch {
		case s.end:
			loops = loops[:len(loops)-1]
		case s.loop != nil:
			loops = append(loops, s)
		case s.in.HasMem():
			m := s.in.Mem
			if plus := m.Plus[0]; sums && len(loops) > 0 && m.Plus == [2]vir.Multiple{{Times: 1, By: plus.By}} {
				m.Plus = [2]vir.Multiple{}
				p.plus[at] = p.find(vir.Mem{Buf: plus.By}, at, loops)
			}
			p.at[at] = p.find(m, at, loops)
		}
	}
	return p
}

// find follows an address through the loops around it.
func (p *pointers) find(m vir.Mem, at int, loops []step) *pointer {
	o := origin{buf: m.Buf}
	if len(loops) > 0 {
		o.plus = m.Plus
	}
	x := p.params[o]
	if x == nil {
		x = &pointer{origin: o, fixed: map[*vir.Loop]bool{}}
		p.params[o] = x
	}
	x.last = lastOf(at, loops)
	for _, l := range loops {
		if s := strideOf(m, l.loop.ID); s.Bytes == 0 && s.Times == 0 {
			x.fixed[l.loop] = true
		} else {
			x = p.move(x, l.loop, s)
		}
	}
	return x
}

// lastOf is the step until which a parameter used at step at must stay: the end of
// the outermost loop around.
func lastOf(at int, loops []step) int {
	if len(loops) > 0 {
		return loops[0].last
	}
	return at
}

func strideOf(m vir.Mem, loop int) vir.Stride {
	for _, s := range m.Stride {
		if s.Loop == loop {
			return s
		}
	}
	return vir.Stride{}
}

// move is the pointer that x becomes in loop l with a stride.
func (p *pointers) move(x *pointer, l *vir.Loop, s vir.Stride) *pointer {
	for _, c := range x.moving {
		if c.loop == l && c.bytes == s.Bytes && c.more == s.Multiple {
			return c
		}
	}
	c := &pointer{origin: x.origin, parent: x, loop: l, bytes: s.Bytes, more: s.Multiple, fixed: map[*vir.Loop]bool{}}
	x.moving = append(x.moving, c)
	p.moving[l] = append(p.moving[l], c)
	return c
}

// addresser makes machine operations of the steps of a function.
type addresser struct {
	k     *Kernel
	steps []step
	ptr   *pointers
	live  []*pointer // those that have a register, in the order they got it
	used  []bool     // general registers
	holds []holding  // what each one holds, or held last
	peak  int
	where int       // the step that needs most
	most  []holding // what registers hold there
	loops []*addressLoop
}

// holding is what a general register holds.
type holding struct {
	kind        purpose
	param, loop int // that it is about
}

// purpose is what a general register is for.
type purpose byte

const (
	forCount  purpose = iota // of a loop
	forParam                 // a buffer's address, or a number
	forSum                   // the address of a buffer and multiples of numbers
	forMoving                // the address of a buffer at an iteration of a loop
	forStride                // of a buffer in a loop
	forNumber                // for a sum
	forPlace                 // in the list of a loop
	forEntry                 // of the list of a loop
)

// in says what it is, by the names of a function.
func (h holding) in(f *vir.Func) string {
	name, loop := "", fmt.Sprintf("loop l%d", h.loop)
	if h.kind != forCount {
		name = f.Params[h.param].Name
	}
	switch h.kind {
	case forCount:
		return "the count of " + loop
	case forSum:
		return "the address of " + name + " and what is added to it"
	case forMoving:
		return "the address of " + name + " that " + loop + " moves"
	case forStride:
		return "the stride of " + name + " in " + loop
	case forNumber:
		return name + ", to be added to an address"
	case forPlace:
		return "the place in " + name + " of " + loop
	case forEntry:
		return "the entry of " + name + " for " + loop
	}
	if f.Params[h.param].Int {
		return name + ", which addresses add"
	}
	return "the address of " + name
}

type addressLoop struct {
	gp      int
	own     []int // registers of its own pointers and its list
	drifted []int // of live pointers, at its begin
	listed  *GPList
}

// address assembles the machine operations of k. `instr` makes the operation of a vector instruction, without its
// address. It returns nil for an instruction that costs nothing. A *Pressure does not say where: at a step, where registers hold `most`.
func address(m Machine, k *Kernel, steps []step, instr func(at int) *MOp) (p *Pressure, at int, most []holding) {
	p, at, most = addressBy(m, k, steps, instr, false)
	if p != nil && m.Indexed {
		k.Ops = nil
		if by, where, all := addressBy(m, k, steps, instr, true); by == nil || by.Need < p.Need {
			p, at, most = by, where, all
		}
	}
	return p, at, most
}

// addressBy is address, where addresses are sums of two registers or not.
func addressBy(m Machine, k *Kernel, steps []step, instr func(at int) *MOp, sums bool) (p *Pressure, at int, most []holding) {
	a := &addresser{k: k, steps: steps, ptr: findPointers(steps, sums)}
	k.Ops = make([]MOp, 0, len(steps)+16)
	for at, s := range steps {
		switch {
		case s.end:
			a.end(at)
		case s.loop != nil:
			a.params(at, s.last)
			a.begin(at)
		default:
			a.params(at, at)
			if op := instr(at); op != nil {
				a.access(op, at)
				k.Ops = append(k.Ops, *op)
			}
			a.drop(at)
		}
	}
	k.Scalars = a.peak
	if a.peak > m.NumGP {
		return &Pressure{Kind: "general", Need: a.peak, Have: m.NumGP}, a.where, a.most
	}
	return nil, 0, nil
}

// take gives out the lowest free register, for what it holds from now on. Too many are an error only at the end,
// which then knows how many are needed.
func (a *addresser) take(at int, what holding) int {
	r := 0
	for r < len(a.used) && a.used[r] {
		r++
	}
	if r == len(a.used) {
		a.used, a.holds = append(a.used, false), append(a.holds, what)
	}
	a.used[r], a.holds[r] = true, what
	n := 0
	for _, u := range a.used {
		if u {
			n++
		}
	}
	if n > a.peak {
		a.peak, a.where, a.most = n, at, a.most[:0]
		for i, u := range a.used {
			if u {
				a.most = append(a.most, a.holds[i])
			}
		}
	}
	return r
}

// params loads the pointers to buffers whose first use is in steps from to last,
// one node of the function's body, unless a loop around has done so.
func (a *addresser) params(from, last int) {
	if len(a.loops) > 0 {
		return
	}
	for at := from; at <= last; at++ {
		for _, x := range []*pointer{a.ptr.at[at].outermost(), a.ptr.plus[at]} {
			if x == nil || a.ptr.params[x.origin] == nil {
				continue
			}
			delete(a.ptr.params, x.origin)
			x.gp = a.take(from, holding{kind: forParam, param: x.buf})
			a.live = append(a.live, x)
			a.k.Ops = append(a.k.Ops, MOp{Kind: MLoadParam, GP: x.gp, Param: x.buf})
			x.gp = a.plus(from, x.gp, true, x.plus, x.buf)
		}
	}
}

// plus adds multiples to register gp, in another one that it takes if there are any: it frees those that it does
// not need any more, gp only if that is its own. It is of the address of a buffer.
func (a *addresser) plus(at, gp int, own bool, all [2]vir.Multiple, buf int) int {
	for _, m := range all {
		if m.Times == 0 {
			continue
		}
		sum := a.take(at, holding{kind: forSum, param: buf})
		a.multiple(at, GPScale{sum, gp, m.Times}, m.By)
		if own {
			a.used[gp] = false
		}
		gp, own = sum, true
	}
	return gp
}

// outermost is what x is outside all loops.
func (x *pointer) outermost() *pointer {
	for x != nil && x.parent != nil {
		x = x.parent
	}
	return x
}

// access gives op, that of step at, its address. A multiple of a parameter is added just before.
func (a *addresser) access(op *MOp, at int) {
	op.Base = -1
	x, m := a.ptr.at[at], op.In.Mem
	if x == nil {
		return
	}
	op.Base, op.Disp = x.gp, m.Off-x.drift
	if plus := a.ptr.plus[at]; plus != nil {
		op.Plus = 1 + plus.gp
	} else if m.Plus != x.plus {
		op.Base = a.plus(at, x.gp, false, m.Plus, x.buf)
		a.used[op.Base] = false
	}
}

// multiple does s by an integer parameter.
func (a *addresser) multiple(at int, s GPScale, param int) {
	number := a.take(at, holding{kind: forNumber, param: param})
	a.k.Ops = append(a.k.Ops, MOp{Kind: MLoadParam, GP: number, Param: param}, MOp{Kind: MScale, GP: number, Scale: s})
	a.used[number] = false
}

// drop frees the pointers to parameters that no later node uses.
func (a *addresser) drop(at int) {
	if len(a.loops) > 0 {
		return
	}
	kept := a.live[:0]
	for _, x := range a.live {
		if x.last > at {
			kept = append(kept, x)
		} else {
			a.used[x.gp] = false
		}
	}
	a.live = kept
}

func (a *addresser) begin(at int) {
	l := a.steps[at].loop
	o := &addressLoop{gp: a.take(at, holding{kind: forCount, loop: l.ID})}
	op := MOp{Kind: MLoopBegin, Loop: l.ID, GP: o.gp, Count: l.Count}
	for _, x := range a.live {
		o.drifted = append(o.drifted, x.drift)
	}
	a.loops = append(a.loops, o)
	if l.List > 0 {
		op.List = a.list(o, at)
		a.k.Ops = append(a.k.Ops, op)
		return
	}
	taken := map[*pointer]bool{}
	for _, x := range a.ptr.moving[l] {
		x.gp, x.drift, x.start = x.parent.gp, x.parent.drift, x.parent.drift
		if !taken[x.parent] && a.inPlace(x, at) {
			taken[x.parent] = true
		} else {
			x.gp = o.take(a, at, holding{forMoving, x.buf, l.ID})
			op.Copy = append(op.Copy, GPCopy{Dst: x.gp, Src: x.parent.gp})
		}
		if x.more.Times != 0 {
			x.step = o.take(a, at, holding{forStride, x.buf, l.ID})
			a.multiple(at, GPScale{Dst: x.step, Src: -1, Bytes: x.more.Times}, x.more.By)
		}
		a.live = append(a.live, x)
	}
	a.k.Ops = append(a.k.Ops, op)
}

// take gives out a register until the loop ends.
func (o *addressLoop) take(a *addresser, at int, what holding) int {
	r := a.take(at, what)
	o.own = append(o.own, r)
	return r
}

// list gives the loop over a list that begins at step at its registers.
func (a *addresser) list(o *addressLoop, at int) *GPList {
	l := a.steps[at].loop
	g := &GPList{Param: l.List - 1, GP: o.take(a, at, holding{forPlace, l.List - 1, l.ID}), Number: o.take(a, at, holding{forEntry, l.List - 1, l.ID})}
	for _, x := range a.ptr.moving[l] {
		x.gp, x.drift = o.take(a, at, holding{forMoving, x.buf, l.ID}), x.parent.drift
		g.At = append(g.At, GPScale{Dst: x.gp, Src: x.parent.gp, Bytes: x.bytes})
		a.live = append(a.live, x)
	}
	o.listed = g
	return g
}

// mostDrift is how far loops that follow each other may move a register from where their accesses are counted from: what brings it back, or
// an access from there, has to fit 32 bits.
const mostDrift = 1<<30 - 1

// inPlace says whether x, which moves in the loop that begins at step at, may do
// so in the register of its parent.
func (a *addresser) inPlace(x *pointer, at int) bool {
	if x.parent.fixed[x.loop] {
		return false
	}
	if drift := x.parent.drift + x.bytes*x.loop.Count.Const; drift > mostDrift || drift < -mostDrift {
		return false
	}
	known := x.loop.Count.Param < 0 && x.more.Times == 0 // how far it goes
	again := x.parent.loop != nil || len(a.loops) > 1
	return known || !again && x.parent.last <= a.steps[at].last
}

// end moves the loop's pointers and brings those outside back to where they were
// when the iteration began, if loops inside moved their registers.
func (a *addresser) end(at int) {
	o := a.loops[len(a.loops)-1]
	a.loops = a.loops[:len(a.loops)-1]
	l := a.steps[at].loop
	op := MOp{Kind: MLoopEnd, Loop: l.ID, GP: o.gp}
	own := a.live[len(o.drifted):]
	inPlace := map[*pointer]bool{}
	if o.listed != nil {
		op.Adds, own = addTo(op.Adds, o.listed.GP, numberBytes), nil
	}
	for _, x := range own {
		if x.gp == x.parent.gp {
			inPlace[x.parent] = true
		}
		op.Adds = addTo(op.Adds, x.gp, x.bytes+x.start-x.drift)
		if x.more.Times != 0 {
			op.Adds = append(op.Adds, GPAdd{GP: x.gp, By: x.step})
		}
	}
	for i, x := range a.live[:len(o.drifted)] {
		if !inPlace[x] {
			op.Adds = addTo(op.Adds, x.gp, o.drifted[i]-x.drift)
			x.drift = o.drifted[i]
		}
	}
	for _, x := range own {
		if x.gp == x.parent.gp {
			x.parent.drift += x.bytes * l.Count.Const
		}
	}
	a.live = a.live[:len(o.drifted)]
	for _, gp := range append(o.own, o.gp) {
		a.used[gp] = false
	}
	a.k.Ops = append(a.k.Ops, op)
	a.drop(at)
}

// numberBytes is the size of a number in a list.
const numberBytes = 4

func addTo(adds []GPAdd, gp, bytes int) []GPAdd {
	if bytes == 0 {
		return adds
	}
	return append(adds, GPAdd{gp, bytes, -1})
}
