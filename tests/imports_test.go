package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestImports holds the table of CONTRIBUTING.md: every package of the module
// stands in it and depends on packages of lines above its own only, and if its
// line has a colon, on those behind the colon only.
func TestImports(t *testing.T) {
	lines := importTable(t)
	type pkg struct {
		ImportPath string
		Deps       []string
	}
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Deps", "../...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name, ours := strings.CutPrefix(p.ImportPath, "github.com/tmacc/tmacc/")
		if !ours {
			continue
		}
		line := slices.IndexFunc(lines, func(l importLine) bool { return covers(l.names, name) })
		if line < 0 {
			t.Errorf("%s is not in the table of imports", name)
			continue
		}
		for _, dep := range p.Deps {
			if dep, ours := strings.CutPrefix(dep, "github.com/tmacc/tmacc/"); ours && !mayImport(lines, line, dep) {
				t.Errorf("%s depends on %s", name, dep)
			}
		}
	}
}

// importLine is a line of the table: packages, and what they are limited to.
type importLine struct{ names, only []string }

func importTable(t *testing.T) []importLine {
	t.Helper()
	doc, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "```imports\n")
	text, _, closed := strings.Cut(text, "```")
	if !ok || !closed {
		t.Fatal("CONTRIBUTING.md has no block imports")
	}
	var out []importLine
	for text := range strings.Lines(text) {
		names, only, limited := strings.Cut(text, ":")
		l := importLine{names: strings.Fields(names)}
		if limited {
			l.only = strings.Fields(only)
		}
		out = append(out, l)
	}
	return out
}

// covers reports whether one of the names is pkg, or ends in /... and pkg lies in it.
func covers(names []string, pkg string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		dir, all := strings.CutSuffix(name, "/...")
		return pkg == dir || all && strings.HasPrefix(pkg, dir+"/")
	})
}

func mayImport(lines []importLine, line int, dep string) bool {
	l := lines[line]
	if l.only != nil {
		return covers(l.only, dep)
	}
	return slices.ContainsFunc(lines[:line], func(l importLine) bool { return covers(l.names, dep) })
}
