package model

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// shape is what says where everything lies in the memory of a step.
type shape struct {
	n      int  // tokens
	single bool // each of another session
	wanted span // the rows from the first to the last whose logits or hidden states are wanted
	head   bool // logits are
}

// span is neighbouring rows.
type span struct{ first, n int }

// layout is where everything lies in the memory of a step: what it reads, what it writes, and vectors between. All numbers are f32, unless a comment says something
// else. Where a comment does not say it, regions have n rows, and results of products some more.
type layout struct {
	*resident
	shape
	bytes    int64
	products map[sized]runtime.Steps

	inputs, outputs        region
	hidden, normed, mixed  region
	cells                  region // [4][n] of u32: see attention.cells
	mixed2                 region // after its norm
	queries, queries2      region
	rotated                region // [KV heads][n][group][size]
	keys, keys2            region
	keyScales, valueScales region // [n][KV heads]
	attended, attended2    region
	gates, ups             region
	gated, gated2          region
	slots                  int    // how many rows of scores there are at once
	scores, capped, shares region // [slots][64]
	tops, totals           region // [slots]
	parts                  region // [slots][size]
	merged                 [2]merged
	kinds                  []kindLayout
	layers                 []layerLayout
	last, logits           region // of the wanted rows
	acts                   []actLayout
}

// sized is a matrix that multiplies a number of rows.
type sized struct {
	x *matrix
	n int
}

// kindLayout is the inputs of a kind of layers. first and end are i32, of each row for all heads that share a head of keys: the positions that count in the block in which the window
// of the row begins, and in the row's own.
type kindLayout struct {
	cos, sin   region
	first, end [2]region
}

// layerLayout is the keys and values of a layer.
type layerLayout struct{ key, value region }

// actLayout is prepared activations, which products share whose layout of them is the same.
type actLayout struct {
	of sized
	region
	padded bool // it is 0 at first, and in part stays so
}

// region is a part of a memory, in bytes. Its rows lie some bytes apart; 0: it has none.
type region struct {
	at, bytes int64
	row       int
	kept      bool // it is in the memory of what stays
}

// apart is what regions begin at a multiple of.
const apart = 256

// taken is a region behind the first *bytes of a memory.
func taken(bytes *int64, n int) region {
	r := region{at: *bytes, bytes: int64(n)}
	*bytes += (int64(n) + apart - 1) / apart * apart
	return r
}

// words is a region of n numbers.
func (l *layout) words(n int) region { return taken(&l.bytes, 4*n) }

// rows is n rows of k numbers.
func (l *layout) rows(n, k int) region {
	r := l.words(n * k)
	r.row = 4 * k
	return r
}

// results is a region for the products of n rows by matrices, whose columns of results are whole, and which write some rows more.
func (l *layout) results(n int, all ...*matrix) region {
	height, more := 0, 0
	for _, x := range all {
		steps := l.steps(x, n)
		height = max(height, (x.m+steps.Whole-1)/steps.Whole*steps.Whole)
		for _, b := range steps.Blocks {
			more = max(more, b.Cols)
		}
	}
	return l.rows(n+more, height)
}

// steps is how n rows are multiplied by a matrix that is covered.
func (l *layout) steps(x *matrix, n int) runtime.Steps {
	steps, known := l.products[sized{x, n}]
	if !known {
		steps, _ = x.packed.Product().Steps(n, x.k) // as for the rows when it was covered
		l.products[sized{x, n}] = steps
	}
	return steps
}

// kept is what stays in a memory of its own: weights of norms, biases, and numbers that operators read.
type kept struct {
	memory  abi.Memory
	bytes   int64
	vectors map[*float32]region
	numbers map[float32]region
	whole   [2]region // i32, of 64 rows as kindLayout has them: all positions of a block count
	uploads []upload
}

// upload is what a region holds.
type upload struct {
	region
	data []byte
}

func (k *kept) keep(data any) region {
	u := upload{}
	u.data, _ = binary.Append(nil, binary.LittleEndian, data) // numbers have a size
	u.region = taken(&k.bytes, len(u.data))
	u.kept = true
	k.uploads = append(k.uploads, u)
	return u.region
}

func (k *kept) vector(v []float32) {
	if len(v) > 0 {
		k.vectors[&v[0]] = k.keep(v)
	}
}

func (k *kept) number(v float32) {
	if _, known := k.numbers[v]; !known && v == v {
		k.numbers[v] = k.keep([]float32{v})
	}
}

