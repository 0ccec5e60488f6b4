// Package native compiles schedules and runs them in a worker process, many with one run of the
// assembler, or those for another CPU by package machine.
package native

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/tests/check"
	"github.com/tmacc/tmacc/tests/drawn"
	"github.com/tmacc/tmacc/tests/qemu"
)

// Target is the amd64 target called name, or the stand-in of it that this CPU runs. If it runs
// neither, it is the target, whose kernels package machine runs.
func Target(t testing.TB, name string) lower.Target {
	t.Helper()
	target := amd64.ByName(name)
	if target == nil {
		t.Fatalf("no target amd64/%s", name)
	}
	if runs := standIn(target); runs != nil {
		return runs
	}
	t.Logf("%s: not on this CPU; kernels do what their operations mean", target.Machine().Name)
	return target
}

// standIn is target, or what computes as it does, if this CPU runs it.
func standIn(target lower.Target) lower.Target {
	host := timing.ThisHost()
	return amd64.StandIn(target, func(feature string) bool { return host.Lacks([]string{feature}) == nil })
}

// lacks says why this CPU does not run target, as .ci/report reads it of skipped tests.
func lacks(target lower.Target) string {
	return fmt.Sprintf("this CPU lacks %s", strings.Join(timing.ThisHost().Lacks(amd64.FeatureNames(target.Machine().Has)), " "))
}

// Here says that this CPU runs a target that Target returned, or that one is emulated that does.
func Here(target lower.Target) bool { return qemu.On(target) != nil || standIn(target) != nil }

// All are all amd64 targets, by the rule of Target.
func All(t testing.TB) []lower.Target {
	t.Helper()
	var out []lower.Target
	for _, x := range amd64.Targets() {
		out = append(out, Target(t, x.Machine().Name))
	}
	return out
}

// Targets are the amd64 targets that have instructions of their own, by the rule of Target, and one in three of the others,
// which make nearly the same machine code of a trace. TMACC_SEED draws these; with TMACC_LONG=1 it is All.
func Targets(t testing.TB) []lower.Target {
	t.Helper()
	var own, others []lower.Target
	for _, x := range All(t) {
		if x.Machine().Ordinary() {
			own = append(own, x)
		} else {
			others = append(others, x)
		}
	}
	return append(own, drawn.Some(drawn.New(t), 3, others)...)
}

// Arms are all arm64 targets, whose kernels are emulated until the test ends. It skips the test without an emulator.
func Arms(t testing.TB) []lower.Target {
	t.Helper()
	for _, target := range arm64.Targets() {
		qemu.Start(t, target)
	}
	return arm64.Targets()
}

// TargetsHere are those that this CPU runs. It skips the test if there are none.
func TargetsHere(t testing.TB) (out []lower.Target) {
	t.Helper()
	for _, x := range amd64.Targets() {
		if runs := standIn(x); runs != nil {
			out = append(out, runs)
		} else {
			t.Logf("%s is not run: this CPU is another", x.Machine().Name)
		}
	}
	if len(out) == 0 {
		t.Skip(lacks(amd64.Targets()[0]))
	}
	return out
}

// Kernel is a schedule that was lowered.
type Kernel struct {
	*schedule.Kernel
	Machine *lower.Kernel
	call    func([][]vir.Arg) error
}

// Compile lowers trace. watch sees the function after each pass.
func Compile(t lower.Target, p ir.Problem, trace schedule.Trace, watch ...lower.Watch) (*Kernel, error) {
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return nil, err
	}
	m, err := lower.Build(context.Background(), t, k.Nest, watch...)
	if err != nil {
		return nil, err
	}
	return &Kernel{Kernel: k, Machine: m}, nil
}

// Load assembles ks, which it names, so that Call runs them until the test ends.
func Load(t testing.TB, target lower.Target, ks ...*Kernel) {
	t.Helper()
	close, err := LoadAll(target, ks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(close)
}

// LoadAll is Load outside a test.
func LoadAll(target lower.Target, ks []*Kernel) (close func(), err error) {
	ms := numbered(ks)
	code, err := Assemble(target, ms)
	if err != nil {
		return nil, err
	}
	for i, k := range ks {
		k.call = code.Func(i, fmt.Sprint(k.Trace))
	}
	return code.Close, nil
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

// Run computes c with k, between guard pages, in a worker process, or as package machine does.
func (k *Kernel) Run(c *check.Case) ([]float32, error) {
	return c.RunAll(k.Kernel, k.call)
}

// Text is k's assembly.
func (k *Kernel) Text(target lower.Target) (string, error) {
	f, err := lower.Emit(target, "main", k.Machine)
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
