// Package operators holds the compiler of float operators to their definition: every schedule of theirs gives the same
// bits on every target.
package operators

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/machine"
	"github.com/tmacc/tmacc/tests/native"
	"github.com/tmacc/tmacc/tests/qemu"
)

// TestPlain compiles every operator without any step: loops as the definition has them, one element at a time.
func TestPlain(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	var all []attempt
	for _, o := range operator.All() {
		if o.Name == "softmax" { // its mask is a constant vector: it needs lanes
			continue
		}
		all = append(all, attempt{o, nil})
	}
	for _, target := range []lower.Target{native.Target(t, "avx2"), native.Target(t, "avx512"), arm64.ByName("neon")} {
		run(t, rng, target, all)
	}
}

// TestTraces runs the schedules of runtime/ops/traces on all targets that have such vectors.
func TestTraces(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, target := range slices.Concat(native.All(t), arm64.Targets()) {
		var all []attempt
		for _, f := range traces(t, fmt.Sprint(target.Machine().VecBits)) {
			all = append(all, attempt{*operator.Find(f.name), f.Trace})
		}
		if len(all) != len(operator.All()) {
			t.Errorf("%s: traces of %d operators, of %d", target.Machine().Name, len(all), len(operator.All()))
		}
		run(t, rng, target, all)
	}
}

// TestTracesArm does the same on emulated CPUs.
func TestTracesArm(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, target := range native.Arms(t) {
		var all []attempt
		for _, f := range traces(t, "128") {
			all = append(all, attempt{*operator.Find(f.name), f.Trace})
		}
		run(t, rng, target, all)
	}
}

// attempt is an operator and a schedule of it.
type attempt struct {
	operator.Operator
	schedule.Trace
}

// run compiles attempts for a target and compares what they compute with the definition.
func run(t *testing.T, rng *rand.Rand, target lower.Target, all []attempt) {
	t.Helper()
	var ks []*schedule.OperatorKernel
	var ms []*lower.Kernel
	for _, a := range all {
		k, m, err := compile(target, a, len(ms))
		if err != nil {
			t.Errorf("%s: %s: %v", target.Machine().Name, a.Name, err)
			continue
		}
		ks, ms = append(ks, k), append(ms, m)
	}
	call, close, err := callable(target, ms)
	if err != nil {
		t.Fatal(err)
	}
	defer close()
	for i, k := range ks {
		if err := checkKernel(rng, k, ms[i], call(i)); err != nil {
			t.Errorf("%s: %v: %v\n%v", target.Machine().Name, k.Trace, err, k.Nest)
		}
	}
}

// compile makes kernel number i.
func compile(target lower.Target, a attempt, i int) (*schedule.OperatorKernel, *lower.Kernel, error) {
	k, err := schedule.CompileOperator(a.Operator, a.Trace)
	if err != nil {
		return nil, nil, err
	}
	m, err := lower.Build(context.Background(), target, k.Nest)
	if err == nil {
		m.Func.Name = fmt.Sprintf("k%d", i)
	}
	return k, m, err
}

// callable makes calls of kernels: on a CPU that is here or emulated, or by package machine.
func callable(target lower.Target, ms []*lower.Kernel) (call func(i int) func([][]vir.Arg) error, close func(), err error) {
	if qemu.On(target) == nil && target.Machine().Arch() != runtime.GOARCH {
		return func(i int) func([][]vir.Arg) error {
			return func(calls [][]vir.Arg) (err error) {
				for _, args := range calls {
					err = errors.Join(err, machine.Run(ms[i], args))
				}
				return err
			}
		}, func() {}, nil
	}
	code, err := native.Assemble(target, ms)
	if err != nil {
		return nil, nil, err
	}
	return func(i int) func([][]vir.Arg) error { return code.Func(i, ms[i].Func.Name) }, code.Close, nil
}

// checkKernel runs a kernel on tame and on wild inputs, and evaluates what it was made from.
func checkKernel(rng *rand.Rand, k *schedule.OperatorKernel, m *lower.Kernel, call func([][]vir.Arg) error) error {
	for _, wild := range []bool{false, true} {
		sizes := map[string]int{"K": 1 + rng.Intn(150), "H": 1 + rng.Intn(70), "R": 1 + rng.Intn(4), "D": 1 + rng.Intn(100)}
		c, err := check.NewOperator(rng, k.Of, sizes, wild)
		if err != nil {
			return err
		}
		args := c.Args(rng, k)
		for _, stage := range []struct {
			name string
			run  func([]vir.Arg) error
		}{
			{"nest", func(args []vir.Arg) error { return evalNest(k.Nest, args) }},
			{"vir", func(args []vir.Arg) error { return vir.Eval(m.Func, args) }},
			{"machine", func(args []vir.Arg) error { return call([][]vir.Arg{args}) }},
		} {
			got := cloned(args)
			if err = stage.run(got); err == nil {
				err = c.Compare(k, got)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", stage.name, err)
			}
		}
	}
	return nil
}

// evalNest is nest.Eval on args.
func evalNest(n *nest.Nest, args []vir.Arg) error {
	as := make([]nest.Arg, len(args))
	for i, a := range args {
		as[i] = nest.Arg{Buf: a.Buf, Int: int(a.Int)}
	}
	return nest.Eval(n, as)
}

func cloned(args []vir.Arg) []vir.Arg {
	out := slices.Clone(args)
	for i := range out {
		out[i].Buf = slices.Clone(out[i].Buf)
	}
	return out
}
