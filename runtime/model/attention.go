package model

import (
	"encoding/binary"
	"math"

	"github.com/tmacc/tmacc/runtime/ops"
	"github.com/tmacc/tmacc/runtime/pool"
)

// attention is the mixer of layers with queries, keys and values. docs/ir.md defines it.
type attention struct {
	kind                 int // of its layers
	heads, kvHeads, size int // size is the elements of a head
	positions            int // that a sequence may have
	chunk                int // that are computed at once, at most
	window               int // the latest positions that a query sees, with its own; all have `positions`
	scale                float32
	cap                  float32 // of scores, unless 0
	epsilon              float32
	elem                 ops.Elem // of the cache
	pages                *pages
}

// wide is the elements of a head in panels of values.
func (a *attention) wide() int { return (a.size + ops.Panel - 1) / ops.Panel * ops.Panel }

// group is how many heads of queries share a head of keys and values.
func (a *attention) group() int { return a.heads / a.kvHeads }

// headBytes is the memory of one head of keys and values in a page, keyBytes of its keys, and scaleBytes of the scales of its keys, or of its values.
func (a *attention) headBytes() int {
	return a.keyBytes() + ops.Block*a.wide()*a.elem.Bytes() + 2*a.scaleBytes()
}
func (a *attention) keyBytes() int { return ops.Block * a.size * a.elem.Bytes() }
func (a *attention) scaleBytes() int {
	if a.elem != ops.I8 {
		return 0
	}
	return ops.Block * ops.F32.Bytes()
}

// pageBytes is the memory of 64 positions.
func (a *attention) pageBytes() int { return a.kvHeads * a.headBytes() }

// bytes counts the pages that a window needs, and those that were not given back yet.
func (a *attention) bytes(n int) int64 {
	blocks := min(numBlocks(n), numBlocks(a.window+behind+a.chunk)+1)
	return int64(blocks) * int64(a.pageBytes())
}

func (a *attention) newState() state {
	return &cache{a: a, mark: mark{pages: make([]*page, 0, numBlocks(a.positions))}}
}

// keys is the panel of 32 positions, the first or the second half of a page, of one head.
func (a *attention) keys(page []byte, head, half int) []byte {
	return page[head*a.headBytes()+half*a.keyBytes()/2:][:a.keyBytes()/2]
}

// values is panel number i of the elements of one head.
func (a *attention) values(page []byte, head, i int) []byte {
	size := ops.Block * ops.Panel * a.elem.Bytes()
	return page[head*a.headBytes()+a.keyBytes()+i*size:][:size]
}

// scales belong to the keys of one head, or to its values: an f32 for each position.
func (a *attention) scales(page []byte, head int, of scaled) []byte {
	return page[(head+1)*a.headBytes()-int(of)*a.scaleBytes():][:a.scaleBytes()]
}

// scaled says what has scales. They lie at the end of a head.
type scaled int

const (
	scaledValues scaled = 1
	scaledKeys   scaled = 2
)

// forget clears the positions of a page from number `first` on.
func (a *attention) forget(page []byte, first int) {
	size := a.elem.Bytes()
	for head := range a.kvHeads {
		for half := range 2 {
			panel, lane := a.keys(page, head, half), min(max(first-half*ops.Panel, 0), ops.Panel)
			for d := range a.size {
				clear(panel[(d*ops.Panel+lane)*size : (d+1)*ops.Panel*size])
			}
		}
		for i := range a.wide() / ops.Panel {
			clear(a.values(page, head, i)[first*ops.Panel*size:])
		}
		for _, of := range []scaled{scaledKeys, scaledValues} {
			if scales := a.scales(page, head, of); len(scales) > 0 {
				clear(scales[first*ops.F32.Bytes():])
			}
		}
	}
}

// store writes the key and the value of one head at a position of a page.
func (a *attention) store(x *attentionLane, page []byte, head, at int, key, value []float32) {
	if a.elem == ops.I8 {
		a.quantize(x.codes, page, head, at, key, value)
		return
	}
	ops.StoreK(a.keys(page, head, at/ops.Panel), a.elem, key, at%ops.Panel)
	for i := 0; i*ops.Panel < a.size; i++ {
		to := a.values(page, head, i)[at*ops.Panel*a.elem.Bytes():]
		ops.StoreRow(to, a.elem, value[i*ops.Panel:min((i+1)*ops.Panel, a.size)])
	}
}

