package lower

import (
	"context"
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/ir/vir"
)

// A Pass makes a function of the same meaning from a function, which it leaves as
// it is.
type Pass struct {
	Name string
	Run  func(*vir.Func) (*vir.Func, error)
}

// Watch sees the function after each pass.
type Watch func(pass string, f *vir.Func)

// Compile makes a kernel of f for t. The error wraps a *Unsupported or a *Pressure,
// or is that of vir.Verify for f.
//
// If the kernel needs too many vector registers, the end of the pipeline runs
// again: where there are few, with loads where they are needed, then with constants loaded
// at their uses too; with values computed where they are needed, with broadcasts as
// operands, with constants and then with all values loaded at their uses, as few
// constants as make it fit, and at last with values computed again at their uses.
// watch sees only the run that is kept.
func Compile(t Target, f *vir.Func, watch ...Watch) (*Kernel, error) {
	if err := vir.Verify(f); err != nil {
		return nil, err
	}
	return (&compiler{ctx: context.Background(), t: newTable(t), repeat: true}).compile(f, watch)
}

func (c *compiler) compile(f *vir.Func, watch []Watch) (*Kernel, error) {
	f, err := c.run(c.t.front(), f, watch)
	if err != nil {
		return nil, err
	}
	c.t = c.t.balanced(f)
	p, k, err := c.fit(f)
	if len(watch) > 0 {
		c.run(c.t.back(p), f, watch)
	}
	if err := c.ctx.Err(); err != nil { // what there is may not be the best
		return nil, err
	}
	if err == nil {
		lowered.Add(1)
	}
	return k, err
}

// front is the part of the pipeline that does not depend on how registers are
// used.
func (t *table) front() []Pass {
	return []Pass{
		// One form of memory access for all that follows.
		{"unfold", unfold},
		// Constants first: a value of constants is one itself, and equal ones
		// become one register, by which the next passes compare.
		{"constants", func(f *vir.Func) (*vir.Func, error) { return t.constants(f, false) }},
		{"cse", cse},
		// Masks after cse: of two equal masks one is left to look at.
		{"masks", dropMasks},
		// While vectors and ranges are whole: bytes first, whose lanes are what is taken apart; then sums, of
		// which each part is one.
		{"narrow", t.narrow},
		{"bytes", t.byteShifts},
		{"dce", dce},
		{"interleave", t.interleave},
		{"pairs", t.pairs},
		{"products", t.products},
		// Before legalize, so that nothing is expanded in vain.
		{"dce", dce},
		{"legalize", t.legalize},
		// Splitting and expanding has made copies of splats, loads and shifts, and
		// masks whose bits a later instruction ignores.
		{"constants", func(f *vir.Func) (*vir.Func, error) { return t.constants(f, true) }},
		{"cse", cse},
		// After cse: of equal tables and masks one is left to look at.
		{"lookups", t.lookups},
		{"masks", dropMasks},
		{"cse", cse},
		// Of masks that are left; it masks masks.
		{"inward", inward},
		{"constants", func(f *vir.Func) (*vir.Func, error) { return t.constants(f, true) }},
		{"dce", dce},
		// After cse: equal lanes are one register.
		{"whole", t.whole},
		{"dce", dce},
		// While 0 is a value like others, not a copy that the first product overwrites; shifts
		// first, which leaves more that is added to sums of products.
		{"unshift", unshift},
		{"dce", dce},
		{"begin", begin},
		{"dce", dce},
		{"columns", t.columns},
		{"dce", dce},
		// Last: other passes know no products by words.
		{"units", t.units},
		{"cse", cse},
		{"dce", dce},
	}
}

// plan says what the end of the pipeline gives up so that registers suffice.
type plan struct {
	sink    sinking // the order of instructions: what comes where it is needed first
	foldAll bool    // broadcasts that can be operands are, each time they are used
	reload  bool    // values are loaded at each use
	repeat  int     // with reload, so many instructions are repeated for one use
	place   int     // constants that are loaded at each use
}

// back is the part of the pipeline that decides what registers hold.
func (t *table) back(p plan) []Pass {
	// Constants move to where they are needed before any pass looks at how long
	// registers live.
	passes := []Pass{{"place", func(f *vir.Func) (*vir.Func, error) { return placeConstants(f, p.place) }}}
	// Before fold, which then finds fewer stores between a load and its use, and
	// fewer uses.
	switch p.sink {
	case sinkLeaves:
		passes = append(passes, Pass{"leaves", leaves})
	case sinkAll:
		passes = append(passes, Pass{"sink", sink})
	}
	if p.reload {
		passes = append(passes, Pass{"reload", func(f *vir.Func) (*vir.Func, error) { return reload(f, p.repeat) }})
	}
	return append(passes, []Pass{
		// Fold after cse: two equal loads are one load with two uses, which stays.
		{"fold", func(f *vir.Func) (*vir.Func, error) { return t.fold(f, p.foldAll) }},
		// Copies that need no register, before tie makes some that do.
		{"coalesce", coalesce},
		// Tie last: the copies it makes look redundant to every other pass.
		{"tie", t.tie},
		{"number", number},
	}...)
}

type compiler struct {
	ctx    context.Context // of one call
	t      *table
	repeat bool // what registers do not hold may be computed again
}

