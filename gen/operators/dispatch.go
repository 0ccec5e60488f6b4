package operators

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
)

const cpuPath = gomod.Path + "/runtime/cpu"

// scratchRows is how many rows a call may have if its kernel has scratch for each row.
const scratchRows = 8

// compiled is an operator with its kernels.
type compiled struct {
	*pure
	full    map[string]*tensor // with the axis of rows
	kernels []*kernel
}

// on are the kernels for an architecture.
func (c *compiled) on(arch string) []*kernel {
	return slices.DeleteFunc(slices.Clone(c.kernels), func(k *kernel) bool { return k.target.Machine().Arch() != arch })
}

// dispatchFile has the functions that the package calls: each runs the kernel of the chosen target, and in plain Go what that
// cannot do. arch is "" where there is no assembly.
func dispatchFile(ops []*compiled, arch string, arches []string) lower.File {
	f := newFile()
	f.ImportName(cpuPath, "cpu")
	var candidates, names []jen.Code
	for _, t := range Targets() {
		if t.Machine().Arch() != arch {
			continue
		}
		names = append(names, jen.Id(isaName(t)))
		candidates = append(candidates, jen.Values(jen.Id("Target").Op(":").Lit(t.Machine().Name),
			jen.Id("Need").Op(":").Add(texts(targets.Features(t))), jen.Id("Serves").Op(":").Add(texts(served(t)))))
	}
	f.Comment("targets are what the assembly is for, the ones that programs try first before others.")
	if len(names) == 0 {
		f.Var().Id("targets").Index().Qual(cpuPath, "Candidate")
	} else {
		f.Var().Id("targets").Op("=").Index().Qual(cpuPath, "Candidate").Add(braces(candidates))
		f.Line()
		f.Comment("Numbers of the targets.")
		names[0] = names[0].(*jen.Statement).Op("=").Iota()
		f.Const().Defs(names...)
	}
	for _, c := range ops {
		f.Line()
		f.Func().Id(c.op.Name).Params(c.signature()...).Block(c.dispatch(c.on(arch))...)
	}
	if arch == "" {
		return render(f, "ops_noasm.go", noasm(arches))
	}
	return render(f, "ops_dispatch_"+arch+".go", arch+" && !purego")
}

// noasm is the build constraint of all that has no assembly.
func noasm(arches []string) string {
	text := ""
	for i, arch := range arches {
		if i > 0 {
			text += " || "
		}
		text += arch
	}
	return "!(" + text + ") || purego"
}

// braces is a composite literal, an element a line.
func braces(items []jen.Code) jen.Code {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, items...)
}

func texts(s []string) *jen.Statement {
	var items []jen.Code
	for _, x := range s {
		items = append(items, jen.Lit(x))
	}
	return jen.Index().String().Values(items...)
}

// dispatch is the body of the function that the package calls.
func (c *compiled) dispatch(kernels []*kernel) []jen.Code {
	if len(kernels) == 0 {
		return []jen.Code{c.callPure("", nil)}
	}
	cut := c.cut(kernels)
	var cases, out []jen.Code
	for _, k := range kernels {
		cases = append(cases, jen.Case(c.condition(k, cut)).Block(c.callKernel(k, cut)...))
	}
	if cut == "" {
		cases = append(cases, jen.Default().Block(c.callPure("", nil)))
		return []jen.Code{jen.Switch().Block(cases...)}
	}
	done := jen.Id("done")
	out = append(out, jen.Id("done").Op(":=").Lit(0), jen.Switch().Block(cases...))
	return append(out, jen.If(jen.Id("done").Op("==").Lit(0).Op("||").Id("done").Op("<").Id(cut)).Block(c.callPure(cut, done)))
}

// cut is a run-time size that may be cut in two: a kernel computes whole vectors, and plain Go the rest. It is "" if there is none.
func (c *compiled) cut(kernels []*kernel) string {
	for _, size := range c.sizes() {
		for _, k := range kernels {
			if k.whole()[size] > 1 && c.divides(size) {
				return size
			}
		}
	}
	return ""
}

