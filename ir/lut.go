package ir

import (
	"fmt"
	"slices"

	"github.com/tmacc/tmacc/ir/format"
)

// MaxEntries is the largest number of entries of one lookup table.
const MaxEntries = 1 << 16

// Decomposition writes the levels of a weight over the digits of its code, so
// that an inner product becomes lookups in tables of sums of activations:
//
//	HalfOf * level[code] = Bias + sum over p of Coef[p] * Alphabet[digit p of code]
//
// Parts cuts a table index: part 0 holds one digit of each of the first Parts[0]
// elements of K, part 1 of the next Parts[1], and so on, each with its own table.
// The i-th digit of a part counts len(Alphabet)^i.
type Decomposition struct {
	Alphabet []int `json:"alphabet"`
	Coef     []int `json:"coef"`
	Bias     int   `json:"bias"`
	HalfOf   int   `json:"half_of"` // 1 or 2
	Parts    []int `json:"parts"`
}

// BitSerial takes the bits of a code as digits of value -1 or +1 (T-MAC, section
// 4): one plane of indices per bit. It refuses a weight whose levels are not a sum
// over their bits. Codes that have no level do not count.
func BitSerial(w format.Weight, parts ...int) (Decomposition, error) {
	if err := w.Validate(); err != nil {
		return Decomposition{}, err
	}
	// level = level[0] + sum of step[p]*bit[p], and 2*bit = 1 + digit.
	d := Decomposition{Alphabet: []int{-1, 1}, Coef: steps(w), Bias: 2 * w.Levels[0], HalfOf: 2, Parts: slices.Clone(parts)}
	even := true
	for _, step := range d.Coef {
		d.Bias += step
		even = even && step%2 == 0
	}
	if even {
		d.HalfOf, d.Bias = 1, d.Bias/2
		for p := range d.Coef {
			d.Coef[p] /= 2
		}
	}
	if err := d.checkParts(w); err != nil {
		return Decomposition{}, err
	}
	if err := d.checkLevels(w, bit); err != nil {
		return Decomposition{}, fmt.Errorf("%w; use ElementLUT", err)
	}
	return d, nil
}

// steps is what each bit of a code adds to the first level: 0 if no level has it alone.
func steps(w format.Weight) []int {
	out := make([]int, w.Bits)
	for p := range out {
		if 1<<p < len(w.Levels) {
			out[p] = w.Levels[1<<p] - w.Levels[0]
		}
	}
	return out
}

// ElementLUT takes a whole code as one digit, whose value is its level
// (bitnet.cpp, TL1 and TL2): one plane of indices, tables of sums of products.
func ElementLUT(w format.Weight, parts ...int) (Decomposition, error) {
	if err := w.Validate(); err != nil {
		return Decomposition{}, err
	}
	d := Decomposition{Alphabet: slices.Clone(w.Levels), Coef: []int{1}, HalfOf: 1, Parts: slices.Clone(parts)}
	if err := d.checkParts(w); err != nil {
		return Decomposition{}, err
	}
	return d, nil
}

// Digits is the number of elements of K that one index of every part covers.
func (d Decomposition) Digits() int {
	n := 0
	for _, g := range d.Parts {
		n += g
	}
	return n
}

// Entries is the size of the table of a part.
func (d Decomposition) Entries(part int) int {
	n := 1
	for range d.Parts[part] {
		if n *= len(d.Alphabet); n > MaxEntries {
			return MaxEntries + 1
		}
	}
	return n
}

func lutError(w format.Weight, problem string, args ...any) error {
	return fmt.Errorf("weight %s: %s", w.Name, fmt.Sprintf(problem, args...))
}

// A digitOf is the expression of one digit of a code.
type digitOf func(code, plane Expr) Expr

func bit(code, plane Expr) Expr   { return Binary{And, Binary{ShrS, code, plane}, I32(1)} }
func whole(code, plane Expr) Expr { return code }

// checkParts refuses parts without tables.
func (d Decomposition) checkParts(w format.Weight) error {
	if err := oneBook(w); err != nil {
		return err
	}
	if len(d.Parts) == 0 {
		return lutError(w, "an index needs at least one part")
	}
	for i, g := range d.Parts {
		switch {
		case g < 1:
			return lutError(w, "part %d has %d digits; want at least 1", i, g)
		case d.Entries(i) > MaxEntries:
			return lutError(w, "part %d: %d digits of %d values need a table of more than %d entries", i, g, len(d.Alphabet), MaxEntries)
		}
	}
	return nil
}

