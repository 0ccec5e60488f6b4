package vir

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write op_names.go and the table of docs/vir.md")

// TestOpsAreWritten holds the constants in op_names.go and the table in docs/vir.md to the rows of operations.
func TestOpsAreWritten(t *testing.T) {
	const doc, begin, end = "../../docs/vir.md", "<!-- operations -->\n", "<!-- /operations -->\n"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, opens := strings.Cut(string(text), begin)
	_, tail, closes := strings.Cut(rest, end)
	if !opens || !closes {
		t.Fatalf("%s has no marks around its operations", doc)
	}
	written(t, doc, head+begin+table()+end+tail)
	written(t, "op_names.go", constants(t))
}

// written compares a file with text, or with -update writes it.
func written(t *testing.T, path, text string) {
	t.Helper()
	old, err := os.ReadFile(path)
	if err == nil && string(old) == text {
		return
	}
	if !*update {
		t.Errorf("%s is not what the rows say: go generate ./ir/vir rewrites it", path)
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// table is a row of docs/vir.md for each operation.
func table() string {
	var b strings.Builder
	b.WriteString("| form | types | result |\n|---|---|---|\n")
	for _, op := range Ops() {
		x := &ops[op]
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", x.form(), x.typ.sig, strings.ReplaceAll(x.means, "|", `\|`))
	}
	return b.String()
}

// form is an operation as it stands in text: "dot4unit c a b imm".
func (x *opInfo) form() string {
	words := []string{x.name}
	if x.mem {
		words = append(words, "mem")
	}
	if x.apart {
		words = append(words, "by", "apart")
	}
	for _, w := range []string{x.args, x.imm} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// constants is the Go file that names the operations by their numbers.
func constants(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("// Code generated from the rows in ops.go by go generate; DO NOT EDIT.\n\npackage vir\n\n// The operations, by the numbers of their rows.\nconst (\n")
	of := " Op = iota"
	for _, x := range ops {
		fmt.Fprintf(&b, "Op%s%s // %s\n", x.id, of, x.means)
		of = ""
	}
	b.WriteString(")\n")
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRows: every operation has a name of its own, a type rule, an evaluation and a meaning, and its arguments have one letter each.
func TestRows(t *testing.T) {
	names := map[string]bool{}
	for _, op := range Ops() {
		x := &ops[op]
		if names[x.name] || x.typ.ok == nil || x.eval == nil || x.means == "" {
			t.Errorf("%v: the name is there twice, or the row lacks a type rule, an evaluation or a meaning", op)
		}
		names[x.name] = true
		if len(strings.Fields(x.args)) != op.NumArgs() {
			t.Errorf("%v has %d arguments, named %q", op, op.NumArgs(), x.args)
		}
	}
}

// TestDocExample compiles the example of docs/vir.md.
func TestDocExample(t *testing.T) {
	doc, err := os.ReadFile("../../docs/vir.md")
	if err != nil {
		t.Fatal(err)
	}
	example := strings.Split(string(doc), "```\n")[1]
	if have := mustParse(t, example).String(); have != example {
		t.Errorf("prints\n%s", have)
	}
}
