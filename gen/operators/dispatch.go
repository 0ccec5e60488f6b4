package operators

import (
	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
)

// noasmFile has the functions that the package calls, where there is no assembly: all run in plain Go.
func noasmFile() lower.File {
	f := newFile()
	for _, o := range operator.All() {
		p := newPure(o)
		f.Func().Id(o.Name).Params(p.signature()...).Block(p.call())
		f.Line()
	}
	return render(f, "ops_noasm.go", "")
}

// call calls the operator in plain Go with its own parameters.
func (p *pure) call() jen.Code {
	var args []jen.Code
	for _, t := range p.parameters() {
		args = append(args, jen.Id(t.name))
	}
	for _, name := range append(p.strides(), p.sizes()...) {
		args = append(args, jen.Id(name))
	}
	return jen.Id(pureName(p.op)).Call(args...)
}
