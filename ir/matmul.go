package ir

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// DefaultMaxK is the largest K that kernels are proven for unless told otherwise.
const DefaultMaxK = format.UsualMaxK

// ActMax is the largest magnitude of an int8 activation: PrepareAct never makes -128.
const ActMax = format.ActMax

// Problem is one mixed-precision product: C[n][m] = sum over k of A[n][k]*W[m][k].
// M, N and K are run-time values; MaxK bounds K in the proofs of exactness.
// Activations are int8 codes with scales, or as Act says f32.
type Problem struct {
	Weight format.Weight `json:"weight"`
	Act    format.Act    `json:"act"`
	MaxK   int           `json:"max_k,omitempty"`
}

// Name is the format of the weights, with f32 activations marked: "w4-g32", "w1-f32act".
func (p Problem) Name() string {
	if p.Act.Floats() {
		return p.Weight.Name + FloatSuffix
	}
	return p.Weight.Name
}

// FloatSuffix marks products with f32 activations in names.
const FloatSuffix = "-f32act"

// Named is the product that Name calls by a name, its weights one of the built-in formats.
func Named(name string) (Problem, error) {
	weight, floats := strings.CutSuffix(name, FloatSuffix)
	w, err := format.Lookup(weight)
	if err != nil || !floats {
		return Problem{Weight: w}, err
	}
	return Floats(w)
}

// Floats is the product of w with f32 activations, summed as usual.
func Floats(w format.Weight) (Problem, error) {
	act, err := w.FloatAct()
	return Problem{Weight: w, Act: act}, err
}

// Validate reports what makes p impossible, naming the field.
func (p Problem) Validate() error {
	if err := p.Weight.Validate(); err != nil {
		return err
	}
	if err := p.Act.Fits(p.Weight); err != nil {
		return err
	}
	if p.MaxK < 0 || p.MaxK > format.MostK {
		return fmt.Errorf("max_k %d: want at most %d", p.MaxK, format.MostK)
	}
	return nil
}

// GroupK is how many elements of K one sum of products covers, 0 for all.
func (p Problem) GroupK() int {
	return p.Act.SumGroup(p.Weight)
}

// Filled pads every group of p with zeros to `to` elements. It is for kernels alone: Validate may refuse its sizes.
func (p Problem) Filled(to int) (Problem, error) {
	group, block := p.GroupK(), p.Block()
	switch {
	case group == 0:
		return p, errors.New("there are none to fill")
	case p.Act.Floats():
		return p, errors.New("sums of f32 take the elements as they are")
	case to <= group || to > 2*group || to%4 != 0:
		return p, fmt.Errorf("%d of a group of %d: want a multiple of 4 above that, up to its double", to, group)
	}
	for _, n := range []*int{&p.Weight.Group, &p.Weight.Super, &p.Weight.BookGroup, &p.Act.Group} {
		if *n%group != 0 {
			return p, fmt.Errorf("parts of a group, of %d elements, share something", *n)
		}
		*n = *n / group * to
	}
	p.MaxK = (p.LimitK() + group - 1) / group * to
	if p.Block() != block { // other roundings
		return p, fmt.Errorf("blocks of %d groups would be too long for one integer", block)
	}
	return p, nil
}

// Block is that of the activations.
func (p Problem) Block() int { return p.Act.Block(p.Weight) }

// Unit is what K is a multiple of: all that is shared along K is whole units, or is
// shared by whole units.
func (p Problem) Unit() int { return p.Act.Unit(p.Weight) }

// WholeK is the least K of whole units that is at least k.
func (p Problem) WholeK(k int) int {
	unit := p.Unit()
	return (k + unit - 1) / unit * unit
}

// SpanK is how many elements of K have everything in common, scales and the index of
// a book, 0 for all. It divides GroupK.
func (p Problem) SpanK() int {
	g, b := p.GroupK(), p.Weight.BookGroup
	if g == 0 || b == 0 {
		return max(g, b)
	}
	return min(g, b)
}

// LimitK is the largest K kernels of p must be exact for.
func (p Problem) LimitK() int {
	if p.MaxK > 0 {
		return p.MaxK
	}
	return DefaultMaxK
}

