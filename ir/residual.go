package ir

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
)

// Tables of bytes that lose nothing. The entries of a unit are counted from the least
// that its digits can sum up to, so that none is negative. A byte holds up to 255 of each entry. The rest is its
// residual, which is stored in tables of residuals. They are 0 almost everywhere:
//
//	entry = table[entry] + residual[entry] - offset of the unit
//
// Few units of four bits have residuals: about two of the 1024 units of 4096 normally distributed activations. Of pairs
// of digits from -1 to 1, one in sixty has some. See ResidualShare.

// mostByte is the largest entry that needs no residual.
const mostByte = math.MaxUint8

// spread is the smallest and the largest value of a digit, and 0, which padding counts.
func (t *Tables) spread() (least, most int) {
	return min(0, slices.Min(t.Alphabet)), max(0, slices.Max(t.Alphabet))
}

// Offset is the number that a unit's entries are counted from, negated.
func (t *Tables) Offset(act func(digit int) int) int {
	least, most := t.spread()
	sum := 0
	for i := range t.Digits() {
		sum -= min(least*act(i), most*act(i))
	}
	return sum
}

// Residue cuts an entry, offset included, in its byte and its residual.
func (t *Tables) Residue(entry int) (low, residual int) {
	low = min(entry, mostByte)
	return low, entry - low
}

// MostResidual is the largest residual there is.
func (t *Tables) MostResidual() int {
	least, most := t.spread()
	return max(0, (most-least)*ActMax*t.Digits()-mostByte)
}

// ResidualShare is the share of units that have residuals if activations are normally distributed and int8 for whole
// rows of k.
func (t *Tables) ResidualShare(k int) float64 {
	least, most := t.spread()
	key := residualShare{t.Digits(), most - least, k}
	share, ok := residualShares.Load(key)
	if !ok {
		share, _ = residualShares.LoadOrStore(key, key.of())
	}
	return share.(float64)
}

// residualShare is what the share of units with residuals depends on: the digits of a unit, the range of each, and the
// length of a row.
type residualShare struct{ digits, spread, k int }

var residualShares sync.Map // of residualShare, to float64

// of is the mean over rows, whose largest activation differs.
func (x residualShare) of() (share float64) {
	const rows = 16
	for row := range rows {
		below := (float64(row) + 0.5) / rows // the probability that a row's largest activation is less than this row's
		share += x.ofRow(math.Sqrt2*math.Erfinv(math.Pow(below, 1/float64(max(1, x.k))))) / rows
	}
	return share
}

// ofRow is the share in a row whose largest activation is largest, in standard deviations.
func (x residualShare) ofRow(largest float64) (share float64) {
	magnitude := magnitudes(largest)
	sums := []float64{1} // sums[s]: the probability that the magnitudes of the digits so far sum up to s
	for range x.digits {
		next := make([]float64, len(sums)+ActMax)
		for s, p := range sums {
			for q, m := range magnitude {
				next[s+q] += p * m
			}
		}
		sums = next
	}
	for s, p := range sums {
		if x.spread*s > mostByte {
			share += p
		}
	}
	return share
}

// magnitudes are the probabilities of the magnitudes 0 to ActMax of normally distributed activations. The
// largest activation of the row is largest, in standard deviations.
func magnitudes(largest float64) (share [ActMax + 1]float64) {
	last := 0.0
	for q := range share {
		next := math.Erf((float64(q) + 0.5) / ActMax * largest / math.Sqrt2)
		share[q], last = next-last, next
	}
	share[ActMax] += 1 - last
	return share
}

// checkResidual reports tables that have no residuals in bytes, or that PrepareTables does
// not make: each is the sums of two tables of 4.
func (t *Tables) checkResidual() error {
	least, most := t.spread()
	entries := 1
	for range t.Digits() / 2 {
		entries *= len(t.Alphabet)
	}
	switch {
	case t.Mirror:
		return fmt.Errorf("entries with residuals have no signs, mirrored ones have")
	case len(t.Parts) != 1:
		return fmt.Errorf("entries with residuals want an index of one part, not %d", len(t.Parts))
	case least < -1 || most > 1:
		return fmt.Errorf("digits of %d to %d: entries with residuals have digits of -1, 0 and 1", least, most)
	case t.MostResidual() > mostByte:
		return fmt.Errorf("entries reach %d, beyond a byte and a residual; use fewer digits", t.MostResidual()+mostByte)
	case t.Digits()%2 != 0 || entries != halfEntries:
		return fmt.Errorf("%d digits of %d values: entries with residuals have two halves of %d values", t.Digits(), len(t.Alphabet), halfEntries)
	}
	return nil
}

// halfEntries is how many values half of the digits of an index have.
const halfEntries = 4

