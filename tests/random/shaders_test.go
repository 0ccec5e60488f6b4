package random

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/vulkan"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/shaders"
)

// leastShaders is the share of samples that must become shaders.
const leastShaders = 0.25

// TestRandomShaders compiles random schedules of random problems and formats for workgroups. Each is refused for a typed reason, or
// equals the definition by Eval, which finds races, and on a Vulkan device if it is not long: a software device compiles long ones for
// minutes. TMACC_SEED replays a run, TMACC_SHADERS says how many to try.
func TestRandomShaders(t *testing.T) {
	d := shaders.Device(t)
	n := drawn.Env(t, "TMACC_SHADERS", 8)
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	fmt.Fprintf(os.Stderr, "%s: TMACC_SEED=%d TMACC_SHADERS=%d\n", t.Name(), seed, n)
	lowered, reasons := 0, map[string]int{}
	for i := range n {
		rng := rand.New(rand.NewSource(int64(seed) + int64(i)))
		p := randomProblem(rng)
		if rng.Intn(4) == 0 {
			p = ownFormat(rng, i)
		}
		target := spirv.Targets()[rng.Intn(len(spirv.Targets()))]
		sp, err := space.For(p, target)
		if err != nil {
			t.Fatal(err)
		}
		x, err := sp.Sample(rng)
		if err != nil {
			reasons[err.Error()]++
			continue
		}
		trace := x.Trace()
		k, f, s, err := shaderOf(p, trace, target)
		switch {
		case err == nil:
			lowered++
			if err := runShader(t, d, rng, k, f, s, target); err != nil {
				t.Errorf("sample %d, %s: %v\n%s\n%v", i, target.Machine().Name, err, p.Name(), k.Trace)
			}
			if errors.Is(err, vulkan.ErrLost) {
				t.FailNow() // nothing runs on the device any more
			}
		case typed(err):
			reasons[err.Error()]++
		default:
			t.Errorf("%s: %v\n%s\n%v", target.Machine().Name, err, p.Name(), trace)
		}
	}
	t.Logf("%d of %d samples lowered", lowered, n)
	if float64(lowered) < leastShaders*float64(n) {
		t.Errorf("%d of %d samples lowered, want %.0f %%: %v", lowered, n, 100*leastShaders, reasons)
	}
}

// typed says that a schedule is refused for a reason.
func typed(err error) bool {
	var (
		illegal     *schedule.Illegal
		unfinished  *schedule.Unfinished
		overflow    *schedule.Overflow
		refused     *nest.Refused
		unsupported *lower.Unsupported
	)
	return errors.As(err, &illegal) || errors.As(err, &unfinished) || errors.As(err, &overflow) || errors.As(err, &refused) || errors.As(err, &unsupported)
}

// shaderOf is the kernel of a schedule as a shader has it, and its function before and after selection.
func shaderOf(p ir.Problem, trace schedule.Trace, target spirv.Target) (*schedule.Kernel, *vir.Func, *lower.Selected, error) {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return nil, nil, nil, err
	}
	f, err := lower.Vectorize(k.Nest, "matmul")
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := lower.Select(context.Background(), target, f)
	return k, f, s, err
}

func runShader(t *testing.T, d *vulkan.Device, rng *rand.Rand, k *schedule.Kernel, f *vir.Func, s *lower.Selected, target spirv.Target) error {
	sh, err := target.Print(s, shaders.Controls(d))
	if err != nil {
		return err
	}
	shaders.Accepted(t, sh)
	a := attempt{Replay: check.Replay{Problem: k.Problem}, k: &native.Kernel{Kernel: k}}
	c := a.shape(rng, check.Kind(rng.Intn(int(check.NotFinite)+1)))
	want := c.Naive()
	calls := map[string]check.Call{"vir": func(args []vir.Arg) error { return vir.Eval(f, args) }}
	if len(s.Rows) <= shaders.Long {
		calls["device"] = func(args []vir.Arg) error { return shaders.Run(d, sh, f, args) }
	}
	for what, call := range calls {
		have, err := c.Run(k, call)
		if err == nil {
			err = check.Equal(k, have, want, c.M)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}
