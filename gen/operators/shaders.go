package operators

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops/traces"
	"github.com/tmacc/tmacc/schedule"
)

const abiPath = gomod.Path + "/runtime/abi"

// ShaderTarget is what shaders of operators are compiled for: operators have no dot products of bytes.
func ShaderTarget() spirv.Target {
	t, _ := spirv.ByName("spirv/plain")
	return t
}

// asked is what shaders ask of floats. A device that lacks some of it runs them without.
var asked = spirv.Controls{RoundToEven: true, Denormals: true, NotNumbers: true}

// modulePrefix begins the names of modules: files of operators.go.
const modulePrefix = "operators_"

// Shaders is the generated files of package runtime/ops/shaders: operators.go describes the operators, and operators_NAME.spv is the module of one.
// traces has the schedules in the folder "spirv".
func Shaders(traces fs.FS) ([]lower.File, error) {
	f := jen.NewFile("shaders")
	f.ImportName(abiPath, "abi")
	f.ImportName(formatPath, "format")
	var all []jen.Code
	var files []lower.File
	for _, s := range Shaded() {
		x, err := s.compile(traces)
		if err != nil {
			return nil, fmt.Errorf("runtime/ops/traces/%s: %w", s.TraceName(), err)
		}
		all = append(all, described(x))
		files = append(files, lower.File{Name: modulePrefix + s.Name + ".spv", Data: x.Code})
	}
	f.Comment("all are the operators, by the schedules in runtime/ops/traces/spirv.")
	f.Var().Id("all").Op("=").Index().Qual(abiPath, "Operator").Add(braces(all))
	return append(files, render(f, "operators.go", "")), nil
}

// ShadedOperator is an operator that becomes a shader of a name, which is the operator's or says that calls have a list of places.
type ShadedOperator struct {
	Name string
	operator.Operator
	Listed string // the tensor with a list, "": none
}

// Shaded are the shaders of all operators. Those that write to pages of a cache have one for that, and one without a list if CPUs compute them, too.
func Shaded() (all []ShadedOperator) {
	add := func(of []operator.Operator, onDevices bool) {
		for _, o := range of {
			if o.Paged == "" || !onDevices {
				all = append(all, ShadedOperator{o.Name, o, ""})
			}
			if o.Paged != "" {
				all = append(all, ShadedOperator{o.Name + "_paged", o, o.Paged})
			}
		}
	}
	add(operator.All(), false)
	add(operator.OnDevices(), true)
	return all
}

// TraceName is the file of the shader's schedule in runtime/ops/traces.
func (s ShadedOperator) TraceName() string { return "spirv/" + s.Name + ".json" }

// Trace is the shader's schedule.
func (s ShadedOperator) Trace() (schedule.Trace, error) { return s.traceIn(traces.Files) }

func (s ShadedOperator) traceIn(all fs.FS) (schedule.Trace, error) {
	trace, ok, err := traceIn(all, s.TraceName())
	if err == nil && !ok {
		err = fs.ErrNotExist
	}
	return trace, err
}

// compile makes the shader by its schedule.
func (s ShadedOperator) compile(all fs.FS) (*abi.Operator, error) {
	trace, err := s.traceIn(all)
	if err != nil {
		return nil, err
	}
	k, err := schedule.CompileOperator(s.Operator, trace)
	if err != nil {
		return nil, err
	}
	x, err := Shader(k)
	if err == nil {
		x.Name = s.Name
	}
	return x, err
}

// Listing is a schedule of the operator, whose last step is a batch, with the list of s.
func (s ShadedOperator) Listing(t schedule.Trace) schedule.Trace {
	last := t[len(t)-1].(schedule.Batch)
	last.Listed = s.Listed
	return append(slices.Clone(t[:len(t)-1]), last)
}

// Shader compiles a scheduled operator.
func Shader(k *schedule.OperatorKernel) (*abi.Operator, error) {
	f, sh, err := Module(k.Nest, asked)
	if err != nil {
		return nil, err
	}
	x := &abi.Operator{Name: k.Of.Name, Code: sh.Binary(), Lanes: vir.Product(sh.Lanes)}
	numbers := map[string]int{}
	for _, i := range sh.Buffers {
		p := k.Params[i]
		numbers[p.Name] = len(x.Tensors)
		x.Tensors = append(x.Tensors, abi.OperatorTensor{Name: p.Name, Elem: p.Elem, Align: f.Params[i].Align, Written: p.Role == schedule.OutputTensor,
			Rows: slices.Contains(k.Of.Rows, p.Name)})
	}
	for _, i := range sh.Params {
		w, ok := wordOf(k.Params[i], numbers)
		if !ok {
			return nil, fmt.Errorf("%s: %s is no parameter of a shader: bind loops to lanes or groups", k.Of.Name, k.Params[i].Name)
		}
		x.Push = append(x.Push, w)
	}
	for _, i := range sh.Grid {
		x.Grid = append(x.Grid, countOf(k.Params[i]))
	}
	x.Axes, x.Sizes = sizesOf(k.Params)
	return x, nil
}

