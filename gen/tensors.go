package gen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
)

// Tensor is a matrix of a model, or Count of one size.
type Tensor struct {
	Name, Type  string // as in the GGUF file; without a type, matrices are codes and scales
	Product     int    // index into Spec.Products
	M, K, Count int
	Scaled      bool // each matrix has a scale that is not part of its bytes
}

// role is a tensor's name without the numbers of layer and expert:
// blk.N.attn_q.weight. It is a type of Go.
type role struct {
	name, verb string // "AttnQ"; the tensors' names, for fmt
	numbers    int    // in the names
	tensors    []Tensor
}

// numbersOf splits a name at its numbers; there is one number between each two
// parts: "blk.", "7", ".ffn_up.weight". A digit of a word is not one: "q4", "w_2".
func numbersOf(name string) (parts, numbers []string) {
	from := 0
	for i := 0; i < len(name); {
		j := i
		for j < len(name) && wordByte(name[j]) {
			j++
		}
		if word := name[i:j]; word != "" && strings.Trim(word, "0123456789") == "" {
			parts, numbers, from = append(parts, name[from:i]), append(numbers, word), j
		}
		i = j + 1
	}
	return append(parts, name[from:]), numbers
}

// verbOf is a name with a verb of fmt for each of its numbers: "blk.%d.ffn_up.weight", 1. A model may have many names.
func verbOf(name string) (verb string, numbers int) {
	var b strings.Builder
	b.Grow(len(name) + 8)
	from := 0
	for i := 0; i < len(name); i++ {
		j, digits := i, true
		for ; j < len(name) && wordByte(name[j]); j++ {
			digits = digits && name[j] >= '0' && name[j] <= '9'
		}
		if j > i && digits {
			b.WriteString(strings.ReplaceAll(name[from:i], "%", "%%"))
			b.WriteString("%d")
			numbers, from = numbers+1, j
		}
		i = j
	}
	b.WriteString(strings.ReplaceAll(name[from:], "%", "%%"))
	return b.String(), numbers
}

func wordByte(c byte) bool { return c == '_' || c >= '0' && c <= '9' || letter(rune(c)) }

// rolesOf are the roles of tensors in the order of the first of each. A role whose
// name in Go is taken has "Matrix" behind it.
func rolesOf(tensors []Tensor, products int, taken map[string]string) ([]role, error) {
	var roles []role
	seen, index := make(map[string]bool, len(tensors)), map[string]int{}
	for _, t := range tensors {
		if !format.OneLine(t.Name + t.Type) {
			return nil, errorf(fmt.Sprintf("tensor %q of type %q", t.Name, t.Type), "cannot be printed on one line, as in a comment")
		}
		switch thing := "tensor " + t.Name; {
		case seen[t.Name]:
			return nil, errorf(thing, "is there twice")
		case t.Product < 0 || t.Product >= products:
			return nil, errorf(thing, "is for product %d; there are products 0 to %d", t.Product, products-1)
		case t.M < 1 || t.K < 1 || t.Count < 1:
			return nil, errorf(thing, "has %d matrices of %d rows of %d elements; each number must be at least 1", t.Count, t.M, t.K)
		}
		seen[t.Name] = true
		verb, numbers := verbOf(t.Name)
		i, known := index[verb]
		if !known {
			i = len(roles)
			index[verb] = i
			roles = append(roles, role{verb: verb, numbers: numbers})
		}
		roles[i].tensors = append(roles[i].tensors, t)
	}
	for i := range roles {
		r := &roles[i]
		r.name = roleName(r.tensors[0].Name)
		for taken[r.name] != "" || taken["New"+r.name] != "" || taken["Open"+r.name] != "" {
			r.name += "Matrix"
		}
		what := "role " + r.verb
		for _, name := range []string{r.name, "New" + r.name, "Open" + r.name} {
			taken[name] = what
		}
	}
	return roles, nil
}

// typed says that the tensors are of a GGUF type, not codes and scales.
func (r *role) typed() bool { return r.tensors[0].Type != "" }

// stacked says that some of the tensors are several matrices.
func (r *role) stacked() bool {
	return slices.ContainsFunc(r.tensors, func(t Tensor) bool { return t.Count > 1 })
}

// scaled says that some of the matrices have a scale.
func (r *role) scaled() bool {
	return slices.ContainsFunc(r.tensors, func(t Tensor) bool { return t.Scaled })
}

