// Package mutation makes mutants of Go source: copies of a file in which one operator is
// exchanged. The tests of the file's package should notice every one. (The mutants of
// tests/mutants_test.go are something else: changed kernels.)
//
// The mutants of functions are compiled into one test binary, and an environment variable
// chooses one of them at run time:
//
//	func f(a, b int) int { return a + b }
//
// becomes
//
//	func mutant0_f(a, b int) int { return a + b } // the original
//	func mutant1_f(a, b int) int { return a - b }
//	func f(p0, p1 int) int {
//		switch mutantChosen {
//		case 1:
//			return mutant1_f(p0, p1)
//		}
//		return mutant0_f(p0, p1)
//	}
//
// A mutant outside of functions gets a binary of its own. The source tree stays as it is:
// the go command reads the changed file through an overlay.
package mutation

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
)

// Mutant is one change of a file.
type Mutant struct {
	N        int    // 1 and up, within the file
	Line     int    // of the file
	Function string // or Type.Method, or "" outside of functions
	From, To string // the expression or statement before and after, each on one line

	fn       *ast.FuncDecl // nil outside of functions
	at, end  int           // the bytes of the file that
	operator string        // takes the place of
}

// String names m by its text, so that the name stays the same when lines move.
func (m *Mutant) String() string {
	where := m.Function
	if where == "" {
		where = "declarations"
	}
	return fmt.Sprintf("%s: %s => %s", where, m.From, m.To)
}

// File is a parsed file and its mutants.
type File struct {
	Package string // its name
	Mutants []*Mutant
	src     string
	set     *token.FileSet
}

// Parse finds the mutants of a file. The names of mutants differ: where the text of a
// second one is that of the first, it ends with " (2)".
func Parse(name string) (*File, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &File{src: string(src), set: token.NewFileSet()}
	file, err := parser.ParseFile(f.set, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f.Package = file.Name.Name
	for _, d := range file.Decls {
		f.find(d)
	}
	seen := map[string]int{}
	for i, m := range f.Mutants {
		m.N = i + 1
		name := m.String()
		if seen[name]++; seen[name] > 1 {
			m.To += fmt.Sprintf(" (%d)", seen[name])
		}
	}
	return f, nil
}

// exchanged has, for every operator, the operators that take its place, one after the other.
var exchanged = map[string][]string{
	"<": {"<=", ">"}, "<=": {"<", ">="}, ">": {">=", "<"}, ">=": {">", "<="}, "==": {"!="}, "!=": {"=="},
	"&&": {"||"}, "||": {"&&"},
	"+": {"-"}, "-": {"+"}, "*": {"/", "+"}, "/": {"*"}, "%": {"/"},
	"<<": {">>"}, ">>": {"<<"}, "&": {"|"}, "|": {"&"}, "^": {"|"}, "&^": {"&"},
	"+=": {"-="}, "-=": {"+="}, "*=": {"/="}, "/=": {"*="}, "%=": {"/="},
	"<<=": {">>="}, ">>=": {"<<="}, "&=": {"|="}, "|=": {"&="}, "^=": {"|="}, "&^=": {"&="},
	"++": {"--"}, "--": {"++"},
	"min": {"max"}, "max": {"min"},
	"unary -": {""}, "unary !": {""},
}

// find adds the mutants of a declaration.
func (f *File) find(d ast.Decl) {
	fn, _ := d.(*ast.FuncDecl)
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			f.exchange(fn, n, n.OpPos, n.Op.String(), exchanged[n.Op.String()])
		case *ast.AssignStmt:
			f.exchange(fn, n, n.TokPos, n.Tok.String(), exchanged[n.Tok.String()])
		case *ast.IncDecStmt:
			f.exchange(fn, n, n.TokPos, n.Tok.String(), exchanged[n.Tok.String()])
		case *ast.UnaryExpr:
			f.exchange(fn, n, n.OpPos, n.Op.String(), exchanged["unary "+n.Op.String()])
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "min" || id.Name == "max") {
				f.exchange(fn, n, id.Pos(), id.Name, exchanged[id.Name])
			}
		}
		return true
	})
}

