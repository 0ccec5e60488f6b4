package lower

import (
	"context"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// Build makes a kernel of a loop nest, for target t. The error wraps a *nest.Refused, an *Unsupported or a
// *Pressure; interrupted, it is the error of ctx, after the pass that runs.
func Build(ctx context.Context, t Target, n *nest.Nest, watch ...Watch) (*Kernel, error) {
	return build(ctx, t, n, Allocate, watch)
}

// BuildOnce is Build with AllocateOnce instead of Allocate.
func BuildOnce(ctx context.Context, t Target, n *nest.Nest, watch ...Watch) (*Kernel, error) {
	return build(ctx, t, n, AllocateOnce, watch)
}

// allocation is Allocate or AllocateOnce.
type allocation func(context.Context, *Selected, ...Watch) (*Kernel, error)

func build(ctx context.Context, t Target, n *nest.Nest, allocate allocation, watch []Watch) (*Kernel, error) {
	f, err := Vectorize(n, n.Name)
	if err != nil {
		return nil, err
	}
	if err := vir.Verify(f); err != nil {
		panic("BUG: vectorize: " + err.Error())
	}
	// A function whose sums alone do not fit the registers need not be legalized.
	if need, have := wideAtOnce(f, t.Machine().VecBits), t.Machine().NumVec; need > have {
		return nil, &Pressure{Kind: "vector", Need: need, Have: have, At: "the sums of " + n.Name}
	}
	s, err := newTable(t).selected(ctx, f, watch)
	if err != nil {
		return nil, err
	}
	return allocate(ctx, s, watch...)
}

// Compile makes a kernel of f for t: Select, then Allocate.
func Compile(t Target, f *vir.Func, watch ...Watch) (*Kernel, error) {
	s, err := Select(context.Background(), t, f, watch...)
	if err != nil {
		return nil, err
	}
	return Allocate(context.Background(), s, watch...)
}
