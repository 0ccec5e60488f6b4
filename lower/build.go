package lower

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// Build makes a kernel called name of a loop nest, for target t. The error wraps a *nest.Refused, an *Unsupported
// or a *Pressure.
func Build(t Target, n *nest.Nest, name string, watch ...Watch) (*Kernel, error) {
	return build(t, n, name, Allocate, watch)
}

// BuildOnce is Build with AllocateOnce instead of Allocate.
func BuildOnce(t Target, n *nest.Nest, name string, watch ...Watch) (*Kernel, error) {
	return build(t, n, name, AllocateOnce, watch)
}

func build(t Target, n *nest.Nest, name string, allocate func(*Selected, ...Watch) (*Kernel, error), watch []Watch) (*Kernel, error) {
	f, err := Vectorize(n, name)
	if err != nil {
		return nil, err
	}
	if err := vir.Verify(f); err != nil {
		panic("BUG: vectorize: " + err.Error())
	}
	// A function whose sums alone do not fit the registers need not be legalized.
	if need, have := wideAtOnce(f, t.Machine().VecBits), t.Machine().NumVec; need > have {
		return nil, &Pressure{Kind: "vector", Need: need, Have: have, At: "the sums of " + name}
	}
	s, err := newTable(t).selected(f, watch)
	if err != nil {
		return nil, err
	}
	return allocate(s, watch...)
}

// Compile makes a kernel of f for t: Select, then Allocate.
func Compile(t Target, f *vir.Func, watch ...Watch) (*Kernel, error) {
	s, err := Select(t, f, watch...)
	if err != nil {
		return nil, err
	}
	return Allocate(s, watch...)
}
