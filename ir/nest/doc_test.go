package nest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDoc compares the last section of docs/ir.md with statements, kinds of
// loops and the text of a nest.
func TestDoc(t *testing.T) {
	doc, err := os.ReadFile("../../docs/ir.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "\n## Loop nests\n")
	if !ok {
		t.Fatal("docs/ir.md has no section Loop nests")
	}
	var have []string
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "`")
			have = append(have, name)
		}
	}
	if want := append(statements(t), kindNames[:]...); !slices.Equal(have, want) {
		t.Errorf("docs/ir.md lists %q; there are %q", have, want)
	}
	n := nestOf(t, dot("ko", m(2, Unrolled), ko(4, 0), ki(4, Vector)).below("ko", Keep{Name: "ki"}), 8)
	if !strings.Contains(text, "```\n"+n.String()+"```\n") {
		t.Errorf("docs/ir.md does not have\n%s", n)
	}
	checkDot(t, n, 2, 8, false)
}

// statements lists the types that are a Stmt.
func statements(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "nest.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "isStmt" {
			out = append(out, fn.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
		}
	}
	return out
}
