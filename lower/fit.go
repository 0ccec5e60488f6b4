package lower

import (
	"context"
	"errors"

	"github.com/tmacc/tmacc/ir/vir"
)

// Allocate makes a kernel of a selected function: it gives registers of the machine to values and to addresses. The error
// wraps a *Pressure or a *nest.Refused.
//
// If values need too many vector registers, the passes from here on run again and give up something each time. Machines
// with few registers first move leaves to their uses, then load constants at their uses too. After that, and on
// other machines, all values move to their uses; then broadcasts become operands; then constants, and then all values are
// loaded at their uses; at last values are computed again at their uses. As few constants as possible are loaded at
// their uses. watch sees only the run that is kept.
func Allocate(ctx context.Context, s *Selected, watch ...Watch) (*Kernel, error) {
	return (&fitter{ctx: ctx, t: s.table, f: s.Func, again: true}).allocate(watch)
}

// AllocateOnce is Allocate of kernels that compute nothing again where registers run short. A kernel that fits only by
// computing values again takes longer to compile and does more work; here it is a *Pressure.
func AllocateOnce(ctx context.Context, s *Selected, watch ...Watch) (*Kernel, error) {
	return (&fitter{ctx: ctx, t: s.table, f: s.Func}).allocate(watch)
}

// fitter looks for a plan by which a function fits the registers of the machine.
type fitter struct {
	ctx   context.Context // of one call
	t     *table
	f     *vir.Func
	again bool // values that registers do not hold may be computed again
}

func (c *fitter) allocate(watch []Watch) (*Kernel, error) {
	fewer := false
	if c.f.Grid != nil || c.f.Lanes() != nil {
		return nil, refuse(c.f.Name, "%s has no workgroups and no lanes of them: bind no loop to group or lane", c.t.m.Name)
	}
	eachLoop(c.f.Body, func(l *vir.Loop) { fewer = fewer || l.Count.Less > 0 })
	if fewer {
		return nil, refuse(c.f.Name, "%s has no loops that run less often than a parameter says", c.t.m.Name)
	}
	p, k, err := c.fit()
	if len(watch) > 0 {
		c.t.run(c.ctx, c.t.back(p), c.f, watch)
	}
	if err := c.ctx.Err(); err != nil { // an interrupted fit has not tried all plans
		return nil, err
	}
	if err == nil {
		lowered.Add(1)
	}
	return k, err
}

// plan says what a kernel gives up so that registers suffice.
type plan struct {
	sink    sinking // how many instructions move to where their results are needed first
	foldAll bool    // a broadcast is read from memory at each use that can be a memory operand
	reload  bool    // values are loaded at each use
	repeat  int     // with reload: the most instructions that are computed again for one use
	place   int     // how many constants are loaded at each use
}

// back lists the passes that decide what registers hold, by a plan.
func (t *table) back(p plan) []pass {
	place := func(f *vir.Func) (*vir.Func, error) { return placeConstants(f, p.place) }
	again := func(f *vir.Func) (*vir.Func, error) { return reload(f, p.repeat) }
	fold := func(f *vir.Func) (*vir.Func, error) { return t.fold(f, p.foldAll) }
	// Constants move to where they are needed before any pass looks at how long
	// registers live.
	passes := []pass{{name: "place", run: place}}
	// Before fold, which then finds fewer stores between a load and its use, and
	// fewer uses.
	switch p.sink {
	case sinkLeaves:
		passes = append(passes, pass{name: "leaves", run: leaves})
	case sinkAll:
		passes = append(passes, pass{name: "sink", run: sink})
	}
	if p.reload {
		passes = append(passes, pass{name: "reload", run: again, leaves: unusedCode})
	}
	return tidied(append(passes, []pass{
		// Fold comes after cse: two equal loads are one load with two uses, which stays.
		{name: "fold", run: fold, leaves: unusedCode},
		// Copies that need no register go before tie makes some that do.
		{name: "coalesce", run: coalesce},
		// Tie is last: every other pass would take the copies that it makes for redundant.
		{name: "tie", run: t.tie},
		{name: "number", run: number},
	}...))
}

