package build

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/cost"
)

// Names of stages, in the order of the compiler.
const (
	ProblemStage  = "problem" // ir.Problem: weights and activations
	ExprStage     = "expr"    // the graph of tensor expressions that defines the result
	TraceStage    = "trace"   // schedule.Trace
	NestStage     = "nest"    // *nest.Nest: loops
	LayoutStage   = "layout"  // *format.Layout: where the packed weights lie; nil of a preparation
	VirStage      = "vir"     // *vir.Func: vector operations
	PassesStage   = "passes"  // []Pass
	MachineStage  = "machine" // *lower.Kernel: machine operations with registers
	AssemblyStage = "asm"     // lower.File; of a shader its *spirv.Shader, without MachineStage before it
	CostStage     = "cost"    // Cost; of products only
	GoStage       = "go"      // the declaration in Go, a string; of vector IR only
)

// StageNames are the stages of products and preparations, in the order of the compiler.
func StageNames() []string {
	return []string{ProblemStage, ExprStage, TraceStage, NestStage, LayoutStage, VirStage, PassesStage, MachineStage, AssemblyStage, CostStage}
}

// Stage is a kernel at one stage of the compiler.
type Stage struct {
	Name  string
	Value any    // of the type that the constant of the name says
	Text  string // the same as text
	Err   error  // why the compiler stopped here; then there is neither a value nor a text, and no later stage
}

// Pass is a function after a pass that has run.
type Pass struct {
	Name    string
	Func    *vir.Func
	Changed bool // by this pass
}

// Cost is what the machine model expects of a kernel, in cycles for one product of one weight and one activation. It is zero if the model has no
// prediction, as of a kernel that computes values again.
type Cost struct {
	Cached float64 // with the weights in the second-level cache
	Memory float64 // with the weights in memory
}

func (c Cost) String() string {
	return fmt.Sprintf("%.4f cycles for a product of one weight and one activation, %.4f with weights in memory", c.Cached, c.Memory)
}

// Stages compile the schedule of a product for a target. The last stage has the error if one fails.
func Stages(p ir.Problem, trace schedule.Trace, t lower.Selector) []Stage {
	s := begin(p, ir.Matmul(p), trace)
	k, err := schedule.Compile(p, trace)
	if err != nil {
		return s.fail(NestStage, err)
	}
	s.add(NestStage, k.Nest, k.Nest.String())
	s.add(LayoutStage, k.Weights, layoutText(k.Weights))
	m, ok := s.lowerNest(k.Nest, "matmul", t)
	if !ok || m == nil {
		return s
	}
	by := []cost.Purpose{{N: k.Cols, At: cost.L2}, {N: k.Cols, At: cost.DRAM}}
	cycles, err := predicted(context.Background(), t.(lower.Target), k, by)
	if err != nil {
		s.add(CostStage, Cost{}, fmt.Sprintf("(the model has no prediction: %v)", err))
		return s
	}
	c := Cost{cycles[0], cycles[1]}
	s.add(CostStage, c, c.String())
	return s
}

// PrepareStages compile what prepares activations of p on a target. The trace is that of a product, whose preparation has the default
// schedule, or that of a preparation for the tables of products by the schedules of uses.
func PrepareStages(p ir.Problem, trace schedule.Trace, t lower.Target, uses []search.Use) []Stage {
	trace, tables, err := preparation(p, trace, t, uses)
	if err != nil {
		return stages{}.fail(TraceStage, err)
	}
	k, err := schedule.CompilePreparation(p, tables, trace)
	if err != nil {
		s := stages{}
		s.add(TraceStage, trace, traceText(trace))
		return s.fail(NestStage, err)
	}
	s := begin(p, k.Graph, trace)
	s.add(NestStage, k.Nest, k.Nest.String())
	s.add(LayoutStage, (*format.Layout)(nil), "(rows of int8, then sums and scales)")
	if _, ok := s.lowerNest(k.Nest, "prepare", t); ok {
		s.add(CostStage, Cost{}, "(the model predicts products only)")
	}
	return s
}

// OperatorStageNames are the stages of float operators, in the order of the compiler.
func OperatorStageNames() []string {
	return []string{ExprStage, TraceStage, NestStage, VirStage, PassesStage, MachineStage, AssemblyStage}
}

// OperatorStages compile an operator for a target: by a schedule of the caller's, or nil for the one that package runtime/ops
// has for vectors of the target's length, or runtime/ops/shaders for workgroups.
func OperatorStages(o operator.Operator, trace schedule.Trace, t lower.Selector) (s stages) {
	s.add(ExprStage, o.Graph, o.Graph.String())
	if trace == nil {
		var ok bool
		var err error
		if trace, ok, err = operators.Trace(o, t); err != nil {
			return s.fail(TraceStage, err)
		}
		if !ok {
			if slices.ContainsFunc(operator.OnDevices(), func(x operator.Operator) bool { return x.Name == o.Name }) {
				return s.fail(TraceStage, fmt.Errorf("%s is for devices, not for %s: name one as the target, such as spirv", o.Name, t.Machine().Name))
			}
			return s.fail(TraceStage, fmt.Errorf("%s runs in pure Go on %s: there is no schedule for it", o.Name, t.Machine().Name))
		}
	}
	s.add(TraceStage, trace, traceText(trace))
	k, err := schedule.CompileOperator(o, trace)
	if err != nil {
		return s.fail(NestStage, err)
	}
	s.add(NestStage, k.Nest, k.Nest.String())
	s.lowerNest(k.Nest, o.Name, t)
	return s
}