// block is the Tensor.Block of something stored once per g elements of K.
func block(g int) int {
	if g > 0 {
		return g
	}
	return -1
}

// Tensors of a product, by the names every later stage uses.
type Tensors struct {
	Codes, Act                             *Tensor
	Sums, ActScale                         *Tensor // nil if activations are f32
	Scales, Zeros, Mins, Supers, SuperMins *Tensor // nil if the format has none
	Books                                  *Tensor // indices, nil with one book
}

// Tensors declares the inputs of p's product. Values that weights share are indexed by
// the element (m, k) it applies to, as are the activation's sums and scales. A
// scale of the whole tensor is given once per row, as one per row is. A bf16 is
// read as the u16 of its bits.
func (p Problem) Tensors() Tensors {
	t := Tensors{
		Codes: &Tensor{Name: "codes", Elem: format.U8, Dims: []string{"m", "k"}},
		Act:   &Tensor{Name: "act", Elem: format.F32, Dims: []string{"n", "k"}},
	}
	if !p.Act.Floats() {
		t.Act.Elem, t.Act.Most = format.I8, ActMax
		t.Sums = &Tensor{Name: "sums", Elem: format.I32, Dims: []string{"n", "k"}, Block: block(p.GroupK())}
		t.ActScale = &Tensor{Name: "ascale", Elem: format.F32, Dims: []string{"n", "k"}, Block: block(p.Act.Group)}
	}
	to := map[string]**Tensor{format.Scales: &t.Scales, format.Zeros: &t.Zeros, format.Mins: &t.Mins,
		format.Supers: &t.Supers, format.SuperMins: &t.SuperMins, format.Books: &t.Books}
	for _, x := range p.Weight.Shared() {
		elem := x.Elem
		if elem == format.BF16 {
			elem = format.U16
		}
		*to[x.Name] = &Tensor{Name: x.Name, Elem: elem, Dims: []string{"m", "k"}, Block: block(x.Span)}
	}
	return t
}

// Shared lists the tensors of what weights share, scales first.
func (t Tensors) Shared() []*Tensor {
	var list []*Tensor
	for _, x := range []*Tensor{t.Scales, t.Zeros, t.Mins, t.Supers, t.SuperMins, t.Books} {
		if x != nil {
			list = append(list, x)
		}
	}
	return list
}

// AllK is the expression of the element of K that stage axes g and k stand for.
func (p Problem) AllK() Expr { return p.at(Axis{"k"}) }

// at is element k of group g.
func (p Problem) at(k Expr) Expr {
	if g := p.GroupK(); g > 0 {
		return Binary{Add, Binary{Mul, Axis{"g"}, I32(g)}, k}
	}
	return k
}

// FirstK is the expression of the first element of K of group g.
func (p Problem) FirstK() Expr {
	if g := p.GroupK(); g > 0 {
		return Binary{Mul, Axis{"g"}, I32(g)}
	}
	return I32(0)
}

