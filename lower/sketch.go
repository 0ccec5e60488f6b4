package lower

import (
	"context"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// Sketch is nearly what AllocateOnce makes of s, in a part of the time: a kernel for estimates. Its vector registers are
// still virtual, and it has the general registers and the scalar instructions of the kernel. Where registers run short it
// tries fewer plans, so that it may load a few more constants at their uses. The error wraps a *Pressure or a *nest.Refused.
func Sketch(ctx context.Context, s *Selected) (*Kernel, error) {
	c := &fitter{ctx: ctx, t: s.table, f: s.Func}
	k, err := c.sketch(plan{})
	if !isPressure(err) || carriedAtOnce(c.f) > c.t.m.NumVec {
		return k, err
	}
	n := numConstants(c.f)
	order, all := plan{sink: sinkAll, foldAll: true, place: n}, plan{sink: sinkAll, reload: true, place: n}
	if c.t.m.FewVectors() {
		order = plan{sink: sinkLeaves, place: n}
	}
	for _, p := range []plan{order, all} {
		k, fail := c.sketch(p)
		if !isPressure(fail) {
			return k, fail
		}
		err = fail
	}
	return nil, err
}

// sketch is the kernel of a plan, without numbers of vector registers.
func (c *fitter) sketch(p plan) (*Kernel, error) {
	f := c.f
	for _, pass := range c.t.back(p) {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		g, err := pass.run(f)
		if err != nil {
			return nil, err
		}
		f = g
	}
	l := lifetimes(f)
	if need, at := l.pressure(); need > c.t.m.NumVec {
		return nil, &Pressure{"vector", need, c.t.m.NumVec, describe(f, l.steps[at])}
	}
	need, _ := l.pressure()
	k := &Kernel{Func: f, Machine: c.t.m, Vectors: need, loads: c.t}
	return k, address(c.t.m, k, l.steps, func(at int) *MOp {
		in := l.steps[at].in
		if in.Op == vir.OpBitcast && l.root[in.Dst] == l.root[in.Args[0]] {
			return &MOp{Kind: MInstr, In: in, Dst: -1}
		}
		return &MOp{Kind: MInstr, In: in, Row: c.t.mustFind(f, in), Dst: -1}
	})
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

func SketchExact(ctx context.Context, s *Selected) (*Kernel, error) {
	c := &fitter{ctx: ctx, t: s.table, f: s.Func}
	p, _, err := c.fit()
	if err != nil {
		return nil, err
	}
	return c.sketch(p)
}
