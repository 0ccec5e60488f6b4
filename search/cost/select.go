package cost

import (
	"context"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
)

// MostInstrs is how long the code of a kernel may be that a search without measuring looks at. Longer code leaves the caches of
// decoded instructions of most cores, 4,096 micro-operations of several kernels, and takes long to estimate. Few schedules of use
// are longer: with 128 bits a register, 14 and more columns of floats or of codebooks. With wider registers there is none.
const MostInstrs = 1600

// Select is the selected code of k for a target, without the kernels that have more than MostInstrs. The error wraps a
// *lower.Unsupported or a *nest.Refused, or is that of ctx.
func Select(ctx context.Context, target lower.Target, k *schedule.Kernel) (*lower.Selected, error) {
	f, err := lower.Vectorize(k.Nest, k.Nest.Name)
	if err != nil {
		return nil, err
	}
	return lower.SelectShort(ctx, target, f, MostInstrs)
}