// Matmul is the product as the definition has it:
//
//	sum[n, m, g] i32 = sum over k of (levels[code] - zeros[m, gG+k]) * act[n, gG+k]
//	out[n, m]    f32 = sum over g, ascending, of f32(sum) * (scale * ascale) - min * (f32(sums) * ascale)
//
// where code is codes[m, gG+k], or what Level makes of it and the index of its book.
// The second product is there only if the format has minimums. Every product and difference is
// rounded to f32 before the add, then every NaN made canonical. Without groups
// there is one g. If a row of activations has one scale, it multiplies the sum of all groups
// instead of each:
//
//	out[n, m]    f32 = ascale * sum over g, ascending, of f32(sum) * scale - min * f32(sums)
//
// which is infinite if that sum is, however small ascale.
//
// With two levels of scales, scale = super * f32(sub-scale) and min likewise if each group
// has a scale of its activations. If B = Block() groups share it, they become one integer:
//
//	block[n, m, b] i32 = sum over g of b of sum * sub-scale
//	least[n, m, b] i32 = sum over g of b of sums * sub-minimum
//	out[n, m]      f32 = sum over b, ascending, of f32(block) * (super * ascale) - supermin * (f32(least) * ascale)
//
// Of f32 activations, F = Act.Float products at a time are added before the rest:
//
//	sum[n, m, g] f32 = sum over j, ascending, of sum over i < F, ascending, of levels[codes[m, gG+jF+i]] * act[n, gG+jF+i]
//	out[n, m]    f32 = sum over g, ascending, of sum * scale
//
// each product and sum rounded.
func Matmul(p Problem) *Graph {
	t := p.Tensors()
	n, m := Dim{Name: "n", Run: "N", Div: 1}, Dim{Name: "m", Run: "M", Div: 1}
	g := Dim{Name: "g", N: 1}
	if p.GroupK() > 0 {
		g = Dim{Name: "g", Run: "K", Div: p.GroupK()}
	}
	sum := Stage{Out: &Tensor{Name: "sum", Elem: p.SumType(), Dims: []string{"n", "m", "g"}}, Axes: []Dim{n, m, g}, Combine: Add}
	sum.Reduce, sum.Body = p.sum()
	acc := &Tensor{Name: "acc", Elem: format.F32, Dims: []string{"n", "m"}}
	out := &Tensor{Name: "out", Elem: format.F32, Dims: []string{"n", "m"}}
	nm := []Expr{Axis{"n"}, Axis{"m"}}
	scaled := Stage{Out: acc, Axes: []Dim{n, m}, Reduce: []Dim{g}, Combine: Add,
		Body: p.Scaled(Read{sum.Out, append(nm[:2:2], Axis{"g"})}, p.Scale(p.Own(p.Super())), p.Least(p.OwnLeast(p.SuperMin()), p.ScaledSum(p.OfAct(t.Sums))))}
	stages := []Stage{sum, scaled}
	if p.Block() > 1 {
		stages = append([]Stage{sum}, p.blocks(sum)...)
	}
	return &Graph{t.inputs(), append(stages, Stage{Out: out, Axes: []Dim{n, m}, Body: p.Result(Read{acc, nm})})}
}

// Result is what the sum of all groups makes the result: the scale of a whole row of activations
// multiplies it.
func (p Problem) Result(acc Expr) Expr {
	if t := p.Tensors(); t.ActScale != nil && p.Act.Group == 0 {
		acc = Binary{Mul, acc, Read{t.ActScale, []Expr{Axis{"n"}, I32(0)}}}
	}
	return Unary{CanonNaN, acc}
}

// byActScale is x times the scale that a group's activations have of their own.
func (p Problem) byActScale(x Expr) Expr {
	t := p.Tensors()
	if t.ActScale == nil || p.Act.Group == 0 {
		return x
	}
	return Binary{Mul, x, p.OfAct(t.ActScale)}
}

// blocks are the stages from sums of groups to the sum of all, by blocks of groups.
func (p Problem) blocks(sum Stage) []Stage {
	size := p.Block()
	b, i := Dim{Name: "b", Run: "K", Div: size * p.GroupK()}, Dim{Name: "i", N: size}
	first := func(e Expr) Expr { return OfGroup(e, Binary{Mul, Axis{"b"}, I32(size)}) }
	nmb := []Expr{Axis{"n"}, Axis{"m"}, Axis{"b"}}
	over := func(name string, of Expr) Stage { // sum of a number of each group
		each := OfGroup(of, Binary{Add, Binary{Mul, Axis{"b"}, I32(size)}, Axis{"i"}})
		out := &Tensor{Name: name, Elem: format.I32, Dims: []string{"n", "m", "b"}}
		return Stage{Out: out, Axes: []Dim{sum.Axes[0], sum.Axes[1], b}, Reduce: []Dim{i}, Combine: Add, Body: each}
	}
	block := over("block", p.SubScaled(Read{sum.Out, []Expr{Axis{"n"}, Axis{"m"}, Axis{"g"}}}, p.SubScale()))
	stages := []Stage{block}
	var least Expr
	if p.Weight.Min {
		stages = append(stages, over("least", p.SubLeast(p.SubMin())))
		least = p.ScaledSum(Read{stages[1].Out, nmb})
	}
	acc := &Tensor{Name: "acc", Elem: format.F32, Dims: []string{"n", "m"}}
	return append(stages, Stage{Out: acc, Axes: sum.Axes[:2], Reduce: []Dim{b}, Combine: Add,
		Body: first(p.Scaled(Read{block.Out, nmb}, p.Scale(p.Own(p.Super())), p.Least(p.OwnLeast(p.SuperMin()), least)))})
}

