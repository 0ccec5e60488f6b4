package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/targets"
)

// nameless are the folders that know no format and no family by name, apart from exceptions.
var nameless = []string{"ir/nest", "ir/vir", "schedule", "lower", "search", "gen", "runtime"}

// exceptions lists names that files of these folders, or whole folders, use all the same.
var exceptions = []struct {
	path  string
	names []string // nil: any
}{
	{"gen/files.go", []string{"gguf", "q4_0"}},          // an example in what it writes for users
	{"gen/names.go", []string{"gguf"}},                  // a package that these import
	{"gen/order/models.go", nil},                        // published models are stored in formats
	{"gen/order/", []string{"gguf"}},                    // finds the matrices of such files
	{"gen/tensors.go", []string{"gguf"}},                // writes constructors that read such files
	{"runtime/tensors.go", []string{"gguf"}},            // reads such files
	{"runtime/model/token/", []string{"gguf", "ggml"}},  // reads such files, whose keys have that name
	{"runtime/foreign.go", []string{"gguf"}},            // tells such files from its own
	{"search/kernels/needed.go", []string{"gguf"}},      // reads such files
	{"search/measure/rules.go", nil},                    // limits are of formats
	{"search/measure/ggml/", nil},                       // binds a system and says so
	{"search/measure/llama/", []string{"ggml", "gguf"}}, // binds a system that loads such files
	{"search/bench/duel/", []string{"gguf"}},            // measures the model of such a file
	{"search/bench/peer/", []string{"ggml"}},            // measures products beside it
	{"search/synthetic/", nil},                          // published models are stored in formats
	{"search/picture/svg.go", []string{"w3"}},           // the maker of the standard
	{"runtime/model/rows.go", nil},                      // architectures are named after model families
	{"runtime/model/", []string{"gguf", "ggml"}},        // reads such files, whose keys have that name
	{"search/bench/inference/", []string{"gguf"}},       // measures the model of such a file
}

// excepted says that a place may name what it does.
func excepted(at, name string) bool {
	for _, x := range exceptions {
		if strings.HasPrefix(at, x.path) && (x.names == nil || slices.Contains(x.names, strings.ToLower(name))) {
			return true
		}
	}
	return false
}

// families are names of systems, families and formats beyond the table's.
var families = []string{
	"bitserial", "tmac", "ggml", "gguf", "bitnet", "bitblas", "ladder", "lut", "iq4", "iq4nl", "nf4", "ternary",
	"tl1", "tl2", "i2s", "i2_s", "tq1_0", "tq2_0", "q1_0", "q4_0", "q4_1", "q8_0", "mxfp4",
}

// TestNoNames: no format and no family of decompositions is named, as a word of an
// identifier or in a string, where the compiler must work for all of them.
func TestNoNames(t *testing.T) {
	names := append(format.Names(), families...)
	inText := regexp.MustCompile(`(?i)\b(` + strings.Join(names, "|") + `)\b`)
	for _, dir := range nameless {
		sources(t, dir, func(file *ast.File, at func(ast.Node) string) {
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					for _, word := range identWords(n.Name) {
						if slices.Contains(names, word) && !excepted(at(n), word) {
							t.Errorf("%s: %s names %s", at(n), n.Name, word)
						}
					}
				case *ast.BasicLit:
					for _, name := range inText.FindAllString(n.Value, -1) {
						if n.Kind == token.STRING && !excepted(at(n), name) {
							t.Errorf("%s: %s names %s", at(n), n.Value, name)
						}
					}
				}
				return true
			})
		})
	}
}

// asShader is a part of a shader as people or tools write it: an instruction of SPIR-V with operands, or GLSL, HLSL, WGSL or OpenCL C.
var asShader = regexp.MustCompile(`%\w+ *= *Op[A-Z]|\bOp[A-Z]\w+ %|#version|\bvoid main\b|\bgl_[A-Z]|numthreads|@compute|\b__kernel\b`)

// TestNoShaderText: shaders come out of the vector IR. What compiles and runs them has no text of a shader, and no module in a file; only the float operators are modules in files, which
// go generate writes.
func TestNoShaderText(t *testing.T) {
	for text, want := range map[string]bool{"%7 = OpIAdd %uint %1 %2": true, "OpStore %1 %2": true, "layout(local_size_x = 64) in; void main() {": true, "OpIAdd": false, "has no %s": false} {
		if asShader.MatchString(text) != want {
			t.Errorf("%q: a text of a shader: %v, want %v", text, !want, want)
		}
	}
	for _, dir := range []string{"lower/spirv", "search/shaders", "search/build", "gen", "runtime/vulkan", "runtime/device"} {
		sources(t, dir, func(file *ast.File, at func(ast.Node) string) {
			for _, x := range file.Imports {
				if x.Path.Value == `"embed"` {
					t.Errorf("%s: embeds files", at(x))
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if x, ok := n.(*ast.BasicLit); ok && x.Kind == token.STRING && asShader.MatchString(x.Value) {
					t.Errorf("%s: is a text of a shader: %.80s", at(x), x.Value)
				}
				return true
			})
		})
	}
}