// newKept lays out what stays.
func (r *resident) newKept() *kept {
	k, c := &kept{vectors: map[*float32]region{}, numbers: map[float32]region{}}, &r.m.config
	for i := range r.m.layers {
		x := &r.m.layers[i]
		for _, v := range x.vectors {
			k.vector(v)
		}
		for _, w := range x.matrices {
			if w != nil {
				k.number(w.packed.Scale())
			}
		}
		a := x.mixer.(*attention)
		k.number(a.scale)
		k.number(2 * a.scale / a.cap)
	}
	k.vector(r.m.outputNorm)
	if r.onDevice(r.m.head) {
		k.number(r.m.head.packed.Scale())
	}
	k.number(1)
	k.number(c.Epsilon)
	k.number(c.ScoreCap)
	for _, n := range []int{c.Embedding, c.HeadSize, c.FeedForward, c.extent(sizeQueries)} {
		k.number(share(n))
	}
	for i, n := range []int32{0, ops.Block} {
		k.whole[i] = k.keep(slices.Repeat([]int32{n}, ops.Block*c.Heads/c.KVHeads))
	}
	return k
}

// fill makes the memory of what stays.
func (k *kept) fill(on abi.Computer) (err error) {
	if k.memory, err = on.Memory(k.bytes); err != nil {
		return err
	}
	for _, u := range k.uploads {
		if err := k.memory.Write(u.at, u.data); err != nil {
			return err
		}
	}
	k.uploads = nil
	return nil
}

// share is what a norm multiplies a sum of n squares by.
func share(n int) float32 { return 1 / float32(n) }

// lay lays out the memory of a step.
func (r *resident) lay(of shape) *layout {
	l := &layout{resident: r, shape: of, products: map[sized]runtime.Steps{}}
	l.takeInputs()
	l.takeOutputs()
	l.takeBuffers()
	l.takeActs()
	return l
}

func (l *layout) takeInputs() {
	c, begin := &l.m.config, l.bytes
	l.hidden, l.cells = l.rows(l.n, c.Embedding), l.words(4*l.n)
	for kind := range c.Kinds {
		pairs := l.m.angles[kind].Pairs()
		k := kindLayout{cos: l.rows(l.n, pairs), sin: l.rows(l.n, pairs)}
		for i := range k.first {
			k.first[i], k.end[i] = l.rows(l.n, c.Heads/c.KVHeads), l.rows(l.n, c.Heads/c.KVHeads)
		}
		l.kinds = append(l.kinds, k)
	}
	l.inputs = region{at: begin, bytes: l.bytes - begin}
}

// takeOutputs takes regions that are read after a step. Keys and values of several tokens of a session are read as pages, and layers have one region for them.
func (l *layout) takeOutputs() {
	begin := l.bytes
	if l.wanted.n > 0 {
		l.last = l.rows(l.wanted.n, l.m.config.Embedding)
		if l.head {
			l.logits = l.results(l.wanted.n, l.m.head)
		}
	}
	if l.single {
		for range l.m.layers {
			l.layers = append(l.layers, l.takeKeys())
		}
	}
	l.outputs = region{at: begin, bytes: l.bytes - begin}
	if !l.single {
		l.layers = slices.Repeat([]layerLayout{l.takeKeys()}, len(l.m.layers))
	}
}

func (l *layout) takeKeys() layerLayout {
	return layerLayout{l.results(l.n, l.all(keyWeights)...), l.results(l.n, l.all(valueWeights)...)}
}

// all are the matrices of some roles in all layers.
func (l *layout) all(roles ...role) (all []*matrix) {
	for i := range l.m.layers {
		for _, role := range roles {
			all = append(all, l.m.layers[i].matrices[role])
		}
	}
	return all
}

// takeBuffers takes regions that one layer after the other writes.
func (l *layout) takeBuffers() {
	c := &l.m.config
	l.queries, l.keys = l.results(l.n, l.all(queryWeights)...), l.results(l.n, l.all(keyWeights)...)
	l.mixed = l.results(l.n, l.all(mixedWeights, downWeights)...)
	l.gates, l.ups = l.results(l.n, l.all(gateWeights)...), l.results(l.n, l.all(upWeights)...)
	l.normed, l.mixed2 = l.rows(l.n, c.Embedding), l.rows(l.n, c.Embedding)
	queries, keys := c.extent(sizeQueries), c.extent(sizeKeys)
	l.queries2, l.rotated, l.keys2 = l.rows(l.n, queries), l.rows(l.n, queries), l.rows(l.n, keys)
	l.keyScales, l.valueScales = l.rows(l.n, c.KVHeads), l.rows(l.n, c.KVHeads)
	l.attended, l.attended2, l.gated, l.gated2 = l.rows(l.n, queries), l.rows(l.n, queries), l.rows(l.n, c.FeedForward), l.rows(l.n, c.FeedForward)
	l.slots = c.Heads * max(numBlocks(l.m.options.Context), blocksAtOnce*(l.n-1))
	l.scores, l.capped, l.shares = l.words(l.slots*ops.Block), l.words(l.slots*ops.Block), l.words(l.slots*ops.Block)
	l.tops, l.totals, l.parts = l.words(l.slots), l.words(l.slots), l.words(l.slots*c.HeadSize)
	for i := range l.merged {
		l.merged[i].output, l.merged[i].top, l.merged[i].total = l.words(l.n*queries), l.words(l.n*c.Heads), l.words(l.n*c.Heads)
	}
}

