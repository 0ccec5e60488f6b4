// Package sample chooses the next token by the logits of a model: the likeliest one, or one at random by temperature. The same
// logits and the same seed give the same tokens on every machine.
package sample

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/tmacc/tmacc/runtime/ops"
)

// The temperatures that Sampler takes, besides 0.
const (
	LeastTemperature = 0.01
	MostTemperature  = 100
)

// Sampler chooses the tokens of one sequence. Its methods are not for several goroutines at once.
type Sampler struct {
	inverse float32 // of the temperature; 0: the likeliest token
	rng     *rand.Rand
	block   [ops.Block]float32
	odds    []float32 // of each token, relative to the likeliest
}

// New makes a sampler. Temperature 0 takes the likeliest token, the first of several; seed does not matter then.
func New(temperature float64, seed uint64) (*Sampler, error) {
	s := &Sampler{rng: rand.New(rand.NewPCG(seed, 0))}
	if temperature == 0 {
		return s, nil
	}
	if !(temperature >= LeastTemperature && temperature <= MostTemperature) {
		return nil, fmt.Errorf("temperature %v: want 0, the likeliest token, or %v to %v", temperature, LeastTemperature, MostTemperature)
	}
	s.inverse = float32(1 / temperature)
	return s, nil
}

// Next is the next token. A logit that is no number has no chance. It allocates once, for the size of the vocabulary.
func (s *Sampler) Next(logits []float32) int32 {
	best := likeliest(logits)
	if s.inverse == 0 {
		return int32(best)
	}
	if cap(s.odds) < len(logits) {
		s.odds = make([]float32, len(logits))
	}
	odds := s.odds[:len(logits)]
	s.exponentials(odds, logits, logits[best])
	total := 0.0
	for _, x := range odds {
		total += float64(x)
	}
	return s.draw(odds, s.rng.Float64()*total, best)
}

// likeliest is the index of the largest logit, the first of several.
func likeliest(logits []float32) int {
	best, most := 0, float32(math.Inf(-1))
	for i, x := range logits {
		if x > most {
			best, most = i, x
		}
	}
	return best
}

// exponentials makes exp((logit - top) / temperature) of all logits. A block of a softmax is relative to its own largest
// value, which top is in each block: the last one.
func (s *Sampler) exponentials(odds, logits []float32, top float32) {
	const per = ops.Block - 1
	for from := 0; from < len(logits); from += per {
		n := min(per, len(logits)-from)
		for i := range s.block {
			s.block[i] = float32(math.Inf(-1))
		}
		for i, x := range logits[from:][:n] {
			if x <= top {
				s.block[i] = x - top
			}
		}
		s.block[per] = 0
		var most, sum [1]float32
		ops.Softmax(s.block[:], 1, s.inverse, []int32{0}, []int32{ops.Block}, most[:], sum[:])
		copy(odds[from:][:n], s.block[:])
	}
}

// draw is the token at which the sum of the odds exceeds a number; rounding may leave none, then it is the best.
func (s *Sampler) draw(odds []float32, at float64, best int) int32 {
	sum := 0.0
	for i, x := range odds {
		if sum += float64(x); sum > at {
			return int32(i)
		}
	}
	return int32(best)
}
