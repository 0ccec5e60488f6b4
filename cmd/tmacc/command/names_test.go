package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/order"
)

// goToModule goes to the root of a new module that requires tmacc, and returns the names of its files.
func goToModule(t *testing.T) []string {
	t.Helper()
	root := gomod.Checkout()
	t.Chdir(t.TempDir())
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.sum": string(sums),
		"go.mod": "module example.com/mine\n\ngo 1.26.0\n\nrequire " + gomod.Path + " v0.0.0\n\nreplace " + gomod.Path + " => " + root + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod")
	return all(t)
}

// all are the names of all that is in this directory and below it.
func all(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// namedFormat is a file with a format of that name.
func namedFormat(t *testing.T, name string) string {
	t.Helper()
	return file(t, name+".json", `{"name":"`+name+`","bits":2,"levels":[-1,0,1],"per":"row","scale":"f32"}`)
}

// Names that Go cannot build are refused, and nothing is written, whether compile is called or only asked what it would do.
func TestNamesRefused(t *testing.T) {
	there := goToModule(t)
	if err := os.Symlink("nowhere", "link"); err != nil {
		t.Skip(err) // of Windows
	}
	there = append(there, "link")
	model, err := filepath.Abs(filepath.Join(gomod.Checkout(), "testdata", "gguf", "llama-q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	tensors := namedFormat(t, "tensors")
	for _, c := range []struct {
		want string
		args []string
	}{
		{`-o "a b": the go command takes no package of this path: "a b" has the character ' '`, []string{"-o", "a b"}},
		{`-o é: the go command takes no package of this path: "é" has the character 'é'`, []string{"-o", "é"}},
		{`-o a@b: the go command takes no package of this path: "a@b" has the character '@'`, []string{"-o", "a@b"}},
		{`-o ./-x: the go command takes no package of this path: "-x" begins with '-'`, []string{"-o", "./-x"}},
		{`-o k/aux.go: the go command takes no package of this path: Windows takes "aux.go" for a device`, []string{"-o", "k/aux.go"}},
		{`-o vendor: in vendor the go command keeps copies`, []string{"-o", "vendor"}},
		{`-o vendor/k: in vendor the go command keeps copies`, []string{"-o", "vendor/k", "-module", "example.com/k"}},
		{`-o "a\nb": the go command builds nothing in a directory whose name has line breaks`, []string{"-o", "a\nb"}},
		{`-o link: is a link to nothing: make the directory that it leads to, or remove it`, []string{"-o", "link"}},
		{`-o link/k: link is a link to nothing`, []string{"-o", "link/k"}},
		{`-o go.mod/k: go.mod is not a directory`, []string{"-o", "go.mod/k"}},
		{`-package init: the name must not be main, init or documentation`, []string{"-package", "init"}},
		{`-package documentation: the name must not be`, []string{"-package", "documentation"}},
		{`-package "a b": the name must be lower-case letters and digits`, []string{"-package", "a b"}},
		{`-module "a//b": want a path that the go command takes: a part of it is empty`, []string{"-module", "a//b"}},
		{`-module "-a": want a path that the go command takes: "-a" begins with '-'`, []string{"-module=-a"}},
		{`-module "k/con": want a path that the go command takes: Windows takes "con" for a device`, []string{"-module", "k/con"}},
		{`-o kernels: a module main would have a name that means something else to the go command`, []string{"-module", "main"}},
		{`product Tensors: declares Tensors, and so does the list of the model's tensors: rename one (-kernel name=NAME,format=FORMAT renames a product)`, []string{model, "-format", tensors}},
		{`product W3Pack: declares W3Pack, and so does product W3`, []string{"-format", "w3", "-kernel", "name=W3Pack,format=" + tensors}},
		{`products AB and Ab: the names of their functions in assembly would both begin with ab_`, []string{"-kernel", "name=AB,format=w2", "-kernel", "name=Ab,format=w2"}},
	} {
		for _, how := range []string{"-dry-run", "-check", "-q"} {
			args := append([]string{how, "-target", "avx2", "-no-measure"}, c.args...)
			if !slices.ContainsFunc(c.args, func(a string) bool { return strings.HasSuffix(a, ".gguf") || strings.Contains(a, "format") }) {
				args = append(args, "-format", "w2")
			}
			refused(t, refusal{exitUsage, c.want, "compile"}, args...)
		}
		slices.Sort(there)
		if now := all(t); !slices.Equal(slices.Sorted(slices.Values(now)), there) {
			t.Fatalf("%v: there are %v", c.args, now)
		}
	}
}

// must is data that was read.
func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

// Odd names that Go can build are taken: the package is built, vetted and tested.
func TestNamesTaken(t *testing.T) {
	needMeasuring(t)
	goToModule(t)
	taken := filepath.Join("_x", ".y", "testdata", "x_windows", "a+b~c", "internal", "k_test")
	ok(t, "compile", "-q", "-no-measure", "-target", "avx2", "-o", taken, "-package", "runtime",
		"-format", namedFormat(t, "main"), "-format", namedFormat(t, "tensors"), "-format", namedFormat(t, "-_."), "-kernel", "name=TestW2,format=w2")
	own := filepath.Join("a b", "é@:'#", "-x")
	ok(t, "compile", "-q", "-no-measure", "-target", "avx2", "-o", own, "-package", "nil", "-module", "example.com/.k/x.go", "-format", "w2")
}

// A file by somebody else that has the name of one of the package is found before anything is compiled.
func TestForeignFiles(t *testing.T) {
	goToModule(t)
	for _, name := range []string{"low.go", "low_test.go", "low_noasm.go", "low_stubs_amd64.go", "low_dispatch_arm64.go", "low_avx2_amd64.s"} {
		if err := os.WriteFile(name, []byte("package low\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, how := range []string{"-dry-run", "-q"} {
			refused(t, refusal{exitUsage, "tmacc: " + name + ": was not written by tmacc and has the name of a file of the package", "compile -format w2 -target avx2,neon -o . -package low " + how})
		}
		os.Remove(name)
	}
	for _, name := range []string{"low_mine.go", "low_tensors.go", "low_avx512_amd64.s"} { // which the package does not have
		if err := os.WriteFile(name, []byte("package low\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "compile", "-dry-run", "-format", "w2", "-target", "avx2,neon", "-o", ".", "-package", "low")
}

// tmacc lower refuses names that its declaration in Go, or the comment with the package, cannot have.
func TestLowerNames(t *testing.T) {
	vir := func(name, param string) string {
		return file(t, "f.vir", "func "+name+"("+param+" ptr)\n\tv0:u8x32 = load "+param+"+0\n\tstore "+param+"+0 v0\n")
	}
	for _, name := range []string{"init", "main", "int64", "nil", "unsafe", "type", "_"} {
		refused(t, refusal{exitUsage, "vir: line 1: " + name + " is a word or a name of Go", "lower -target avx2"}, vir(name, "a"))
	}
	ok(t, "lower", "-target", "avx2", "-package", "main", vir("Dot", "int64"))
	for pkg, want := range map[string]string{"a\nb": `-package "a\nb": want the name of a Go package`, "": `-package "": want the name of a Go package`, "func": "-package func: want"} {
		refused(t, refusal{exitUsage, want, "lower -target avx2"}, "-package", pkg, vir("f", "a"))
	}
}

// What commands write to a link to nothing is refused, by the name that the user knows, before anything is measured.
func TestDanglingLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Symlink("nowhere", "link"); err != nil {
		t.Skip(err) // of Windows
	}
	const said = "tmacc: -o link: is a link to nothing: make the directory that it leads to, or remove it"
	for _, args := range []string{"compile -format w2 -target avx2 -o link", "tune -format w2 -o link", "report -log none -o link"} {
		refused(t, refusal{exitUsage, said, args})
	}
	refused(t, refusal{exitUsage, "tmacc: link: is a link to nothing", "lower -target avx2 -o link"}, file(t, "f.vir", "func f(a ptr)\n\tv0:u8x32 = load a+0\n\tstore a+0 v0\n"))
}

// A -kernel that is wrong says which of the things that it may be wrong in it is.
func TestKernelCauses(t *testing.T) {
	for kernel, want := range map[string]string{
		"name=A,format":            `-kernel: "format": want key=value, with a key of act-group, format, max-k, name, target, trace`,
		"name=A,format=":           `-kernel: "format=": want key=value, with a key of act-group`,
		"name=A,fromat=w2":         `-kernel: "fromat=w2": unknown key "fromat": have act-group, format, max-k, name, target, trace`,
		"name=A,name=B,format=w2":  `-kernel: "name=A,name=B,format=w2": name is there twice`,
		"name=A,format=w2,max-k=x": `-kernel: "max-k=x": want a number`,
	} {
		refused(t, refusal{exitUsage, want, "compile -dry-run -kernel " + kernel})
	}
	const first = "compile -dry-run -target avx2,neon -kernel name=A,format=w2,target=avx2,trace="
	trace := file(t, "t.json", json1(t, ok(t, "show", "-format", "w2", "-target", "avx2", "-stage", "trace")))
	refused(t, refusal{exitUsage, "kernel A: entries of one name are one product: these differ in act-group (0, 64)", first + trace + " -kernel name=A,format=w2,act-group=64,target=neon,trace=" + trace})
}

// The package of the Go file with go:generate is that of the kernels, for go generate and for -check without it.
func TestPackageOfNeighbour(t *testing.T) {
	goToModule(t)
	if err := os.Mkdir("gen", 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"gen.go":         "// Package mine is.\npackage mine\n",
		"gen_test.go":    "package gen_test\n",
		order.ConfigName: "format: w2\ntarget: avx2\nno-check: true\n",
	} {
		if err := os.WriteFile(filepath.Join("gen", name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join("gen", order.ConfigName)
	ok(t, "compile", "-q", "-config", config)
	out := ok(t, "compile", "-check", "-config", config)
	if !strings.Contains(out, "package mine in gen is up to date") {
		t.Error(out)
	}
	refused(t, refusal{exitUsage, "is of package mine, the kernels beside it would be of other", "compile -dry-run -package other -config " + config})
}
