package gen

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
)

// Packages with shaders have these files besides. Only they import what calls Vulkan:
//
//	kern_spirv.go            shaders of each product      systems with Vulkan && !purego
//	kern_nospirv.go          none                         elsewhere
//	kern_q4_dot_n1.spv       a shader of a kernel
const (
	devicePath = runtimePath + "/device"
	onDevices  = "(linux || windows || darwin) && (amd64 || arm64) && !purego"
	noDevices  = "!(linux || windows || darwin) || !(amd64 || arm64) || purego"
	module     = ".spv"
)

// shaded are the kernels of a product on a target of shaders.
type shaded struct {
	abi.Variant
	of *variant.Shaders
}

// shader describes v and adds its layout to the product's.
func (p *product) shader(v *variant.Shaders) (shaded, error) {
	thing := "product " + p.id + ", target " + v.Target.Machine().Name
	switch {
	case len(v.Kernels) == 0:
		return shaded{}, errorf(thing, "has no kernel")
	case slices.ContainsFunc(p.shaders, func(o shaded) bool { return o.Target == v.Target.Machine().Name }):
		return shaded{}, errorf(thing, "is there twice")
	case !reflect.DeepEqual(v.Kernels[0].Schedule.Problem, p.Problem):
		return shaded{}, errorf(thing, "was compiled for another problem")
	}
	if err := v.Check(); err != nil {
		return shaded{}, errorf(thing, "%v", err)
	}
	x := shaded{v.ABI(p.shaderPrefix(v)), v}
	for i := range x.numbers() {
		x.Numbered(i).Name += module
	}
	x.Layout = p.layout(v.Kernels[0].Schedule.Weights)
	return x, nil
}

// shaderPrefix begins the names of shaders.
func (p Product) shaderPrefix(v *variant.Shaders) string {
	return p.prefix() + "_" + v.Target.Machine().ShortName() + "_"
}

// ShaderName is the name of the shaders of v for a number of columns.
func (p Product) ShaderName(v *variant.Shaders, cols int) string {
	return fmt.Sprintf("%sn%d", p.shaderPrefix(v), cols)
}

// FloatsName is the name of the shaders of v that take floats.
func (p Product) FloatsName(v *variant.Shaders) string { return p.shaderPrefix(v) + variant.FusedName }

// layout is the number of a layout among the product's.
func (p *product) layout(l *format.Layout) int {
	i := slices.IndexFunc(p.spec.Layouts, func(o *format.Layout) bool { return o.Hash() == l.Hash() })
	if i < 0 {
		i = len(p.spec.Layouts)
		p.spec.Layouts = append(p.spec.Layouts, l)
	}
	return i
}

// onDevice is the variable of the product's shaders.
func (p *product) onDevice() string { return p.variants[:len(p.variants)-len("Variants")] + "Shaders" }

// numbers is how many kernels there are: with the one that takes floats.
func (x *shaded) numbers() int {
	if x.Fused != nil {
		return len(x.Kernels) + 1
	}
	return len(x.Kernels)
}

// numbered are the shaders of a kernel, and its schedule.
func (x *shaded) numbered(kernel int) ([]abi.Shader, *schedule.Kernel) {
	if kernel == len(x.Kernels) {
		return x.Fused.Shaders, x.of.Fused.Schedule
	}
	return x.Shaders[kernel], x.of.Kernels[kernel].Schedule
}

// variables are those with the shaders' files.
func (x *shaded) variables() (names []string) {
	for k := range x.numbers() {
		all, _ := x.numbered(k)
		for n := range all {
			names = append(names, x.variable(k, n))
		}
	}
	return names
}

// variable is the variable with the file of a shader.
func (x *shaded) variable(kernel, number int) string {
	base := strings.TrimSuffix(x.Numbered(kernel).Name, module)
	if all, _ := x.numbered(kernel); all[number].Subgroup > 0 {
		s := all[number]
		base += fmt.Sprintf("_subgroup%d", s.Subgroup)
	}
	return base
}

// hasShaders says that a product has some.
func (w *writer) hasShaders() bool {
	return slices.ContainsFunc(w.products, func(p product) bool { return len(p.shaders) > 0 })
}

