package search

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/amd64"
)

// patience is how long choosing may go on after an interruption, by the time of a busy machine. A pass over one kernel takes some milliseconds.
const patience = 500 * time.Millisecond

// Whatever chooses schedules ends soon after an interruption, with the error of the context, and leaves no goroutine behind.
func TestInterrupted(t *testing.T) {
	w, err := format.Lookup("q3_k") // hundreds of kernels are tried
	if err != nil {
		t.Fatal(err)
	}
	p, target := ir.Problem{Weight: w}, amd64.ByName("avx512vbmi")
	two, err := format.Lookup("w2")
	if err != nil {
		t.Fatal(err)
	}
	uses, err := defaultOf(ir.Problem{Weight: two}, target)
	if err != nil {
		t.Fatal(err)
	}
	loops := uses[0].Kernel.Schedule.Nest
	choices := map[string]func(context.Context) (found int, err error){
		"Default": func(ctx context.Context) (int, error) { return counted(Default(ctx, p, target)) },
		"DotUses": func(ctx context.Context) (int, error) { return counted(DotUses(ctx, p, target)) },
		"RowFieldUses": func(ctx context.Context) (int, error) {
			return counted(RowFieldUses(ctx, ir.Problem{Weight: two}, target))
		},
		"TableUses": func(ctx context.Context) (int, error) {
			uses, err := TableUses(ctx, ir.Problem{Weight: two}, target, 1)
			return len(uses), err
		},
		"Companions": func(ctx context.Context) (int, error) {
			return counted(Companions(ctx, p, target, layoutChoice(p, target.Machine(), coding{})))
		},
		"Lower": func(ctx context.Context) (int, error) {
			_, err := Lower(ctx, target, loops, true)
			for err == nil {
				_, err = Lower(ctx, target, loops, true)
			}
			return 0, err
		},
	}
	before := runtime.NumGoroutine()
	for name, choose := range choices {
		for _, after := range []time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond, 150 * time.Millisecond} {
			ctx, stop := context.WithCancel(t.Context())
			var stopped time.Time
			if after == 0 {
				stopped = time.Now()
				stop()
			} else {
				time.AfterFunc(after, func() { stopped = time.Now(); stop() })
			}
			n, err := choose(ctx)
			done := time.Now()
			interrupted := ctx.Err() != nil // else it was ready before
			<-ctx.Done()
			if late := done.Sub(stopped); interrupted && (n != 0 || !errors.Is(err, context.Canceled) || late > patience) {
				t.Errorf("%s, interrupted after %v: found %d, %v, %v later", name, after, n, err, late)
			}
		}
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines are left, %d before", runtime.NumGoroutine(), before)
}

func counted(uses []Use, err error) (int, error) { return len(uses), err }
