package main

import (
	"context"
	"math/rand/v2"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/search/live"
)

// verify runs each kernel of a target alone and compares it with the definition
// of the product, bit for bit.
func verify(ctx context.Context, p ir.Problem, t gen.Target, code *live.Code) error {
	for i, k := range t.Kernels {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		product, err := code.Product(i)
		if err != nil {
			return err
		}
		if err := runtime.SelfTest(product, rand.New(rand.NewPCG(1, uint64(i)))); err != nil {
			return failed("kernel %s is wrong: %v; nothing was written; please report it with the output of tmacc show -format %s -cols %d -target %s",
				k.Code.Func.Name, err, p.Weight, k.Schedule.Cols, t.Target.Machine().Name)
		}
	}
	return nil
}

// exactness is the column "exact" of the table.
type exactness string

const (
	checked exactness = "yes"          // proven, and compared with the definition
	notHere exactness = "not run here" // proven
	notRun  exactness = "not checked"  // proven
)