// maxRegs bounds what expansions make of a kernel: what comes of more takes seconds
// to compile.
const maxRegs = vir.MaxRegs / 2

// run applies passes. What comes of them is verified, and what each makes if somebody watches.
func (c *compiler) run(passes []Pass, f *vir.Func, watch []Watch) (*vir.Func, error) {
	out := f
	for _, p := range passes {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		g, err := p.Run(out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if n := len(g.Regs); n > maxRegs {
			return nil, refuse(f.Name, "%d values after %s, at most %d: repeat less code", n, p.Name, maxRegs)
		}
		if len(watch) > 0 {
			c.verify(p.Name, g)
		}
		for _, w := range watch {
			w(p.Name, g)
		}
		out = g
	}
	if len(watch) == 0 && vir.Verify(out) != nil {
		c.run(passes, f, []Watch{func(string, *vir.Func) {}}) // again, to name the pass
		panic(fmt.Sprintf("BUG: %s: %s fails to verify only after all passes", c.t.m.Name, f.Name))
	}
	return out, nil
}

func (c *compiler) verify(pass string, f *vir.Func) {
	if err := vir.Verify(f); err != nil {
		panic(fmt.Sprintf("BUG: %s: after %s: %v\n%s", c.t.m.Name, pass, err, f))
	}
}

// fit finds the plan that gives up least, and the kernel that comes of it: where registers
// are few, rather constants than the order of instructions. It does not look for one if the
// carried registers alone are too many, nor among those that change that order if the plan
// that gives up everything does not suffice.
func (c *compiler) fit(f *vir.Func) (plan, *Kernel, error) {
	k, err := c.finish(f, plan{})
	if !isPressure(err) || carriedAtOnce(f) > c.t.m.NumVec {
		return plan{}, k, err
	}
	n := numConstants(f)
	if c.t.m.FewVectors() { // order is what a core finds work by, even if constants are then loaded at each use. Figures: docs/choices.md, fewVec
		plans := []plan{{sink: sinkLeaves}}
		if n > 0 {
			plans = append(plans, plan{sink: sinkLeaves, place: n})
		}
		for _, p := range plans {
			if k, err := c.finish(f, p); err == nil { // others may do where this does not
				return c.keepConstants(f, p, k, nil)
			}
		}
	}
	last := plan{sink: sinkAll, reload: true, place: n}
	enough, lastErr := c.finish(f, last)
	if isPressure(lastErr) {
		if c.repeat {
			return c.repeating(f, last, err)
		}
		return plan{}, nil, err
	}
	for _, p := range []plan{{sink: sinkAll}, {sink: sinkAll, foldAll: true}, {sink: sinkAll, foldAll: true, place: n}, {sink: sinkAll, reload: true}} {
		if k, err := c.finish(f, p); !isPressure(err) {
			return c.keepConstants(f, p, k, err)
		}
	}
	return c.keepConstants(f, last, enough, lastErr)
}

// mostRepeated is the most instructions that are repeated for one use.
const mostRepeated = 32

// repeating makes p, which does not suffice, repeat as few instructions as it takes; if
// mostRepeated are too few, it returns err.
func (c *compiler) repeating(f *vir.Func, p plan, err error) (plan, *Kernel, error) {
	p.repeat = mostRepeated
	k, fail := c.finish(f, p)
	if fail != nil {
		return plan{}, nil, err
	}
	for q := p; q.repeat > 1; {
		q.repeat /= 2
		less, fail := c.finish(f, q)
		if fail != nil {
			break
		}
		p, k = q, less
	}
	return c.keepConstants(f, p, k, nil)
}

// keepConstants makes p, which gave k and err, load as few constants at their uses
// as it takes.
func (c *compiler) keepConstants(f *vir.Func, p plan, k *Kernel, err error) (plan, *Kernel, error) {
	for few := 0; err == nil && p.place-few > 1; { // few do not suffice, p.place do
		q := p
		q.place = (few + p.place) / 2
		if better, err := c.finish(f, q); err == nil {
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

func (c *compiler) finish(f *vir.Func, p plan) (*Kernel, error) {
	f, err := c.run(c.t.back(p), f, nil)
	if err != nil {
		return nil, err
	}
	return c.t.kernel(f)
}

// kernel selects a row for every instruction of f, which must have one, and gives
// out registers.
func (t *table) kernel(f *vir.Func) (*Kernel, error) {
	l := lifetimes(f)
	rows := make([]*Row, len(l.steps))
	for at, s := range l.steps {
		if s.in == nil {
			continue
		}
		if rows[at] = t.find(f, s.in); rows[at] == nil {
			panic(fmt.Sprintf("BUG: %s: legal, but without a row: %s", t.m.Name, f.Format(s.in)))
		}
	}
	phys, err := allocate(t.m, f, l, rows)
	if err != nil {
		return nil, err
	}
	k := &Kernel{Func: f, Machine: t.m}
	err = address(t.m, k, l.steps, func(at int) *MOp { return machineOp(l.steps[at].in, rows[at], phys) })
	if err != nil {
		return nil, err
	}
	return k, nil
}

// machineOp is in with its registers; nil for a bitcast of a register to itself.
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
