package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// writer writes Go. The first error stays in err.
type writer struct {
	*registry
	text bytes.Buffer
	err  error
}

func (w *writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// goName is a name of C without Vulkan's prefix and with a capital.
func goName(name string) string {
	for _, prefix := range []string{"Vk", "vk", "PFN_vk"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" {
			name = rest
			break
		}
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// constantName is VK_STRUCTURE_TYPE_SUBMIT_INFO_2 as StructureTypeSubmitInfo2.
func constantName(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(strings.TrimPrefix(name, "VK_"), "_") {
		if word != "KHR" && word != "EXT" {
			b.WriteString(word[:1] + strings.ToLower(word[1:]))
		}
	}
	return b.String()
}

// scalars are C's types in Go.
var scalars = map[string]string{
	"uint32_t": "uint32", "int32_t": "int32", "uint64_t": "uint64", "int64_t": "int64", "uint8_t": "uint8", "float": "float32",
	"size_t": "uintptr", "char": "byte", "VkResult": "Result",
}

// typeOf is the Go type of a field or parameter.
func (w *writer) typeOf(m member) string {
	base, known := w.baseOf(m.kind)
	switch {
	case m.pointers > 0 && (m.kind == "void" || !known):
		return strings.Repeat("*", m.pointers-1) + "unsafe.Pointer"
	case !known:
		w.fail("no type %s of %s", m.kind, m.name)
	}
	return w.array(m.length) + strings.Repeat("*", m.pointers) + base
}

func (w *writer) array(length string) string {
	if n, ok := w.values[length]; ok {
		length = fmt.Sprint(n)
	}
	if length == "" {
		return ""
	}
	return "[" + length + "]"
}

// baseOf is the Go type of a type of C. It is not known if it is a struct that this program does not write.
func (w *writer) baseOf(kind string) (string, bool) {
	if t, ok := scalars[kind]; ok {
		return t, true
	}
	switch w.kinds[kind] {
	case "enum":
		return "uint32", true
	case "bitmask", "basetype":
		return w.baseOf(w.base[kind])
	case "VK_DEFINE_HANDLE", "VK_DEFINE_NON_DISPATCHABLE_HANDLE":
		return goName(kind), slices.Contains(handles, kind)
	case "struct":
		return goName(kind), slices.Contains(structs, kind)
	case "funcpointer":
		return "uintptr", true
	}
	return "", false
}

func (w *writer) structs(names []string) {
	for _, name := range handles {
		size := map[string]string{"VK_DEFINE_HANDLE": "uintptr", "VK_DEFINE_NON_DISPATCHABLE_HANDLE": "uint64"}[w.kinds[name]]
		if size == "" {
			w.fail("no handle %s", name)
		}
		fmt.Fprintf(&w.text, "\ntype %s %s // %s\n", goName(name), size, name)
	}
	for _, name := range names {
		if w.registry.structs[name] == nil {
			w.fail("no struct %s", name)
			continue
		}
		fmt.Fprintf(&w.text, "\n// %s is %s.\ntype %s struct {\n", goName(name), name, goName(name))
		for _, m := range w.registry.structs[name] {
			fmt.Fprintf(&w.text, "%s %s\n", goName(m.name), w.typeOf(m))
		}
		w.text.WriteString("}\n")
		if kind := w.registry.structs[name][0].value; kind != "" {
			fmt.Fprintf(&w.text, "\nconst %s = %d\n", constantName(kind), w.value(kind))
		}
	}
}

func (w *writer) commands(group string, names []string) {
	fmt.Fprintf(&w.text, "\n// %sCommands are functions of C. One that is not there is nil.\ntype %sCommands struct {\n", group, group)
	for _, name := range names {
		all := w.registry.commands[name]
		if all == nil {
			w.fail("no command %s", name)
			return
		}
		var params []string
		for _, m := range all[1:] {
			params = append(params, m.name+" "+w.typeOf(m))
		}
		result := ""
		if all[0].kind != "void" {
			result, _ = w.baseOf(all[0].kind)
		}
		fmt.Fprintf(&w.text, "%s func(%s) %s\n", goName(name), strings.Join(params, ", "), result)
	}
	w.text.WriteString("}\n")
}

func (w *writer) value(name string) int64 {
	v, ok := w.values[name]
	if !ok {
		w.fail("no constant %s", name)
	}
	return v
}

func (w *writer) constants(names []string) {
	w.text.WriteString("\nconst (\n")
	for _, name := range names {
		fmt.Fprintf(&w.text, "%s = %d\n", constantName(name), w.value(name))
	}
	w.text.WriteString(")\n")
}

// results writes the names of codes, as some are no constants.
func (w *writer) results() {
	w.text.WriteString("\nvar resultNames = map[Result]string{\n")
	for _, name := range w.registry.results {
		fmt.Fprintf(&w.text, "%d: %q,\n", w.value(name), name)
	}
	w.text.WriteString("}\n")
}