// fit finds the plan that gives up least, and its kernel. It gives up at once if the values that loops carry need too many
// registers. It looks for no plan that moves all values if the last one, which gives up everything, does not suffice.
func (c *fitter) fit() (plan, *Kernel, error) {
	k, err := c.finish(plan{})
	if !isPressure(err) || carriedAtOnce(c.f) > c.t.m.NumVec {
		return plan{}, k, err
	}
	n := numConstants(c.f)
	if c.t.m.FewVectors() { // A core finds work to do at once by the order of instructions, even if constants are then loaded at each use. Figures: docs/lab/choices.md, fewVec
		plans := []plan{{sink: sinkLeaves}}
		if n > 0 {
			plans = append(plans, plan{sink: sinkLeaves, place: n})
		}
		for _, p := range plans {
			if k, err := c.finish(p); err == nil { // if not, another plan may do
				return c.keepConstants(p, k, nil)
			}
		}
	}
	last := plan{sink: sinkAll, reload: true, place: n}
	enough, lastErr := c.finish(last)
	if isPressure(lastErr) {
		if c.again {
			return c.repeating(last, err)
		}
		return plan{}, nil, err
	}
	for _, p := range []plan{{sink: sinkAll}, {sink: sinkAll, foldAll: true}, {sink: sinkAll, foldAll: true, place: n}, {sink: sinkAll, reload: true}} {
		if k, err := c.finish(p); !isPressure(err) {
			return c.keepConstants(p, k, err)
		}
	}
	return c.keepConstants(last, enough, lastErr)
}

// mostRepeated is the most instructions that are computed again for one use.
const mostRepeated = 32

// repeating makes plan p, which does not suffice, compute again the fewest instructions that make it suffice. If
// mostRepeated do not suffice, it returns err.
func (c *fitter) repeating(p plan, err error) (plan, *Kernel, error) {
	p.repeat = mostRepeated
	k, fail := c.finish(p)
	if fail != nil {
		return plan{}, nil, err
	}
	for q := p; q.repeat > 1; {
		q.repeat /= 2
		less, fail := c.finish(q)
		if fail != nil {
			break
		}
		p, k = q, less
	}
	return c.keepConstants(p, k, nil)
}

// keepConstants makes plan p, which gave k and err, load the fewest constants at their uses that make it suffice.
func (c *fitter) keepConstants(p plan, k *Kernel, err error) (plan, *Kernel, error) {
	for few := 0; err == nil && p.place-few > 1; { // few do not suffice, p.place do
		q := p
		q.place = (few + p.place) / 2
		if better, err := c.finish(q); err == nil {
			p, k = q, better
		} else {
			few = q.place
		}
	}
	return p, k, err
}

func isPressure(err error) bool {
	var p *Pressure
	return errors.As(err, &p) && p.Kind == "vector"
}

// finish is the kernel of a plan.
func (c *fitter) finish(p plan) (*Kernel, error) {
	f, err := c.t.run(c.ctx, c.t.back(p), c.f, nil)
	if err != nil {
		return nil, err
	}
	return c.t.kernel(f)
}

// kernel gives out registers and addresses for f. Every instruction of f must have a row.
func (t *table) kernel(f *vir.Func) (*Kernel, error) {
	l := lifetimes(f)
	rows := make([]*Row, len(l.steps))
	for at, s := range l.steps {
		if s.in != nil {
			rows[at] = t.mustFind(f, s.in)
		}
	}
	phys, err := allocate(t.m, f, l, rows)
	if err != nil {
		return nil, err
	}
	k := &Kernel{Func: f, Machine: t.m}
	p, at, _ := address(t.m, k, l.steps, func(at int) *MOp { return machineOp(l.steps[at].in, rows[at], phys) })
	if p != nil {
		p.At = describe(f, l.steps[at])
		return nil, p
	}
	return k, nil
}

// machineOp is instruction in with physical registers, or nil if it copies a register to itself.
func machineOp(in *vir.Instr, row *Row, phys []int) *MOp {
	of := func(r vir.Reg) int {
		if r == vir.NoReg {
			return -1
		}
		return phys[r]
	}
	op := &MOp{Kind: MInstr, In: in, Row: row, Dst: of(in.Dst), Args: make([]int, len(in.Args))}
	for i, r := range in.Args {
		op.Args[i] = of(r)
	}
	if in.Op == vir.OpBitcast && op.Dst == op.Args[0] {
		return nil
	}
	return op
}
