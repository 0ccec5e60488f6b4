package model

import (
	"slices"

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
	floats                 []region // rows of activations that products may read with zeros behind them
	ended                  map[ended]bool
	expertsLayout
}

// ended is a kernel that ends in an operator.
type ended struct {
	of     *runtime.Product
	kernel int
	abi.Ending
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
	zeros     bool // behind its only row
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

// activations is n rows of k activations. Behind a single one are the zeros that products read which take it as floats.
func (l *layout) activations(n, k int) region { return l.activationsOf(n, 0, k) }

// activationsOf is activations with more rows behind them, which products may write that end in an operator.
func (l *layout) activationsOf(n, more, k int) region {
	bytes := 0
	for _, x := range l.matrices() {
		if n == 1 && x.k == k {
			run, _ := x.packed.Product().StepFloats(x.m, k)
			bytes = max(bytes, run.Bytes)
		}
	}
	if bytes <= 4*k {
		return l.rows(n+more, k)
	}
	r := l.words(bytes / 4)
	r.row, r.zeros = 4*k, true
	l.floats = append(l.floats, r)
	return r
}

// matrices are the packed ones of layers, and the head.
func (l *layout) matrices() (all []*matrix) {
	for i := range l.m.layers {
		all = append(all, l.m.layers[i].matrices[:]...)
	}
	return slices.DeleteFunc(append(all, l.m.head), func(x *matrix) bool { return x == nil || x.packed == nil })
}

// results is a region for the products of n rows by matrices, whose columns of results are whole, and which write some rows more.
func (l *layout) results(n int, all ...*matrix) region { return l.resultsOf(n, 0, all...) }

// resultsOf is results with rows of at least some elements.
func (l *layout) resultsOf(n, height int, all ...*matrix) region {
	for _, x := range all {
		if x.packed == nil {
			height = max(height, (x.m+ops.Panel-1)/ops.Panel*ops.Panel)
			continue
		}
		steps := l.steps(x, n)
		height = max(height, (x.m+steps.Whole-1)/steps.Whole*steps.Whole)
	}
	return l.rows(n+l.more(n, all...), height)
}

// more is how many rows products of n rows by matrices may write behind them.
func (l *layout) more(n int, all ...*matrix) (more int) {
	for _, x := range all {
		if x.packed == nil {
			continue
		}
		for _, b := range l.steps(x, n).Blocks {
			more = max(more, b.Cols)
		}
	}
	return more
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

// lay lays out the memory of a step.
func (r *resident) lay(of shape) *layout {
	l := &layout{resident: r, shape: of, products: map[sized]runtime.Steps{}, ended: map[ended]bool{}}
	l.takeInputs()
	l.takeOutputs()
	l.takeBuffers()
	if l.m.config.Experts.Count > 0 {
		l.takeExperts()
	}
	l.takeActs()
	return l
}

func (l *layout) takeInputs() {
	c, begin := &l.m.config, l.bytes
	l.hidden, l.cells = l.rows(l.n+l.more(l.n, l.all(mixedWeights, downWeights)...), c.Embedding), l.words(4*l.n)
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
		l.last = l.activations(l.wanted.n, l.m.config.Embedding)
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
			if x := l.m.layers[i].matrices[role]; x != nil {
				all = append(all, x)
			}
		}
	}
	return all
}

// takeBuffers takes regions that one layer after the other writes.
func (l *layout) takeBuffers() {
	c := &l.m.config
	l.queries, l.keys = l.results(l.n, l.all(queryWeights)...), l.results(l.n, l.all(keyWeights)...)
	l.mixed = l.results(l.n, l.all(mixedWeights, downWeights)...)
	l.gates, l.ups = l.results(l.n, l.all(gateWeights, sharedGate)...), l.results(l.n, l.all(upWeights, sharedUp)...)
	l.normed, l.mixed2 = l.activations(l.n, c.Embedding), l.rows(l.n, c.Embedding)
	queries, keys := c.extent(sizeQueries), c.extent(sizeKeys)
	l.queries2, l.rotated, l.keys2 = l.rows(l.n, queries), l.rows(l.n, queries), l.rows(l.n, keys)
	l.keyScales, l.valueScales = l.rows(l.n, c.KVHeads), l.rows(l.n, c.KVHeads)
	l.attended, l.attended2, l.gated, l.gated2 = l.activations(l.n, queries), l.activations(l.n, queries), l.activationsOf(l.n, l.more(l.n, l.all(upWeights, sharedUp)...), c.width()), l.activations(l.n, c.width())
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
			if x != nil && x.packed != nil {
				l.act(x, l.n)
			}
		}
	}
	if l.wanted.n > 0 {
		for _, x := range l.m.layers[len(l.m.layers)-1].matrices {
			if x != nil && x.packed != nil {
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

func (l *layout) actOf(x *matrix, n int) *actLayout { return actIn(l.acts, x, n) }

// actIn is the activations of n rows that x reads, nil if there are none.
func actIn(all []actLayout, x *matrix, n int) *actLayout {
	i := slices.IndexFunc(all, func(a actLayout) bool {
		return a.of.n == n && a.of.x.k == x.k && a.of.x.packed.Product().SharesAct(x.packed.Product())
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}