// quantize is store in 8 bits. codes has room for a head.
func (a *attention) quantize(codes, page []byte, head, at int, key, value []float32) {
	scale := func(of scaled, x []float32) {
		to := a.scales(page, head, of)[at*ops.F32.Bytes():]
		binary.LittleEndian.PutUint32(to, math.Float32bits(ops.Quantize(codes, x)))
	}
	scale(scaledKeys, key)
	ops.StoreLane(a.keys(page, head, at/ops.Panel), codes, at%ops.Panel)
	scale(scaledValues, value)
	for i := 0; i*ops.Panel < a.size; i++ {
		copy(a.values(page, head, i)[at*ops.Panel:], codes[i*ops.Panel:min((i+1)*ops.Panel, a.size)])
	}
}

// tile is neighbouring positions of one sequence whose queries are computed together. They lie in one block, and their windows
// begin in one block.
type tile struct {
	segment  int
	row      int // of queries and keys, of the first position
	angles   int // row of the angles of the first position
	n        int // positions
	position int // of the first one
	slot     int // where the results of its blocks begin, if blocks are computed apart
}

// tileRows is about how many rows of queries a tile has, for one head of keys.
const tileRows = 64

// tilePositions is how many positions a tile has at most: a divisor of a block.
func (a *attention) tilePositions() int {
	n := ops.Block
	for n > 1 && n*a.group() > tileRows {
		n /= 2
	}
	return n
}

// newTiles divides the rows of the segments into tiles of at most some positions, a divisor of a block.
func (a *attention) newTiles(tiles []tile, segments []segment, most int) []tile {
	for s, x := range segments {
		for i := 0; i < x.n; {
			at := x.position + i
			n := min(most-at%most, x.n-i, a.windowEnd(at)-at)
			tiles = append(tiles, tile{segment: s, row: x.row + i, angles: x.angles + i, n: n, position: at})
			i += n
		}
	}
	return tiles
}

// windowBlock is the block in which the window of a position begins. windowEnd is the next position whose window begins in another.
func (a *attention) windowBlock(position int) int { return max(position+1-a.window, 0) / ops.Block }

func (a *attention) windowEnd(position int) int {
	return (a.windowBlock(position)+1)*ops.Block + a.window - 1
}

// blocks are the ones that the queries of a tile see, from the first to before the end.
func (a *attention) blocks(t *tile) (first, end int) {
	return a.windowBlock(t.position), numBlocks(t.position + t.n)
}

// attentionWork is attention of one layer over the rows of a batch, for threads to share.
type attentionWork struct {
	ws    *workspace
	a     *attention
	layer int
	// segments are the batch's, or runs of their wanted rows, which tiles divide.
	segments, wanted []segment
	tiles            []tile
	// step is what the threads do now; item i is of the head i % kvHeads and of the tile, or the block of a tile, i / kvHeads.
	step  func(w *attentionWork, lane, item int)
	parts []part // of the tiles, when blocks are computed apart
	lanes []attentionLane
	// Results of blocks that are computed apart: rows of outputs, maxima and sums.
	outputs, tops, totals []float32
	queries               []float32 // [kvHeads][rows of the batch][group][size], rotated
}

// part is one block of one tile.
type part struct{ tile, block int }

// attentionLane is the memory of one thread: of rows of one tile and head.
type attentionLane struct {
	scores                   []float32 // [rows][64]
	scales                   []float32 // [64], of a block
	codes                    []byte    // of a head
	output, next             []float32 // [rows][wide], of the blocks so far and of one block
	top, total, top2, total2 []float32
	first, end               []int32 // the positions of a block that count, of each row
}