// blocksAtOnce is for how many blocks of each token but one there is memory for scores, at least two.
const blocksAtOnce = 4

// takeActs takes regions for prepared activations: of all rows, and in the last layer of those that are wanted.
func (l *layout) takeActs() {
	for i := range l.m.layers {
		for _, x := range l.m.layers[i].matrices {
			if x != nil {
				l.act(x, l.n)
			}
		}
	}
	if l.wanted.n > 0 {
		for _, x := range l.m.layers[len(l.m.layers)-1].matrices {
			if x != nil {
				l.act(x, l.wanted.n)
			}
		}
		if l.head {
			l.act(l.m.head, l.wanted.n)
		}
	}
}

// act takes a region for n rows of activations of a matrix, unless an earlier matrix has them.
func (l *layout) act(x *matrix, n int) {
	if l.actOf(x, n) == nil {
		steps := l.steps(x, n)
		l.acts = append(l.acts, actLayout{sized{x, n}, taken(&l.bytes, steps.ActBytes), steps.Padded})
	}
}

func (l *layout) actOf(x *matrix, n int) *actLayout {
	i := slices.IndexFunc(l.acts, func(a actLayout) bool {
		return a.of.n == n && a.of.x.k == x.k && a.of.x.packed.Product().SharesAct(x.packed.Product())
	})
	if i < 0 {
		return nil
	}
	return &l.acts[i]
}

// list is steps in the making, of some rows: all, but in the last layer those that are wanted. The first error stays.
type list struct {
	*layout
	span
	sequences []sequence
	steps     []abi.Step
	err       error
}

func (s *list) add(x abi.Step) { s.steps = append(s.steps, x) }

// place is a region from a number of bytes on.
func (s *list) place(r region, from int) abi.Place {
	memory := s.work
	if r.kept {
		memory = s.kept.memory
	}
	return abi.Place{Memory: memory, At: r.at + int64(from), Bytes: r.bytes - int64(from)}
}

// tensor is a tensor of an operator by its name.
type tensorAt struct {
	name string
	abi.Tensor
}

// at is a tensor in a region, which moves by steps from one call to the next.
func (s *list) at(name string, r region, from int, steps ...int) tensorAt {
	return tensorAt{name, abi.Tensor{Place: s.place(r, from), Steps: steps}}
}

// each is the rows of s in a region, for calls along rows, or what all rows share.
func (s *list) each(name string, r region) tensorAt { return s.at(name, r, s.first*r.row, r.row) }

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
	s.calls(beside, of, sizes, calls, tensors...)
}

