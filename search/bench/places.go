package bench

import (
	"slices"

	"github.com/tmacc/tmacc/search/measure"
)

// MaxSmall is the largest number of activations that is measured in every mode. For more it does not matter where
// the weights are.
const MaxSmall = 8

// Places are where to measure a format: products of few activations in every mode, those of many in one of them. Modes and
// numbers of activations count once. The matrix has m rows and k columns; 0 is the mode's own size.
func Places(modes []string, ns []int, m, k int) []Place {
	var out []Place
	large := modes[0]
	if slices.Contains(modes, measure.ModeL3) {
		large = measure.ModeL3
	}
	for i, mode := range modes {
		if slices.Contains(modes[:i], mode) {
			continue
		}
		p := Place{Mode: mode}
		p.M, p.K = measure.Shape(mode)
		if m > 0 {
			p.M = m
		}
		if k > 0 {
			p.K = k
		}
		for j, n := range ns {
			if (n <= MaxSmall || mode == large) && !slices.Contains(ns[:j], n) {
				p.Ns = append(p.Ns, n)
			}
		}
		if p.Ns != nil {
			out = append(out, p)
		}
	}
	return out
}
