package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGlossary: every Go name in the last column of docs/glossary.md is declared.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile("../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	declared, rows := declarations(t), 0
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") {
			continue
		}
		rows++
		for _, name := range goName.FindAllStringSubmatch(cells[3], -1) {
			if !declared[name[1]] {
				t.Errorf("%s: %s is not declared", strings.TrimSpace(cells[1]), name[1])
			}
		}
	}
	if rows < 25 {
		t.Errorf("%d rows", rows)
	}
}

// goName is a name of a package in backquotes.
var goName = regexp.MustCompile("`([a-z]+\\.[A-Z][\\w.]*)`")

// declarations has all exported types of this module and the fields of structs: "ir.Problem", "ir.Problem.Weight".
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "examples" || d.Name() == "docs"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				declare(all, f.Name.Name+"."+spec.Name.Name, spec.Type)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// declare adds a type and the fields that it has if it is a struct.
func declare(all map[string]bool, name string, of ast.Expr) {
	all[name] = true
	s, ok := of.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range s.Fields.List {
		for _, id := range field.Names {
			all[name+"."+id.Name] = true
		}
	}
}