// divides says that elements along that size are apart in every stage: an element depends only on elements of its own number.
func (c *compiled) divides(size string) bool {
	for _, s := range c.op.Graph.Stages {
		dims := dimsOf(s)
		if slices.ContainsFunc(s.Reduce, func(d ir.Dim) bool { return d.Run == size }) {
			return false
		}
		ok := true
		ir.Walk(s.Body, func(e ir.Expr) {
			if r, is := e.(ir.Read); is {
				ok = ok && c.readsApart(r, dims, size)
			}
		})
		if !ok {
			return false
		}
	}
	return true
}

// readsApart says that r reads the element whose number along that size is that of the result.
func (c *compiled) readsApart(r ir.Read, dims map[string]ir.Dim, size string) bool {
	full := c.full[r.T.Name]
	for i, e := range r.Index {
		if full.extents[i].Run != size {
			continue
		}
		a, ok := e.(ir.Axis)
		if !ok || dims[a.Name].Run != size || dims[a.Name].Div != 1 {
			return false
		}
	}
	return true
}

// condition says when kernel k computes the operator, or that part of it which goes up to a multiple of whole vectors.
func (c *compiled) condition(k *kernel, cut string) jen.Code {
	out := jen.Id("chosen").Op("==").Id(isaName(k.target))
	for _, size := range c.sizes() {
		whole := k.whole()[size]
		switch {
		case size == cut:
			out.Op("&&").Id(size).Op(">=").Lit(max(1, whole))
		case whole > 1:
			out.Op("&&").Id(size).Op(">").Lit(0).Op("&&").Id(size).Op("%").Lit(whole).Op("==").Lit(0)
		default:
			out.Op("&&").Id(size).Op(">").Lit(0)
		}
		if k.limited(size) {
			out.Op("&&").Id(size).Op("<=").Lit(scratchRows)
		}
	}
	return out
}

// limited says that k has scratch for each of a run-time number of rows.
func (k *kernel) limited(size string) bool {
	return slices.ContainsFunc(k.schedule.Params, func(p schedule.OperatorParam) bool {
		return p.Role == schedule.ScratchTensor && slices.ContainsFunc(p.Dims, func(d schedule.Room) bool { return d.N == 0 && d.Size == size })
	})
}

// callKernel calls k with its arguments.
func (c *compiled) callKernel(k *kernel, cut string) []jen.Code {
	var out []jen.Code
	if cut != "" {
		whole := max(1, k.whole()[cut])
		done := jen.Id(cut)
		if whole > 1 {
			done.Op("-").Id(cut).Op("%").Lit(whole)
		}
		out = append(out, jen.Id("done").Op("=").Add(done))
	}
	var fields []jen.Code
	for _, p := range k.schedule.Params {
		if p.Role == schedule.ScratchTensor {
			out = append(out, jen.Var().Id(p.Name).Index(jen.Lit(scratchRoom(p))).Id(elemType(p.Elem)))
		}
		fields = append(fields, jen.Id(field(p.Name)).Op(":").Add(c.argument(k, p, cut)))
	}
	return append(out, jen.Id(k.name()).Call(jen.Op("&").Id(k.name()+"_args").Add(braces(fields))))
}

// scratchRoom is the number of elements of scratch.
func scratchRoom(p schedule.OperatorParam) int {
	n := max(1, p.Stride)
	for _, d := range p.Dims {
		if d.N == 0 {
			n *= scratchRows
		} else {
			n *= d.N
		}
	}
	return n
}

// argument is the value of a kernel's parameter.
func (c *compiled) argument(k *kernel, p schedule.OperatorParam, cut string) jen.Code {
	size := func(name string) *jen.Statement {
		if name == cut && cut != "" {
			return jen.Id("done")
		}
		return jen.Id(name)
	}
	t := c.full[p.Name]
	switch p.Role {
	case schedule.RowStep:
		t = c.full[p.Tensor]
		return jen.Int64().Call(jen.Lit(t.elem.Bytes()).Op("*").Id(t.rowStride()))
	case schedule.TripCount:
		if p.Div == 1 {
			return jen.Int64().Call(size(p.Size))
		}
		if k.whole()[p.Size]%p.Div == 0 {
			return jen.Int64().Call(size(p.Size).Op("/").Lit(p.Div))
		}
		return jen.Int64().Call(jen.Parens(size(p.Size).Op("+").Lit(p.Div - 1)).Op("/").Lit(p.Div))
	case schedule.ScratchTensor:
		return jen.Qual("unsafe", "Pointer").Call(jen.Op("&").Id(p.Name))
	}
	if t.memory == scalar {
		return jen.Qual("unsafe", "Pointer").Call(jen.Op("&").Id(p.Name))
	}
	return jen.Qual("unsafe", "Pointer").Call(jen.Qual("unsafe", "SliceData").Call(jen.Id(t.name).Index(jen.Empty(), t.span(size))))
}

