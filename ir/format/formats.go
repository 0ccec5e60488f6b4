package format

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rows holds the built-in formats, each one literal. A new format is a new row:
// the name grammar, packing, every test and the compiler take it from here.
//
// The rows after iq4nl are GGUF block types (ggml-common.h and dequantize_row_* of
// ggml); package blocks reads their bytes into these codes. Of mxfp4 and nvfp4 the
// scales are half of what their names mean, as ggml has them: the levels are
// doubled to be integers.
var rows = []Weight{
	{Name: "w1", Bits: 1, Levels: []int{-1, 1}, Bound: 1, Per: PerRow, Scale: F32},
	{Name: "ternary", Bits: 2, Levels: []int{-1, 0, 1}, Bound: 1.6, Per: PerRow, Scale: F32},
	{Name: "w2", Bits: 2, Levels: UpFrom(-2, 4), Bound: 2, Per: PerRow, Scale: F32},
	{Name: "w3", Bits: 3, Levels: UpFrom(-4, 8), Bound: 3, Per: PerRow, Scale: F32},
	{Name: "w4", Bits: 4, Levels: UpFrom(-8, 16), Bound: 4, Per: PerRow, Scale: F32},
	{Name: "w8", Bits: 8, Levels: UpFrom(-128, 256), Bound: 8, Per: PerRow, Scale: F32},
	{Name: "iq4nl", Bits: 4, Levels: iq4nl, Bound: 4, Per: PerRow, Scale: F32},
	{Name: "q4_0", Bits: 4, Levels: UpFrom(-8, 16), Bound: 4, Per: PerGroup, Scale: F16, Group: 32},
	{Name: "q4_1", Bits: 4, Levels: UpFrom(0, 16), Bound: 4, Per: PerGroup, Scale: F16, Group: 32, Min: true},
	{Name: "q5_0", Bits: 5, Levels: UpFrom(-16, 32), Bound: 5, Per: PerGroup, Scale: F16, Group: 32},
	{Name: "q5_1", Bits: 5, Levels: UpFrom(0, 32), Bound: 5, Per: PerGroup, Scale: F16, Group: 32, Min: true},
	{Name: "q8_0", Bits: 8, Levels: UpFrom(-128, 256), Bound: 8, Per: PerGroup, Scale: F16, Group: 32},
	{Name: "iq4_nl", Bits: 4, Levels: iq4nl, Bound: 4, Per: PerGroup, Scale: F16, Group: 32},
	{Name: "tq2_0", Bits: 2, Levels: []int{-1, 0, 1}, Bound: 1.6, Per: PerGroup, Scale: F16, Group: 256},
	{Name: "q2_0", Bits: 2, Levels: UpFrom(-1, 4), Bound: 2, Per: PerGroup, Scale: F16, Group: 64},
	{Name: "q1_0", Bits: 1, Levels: []int{-1, 1}, Bound: 1, Per: PerGroup, Scale: F16, Group: 128},
	{Name: "q2_k", Bits: 2, Levels: UpFrom(0, 4), Bound: 2, Per: PerGroup, Scale: U8, Group: 16, Super: 256, Min: true},
	{Name: "q3_k", Bits: 3, Levels: UpFrom(-4, 8), Bound: 3, Per: PerGroup, Scale: I8, Group: 16, Super: 256},
	{Name: "q4_k", Bits: 4, Levels: UpFrom(0, 16), Bound: 4, Per: PerGroup, Scale: U8, Group: 32, Super: 256, Min: true},
	{Name: "q5_k", Bits: 5, Levels: UpFrom(0, 32), Bound: 5, Per: PerGroup, Scale: U8, Group: 32, Super: 256, Min: true},
	{Name: "q6_k", Bits: 6, Levels: UpFrom(-32, 64), Bound: 6, Per: PerGroup, Scale: I8, Group: 16, Super: 256},
	{Name: "iq4_xs", Bits: 4, Levels: iq4nl, Bound: 4, Per: PerGroup, Scale: I8, Group: 32, Super: 256},
	{Name: "mxfp4", Bits: 4, Levels: fp4, Bound: 4, Per: PerGroup, Scale: BF16, Group: 32},
	{Name: "nvfp4", Bits: 4, Levels: fp4, Bound: 4, Per: PerGroup, Scale: F16, Group: 16},
	// ggml's IQ1, IQ2 and IQ3: the levels that their grids use, with the sign.
	// Nominal bits count the indices and signs in a file.
	{Name: "iq1", Bits: 3, Levels: []int{-9, -7, -1, 1, 7, 9}, Bound: 1.5, Per: PerGroup, Scale: F32, Group: 32},
	{Name: "iq2", Bits: 3, Levels: []int{-43, -25, -8, 8, 25, 43}, Bound: 2, Per: PerGroup, Scale: F32, Group: 32},
	{Name: "iq3_xxs", Bits: 4, Levels: iq3xxs, Bound: 2.875, Per: PerGroup, Scale: F32, Group: 32},
	{Name: "iq3_s", Bits: 4, Levels: []int{-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15}, Bound: 3.25, Per: PerGroup, Scale: U8, Group: 32, Super: 256},
	// Several codebooks: examples from evenly spaced levels to ones that crowd around
	// zero, as a matrix whose groups differ in shape has them.
	{Name: "cb2x4", Bits: 2, Levels: books(4, 4), Bound: 2, Per: PerRow, Scale: F32, Books: 4, BookGroup: 32},
	{Name: "cb2x16", Bits: 2, Levels: books(16, 4), Bound: 2, Per: PerRow, Scale: F32, Books: 16, BookGroup: 32},
	{Name: "cb4x16", Bits: 4, Levels: books(16, 16), Bound: 4, Per: PerRow, Scale: F32, Books: 16, BookGroup: 32},
}

