package random

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strings"
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

const (
	leastShaders = 0.25    // the share of samples that must become shaders which are compared
	perProblem   = 4       // samples of a problem, which share what its space remembers
	onDevice     = 160     // the most instructions of shaders that run on the device
	evalShader   = 150_000 // the most instructions of all lanes that Eval does
)

// TestRandomShaders compiles random schedules of random problems and formats for workgroups. Each is refused for a typed reason, or
// spirv-val accepts its module. It equals the definition by Eval, which finds races, if that takes no longer than a part of a second, and on a Vulkan
// device if it is short: a software device compiles long ones for minutes. TMACC_SEED replays a run, TMACC_SHADERS says how many to
// try. With TMACC_LONG=1 all are evaluated, products are larger, and longer shaders run.
func TestRandomShaders(t *testing.T) {
	r := &shaderRun{t: t, d: shaders.Device(t), most: onDevice, limit: evalShader, reasons: map[string]int{}}
	if os.Getenv("TMACC_LONG") == "1" {
		r.most, r.limit, r.large = shaders.Long, math.MaxInt, true
	}
	n := drawn.Env(t, "TMACC_SHADERS", 500)
	seed := drawn.Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	fmt.Fprintf(os.Stderr, "%s: TMACC_SEED=%d TMACC_SHADERS=%d\n", t.Name(), seed, n)
	for i := 0; i < n; i += perProblem {
		r.problem(rand.New(rand.NewSource(int64(seed)+int64(i))), i, min(perProblem, n-i))
	}
	t.Logf("%d of %d samples lowered, %d were compared, %d of them on the device; %d by workgroups that share sums", r.lowered, n, r.compared, r.ran, r.split)
	if r.split == 0 && n >= 100 {
		t.Error("no sample has workgroups that share sums")
	}
	if float64(r.compared) < leastShaders*float64(n) || r.ran == 0 {
		t.Errorf("%d of %d samples lowered, and %d were compared, want %.0f %%; %d ran on the device: %v", r.lowered, n, r.compared, 100*leastShaders, r.ran, r.reasons)
	}
}

// shaderRun is what became of samples.
type shaderRun struct {
	t                      *testing.T
	d                      *vulkan.Device
	most                   int  // instructions of shaders that run on the device
	limit                  int  // instructions that Eval does
	large                  bool // products of any size
	lowered, compared, ran int
	split                  int            // compared ones whose workgroups share sums
	reasons                map[string]int // of refusals
}

// problem tries samples of a problem, from number i on.
func (r *shaderRun) problem(rng *rand.Rand, i, samples int) {
	p := randomProblem(rng)
	if rng.Intn(4) == 0 {
		p = ownFormat(rng, i)
	}
	target := shaders.Targets(false)[rng.Intn(2)]
	sp, err := space.For(p, target)
	if err != nil {
		r.t.Fatal(err)
	}
	sp = sp.Prepared() // tests/shaders has workgroups that prepare activations: TestSpace draws them too
	for j := range samples {
		x, err := sp.Sample(rng)
		if err != nil {
			r.reasons[err.Error()]++
			continue
		}
		k, f, s, err := shaderOf(p, x.Trace(), target)
		switch {
		case err == nil:
			r.lowered++
			if err := r.run(rng, k, f, s, target); err != nil {
				r.t.Errorf("sample %d, %s: %v\n%s\n%v", i+j, target.Machine().Name, err, p.Name(), k.Trace)
			}
			if errors.Is(err, vulkan.ErrLost) {
				r.t.FailNow() // nothing runs on the device any more
			}
		case typed(err):
			r.reasons[err.Error()]++
		default:
			r.t.Errorf("%s: %v\n%s\n%v", target.Machine().Name, err, p.Name(), x.Trace())
		}
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

// run compares a shader with the definition.
func (r *shaderRun) run(rng *rand.Rand, k *schedule.Kernel, f *vir.Func, s *lower.Selected, target spirv.Target) error {
	sh, err := target.Print(s, shaders.Controls(r.d))
	if err != nil {
		return err
	}
	shaders.Valid(r.t, sh)
	c := r.shape(rng, k, f.Part() != nil)
	want := c.Naive()
	lanes, compared := vir.Product(f.Lanes()), false
	for what, call := range map[string]check.Call{
		"vir":    func(args []vir.Arg) error { return vir.EvalLimit(f, args, r.limit) },
		"device": func(args []vir.Arg) error { return shaders.Run(r.d, sh, f, args) },
	} {
		device := what == "device"
		if device && len(s.Rows) > r.most || !device && lanes*len(s.Rows) > r.limit {
			continue
		}
		have, err := c.Run(k, call)
		if err == nil {
			err = check.Equal(k, have, want, c.M)
		}
		switch {
		case errors.Is(err, vir.ErrLimit) || err != nil && strings.Contains(err.Error(), "a workgroup shares"): // more than this device has
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case device:
			r.ran++
		}
		compared = true
	}
	if compared {
		r.compared++
	}
	if compared && f.Part() != nil {
		r.split++
	}
	return nil
}

// shape draws a product: of up to two workgroups along each axis and two iterations of the loop over K, four if workgroups share sums, or of any size.
func (r *shaderRun) shape(rng *rand.Rand, k *schedule.Kernel, split bool) *check.Case {
	kind := check.Kind(rng.Intn(int(check.NotFinite) + 1))
	if r.large {
		a := attempt{Replay: check.Replay{Problem: k.Problem}, k: &native.Kernel{Kernel: k}}
		return a.shape(rng, kind)
	}
	unit := k.Problem.Unit()
	some := func(n int) int { return 1 + rng.Intn(n+2) }
	depth := k.StepK
	if split {
		depth *= 1 + rng.Intn(3)
	}
	return check.New(rng, k.Problem, some(k.Rows), some(k.Cols), unit*some(depth/unit), kind)
}
