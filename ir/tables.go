package ir

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// How the digits of a decomposition are read from codes.
const (
	DigitBits  = "bits"  // each bit of a code, 0 or 1
	DigitSigns = "signs" // each bit of a code, as -1 or +1
	DigitCodes = "codes" // the code, to base 2^bits
	// The code, to the base of the number of levels: the codewords of format.JoinCodes
	// that mirror none.
	DigitLevels = "levels"
)

// Decompose is the decomposition of w by digits of the given kind, whose table
// indices are made of parts.
func Decompose(w format.Weight, digits string, parts ...int) (Decomposition, error) {
	switch digits {
	case DigitBits:
		d, err := BitSerial(w, parts...)
		if err != nil {
			return d, err
		}
		return d.counting(w), nil
	case DigitSigns:
		return BitSerial(w, parts...)
	case DigitLevels:
		return ElementLUT(w, parts...)
	case DigitCodes:
		if err := cmp.Or(w.Validate(), oneBook(w)); err != nil {
			return Decomposition{}, err
		}
		w.Levels = append(slices.Clone(w.Levels), make([]int, 1<<w.Bits-len(w.Levels))...)
		d := Decomposition{Alphabet: w.Levels, Coef: []int{1}, HalfOf: 1, Parts: slices.Clone(parts)}
		return d, d.checkParts(w)
	}
	return Decomposition{}, lutError(w, "no digits %q; have %s, %s, %s, %s", digits, DigitBits, DigitSigns, DigitCodes, DigitLevels)
}

// counting is d, of bits, with digits 0 and 1 instead of -1 and 1: a level is the
// first one and what each bit adds.
func (d Decomposition) counting(w format.Weight) Decomposition {
	d.Alphabet, d.Bias, d.HalfOf, d.Coef = []int{0, 1}, w.Levels[0], 1, steps(w)
	return d
}

// Tables is how the tables of a decomposition lie in memory. A unit is the Digits elements of K
// that belong to one index. Together units are a block: all tables of
// the first part, unit by unit, then all tables of the next part. A table is stored as
// entries of Elem. If Low is not 0, an entry is split into two bytes, its lowest Low bits
// and the bits above them: the block has the lower bytes of all entries of a part (u8) before
// the upper ones (i8). Entries of f32 are sums of f32 activations, rounded. Entries of i8 are
// rounded to multiples of 2^Low: their products are not exact, but their error is bounded (Deviation).
//
// A mirrored table stores only the lower half of its entries. The entries of a number and of its
// mirror image have the same magnitude and opposite signs, because the alphabet is symmetric.
// The lower bytes have a sign (i8), so that both bytes can be negated.
type Tables struct {
	Decomposition
	ByBit    bool         // a digit is a bit of a code, else the code
	Elem     format.DType // I16, I8, F32 or, with Residual, U8
	Low      int
	Residual bool // entries are what Residue says; the residuals lie elsewhere, as the entries do
	Together int
	Mirror   bool
}

// leastEntries is the smallest table that lookups have.
const leastEntries = 16

// Looked is how many entries of a part are looked up: all, or of mirrored tables the
// lower half, the middle included.
func (t *Tables) Looked(part int) int {
	if t.Mirror {
		return (t.Entries(part) + 1) / 2
	}
	return t.Entries(part)
}

// Stored is the number of entries stored for a part: a power of two, at least 16.
// Entries beyond those that are looked up are 0.
func (t *Tables) Stored(part int) int {
	n := leastEntries
	for n < t.Looked(part) {
		n *= 2
	}
	return n
}

// Start is the first digit of a part.
func (t *Tables) Start(part int) int {
	n := 0
	for _, g := range t.Parts[:part] {
		n += g
	}
	return n
}

// Place is the byte where an entry of a part lies; half is 1 for the upper halves of a
// split table, and for residuals, among which it is the byte.
func (t *Tables) Place(unit, part, half, entry int) int {
	size := t.Elem.Bytes()
	switch {
	case t.Split():
		size = 1
	case t.Residual:
		half = 0
	}
	block, in := unit/t.Together, unit%t.Together
	return t.Together*(block*t.UnitBytes()+t.bytes(part)+half*t.Stored(part)) + (in*t.Stored(part)+entry)*size
}

// UnitBytes is the size of the tables of a unit.
func (t *Tables) UnitBytes() int { return t.bytes(len(t.Parts)) }

// bytes is the size of the first parts.
func (t *Tables) bytes(parts int) int {
	n := 0
	for q := range parts {
		n += t.Stored(q) * t.Elem.Bytes()
	}
	return n
}

// Split says that entries are two bytes.
func (t *Tables) Split() bool { return t.Low > 0 && !t.Rounded() }

// Rounded says that entries are one byte, counted in 2^Low.
func (t *Tables) Rounded() bool { return t.Elem == format.I8 }