func (a *attention) mix(ws *workspace, layer int) error {
	x, l := &ws.model.layers[layer], &ws.attention
	if err := a.project(ws, layer); err != nil || ws.live == 0 {
		return err
	}
	if l.apart() {
		l.run(len(l.parts)*a.kvHeads, (*attentionWork).onePart)
		l.run(len(l.tiles)*a.kvHeads, (*attentionWork).join)
	} else {
		l.run(len(l.tiles)*a.kvHeads, (*attentionWork).whole)
	}
	if x.vectors[mixedNorm] != nil {
		ws.each(ws.live, (*workspace).normMixed)
	}
	ws.clock(&ws.times.Attention)
	err := ws.multiply(ws.attended, ws.live, product{x.matrices[mixedWeights], ws.mixed[:ws.live*ws.model.config.Embedding]})
	ws.clock(&ws.times.Products)
	return err
}

// project computes the queries of the rows that the layer needs, and stores the keys and values of all rows.
func (a *attention) project(ws *workspace, layer int) error {
	x, l, n := &ws.model.layers[layer], &ws.attention, ws.rows
	q, k, v := x.matrices[queryWeights], x.matrices[keyWeights], x.matrices[valueWeights]
	products := [...]product{{k, ws.keys[:n*k.m]}, {v, ws.values[:n*v.m]}, {q, ws.queries[:n*q.m]}}
	narrow := layer+1 == len(ws.model.layers) && len(ws.wanted) < n
	together := products[:]
	if narrow {
		together = products[:2]
	}
	if err := ws.multiply(ws.normed, n, together...); err != nil {
		return err
	}
	ws.clock(&ws.times.Products)
	l.begin(ws, a, layer, ws.segments)
	if !narrow {
		l.run(len(l.tiles)*a.kvHeads, (*attentionWork).rotate)
		return nil
	}
	l.run(len(l.tiles)*a.kvHeads, (*attentionWork).storeKeys)
	l.wanted = ws.wantedSegments(l.wanted[:0])
	n = ws.narrow(layer, ws.normed, ws.model.config.Embedding)
	ws.clock(&ws.times.Attention)
	if err := ws.multiply(ws.normed, n, product{q, ws.queries[:n*q.m]}); err != nil {
		return err
	}
	ws.clock(&ws.times.Products)
	l.begin(ws, a, layer, l.wanted)
	l.run(len(l.tiles)*a.kvHeads, (*attentionWork).rotateQueries)
	return nil
}

// begin sets w to rows of a layer.
func (w *attentionWork) begin(ws *workspace, a *attention, layer int, segments []segment) {
	w.ws, w.a, w.layer, w.segments = ws, a, layer, segments
	w.tiles = a.newTiles(w.tiles[:0], segments, a.tilePositions())
	w.queries = grow(w.queries, ws.rows*a.heads*a.size)
	for len(w.lanes) < ws.lanes() {
		w.lanes = append(w.lanes, newLane(a))
	}
}

func newLane(a *attention) attentionLane {
	rows := max(tileRows, a.group())
	return attentionLane{
		scores: make([]float32, rows*ops.Block), scales: make([]float32, ops.Block), codes: make([]byte, a.size),
		output: make([]float32, rows*a.wide()), next: make([]float32, rows*a.wide()),
		top: make([]float32, rows), total: make([]float32, rows), top2: make([]float32, rows), total2: make([]float32, rows),
		first: make([]int32, rows), end: make([]int32, rows),
	}
}

// mostApart bounds the memory of blocks that are computed apart, in bytes.
const mostApart = 32 << 20

// slots is how many rows of results all blocks of all tiles have.
func (w *attentionWork) slots() (n int) {
	for i := range w.tiles {
		first, end := w.a.blocks(&w.tiles[i])
		n += (end - first) * w.tiles[i].n * w.a.heads
	}
	return n
}

// apart plans to compute blocks apart, if there are fewer tiles than threads could share, and says whether it did.
func (w *attentionWork) apart() bool {
	w.parts = w.parts[:0]
	lanes := w.ws.lanes()
	if lanes == 1 || len(w.tiles)*w.a.kvHeads >= 8*lanes || w.slots()*(w.a.wide()+2)*4 > mostApart {
		return false
	}
	slots := 0
	for i := range w.tiles {
		t := &w.tiles[i]
		t.slot = slots
		first, end := w.a.blocks(t)
		for b := first; b < end; b++ {
			w.parts = append(w.parts, part{i, b})
		}
		slots += (end - first) * t.n * w.a.heads
	}
	w.outputs, w.tops, w.totals = grow(w.outputs, slots*w.a.wide()), grow(w.tops, slots), grow(w.totals, slots)
	return true
}

