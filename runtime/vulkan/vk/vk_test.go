package vk

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const header = "/usr/include/vulkan/vulkan.h"

// TestLayouts compares the sizes of all structs, and the offsets and sizes of all fields, with what a C compiler makes of Khronos' header.
func TestLayouts(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if _, missing := os.Stat(header); err != nil || missing != nil || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("needs gcc, libvulkan-dev and a 64-bit machine")
	}
	ours, structs := goLayouts(t)
	program := "#include <stddef.h>\n#include <stdio.h>\n#include <" + header + ">\nint main(void) {\n"
	for _, s := range structs {
		guard := "1"
		if strings.Contains(s.name, "CooperativeMatrix") {
			guard = "defined(VK_KHR_cooperative_matrix)" // Debian 12's header is older
		}
		program += "#if " + guard + "\n" + fmt.Sprintf("printf(\"%s %%zu\\n\", sizeof(Vk%[1]s));\n", s.name)
		for _, f := range s.fields {
			program += fmt.Sprintf("printf(\"%s.%s %%zu %%zu\\n\", offsetof(Vk%[1]s, %[3]s), sizeof(((Vk%[1]s*)0)->%[3]s));\n",
				s.name, f, fieldName(f))
		}
		program += "#else\n" + fmt.Sprintf("printf(\"no %s\\n\");\n", s.name) + "#endif\n"
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "layouts.c"), filepath.Join(dir, "layouts")
	if err := os.WriteFile(source, []byte(program+"return 0;\n}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(gcc, "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if name, missing := strings.CutPrefix(line, "no "); missing {
			t.Logf("%s has no Vk%s", header, name)
			continue
		}
		if compared++; !slices.Contains(ours, line) {
			name, _, _ := strings.Cut(line, " ")
			t.Errorf("C has %s, Go has %s", line, ours[slices.IndexFunc(ours, func(l string) bool { return strings.HasPrefix(l, name+" ") })])
		}
	}
	if compared < 650 {
		t.Errorf("only %d structs and fields were compared", compared)
	}
}

// fieldName is the name of a field in C. MSize and its like are the same.
func fieldName(f string) string {
	if slices.Contains(strings.Fields("MSize NSize KSize AType BType CType ResultType"), f) {
		return f
	}
	return strings.ToLower(f[:1]) + f[1:]
}

type structure struct {
	name   string
	fields []string
}

// goLayouts are lines like the program's, by Go's rules of layout for this machine.
func goLayouts(t *testing.T) (lines []string, structs []structure) {
	t.Helper()
	files := token.NewFileSet()
	var sources []*ast.File
	for name, text := range map[string]any{"registry.go": nil, "cooperative.go": nil, "rest": "package vk\ntype Result int32"} {
		f, err := parser.ParseFile(files, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, f)
	}
	sizes := types.SizesFor("gc", runtime.GOARCH)
	pkg, err := (&types.Config{Importer: importer.Default(), Sizes: sizes}).Check("vk", files, sources, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pkg.Scope().Names() {
		s, ok := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		if !ok || strings.HasSuffix(name, "Commands") {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s %d", name, sizes.Sizeof(s)))
		found := structure{name: name}
		var vars []*types.Var
		for i := range s.NumFields() {
			vars = append(vars, s.Field(i))
		}
		for i, offset := range sizes.Offsetsof(vars) {
			found.fields = append(found.fields, vars[i].Name())
			lines = append(lines, fmt.Sprintf("%s.%s %d %d", name, vars[i].Name(), offset, sizes.Sizeof(vars[i].Type())))
		}
		structs = append(structs, found)
	}
	return lines, structs
}

func TestStrings(t *testing.T) {
	text := Text("lavapipe")
	if got := StringAt(text); got != "lavapipe" {
		t.Errorf("%q", got)
	}
	if got := StringAt(nil); got != "" {
		t.Errorf("%q at nil", got)
	}
	for array, want := range map[string]string{"ab\x00cd": "ab", "abcd": "abcd", "": "", "\x00": ""} {
		if got := String([]byte(array)); got != want {
			t.Errorf("%q: %q, want %q", array, got, want)
		}
	}
	if Texts(nil) != nil {
		t.Error("an empty list is not nil")
	}
}

func TestResults(t *testing.T) {
	for r, want := range map[Result]string{Success: "VK_SUCCESS", ErrorDeviceLost: "VK_ERROR_DEVICE_LOST", -1000069000: "VkResult -1000069000"} {
		if r.String() != want {
			t.Errorf("%d: %v, want %s", int32(r), r, want)
		}
	}
}

// TestLoad refuses libraries that are no loader.
func TestLoad(t *testing.T) {
	if Supported != "" {
		t.Skip(Supported)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.so")); err == nil {
		t.Error("a file that is not there is a loader")
	}
	if runtime.GOOS == "linux" {
		if _, err := Load("libc.so.6"); err == nil || !strings.Contains(err.Error(), "libc.so.6 is no loader of Vulkan") {
			t.Errorf("libc is a loader: %v", err)
		}
	}
}
