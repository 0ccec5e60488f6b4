package model_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoLoops: no loop of the package computes with elements of float32 slices. Operators of package ops do.
func TestNoLoops(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || path == "memory_other.go" {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if found := floatLoops(t, fset, files); len(found) > 0 {
		t.Errorf("loops over float elements at %s", strings.Join(found, ", "))
	}
	bad, err := parser.ParseFile(fset, "bad.go", `package bad
		func sum(x []float32, y [4]float32) (s float32) {
			for _, v := range x { s += v }
			for i := range x { x[i] = 0 }
			for i := 0; i < 3; i++ { for range 2 { s *= y[i] } }
			for i := range x { copy(x[i:], y[:]) }
			return x[0]
		}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := floatLoops(t, fset, []*ast.File{bad}); strings.Join(found, " ") != "bad.go:3 bad.go:4 bad.go:5" {
		t.Errorf("found %s", found)
	}
}

// floatLoops are the places in loops where an element of a slice or array of float32 is read or written.
func floatLoops(t *testing.T, fset *token.FileSet, files []*ast.File) (found []string) {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	if _, err := config.Check("model", fset, files, info); err != nil {
		t.Fatal(err)
	}
	floats := func(x ast.Expr) bool {
		switch v := info.Types[x].Type.Underlying().(type) {
		case *types.Slice:
			return v.Elem() == types.Typ[types.Float32]
		case *types.Array:
			return v.Elem() == types.Typ[types.Float32]
		}
		return false
	}
	add := func(n ast.Node) {
		p := fset.Position(n.Pos())
		at := filepath.Base(p.Filename) + ":" + strings.Split(p.String(), ":")[1]
		if len(found) == 0 || found[len(found)-1] != at {
			found = append(found, at)
		}
	}
	inside := func(body ast.Node) {
		ast.Inspect(body, func(n ast.Node) bool {
			if x, ok := n.(*ast.IndexExpr); ok && info.Types[x.X].IsValue() && floats(x.X) {
				add(x)
			}
			return true
		})
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.RangeStmt:
				if n.Value != nil && floats(n.X) {
					add(n)
				}
				inside(n.Body)
			case *ast.ForStmt:
				inside(n.Body)
			}
			return true
		})
	}
	return found
}
