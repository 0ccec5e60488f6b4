package build

import (
	"fmt"
	"go/token"
	"sort"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// TextStages compile a function of vector IR, written as docs/vir.md says, for a target: vir, passes, machine, asm of package pkg, and go. The
// error of vir is a *vir.SyntaxError with the line. Shaders have neither machine nor go.
func TextStages(text, pkg string, t lower.Selector) []Stage {
	var s stages
	f, err := parse(text)
	if err != nil {
		return s.fail(VirStage, err)
	}
	s.add(VirStage, f, f.String())
	if k, ok := s.lower(f, pkg, t); ok && k != nil {
		s.add(GoStage, declaration(f), declaration(f))
	}
	return s
}

// parse is the function of a text, which can be declared in Go.
func parse(text string) (*vir.Func, error) {
	f, err := vir.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := vir.Verify(f); err != nil {
		return nil, &vir.SyntaxError{Line: lineOf(text), Problem: strings.TrimPrefix(err.Error(), "vir: ")}
	}
	for i, name := range goNames(f) {
		if token.IsKeyword(name) || i == 0 && (gen.Meant(name) || name == "unsafe") { // the declaration imports unsafe
			return nil, &vir.SyntaxError{Line: 1, Problem: fmt.Sprintf("%s is a word or a name of Go's own, which would not take its declaration: choose another name", name)}
		}
	}
	return f, nil
}

// goNames are the names in the declaration of f, its own first.
func goNames(f *vir.Func) []string {
	names := []string{f.Name}
	for _, p := range f.Params {
		names = append(names, p.Name)
	}
	return names
}

// lineOf is the number of the line at which text, which parses, stops to verify:
// the last line of the shortest beginning that does not verify.
func lineOf(text string) int {
	lines := strings.Split(text, "\n")
	return 1 + sort.Search(len(lines)-1, func(n int) bool {
		f, err := vir.Parse(closed(lines[:n+1]))
		return err == nil && vir.Verify(f) != nil
	})
}

// closed ends the loops that are open after some lines of a function.
func closed(lines []string) string {
	open := 0
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "//")
		switch words := strings.Fields(line); {
		case len(words) > 0 && words[0] == "loop":
			open++
		case len(words) > 0 && words[0] == "end":
			open--
		}
	}
	return strings.Join(lines, "\n") + strings.Repeat("\nend", max(open, 0))
}

// declaration is the Go declaration of f, as a comment.
//
//	// type dotArgs struct {
//	// 	x, out unsafe.Pointer
//	// 	n      int64
//	// }
//	//
//	// //go:noescape
//	// func dot(args *dotArgs)
func declaration(f *vir.Func) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n// The declaration in Go:\n//\n// type %sArgs struct {\n", f.Name)
	for _, p := range f.Params {
		typ := "unsafe.Pointer"
		if p.Int {
			typ = "int64"
		}
		fmt.Fprintf(&b, "// \t%s %s\n", p.Name, typ)
	}
	fmt.Fprintf(&b, "// }\n//\n// //go:noescape\n// func %s(args *%[1]sArgs)\n", f.Name)
	return b.String()
}