// iq4nl is the codebook of ggml's IQ4_NL (kvalues_iq4nl, ggml-common.h).
var iq4nl = []int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// iq3xxs are the levels of ggml's IQ3_XXS (iq3xxs_grid), of both signs.
var iq3xxs = []int{-62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62}

// fp4 is twice the numbers of E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
var fp4 = []int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// books returns n codebooks, one after the other, each with `levels` levels from -120 to 120. With u
// from -1 to 1, the levels of book b are 120 times (1-t)*u + t*u^3 with t = b/n.
func books(n, levels int) (all []int) {
	for b := range n {
		d := levels - 1
		for c := range levels {
			u := 2*c - d // of d
			all = append(all, 120*u*((n-b)*d*d+b*u*u)/(n*d*d*d))
		}
	}
	return all
}

// UpFrom is n levels, one apart, from base.
func UpFrom(base, n int) []int {
	levels := make([]int, n)
	for c := range levels {
		levels[c] = base + c
	}
	return levels
}

// Names lists the built-in formats in the order of the table.
func Names() []string {
	names := make([]string, len(rows))
	for i, w := range rows {
		names[i] = w.Name
	}
	return names
}

func row(name string) (Weight, bool) {
	for _, w := range rows {
		if w.Name == name {
			w.Levels = slices.Clone(w.Levels)
			return w, true
		}
	}
	return Weight{}, false
}

// Lookup is the weight format of a name: a built-in one, followed by what
// differs from it, in any order.
//
//	w4              one f32 scale per row
//	w4-g32          one f16 scale per 32 weights of a row
//	w4-g128-f32     one f32 scale per 128
//	w4-g32-z        with an int8 zero point per scale
//	w2-tensor       one f32 scale
//	w2-row-f16      one f16 scale per row
//	w4-g32-bf16     one bf16 scale per 32
//	w4-g32-m        with a minimum per scale, of its type
//	w4-g32-s256     one u8 scale per 32, times one f16 per 256; with m, minimums likewise
//	w4-g32-s256-i8  the same with i8
//	cb4x16-g32-b16  with an index of its codebook per 16 weights
//
// The name of the result is the canonical one: w4-g32-f16 is w4-g32.
func Lookup(name string) (Weight, error) {
	pieces := strings.Split(name, "-")
	w, ok := row(pieces[0])
	if !ok {
		return Weight{}, unknown(name, pieces[0])
	}
	var per, super, scale, zero, least, book bool // which kinds of piece have been seen
	for _, p := range pieces[1:] {
		seen := &per
		switch {
		case p == "tensor":
			w.Per, w.Group = PerTensor, 0
		case p == "row":
			w.Per, w.Group = PerRow, 0
		case p == "z":
			seen, w.Zero = &zero, true
		case p == "m":
			seen, w.Min = &least, true
		case scalePiece(p) != Invalid:
			seen, w.Scale = &scale, scalePiece(p)
		case number(p, "g") > 0:
			w.Per, w.Group = PerGroup, number(p, "g")
		case number(p, "s") > 0:
			seen, w.Super = &super, number(p, "s")
		case number(p, "b") > 0:
			seen, w.BookGroup = &book, number(p, "b")
		default:
			return Weight{}, errorf(fmt.Sprintf("weight %q", name), "unknown piece %q; there are tensor, row, gN (one scale per N weights), sN (of two levels, one per N), bN (an index of its codebook per N), f16, bf16, f32, i8, u8, z (zero points) and m (minimums)", p)
		}
		if *seen {
			return Weight{}, errorf(fmt.Sprintf("weight %q", name), "piece %q repeats or contradicts an earlier one", p)
		}
		*seen = true
	}
	if per && !super {
		w.Super = 0
	}
	if (per || super) && !scale {
		w.Scale = w.usualScale()
	}
	w.Name = w.String()
	if err := w.Validate(); err != nil {
		return Weight{}, err
	}
	return w, nil
}

