package sample

import (
	"math"

	"github.com/tmacc/tmacc/runtime/ops"
)

// Mirostat keeps the surprise of the tokens, -log2 of their probability, near a target ("Mirostat: A Neural Text Decoding
// Algorithm that Directly Controls Perplexity", Basu and others, 2021).

// zipfTokens is how many of the likeliest tokens say how fast probabilities fall.
const zipfTokens = 100

// mirostat1 chooses among the k likeliest tokens. By Zipf's law with the exponent of the likeliest ones, k has the surprise mu.
func (s *Sampler) mirostat1() int32 {
	s.all()
	r := rank(s.list)
	for r.done < zipfTokens && r.next() {
	}
	k := max(1, s.zipfCount(r.list[:r.done], len(r.list)))
	for r.done < k && r.next() {
	}
	s.list = r.list[:min(k, r.done)]
	return s.learn()
}

// zipfCount is the number of tokens, at most n, by which mirostat1's law has the surprise mu. The likeliest ones, in their
// order, have probabilities in proportion to 1, 2, 3 ... to the power of -exponent.
func (s *Sampler) zipfCount(likeliest []candidate, n int) int {
	products, squares := 0.0, 0.0
	for i := range len(likeliest) - 1 {
		step := ops.Log(float64(i+2) / float64(i+1))
		fall := float64(float64(likeliest[i].logit-likeliest[i+1].logit) * float64(s.inverse))
		products += float64(step * fall)
		squares += float64(step * step)
	}
	if squares == 0 {
		return n
	}
	exponent := products / squares
	over, size := exponent-1, ops.Log(float64(len(s.logits)))
	share := size // of (1 - vocabulary^-over) / over, which it is for over = 0
	if math.Abs(over) > 1e-9 {
		share = (1 - ops.Exp(bounded(float64(-over*size)))) / over
	}
	k := float64(s.mu*math.Ln2) - ops.Log(share) // the logarithm of the number, times the exponent
	switch {
	case k >= float64(exponent*ops.Log(float64(n))):
		return n
	case k <= 0:
		return 1
	}
	return int(ops.Exp(k / exponent))
}

// bounded is x within what exponentials take.
func bounded(x float64) float64 { return max(-700, min(700, x)) }

// mirostat2 chooses among the tokens whose surprise is at most mu.
func (s *Sampler) mirostat2() int32 {
	s.all()
	total, top := s.weigh(s.inverse), s.top()
	if len(s.list) == 0 {
		return None
	}
	likeliest := candidate{id: first(s.list), logit: top}
	most := float64(s.mu*math.Ln2) - ops.Log(total)
	kept := s.list[:0]
	for _, c := range s.list {
		if float64(float64(top-c.logit)*float64(s.inverse)) <= most {
			kept = append(kept, c)
		}
	}
	if len(kept) == 0 {
		kept = append(kept, likeliest)
	}
	s.list = kept
	return s.learn()
}

// learn draws a token of the list and corrects mu by its surprise.
func (s *Sampler) learn() int32 {
	if len(s.list) == 0 {
		return None
	}
	total, top := s.weigh(s.inverse), s.top()
	c := s.draw(total)
	surprise := (ops.Log(total) + float64(float64(top-c.logit)*float64(s.inverse))) / math.Ln2
	s.mu -= float64(s.options.Eta * (surprise - s.options.Tau))
	return c.id
}