// Deviation is how far an entry may be from what it stands for, as a multiple of 1/2: Rounded
// ones are half of 2^Low away from it at most, others are exact.
func (t *Tables) Deviation() int {
	if t.Rounded() {
		return 1 << t.Low &^ 1
	}
	return 0
}

// Halves are the bytes of a split entry: entry = low + high*2^Low. A rounded entry has the upper byte only.
func (t *Tables) Halves(entry int) (low, high int) {
	high = (entry + t.round()) >> t.Low
	return entry - high<<t.Low, high
}

// round is added to an entry before its upper half is taken. It is half of the unit of the upper half if lower halves
// have signs, else 0.
func (t *Tables) round() int {
	if t.Mirror || t.Rounded() {
		return 1 << t.Low / 2
	}
	return 0
}

// HalfRange is the range of the halves of entries up to bound, either one negated if the
// tables are mirrored; half is 1 for the upper ones.
func (t *Tables) HalfRange(half, bound int) (lo, hi int) {
	if half == 0 {
		lo, hi = -t.round(), 1<<t.Low-1-t.round()
	} else {
		_, lo = t.Halves(-bound)
		_, hi = t.Halves(bound)
	}
	if t.Mirror {
		lo, hi = min(lo, -hi), max(hi, -lo)
	}
	return lo, hi
}

// Value is what digit i of an entry of a part counts.
func (t *Tables) Value(part, i, entry int) int {
	if entry >= t.Looked(part) {
		return 0
	}
	for range i {
		entry /= len(t.Alphabet)
	}
	return t.Alphabet[entry%len(t.Alphabet)]
}

// PrepareTables is PrepareAct followed by two stages for the tables. A unit u is
// Digits elements of K. All entries x of its tables lie together, first the entries of the first
// part. Split tables have the lower halves first:
//
//	wide[n, k]          i16 = act
//	table[n, u size + x]    = sum over digits i of the part of x of value[i][x] * wide[n, u Digits + start + i]
//
// An element of split tables is the low bits of that sum, or the bits above them. f32
// activations are added as they are, in ascending order, each product and sum rounded,
// and every NaN is made canonical:
//
//	table[n, u size + x] f32 = canonnan(sum over digits i of the part of x of value[i][x] * x[n, u Digits + start + i])
//
// Tables with residuals have the stages of residualStages.
func PrepareTables(p Problem, t *Tables) *Graph {
	g := PrepareAct(p)
	if t.Residual {
		g.Stages = append(g.Stages, t.residualStages(p)...)
		return g
	}
	n := Dim{Name: "n", Run: "N", Div: 1}
	u, x := Dim{Name: "table.u", Run: "K", Div: t.Digits()}, Dim{Name: "table.x"}
	from := p.raw()
	if !p.Act.Floats() {
		k := Dim{Name: "wide.k", Run: "K", Div: 1}
		from = &Tensor{Name: "wide", Elem: format.I16, Dims: []string{"n", "k"}}
		g.Stages = append(g.Stages, Stage{Out: from, Axes: []Dim{n, k},
			Body: Cast{format.I16, Read{p.Tensors().Act, []Expr{Axis{"n"}, Axis{k.Name}}}}})
	}
	var of []int // piece of each entry
	var pieces []Expr
	for q := range t.Parts {
		for half := range t.halves() {
			for range t.Stored(q) {
				of = append(of, len(pieces))
			}
			pieces = append(pieces, t.half(half, t.entry(q, from, u, x, len(of)-t.Stored(q))))
		}
	}
	x.N = len(of)
	out := &Tensor{Name: "table", Elem: t.Elem, Dims: []string{"n", "entry"}}
	if t.Split() || t.Rounded() {
		out.Elem = format.U8
	}
	g.Stages = append(g.Stages, Stage{Out: out, Axes: []Dim{n, u, x}, Body: Choose{Lookup{of, format.I32, Axis{x.Name}}, pieces}})
	return g
}

// halves is how many elements an entry has.
func (t *Tables) halves() int {
	if t.Split() {
		return 2
	}
	return 1
}

// half is the stored half of an entry, or all of it.
func (t *Tables) half(half int, entry Expr) Expr {
	number := func(v int) Expr { return Const{format.I16, int64(v)} }
	if !t.Split() && !t.Rounded() {
		return entry
	}
	round := number(t.round())
	if t.round() != 0 {
		entry = Binary{Add, entry, round}
	}
	switch {
	case t.Rounded() && t.Low == 0:
	case half == 1 || t.Rounded():
		entry = Binary{ShrS, entry, number(t.Low)}
	case t.Low < 8:
		entry = Binary{And, entry, number(1<<t.Low - 1)}
	}
	if t.Mirror && t.Split() && half == 0 {
		entry = Binary{Sub, entry, round}
	}
	return Cast{format.U8, entry}
}