// shaders are the files of shaders.
func (w *writer) shaders() []lower.File {
	f, none := w.file(), w.file()
	f.Anon("embed")
	var files []lower.File
	for _, p := range w.products {
		if len(p.shaders) == 0 {
			continue
		}
		var variants []jen.Code
		for i := range p.shaders {
			x := &p.shaders[i]
			for k := range x.numbers() {
				all, _ := x.numbered(k)
				for n, s := range all {
					name := x.variable(k, n)
					w.embed(f, &p, x, k, name)
					files = append(files, lower.File{Name: w.moduleFile(name), Data: s.Code})
				}
			}
			variants = append(variants, w.shaderVariant(x))
		}
		f.Var().Id(p.onDevice()).Op("=").Index().Qual(abiPath, "Variant").Add(braces(false, variants))
		f.Line()
		none.Var().Id(p.onDevice()).Index().Qual(abiPath, "Variant").Comment("no devices here")
		none.Line()
	}
	return append(files, w.render(f, "_spirv.go", onDevices), w.render(none, "_nospirv.go", noDevices))
}

// moduleFile is the file that a variable holds.
func (w *writer) moduleFile(variable string) string { return w.Package + "_" + variable + module }

// embed declares the contents of a shader.
func (w *writer) embed(f *jen.File, p *product, x *shaded, kernel int, name string) {
	_, k := x.numbered(kernel)
	trace, err := json.Marshal(k.Trace)
	if err != nil {
		panic("BUG: gen: " + err.Error())
	}
	doc(f, fmt.Sprintf("%s is %s on %s, %d rows by %d columns.", name, p.id, x.Target, k.Rows, k.Cols), "", "trace: "+string(trace), "")
	f.Comment("//go:embed " + w.moduleFile(name))
	f.Var().Id(name).Index().Byte()
	f.Line()
}

// shaderVariant is x as Go has it.
func (w *writer) shaderVariant(x *shaded) *jen.Statement {
	var kernels []jen.Code
	for k := range x.numbers() {
		var all []jen.Code
		shaders, _ := x.numbered(k)
		for n, s := range shaders {
			s.Code, s.Sum = nil, crc32.ChecksumIEEE(s.Code)
			all = append(all, body(reflect.ValueOf(s), field("Code", jen.Id(x.variable(k, n)))))
		}
		kernels = append(kernels, braces(false, all))
	}
	v := x.Variant
	v.Shaders = nil
	more := []jen.Code{field("Shaders", jen.Index().Index().Qual(abiPath, "Shader").Add(braces(false, kernels[:len(x.Kernels)])))}
	if v.Fused != nil {
		f := *v.Fused
		f.Shaders, v.Fused = nil, nil
		of := field("Shaders", jen.Index().Qual(abiPath, "Shader").Add(kernels[len(x.Kernels)]))
		more = append(more, field("Fused", jen.Op("&").Qual(abiPath, "Fused").Add(body(reflect.ValueOf(f), of))))
	}
	return body(reflect.ValueOf(v), append(more, field("Device", jen.Qual(devicePath, "Vulkan")))...)
}

// allVariants are the kernels of p: of CPUs, of devices, or of both.
func (w *writer) allVariants(p product) *jen.Statement {
	switch {
	case len(p.shaders) == 0:
		return jen.Id(p.variants)
	case len(w.arches) == 0:
		return jen.Id(p.onDevice())
	}
	return jen.Qual("slices", "Concat").Call(jen.Id(p.variants), jen.Id(p.onDevice()))
}

// deviceOverview says how products run on a device.
func (w *writer) deviceOverview() []string {
	if !w.hasShaders() {
		return nil
	}
	i := slices.IndexFunc(w.products, func(p product) bool { return len(p.shaders) > 0 })
	return []string{"", "Products with shaders also run on a device of Vulkan, where there is one:", "",
		fmt.Sprintf("\tg, err := %s.%s.On(\"spirv\") // the error says why there is no device", w.Package, w.products[i].id),
		"\tw, err := g.NewMatrix(src, m, k) // its weights are in the memory of the device"}
}

// ShaderFileNames lists the files of Go that a package with shaders has besides, and says how its shaders' files begin and end.
func ShaderFileNames(pkg string) []string { return []string{pkg + "_spirv.go", pkg + "_nospirv.go"} }

// isModule says that a file is a shader's.
func isModule(name string) bool { return strings.HasSuffix(name, module) }
