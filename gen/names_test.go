package gen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/lower"
)

// put writes a file and the folders above it.
func put(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// CheckPackage takes names of packages that build, and can be imported; names that do not are refused.
func TestCheckPackageIsGos(t *testing.T) {
	dir := t.TempDir()
	put(t, "module example.com/mine\n\ngo 1.26.0\n", dir, "go.mod")
	for _, name := range []string{"kern", "test", "int", "error", "nil", "runtime", "fmt", "windows", "linux", "amd64", "builtin", "main", "init", "documentation", "func"} {
		put(t, "package "+name+"\n\nfunc F() int { return 1 }\n", dir, name, "p", name+".go")
		put(t, "package "+name+"\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { F() }\n", dir, name, "p", name+"_test.go")
		put(t, "package use\n\nimport \"example.com/mine/"+name+"/p\"\n\nvar X = "+name+".F\n", dir, name, "use", "use.go")
		out, err := try(dir, nil, "vet", "./"+name+"/...")
		if problem := gen.CheckPackage(name); (problem != nil) != (err != nil) {
			t.Errorf("%s: %v, and the go command says %v %s", name, problem, err, out)
		}
	}
	for _, name := range []string{"", "My", "my-pkg", "my_pkg", "1", "é", "nul", "com1", strings.Repeat("a", 201)} {
		if gen.CheckPackage(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

// Functions in assembly have no name that means something in the files that declare them.
func TestCheckKernel(t *testing.T) {
	for name, fits := range map[string]bool{"w2_avx2_n1": true, "f": true, "int64": false, "error": false, "len": false, "nil": false, "init": false, "runtime": false, "format": false, "func": false, "W2": false, "w2-n1": false, "": false} {
		if problem := gen.CheckKernel(name); (problem == nil) != fits {
			t.Errorf("%q: %v", name, problem)
		}
	}
}

// Names that Go cannot build are refused by Check, before anything is compiled, and by Package.
func TestNamesRefused(t *testing.T) {
	tensor := gen.Tensor{Name: "output.weight", M: 1, K: 96, Count: 1}
	for want, edit := range map[string]func(*gen.Spec){
		"gen: product Tensors: declares Tensors, and so does the list of the model's tensors: rename one": func(s *gen.Spec) { s.Products[2].Name = "Tensors" },
		"gen: product Q4Pack: declares Q4Pack, and so does product Q4: rename one":                        func(s *gen.Spec) { s.Products[2].Name = "Q4Pack" },
		"gen: package init: the name must not be main, init or documentation":                             func(s *gen.Spec) { s.Package = "init" },
		"gen: package nul: Windows takes the name for a device":                                           func(s *gen.Spec) { s.Package = "nul" },
		"gen: module \"a b\": the go command does not take the path: \"a b\" has the character ' '":       func(s *gen.Spec) { s.Module = &gen.Module{Path: "a b"} },
		"gen: tensor output.weight: is there twice":                                                       func(s *gen.Spec) { s.Tensors = append(s.Tensors, tensor) },
		"gen: tensor x: is for product 3; there are products 0 to 2":                                      func(s *gen.Spec) { s.Tensors = []gen.Tensor{{Name: "x", Product: 3, M: 1, K: 1, Count: 1}} },
		"gen: tensor x: has 1 matrices of 0 rows of 1 elements; each number must be at least 1":           func(s *gen.Spec) { s.Tensors = []gen.Tensor{{Name: "x", M: 0, K: 1, Count: 1}} },
	} {
		s := toySpec(t)
		edit(&s)
		_, err := gen.Package(s)
		for i := range s.Products {
			s.Products[i].Variants = nil
		}
		for how, err := range map[string]error{"Package": err, "Check": gen.Check(s)} {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", how, err, want)
			}
		}
	}
	s := toySpec(t)
	s.Products[2].Name, s.Tensors = "Tensors", nil // without a list of tensors it is a name like others
	if err := gen.Check(s); err != nil {
		t.Error(err)
	}
}

// A directory that is a link to nothing is said to be one.
func TestWriteToDanglingLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Skip(err) // of Windows
	}
	if err := gen.Write(link, nil); err == nil || err.Error() != "gen: "+link+": is a link to nothing" {
		t.Error(err)
	}
}

// FileNames lists exactly the files of a package.
func TestFileNames(t *testing.T) {
	s := toySpec(t)
	ts := map[string]lower.Target{}
	for _, p := range s.Products {
		for _, target := range p.Variants {
			ts[target.Target.Machine().Name] = target.Target
		}
	}
	var all []lower.Target
	for _, target := range ts {
		all = append(all, target)
	}
	for _, tensors := range []bool{true, false} {
		if !tensors {
			s.Tensors = nil
		}
		files, err := gen.Package(s)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		if got := gen.FileNames(s.Package, all, tensors); strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("%v, want %v", got, names)
		}
	}
}
