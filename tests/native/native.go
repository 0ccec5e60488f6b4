// Package native compiles schedules and runs them on this CPU, in a worker process,
// many with one run of the assembler.
package native

import (
	"fmt"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/check"
)

// Target is the amd64 target called name, or its stand-in. It skips the test on a machine that
// runs neither.
func Target(t testing.TB, name string) lower.Target {
	t.Helper()
	target := amd64.ByName(name)
	if target == nil {
		t.Fatalf("no target amd64/%s", name)
	}
	host := timing.ThisHost()
	runs := amd64.StandIn(target, func(feature string) bool { return host.Lacks([]string{feature}) == nil })
	if runs == nil {
		t.Skipf("this machine lacks some of %v", amd64.FeatureNames(target.Machine().Has))
	}
	return runs
}

// Targets are all amd64 targets, by the rule of Target.
func Targets(t testing.TB) []lower.Target {
	t.Helper()
	var out []lower.Target
	for _, x := range amd64.Targets() {
		out = append(out, Target(t, x.Machine().Name))
	}
	return out
}

// Kernel is a schedule that was lowered.
type Kernel struct {
	*schedule.Kernel
	Machine *lower.Kernel
	fn      worker.Func
}

// Compile lowers trace. watch sees the function after each pass.
func Compile(t lower.Target, p ir.Problem, trace schedule.Trace, watch ...lower.Watch) (*Kernel, error) {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return nil, err
	}
	m, err := lower.Build(t, k.Nest, "k", watch...)
	if err != nil {
		return nil, err
	}
	return &Kernel{Kernel: k, Machine: m}, nil
}

// Load assembles ks, which it names, so that Call runs them until the test ends.
func Load(t testing.TB, target lower.Target, ks ...*Kernel) {
	t.Helper()
	close, err := Assemble(target, ks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(close)
}

// Assemble is Load outside a test.
func Assemble(target lower.Target, ks []*Kernel) (close func(), err error) {
	ms := numbered(ks)
	file, err := target.Emit("main", ms)
	if err != nil {
		return nil, err
	}
	code, err := worker.Load(worker.Options{}, file)
	if err != nil {
		return nil, err
	}
	for i, k := range ks {
		if k.fn, err = code.Func(ms[i].Func.Name, fmt.Sprint(k.Trace)); err != nil {
			return nil, err
		}
	}
	return func() { code.Close() }, nil
}

// numbered are the machine kernels of ks, called k0, k1 ...
func numbered(ks []*Kernel) (ms []*lower.Kernel) {
	for i, k := range ks {
		m, f := *k.Machine, *k.Machine.Func
		f.Name = fmt.Sprintf("k%d", i)
		m.Func = &f
		ms = append(ms, &m)
	}
	return ms
}

// Run computes c with k, between guard pages, in a worker process.
func (k *Kernel) Run(c *check.Case) ([]float32, error) {
	return c.RunAll(k.Kernel, func(calls [][]vir.Arg) error { return k.fn.RunAll(k.Machine.Func.Params, calls) })
}

// Text is k's assembly.
func (k *Kernel) Text(target lower.Target) (string, error) {
	f, err := target.Emit("main", []*lower.Kernel{k.Machine})
	return string(f.Data), err
}

// Check runs k on c and compares the result with the definition, bit for bit or as k bounds it.
func (k *Kernel) Check(c *check.Case) error {
	got, err := k.Run(c)
	if err != nil {
		return err
	}
	return check.Equal(k.Kernel, got, c.Naive(), c.M)
}
