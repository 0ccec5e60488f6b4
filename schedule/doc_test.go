package schedule

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const docFile = "../docs/schedule.md"

// TestDoc holds docs/schedule.md to the code: its section of steps is made of
// their doc comments, its example compiles to the loops it shows.
func TestDoc(t *testing.T) {
	data, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	text := between(t, string(data), "steps", docSteps(t))
	_, rest, ok := strings.Cut(text, "```json\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("no JSON example")
	}
	var tr Trace
	if err := json.Unmarshal([]byte(example), &tr); err != nil {
		t.Fatal(err)
	}
	k, err := Compile(productOf(t, "w2"), tr)
	if err != nil {
		t.Fatal(err)
	}
	text = between(t, text, "nest", fmt.Sprintf("```\n%s```\n", k.Nest))
	text = between(t, text, "layout", fmt.Sprintf("```\n%s```\n", layoutText(k.Weights)))
	compare(t, docFile, text)
}

// between is text with what stands between the marks of a section replaced.
func between(t *testing.T, text, section, with string) string {
	t.Helper()
	head, rest, ok := strings.Cut(text, "<!-- "+section+" -->\n")
	_, tail, closed := strings.Cut(rest, "<!-- /"+section+" -->\n")
	if !ok || !closed {
		t.Fatalf("no marks of section %s", section)
	}
	return head + "<!-- " + section + " -->\n" + with + "<!-- /" + section + " -->\n" + tail
}

// docSteps is a section for each step, in the order of the table steps.
func docSteps(t *testing.T) string {
	comments, order := docComments(t)
	var b strings.Builder
	for _, name := range order {
		file, x := exampleOf(t, name)
		step, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		typ := fmt.Sprintf("%T", x)
		doc := comments[strings.TrimPrefix(typ, "schedule.")]
		fmt.Fprintf(&b, "### %s\n\n", name)
		var p comment.Parser
		var out comment.Printer
		b.Write(out.Markdown(p.Parse(doc)))
		fmt.Fprintf(&b, "\n`{%q:%s}` ([before and after](../schedule/testdata/%s.golden))\n\n", name, step, file)
	}
	return b.String()
}

// exampleOf is the first example of a step, and its golden file.
func exampleOf(t *testing.T, name string) (file string, x Step) {
	for _, x := range examples {
		if NameOf(x.step) == name {
			return x.name, x.step
		}
	}
	for _, x := range operatorExamples {
		if NameOf(x.step) == name {
			return x.name, x.step
		}
	}
	t.Fatalf("no example of %s", name)
	return "", nil
}

// docComments are the comments of this package's types, and the names of the
// steps in the order of their table.
func docComments(t *testing.T) (comments map[string]string, order []string) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	comments = map[string]string{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if spec, ok := n.Specs[0].(*ast.TypeSpec); ok {
					comments[spec.Name.Name] = n.Doc.Text()
				}
			case *ast.ValueSpec:
				if n.Names[0].Name == "steps" && strings.HasSuffix(name, "step.go") {
					for _, row := range n.Values[0].(*ast.CompositeLit).Elts {
						order = append(order, strings.Trim(row.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value, `"`))
					}
				}
			}
			return true
		})
	}
	if len(order) != len(steps) {
		t.Fatalf("found %d of %d steps", len(order), len(steps))
	}
	return comments, order
}