// OutPlace is the byte where element x of a unit lies, in the order of PrepareTables.
func (t *Tables) OutPlace(unit, x int) int {
	for q := range t.Parts {
		for half := range t.halves() {
			if x < t.Stored(q) {
				return t.Place(unit, q, half, x)
			}
			x -= t.Stored(q)
		}
	}
	panic("BUG: ir: no such element of a table")
}

// OutSize is the number of elements of the tables of a unit.
func (t *Tables) OutSize() int {
	n := 0
	for q := range t.Parts {
		n += t.halves() * t.Stored(q)
	}
	return n
}

// entry is entry x - first of unit u, of 16 bits or f32.
func (t *Tables) entry(part int, from *Tensor, u, x Dim, first int) Expr {
	var sum Expr
	elem := from.Elem
	for i := range t.Parts[part] {
		values, mask := make([]int, first+t.Stored(part)), true
		for e := range t.Stored(part) {
			values[first+e] = t.Value(part, i, e)
			mask = mask && values[first+e]>>1 == 0
		}
		at := Binary{Add, Binary{Mul, Axis{u.Name}, I32(t.Digits())}, I32(t.Start(part) + i)}
		var term Expr = Read{from, []Expr{Axis{"n"}, at}}
		if mask && elem != format.F32 {
			for x := range values {
				values[x] = -values[x]
			}
			term = Binary{And, term, Lookup{values, elem, Axis{x.Name}}}
		} else {
			term = Binary{Mul, term, Lookup{values, elem, Axis{x.Name}}}
		}
		sum = add(sum, term)
	}
	if elem == format.F32 {
		return Unary{CanonNaN, sum}
	}
	return sum
}

// Bound is the largest magnitude of an entry of a part, for activations up to 127.
func (t *Tables) Bound(part int) int {
	most := max(slices.Max(t.Alphabet), -slices.Min(t.Alphabet))
	return ActMax * most * t.Parts[part]
}

// Entry is one entry of a part's table, of the activations of its unit.
func (t *Tables) Entry(part, entry int, act func(digit int) int) int {
	if entry >= t.Looked(part) {
		return 0
	}
	sum, start := 0, t.Start(part)
	for i := range t.Parts[part] {
		sum += t.Alphabet[entry%len(t.Alphabet)] * act(start+i) // Value
		entry /= len(t.Alphabet)
	}
	return sum
}

// FloatEntry is Entry of f32 activations.
func (t *Tables) FloatEntry(part, entry int, act func(digit int) float32) float32 {
	sum := float32(0)
	for i := range t.Parts[part] {
		term := float32(float32(t.Value(part, i, entry)) * act(t.Start(part)+i))
		if i == 0 {
			sum = term
		} else {
			sum = float32(sum + term)
		}
	}
	return sum
}

// Check reports entries that do not fit the type they are stored in.
func (t *Tables) Check() error {
	switch {
	case t.Elem == format.F32:
		return nil
	case t.Residual:
		return t.checkResidual()
	}
	for part := range t.Parts {
		if b := t.Bound(part); b > 1<<15-1 {
			return fmt.Errorf("entries of part %d reach %d, beyond 16 bits; use fewer digits", part, b)
		}
		if _, top := t.HalfRange(1, t.Bound(part)); (t.Split() || t.Rounded()) && top > 1<<7-1 {
			return fmt.Errorf("entries of part %d reach %d: more than %d bits and a byte", part, t.Bound(part), t.Low)
		}
	}
	if _, top := t.HalfRange(0, 0); t.Split() && t.Mirror && top > 1<<7-1 {
		return fmt.Errorf("a lower half of %d bits, negated, is no byte; want 1 to 7", t.Low)
	}
	return t.checkMirror()
}

// checkMirror reports digits whose mirror image does not count the opposite, and indices of
// a bit, whose half has no index.
func (t *Tables) checkMirror() error {
	for part := range t.Parts {
		if t.Mirror && t.Looked(part) < 2 {
			return fmt.Errorf("part %d has %d entries: half of them is no table; want more digits", part, t.Entries(part))
		}
	}
	for i, v := range t.Alphabet {
		if t.Mirror && v != -t.Alphabet[len(t.Alphabet)-1-i] {
			return fmt.Errorf("digits that count %v are not symmetric: their tables have no mirror image; use signs or levels that are", t.Alphabet)
		}
	}
	return nil
}

// ID is what tables of equal contents have in common: "0,1/5,5,6/i16/1", "0,1/4/i16split8/4".
func (t *Tables) ID() string {
	kind := t.Elem.String()
	if t.Low > 0 {
		kind += fmt.Sprint(map[bool]string{false: "split", true: "round"}[t.Rounded()], t.Low)
	}
	if t.Mirror {
		kind += "mirror"
	}
	join := func(xs []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(xs), " ", ","), "[]") }
	return fmt.Sprintf("%s/%s/%s/%d", join(t.Alphabet), join(t.Parts), kind, t.Together)
}