// OfGroup is e, of group g by its axis, of another group.
func OfGroup(e, g Expr) Expr {
	return Map(e, func(x Expr) Expr {
		if x == (Expr)(Axis{"g"}) {
			return g
		}
		return x
	})
}

// SumType is that of the sum of a group.
func (p Problem) SumType() format.DType {
	if p.Act.Floats() {
		return format.F32
	}
	return format.I32
}

// inputs lists the tensors of a product.
func (t Tensors) inputs() []*Tensor {
	in := []*Tensor{t.Codes, t.Scales, t.Act, t.Sums, t.ActScale}
	return slices.DeleteFunc(append(in, t.Shared()[1:]...), func(x *Tensor) bool { return x == nil })
}

// sum is what the sum of a group adds up.
func (p Problem) sum() (over []Dim, body Expr) {
	if !p.Act.Floats() {
		return []Dim{p.inGroup("k", 1)}, p.product(p.AllK())
	}
	f := p.Act.Float
	for i := range f {
		body = add(body, p.product(p.at(Binary{Add, Binary{Mul, Axis{"j"}, I32(f)}, I32(i)})))
	}
	return []Dim{p.inGroup("j", f)}, body
}

// inGroup counts runs of by elements of a group.
func (p Problem) inGroup(name string, by int) Dim {
	if g := p.GroupK(); g > 0 {
		return Dim{Name: name, N: g / by}
	}
	return Dim{Name: name, Run: "K", Div: by}
}

// product is the product of a level and an activation, of element k.
func (p Problem) product(k Expr) Expr {
	t := p.Tensors()
	levels, code := p.Level([]Expr{Axis{"m"}, k})
	act := Read{t.Act, []Expr{Axis{"n"}, k}}
	if p.Act.Floats() {
		return Binary{Mul, Lookup{levels, format.F32, code}, act}
	}
	var w Expr = Lookup{levels, format.I32, code}
	if t.Zeros != nil {
		w = Binary{Sub, w, Cast{format.I32, Read{t.Zeros, []Expr{Axis{"m"}, k}}}}
	}
	return Binary{Mul, w, Cast{format.I32, act}}
}

// Level is the table of levels, and the index of element mk in it. The index is the code. With several books, the
// number of the book stands above the code, and the table has 2^bits entries for each book. Entries of codes that do
// not exist repeat the first entry of their book.
//
//	codes[m, k]    codes[m, k] | books[m, k] << bits
func (p Problem) Level(mk []Expr) (table []int, code Expr) {
	w, t := p.Weight, p.Tensors()
	if t.Books == nil {
		return slices.Clone(w.Levels), Read{t.Codes, mk}
	}
	for book := range w.Books {
		for c := range 1 << w.Bits {
			if c >= w.Codes() {
				c = 0
			}
			table = append(table, w.Level(byte(book), byte(c)))
		}
	}
	book := Binary{Shl, Read{t.Books, mk}, Const{format.U8, int64(w.Bits)}}
	return table, Binary{Or, Read{t.Codes, mk}, book}
}

// SubScaled is what the sum of group g adds to the integer of its block.
func (p Problem) SubScaled(sum, scale Expr) Expr { return Binary{Mul, sum, scale} }

// SubScale is the scale of group g in its block, an integer.
func (p Problem) SubScale() Expr {
	return Cast{format.I32, Read{p.Tensors().Scales, []Expr{Axis{"m"}, p.FirstK()}}}
}

// SubLeast is what the minimum of group g, least, adds to that of its block, nil without minimums.
func (p Problem) SubLeast(least Expr) Expr {
	if least == nil {
		return nil
	}
	return Binary{Mul, p.OfAct(p.Tensors().Sums), least}
}

