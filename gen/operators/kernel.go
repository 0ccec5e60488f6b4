package operators

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/ops/traces"
	"github.com/tmacc/tmacc/schedule"
)

// Targets are the targets that operators are compiled for: for vectors of each length on each architecture, the one that
// needs the fewest CPU features. They are in the order in which programs try them.
func Targets() (out []lower.Target) {
	type kind struct {
		arch string
		bits int
	}
	seen := map[kind]bool{}
	for _, t := range targets.Ordinary() {
		m := t.Machine()
		if k := (kind{m.Arch(), m.VecBits}); !seen[k] {
			seen[k] = true
			out = append(out, t)
		}
	}
	return lower.Preferred(out)
}

// served are the other instruction sets of t's architecture with vectors of the same length.
func served(t lower.Target) (out []string) {
	for _, o := range targets.Ordinary() {
		m := o.Machine()
		if m.Arch() == t.Machine().Arch() && m.VecBits == t.Machine().VecBits && m.Name != t.Machine().Name {
			out = append(out, m.Name)
		}
	}
	return out
}

// Trace is the schedule of an operator for a target. ok is false if there is none.
func Trace(o operator.Operator, t lower.Selector) (trace schedule.Trace, ok bool, err error) {
	return traceIn(traces.Files, TraceName(o, t))
}

func traceIn(all fs.FS, name string) (trace schedule.Trace, ok bool, err error) {
	data, err := fs.ReadFile(all, name)
	if err != nil {
		return nil, false, nil
	}
	if err := json.Unmarshal(data, &trace); err != nil {
		return nil, false, fmt.Errorf("runtime/ops/traces/%s: %w", name, err)
	}
	return trace, true, nil
}

// TraceName is the file of an operator's schedule in runtime/ops/traces.
func TraceName(o operator.Operator, t lower.Selector) string {
	if t.Machine().Group > 0 {
		name := o.Name
		for _, s := range slices.Backward(Shaded()) { // the first of those that are o
			if s.Operator.Name == o.Name {
				name = s.Name
			}
		}
		return ShadedOperator{Name: name}.TraceName()
	}
	return fmt.Sprintf("%d/%s.json", t.Machine().VecBits, o.Name)
}

// unusedTraces lists files of schedules that no operator or no target has.
func unusedTraces(traces fs.FS) []string {
	var used []string
	for _, o := range operator.All() {
		for _, t := range Targets() {
			used = append(used, TraceName(o, t))
		}
	}
	for _, s := range Shaded() {
		used = append(used, s.TraceName())
	}
	all, err := fs.Glob(traces, "*/*")
	if err != nil {
		panic("BUG: operators: " + err.Error())
	}
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(used, name) })
}

// kernel is an operator compiled for a target.
type kernel struct {
	schedule *schedule.OperatorKernel
	target   lower.Target
	text     *lower.Function
}

func (k *kernel) name() string  { return k.schedule.Of.Name + "_" + isaName(k.target) }
func (k *kernel) trace() string { return path.Join("traces", TraceName(k.schedule.Of, k.target)) }

// isaName is the name of a target's instruction set in Go.
func isaName(t lower.Target) string { return t.Machine().Identifier() }

// compile makes the kernels of o, by target.
func compile(traces fs.FS, o operator.Operator) (out []*kernel, err error) {
	for _, t := range Targets() {
		trace, ok, err := traceIn(traces, TraceName(o, t))
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		k := &kernel{target: t}
		if k.schedule, err = schedule.CompileOperator(o, trace); err != nil {
			return nil, fmt.Errorf("runtime/ops/traces/%s: %w", TraceName(o, t), err)
		}
		code, err := lower.Build(context.Background(), t, k.schedule.Nest)
		if err != nil {
			return nil, fmt.Errorf("runtime/ops/traces/%s on %s: %w", TraceName(o, t), t.Machine().Name, err)
		}
		k.text = t.Print(code)
		out = append(out, k)
	}
	return out, nil
}

// whole are the numbers that run-time sizes must be multiples of: kernels compute whole vectors.
func (k *kernel) whole() map[string]int {
	out := map[string]int{}
	for _, p := range k.schedule.Params {
		for _, d := range p.Dims {
			for _, pad := range d.Pads {
				out[d.Size] = lcm(max(1, out[d.Size]), pad)
			}
		}
	}
	return out
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// field is the name of a parameter in the struct of a kernel's arguments.
func field(param string) string { return strings.ReplaceAll(param, ".", "_") }
