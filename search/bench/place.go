package bench

import (
	"math/rand/v2"
	"slices"

	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// Place says where the weights of a measured product are, its shape, and by how many activations each call multiplies.
type Place struct {
	Mode    string
	M, K    int
	Ns      []int
	Extreme bool // activations are as large as the largest
}

// Draw returns a function that draws an activation.
func (p Place) Draw() func(*rand.Rand) float32 {
	if p.Extreme {
		return timing.Extreme
	}
	return timing.Normal
}

// Cycled returns the bytes of copies of the weights that the place cycles through on h, 0 for one copy.
func (p Place) Cycled(h timing.Host) int {
	if p.Mode == measure.ModeDRAM {
		return DRAMBytes(h)
	}
	return 0
}

// Places returns a place for each mode. Numbers of activations above measure.MaxGEMV are in one place only, since
// it does not matter there where the weights are. m and k replace the shape of the mode unless they are 0.
func Places(modes []string, ns []int, m, k int) (out []Place) {
	large := ""
	if len(modes) > 0 {
		large = modes[0]
	}
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
			if (n <= measure.MaxGEMV || mode == large) && !slices.Contains(ns[:j], n) {
				p.Ns = append(p.Ns, n)
			}
		}
		if p.Ns != nil {
			out = append(out, p)
		}
	}
	return out
}

// extreme is the place where products are measured whose time depends on their activations: with the worst activations, one
// column, out of the second-level cache.
func extreme() Place {
	m, k := measure.Shape(measure.ModeL2)
	return Place{Mode: measure.ModeL2, M: m, K: k, Ns: []int{1}, Extreme: true}
}
