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

// None is what Next returns where no token has a chance.
const None int32 = -1

// Options say how a token is chosen. The zero value takes the likeliest one, the first of several.
type Options struct {
	Temperature float64           // that logits are divided by; 0: the likeliest token
	TopK        int               // the number of likeliest tokens that may come; 0: all
	TopP        float64           // only the likeliest tokens that have this probability together; 0 or 1: all
	MinP        float64           // only tokens with this share of the likeliest one's probability; 0: all
	Typical     float64           // only the most typical tokens that have this probability together; 0 or 1: all
	RepeatLast  int               // the number of last tokens that penalties are for; 0: 64, -1: all
	Repeat      float64           // divides positive logits of tokens that the text has, and multiplies negative ones; 0 or 1: off
	Presence    float64           // is subtracted from the logits of tokens that the text has
	Frequency   float64           // is subtracted from a logit for each time that the text has the token
	Bias        map[int32]float32 // is added to logits; -Inf forbids a token
	Mirostat    int               // 1 or 2: this version of Mirostat takes the place of all of the above but temperature and bias
	Tau         float64           // the surprise that Mirostat aims for, in bits; 0: 5
	Eta         float64           // how fast Mirostat learns; 0: 0.1
	Seed        uint64            // of the random numbers
	Mask        Mask              // allows some tokens only; nil: all
}

// Mask allows some tokens at each place of a text.
type Mask interface {
	// Apply makes the logits of all tokens that may not come next -Inf. left is how many tokens may still come, this one
	// included and a token that ends the text excluded; less than 0: any number.
	Apply(logits []float32, left int)
	// Accept takes the next token, which Apply allows.
	Accept(id int32)
	// MayEnd reports whether the text may end here.
	MayEnd() bool
	// Reset goes back to the beginning.
	Reset()
}

// Sampler chooses the tokens of one sequence. Its methods are not for several goroutines at once.
type Sampler struct {
	Options
	inverse float32 // of the temperature; 0: the likeliest token
	rng     *rand.Rand
	left    int
	block   [ops.Block]float32
	odds    []float32 // of each token, relative to the likeliest
	masked  []float32
}

// New makes a sampler. An error names the option.
func New(o Options) (*Sampler, error) {
	s := &Sampler{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0)), left: -1}
	if o.Temperature == 0 {
		return s, nil
	}
	if !(o.Temperature >= LeastTemperature && o.Temperature <= MostTemperature) {
		return nil, fmt.Errorf("temperature %v: want 0, the likeliest token, or %v to %v", o.Temperature, LeastTemperature, MostTemperature)
	}
	s.inverse = float32(1 / o.Temperature)
	return s, nil
}

// Reset begins another text: it forgets the tokens. The random numbers go on.
func (s *Sampler) Reset() {
	s.left = -1
	if s.Mask != nil {
		s.Mask.Reset()
	}
}

// Accept tells the sampler of tokens of the text that Next did not choose, such as the prompt.
func (s *Sampler) Accept(ids ...int32) {}

// Limit tells the sampler how many tokens Next may still choose, besides one that ends the text. A mask ends the text in time.
func (s *Sampler) Limit(left int) { s.left = left }

// MayEnd reports whether there is a mask and the text may end here by it.
func (s *Sampler) MayEnd() bool { return s.Mask != nil && s.Mask.MayEnd() }

// Next is the next token, or None. It belongs to the text then, which Accept is not to be told. A logit that is no number
// has no chance. Next allocates once, for the size of the vocabulary, and leaves the logits as they are.
func (s *Sampler) Next(logits []float32) int32 {
	id := s.choose(s.allowed(logits))
	if id == None {
		return None
	}
	s.left = max(s.left-1, min(s.left, 0))
	if s.Mask != nil {
		s.Mask.Accept(id)
	}
	return id
}

// allowed is the logits with the mask applied.
func (s *Sampler) allowed(logits []float32) []float32 {
	if s.Mask == nil {
		return logits
	}
	s.masked = append(s.masked[:0], logits...)
	s.Mask.Apply(s.masked, s.left)
	return s.masked
}

// choose is a token by its logits.
func (s *Sampler) choose(logits []float32) int32 {
	best := likeliest(logits)
	if best < 0 || s.inverse == 0 {
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

// likeliest is the index of the largest logit, the first of several, or -1 if all are -Inf or no numbers.
func likeliest(logits []float32) int {
	best, most := -1, float32(math.Inf(-1))
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