// SubMin is the minimum of group g in its block, an integer, nil without minimums.
func (p Problem) SubMin() Expr {
	if !p.Weight.Min {
		return nil
	}
	return Cast{format.I32, Read{p.Tensors().Mins, []Expr{Axis{"m"}, p.FirstK()}}}
}

// Scaled is what the sum of group g, or the integer of its block, adds to the sum of all, from its Scale
// and, with minimums, its Least.
func (p Problem) Scaled(sum, scale, least Expr) Expr {
	if sum.Type() != format.F32 {
		sum = Unary{CvtF32, sum}
	}
	term := Binary{Mul, sum, scale}
	if !p.Weight.Min {
		return term
	}
	return Binary{Sub, term, least}
}

// Scale is the scale of weight, own, times that of activation, if groups have one.
func (p Problem) Scale(own Expr) Expr { return p.byActScale(own) }

// Own is the scale of the weights of group g or, of its block, what sub-scales leave; super is the super-scale if there are two levels.
func (p Problem) Own(super Expr) Expr {
	if p.Block() == 1 {
		return times(super, p.f32Of(p.Tensors().Scales))
	}
	return super
}

// Least is what the minimum of group g subtracts, nil without minimums: the
// minimum of its weights, own, times the ScaledSum of the activations, which is the same for all rows. Of a block of groups it is
// the super-minimum times the ScaledSum of what SubLeast adds up.
func (p Problem) Least(own, scaled Expr) Expr {
	if own == nil {
		return nil
	}
	return Binary{Mul, own, scaled}
}

// OwnLeast is the minimum of group g, nil without minimums; super is the super-minimum if there are two levels, which a block of groups has alone.
func (p Problem) OwnLeast(super Expr) Expr {
	switch {
	case !p.Weight.Min:
		return nil
	case p.Block() == 1:
		return times(super, p.f32Of(p.Tensors().Mins))
	}
	return super
}

// ScaledSum is the sum of the activations of group g as minimums are multiplied with it: scaled,
// if groups have a scale.
func (p Problem) ScaledSum(sum Expr) Expr { return p.byActScale(Unary{CvtF32, sum}) }

// OfAct reads t, one number for each group of activations, at group g.
func (p Problem) OfAct(t *Tensor) Expr { return Read{t, []Expr{Axis{"n"}, p.FirstK()}} }

// ScaledSums are what Problem.ScaledSum makes of all sums.
func (t Tensors) ScaledSums() *Tensor {
	x := *t.Sums
	x.Elem, x.Most = format.F32, 0
	return &x
}

// Super is the super-scale of group g, nil unless there are two levels.
func (p Problem) Super() Expr { return p.f32Of(p.Tensors().Supers) }

// SuperMin is the super-minimum of group g, or nil.
func (p Problem) SuperMin() Expr { return p.f32Of(p.Tensors().SuperMins) }

func times(super, x Expr) Expr {
	if super == nil {
		return x
	}
	return Binary{Mul, super, x}
}

// f32Of is a number of group g as an f32, nil if the format has none.
func (p Problem) f32Of(t *Tensor) Expr {
	if t == nil {
		return nil
	}
	read := Read{t, []Expr{Axis{"m"}, p.FirstK()}}
	switch t.Elem {
	case format.F16:
		return Unary{CvtHalf, read}
	case format.U16: // the bits of a bf16
		return Unary{Bits, Binary{Shl, Cast{format.I32, read}, I32(16)}}
	case format.U8, format.I8:
		return Unary{CvtF32, Cast{format.I32, read}}
	}
	return read
}

// TinyAmax is the bits of 2^-100, the smallest absolute maximum a group is
// quantized with: no scale or its inverse overflows or is subnormal.
const TinyAmax = 0x0d800000