func (w *attentionWork) run(items int, step func(w *attentionWork, lane, item int)) {
	w.step = step
	pool.Run(w, items, 1, w.ws.lanes())
}

// Do does items of a step.
func (w *attentionWork) Do(lane, first, end int) {
	for i := first; i < end; i++ {
		w.step(w, lane, i)
	}
}

// rotate is storeKeys and rotateQueries.
func (w *attentionWork) rotate(lane, item int) {
	w.storeKeys(lane, item)
	w.rotateQueries(lane, item)
}

// storeKeys adds biases to the keys and values of one tile and head, norms and rotates keys, and stores both.
func (w *attentionWork) storeKeys(lane, item int) {
	a, ws := w.a, w.ws
	t, head := &w.tiles[item/a.kvHeads], item%a.kvHeads
	pages := w.cache(t).pages
	for i := range t.n {
		row, at := t.row+i, t.position+i
		key, value := ws.keys[(row*a.kvHeads+head)*a.size:][:a.size], ws.values[(row*a.kvHeads+head)*a.size:][:a.size]
		w.bias(key, keyBias, head)
		w.turn(key, keyNorm, t.angles+i)
		w.bias(value, valueBias, head)
		a.store(&w.lanes[lane], pages[at/ops.Block].data, head, at%ops.Block, key, value)
		pages[at/ops.Block].version.Add(1)
	}
}

// rotateQueries adds biases to the queries of one tile and head of keys, norms and rotates them.
func (w *attentionWork) rotateQueries(_, item int) {
	a, ws := w.a, w.ws
	t, head := &w.tiles[item/a.kvHeads], item%a.kvHeads
	for i := range t.n {
		row, at := t.row+i, t.position+i
		queries := w.rowQueries(head, row, 1)
		copy(queries, ws.queries[(row*a.heads+head*a.group())*a.size:])
		for h := range a.group() {
			x := queries[h*a.size:][:a.size]
			w.bias(x, queryBias, head*a.group()+h)
			w.turn(x, queryNorm, t.angles+i)
			if config := &ws.model.config; config.Growth > 0 && at >= config.Original {
				ops.Scale(x, x, ops.Growth(at, config.Original, config.Growth))
			}
		}
	}
}

// bias adds the layer's bias of a head, if it has one.
func (w *attentionWork) bias(x []float32, r role, head int) {
	if bias := w.ws.model.layers[w.layer].vectors[r]; bias != nil {
		ops.Add(x, x, bias[head*w.a.size:][:w.a.size])
	}
}

// turn norms a head, rotated by a row of angles, if the layer has a norm for it, and rotates it.
func (w *attentionWork) turn(x []float32, norm role, row int) {
	if weights := w.ws.model.layers[w.layer].vectors[norm]; weights != nil {
		ops.RMSNorm(x, x, weights, w.a.epsilon)
	}
	cos, sin := w.ws.angles(w.a.kind, row)
	ops.Rope(x[:2*len(cos)], cos, sin)
}

// cache is the state of a tile's sequence.
func (w *attentionWork) cache(t *tile) *cache {
	return w.segments[t.segment].session.states[w.layer].(*cache)
}

// rowQueries is the queries that share a head of keys, of n rows from row on.
func (w *attentionWork) rowQueries(head, row, n int) []float32 {
	each := w.a.group() * w.a.size
	return w.queries[(head*w.ws.rows+row)*each:][:n*each]
}

// whole computes all blocks of one tile and head, in their order.
func (w *attentionWork) whole(lane, item int) {
	x, t, head := &w.lanes[lane], &w.tiles[item/w.a.kvHeads], item%w.a.kvHeads
	rows := t.n * w.a.group()
	first, end := w.a.blocks(t)
	w.block(x, t, head, first, x.output, x.top, x.total)
	for b := first + 1; b < end; b++ {
		w.block(x, t, head, b, x.next, x.top2, x.total2)
		ops.Merge(x.output, x.top, x.total, x.next, x.top2, x.total2, rows, w.a.wide())
	}
	w.finish(x, t, head)
}

