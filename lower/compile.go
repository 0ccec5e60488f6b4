package lower

import (
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

// Compile makes a kernel of f for t. The error is a *Unsupported, a *Pressure, or
// that of vir.Verify for f.
//
// If the kernel needs too many vector registers, the end of the pipeline runs
// again with operands left in memory: first with broadcasts read at every use,
// then with constants loaded at their uses, as few of them as make it fit.
func Compile(t Target, f *vir.Func, watch ...Watch) (*Kernel, error) {
	if err := vir.Verify(f); err != nil {
		return nil, err
	}
	c := &compiler{t: newTable(t), watch: watch}
	f, err := c.run(c.t.front(), f)
	if err != nil {
		return nil, err
	}
	return c.fit(f)
}

// Passes lists the passes that Compile runs, in order, when registers suffice.
func Passes(t Target) []Pass {
	x := newTable(t)
	return append(x.front(), x.back(plan{})...)
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
		{"dce", dce},
	}
}

// plan says which operands stay in memory so that registers suffice.
type plan struct {
	foldAll bool // loads are folded into each of their uses
	reload  int  // constants that are loaded at each use
}

// back is the part of the pipeline that decides what registers hold.
func (t *table) back(p plan) []Pass {
	return []Pass{
		// Constants move to where they are needed before fold and tie see how long
		// registers live.
		{"place", func(f *vir.Func) (*vir.Func, error) { return t.place(f, p.reload) }},
		// Fold after cse: two equal loads are one load with two uses, which stays.
		{"fold", func(f *vir.Func) (*vir.Func, error) { return t.fold(f, p.foldAll) }},
		// Copies that need no register before tie makes some that do.
		{"coalesce", coalesce},
		// Tie last: the copies it makes look redundant to every other pass.
		{"tie", t.tie},
		{"number", number},
	}
}

type compiler struct {
	t     *table
	watch []Watch
}

func (c *compiler) run(passes []Pass, f *vir.Func) (*vir.Func, error) {
	for _, p := range passes {
		g, err := p.Run(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		if err := vir.Verify(g); err != nil {
			panic(fmt.Sprintf("BUG: %s: after %s: %v\n%s", c.t.m.Name, p.Name, err, g))
		}
		for _, w := range c.watch {
			w(p.Name, g)
		}
		f = g
	}
	return f, nil
}

// fit ends the pipeline with the plan that keeps the most in registers.
func (c *compiler) fit(f *vir.Func) (*Kernel, error) {
	n := numConstants(f)
	k, err := c.finish(f, plan{})
	if !isPressure(err) {
		return k, err
	}
	if k, err := c.finish(f, plan{foldAll: true}); !isPressure(err) {
		return k, err
	}
	if k, last := c.finish(f, plan{true, n}); last != nil {
		return k, last
	}
	few, enough := 0, n // few reloads do not suffice, enough do
	for enough-few > 1 {
		mid := (few + enough) / 2
		if _, err := c.finish(f, plan{true, mid}); err == nil {
			enough = mid
		} else {
			few = mid
		}
	}
	return c.finish(f, plan{true, enough})
}

func isPressure(err error) bool {
	var p *Pressure
	return errors.As(err, &p) && p.Kind == "vector"
}

func (c *compiler) finish(f *vir.Func, p plan) (*Kernel, error) {
	f, err := c.run(c.t.back(p), f)
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
	k := &Kernel{Func: f}
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