func (s *list) calls(beside bool, of *abi.Operator, sizes map[string]int, calls []int, tensors ...tensorAt) {
	x := &abi.Operating{Beside: beside, Operator: of, Sizes: sizes, Calls: calls, Tensors: make([]abi.Tensor, len(of.Tensors))}
	for i, t := range of.Tensors {
		n := slices.IndexFunc(tensors, func(have tensorAt) bool { return have.name == t.Name })
		if n < 0 {
			s.fail(missing(of.Name + " without a tensor " + t.Name))
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

// norm adds the norms of rows of k elements.
func (s *list) norm(out, x region, weights []float32, k int) {
	s.normTo(s.each("out", out), x, weights, k)
}

func (s *list) normTo(out tensorAt, x region, weights []float32, k int) {
	s.operator(false, "rmsnorm", map[string]int{"K": k}, []int{s.span.n}, append(s.weighted(weights, k), s.each("x", x), out)...)
}

// weighted is what norms of k elements read besides.
func (s *list) weighted(weights []float32, k int) []tensorAt {
	return []tensorAt{s.at("w", s.kept.vectors[&weights[0]], 0), s.at("share", s.kept.numbers[share(k)], 0), s.at("eps", s.kept.numbers[s.m.config.Epsilon], 0)}
}

// plus adds y to the k elements of rows of x.
func (s *list) plus(beside bool, x, y region, k int) {
	s.operator(beside, "add", map[string]int{"K": k}, []int{s.span.n}, s.each("x", x), s.each("y", y), s.each("out", x))
}

// biased adds a vector of weights to rows of x.
func (s *list) biased(beside bool, x region, bias []float32) {
	s.plus(beside, x, s.kept.vectors[&bias[0]], len(bias))
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
		if act := s.actOf(t.x, s.span.n); !slices.Contains(prepared, act) {
			s.quantize(len(prepared) > 0, in, act)
			prepared = append(prepared, act)
		}
	}
	for i, t := range all {
		x := &abi.Multiplying{Beside: i > 0, Matrix: t.x.packed.Loaded(), Act: s.place(s.actOf(t.x, s.span.n).region, 0), Out: s.place(t.out, s.first*t.out.row), Column: t.out.row}
		for _, b := range s.layout.steps(t.x, s.span.n).Blocks {
			x.Runs = append(x.Runs, b.Run)
		}
		s.add(x)
	}
	beside := false
	for _, t := range all {
		if scale := t.x.packed.Scale(); scale != 1 {
			s.operator(beside, "scale", map[string]int{"K": t.x.m}, []int{s.span.n}, s.each("x", t.out), s.at("by", s.kept.numbers[scale], 0), s.each("out", t.out))
			beside = true
		}
	}
}

// quantize adds the preparation of activations.
func (s *list) quantize(beside bool, in region, act *actLayout) {
	row := s.first
	for _, b := range s.layout.steps(act.of.x, s.span.n).Blocks {
		calls := []int{b.Cols, b.Blocks}
		if b.Rows < b.Cols {
			calls = []int{b.Rows}
		}
		s.calls(beside, b.Quantizer, map[string]int{"K": act.of.x.k}, calls, s.at("x", in, row*in.row, in.row, b.Cols*in.row),
			s.at("act", act.region, b.At, b.Chunk, b.Bytes), s.at("sums", act.region, b.At+b.Sums, 4, b.Bytes), s.at("ascale", act.region, b.At+b.Scales, 4, b.Bytes))
		row, beside = row+b.Rows, true
	}
}

// record records a step of sequences.
func (r *resident) record(at *layout, sequences []sequence) (abi.Recording, error) {
	m, s := r.m, &list{layout: at, span: span{0, at.n}, sequences: sequences}
	s.norm(s.normed, s.hidden, m.layers[0].vectors[attentionNorm], m.config.Embedding)
	for i := range m.layers {
		s.project(i)
		if s.span.n == 0 {
			break
		}
		s.attend(i)
		s.feed(i)
	}
	if s.wanted.n > 0 && s.head {
		s.span = span{0, s.wanted.n}
		s.multiply(s.last, target{m.head, s.logits})
	}
	if s.err != nil {
		return nil, s.err
	}
	return r.on.Record(s.steps)
}

// project adds the queries, keys and values of a layer, with biases, normed and rotated, and stores keys and values. In the last layer it leaves only the wanted rows.
func (s *list) project(layer int) {
	x, out := &s.m.layers[layer], &s.layers[layer]
	a := x.mixer.(*attention)
	turned := x.vectors[keyNorm] != nil || s.m.angles[a.kind].Pairs() > 0
	keys := out.key
	if turned {
		keys = s.keys
	}
	queries := target{x.matrices[queryWeights], s.queries}
	all := []target{{x.matrices[keyWeights], keys}, {x.matrices[valueWeights], out.value}, queries}
	narrow := layer+1 == len(s.m.layers) && s.wanted.n < s.layout.n
	if narrow {
		all = all[:2]
	}
	s.multiply(s.normed, all...)
	for i, t := range all {
		if bias := x.vectors[[...]role{keyBias, valueBias, queryBias}[i]]; bias != nil {
			s.biased(i > 0 && x.vectors[keyBias] != nil, t.out, bias)
		}
	}
	s.turn(a, a.kvHeads, s.byRow(keys, a, 1), s.byRow(s.keys2, a, 1), s.byRow(out.key, a, 1), x.vectors[keyNorm])
	s.store(layer)
	if narrow {
		if s.span = s.wanted; s.span.n == 0 {
			return
		}
		s.multiply(s.normed, queries)
		if bias := x.vectors[queryBias]; bias != nil {
			s.biased(false, s.queries, bias)
		}
	}
	s.turn(a, a.heads, s.byRow(s.queries, a, a.group()), s.byRow(s.queries2, a, a.group()), s.shared(a), x.vectors[queryNorm])
}

// headed is vectors of heads in a region: bytes from one head to the next of those that share a head of keys, from these to the next, and from row to row.
type headed struct {
	region
	head, group, row int
}

// byRow is rows of heads: each `group` of them share a head of keys.
func (s *list) byRow(r region, a *attention, group int) headed {
	return headed{r, 4 * a.size, 4 * a.size * group, r.row}
}

// shared is queries as attention reads them: of each head of keys all that share it.
func (s *list) shared(a *attention) headed {
	each := 4 * a.size * a.group()
	return headed{s.rotated, 4 * a.size, each * s.layout.n, each}
}

func (s *list) heads(name string, h headed, from int) tensorAt {
	return s.at(name, h.region, from+s.first*h.row, h.head, h.group, h.row)
}

// turn norms n heads of each row, if there are weights for it, and rotates them, if the kind of layers does.
func (s *list) turn(a *attention, n int, x, normed, out headed, weights []float32) {
	pairs, calls := s.m.angles[a.kind].Pairs(), []int{n / a.kvHeads, a.kvHeads, s.span.n}
	if weights != nil {
		if pairs == 0 {
			normed = out
		}
		s.operator(false, "rmsnorm", map[string]int{"K": a.size}, calls, append(s.weighted(weights, a.size), s.heads("x", x, 0), s.heads("out", normed, 0))...)
		x = normed
	}
	switch k := s.kinds[a.kind]; {
	case pairs > 0:
		s.operator(false, "rope", map[string]int{"H": pairs}, calls, s.heads("x", x, 0), s.heads("y", x, 4*pairs), s.angles("cos", k.cos), s.angles("sin", k.sin),
			s.heads("low", out, 0), s.heads("high", out, 4*pairs))
		if rest := a.size - 2*pairs; rest > 0 {
			s.operator(true, "row_f32", map[string]int{"K": rest}, calls, s.heads("x", x, 8*pairs), s.heads("out", out, 8*pairs))
		}
	case x != out:
		s.operator(false, "row_f32", map[string]int{"K": a.size}, calls, s.heads("x", x, 0), s.heads("out", out, 0))
	}
}

func (s *list) angles(name string, r region) tensorAt {
	return s.at(name, r, s.first*r.row, 0, 0, r.row)
}

// store adds the keys and values of a layer to its pages, at the places that the inputs have.
func (s *list) store(layer int) {
	a, out := s.m.layers[layer].mixer.(*attention), s.layers[layer]
	name, panelBytes := elemName(a.elem)+"_paged", ops.Block*ops.Panel*a.elem.Bytes()
	for i, q := range s.sequences {
		key := s.at("x", out.key, q.row*out.key.row, 4*a.size, 0, out.key.row)
		s.operator(i > 0, "column_"+name, map[string]int{"K": a.size}, []int{a.kvHeads, 1, q.n}, key, s.places(q, 0), s.page("out", q, layer, 0, a.headBytes()), s.scales("scale", q, s.keyScales))
		if a.elem == ops.I8 {
			value := s.at("x", out.value, q.row*out.value.row, 4*a.size, 0, out.value.row)
			s.operator(true, "row_"+name, map[string]int{"C": a.size / ops.Panel}, []int{a.kvHeads, 1, q.n}, value, s.places(q, 1), s.page("out", q, layer, 0, a.headBytes()).rowsOf(panelBytes),
				s.scales("scale", q, s.valueScales))
			continue
		}
		value := s.at("x", out.value, q.row*out.value.row, 4*a.size, 4*ops.Panel, out.value.row)
		s.operator(true, "row_"+name, map[string]int{"K": ops.Panel}, []int{a.kvHeads, a.size / ops.Panel, q.n}, value, s.places(q, 1), s.page("out", q, layer, 0, a.headBytes(), panelBytes))
	}
	if a.elem != ops.I8 {
		return
	}
	for i, q := range s.sequences {
		for of, scales := range []region{s.keyScales, s.valueScales} {
			s.operator(i+of > 0, "element_paged", nil, []int{a.kvHeads, 1, q.n}, s.scales("x", q, scales), s.places(q, 2+of), s.page("out", q, layer, 0, a.headBytes()))
		}
	}
}

// places are where the tokens of a sequence have what attention.cells numbers so.
func (s *list) places(q sequence, cell int) tensorAt {
	return s.at("places", s.cells, 4*(s.layout.n*cell+q.row))
}

// scales are the scales of keys or of values, of each head of each token of a sequence.
func (s *list) scales(name string, q sequence, r region) tensorAt {
	return s.at(name, r, q.row*r.row, 4, 0, r.row)
}

// page is a tensor in a layer's pages of a sequence.
func (s *list) page(name string, q sequence, layer, from int, steps ...int) tensorAt {
	a := s.m.layers[layer].mixer.(*attention)
	return tensorAt{name, abi.Tensor{Place: abi.Place{Memory: q.pages[layer].memory, At: int64(from), Bytes: a.deviceBytes() - int64(from)}, Steps: steps}}
}

// cells are where a position has its key, its value, and the scales of both, in pages that follow each other, in bytes: of the first head, its first elements.
func (a *attention) cells(position int) [4]int {
	page, at, e := position/ops.Block*a.pageBytes(), position%ops.Block, a.elem.Bytes()
	scales := page + a.keyBytes() + ops.Block*a.wide()*e + at*ops.F32.Bytes()
	return [4]int{page + at/ops.Panel*a.keyBytes()/2 + at%ops.Panel*e, page + a.keyBytes() + at*ops.Panel*e, scales, scales + a.scaleBytes()}
}

// elemName is the type of a cache in names of operators.
func elemName(e ops.Elem) string {
	switch e {
	case ops.F16:
		return "f16"
	case ops.I8:
		return "i8"
	}
	return "f32"
}

// blocksOf are neighbouring blocks of one tile, whose scores are in memory at once. Their rows, of each block and head of keys the queries that share it, begin at a slot.
type blocksOf struct {
	*tile
	first, end int
	slot, rows int // rows of a block, of all heads
	of, to     int // all blocks of the tile
	done       *progress
}

// progress is how many blocks of a tile have been merged, by how many merges.
type progress struct{ blocks, merges int }

// rounds are the blocks of tiles, in order, as memory for scores has room for them. The first two blocks of a tile are in one round, unless it has one only.
func (s *list) rounds(a *attention, tiles []tile) (all [][]blocksOf) {
	var round []blocksOf
	used := 0
	next := func() {
		all, round, used = append(all, round), nil, 0
	}
	for i := range tiles {
		t := &tiles[i]
		first, end := a.blocks(t)
		done := &progress{blocks: 1}
		for rows, b := t.n*a.heads, first; b < end; {
			n := min((s.slots-used)/rows, end-b)
			if n == 0 || n == 1 && b == first && end-b > 1 {
				next()
				n = min(s.slots/rows, end-b)
			}
			round = append(round, blocksOf{tile: t, first: b, end: b + n, slot: used, rows: rows, of: first, to: end, done: done})
			b, used = b+n, used+n*rows
		}
	}
	next()
	return all
}

// attend adds attention over blocks of the cache, and what it adds to the hidden state.
func (s *list) attend(layer int) {
	x := &s.m.layers[layer]
	a := x.mixer.(*attention)
	tiles := a.newTiles(nil, s.segments(), ops.Block)
	for _, round := range s.rounds(a, tiles) {
		s.round(layer, a, round)
	}
	attended := s.attended
	if weights := x.vectors[mixedNorm]; weights != nil {
		s.norm(s.attended2, attended, weights, a.heads*a.size)
		attended = s.attended2
	}
	s.multiply(attended, target{x.matrices[mixedWeights], s.mixed})
	s.residual(x.vectors[mixedBias], x.vectors[mixedEndNorm])
	s.norm(s.normed, s.hidden, x.vectors[feedNorm], s.m.config.Embedding)
}

// segments are the rows of each sequence that s has, none of some.
func (s *list) segments() (all []segment) {
	for _, q := range s.sequences {
		first, end := max(q.row, s.first), min(q.row+q.n, s.first+s.span.n)
		all = append(all, segment{row: first, n: max(end-first, 0), position: q.position + first - q.row})
	}
	return all
}

// round adds blocks of attention whose scores are in memory at once.
func (s *list) round(layer int, a *attention, all []blocksOf) {
	key := 4 * a.size
	for i, b := range all {
		s.panels(i > 0, layer, a, &b, 0, a.size, 2, a.keyBytes()/2, rowsAt{s.rotated, b.row * key * a.group(), key, key * a.group() * s.layout.n, 0}, s.slotsOf(s.scores, &b, a, ops.Block))
	}
	s.rescale(layer, a, all, s.scores, scaledKeys)
	scores, scale := s.scores, a.scale
	if a.cap > 0 {
		last := &all[len(all)-1]
		s.operator(false, "softcap", map[string]int{"K": (last.slot + (last.end-last.first)*last.rows) * ops.Block}, nil, s.at("x", scores, 0), s.at("cap", s.kept.numbers[a.cap], 0),
			s.at("twice", s.kept.numbers[2*a.scale/a.cap], 0), s.at("out", s.capped, 0))
		scores, scale = s.capped, 1
	}
	beside := false
	for i := range all {
		beside = s.softmax(beside, a, &all[i], scores, scale)
	}
	s.rescale(layer, a, all, s.shares, scaledValues)
	for i, b := range all {
		s.panels(i > 0, layer, a, &b, a.keyBytes(), ops.Block, a.size/ops.Panel, ops.Block*ops.Panel*a.elem.Bytes(), s.slotsOf(s.shares, &b, a, ops.Block), s.slotsOf(s.parts, &b, a, a.size))
	}
	s.merge(a, all)
}

// rescale multiplies the scores of keys, or the exponentials of values, by the scales of their positions, if the cache has any.
func (s *list) rescale(layer int, a *attention, all []blocksOf, r region, of scaled) {
	if a.elem != ops.I8 {
		return
	}
	for i := range all {
		b := &all[i]
		x := s.slotsOf(r, b, a, ops.Block)
		scales := s.page("by", s.sequences[b.segment], layer, b.first*a.pageBytes()+a.headBytes()-int(of)*a.scaleBytes(), a.headBytes(), a.pageBytes())
		s.operator(i > 0, "rescale", map[string]int{"R": b.rows / a.kvHeads}, []int{a.kvHeads, b.end - b.first}, s.at("x", x.region, x.from, x.head, x.block), scales,
			s.at("out", x.region, x.from, x.head, x.block))
	}
}

// softmax adds the exponentials of blocks: of the one in which windows begin, of the queries' own, and of those between, of which all positions count.
func (s *list) softmax(beside bool, a *attention, b *blocksOf, scores region, scale float32) bool {
	k := s.kinds[a.kind]
	own := b.row * k.first[0].row
	for block := b.first; block < b.end; {
		n, first, end, from := 1, s.kept.whole[0], s.kept.whole[1], 0
		switch block {
		case b.to - 1:
			first, end, from = k.first[1], k.end[1], own
		case b.of:
			first, end, from = k.first[0], k.end[0], own
		default:
			n = min(b.end, b.to-1) - block
		}
		at, rows := b.slot+(block-b.first)*b.rows, b.rows/a.kvHeads
		slots := func(name string, r region, k int) tensorAt { return s.at(name, r, 4*k*at, 4*k*rows, 4*k*b.rows) }
		s.operator(beside, "softmax", map[string]int{"R": rows}, []int{a.kvHeads, n}, slots("s", scores, ops.Block), s.at("scale", s.kept.numbers[scale], 0),
			s.at("first", first, from), s.at("end", end, from), slots("top1", s.tops, 1), slots("e", s.shares, ops.Block), slots("total1", s.totals, 1))
		block, beside = block+n, true
	}
	return beside
}

// rowsAt is rows in a region, some bytes apart, which move from one head of keys to the next, and from one block to the next.
type rowsAt struct {
	region
	from, row, head, block int
}

// slotsOf are the rows of blocks in a region with k numbers for each slot.
func (s *list) slotsOf(r region, b *blocksOf, a *attention, k int) rowsAt {
	return rowsAt{r, b.slot * 4 * k, 4 * k, b.rows / a.kvHeads * 4 * k, b.rows * 4 * k}
}

// mostRows is how many rows a product by a panel has at most.
const mostRows = 8

// panels adds products of rows by panels of pages: for each head of keys, panel and block, of the queries of a tile that share the head. The panels of a page begin at `from`. Calls
// have three axes, so that of panels, blocks and rows one is a step for each.
func (s *list) panels(beside bool, layer int, a *attention, b *blocksOf, from, k, panels, panelBytes int, in, out rowsAt) {
	type axis struct{ n, in, page, out int }
	blocks := axis{b.end - b.first, in.block, a.pageBytes(), out.block}
	across := axis{panels, 0, panelBytes, 4 * ops.Panel}
	rows := b.rows / a.kvHeads
	for r := 0; r < rows; {
		n := mostRows
		for n > rows-r {
			n /= 2
		}
		times := axis{1, n * in.row, 0, n * out.row}
		if n == mostRows {
			times.n = (rows - r) / n
		}
		axes := []axis{across, blocks, times}
		slices.SortStableFunc(axes, func(x, y axis) int { return x.n - y.n })
		one, x, y := axes[0], axes[1], axes[2]
		for i := range one.n {
			s.operator(beside, "matmul_"+elemName(a.elem)+"_"+strconv.Itoa(n), map[string]int{"K": k}, []int{a.kvHeads, x.n, y.n},
				s.at("a", in.region, in.from+r*in.row+i*one.in, in.head, x.in, y.in).rowsOf(in.row),
				s.page("b", s.sequences[b.segment], layer, b.first*a.pageBytes()+from+i*one.page, a.headBytes(), x.page, y.page),
				s.at("out", out.region, out.from+r*out.row+i*one.out, out.head, x.out, y.out).rowsOf(out.row))
			beside = true
		}
		r += n * times.n
	}
}

// merge adds blocks to those of their tiles before, in order, and divides by the sums where a tile ends.
func (s *list) merge(a *attention, all []blocksOf) {
	for left := true; left; {
		left = false
		for i := range all {
			if b := &all[i]; b.of+b.done.blocks < b.end {
				s.mergeSome(left, a, b)
				left = true
			}
		}
	}
	beside, rows, d := false, a.group(), 4*a.size
	for i := range all {
		b := &all[i]
		if b.end < b.to {
			continue
		}
		x := s.state(a, b)
		s.operator(beside, "finish", map[string]int{"R": rows, "D": a.size}, []int{a.kvHeads, b.n}, s.at("o", x.output, x.row*d, d*rows*b.n, d*rows).rowsOf(d),
			s.at("l", x.total, 4*x.row, 4*rows*b.n, 4*rows), s.at("out", s.attended, b.row*s.attended.row, d*rows, s.attended.row).rowsOf(d))
		beside = true
	}
}

// merged is outputs, maxima and sums of the rows of a tile, which follow each other.
type merged struct {
	output, top, total region
	row                int // the first
}

// state is what the blocks of a tile that have been merged have together: at first, what the first one has.
func (s *list) state(a *attention, b *blocksOf) merged {
	if b.done.merges == 0 {
		return merged{s.parts, s.tops, s.totals, b.slot}
	}
	x := s.merged[b.done.merges%len(s.merged)]
	x.row = b.row * a.heads
	return x
}

// mostMerged is from how many blocks on that one merge may add operators are looked for.
const mostMerged = 64

// mergeSome adds the next blocks: the largest number that an operator is for.
func (s *list) mergeSome(beside bool, a *attention, b *blocksOf) {
	x, d := s.state(a, b), 4*a.size
	next := b.of + b.done.blocks
	name, n := "", mostMerged
	for ; n > 1; n /= 2 {
		if name = "merge_" + strconv.Itoa(n); n <= b.end-next && s.on.Operator(name) != nil {
			break
		}
	}
	b.done.blocks += n
	b.done.merges++
	to, at := s.state(a, b), b.slot+(next-b.first)*b.rows
	if n > 1 {
		s.operator(beside, name, map[string]int{"D": a.size}, []int{b.rows}, s.at("o", x.output, x.row*d, d), s.at("m", x.top, 4*x.row, 4), s.at("l", x.total, 4*x.row, 4),
			s.at("o2", s.parts, at*d, d).rowsOf(b.rows*d), s.at("m2", s.tops, 4*at, 4).rowsOf(4*b.rows), s.at("l2", s.totals, 4*at, 4).rowsOf(4*b.rows),
			s.at("top", to.top, 4*to.row, 4), s.at("total", to.total, 4*to.row, 4), s.at("out", to.output, to.row*d, d))
		return
	}
	s.operator(beside, "merge", map[string]int{"R": b.rows, "D": a.size}, nil, s.at("o", x.output, x.row*d).rowsOf(d), s.at("m", x.top, 4*x.row), s.at("l", x.total, 4*x.row),
		s.at("o2", s.parts, at*d).rowsOf(d), s.at("m2", s.tops, 4*at), s.at("l2", s.totals, 4*at),
		s.at("top", to.top, 4*to.row), s.at("total", to.total, 4*to.row), s.at("out", to.output, to.row*d).rowsOf(d))
}

// residual adds what a part of a layer has computed to the hidden state, with its bias, and normed if it has a norm for it.
func (s *list) residual(bias, ends []float32) {
	n, mixed := s.m.config.Embedding, s.mixed
	if bias != nil {
		s.biased(false, mixed, bias)
	}
	if ends != nil {
		s.norm(s.mixed2, mixed, ends, n)
		mixed = s.mixed2
	}
	s.plus(false, s.hidden, mixed, n)
}

// feed adds the feed-forward part of a layer, and the norm of what comes next.
func (s *list) feed(layer int) {
	x, n := &s.m.layers[layer], s.m.config.FeedForward
	s.multiply(s.normed, target{x.matrices[gateWeights], s.gates}, target{x.matrices[upWeights], s.ups})
	s.operator(false, s.m.row.gate.operator, map[string]int{"K": n}, []int{s.span.n}, s.each("gate", s.gates), s.each("up", s.ups), s.each("out", s.gated))
	gated := s.gated
	if weights := x.vectors[gatedNorm]; weights != nil {
		s.norm(s.gated2, gated, weights, n)
		gated = s.gated2
	}
	s.multiply(gated, target{x.matrices[downWeights], s.mixed})
	s.residual(nil, x.vectors[feedEndNorm])
	if layer+1 < len(s.m.layers) {
		s.norm(s.normed, s.hidden, s.m.layers[layer+1].vectors[attentionNorm], s.m.config.Embedding)
	} else if s.wanted.n > 0 {
		s.normTo(s.at("out", s.last, 0, s.last.row), s.hidden, s.m.outputNorm, s.m.config.Embedding)
	}
}
