package cost

import (
	"context"
	"math"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
)

// MostInstrs is how long the code of a kernel may be that a search without measuring looks at. Longer code leaves the caches of
// decoded instructions of most cores, 4,096 micro-operations of several kernels, and takes long to estimate. Few schedules of use
// are longer: with 128 bits a register, 14 and more columns of floats or of codebooks. With wider registers there is none.
const MostInstrs = 1600

// Select is the selected code of n for a target, of at most `most` instructions, Any: of any number. The error wraps a *lower.Unsupported
// or a *nest.Refused, or is that of ctx.
func Select(ctx context.Context, target lower.Target, n *nest.Nest, most int) (*lower.Selected, error) {
	f, err := lower.VectorizeShort(n, n.Name, most)
	if err != nil {
		return nil, err
	}
	return lower.SelectShort(ctx, target, f, most)
}

// Any is no bound of instructions.
const Any = math.MaxInt32 / 2
