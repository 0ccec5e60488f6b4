package ir

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// section is the text of docs/ir.md under a heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	doc, err := os.ReadFile("../docs/ir.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(doc), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("docs/ir.md has no section %s", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// firstColumn lists the code in the first cells of a section's table rows.
func firstColumn(text string) []string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "` | ")
			out = append(out, strings.ReplaceAll(name, `\|`, "|"))
		}
	}
	return out
}

// receivers lists the types of a file that have the method.
func receivers(t *testing.T, file, method string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == method {
			out = append(out, fn.Recv.List[0].Type.(*ast.Ident).Name)
		}
	}
	return out
}

func TestDocLists(t *testing.T) {
	if have, want := firstColumn(section(t, "Expressions")), receivers(t, "expr.go", "isExpr"); !slices.Equal(have, want) {
		t.Errorf("docs/ir.md lists the nodes %q; there are %q", have, want)
	}
	if have := firstColumn(section(t, "Operations")); !slices.Equal(have, opNames[:]) {
		t.Errorf("docs/ir.md lists the operations %q; there are %q", have, opNames)
	}
}

// The graphs of the document are the text that graphs print.
func TestDocGraphs(t *testing.T) {
	ternary := Problem{Weight: weight(t, "ternary")}
	d, err := ElementLUT(ternary.Weight, 2)
	if err != nil {
		t.Fatal(err)
	}
	lut, err := ElementLUTGraph(ternary, d)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		heading string
		g       *Graph
	}{
		{"The product", Matmul(Problem{Weight: weight(t, "w2-g32"), Act: format.Act{Group: 16}})},
		{"The product", Matmul(Problem{Weight: weight(t, "w2-g16-s64-m"), Act: format.Act{Group: 32}})},
		{"Activations in f32", Matmul(floatProblem(t, "w1", 0))},
		{"Lookup tables", lut},
	} {
		heading, g := x.heading, x.g
		if !strings.Contains(section(t, heading), "```\n"+g.String()+"```\n") {
			t.Errorf("docs/ir.md, %s, does not have\n%s", heading, g)
		}
	}
}