// oneBook refuses codes that mean something else in each group.
func oneBook(w format.Weight) error {
	if w.Books > 0 {
		return lutError(w, "its codes have levels in %d books: no digits stand for all; use dot products", w.Books)
	}
	return nil
}

// checkLevels refuses a decomposition that is not one of w.
func (d Decomposition) checkLevels(w format.Weight, digit digitOf) error {
	if d.HalfOf != 1 && d.HalfOf != 2 {
		return lutError(w, "half_of is %d; want 1 or 2", d.HalfOf)
	}
	for code, level := range w.Levels {
		v := d.Bias
		for p, c := range d.Coef {
			i, err := EvalExpr(digit(I32(code), I32(p)), nil)
			if err != nil || i >= int64(len(d.Alphabet)) {
				return lutError(w, "code %d has digit %d; the alphabet has %d", code, i, len(d.Alphabet))
			}
			v += c * d.Alphabet[i]
		}
		if v != d.HalfOf*level {
			return lutError(w, "level %d of code %d is not a sum over its digits", level, code)
		}
	}
	return nil
}

// Fits refuses a product whose HalfOf-fold sum does not fit 32 bits.
func (d Decomposition) Fits(p Problem) error {
	k := p.GroupK()
	if k == 0 {
		k = p.LimitK()
	}
	level := max(p.Weight.MaxLevel(), -p.Weight.MinLevel())
	if d.HalfOf > 1 && d.HalfOf*ActMax*k*level >= 1<<31 {
		return lutError(p.Weight, "%d times a sum over %d elements does not fit 32 bits; lower max_k or use ElementLUT", d.HalfOf, k)
	}
	return nil
}

// BitSerialGraph is Matmul(p) by lookups in tables of d, made by BitSerial:
//
//	tableI[n, g, j, entry] i32 = sum over digits i of part I of alphabet[digit i of entry] * act[n, gG + jD + start + i]
//	indexI[m, p, g, j]     i32 = sum over digits i of part I of (bit p of codes[m, same]) * len(alphabet)^i
//	lut[n, m, p, g]        i32 = sum over j and parts I of tableI[n, g, j, indexI[m, p, g, j]]
//	total[n, m, g]         i32 = bias*sums[n, gG] + sum over p of coef[p] * lut[n, m, p, g]
//	sum[n, m, g]           i32 = total / halfOf - zeros[m, gG] * sums[n, gG]
//
// D is the number of digits of all parts. Digits beyond K, or beyond a group
// that is not whole indices, meet activations that are 0. acc and out follow as
// in Matmul: out is equal to its bit for bit.
func BitSerialGraph(p Problem, d Decomposition) (*Graph, error) { return lutGraph(p, d, bit) }

// ElementLUTGraph is BitSerialGraph for a decomposition made by ElementLUT: the
// only plane of indices has the codes themselves as digits.
func ElementLUTGraph(p Problem, d Decomposition) (*Graph, error) { return lutGraph(p, d, whole) }

func lutGraph(p Problem, d Decomposition, digit digitOf) (*Graph, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if p.Act.Floats() {
		return nil, lutError(p.Weight, "the sums of f32 activations have an order, which only Matmul has")
	}
	if err := d.checkParts(p.Weight); err != nil {
		return nil, err
	}
	if err := d.checkLevels(p.Weight, digit); err != nil {
		return nil, err
	}
	if err := d.Fits(p); err != nil {
		return nil, err
	}
	g := Matmul(p)
	axes := g.Stages[0].Axes
	b := &lutBuilder{p: p, d: d, n: axes[0], m: axes[1], g: axes[2], j: Dim{Name: "j", Run: "K", Div: d.Digits()},
		plane: Dim{Name: "p", N: len(d.Coef)}}
	if group := p.GroupK(); group > 0 {
		b.j = Dim{Name: "j", N: (group + d.Digits() - 1) / d.Digits()}
	}
	start := 0
	for part, digits := range d.Parts {
		b.tables(part, start)
		b.indices(part, start, digit)
		start += digits
	}
	b.recombine(g.Stages[0].Out)
	g.Stages = append(b.stages, g.Stages[1:]...)
	return g, nil
}

type lutBuilder struct {
	p                 Problem
	d                 Decomposition
	n, m, g, j, plane Dim
	stages            []Stage
	looked            Expr // sum over the parts of the table entry of the index
}

func add(x, y Expr) Expr {
	if x == nil {
		return y
	}
	return Binary{Add, x, y}
}

