package format

import (
	"fmt"
	"math"
)

// Act is how activations are prepared: symmetric int8, |code| <= 127, one f32
// scale per row of activations (Group 0) or per Group values along K. With a
// weight Group, the activation Group is 0, divides it or is a multiple of it.
//
// If Float is not 0, activations are not quantized: they stay f32, and so are their
// sums. Rounding makes the order of a sum part of its meaning: the products of
// Float neighbours are added first, then what they make to the sum of the group.
type Act struct {
	Group int `json:"group"`
	Float int `json:"float,omitempty"` // 1 to MaxFloat, with Group 0; a weight Group is a multiple of it
}

// MaxFloat is the largest Act.Float.
const MaxFloat = 8

// Floats says that activations are f32.
func (a Act) Floats() bool { return a.Float != 0 }

// The largest tables of f32 activations that FloatAct counts on: entries found by whole
// codes, and by numbers to the base of the number of levels.
const (
	floatCodeBits  = 4
	floatLevelBits = 5
)

// FloatAct is how f32 activations are summed for w unless somebody wants it otherwise:
// by tables of at most 16 entries, with the most codes for each index. Weights without groups may have tables of
// 32 entries, if codes joined to numbers take fewer bits than codes stored one by one. FloatAct refuses weights whose
// products with f32 activations are not defined or have no such tables.
func (w Weight) FloatAct() (Act, error) {
	if err := w.floats(); err != nil {
		return Act{}, err
	}
	for g := MaxFloat; g > 0; g-- {
		if w.Group%g == 0 && g*w.Bits <= floatCodeBits || w.Group == 0 && w.joinsFloats(g) {
			return Act{Float: g}, nil
		}
	}
	return Act{}, errorf(fmt.Sprintf("weight %q", w.Name), "has %d levels in %d bits; tables of f32 activations are for codes of at most %d bits: quantize the activations", len(w.Levels), w.Bits, floatCodeBits)
}

// joinsFloats says that numbers of g codes are shorter than the codes, and short enough.
func (w Weight) joinsFloats(g int) bool {
	_, bits, err := JoinCodes(len(w.Levels), g, 0)
	return err == nil && bits <= floatLevelBits && bits < g*w.Bits
}

// floats refuses weights that need sums of activations, which are integers, and
// weights with several codebooks.
func (w Weight) floats() error {
	thing := fmt.Sprintf("weight %q", w.Name)
	switch {
	case w.Zero:
		return errorf(thing, "zero points need sums of quantized activations; these are f32: quantize them")
	case w.Books > 0:
		return errorf(thing, "several codebooks have no tables, which products of f32 activations need: quantize them")
	case w.Min:
		return errorf(thing, "minimums need sums of quantized activations; these are f32: quantize them")
	}
	return nil
}

// ValidGroup reports what makes Group impossible for products with any weights, or nil.
func (a Act) ValidGroup() error {
	if a.Group < 0 || a.Group%16 != 0 || a.Group > MaxGroup {
		return errorf(fmt.Sprintf("activation group %d", a.Group), "want 0 (one scale per row) or a multiple of 16 up to %d", MaxGroup)
	}
	return nil
}

// Fits reports what makes a impossible for products with w, or nil.
func (a Act) Fits(w Weight) error {
	if err := a.ValidGroup(); err != nil {
		return err
	}
	group := fmt.Sprintf("activation group %d", a.Group)
	switch g := a.Group; {
	case w.Per == PerGroup && !nests(g, w.Group):
		return errorf(group, "neither divides the weight group %d nor is a multiple of it", w.Group)
	case g > w.Group && !nests(g, w.Super):
		return errorf(group, "neither divides the super-block of %d nor is a multiple of it", w.Super)
	case !nests(g, w.BookGroup):
		return errorf(group, "neither divides the book group %d nor is a multiple of it", w.BookGroup)
	case !a.Floats():
		return nil
	case g > 0:
		return errorf(group, "f32 activations have no scales; want 0")
	}
	sums := fmt.Sprintf("f32 activations summed by %d", a.Float)
	switch {
	case a.Float < 0 || a.Float > MaxFloat:
		return errorf(sums, "want 1 to %d, or 0 for int8", MaxFloat)
	case w.Group%a.Float != 0:
		return errorf(sums, "do not fill a weight group of %d", w.Group)
	}
	return w.floats()
}

// nests says that what a elements share is whole groups of b elements or a part of one; 0
// is all elements.
func nests(a, b int) bool { return a == 0 || b == 0 || a%b == 0 || b%a == 0 }

// SumGroup is how many elements of K are summed before they are scaled, 0 for all: those
// that share a scale of the weights and one of the activations. See BlockGroup.
func (a Act) SumGroup(w Weight) int {
	if a.Group == 0 || w.Group == 0 {
		return max(a.Group, w.Group)
	}
	return min(a.Group, w.Group)
}

// ActMax is the largest magnitude of an int8 activation: quantization never makes -128.
const ActMax = 127

// MostK is the largest K that kernels are proven exact for.
const MostK = 1 << 24

// UsualMaxK is the largest K that kernels are proven exact for unless told otherwise. Sums in pure Go are exact up to
// there, too.
const UsualMaxK = 131072

// BlockGroup is how many elements of K are summed to one integer before floats scale it, 0 for all. It is at least
// SumGroup. Sub-scales are integers too, so that it may be the part of a super-block that shares a scale of the
// activations. If its sums may not fit 32 bits, or are f32, the block is SumGroup itself.
func (a Act) BlockGroup(w Weight) int {
	block := w.Super
	if a.Group > 0 {
		block = min(block, a.Group)
	}
	group := a.SumGroup(w)
	if a.Floats() || block <= group || int64(block*w.MostScale())*int64(w.Peak()*ActMax) > math.MaxInt32 {
		return group
	}
	return block
}

// Block is how many groups of SumGroup, neighbours along K, are one integer when floats scale it: with two levels of scales
// sub-scales multiply the sums of groups.
func (a Act) Block(w Weight) int {
	if g := a.SumGroup(w); g > 0 {
		return a.BlockGroup(w) / g
	}
	return 1
}

// Unit is what the elements of K of products with w are a multiple of.
func (a Act) Unit(w Weight) int { return max(a.Group, w.Unit()) }

// FloatError bounds what rounding does to a product of f32 activations with rows of k
// weights of w: if no partial sum overflows, the canonical result is within
//
//	relative * (sum of |weight * activation|) + absolute
//
// of the sum of weight * activation in real numbers. A product of weight and activation
// goes through c roundings, of relative error u = 2^-24 each: the roundings of level *
// activation, of at most F-1 additions to its neighbours, n/F - 1 to the sum of a group of n,
// one by the scale and G-1 to the sum of G groups. Together they are at most c u / (1 - c
// u) (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1). Only scaling
// can underflow: sums of multiples of 2^-149 are exact below 2^-126.
func (a Act) FloatError(w Weight, k int) (relative, absolute float64) {
	n, groups := k, 1
	if w.Group > 0 {
		n, groups = min(k, w.Group), (k+w.Group-1)/w.Group
	}
	c := math.Ldexp(float64(a.Float+(n+a.Float-1)/a.Float+groups-1), -24)
	return c / (1 - c), math.Ldexp(float64(groups), -149)
}
