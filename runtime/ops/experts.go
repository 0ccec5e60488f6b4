package ops

// Routing says how the scores of experts become weights.
type Routing struct {
	// Normalize divides by the sum of the chosen experts' exponentials, so that their weights add up to 1. Otherwise the sum of all experts'
	// exponentials divides.
	Normalize bool
	// Scale multiplies weights. 0 and 1 mean that nothing does.
	Scale float32
}

// Route chooses len(chosen) experts, 1 to 64, by their scores: the greatest ones, in descending order. Of equal scores the lower index
// comes first, and a NaN is greater than all numbers. Expert chosen[i] gets weights[i].
func (r Routing) Route(chosen []int32, weights, scores []float32) {
	n := len(chosen)
	if n < 1 || n > min(Block, len(scores)) || len(weights) != n {
		panic("BUG: ops: lengths differ in Route")
	}
	greatest(chosen, scores)
	var e [Block]float32
	for i, x := range chosen {
		e[i] = scores[x]
	}
	var top, sum [1]float32
	Softmax(e[:], 1, 1, []int32{0}, []int32{int32(n)}, top[:], sum[:])
	if !r.Normalize {
		sum[0] = total(scores)
	}
	Finish(e[:n], sum[:], 1, n)
	copy(weights, e[:n])
	if r.Scale != 0 && r.Scale != 1 {
		for i := range weights {
			weights[i] = canonNaN(weights[i] * r.Scale)
		}
	}
}

// greatest sets each element of chosen to the index of one of the greatest elements of x, as Route orders them.
func greatest(chosen []int32, x []float32) {
	n := 0
	for i, v := range x {
		at := n
		for at > 0 && before(v, x[chosen[at-1]]) {
			at--
		}
		if at == len(chosen) {
			continue
		}
		n = min(n+1, len(chosen))
		copy(chosen[at+1:n], chosen[at:n-1])
		chosen[at] = int32(i)
	}
}

// before says whether x comes before y, which has a lower index.
func before(x, y float32) bool { return x > y || x != x && y == y }

// total is the sum of exponentials of x less its maximum, by blocks of 64 that are merged in ascending order.
func total(x []float32) float32 {
	var e [Block]float32
	var unused, top, sum, top2, sum2 [1]float32
	for at := 0; at < len(x); at += Block {
		n := copy(e[:], x[at:])
		Softmax(e[:], 1, 1, []int32{0}, []int32{int32(n)}, top2[:], sum2[:])
		if at == 0 {
			top, sum = top2, sum2
			continue
		}
		Merge(unused[:], top[:], sum[:], unused[:], top2[:], sum2[:], 1, 1)
	}
	return sum[0]
}

// Sigmoid is 1 / (1 + exp(-x)): the softmax of x and 0, of x.
func Sigmoid(x float32) float32 {
	var top, sum [1]float32
	e := [Block]float32{x}
	Softmax(e[:], 1, 1, []int32{0}, []int32{2}, top[:], sum[:])
	Finish(e[:1], sum[:], 1, 1)
	return e[0]
}

// Combine is dst = the sum over i of weights[i] * rows[at[i]], where a row has len(dst) elements: from +0, in the order of i. Products are
// rounded before they are added.
func Combine(dst, rows []float32, at []int32, weights []float32) {
	clear(dst)
	for i, row := range at {
		AddScaled(dst, dst, rows[int(row)*len(dst):][:len(dst)], weights[i])
	}
}