// wordOf is the push constant of a parameter. numbers are the tensors'.
func wordOf(p schedule.OperatorParam, numbers map[string]int) (w abi.OperatorWord, ok bool) {
	switch p.Role {
	case schedule.InputTensor, schedule.OutputTensor, schedule.CallList:
		return abi.OperatorWord{Kind: abi.OffsetWord, Tensor: numbers[p.Name]}, true
	case schedule.RowStep:
		return abi.OperatorWord{Kind: abi.RowWord, Tensor: numbers[p.Tensor]}, true
	case schedule.CallStep:
		return abi.OperatorWord{Kind: abi.CallWord, Tensor: numbers[p.Tensor], Axis: p.Axis}, true
	case schedule.TripCount:
		return abi.OperatorWord{Kind: abi.CountWord, Count: countOf(p)}, true
	case schedule.ConstantStep:
		return abi.OperatorWord{Kind: abi.ValueWord, Value: uint32(p.Value)}, true
	}
	return w, false
}

// Module is the shader of a nest, which asks a device for what c says.
func Module(n *nest.Nest, c spirv.Controls) (*vir.Func, *spirv.Shader, error) {
	f, err := lower.Vectorize(n, "main")
	if err != nil {
		return nil, nil, err
	}
	s, err := lower.Select(context.Background(), ShaderTarget(), f)
	if err != nil {
		return nil, nil, err
	}
	sh, err := ShaderTarget().Print(s, c)
	return f, sh, err
}

func countOf(p schedule.OperatorParam) abi.OperatorCount {
	return abi.OperatorCount{Size: p.Size, Div: p.Div, Axis: p.Axis}
}

// sizesOf are the axes of calls, and what run-time sizes are multiples of.
func sizesOf(params []schedule.OperatorParam) (axes int, sizes []abi.OperatorSize) {
	for _, p := range params {
		switch p.Role {
		case schedule.CallCount:
			axes++
		case schedule.TripCount:
			i := slices.IndexFunc(sizes, func(s abi.OperatorSize) bool { return s.Name == p.Size })
			if i < 0 {
				i, sizes = len(sizes), append(sizes, abi.OperatorSize{Name: p.Size, Whole: 1})
			}
			sizes[i].Whole = lcm(sizes[i].Whole, p.Div)
		}
	}
	return axes, sizes
}

// described is x in Go, without its module, which is in a file.
func described(x *abi.Operator) jen.Code {
	var tensors, words, grid, sizes []jen.Code
	for _, t := range x.Tensors {
		fields := []jen.Code{set("Name", t.Name), jen.Id("Elem").Op(":").Qual(formatPath, strings.ToUpper(t.Elem.String())), set("Align", t.Align)}
		if t.Written {
			fields = append(fields, set("Written", true))
		}
		if t.Rows {
			fields = append(fields, set("Rows", true))
		}
		tensors = append(tensors, jen.Values(fields...))
	}
	for _, w := range x.Push {
		words = append(words, describedWord(w))
	}
	for _, c := range x.Grid {
		grid = append(grid, describedCount(c))
	}
	for _, s := range x.Sizes {
		sizes = append(sizes, jen.Values(set("Name", s.Name), set("Whole", s.Whole)))
	}
	list := func(name, of string, items []jen.Code) jen.Code {
		return jen.Id(name).Op(":").Index().Qual(abiPath, of).Values(items...)
	}
	return jen.Values(set("Name", x.Name), jen.Id("Code").Op(":").Id("module").Call(jen.Lit(x.Name)), set("Lanes", x.Lanes),
		list("Tensors", "OperatorTensor", tensors), list("Push", "OperatorWord", words), list("Grid", "OperatorCount", grid),
		set("Axes", x.Axes), list("Sizes", "OperatorSize", sizes))
}

// set is a field with a value.
func set(field string, value any) jen.Code { return jen.Id(field).Op(":").Lit(value) }

func describedCount(c abi.OperatorCount) jen.Code {
	if c.Size == "" {
		return jen.Values(set("Axis", c.Axis))
	}
	return jen.Values(set("Size", c.Size), set("Div", c.Div))
}

func describedWord(w abi.OperatorWord) jen.Code {
	kind := func(name string, more ...jen.Code) jen.Code {
		return jen.Values(append([]jen.Code{jen.Id("Kind").Op(":").Qual(abiPath, name)}, more...)...)
	}
	switch w.Kind {
	case abi.OffsetWord:
		return kind("OffsetWord", set("Tensor", w.Tensor))
	case abi.RowWord:
		return kind("RowWord", set("Tensor", w.Tensor))
	case abi.CallWord:
		return kind("CallWord", set("Tensor", w.Tensor), set("Axis", w.Axis))
	case abi.CountWord:
		return kind("CountWord", jen.Id("Count").Op(":").Qual(abiPath, "OperatorCount").Add(describedCount(w.Count)))
	}
	return kind("ValueWord", set("Value", int(w.Value)))
}
