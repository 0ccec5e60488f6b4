package ir

import (
	"math"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// The plain definition of a product and of activation preparation, in int and
// float32 arithmetic written out: what every graph is compared with.

// product is one problem with its inputs.
type product struct {
	p       Problem
	m, n, k int
	in      map[string]*Array
}

func (c product) sizes() map[string]int { return map[string]int{"M": c.m, "N": c.n, "K": c.k} }

func blocks(k, per int) int {
	if per <= 0 {
		return 1
	}
	return (k + per - 1) / per
}

// weight is a built-in format, failing the test if there is none of the name.
func weight(t testing.TB, name string) format.Weight {
	t.Helper()
	w, err := format.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// randomProduct fills the inputs of p: allowed codes, scales of both signs, and
// activations of -127..127 with their true sums.
func randomProduct(rng *rand.Rand, p Problem, m, n, k int) product {
	w, groupK := p.Weight, p.GroupK()
	c := product{p, m, n, k, map[string]*Array{
		"codes": NewArray(m, k), "act": NewArray(n, k),
		"sums":   NewArray(n, blocks(k, groupK)),
		"ascale": NewArray(n, blocks(k, p.Act.Group)),
	}}
	for i := range c.in["codes"].V {
		c.in["codes"].V[i] = int64(rng.Intn(w.Codes()))
	}
	extreme := rng.Intn(4) == 0
	for i := range c.in["act"].V {
		v := rng.Intn(255) - 127
		if extreme {
			v = 127 - 254*rng.Intn(2)
		}
		c.in["act"].V[i] = int64(v)
		span := k
		if groupK > 0 {
			span = groupK
		}
		c.in["sums"].V[i/k*blocks(k, groupK)+i%k/span] += int64(v)
	}
	for i := range c.in["ascale"].V {
		c.in["ascale"].V[i] = f32bits(float32(rng.ExpFloat64()))
	}
	for _, x := range w.Shared() {
		a := NewArray(m, blocks(k, x.Span))
		for i := range a.V {
			f := float32(rng.NormFloat64())
			switch x.Elem {
			case format.U8:
				if x.Limit > 0 {
					a.V[i] = int64(rng.Intn(x.Limit))
					continue
				}
				a.V[i] = int64(rng.Intn(256))
			case format.I8:
				a.V[i] = int64(rng.Intn(256) - 128)
			case format.F16:
				a.V[i] = int64(format.HalfFromFloat32(f))
			case format.BF16:
				a.V[i] = f32bits(f) >> 16
			default:
				a.V[i] = f32bits(f)
			}
		}
		c.in[x.Name] = a
	}
	return c
}

// plainMatmul is the bits of out[n*M+m].
func plainMatmul(c product) []uint32 {
	w, groupK := c.p.Weight, c.p.GroupK()
	if groupK == 0 {
		groupK = c.k
	}
	out := make([]uint32, c.n*c.m)
	for n := range c.n {
		for m := range c.m {
			acc := float32(0)
			block, blockLeast := 0, 0 // of groups that are one integer
			for first := 0; first < c.k; first += groupK {
				shared := map[string]float32{}
				for _, x := range w.Shared() {
					at := m * blocks(c.k, x.Span)
					if x.Span > 0 {
						at += first / x.Span
					}
					shared[x.Name] = number(x.Elem, c.in[x.Name].V[at])
				}
				sum, acts := 0, 0
				for k := first; k < min(first+groupK, c.k); k++ {
					at := int(c.in["codes"].V[m*c.k+k])
					if w.Books > 0 {
						at += len(w.Levels) / w.Books * int(c.in["books"].V[(m*c.k+k)/w.BookGroup])
					}
					level := w.Levels[at] - int(shared["zeros"])
					sum += level * int(c.in["act"].V[n*c.k+k])
					acts += int(c.in["act"].V[n*c.k+k])
				}
				scale, least := shared["scales"], shared["mins"]
				if size := c.p.Block() * groupK; c.p.Block() > 1 {
					block += sum * int(scale)
					blockLeast += acts * int(least)
					if (first+groupK)%size != 0 {
						continue
					}
					sum, acts, block, blockLeast = block, blockLeast, 0, 0
					scale, least = shared["supers"], shared["supermins"]
				} else if w.Super > 0 {
					scale, least = float32(scale*shared["supers"]), float32(least*shared["supermins"])
				}
				ascale := float32(1)
				if g := c.p.Act.Group; g > 0 {
					ascale = math.Float32frombits(uint32(c.in["ascale"].V[n*blocks(c.k, g)+first/g]))
				}
				term := float32(float32(int32(sum)) * float32(scale*ascale))
				if w.Min {
					term = float32(term - float32(least*float32(float32(acts)*ascale)))
				}
				acc = float32(acc + term)
			}
			if c.p.Act.Group == 0 {
				acc *= math.Float32frombits(uint32(c.in["ascale"].V[n]))
			}
			out[n*c.m+m] = canonical(acc)
		}
	}
	return out
}

// number is the value of a stored number.
func number(elem format.DType, raw int64) float32 {
	switch elem {
	case format.U8, format.I8:
		return float32(raw)
	case format.F16:
		return format.HalfToFloat32(uint16(raw))
	case format.BF16:
		return math.Float32frombits(uint32(raw) << 16)
	}
	return math.Float32frombits(uint32(raw))
}

func canonical(x float32) uint32 {
	if x != x {
		return 0x7fc00000
	}
	return math.Float32bits(x)
}

// prepared is one row of activations.
type prepared struct {
	act    []int
	ascale []uint32
	sums   []int
}

// plainPrepare prepares one row x; group and groupK are 0 for the whole row.
func plainPrepare(x []float32, group, groupK int) prepared {
	span := func(g int) int {
		if g == 0 {
			return max(len(x), 1)
		}
		return g
	}
	p := prepared{act: make([]int, len(x))}
	for first := 0; first < len(x); first += span(group) {
		part := x[first:min(first+span(group), len(x))]
		amax, finite := float32(0), true
		for _, v := range part {
			if v != v || math.IsInf(float64(v), 0) {
				finite = false
			}
			amax = max(amax, float32(math.Abs(float64(v))))
		}
		if !finite {
			p.ascale = append(p.ascale, 0x7fc00000)
			continue
		}
		amax = max(amax, 0x1p-100)
		inverse := float32(127 / amax)
		p.ascale = append(p.ascale, math.Float32bits(float32(amax*float32(1.0/127))))
		for i, v := range part {
			p.act[first+i] = int(math.RoundToEven(float64(float32(v * inverse))))
		}
	}
	for first := 0; first < len(x); first += span(groupK) {
		sum := 0
		for _, v := range p.act[first:min(first+span(groupK), len(x))] {
			sum += v
		}
		p.sums = append(p.sums, sum)
	}
	return p
}