// exchange adds the mutants of n in which others stand for the operator at pos.
func (f *File) exchange(fn *ast.FuncDecl, n ast.Node, pos token.Pos, operator string, others []string) {
	first, last := f.offset(n.Pos()), f.offset(n.End())
	at := f.offset(pos)
	for _, other := range others {
		f.Mutants = append(f.Mutants, &Mutant{
			Line: f.set.Position(pos).Line, Function: functionName(fn),
			From: oneLine(f.src[first:last]), To: oneLine(f.src[first:at] + other + f.src[at+len(operator):last]),
			fn: fn, at: at, end: at + len(operator), operator: other,
		})
	}
}

func (f *File) offset(p token.Pos) int { return f.set.Position(p).Offset }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func functionName(fn *ast.FuncDecl) string {
	if fn == nil {
		return ""
	}
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiver(fn) + "." + fn.Name.Name
}

// receiver is the name of the type that has method fn.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	return t.(*ast.Ident).Name
}

// chosen is the variable that says which mutant runs.
const chosen = "mutantChosen"

// Alone is the file with one change.
func (f *File) Alone(m *Mutant) string { return f.src[:m.at] + m.operator + f.src[m.end:] }

// Together is the file with all of the mutants, which lie in functions. The compiler's errors
// about a mutant name the file mutant and its number.
func (f *File) Together(mutants []*Mutant) string {
	var out, more strings.Builder
	done := 0
	for i, m := range mutants {
		if i == 0 || mutants[i-1].fn != m.fn {
			name := f.offset(m.fn.Name.Pos())
			out.WriteString(f.src[done:name] + "mutant0_")
			done = name
			f.choose(&more, m.fn, mutants[i:])
		}
		first, name, last := f.offset(m.fn.Pos()), f.offset(m.fn.Name.Pos()), f.offset(m.fn.End())
		fmt.Fprintf(&more, "//line mutant%d:1\n%smutant%d_%s%s%s\n", m.N, f.src[first:name], m.N, f.src[name:m.at], m.operator, f.src[m.end:last])
	}
	return out.String() + f.src[done:] + "\n" + more.String()
}

// choose writes the function that calls the chosen mutant of fn, one of the first of mutants.
func (f *File) choose(to *strings.Builder, fn *ast.FuncDecl, mutants []*Mutant) {
	head, call, result := f.header(fn)
	fmt.Fprintf(to, "%s {\nswitch %s {\n", head, chosen)
	for _, m := range mutants {
		if m.fn != fn {
			break
		}
		fmt.Fprintf(to, "case %d:\n%s\n", m.N, result(fmt.Sprintf(call, fmt.Sprintf("mutant%d_%s", m.N, fn.Name.Name))))
	}
	fmt.Fprintf(to, "default:\n%s\n}\n}\n", result(fmt.Sprintf(call, "mutant0_"+fn.Name.Name)))
}

// header is fn up to its body, with parameters p0, p1 and so on, a format for a call with these, in which
// %s is the function's name, and what a call as the last statement of fn is.
func (f *File) header(fn *ast.FuncDecl) (head, call string, result func(string) string) {
	text := func(n ast.Node) string { return f.src[f.offset(n.Pos()):f.offset(n.End())] }
	head, call = "func ", "%s"
	if fn.Recv != nil {
		head += "(mutantOf " + text(fn.Recv.List[0].Type) + ") "
		call = "mutantOf.%s"
	}
	head += fn.Name.Name
	if types := fn.Type.TypeParams; types != nil {
		head += text(types)
		call += "[" + strings.Join(names(types), ", ") + "]"
	}
	var params, args, results []string
	for _, p := range fn.Type.Params.List {
		for range max(1, len(p.Names)) {
			name := fmt.Sprintf("p%d", len(args))
			params = append(params, name+" "+text(p.Type))
			if _, variadic := p.Type.(*ast.Ellipsis); variadic {
				name += "..."
			}
			args = append(args, name)
		}
	}
	head += "(" + strings.Join(params, ", ") + ")"
	call += "(" + strings.Join(args, ", ") + ")"
	if fn.Type.Results == nil {
		return head, call, func(call string) string { return call }
	}
	for _, r := range fn.Type.Results.List {
		for range max(1, len(r.Names)) {
			results = append(results, text(r.Type))
		}
	}
	return head + " (" + strings.Join(results, ", ") + ")", call, func(call string) string { return "return " + call }
}

func names(l *ast.FieldList) []string {
	var out []string
	for _, f := range l.List {
		for _, n := range f.Names {
			out = append(out, n.Name)
		}
	}
	return out
}