// span is the number of elements, or bytes, from the first to the last element of t.
func (t *tensor) span(size func(string) *jen.Statement) jen.Code {
	if t.rows {
		return t.spanOfRows(size)
	}
	unit, each, run := 1, t.stride, ""
	if t.memory == raw {
		unit, each = t.elem.Bytes(), t.stride*t.elem.Bytes()
	}
	for _, d := range t.extents {
		switch {
		case d.N > 0:
			each *= d.N
		case run != "":
			panic("BUG: operators: more than one run-time size: " + t.name)
		default:
			run = d.Run
		}
	}
	if run == "" {
		return jen.Lit(each)
	}
	out := size(run)
	if each > 1 {
		out = jen.Lit(each).Op("*").Add(out)
	}
	if t.stride > 1 { // the last one ends before the next would begin
		out.Op("-").Lit(each - unit)
	}
	return out
}

// spanOfRows is the span of rows a run-time number of elements apart.
func (t *tensor) spanOfRows(size func(string) *jen.Statement) jen.Code {
	row := func(d ir.Dim) *jen.Statement {
		if d.N > 0 {
			return jen.Lit(d.N)
		}
		return size(d.Run)
	}
	rows, last := t.extents[0], row(t.extents[1])
	switch {
	case rows.N == 1:
		return last
	case rows.N > 1:
		return jen.Lit(rows.N - 1).Op("*").Id(t.rowStride()).Op("+").Add(last)
	}
	return jen.Parens(row(rows).Op("-").Lit(1)).Op("*").Id(t.rowStride()).Op("+").Add(last)
}

// callPure calls the operator in plain Go, from element `from` of a size on.
func (c *compiled) callPure(cut string, from jen.Code) jen.Code {
	var args []jen.Code
	for _, p := range c.parameters() {
		t := c.full[p.name]
		arg := jen.Id(t.name)
		if by := t.along(cut); by > 0 {
			if arg = jen.Id(t.name).Index(jen.Id("done"), jen.Empty()); by > 1 {
				arg = jen.Id(t.name).Index(jen.Lit(by).Op("*").Add(from), jen.Empty())
			}
		}
		args = append(args, arg)
	}
	for _, name := range c.strides() {
		args = append(args, jen.Id(name))
	}
	for _, name := range c.sizes() {
		if arg := jen.Id(name); name == cut {
			args = append(args, arg.Op("-").Add(from))
		} else {
			args = append(args, arg)
		}
	}
	return jen.Id(pureName(c.op)).Call(args...)
}

// along is how far elements of a run-time size are apart in t, in elements or bytes; 0 if t has none.
func (t *tensor) along(size string) int {
	last := len(t.extents) - 1
	if size == "" || t.extents[last].Run != size {
		return 0
	}
	if t.memory == raw {
		return t.stride * t.elem.Bytes()
	}
	return t.stride
}

// stubsFile declares the kernels of an architecture, and the structs of their arguments.
func stubsFile(ops []*compiled, arch string) lower.File {
	f := newFile()
	for _, c := range ops {
		for _, k := range c.on(arch) {
			var fields []jen.Code
			for _, p := range k.schedule.Params {
				if p.Role == schedule.RowStep || p.Role == schedule.TripCount {
					fields = append(fields, jen.Id(field(p.Name)).Int64())
				} else {
					fields = append(fields, jen.Id(field(p.Name)).Qual("unsafe", "Pointer"))
				}
			}
			f.Type().Id(k.name() + "_args").Struct(fields...)
			f.Line()
			f.Comment(fmt.Sprintf("%s is %s by the schedule %s.", k.name(), c.op.Name, k.trace()))
			f.Comment("")
			f.Comment("//go:noescape")
			f.Func().Id(k.name()).Params(jen.Id("args").Op("*").Id(k.name() + "_args"))
			f.Line()
		}
	}
	return render(f, "ops_stubs_"+arch+".go", arch+" && !purego")
}
