package model

import (
	"encoding/binary"
	"slices"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// layout is where everything lies in the memory of a resident: what a step reads, what it writes, and vectors that stay. All numbers are f32, unless a comment
// says something else.
type layout struct {
	*resident
	memory  abi.Memory
	bytes   int64
	vectors map[*float32]region // weights of norms, and biases
	numbers map[float32]region
	uploads []upload

	inputs, outputs        region
	hidden, normed, mixed  region
	cells                  region // 2 of u32: see attention.cells
	mixed2                 region // after its norm
	queries, queries2      region
	rotated, keys, keys2   region
	attended, attended2    region
	gates, ups             region
	gated, gated2          region
	scores, capped, shares region // [blocks][heads][64]
	tops, totals           region // [blocks][heads]
	parts                  region // [blocks][heads][size]
	merged                 [2]struct{ output, top, total region }
	scratch                region
	kinds                  []kindLayout
	layers                 []layerLayout
	last, logits           region
	acts                   []actLayout
}

// kindLayout is the inputs of a kind of layers. first and end are i32, [blocks][heads].
type kindLayout struct{ cos, sin, first, end region }

// layerLayout is the outputs of a layer.
type layerLayout struct{ key, value region }

// actLayout is prepared activations, which products share whose layout of them is the same.
type actLayout struct {
	of *matrix
	region
}

// region is a part of the memory, in bytes.
type region struct{ at, bytes int64 }

// upload is what a region holds from the beginning.
type upload struct {
	region
	data []byte
}

// apart is what regions begin at a multiple of.
const apart = 256

// take is a new region.
func (l *layout) take(bytes int) region {
	r := region{l.bytes, int64(bytes)}
	l.bytes += (int64(bytes) + apart - 1) / apart * apart
	return r
}

func (l *layout) floats(n int) region { return l.take(4 * n) }

// result is a region for the product of a matrix, whose rows are written by several.
func (l *layout) result(x *matrix) region { return l.floats(l.height(x)) }

// height is the rows of x, by whole ones.
func (l *layout) height(x *matrix) int {
	whole := l.rows[x].Whole
	return (x.m + whole - 1) / whole * whole
}

// row is a region for a row of k activations, with zeros behind it.
func (l *layout) row(k int) region {
	n := k
	for x, row := range l.rows {
		if x.k == k {
			n = max(n, row.Padded)
		}
	}
	return l.floats(n)
}

// kept is a region with floats that stay.
func (l *layout) kept(x []float32) region {
	r := l.floats(len(x))
	u := upload{region: r}
	u.data, _ = binary.Append(u.data, binary.LittleEndian, x) // floats have a size
	l.uploads = append(l.uploads, u)
	return r
}

// lay lays all out.
func (r *resident) lay() *layout {
	l := &layout{resident: r, vectors: map[*float32]region{}, numbers: map[float32]region{}}
	l.takeInputs()
	l.takeOutputs()
	l.takeBuffers()
	l.takeWeights()
	return l
}

// newLayout makes the memory and fills what stays.
func (r *resident) newLayout() (*layout, error) {
	l := r.lay()
	var err error
	if l.memory, err = r.on.Memory(l.bytes); err != nil {
		return nil, err
	}
	for _, u := range l.uploads {
		if err := l.memory.Write(u.at, u.data); err != nil {
			l.memory.Free()
			return nil, err
		}
	}
	l.uploads = nil
	return l, nil
}

func (l *layout) takeInputs() {
	c, begin := &l.m.config, l.bytes
	l.hidden, l.cells = l.floats(c.Embedding), l.floats(2)
	for kind := range c.Kinds {
		pairs, a := l.m.angles[kind].Pairs(), l.attention(kind)
		n := numBlocks(a.positions) * a.heads
		l.kinds = append(l.kinds, kindLayout{l.floats(pairs), l.floats(pairs), l.floats(n), l.floats(n)})
	}
	l.inputs = region{begin, l.bytes - begin}
}

func (l *layout) takeOutputs() {
	begin := l.bytes
	for i := range l.m.layers {
		x := &l.m.layers[i].matrices
		l.layers = append(l.layers, layerLayout{l.result(x[keyWeights]), l.result(x[valueWeights])})
	}
	l.last = l.row(l.m.config.Embedding)
	if l.rows[l.m.head].On != nil {
		l.logits = l.result(l.m.head)
	}
	l.outputs = region{begin, l.bytes - begin}
}

// takeBuffers takes regions that one step after the other writes. All layers have matrices of the same shapes, but of several types.
func (l *layout) takeBuffers() {
	c := &l.m.config
	widest := func(roles ...role) region {
		n := 0
		for i := range l.m.layers {
			for _, role := range roles {
				n = max(n, l.height(l.m.layers[i].matrices[role]))
			}
		}
		return l.floats(n)
	}
	l.queries, l.keys, l.mixed, l.gates, l.ups = widest(queryWeights), widest(keyWeights), widest(mixedWeights, downWeights), widest(gateWeights), widest(upWeights)
	l.normed, l.mixed2 = l.row(c.Embedding), l.floats(c.Embedding)
	queries, keys := c.extent(sizeQueries), c.extent(sizeKeys)
	l.queries2, l.rotated, l.keys2 = l.floats(queries), l.floats(queries), l.floats(keys)
	l.attended, l.attended2, l.gated, l.gated2 = l.row(queries), l.row(queries), l.row(c.FeedForward), l.row(c.FeedForward)
	blocks := numBlocks(l.m.options.Context)
	scores := blocks * c.Heads * ops.Block
	l.scores, l.capped, l.shares = l.floats(scores), l.floats(scores), l.floats(scores)
	l.tops, l.totals, l.parts = l.floats(blocks*c.Heads), l.floats(blocks*c.Heads), l.floats(blocks*queries)
	for i := range l.merged {
		l.merged[i].output, l.merged[i].top, l.merged[i].total = l.floats(queries), l.floats(c.Heads), l.floats(c.Heads)
	}
	widestRow := 0
	for _, row := range l.rows {
		widestRow = max(widestRow, row.Padded)
	}
	l.scratch = l.floats(3 * (widestRow + ops.Block))
}

// takeWeights takes regions for vectors, for numbers that operators read, and for prepared activations.
func (l *layout) takeWeights() {
	for i := range l.m.layers {
		x := &l.m.layers[i]
		for _, v := range x.vectors {
			l.vector(v)
		}
		for _, w := range x.matrices {
			l.act(w)
		}
		a := x.mixer.(*attention)
		l.number(a.scale)
		l.number(2 * a.scale / a.cap)
	}
	c := &l.m.config
	l.vector(l.m.outputNorm)
	l.act(l.m.head)
	l.number(1)
	l.number(c.Epsilon)
	l.number(c.ScoreCap)
	for _, n := range []int{c.Embedding, c.HeadSize, c.FeedForward, c.extent(sizeQueries)} {
		l.number(share(n))
	}
}

// share is what a norm multiplies a sum of n squares by.
func share(n int) float32 { return 1 / float32(n) }

func (l *layout) vector(v []float32) {
	if len(v) > 0 {
		l.vectors[&v[0]] = l.kept(v)
	}
}

// number is a region with one number.
func (l *layout) number(v float32) {
	if _, known := l.numbers[v]; !known && v == v {
		l.numbers[v] = l.kept([]float32{v})
	}
}

// act takes a region for the activations of a matrix, unless an earlier matrix has them.
func (l *layout) act(x *matrix) {
	row, ok := l.rows[x]
	if !ok {
		return
	}
	l.number(x.packed.Scale())
	if l.actOf(x) == nil {
		l.acts = append(l.acts, actLayout{x, l.take(row.ActBytes)})
	}
}

func (l *layout) actOf(x *matrix) *actLayout {
	i := slices.IndexFunc(l.acts, func(a actLayout) bool { return a.of.k == x.k && a.of.packed.Product().SharesAct(x.packed.Product()) })
	if i < 0 {
		return nil
	}
	return &l.acts[i]
}

// place is a region from a number of bytes on.
func (l *layout) place(r region, from int) abi.Place {
	return abi.Place{Memory: l.memory, At: r.at + int64(from), Bytes: r.bytes - int64(from)}
}

// list is steps in the making. The first error stays.
type list struct {
	*layout
	steps []abi.Step
	err   error
}

func (s *list) add(x abi.Step) { s.steps = append(s.steps, x) }

// tensor is a tensor of an operator by its name.
type tensorAt struct {
	name string
	abi.Tensor
}

// at is a tensor in a region, which moves by steps from one call to the next.
func (s *list) at(name string, r region, from int, steps ...int) tensorAt {
	return tensorAt{name, abi.Tensor{Place: s.place(r, from), Steps: steps}}
}

// rowsOf is t with rows some bytes apart.
func (t tensorAt) rowsOf(bytes int) tensorAt {
	t.Row = bytes
	return t
}

// operator adds calls of an operator.
func (s *list) operator(beside bool, name string, sizes map[string]int, calls []int, tensors ...tensorAt) {
	of := s.on.Operator(name)
	if of == nil {
		s.fail(missing(name))
		return
	}
	x := &abi.Operating{Beside: beside, Operator: of, Sizes: sizes, Calls: calls, Tensors: make([]abi.Tensor, len(of.Tensors))}
	for i, t := range of.Tensors {
		n := slices.IndexFunc(tensors, func(have tensorAt) bool { return have.name == t.Name })
		if n < 0 {
			s.fail(missing(name + " without a tensor " + t.Name))
			return
		}
		x.Tensors[i] = tensors[n].Tensor
	}
	s.add(x)
}

func (s *list) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// norm adds the norm of n vectors of k elements, which have the same weights.
func (s *list) norm(beside bool, out, x region, weights []float32, n, k int) {
	s.operator(beside, "rmsnorm", map[string]int{"K": k}, []int{n}, s.at("x", x, 0, 4*k), s.at("w", s.vectors[&weights[0]], 0), s.at("share", s.numbers[share(k)], 0),
		s.at("eps", s.numbers[s.m.config.Epsilon], 0), s.at("out", out, 0, 4*k))
}

// plus adds y to the k elements of x.
func (s *list) plus(beside bool, x, y region, k int) {
	s.operator(beside, "add", map[string]int{"K": k}, nil, s.at("x", x, 0), s.at("y", y, 0), s.at("out", x, 0))
}

// biased adds a vector of weights to x.
func (s *list) biased(beside bool, x region, bias []float32) {
	s.plus(beside, x, s.vectors[&bias[0]], len(bias))
}

// target is a matrix and where its product goes.
type target struct {
	x   *matrix
	out region
}

// multiply adds the products of matrices by the activations in a region, each times the scale of its matrix.
func (s *list) multiply(in region, all ...target) {
	var prepared []*actLayout
	for _, t := range all {
		act := s.actOf(t.x)
		if slices.Contains(prepared, act) {
			continue
		}
		prepared = append(prepared, act)
		row := s.rows[t.x]
		s.add(&abi.Quantizing{Product: row.On, Run: row.Run, K: t.x.k, X: s.place(in, 0), Act: s.place(act.region, 0), Scratch: s.place(s.scratch, 0)})
	}
	for i, t := range all {
		s.add(&abi.Multiplying{Beside: i > 0, Matrix: t.x.packed.Loaded(), Run: s.rows[t.x].Run, Act: s.place(s.actOf(t.x).region, 0), Out: s.place(t.out, 0)})
	}
	for _, t := range all {
		if scale := t.x.packed.Scale(); scale != 1 {
			s.operator(false, "scale", map[string]int{"K": t.x.m}, nil, s.at("x", t.out, 0), s.at("by", s.numbers[scale], 0), s.at("out", t.out, 0))
		}
	}
}

// record records the steps of a token whose query sees blocks, by kinds of layers.
func (r *resident) record(blocks [][2]int) (abi.Recording, error) {
	m, s := r.m, &list{layout: r.at}
	s.norm(false, s.normed, s.hidden, m.layers[0].vectors[attentionNorm], 1, m.config.Embedding)
	for i := range m.layers {
		s.project(i)
		s.store(i)
		s.attend(i, blocks[m.config.KindOf[i]])
		s.feed(i)
	}
	if s.logits.bytes > 0 {
		s.multiply(s.last, target{m.head, s.logits})
	}
	if s.err != nil {
		return nil, s.err
	}
	return r.on.Record(s.steps)
}

// project adds the queries, keys and values of a layer, with biases, normed and rotated: keys and values in the outputs of the layer.
func (s *list) project(layer int) {
	x, out := &s.m.layers[layer], &s.layers[layer]
	a := x.mixer.(*attention)
	turned := x.vectors[keyNorm] != nil || s.m.angles[a.kind].Pairs() > 0
	keys := out.key
	if turned {
		keys = s.keys
	}
	s.multiply(s.normed, target{x.matrices[queryWeights], s.queries}, target{x.matrices[keyWeights], keys}, target{x.matrices[valueWeights], out.value})
	beside := false
	for _, b := range []struct {
		bias []float32
		to   region
	}{{x.vectors[queryBias], s.queries}, {x.vectors[keyBias], keys}, {x.vectors[valueBias], out.value}} {
		if b.bias != nil {
			s.biased(beside, b.to, b.bias)
			beside = true
		}
	}
	if !turned {
		return
	}
	s.turn(a, a.heads, s.queries, s.queries2, s.rotated, x.vectors[queryNorm], false)
	s.turn(a, a.kvHeads, s.keys, s.keys2, out.key, x.vectors[keyNorm], x.vectors[queryNorm] == nil)
}

// turn norms n heads, if there are weights for it, and rotates them, if the kind of layers does.
func (s *list) turn(a *attention, n int, x, normed, out region, weights []float32, beside bool) {
	pairs := s.m.angles[a.kind].Pairs()
	if weights != nil {
		if pairs == 0 {
			normed = out
		}
		s.norm(beside, normed, x, weights, n, a.size)
		x, beside = normed, false
	}
	if pairs == 0 {
		return
	}
	k := s.kinds[a.kind]
	s.operator(beside, "rope", map[string]int{"H": pairs}, []int{n}, s.at("x", x, 0, 4*a.size), s.at("y", x, 4*pairs, 4*a.size), s.at("cos", k.cos, 0), s.at("sin", k.sin, 0),
		s.at("low", out, 0, 4*a.size), s.at("high", out, 4*pairs, 4*a.size))
}

// query is where the queries of a layer are that attention reads.
func (s *list) query(x *layer, a *attention) region {
	if x.vectors[queryNorm] == nil && s.m.angles[a.kind].Pairs() == 0 {
		return s.queries
	}
	return s.rotated
}

// store adds the keys and values of a layer to its pages, at the places that the inputs have.
func (s *list) store(layer int) {
	a, out := s.m.layers[layer].mixer.(*attention), s.layers[layer]
	s.operator(false, "column_"+elemName(a.elem)+"_paged", map[string]int{"K": a.size}, []int{a.kvHeads}, s.at("x", out.key, 0, 4*a.size), s.at("places", s.cells, 0),
		s.page("out", layer, 0, a.headBytes()))
	s.operator(true, "row_"+elemName(a.elem)+"_paged", map[string]int{"K": ops.Panel}, []int{a.kvHeads, a.size / ops.Panel}, s.at("x", out.value, 0, 4*a.size, 4*ops.Panel), s.at("places", s.cells, 4),
		s.page("out", layer, 0, a.headBytes(), ops.Block*ops.Panel*a.elem.Bytes()))
}

// page is a tensor in the pages of a layer.
func (s *list) page(name string, layer, from int, steps ...int) tensorAt {
	a := s.m.layers[layer].mixer.(*attention)
	return tensorAt{name, abi.Tensor{Place: abi.Place{Memory: s.resident.pages[layer].memory, At: int64(from), Bytes: a.deviceBytes() - int64(from)}, Steps: steps}}
}

// cells are where a position has its key and its value in pages that follow each other, in bytes: of the first head, its first elements.
func (a *attention) cells(position int) [2]int {
	page, at, e := position/ops.Block*a.pageBytes(), position%ops.Block, a.elem.Bytes()
	return [2]int{page + at/ops.Panel*a.keyBytes()/2 + at%ops.Panel*e, page + a.keyBytes() + at*ops.Panel*e}
}

// elemName is the type of a cache in names of operators.
func elemName(e ops.Elem) string {
	if e == ops.F16 {
		return "f16"
	}
	return "f32"
}

// attend adds attention over blocks of the cache, from the first to before the end, and what it adds to the hidden state.
func (s *list) attend(layer int, blocks [2]int) {
	x := &s.m.layers[layer]
	a := x.mixer.(*attention)
	n := blocks[1] - blocks[0]
	s.panels(s.query(x, a), 4*a.size, 0, a.size, layer, blocks[0], 0, []int{a.kvHeads, 2, n}, []int{a.headBytes(), a.keyBytes() / 2, a.pageBytes()},
		s.scores, 4*ops.Block, []int{4 * ops.Block * a.group(), 4 * ops.Panel, 4 * ops.Block * a.heads}, a)
	scores, scale := s.scores, a.scale
	if a.cap > 0 {
		s.operator(false, "softcap", map[string]int{"K": n * a.heads * ops.Block}, nil, s.at("x", scores, 0), s.at("cap", s.numbers[a.cap], 0),
			s.at("twice", s.numbers[2*a.scale/a.cap], 0), s.at("out", s.capped, 0))
		scores, scale = s.capped, 1
	}
	k, each := s.kinds[a.kind], 4*a.heads
	s.operator(false, "softmax", map[string]int{"R": a.heads}, []int{n}, s.at("s", scores, 0, ops.Block*each), s.at("scale", s.numbers[scale], 0), s.at("first", k.first, 0, each), s.at("end", k.end, 0, each),
		s.at("top1", s.tops, 0, each), s.at("e", s.shares, 0, ops.Block*each), s.at("total1", s.totals, 0, each))
	s.panels(s.shares, 4*ops.Block, 4*ops.Block*a.heads, ops.Block, layer, blocks[0], a.keyBytes(), []int{a.kvHeads, a.size / ops.Panel, n},
		[]int{a.headBytes(), ops.Block * ops.Panel * a.elem.Bytes(), a.pageBytes()}, s.parts, 4*a.size, []int{4 * a.size * a.group(), 4 * ops.Panel, 4 * a.size * a.heads}, a)
	s.merge(a, n)
	attended := s.attended
	if weights := x.vectors[mixedNorm]; weights != nil {
		s.norm(false, s.attended2, attended, weights, 1, a.heads*a.size)
		attended = s.attended2
	}
	s.multiply(attended, target{x.matrices[mixedWeights], s.mixed})
	s.residual(x.vectors[mixedBias], x.vectors[mixedEndNorm])
	s.norm(false, s.normed, s.hidden, x.vectors[feedNorm], 1, s.m.config.Embedding)
}

// panels adds products of rows by panels of pages: of the group of heads that share a head of keys, for each of that, of panels and of blocks. Rows of a lie rowBytes
// apart, and move by blockBytes from block to block.
func (s *list) panels(rows region, rowBytes, blockBytes, k, layer, block, from int, calls, moves []int, out region, outBytes int, outMoves []int, a *attention) {
	panel := s.page("b", layer, block*a.pageBytes()+from, moves...)
	for r := 0; r < a.group(); {
		n := 8
		for n > a.group()-r {
			n /= 2
		}
		s.operator(r > 0, "matmul_"+elemName(a.elem)+"_"+string(rune('0'+n)), map[string]int{"K": k}, calls,
			s.at("a", rows, r*rowBytes, rowBytes*a.group(), 0, blockBytes).rowsOf(rowBytes), panel, s.at("out", out, r*outBytes, outMoves...).rowsOf(outBytes))
		r += n
	}
}

// merge adds n blocks, one after the other, and divides by the sums.
func (s *list) merge(a *attention, n int) {
	each := 4 * a.heads
	output, top, total := s.parts, s.tops, s.totals
	sizes := map[string]int{"R": a.heads, "D": a.size}
	for b := 1; b < n; b++ {
		to := &s.merged[b%2]
		s.operator(false, "merge", sizes, nil, s.at("o", output, 0).rowsOf(4*a.size), s.at("m", top, 0), s.at("l", total, 0),
			s.at("o2", s.parts, b*a.size*each).rowsOf(4*a.size), s.at("m2", s.tops, b*each), s.at("l2", s.totals, b*each),
			s.at("top", to.top, 0), s.at("total", to.total, 0), s.at("out", to.output, 0).rowsOf(4*a.size))
		output, top, total = to.output, to.top, to.total
	}
	s.operator(false, "finish", sizes, nil, s.at("o", output, 0).rowsOf(4*a.size), s.at("l", total, 0), s.at("out", s.attended, 0).rowsOf(4*a.size))
}

// residual adds what a part of a layer has computed to the hidden state, with its bias, and normed if it has a norm for it.
func (s *list) residual(bias, ends []float32) {
	n, mixed := s.m.config.Embedding, s.mixed
	if bias != nil {
		s.biased(false, mixed, bias)
	}
	if ends != nil {
		s.norm(false, s.mixed2, mixed, ends, 1, n)
		mixed = s.mixed2
	}
	s.plus(false, s.hidden, mixed, n)
}

// feed adds the feed-forward part of a layer, and the norm of what comes next.
func (s *list) feed(layer int) {
	x, n := &s.m.layers[layer], s.m.config.FeedForward
	s.multiply(s.normed, target{x.matrices[gateWeights], s.gates}, target{x.matrices[upWeights], s.ups})
	s.operator(false, s.m.row.gate.operator, map[string]int{"K": n}, nil, s.at("gate", s.gates, 0), s.at("up", s.ups, 0), s.at("out", s.gated, 0))
	gated := s.gated
	if weights := x.vectors[gatedNorm]; weights != nil {
		s.norm(false, s.gated2, gated, weights, 1, n)
		gated = s.gated2
	}
	s.multiply(gated, target{x.matrices[downWeights], s.mixed})
	s.residual(nil, x.vectors[feedEndNorm])
	out, weights := s.last, s.m.outputNorm
	if layer+1 < len(s.m.layers) {
		out, weights = s.normed, s.m.layers[layer+1].vectors[attentionNorm]
	}
	s.norm(false, out, s.hidden, weights, 1, s.m.config.Embedding)
}
