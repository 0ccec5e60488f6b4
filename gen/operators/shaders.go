package operators

import (
	"cmp"
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

// Shaders is the generated files of package runtime/ops/shaders: operators.go describes the operators, and NAME.spv is the module of one.
// traces has the schedules in the folder "spirv".
func Shaders(traces fs.FS) ([]lower.File, error) {
	f := jen.NewFile("shaders")
	f.ImportName(abiPath, "abi")
	f.ImportName(formatPath, "format")
	var all []jen.Code
	var files []lower.File
	for _, o := range operator.All() {
		x, err := shaderIn(traces, o)
		if err != nil {
			return nil, fmt.Errorf("runtime/ops/traces/%s: %w", TraceName(o, ShaderTarget()), err)
		}
		all = append(all, described(x))
		files = append(files, lower.File{Name: o.Name + ".spv", Data: x.Code})
	}
	f.Comment("all are the operators, by the schedules in runtime/ops/traces/spirv.")
	f.Var().Id("all").Op("=").Index().Qual(abiPath, "Operator").Add(braces(all))
	return append(files, render(f, "operators.go", "")), nil
}

// shaderIn compiles an operator by its schedule.
func shaderIn(traces fs.FS, o operator.Operator) (*abi.Operator, error) {
	trace, ok, err := traceIn(traces, TraceName(o, ShaderTarget()))
	if err != nil || !ok {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	k, err := schedule.CompileOperator(o, trace)
	if err != nil {
		return nil, err
	}
	return Shader(k)
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
		w := abi.OperatorWord{Axis: k.Params[i].Axis, Value: uint32(k.Params[i].Value)}
		switch p := k.Params[i]; p.Role {
		case schedule.InputTensor, schedule.OutputTensor:
			w.Kind, w.Tensor = abi.OffsetWord, numbers[p.Name]
		case schedule.RowStep:
			w.Kind, w.Tensor = abi.RowWord, numbers[p.Tensor]
		case schedule.CallStep:
			w.Kind, w.Tensor = abi.CallWord, numbers[p.Tensor]
		case schedule.TripCount:
			w.Kind, w.Count = abi.CountWord, countOf(p)
		case schedule.ConstantStep:
			w.Kind = abi.ValueWord
		default:
			return nil, fmt.Errorf("%s: %s is no parameter of a shader: bind loops to lanes or groups", k.Of.Name, p.Name)
		}
		x.Push = append(x.Push, w)
	}
	for _, i := range sh.Grid {
		x.Grid = append(x.Grid, countOf(k.Params[i]))
	}
	x.Axes, x.Sizes = sizesOf(k.Params)
	return x, nil
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
		fields := []jen.Code{jen.Id("Name").Op(":").Lit(t.Name), jen.Id("Elem").Op(":").Qual(formatPath, strings.ToUpper(t.Elem.String())), jen.Id("Align").Op(":").Lit(t.Align)}
		if t.Written {
			fields = append(fields, jen.Id("Written").Op(":").True())
		}
		if t.Rows {
			fields = append(fields, jen.Id("Rows").Op(":").True())
		}
		tensors = append(tensors, jen.Values(fields...))
	}
	count := func(c abi.OperatorCount) jen.Code {
		if c.Size == "" {
			return jen.Values(jen.Id("Axis").Op(":").Lit(c.Axis))
		}
		return jen.Values(jen.Id("Size").Op(":").Lit(c.Size), jen.Id("Div").Op(":").Lit(c.Div))
	}
	for _, w := range x.Push {
		kind := func(name string, more ...jen.Code) jen.Code {
			return jen.Values(append([]jen.Code{jen.Id("Kind").Op(":").Qual(abiPath, name)}, more...)...)
		}
		tensor, axis := jen.Id("Tensor").Op(":").Lit(w.Tensor), jen.Id("Axis").Op(":").Lit(w.Axis)
		words = append(words, map[abi.WordKind]jen.Code{
			abi.OffsetWord: kind("OffsetWord", tensor), abi.RowWord: kind("RowWord", tensor), abi.CallWord: kind("CallWord", tensor, axis),
			abi.CountWord: kind("CountWord", jen.Id("Count").Op(":").Qual(abiPath, "OperatorCount").Add(count(w.Count))),
			abi.ValueWord: kind("ValueWord", jen.Id("Value").Op(":").Lit(int(w.Value))),
		}[w.Kind])
	}
	for _, c := range x.Grid {
		grid = append(grid, count(c))
	}
	for _, s := range x.Sizes {
		sizes = append(sizes, jen.Values(jen.Id("Name").Op(":").Lit(s.Name), jen.Id("Whole").Op(":").Lit(s.Whole)))
	}
	list := func(name, of string, items []jen.Code) jen.Code {
		return jen.Id(name).Op(":").Index().Qual(abiPath, of).Values(items...)
	}
	return jen.Values(jen.Id("Name").Op(":").Lit(x.Name), jen.Id("Code").Op(":").Id("module").Call(jen.Lit(x.Name)), jen.Id("Lanes").Op(":").Lit(x.Lanes),
		list("Tensors", "OperatorTensor", tensors), list("Push", "OperatorWord", words), list("Grid", "OperatorCount", grid),
		jen.Id("Axes").Op(":").Lit(x.Axes), list("Sizes", "OperatorSize", sizes))
}
