package main

import (
	"fmt"
	"go/token"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

func (c *cli) lower() *cobra.Command {
	cmd := &cobra.Command{
		Use: "lower FILE.vir", Args: between(1, 1),
		Short: "compile vector IR to assembly",
		Long: `Compile a file of vector IR (docs/vir.md; - is standard input) to Go assembly. The
function takes a pointer to consecutive 8-byte words, its parameters; the Go
declaration stands at the end as a comment.`,
		Example: `  tmacc lower dot.vir -target avx512vbmi -o dot_amd64.s`,
	}
	f := cmd.Flags()
	target := f.String("target", "host", "target, see tmacc targets")
	out := f.StringP("output", "o", "", "`file` to write instead of standard output")
	pkg := f.String("package", "kernels", "name of the Go package in the assembly's comment")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if !token.IsIdentifier(*pkg) {
			return fmt.Errorf("-package %s: want the name of a Go package", quotedIfOdd(*pkg))
		}
		t, err := oneTarget(*target)
		if err != nil {
			return err
		}
		text, err := c.readText(args[0])
		if err != nil {
			return err
		}
		asm, err := lowerText(t, *pkg, string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if *out == "" {
			_, err = c.out.Write(asm)
			return err
		}
		return writeFile(*out, asm)
	}
	return cmd
}

// lowerText is the assembly of a function of vector IR.
func lowerText(t lower.Target, pkg, text string) ([]byte, error) {
	f, err := vir.Parse(text)
	if err != nil {
		return nil, err
	}
	if err := vir.Verify(f); err != nil {
		return nil, &vir.SyntaxError{Line: lineOf(text), Problem: strings.TrimPrefix(err.Error(), "vir: ")}
	}
	for i, name := range goNames(f) {
		if token.IsKeyword(name) || i == 0 && (gen.Meant(name) || name == "unsafe") { // which the declaration imports
			return nil, &vir.SyntaxError{Line: 1, Problem: fmt.Sprintf("%s is a word or a name of Go's own, which would not take its declaration: choose another name", name)}
		}
	}
	k, err := lower.Compile(t, f)
	if err != nil {
		return nil, err
	}
	asm, err := lower.Emit(t, pkg, k)
	if err != nil {
		return nil, err
	}
	return append(asm.Data, stub(f)...), nil
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
// the last one of the shortest beginning that does not.
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

// stub is the Go declaration of f, as a comment.
//
//	// type dotArgs struct {
//	// 	x, out unsafe.Pointer
//	// 	n      int64
//	// }
//	//
//	// //go:noescape
//	// func dot(args *dotArgs)
func stub(f *vir.Func) string {
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

// writeFile replaces a file at once, so that nobody sees a part of it.
func writeFile(path string, data []byte) error { return plain(gen.WriteFile(path, data)) }
