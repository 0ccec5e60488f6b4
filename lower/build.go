package lower

import (
	"context"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// Build takes a loop nest all the way to a kernel of target t. Interrupted, it returns
// the error of ctx after the pass that runs.
func Build(ctx context.Context, t Target, n *nest.Nest, watch ...Watch) (*Kernel, error) {
	return (&compiler{ctx: ctx, t: newTable(t), repeat: true}).build(n, watch)
}

// BuildOnce is Build of kernels in which nothing is computed again because registers
// run short: what fits only so takes longer to compile and computes more, and is a *Pressure here.
func BuildOnce(ctx context.Context, t Target, n *nest.Nest, watch ...Watch) (*Kernel, error) {
	return (&compiler{ctx: ctx, t: newTable(t)}).build(n, watch)
}

func (c *compiler) build(nst *nest.Nest, watch []Watch) (*Kernel, error) {
	f, err := Vectorize(nst, nst.Name)
	if err != nil {
		return nil, err
	}
	if err := vir.Verify(f); err != nil {
		panic("BUG: vectorize: " + err.Error())
	}
	// What does not fit whatever the order of instructions need not be legalized.
	if n, m := wideAtOnce(f, c.t.m.VecBits), c.t.m.NumVec; n > m {
		return nil, &Pressure{Kind: "vector", Need: n, Have: m, At: "the sums of " + nst.Name}
	}
	return c.compile(f, watch)
}
