package model

import (
	"slices"
	"strconv"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// project adds the queries, keys and values of a layer, with biases, normed and rotated, and stores keys and values. In the last layer it leaves only the wanted rows.
func (s *list) project(layer int) {
	x, out := &s.m.layers[layer], &s.layers[layer]
	a := x.mixer.(*attention)
	turned := x.vectors[keyNorm] != nil || s.m.angles[a.kind].Pairs() > 0
	keys := out.key
	if turned {
		keys = s.keys
	}
	queries := s.biased(x.matrices[queryWeights], x.vectors[queryBias], s.queries)
	all := []target{s.biased(x.matrices[keyWeights], x.vectors[keyBias], keys), s.biased(x.matrices[valueWeights], x.vectors[valueBias], out.value), queries}
	narrow := layer+1 == len(s.m.layers) && s.wanted.n < s.layout.n
	if narrow {
		all = all[:2]
	}
	s.multiply(s.normed, all...)
	s.turn(a, a.kvHeads, s.byRow(keys, a, 1), s.byRow(s.keys2, a, 1), s.byRow(out.key, a, 1), x.vectors[keyNorm])
	s.store(layer)
	if narrow {
		if s.span = s.wanted; s.span.n == 0 {
			return
		}
		s.multiply(s.normed, queries)
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

// elemName is the type of a cache or a matrix in names of operators.
func elemName(e ops.Elem) string {
	switch e {
	case ops.F16:
		return "f16"
	case ops.BF16:
		return "bf16"
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
	s.mix(attended, x.matrices[mixedWeights], x.vectors[mixedBias], x.vectors[mixedEndNorm])
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

// merge adds blocks to the earlier ones of their tiles, in order, and divides by the sums where a tile ends.
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
