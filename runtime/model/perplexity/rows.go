package perplexity

import (
	"math"

	"github.com/tmacc/tmacc/runtime/ops"
)

// value is what one prediction says of the token that came.
type value struct {
	nll float64 // negative log-likelihood
	// Beside a base:
	base       float64 // negative log-likelihood by the base
	divergence float64 // KL(base || model)
	sameTop    bool    // the likeliest tokens are the same
}

// row is the prediction of one token in 16 bits: the log-probability of token i is scale*codes[i] + least.
type row struct {
	scale, least float32
	codes        []uint16
}

// span is how far below the largest log-probability saved ones may be; others count as the least of them. It is also how small
// the log-probabilities of a base may be that count in divergences.
const span = 16

// lane is the memory of one thread.
type lane struct {
	scores    [atOnce * ops.Block]float32
	first     [atOnce]int32 // 0
	counts    [atOnce]int32
	tops      []float32 // of each block
	totals    []float32
	logarithm []float32 // of the base's probabilities
}

// atOnce is how many blocks are exponentiated at once.
const atOnce = 8

// exponentials replaces x, at most atOnce blocks, by exp(x - the largest of its block) in scores, with the largest elements and the sums of blocks.
func (l *lane) exponentials(x, tops, totals []float32) {
	n := copy(l.scores[:], x)
	for i := range tops {
		l.counts[i] = int32(min(ops.Block, n-i*ops.Block))
	}
	ops.Softmax(l.scores[:], len(tops), 1, l.first[:], l.counts[:], tops, totals)
}

// logSum is the logarithm of the sum of the exponentials of x, and x's largest element.
func (l *lane) logSum(x []float32) (sum float64, top float32) {
	blocks := (len(x) + ops.Block - 1) / ops.Block
	for len(l.tops) < blocks {
		l.tops, l.totals = append(l.tops, 0), append(l.totals, 0)
	}
	for b := 0; b < blocks; b += atOnce {
		n := min(atOnce, blocks-b)
		l.exponentials(x[b*ops.Block:min(len(x), (b+n)*ops.Block)], l.tops[b:b+n], l.totals[b:b+n])
	}
	top = l.tops[0]
	for _, t := range l.tops[:blocks] {
		top = max(top, t)
	}
	total := 0.0
	for b, t := range l.tops[:blocks] {
		total += float64(float64(l.totals[b]) * ops.Exp(float64(t)-float64(top)))
	}
	return float64(top) + ops.Log(total), top
}

// judge is the value of a prediction.
func (l *lane) judge(logits []float32, next int32) value {
	sum, _ := l.logSum(logits)
	return value{nll: sum - float64(logits[next])}
}

// encode is judge, and writes the prediction to out.
func (l *lane) encode(logits []float32, out *row, next int32) value {
	sum, top := l.logSum(logits)
	least := top
	for _, x := range logits {
		least = min(least, x)
	}
	least = max(least, top-span)
	out.scale = (top - least) / math.MaxUint16
	out.least = float32(float64(least) - sum)
	inverse := float32(0)
	if out.scale > 0 {
		inverse = 1 / out.scale
	}
	for i, x := range logits {
		code := math.RoundToEven(float64(inverse * max(0, x-least)))
		out.codes[i] = uint16(min(math.MaxUint16, code))
	}
	return value{nll: sum - float64(logits[next])}
}

// compare is judge beside the prediction of a base.
func (l *lane) compare(logits []float32, base *row, next int32) value {
	sum, _ := l.logSum(logits)
	l.decode(base)
	return value{
		nll:        sum - float64(logits[next]),
		base:       -float64(l.logarithm[next]),
		divergence: l.divergence(logits, sum),
		sameTop:    likeliest(logits) == likeliest(l.logarithm),
	}
}

// decode makes log-probabilities of a row.
func (l *lane) decode(base *row) {
	l.logarithm = l.logarithm[:0]
	for _, c := range base.codes {
		l.logarithm = append(l.logarithm, float32(base.scale*float32(c))+base.least)
	}
}

// divergence is the Kullback-Leibler divergence of a prediction from the decoded base: the sum of p (log p - log q) over all
// tokens that the base does not find too unlikely.
func (l *lane) divergence(logits []float32, logSum float64) float64 {
	var tops, totals [atOnce]float32
	sum := 0.0
	for at := 0; at < len(logits); at += len(l.scores) {
		part := l.logarithm[at:min(len(logits), at+len(l.scores))]
		n := (len(part) + ops.Block - 1) / ops.Block
		l.exponentials(part, tops[:n], totals[:n])
		for b := range n {
			inBlock := 0.0
			for i := b * ops.Block; i < min(len(part), (b+1)*ops.Block); i++ {
				if p := part[i]; p > -span {
					inBlock += float64(float64(l.scores[i]) * (float64(p) - float64(logits[at+i]) + logSum))
				}
			}
			sum += float64(inBlock * ops.Exp(float64(tops[b])))
		}
	}
	return sum
}

// likeliest is the index of the largest element, the first of several.
func likeliest(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