// unknown is the error of a name that begins with no built-in format, which names the beginning, and the whole if that is more.
func unknown(name, base string) error {
	did := meant(name)
	if did == "" {
		did = DidYouMean(nearWhole(name, base))
	}
	have := fmt.Sprintf("there are %s; groups are written -g32%s", strings.Join(Names(), " "), did)
	if name == base {
		return errorf(fmt.Sprintf("unknown format %.64q", name), "%s", have)
	}
	return errorf(fmt.Sprintf("weight %.64q", name), "unknown format %.64q; %s", base, have)
}

// nearWhole are the built-in formats that base is near to, with what name has behind base if that makes a format.
func nearWhole(name, base string) (near []string) {
	for _, n := range Near(base, Names()) {
		whole := n + strings.ToLower(name[len(base):])
		if _, err := Lookup(whole); err != nil {
			whole = n
		}
		near = append(near, whole)
	}
	return near
}

// meant asks whether an unknown name was to be one that it becomes in small letters and with a dash
// behind the built-in format that it begins with; "" if it begins with none.
func meant(name string) string {
	first, rest, more := strings.Cut(strings.ToLower(name), "-")
	base := ""
	for _, w := range rows {
		if len(w.Name) > len(base) && strings.HasPrefix(first, w.Name) {
			base = w.Name
		}
	}
	if base == "" {
		return ""
	}
	if piece := first[len(base):]; number(piece, "g") > 0 {
		base += "-" + piece
	}
	if more {
		base += "-" + rest
	}
	return fmt.Sprintf("; did you mean %s?", base)
}

// number reads "g32": a positive number without leading zeros behind a prefix, or 0.
func number(p, prefix string) int {
	digits, ok := strings.CutPrefix(p, prefix)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// scalePiece is the type of scales of that name, or Invalid.
func scalePiece(p string) DType {
	for _, d := range []DType{F16, BF16, F32, I8, U8} {
		if d.String() == p {
			return d
		}
	}
	return Invalid
}

// usualScale is the type of a scale that a name does not state.
func (w Weight) usualScale() DType {
	switch {
	case w.Super > 0:
		return U8
	case w.Per == PerGroup:
		return F16
	}
	return F32
}

// String is the canonical name of w: the shortest for which Lookup gives w, or
// w.Name if w does not come from the table.
func (w Weight) String() string {
	name, _, _ := strings.Cut(w.Name, "-")
	base, ok := row(name)
	if !ok || !w.derives(base) {
		return w.Name
	}
	same := w.Per == base.Per && w.Group == base.Group && w.Super == base.Super
	plain := base.Scale // the scale type if no piece states it
	if !same {
		plain = w.usualScale()
	} else if w.Scale != base.Scale {
		plain = Invalid
	}
	if !same || plain == Invalid {
		if w.Per == PerGroup {
			name += "-g" + strconv.Itoa(w.Group)
		} else {
			name += "-" + w.Per.String()
		}
		if w.Super > 0 {
			name += "-s" + strconv.Itoa(w.Super)
		}
	}
	if w.BookGroup != base.BookGroup {
		name += "-b" + strconv.Itoa(w.BookGroup)
	}
	if w.Scale != plain {
		name += "-" + w.Scale.String()
	}
	if w.Zero {
		name += "-z"
	}
	if w.Min && !base.Min {
		name += "-m"
	}
	return name
}