// residualStages are the stages of PrepareTables for tables with residuals. A unit's two
// halves of digits have tables of their own, of bytes:
//
//	pair[n, 8u + 4h + y]  u8 = offset and sum over the digits of half h of y
//	table[n, 16u + x]     u8 = the lower of 255 and pair[n, 8u + x%4] + pair[n, 8u + 4 + x/4]
//	residual[n, 16u + x]  u8 = the rest
//	offsets[n]           i32 = sum over k of the offsets
//	span[n, u]           i32 = sum of the magnitudes of the activations
//	excess[n, u]          u8 = the largest residual: what the span times that of a digit is above 255
func (t *Tables) residualStages(p Problem) []Stage {
	n := Dim{Name: "n", Run: "N", Div: 1}
	row := func(name string, elem format.DType, block int) *Tensor {
		return &Tensor{Name: name, Elem: elem, Dims: []string{"n", "k"}, Block: block}
	}
	units := func(stage string) Dim { return Dim{Name: stage + ".u", Run: "K", Div: t.Digits()} }
	all := func(stage string) Dim { return Dim{Name: stage + ".g", N: 1} }
	act, pair, residual := p.Tensors().Act, row("pair", format.U8, 0), row("residual", format.U8, 0)

	h, y := Dim{Name: "pair.h", N: 2}, Dim{Name: "pair.y", N: halfEntries}
	pairs := Stage{Out: pair, Axes: []Dim{n, units("pair"), h, y}, Body: t.pairEntry(act, h.Name, y.Name)}

	entry := func(stage string) (st Stage, low, high Expr) { // of the entries of the halves
		x := Dim{Name: stage + ".x", N: leastEntries}
		at := func(half int, y Expr) Expr {
			first := Binary{Add, Binary{Mul, Axis{stage + ".u"}, I32(2 * halfEntries)}, I32(half * halfEntries)}
			return Read{pair, []Expr{Axis{"n"}, Binary{Add, first, y}}}
		}
		return Stage{Axes: []Dim{n, units(stage), x}}, at(0, Binary{And, Axis{x.Name}, I32(halfEntries - 1)}), at(1, Binary{ShrS, Axis{x.Name}, I32(2)})
	}
	table, low, high := entry("table")
	table.Out, table.Body = row("table", format.U8, 0), Binary{AddSat, low, high}
	above, low, high := entry("residual")
	room := Binary{Sub, Const{format.U8, mostByte}, high} // the room that is left in a byte
	above.Out, above.Body = residual, Binary{SubSat, low, room}

	k := Dim{Name: "offsets.k", Run: "K", Div: 1}
	offsets := Stage{Out: row("offsets", format.I32, -1), Axes: []Dim{n, all("offsets")}, Reduce: []Dim{k}, Combine: Add,
		Body: Cast{format.I32, t.offsetOf(Read{act, []Expr{Axis{"n"}, Axis{k.Name}}})}}
	span := Stage{Out: row("span", format.I32, 0), Axes: []Dim{n, {Name: "span.g", Run: "K", Div: t.Digits()}}, Reduce: []Dim{{Name: "span.k", N: t.Digits()}}, Combine: Add}
	digit := Read{act, []Expr{Axis{"n"}, Binary{Add, Binary{Mul, Axis{"span.g"}, I32(t.Digits())}, Axis{"span.k"}}}}
	span.Body = Cast{format.I32, Binary{MaxS, digit, Binary{Sub, Const{format.I8, 0}, digit}}}
	excess := Stage{Out: row("excess", format.U8, 0), Axes: []Dim{n, units("excess")}}
	least, most := t.spread()
	largest := Binary{Mul, Read{span.Out, []Expr{Axis{"n"}, Axis{"excess.u"}}}, I32(most - least)}
	excess.Body = Cast{format.U8, Binary{MaxS, Binary{Sub, largest, I32(mostByte)}, I32(0)}}
	return []Stage{offsets, span, excess, pairs, table, above}
}

// offsetOf is the offset of one activation, as an i8.
func (t *Tables) offsetOf(a Expr) Expr {
	zero := Const{format.I8, 0}
	var up, down Expr = zero, zero // -least*a and -most*a
	least, most := t.spread()
	if least < 0 {
		up = a
	}
	if most > 0 {
		down = Binary{Sub, zero, a}
	}
	return Binary{MaxS, up, down}
}

// pairEntry is an entry of half a unit's digits, each with its offset: none is negative, and two of
// a byte do not leave it.
func (t *Tables) pairEntry(act *Tensor, half, entry string) Expr {
	digits := t.Digits() / 2
	var sum Expr
	for i := range digits {
		at := Binary{Add, Binary{Mul, Axis{"pair.u"}, I32(t.Digits())}, Binary{Add, Binary{Mul, Axis{half}, I32(digits)}, I32(i)}}
		sum = add(sum, Cast{format.U8, t.digitEntry(Read{act, []Expr{Axis{"n"}, at}}, i, Axis{entry})})
	}
	return sum
}

// digitEntry is what digit i of the entry of half a unit adds of its activation a, with the offset. Of
// digits of two neighbouring values that is a for the larger one, -a for the other, if it is not negative.
func (t *Tables) digitEntry(a Expr, i int, entry Axis) Expr {
	counted := func(v int) (e Expr, some bool) {
		mask, some := t.digitMask(i, v)
		return Binary{And, a, Lookup{mask, format.I8, entry}}, some
	}
	least, most := t.spread()
	if len(t.Alphabet) == 2 && most-least == 1 {
		larger, _ := counted(most)
		return Binary{MaxS, larger, Binary{Sub, larger, a}}
	}
	term := t.offsetOf(a)
	if e, some := counted(1); some {
		term = Binary{Add, term, e}
	}
	if e, some := counted(-1); some {
		term = Binary{Sub, term, e}
	}
	return term
}

// digitMask is, for each entry of half the digits, all ones if digit i counts v.
func (t *Tables) digitMask(i, v int) (mask []int, some bool) {
	mask = make([]int, halfEntries)
	for y := range mask {
		if t.Value(0, i, y) == v {
			mask[y], some = -1, true
		}
	}
	return mask, some
}