// PrepareAct quantizes activations x[n][k] (f32) to int8, per row or per group of p.Act.Group:
//
//	amax   = max |x| as IEEE bits (a NaN or Inf is larger than every number)
//	finite = all ones if the group holds neither NaN nor Inf, else 0
//	ascale = max(amax, 2^-100) / 127, or the canonical NaN if not finite
//	act    = round to nearest even of x * (127 / max(amax, 2^-100)), 0 if not finite
//	sums   = sum of act over each group of p.GroupK()
//
// The scale is by multiplication with f32(1/127). Of activations that stay f32
// nothing is computed.
func PrepareAct(p Problem) *Graph {
	if p.Act.Floats() {
		return &Graph{Inputs: []*Tensor{p.raw()}}
	}
	t := p.Tensors()
	n := Dim{Name: "n", Run: "N", Div: 1}
	group := func(name string, g int) (Dim, Dim, Expr) {
		gd, kd := Dim{Name: name + ".g", N: 1}, Dim{Name: name + ".k", Run: "K", Div: 1}
		var k Expr = Axis{kd.Name}
		if g > 0 {
			gd, kd = Dim{Name: gd.Name, Run: "K", Div: g}, Dim{Name: kd.Name, N: g}
			k = Binary{Add, Binary{Mul, Axis{gd.Name}, I32(g)}, k}
		}
		return gd, kd, k
	}
	x := p.raw()
	perGroup := func(name string, e format.DType) *Tensor {
		return &Tensor{Name: name, Elem: e, Dims: []string{"n", "k"}, Block: block(p.Act.Group)}
	}
	amax, inv, finite := perGroup("amax", format.I32), perGroup("inv", format.F32), perGroup("finite", format.I32)
	ng := Axis{"n"}
	at := func(g Dim) []Expr {
		if p.Act.Group > 0 {
			return []Expr{ng, Binary{Mul, Axis{g.Name}, I32(p.Act.Group)}}
		}
		return []Expr{ng, Binary{Mul, Axis{g.Name}, I32(1)}}
	}
	fbits := func(f float32) Expr { return Const{format.F32, int64(math.Float32bits(f))} }

	g1, k1, kk1 := group("amax", p.Act.Group)
	g2, _, _ := group("finite", p.Act.Group)
	g3, _, _ := group("inv", p.Act.Group)
	g4, _, _ := group("ascale", p.Act.Group)
	g5, k5, kk5 := group("act", p.Act.Group)
	g6, k6, kk6 := group("sums", p.GroupK())
	safe := func(g Dim) Expr { // max(amax, tiny) of finite groups, tiny of others
		return Unary{Bits, Binary{MaxS, Binary{And, Read{amax, at(g)}, Read{finite, at(g)}}, I32(TinyAmax)}}
	}
	notFinite := func(g Dim) Expr { // NaN bits where not finite, else 0
		return Binary{And, Binary{Sub, I32(-1), Read{finite, at(g)}}, I32(0x7fc00000)}
	}
	masked := Unary{Bits, Binary{And, Unary{Bits, Read{x, []Expr{ng, kk5}}}, Read{finite, at(g5)}}}
	return &Graph{[]*Tensor{x}, []Stage{
		{Out: amax, Axes: []Dim{n, g1}, Reduce: []Dim{k1}, Combine: MaxS,
			Body: Binary{And, Unary{Bits, Read{x, []Expr{ng, kk1}}}, I32(0x7fffffff)}},
		{Out: finite, Axes: []Dim{n, g2}, Body: Binary{CmpGtS, I32(0x7f800000), Read{amax, at(g2)}}},
		{Out: inv, Axes: []Dim{n, g3}, Body: Binary{Div, fbits(127), safe(g3)}},
		{Out: t.ActScale, Axes: []Dim{n, g4}, Body: Unary{Bits, Binary{Or, Binary{And,
			Unary{Bits, Binary{Mul, safe(g4), fbits(1.0 / 127)}}, Read{finite, at(g4)}}, notFinite(g4)}}},
		{Out: t.Act, Axes: []Dim{n, g5, k5}, Body: Cast{format.I8,
			Unary{CvtI32, Binary{Mul, masked, Read{inv, at(g5)}}}}},
		{Out: t.Sums, Axes: []Dim{n, g6}, Reduce: []Dim{k6}, Combine: Add,
			Body: Cast{format.I32, Read{t.Act, []Expr{ng, kk6}}}},
	}}
}

// raw is activations as they come.
func (p Problem) raw() *Tensor {
	return &Tensor{Name: "x", Elem: format.F32, Dims: []string{"n", "k"}}
}