// inGroup is the place of a digit within its group; allK the same within K.
func (b *lutBuilder) inGroup(digit int) Expr {
	return Binary{Add, Binary{Mul, Axis{"j"}, I32(b.d.Digits())}, I32(digit)}
}

func (b *lutBuilder) allK(digit int) Expr {
	return Map(b.p.AllK(), func(x Expr) Expr {
		if x == (Expr)(Axis{"k"}) {
			return b.inGroup(digit)
		}
		return x
	})
}

// act is the activation that a digit stands for, 0 behind the end of the group.
func (b *lutBuilder) act(digit int) Expr {
	a := Cast{format.I32, Read{b.p.Tensors().Act, []Expr{Axis{"n"}, b.allK(digit)}}}
	if b.p.GroupK()%b.d.Digits() != 0 {
		return Binary{And, a, Binary{CmpGtS, I32(b.p.GroupK()), b.inGroup(digit)}}
	}
	return a
}

// tables adds the stage of one part's table. Its entry is merged of one axis per
// digit, the first one fastest.
func (b *lutBuilder) tables(part, start int) {
	s := Stage{Axes: []Dim{b.n, b.g, b.j}}
	for i := range b.d.Parts[part] {
		digit := fmt.Sprintf("d%d", i)
		s.Axes = slices.Insert(s.Axes, 3, Dim{Name: digit, N: len(b.d.Alphabet)})
		s.Body = add(s.Body, Binary{Mul, Lookup{b.d.Alphabet, format.I32, Axis{digit}}, b.act(start + i)})
	}
	s.Out = &Tensor{Name: fmt.Sprintf("table%d", part), Elem: format.I32, Dims: []string{"n", "g", "j", "entry"}}
	b.stages = append(b.stages, s)
}

// indices adds the stage of one part's indices, and its lookup to looked.
func (b *lutBuilder) indices(part, start int, digit digitOf) {
	s := Stage{Axes: []Dim{b.m, b.plane, b.g, b.j}}
	weight := 1
	for i := range b.d.Parts[part] {
		code := Cast{format.I32, Read{b.p.Tensors().Codes, []Expr{Axis{"m"}, b.allK(start + i)}}}
		s.Body = add(s.Body, Binary{Mul, digit(code, Axis{"p"}), I32(weight)})
		weight *= len(b.d.Alphabet)
	}
	s.Out = &Tensor{Name: fmt.Sprintf("index%d", part), Elem: format.I32, Dims: []string{"m", "p", "g", "j"}}
	table := b.stages[len(b.stages)-1].Out
	b.stages = append(b.stages, s)
	index := Read{s.Out, []Expr{Axis{"m"}, Axis{"p"}, Axis{"g"}, Axis{"j"}}}
	b.looked = add(b.looked, Read{table, []Expr{Axis{"n"}, Axis{"g"}, Axis{"j"}, index}})
}

// recombine adds the stages from lookups to the integer sum of the product.
func (b *lutBuilder) recombine(sum *Tensor) {
	t, first := b.p.Tensors(), b.p.FirstK()
	lut := &Tensor{Name: "lut", Elem: format.I32, Dims: []string{"n", "m", "p", "g"}}
	total := &Tensor{Name: "total", Elem: format.I32, Dims: []string{"n", "m", "g"}}
	sums := Read{t.Sums, []Expr{Axis{"n"}, first}}
	nmg := []Dim{b.n, b.m, b.g}
	at := []Expr{Axis{"n"}, Axis{"m"}, Axis{"g"}}

	var value Expr = Read{total, at}
	if b.d.HalfOf == 2 {
		value = Binary{ShrS, value, I32(1)}
	}
	if t.Zeros != nil {
		zero := Cast{format.I32, Read{t.Zeros, []Expr{Axis{"m"}, first}}}
		value = Binary{Sub, value, Binary{Mul, zero, sums}}
	}
	b.stages = append(b.stages,
		Stage{Out: lut, Axes: []Dim{b.n, b.m, b.plane, b.g}, Reduce: []Dim{b.j}, Combine: Add, Body: b.looked},
		Stage{Out: total, Axes: nmg, Reduce: []Dim{b.plane}, Combine: Add, Init: Binary{Mul, I32(b.d.Bias), sums},
			Body: Binary{Mul, Lookup{b.d.Coef, format.I32, Axis{"p"}}, Read{lut, []Expr{Axis{"n"}, Axis{"m"}, Axis{"p"}, Axis{"g"}}}}},
		Stage{Out: sum, Axes: nmg, Body: value})
}
