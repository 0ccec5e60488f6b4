package sample

import (
	"math"

	"github.com/tmacc/tmacc/runtime/ops"
)

// cuts reports whether the probability of a filter leaves any token out.
func cuts(p float64) bool { return p > 0 && p < 1 }

// filter lists the tokens that the filters leave.
func (s *Sampler) filter() {
	o := &s.options
	if o.TopK > 0 {
		s.topK(o.TopK)
	} else {
		s.all()
	}
	if cuts(o.Typical) {
		s.typical(o.Typical)
	}
	if cuts(o.TopP) {
		s.topP(o.TopP)
	}
	if o.MinP > 0 {
		s.minP(o.MinP)
	}
}

// topP keeps the likeliest tokens, up to the one by which they have probability p together.
func (s *Sampler) topP(p float64) {
	total := s.weigh(1)
	s.dropRare((1 - p) * total)
	for i := range s.list {
		s.list[i].key = s.list[i].logit
	}
	r, sum := rank(s.list), 0.0
	for sum < float64(p*total) && r.next() {
		sum += float64(r.at().weight)
	}
	s.list = s.list[:r.done]
}

// dropRare drops tokens that have less than a weight together, however they are: each is lighter than an equal share of it. So
// those that are left suffice for the rest of the weight, and are fewer to order.
func (s *Sampler) dropRare(weight float64) {
	least := float32(0.999 * weight / float64(len(s.list)))
	kept := s.list[:0]
	for _, c := range s.list {
		if c.weight >= least {
			kept = append(kept, c)
		}
	}
	s.list = kept
}

// typical keeps the tokens whose surprise, -ln of their probability, is nearest to the expected one, the entropy, up to the one
// by which they have more than probability p together ("Locally Typical Sampling", Meister and others, 2023).
func (s *Sampler) typical(p float64) {
	total, top := s.weigh(1), s.top()
	mean := 0.0 // of how far logits are below the top; the entropy is ln(total) more
	for _, c := range s.list {
		if c.weight > 0 {
			mean += float64(float64(c.weight) / total * float64(top-c.logit))
		}
	}
	for i := range s.list {
		c := &s.list[i]
		c.key = -float32(math.Abs(float64(top-c.logit) - mean))
	}
	r, sum := rank(s.list), 0.0
	for sum <= float64(p*total) && r.next() {
		sum += float64(r.at().weight)
	}
	s.list = s.list[:r.done]
}

// minP keeps tokens that have at least the share p of the likeliest one's probability.
func (s *Sampler) minP(p float64) {
	least := float64(s.top()) + ops.Log(p)
	kept := s.list[:0]
	for _, c := range s.list {
		if float64(c.logit) >= least {
			kept = append(kept, c)
		}
	}
	s.list = kept
}
