package blocks

import "github.com/tmacc/tmacc/ir/format"

// UsualActGroup returns the number of int8 activations that share a scale along K unless somebody asks for another: 0, a scale
// per row of activations, except for the formats of GGUF's blocks. There it is what ggml multiplies them with, Q8_K's 256 or Q8_0's
// 32, or less if groups of weights are smaller. Scales and minimums of groups under 32 would take longer than their dot products
// (q2_k, 256 columns on Emerald Rapids: 107 GMAC/s with activations in groups of 16, 180 with 256).
func UsualActGroup(w format.Weight) int {
	for _, t := range Types() {
		switch b, err := Lookup(t); {
		case err != nil || b.Weight != w.Name || w.Per != format.PerGroup:
		case w.Group%256 == 0, w.Group < 32 && w.Min && w.Super%256 == 0:
			return 256
		default:
			return min(32, w.Group)
		}
	}
	return 0
}