// preparation is the schedule of a preparation and the tables that it fills.
func preparation(p ir.Problem, trace schedule.Trace, t lower.Target, uses []search.Use) (schedule.Trace, *ir.Tables, error) {
	if k, err := schedule.Compile(p, trace); err == nil {
		trace, err = beam.Preparation(context.Background(), p, k.Tables, k.Chunk, t)
		return trace, k.Tables, err
	}
	tables, _, err := TablesOf(p, uses)
	return trace, tables, err
}

// TraceFor is the schedule for a number of columns among uses, of p on t. The error names the columns that they have.
func TraceFor(p ir.Problem, t lower.Selector, uses []search.Use, cols int) (schedule.Trace, error) {
	var have []string
	for _, u := range uses {
		if u.Cols == cols {
			return u.Trace, nil
		}
		have = append(have, fmt.Sprint(u.Cols))
	}
	return nil, fmt.Errorf("no default schedule of %s on %s has %d columns: have %s", p.Name(), t.Machine().Name, cols, strings.Join(have, ", "))
}

// stages are stages in the making.
type stages []Stage

// begin are the stages that cannot fail.
func begin(p ir.Problem, graph *ir.Graph, trace schedule.Trace) (s stages) {
	s.add(ProblemStage, p, jsonText(p))
	s.add(ExprStage, graph, graph.String())
	s.add(TraceStage, trace, traceText(trace))
	return s
}

func (s *stages) add(name string, value any, text string) {
	*s = append(*s, Stage{name, value, text, nil})
}

// fail ends s by an error.
func (s stages) fail(name string, err error) stages { return append(s, Stage{Name: name, Err: err}) }

// lowerNest adds the stages from vector IR to assembly. It returns the kernel unless one fails, nil of a shader.
func (s *stages) lowerNest(n *nest.Nest, name string, t lower.Selector) (*lower.Kernel, bool) {
	f, err := lower.Vectorize(n, name)
	if err != nil {
		*s = s.fail(VirStage, err)
		return nil, false
	}
	s.add(VirStage, f, f.String())
	return s.lower(f, "kernels", t)
}

// lower adds the stages from passes to assembly of package pkg. It returns the kernel unless one fails, nil of a shader.
func (s *stages) lower(f *vir.Func, pkg string, selector lower.Selector) (*lower.Kernel, bool) {
	w := passWriter{last: f.String()}
	if t, ok := selector.(spirv.Target); ok {
		return nil, s.shader(f, &w, t)
	}
	t := selector.(lower.Target)
	k, err := lower.Compile(t, f, w.watch)
	if err != nil {
		*s = s.fail(PassesStage, err)
		return nil, false
	}
	s.add(PassesStage, w.passes, w.out.String())
	s.add(MachineStage, k, lower.Dump(k))
	asm, err := lower.Emit(t, pkg, k)
	if err != nil {
		*s = s.fail(AssemblyStage, err)
		return nil, false
	}
	s.add(AssemblyStage, asm, string(asm.Data))
	return k, true
}

// shader adds passes, and the module as assembly that spirv-as takes.
func (s *stages) shader(f *vir.Func, w *passWriter, t spirv.Target) bool {
	selected, err := lower.Select(context.Background(), t, f, w.watch)
	if err != nil {
		*s = s.fail(PassesStage, err)
		return false
	}
	s.add(PassesStage, w.passes, w.out.String())
	sh, err := t.Print(selected, spirv.Controls{})
	if err != nil {
		*s = s.fail(AssemblyStage, err)
		return false
	}
	s.add(AssemblyStage, sh, sh.Text())
	return true
}

// layoutText is l as JSON, a line for each part.
func layoutText(l *format.Layout) string {
	return strings.ReplaceAll(jsonText(l), `{"name"`, "\n {\"name\"")
}

// traceText is a trace in one line, and its JSON with a line for each step.
func traceText(t schedule.Trace) string {
	var lines []string
	for i := range t {
		lines = append(lines, strings.Trim(jsonText(t[i:i+1]), "[]"))
	}
	return t.String() + "\n[" + strings.Join(lines, ",\n ") + "]"
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("BUG: stages: " + err.Error())
	}
	return string(data)
}

// passWriter collects the function after each pass.
type passWriter struct {
	passes []Pass
	out    strings.Builder
	last   string
}

func (w *passWriter) watch(pass string, f *vir.Func) {
	text := f.String()
	w.passes = append(w.passes, Pass{pass, f, text != w.last})
	if text == w.last {
		fmt.Fprintf(&w.out, "-- %s: no change\n", pass)
		return
	}
	fmt.Fprintf(&w.out, "-- %s\n%s", pass, text)
	w.last = text
}
