package lower

import (
	"context"
	"errors"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// Sketch is nearly what AllocateOnce makes of s, in a part of the time: a kernel for estimates. Its vector registers are
// still virtual, and names of other registers are operations without a row. It has the general registers and the scalar
// instructions of the kernel. Where registers run short it tries fewer plans. The error wraps a *Pressure or a *nest.Refused.
func Sketch(ctx context.Context, s *Selected) (*Kernel, error) {
	x := &sketcher{fitter: fitter{ctx: ctx, t: s.table, f: s.Func}}
	k, err := x.best()
	if need := (*Pressure)(nil); errors.As(err, &need) {
		g, _ := number(x.failed)
		need.At = describe(g, steps(g.Body)[x.at])
	}
	return k, err
}

// sketcher makes sketches by several plans.
type sketcher struct {
	fitter
	failed *vir.Func // by the last plan whose registers did not suffice
	at     int       // the step where they did not
}

// best is the sketch by the plan that gives up least. A *Pressure does not say where.
func (c *sketcher) best() (*Kernel, error) {
	k, err := c.sketch(plan{})
	if !isPressure(err) || carriedAtOnce(c.f) > c.t.m.NumVec {
		return k, err
	}
	gentle := plan{sink: sinkAll, foldAll: true}
	if c.t.m.FewVectors() {
		gentle = plan{sink: sinkLeaves}
	}
	for _, p := range []plan{gentle, {sink: sinkAll, reload: true}} {
		all := p
		all.place = numConstants(c.f)
		k, fail := c.sketch(all)
		if fail == nil && all.place > 0 {
			return c.fewest(p, k, all.place), nil
		}
		if !isPressure(fail) {
			return k, fail
		}
		err = fail
	}
	return nil, err
}

// fewest is the sketch by plan p that loads about as few of n constants at their uses as suffice; enough loads all.
func (c *sketcher) fewest(p plan, enough *Kernel, n int) *Kernel {
	for range 3 { // the second guess is nearly always right
		k, err := c.sketch(p)
		if err == nil {
			return k
		}
		need := (*Pressure)(nil)
		if !errors.As(err, &need) || p.place+need.Need-need.Have >= n {
			break
		}
		p.place += need.Need - need.Have
	}
	return enough
}

// sketch is the kernel of a plan. Its registers and constants are not numbered again.
func (c *sketcher) sketch(p plan) (*Kernel, error) {
	f := c.f
	for _, pass := range c.t.back(p) {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		if pass.name == "number" {
			break
		}
		g, err := pass.run(f)
		if err != nil {
			return nil, err
		}
		f = g
	}
	l := lifetimes(f)
	need, at := l.pressure()
	if need > c.t.m.NumVec {
		c.failed, c.at = f, at
		return nil, &Pressure{Kind: "vector", Need: need, Have: c.t.m.NumVec}
	}
	k := &Kernel{Func: f, Machine: c.t.m, Vectors: need, loads: c.t}
	fail, at, _ := address(c.t.m, k, l.steps, func(at int) *MOp {
		in := l.steps[at].in
		if in.Op == vir.OpBitcast && l.root[in.Dst] == l.root[in.Args[0]] {
			return &MOp{Kind: MInstr, In: in, Dst: -1}
		}
		return &MOp{Kind: MInstr, In: in, Row: c.t.mustFind(f, in), Dst: -1}
	})
	if fail != nil {
		c.failed, c.at = f, at
		return nil, fail
	}
	return k, nil
}

// LoadRow is the instruction that would load the operand that in, an instruction of a sketch, reads from memory.
func (k *Kernel) LoadRow(in *vir.Instr) *Row {
	op, t := vir.OpLoad, in.FoldType
	if in.FoldUnit == splatUnit {
		op, t = vir.OpLoadSplat, vir.Type{Elem: format.I32, Lanes: t.Bytes() / splatUnit}
	}
	rows := k.loads.rows[keyOf(op, t)]
	if len(rows) == 0 {
		return nil
	}
	return rows[0]
}
