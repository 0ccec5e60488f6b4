package sample

import (
	"math"
	"slices"

	"github.com/tmacc/tmacc/runtime/ops"
)

// candidate is a token that may come.
type candidate struct {
	id     int32
	logit  float32
	weight float32 // its probability, relative to the likeliest candidate's
	key    float32 // orders candidates, the largest first, then the lowest id
}

func (c *candidate) before(d *candidate) bool {
	return c.key > d.key || c.key == d.key && c.id < d.id
}

// ranking orders candidates one after the other: those before done are in their order. The others are a heap from the end of
// the list backward: list[len-1] comes next, and list[len-1-i] before list[len-1-(2i+1)] and list[len-1-(2i+2)].
type ranking struct {
	list []candidate
	done int
}

// rank begins to order candidates. It takes time in proportion to their number, and next its logarithm.
func rank(list []candidate) ranking {
	r := ranking{list: list}
	for i := len(list)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
	return r
}

// next orders one candidate more, if there is one, and reports whether there was.
func (r *ranking) next() bool {
	if r.done == len(r.list) {
		return false
	}
	end := len(r.list) - 1
	r.list[r.done], r.list[end] = r.list[end], r.list[r.done]
	r.done++
	r.sink(0)
	return true
}

// at is the candidate that was ordered last.
func (r *ranking) at() *candidate { return &r.list[r.done-1] }

// sink moves element i of the heap down until it comes before its children.
func (r *ranking) sink(i int) {
	end := len(r.list) - 1
	for {
		child := 2*i + 1
		if child > end-r.done {
			return
		}
		if child < end-r.done && r.list[end-child-1].before(&r.list[end-child]) {
			child++
		}
		if r.list[end-i].before(&r.list[end-child]) {
			return
		}
		r.list[end-i], r.list[end-child] = r.list[end-child], r.list[end-i]
		i = child
	}
}

// all lists the tokens that have a chance, by id.
func (s *Sampler) all() {
	s.list = slices.Grow(s.list[:0], len(s.logits))
	for i, x := range s.logits {
		if x >= -math.MaxFloat32 {
			s.list = append(s.list, candidate{id: int32(i), logit: x, key: x})
		}
	}
}

// topK lists the k likeliest tokens, the likeliest first. Among many tokens it looks at most at 2k at once.
func (s *Sampler) topK(k int) {
	most := 2*min(k, len(s.logits)) + 16
	s.list = slices.Grow(s.list[:0], most)
	least := float32(math.Inf(-1))
	for i, x := range s.logits {
		if x <= least {
			continue // an equal one is behind k others
		}
		s.list = append(s.list, candidate{id: int32(i), logit: x, key: x})
		if len(s.list) == most {
			s.keep(k)
			least = s.list[k-1].logit
		}
	}
	s.keep(k)
}

// keep orders the first k candidates of the list and drops the others.
func (s *Sampler) keep(k int) {
	r := rank(s.list)
	for r.done < k && r.next() {
	}
	s.list = s.list[:r.done]
}

// weigh makes the weights exp((logit - top) * inverse) of the list, and returns their sum. A block of a softmax is relative to
// its own largest value, which top is in each block: the last one.
func (s *Sampler) weigh(inverse float32) (total float64) {
	const per = ops.Block - 1
	top := s.top()
	for from := 0; from < len(s.list); from += per {
		part := s.list[from:min(from+per, len(s.list))]
		for i := range part {
			s.block[i] = part[i].logit - top
		}
		for i := len(part); i < per; i++ {
			s.block[i] = float32(math.Inf(-1))
		}
		s.block[per] = 0
		var most, sum [1]float32
		ops.Softmax(s.block[:], 1, inverse, []int32{0}, []int32{ops.Block}, most[:], sum[:])
		for i := range part {
			part[i].weight = s.block[i]
			total += float64(s.block[i])
		}
	}
	return total
}

// top is the largest logit of the list.
func (s *Sampler) top() float32 {
	top := float32(math.Inf(-1))
	for i := range s.list {
		top = max(top, s.list[i].logit)
	}
	return top
}