// machines are names of processors, and of makers as CPUs report them. The names of the built-in cores come on top.
var machines = []string{
	`zen ?[1-9]`, `golden ?cove`, `lion ?cove`, `skymont`, `neoverse`, `cortex`, `apple m[1-9]`, `(emerald|sapphire|granite) rapids`,
	`(ice|lunar|arrow|alder|raptor|sky|cascade) ?lake`, `haswell`, `epyc`, `ryzen`, `xeon`, `hygongenuine`, `genuineintel`,
}

// namesMachines are other files that may name machines, and the reason. The files of cores and the lists of cores come on top.
var namesMachines = map[string]string{
	"search/timing/host.go": "says to people what processor a number stands for",
}

// TestNoMachines: a machine is named in the file of its core only, and in tests and docs.
func TestNoMachines(t *testing.T) {
	names := machines
	for _, c := range targets.Cores() {
		names = append(names, strings.ReplaceAll(c.Name, "-", "[ _-]?"))
		at := fmt.Sprintf("lower/%s/%s.go", strings.Split(c.ISAs[0], "/")[0], strings.ReplaceAll(c.Name, "-", "_"))
		if _, err := os.Stat("../" + at); err != nil {
			t.Errorf("%s has no file of its own: %v", c.Name, err)
		}
		namesMachines[at] = "is the file of a core"
	}
	for _, arch := range []string{"amd64", "arm64"} {
		namesMachines["lower/"+arch+"/core.go"] = "lists the cores"
	}
	named := regexp.MustCompile(`(?i)(` + strings.Join(names, "|") + `)`)
	found := map[string]bool{}
	for _, dir := range []string{"cmd", "examples", "gen", "ir", "lower", "runtime", "schedule", "search"} {
		err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			at := strings.TrimPrefix(filepath.ToSlash(path), "../")
			for i, line := range strings.Split(string(text), "\n") {
				if name := named.FindString(line); name != "" {
					if found[at] = true; namesMachines[at] == "" {
						t.Errorf("%s:%d names %s", at, i+1, name)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	for at := range namesMachines {
		if !found[at] && !strings.HasSuffix(at, "/core.go") {
			t.Errorf("%s names no machine: it is no exception", at)
		}
	}
}

// TestFeatures: what targets need are instruction sets that CPUs of any maker may have, and that are found at run time.
func TestFeatures(t *testing.T) {
	ofOneMaker := []string{"SSE4A", "XOP", "FMA4", "TBM", "LWP", "CLZERO", "WBNOINVD", "SGX", "TME", "HYPERVISOR"}
	for _, tg := range targets.All() {
		for _, f := range targets.Features(tg) {
			if cpuid.ParseFeature(f) == cpuid.UNKNOWN || slices.Contains(ofOneMaker, f) {
				t.Errorf("%s needs %s", tg.Machine().Name, f)
			}
		}
	}
}

// identWords is an identifier, and the words its capitals make, in lower case.
func identWords(name string) []string {
	out := []string{strings.ToLower(name)}
	for _, w := range camel.FindAllString(name, -1) {
		out = append(out, strings.ToLower(w))
	}
	return out
}

var camel = regexp.MustCompile(`[A-Z]+[a-z0-9_]*|[a-z0-9_]+`)

// Where functions and instructions of vector IR are made. Package vir makes them
// from text.
var (
	makesFuncs = map[string]string{
		"lower/vectorize.go":       "from loop nests",
		"lower/constants.go":       "of one operation, to evaluate it",
		"lower/spirv/peak/peak.go": "loops of registers alone, to measure a device",
	}
	makesInstrs = []string{"lower/"} // passes and expansions
)

// TestVirIsVectorized: outside package vir, no code makes functions of vector IR
// but the vectorizer, and none makes instructions but the passes and expansions
// of lower.
func TestVirIsVectorized(t *testing.T) {
	for _, dir := range []string{"cmd", "gen", "ir/format", "ir/nest", "lower", "runtime", "schedule", "search"} {
		sources(t, dir, func(file *ast.File, at func(ast.Node) string) {
			ast.Inspect(file, func(n ast.Node) bool {
				path, _, _ := strings.Cut(at(file), ":")
				switch made(n) {
				case "Func":
					if makesFuncs[path] == "" {
						t.Errorf("%s: makes a vir.Func", at(n))
					}
				case "Instr", "Loop":
					if !slices.ContainsFunc(makesInstrs, func(d string) bool { return strings.HasPrefix(path, d) }) {
						t.Errorf("%s: makes a vir.%s", at(n), made(n))
					}
				}
				return true
			})
		})
	}
}

// made is the type of package vir that n is a literal or a new value of.
func made(n ast.Node) string {
	var typ ast.Expr
	switch n := n.(type) {
	case *ast.CompositeLit:
		typ = n.Type
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 {
			typ = n.Args[0]
		}
	}
	if s, ok := typ.(*ast.SelectorExpr); ok {
		if p, ok := s.X.(*ast.Ident); ok && p.Name == "vir" {
			return s.Sel.Name
		}
	}
	return ""
}

// sources parses the files of a folder of the module, and of those within it,
// that are no tests.
func sources(t *testing.T, dir string, visit func(file *ast.File, at func(ast.Node) string)) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		files++
		visit(file, func(n ast.Node) string {
			return strings.TrimPrefix(filepath.ToSlash(fset.Position(n.Pos()).String()), "../")
		})
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%s: %d files, %v", dir, files, err)
	}
}
