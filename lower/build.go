package lower

import (
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
)

// Build takes a loop nest all the way to a kernel of target t called name.
func Build(t Target, n *nest.Nest, name string, watch ...Watch) (*Kernel, error) {
	f, err := Vectorize(n, name)
	if err != nil {
		return nil, err
	}
	if err := vir.Verify(f); err != nil {
		panic("BUG: vectorize: " + err.Error())
	}
	return Compile(t, f, watch...)
}