// onePart computes one block of one tile and head, for join.
func (w *attentionWork) onePart(lane, item int) {
	p, head := w.parts[item/w.a.kvHeads], item%w.a.kvHeads
	t := &w.tiles[p.tile]
	output, top, total := w.slot(t, head, p.block)
	w.block(&w.lanes[lane], t, head, p.block, output, top, total)
}

// slot is where the results of a block are kept.
func (w *attentionWork) slot(t *tile, head, block int) (output, top, total []float32) {
	rows, wide := t.n*w.a.group(), w.a.wide()
	at := t.slot + ((block-w.a.windowBlock(t.position))*w.a.kvHeads+head)*rows
	return w.outputs[at*wide:][:rows*wide], w.tops[at:][:rows], w.totals[at:][:rows]
}

// join merges the blocks of one tile and head in their order.
func (w *attentionWork) join(lane, item int) {
	x, t, head := &w.lanes[lane], &w.tiles[item/w.a.kvHeads], item%w.a.kvHeads
	rows := t.n * w.a.group()
	first, end := w.a.blocks(t)
	output, top, total := w.slot(t, head, first)
	copy(x.output, output)
	copy(x.top, top)
	copy(x.total, total)
	for b := first + 1; b < end; b++ {
		output, top, total = w.slot(t, head, b)
		ops.Merge(x.output, x.top, x.total, output, top, total, rows, w.a.wide())
	}
	w.finish(x, t, head)
}

// block computes one block of attention for the queries of one tile and head.
func (w *attentionWork) block(x *attentionLane, t *tile, head, block int, output, top, total []float32) {
	a, page := w.a, w.cache(t).pages[block].data
	rows := t.n * a.group()
	first, end := a.valid(x, t, block)
	queries := w.rowQueries(head, t.row, t.n)
	for half := first / ops.Panel; half*ops.Panel < end; half++ {
		ops.Matmul(x.scores[half*ops.Panel:], ops.Block, queries, a.size, rows, a.keys(page, head, half), a.elem, a.size)
	}
	x.scale(a, page, head, scaledKeys, rows)
	scale := a.scale
	if a.cap > 0 {
		ops.Softcap(x.scores[:rows*ops.Block], x.scores[:rows*ops.Block], scale, a.cap)
		scale = 1
	}
	ops.Softmax(x.scores, rows, scale, x.first, x.end, top, total)
	x.scale(a, page, head, scaledValues, rows)
	// Exponentials of positions behind the query are +0, and what a page has there is 0 or of a later row: adding their
	// products changes no bit of a sum that began at +0. Nor do positions before the window.
	end = (end + ops.Whole - 1) / ops.Whole * ops.Whole
	for i := range a.wide() / ops.Panel {
		ops.Matmul(output[i*ops.Panel:], a.wide(), x.scores, ops.Block, rows, a.values(page, head, i), a.elem, end)
	}
}

// scale multiplies the scores of keys, or the exponentials of values, by the scales of their positions, if the cache has any.
func (x *attentionLane) scale(a *attention, page []byte, head int, of scaled, rows int) {
	if a.elem != ops.I8 {
		return
	}
	ops.LoadRow(x.scales, a.scales(page, head, of), ops.F32)
	for r := range rows {
		scores := x.scores[r*ops.Block:][:ops.Block]
		ops.Mul(scores, scores, x.scales)
	}
}

// valid sets x.first and x.end to the positions of a block that count for each row of a tile. It returns the first of all, and the
// end of all.
func (a *attention) valid(x *attentionLane, t *tile, block int) (first, end int) {
	at, group := t.position-block*ops.Block, a.group() // of the tile's first row, in the block
	for i := range t.n * group {
		row := at + i/group
		x.first[i], x.end[i] = int32(max(row+1-a.window, 0)), int32(min(row+1, ops.Block))
	}
	return int(x.first[0]), int(x.end[t.n*group-1])
}

// finish divides the outputs of one tile and head by their sums and puts them where the other heads' are.
func (w *attentionWork) finish(x *attentionLane, t *tile, head int) {
	a, group := w.a, w.a.group()
	ops.Finish(x.output, x.total, t.n*group, a.wide())
	for i := range t.n * group {
		row, h := t.row+i/group, head*group+i%group
		copy(w.ws.attended[(row*a.heads+h)*a.size:][:a.size], x.output[i*a.wide():])
	}
}
