package vir

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocListsOps compares the table of docs/vir.md, but for its last column,
// with ops.
func TestDocListsOps(t *testing.T) {
	doc, err := os.ReadFile("../../docs/vir.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, line := range strings.Split(string(doc), "\n") {
		if strings.HasPrefix(line, "| `") {
			rows = append(rows, line)
		}
	}
	for i, op := range Ops() {
		want := docRow(op)
		if i >= len(rows) || !strings.HasPrefix(rows[i], want) || len(rows[i]) < len(want)+5 {
			t.Errorf("docs/vir.md: row %d must begin\n%s", i, want)
		}
	}
	if len(rows) != len(Ops()) {
		t.Errorf("docs/vir.md has %d rows for %d operations", len(rows), len(Ops()))
	}
}

func docRow(op Op) string {
	form := op.String()
	if op.HasMem() {
		form += " mem"
	}
	form += []string{"", " a", " a b", " a b c"}[op.NumArgs()]
	if op == OpDot4 || op == OpDot4Unit || op == OpMMLA || op == OpDot2 || op == OpDot1 {
		form = op.String() + " c a b"
	}
	switch {
	case op == OpSum2:
		form = op.String() + " c a"
	case op == OpConst:
		form += " cK"
	case op.HasImm():
		form += " imm"
	}
	return fmt.Sprintf("| `%s` | %s | ", form, ops[op].typ.sig)
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