// roleName is the name in Go of a tensor's role: of blk.0.attn_q.weight AttnQ.
func roleName(tensor string) string {
	tensor = strings.TrimSuffix(strings.TrimPrefix(tensor, "blk."), ".weight")
	var b strings.Builder
	for part := range strings.SplitSeq(tensor, ".") {
		if strings.Trim(part, "0123456789") == "" {
			continue // a layer
		}
		for word := range strings.FieldsFuncSeq(part, func(r rune) bool { return !letter(r) && (r < '0' || r > '9') }) {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	if name := b.String(); name != "" && letter(rune(name[0])) {
		return name
	}
	return "Tensor" + b.String()
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// tensors is the file of the matrices of a model.
func (w *writer) tensors() lower.File {
	f := w.file()
	f.ImportName("fmt", "fmt")
	f.ImportName(ggufPath, "gguf")
	doc(f, "Tensors are the matrices of the model that this package was compiled for.")
	var rows []jen.Code
	for _, t := range w.Tensors {
		row := []jen.Code{field("Name", jen.Lit(t.Name)), field("Type", jen.Lit(t.Type)),
			field("Product", jen.Id(w.products[t.Product].id)), field("M", jen.Lit(t.M)), field("K", jen.Lit(t.K)), field("Count", jen.Lit(t.Count))}
		if t.Scaled {
			row = append(row, field("Scaled", jen.True()))
		}
		rows = append(rows, braces(true, row))
	}
	f.Var().Id("Tensors").Op("=").Add(rt("Tensors")).Add(braces(false, rows))
	for _, r := range w.roles {
		w.roleOf(f, r)
	}
	return w.render(f, "_tensors.go", "")
}

// numberNames are the parameters for the numbers in a tensor's name.
var numberNames = []string{"layer", "index", "third", "fourth"}

// roleOf writes a role's type and, unless its names have too many numbers, its
// constructors.
func (w *writer) roleOf(f *jen.File, r role) {
	f.Line()
	doc(f, fmt.Sprintf("%s is %s: %s.", r.name, r.like(), strings.Join(w.sizes(r), "; ")))
	f.Type().Id(r.name).Struct(jen.Op("*").Add(rt("Matrix")))
	if r.numbers > len(numberNames) {
		return
	}
	if r.typed() {
		r.open(f)
	}
	r.new(f)
}

// open writes the constructor that reads a matrix and its scale from a file.
func (r *role) open(f *jen.File) {
	what, index := "", jen.Lit(0)
	params := []jen.Code{jen.Id("f").Op("*").Qual(ggufPath, "File")}
	numbers := numberNames[:r.numbers]
	if r.stacked() {
		what, index = "one of the matrices of ", jen.Id("expert")
		numbers = append(numbers[:len(numbers):len(numbers)], "expert")
	}
	for _, n := range numbers {
		params = append(params, jen.Id(n).Int())
	}
	f.Line()
	doc(f, fmt.Sprintf("Open%s reads %s%s from a GGUF file, with its scale if it has one, and packs it.", r.name, what, r.like()))
	f.Func().Id("Open"+r.name).Params(params...).Params(jen.Id(r.name), jen.Error()).Block(
		jen.List(jen.Id("m"), jen.Err()).Op(":=").Id("Tensors").Dot("Open").Call(jen.Id("f"), r.tensor(), index),
		jen.Return(jen.Id(r.name).Values(jen.Id("m")), jen.Err()))
}

// new writes the constructor that packs what its caller has: bytes or codes and scales, and the scale of the matrix.
func (r *role) new(f *jen.File) {
	what, method, content := "the bytes of ", "New", jen.Id("data").Index().Byte()
	if !r.typed() {
		what, method, content = "codes and scales of ", "Pack", jen.Id("data").Qual(formatPath, "Source")
	}
	if r.stacked() {
		what += "one of the matrices of "
	}
	var params []jen.Code
	for _, n := range numberNames[:r.numbers] {
		params = append(params, jen.Id(n).Int())
	}
	params, args := append(params, content), []jen.Code{r.tensor(), jen.Id("data")}
	text := []string{fmt.Sprintf("New%s packs %s%s.", r.name, what, r.like())}
	if r.scaled() {
		text = append(text, "All products are multiplied by scale, which the file has beside the bytes: gguf.File.Scales reads it. 1 is none.")
		method, params, args = method+"Scaled", append(params, jen.Id("scale").Float32()), append(args, jen.Id("scale"))
	}
	f.Line()
	doc(f, text...)
	f.Func().Id("New"+r.name).Params(params...).Params(jen.Id(r.name), jen.Error()).Block(
		jen.List(jen.Id("m"), jen.Err()).Op(":=").Id("Tensors").Dot(method).Call(args...),
		jen.Return(jen.Id(r.name).Values(jen.Id("m")), jen.Err()))
}

// tensor is the name of the tensor, of its numbers if it has any.
func (r *role) tensor() *jen.Statement {
	if r.numbers == 0 {
		return jen.Lit(r.tensors[0].Name)
	}
	args := []jen.Code{jen.Lit(r.verb)}
	for _, n := range numberNames[:r.numbers] {
		args = append(args, jen.Id(n))
	}
	return jen.Qual("fmt", "Sprintf").Call(args...)
}

// like is the name of a role's tensors, with their numbers' names.
func (r *role) like() string { return Role(r.tensors[0].Name) }

// Role is a tensor's name without the numbers of its layer and expert:
// blk.LAYER.attn_q.weight.
func Role(tensor string) string {
	parts, numbers := numbersOf(tensor)
	var b strings.Builder
	for i, n := range numbers {
		if i < len(numberNames) {
			n = strings.ToUpper(numberNames[i])
		}
		b.WriteString(parts[i] + n)
	}
	return b.String() + parts[len(numbers)]
}

// sizes says how many tensors of a role have which size and type.
func (w *writer) sizes(r role) []string {
	var kinds []string
	count := map[string]int{}
	for _, t := range r.tensors {
		kind := fmt.Sprintf("%d rows of %d by %s", t.M, t.K, w.products[t.Product].id)
		if t.Type != "" {
			kind = fmt.Sprintf("%d rows of %d in %s, by %s", t.M, t.K, t.Type, w.products[t.Product].id)
		}
		if t.Count > 1 {
			kind = fmt.Sprintf("%d times %s", t.Count, kind)
		}
		if t.Scaled {
			kind += ", with scales"
		}
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, k := range kinds {
		if len(kinds) > 1 {
			kinds[i] = fmt.Sprintf("%s (%d)", k, count[k])
		}
	}
	return kinds
}
