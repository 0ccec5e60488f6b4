// Package sample chooses the next token by the logits of a model: the likeliest one, or one at random. The same logits, options
// and seed give the same tokens on every machine: exponentials and logarithms are package ops's, and sums have a fixed order.
package sample

import (
	"cmp"
	"math"
	"math/rand/v2"

	"github.com/tmacc/tmacc/runtime/ops"
)

// None is what Next returns where no token has a chance.
const None int32 = -1

// Sampler chooses the tokens of one sequence. Its methods are not for several goroutines at once.
type Sampler struct {
	options Options
	inverse float32 // of the temperature
	rng     *rand.Rand
	left    int // tokens that may still come, less than 0: any number
	last    window
	mu      float64 // of Mirostat: the most surprise that a token may have
	logits  []float32
	list    []candidate
	block   [ops.Block]float32
}

// New makes a sampler. A bad option is an *Error.
func New(o Options) (*Sampler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Repeat, o.Tau, o.Eta = cmp.Or(o.Repeat, 1), cmp.Or(o.Tau, 5), cmp.Or(o.Eta, 0.1)
	s := &Sampler{options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	if o.Temperature > 0 {
		s.inverse = float32(1 / o.Temperature)
	}
	s.last.size = cmp.Or(o.RepeatLast, lastTokens)
	s.Reset()
	return s, nil
}

// Reset begins another text: it forgets the tokens. The random numbers go on.
func (s *Sampler) Reset() {
	s.left = -1
	s.last.tokens = s.last.tokens[:0]
	s.mu = 2 * s.options.Tau
	if s.options.Mask != nil {
		s.options.Mask.Reset()
	}
}

// Accept tells the sampler of tokens of the text that Next did not choose, such as the prompt. Penalties count them. A mask
// begins after them.
func (s *Sampler) Accept(ids ...int32) {
	if s.penalizes() {
		s.last.add(ids...)
	}
}

// Limit tells the sampler how many tokens Next may still choose, besides one that ends the text. A mask ends the text in time.
func (s *Sampler) Limit(left int) { s.left = max(left, 0) }

// MayEnd reports whether there is a mask and the text may end here by it.
func (s *Sampler) MayEnd() bool { return s.options.Mask != nil && s.options.Mask.MayEnd() }

// Err is why Next found no token, if its mask is at fault.
func (s *Sampler) Err() error {
	if s.options.Mask == nil {
		return nil
	}
	return s.options.Mask.Err()
}

// Next is the next token, or None. It belongs to the text then, which Accept is not to be told. A logit that is no number
// has no chance. Next allocates once, for the size of the vocabulary, and leaves the logits as they are.
func (s *Sampler) Next(logits []float32) int32 {
	s.logits = append(s.logits[:0], logits...)
	s.change()
	id := s.choose()
	if id == None {
		return None
	}
	if s.left > 0 {
		s.left--
	}
	if s.options.Mask != nil {
		s.options.Mask.Accept(id)
	}
	if s.penalizes() {
		s.last.add(id)
	}
	return id
}

// change applies the mask, the bias and the penalties to the logits. Then none is a NaN or +Inf.
func (s *Sampler) change() {
	if s.options.Mask != nil {
		s.options.Mask.Apply(s.logits, s.left)
	}
	for id, x := range s.options.Bias {
		if int(id) < len(s.logits) {
			s.logits[id] += x
		}
	}
	if s.penalizes() {
		s.penalize()
	}
	for i, x := range s.logits {
		switch {
		case x != x:
			s.logits[i] = float32(math.Inf(-1))
		case x > math.MaxFloat32:
			s.logits[i] = math.MaxFloat32
		}
	}
}

// choose is a token by the logits.
func (s *Sampler) choose() int32 {
	switch o := &s.options; {
	case o.Mirostat == 1:
		return s.mirostat1()
	case o.Mirostat == 2:
		return s.mirostat2()
	case s.inverse == 0 && !cuts(o.Typical):
		return likeliest(s.logits)
	}
	s.filter()
	if s.inverse == 0 {
		return first(s.list)
	}
	return s.draw(s.weigh(s.inverse)).id
}

// likeliest is the index of the largest logit, the first of several, or None if all are -Inf.
func likeliest(logits []float32) int32 {
	best, most := None, float32(math.Inf(-1))
	for i, x := range logits {
		if x > most {
			best, most = int32(i), x
		}
	}
	return best
}

// first is the likeliest token of a list, or None.
func first(list []candidate) int32 {
	best := candidate{id: None, logit: float32(math.Inf(-1))}
	for _, c := range list {
		if c.logit > best.logit || c.logit == best.logit && c.id < best.id {
			best = c
		}
	}
	return best.id
}

// draw is one of the candidates at random, by their weights, which have this sum.
func (s *Sampler) draw(total float64) candidate {
	if len(s.list) == 0 {
		return candidate{id: None}
	}
	at, sum := float64(s.rng.Float64()*total), 0.0
	last := 0
	for i := range s.list {
		if s.list[i].weight > 0 {
			last = i
		}
		if sum += float64(s.list[i].weight); sum > at {
			break
		}
	}
	return s.list[last]
}
