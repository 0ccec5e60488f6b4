package model

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// resident computes steps of one token on the device of the products: all layers, between memory that stays there, in one submission. What goes in is the row of the
// embedding, the angles of the position, its place in the cache, and which positions of each block count. Keys and values, the last norm and logits come out. Steps of several tokens, and
// models that it does not cover, are computed on the CPU, by products on the device.
//
// Pages of caches are the host's. The device has a copy of one session's, page after page, which follows their versions.
type resident struct {
	m  *Model
	mu sync.Mutex // held by a step
	on abi.Computer
	// why steps are not computed here; nil if they are, or are not known to be yet
	why error
	// tried are the blocks of the step that had why, if it may pass: steps that see others try again
	tried [][2]int
	same  bool // the first step had the bits of products and of the CPU
	rows  map[*matrix]runtime.OneRow
	at    *layout // nil before the first step, and after a loss of the device
	pages []copied
	steps *recorded
}

// copied is the pages of a layer on the device.
type copied struct {
	memory   abi.Memory
	of       []*page // by number, nil: none
	versions []uint64
}

// recorded is the steps of a token.
type recorded struct {
	abi.Recording
	blocks [][2]int // of each kind of layers: from the first to before the end
}

// newResident says whether steps of a model can stay on a device.
func newResident(m *Model) *resident {
	r := &resident{m: m, rows: map[*matrix]runtime.OneRow{}}
	if r.why = r.covers(); r.why != nil {
		return r
	}
	if r.why = r.room(); r.why != nil {
		r.tried = [][2]int{} // there may be more room by the first step
	}
	return r
}

// covers is why steps cannot stay on a device.
func (r *resident) covers() error {
	m, c := r.m, &r.m.config
	switch {
	case c.Experts.Count > 0:
		return errorf("device", "experts are computed on the CPU")
	case c.Growth > 0:
		return errorf("device", "queries that grow with positions are computed on the CPU")
	case m.options.Cache == CacheQ8:
		return errorf("device", "a cache of 8 bits is for the CPU")
	case c.HeadSize%ops.Panel != 0:
		return errorf("device", "heads of %d elements are computed on the CPU", c.HeadSize)
	}
	for _, kind := range c.Kinds {
		if d := kind.Rope.Dims; d != 0 && d != c.HeadSize {
			return errorf("device", "heads that are partly rotated are computed on the CPU")
		}
	}
	for i := range m.layers {
		for _, x := range m.layers[i].matrices {
			if err := r.covered(x); err != nil {
				return err
			}
		}
	}
	r.covered(m.head) // or the CPU multiplies by it
	return nil
}

// covered is why the device does not multiply by x in a step.
func (r *resident) covered(x *matrix) error {
	if x == nil {
		return nil
	}
	if x.packed == nil {
		return errorf("device", "matrices of floats are multiplied on the CPU")
	}
	row, err := x.packed.Product().OneRow(x.k)
	if err != nil {
		return err
	}
	r.on, r.rows[x] = cmp.Or(r.on, row.On), row
	return nil
}

// Resident is nil if steps of one token stay on the device of the products, and otherwise says why they do not.
func (m *Model) Resident() error {
	m.resident.mu.Lock()
	defer m.resident.mu.Unlock()
	return m.resident.why
}

func (r *resident) free() {
	if r == nil {
		return
	}
	if r.steps != nil {
		r.steps.Free()
	}
	if r.at != nil {
		r.at.memory.Free()
	}
	for _, p := range r.pages {
		p.memory.Free()
	}
	r.at, r.pages, r.steps = nil, nil, nil
}

// forward computes the batch of ws, if it is one token, and says whether it did.
func (r *resident) forward(ctx context.Context, ws *workspace) (done bool, err error) {
	if ws.rows != 1 || len(ws.segments) != 1 {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.same && len(ws.wanted) == 0 { // the CPU would compute nothing to compare with
		return false, nil
	}
	if r.why != nil && !r.again(ws) || ctx.Err() != nil {
		return false, ctx.Err()
	}
	if !r.readied(ws) {
		return false, nil
	}
	if err := r.step(ws); err != nil {
		r.free() // and the next step begins anew: after a loss the device is opened again
		return true, err
	}
	err = r.finish(ws)
	if !r.same {
		err = r.compare(ctx, ws)
	}
	return true, err
}

// again says that why may have passed: the session has gone on to other blocks.
func (r *resident) again(ws *workspace) bool {
	return r.tried != nil && !slices.Equal(r.tried, r.blocks(ws.segments[0].position))
}

// readied says whether a step can be computed, and otherwise remembers why not. It drops what a lost device had.
func (r *resident) readied(ws *workspace) bool {
	if r.at != nil && r.at.memory.Lost() {
		r.free()
	}
	passing := true
	if r.why, r.tried = r.room(), nil; r.why == nil {
		r.why = r.ready(ws)
		passing = r.on.Passing(r.why) || r.at != nil && r.at.memory.Lost()
	}
	if r.why == nil {
		return true
	}
	if passing {
		r.tried = r.blocks(ws.segments[0].position)
	}
	r.free()
	return false
}

// room is why the memory of the device does not suffice, nil if r has what it needs.
func (r *resident) room() error {
	if r.at != nil {
		return nil
	}
	need := r.lay().bytes
	for i := range r.m.layers {
		need += r.m.layers[i].mixer.(*attention).deviceBytes()
	}
	room, err := r.on.Room()
	if err == nil && need > room {
		err = errorf("option Context", "%d takes %s of the device's memory, and %s are free: only products are computed there. Ask for fewer tokens",
			r.m.options.Context, size64(need), size64(room))
	}
	return err
}

// deviceBytes is how many bytes the copies of a layer's pages take, of a session of all positions.
func (a *attention) deviceBytes() int64 { return int64(numBlocks(a.positions)) * int64(a.pageBytes()) }

// compare computes the token of the first step again, by products, and compares. A device with other bits computes no more steps: its driver, or what it
// cannot be asked of floats, is the reason.
func (r *resident) compare(ctx context.Context, ws *workspace) error {
	first := slices.Concat(ws.normedRow(0), ws.logits)
	if err := ws.forwardLayers(ctx); err != nil {
		return err
	}
	r.same = slices.EqualFunc(first, slices.Concat(ws.normedRow(0), ws.logits), func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
	if !r.same {
		r.why = errorf("device", "a step there had other bits than its products and the CPU's float operators")
		r.free()
	}
	return nil
}

// ready makes everything that is missing: memory, weights of norms, and steps for the blocks of the present position.
func (r *resident) ready(ws *workspace) (err error) {
	if r.at == nil {
		if r.at, err = r.newLayout(); err != nil {
			return err
		}
		if err := r.newPages(); err != nil {
			return err
		}
	}
	blocks := r.blocks(ws.segments[0].position)
	if r.steps != nil && slices.Equal(r.steps.blocks, blocks) {
		return nil
	}
	if r.steps != nil {
		r.steps.Free()
		r.steps = nil
	}
	steps, err := r.record(blocks)
	if err == nil {
		r.steps = &recorded{steps, blocks}
	}
	return err
}

// blocks are those that the query of a position sees, in each kind of layers.
func (r *resident) blocks(position int) (all [][2]int) {
	for kind := range r.m.config.Kinds {
		all = append(all, [2]int{r.attention(kind).windowBlock(position), position/ops.Block + 1})
	}
	return all
}

// attention is a mixer of a kind of layers. One that no layer has is nil.
func (r *resident) attention(kind int) *attention {
	for i, k := range r.m.config.KindOf {
		if int(k) == kind {
			return r.m.layers[i].mixer.(*attention)
		}
	}
	return r.m.layers[0].mixer.(*attention)
}

// newPages makes the copies of pages, for a session of all positions.
func (r *resident) newPages() error {
	for i := range r.m.layers {
		a := r.m.layers[i].mixer.(*attention)
		n := numBlocks(a.positions)
		memory, err := r.on.Memory(a.deviceBytes())
		if err != nil {
			return err
		}
		r.pages = append(r.pages, copied{memory, make([]*page, n), make([]uint64, n)})
	}
	return nil
}

// follow copies pages that have changed, from number first to before end.
func (p *copied) follow(pages []*page, first, end int) error {
	for i := first; i < end; i++ {
		version := pages[i].version.Load()
		if p.of[i] == pages[i] && p.versions[i] == version {
			continue
		}
		p.of[i] = nil
		if err := p.memory.Write(int64(i)*int64(len(pages[i].data)), pages[i].data); err != nil {
			return err
		}
		p.of[i], p.versions[i] = pages[i], version
	}
	return nil
}

// step computes the token of ws.
func (r *resident) step(ws *workspace) error {
	cacheOf := func(layer int) *cache { return ws.segments[0].session.states[layer].(*cache) }
	for i := range r.pages {
		b := r.steps.blocks[r.m.config.KindOf[i]]
		if err := r.pages[i].follow(cacheOf(i).pages, b[0], b[1]); err != nil {
			return err
		}
	}
	if err := r.at.memory.Write(r.at.inputs.at, r.inputs(ws)); err != nil {
		return err
	}
	if err := r.on.Run(r.steps.Recording); err != nil {
		return err
	}
	data := make([]byte, r.at.outputs.bytes)
	if err := r.at.memory.Read(r.at.outputs.at, data); err != nil {
		return err
	}
	r.outputs(ws, data, cacheOf)
	return nil
}

// inputs is what a step is given: the row of the embedding, and of each kind of layers the angles and the positions of its blocks that count.
func (r *resident) inputs(ws *workspace) []byte {
	ws.begin(0)
	data := make([]byte, r.at.inputs.bytes)
	at := data[:0]
	floats := func(x []float32) {
		at, _ = binary.Append(at, binary.LittleEndian, x) // floats have a size
	}
	floats(ws.hiddenRow(0))
	position := ws.segments[0].position
	for i, place := range r.attention(0).cells(position) {
		binary.LittleEndian.PutUint32(data[r.at.cells.at-r.at.inputs.at+int64(4*i):], uint32(place))
	}
	for kind, k := range r.at.kinds {
		cos, sin := ws.angles(kind, 0)
		at = data[:k.cos.at-r.at.inputs.at]
		floats(cos)
		at = data[:k.sin.at-r.at.inputs.at]
		floats(sin)
		a, b := r.attention(kind), r.steps.blocks[kind]
		for i, bound := range []region{k.first, k.end} {
			at = data[:bound.at-r.at.inputs.at]
			for block := b[0]; block < b[1]; block++ {
				row := position - block*ops.Block
				n := [2]int{max(row+1-a.window, 0), min(row+1, ops.Block)}[i]
				for range a.heads {
					at = binary.LittleEndian.AppendUint32(at, uint32(n))
				}
			}
		}
	}
	return data
}

// outputs takes what a step has made: keys and values into the host's pages, the last norm, and logits.
func (r *resident) outputs(ws *workspace, data []byte, cacheOf func(layer int) *cache) {
	floats := func(to []float32, from region) []float32 {
		if _, err := binary.Decode(data[from.at-r.at.outputs.at:], binary.LittleEndian, to); err != nil {
			panic("BUG: model: " + err.Error()) // the layout has room for them
		}
		return to
	}
	position := ws.segments[0].position
	for i := range r.pages {
		a := r.m.layers[i].mixer.(*attention)
		keys, values := floats(ws.keys[:a.kvHeads*a.size], r.at.layers[i].key), floats(ws.values[:a.kvHeads*a.size], r.at.layers[i].value)
		p := cacheOf(i).pages[position/ops.Block]
		for head := range a.kvHeads {
			a.store(nil, p.data, head, position%ops.Block, keys[head*a.size:][:a.size], values[head*a.size:][:a.size])
		}
		r.pages[i].versions[position/ops.Block] = p.version.Add(1)
	}
	floats(ws.normedRow(0), r.at.last)
	if ws.logits = ws.logits[:0]; len(ws.wanted) > 0 && !ws.noHead && r.at.logits.bytes > 0 {
		ws.logits = floats(grow(ws.logits, r.m.config.Vocabulary), r.at.logits)
	}
}

// finish computes logits where the device has not, caps them, and refuses numbers that are not finite.
func (r *resident) finish(ws *workspace) error {
	ws.clock(&ws.times.Products)
	if !ops.Finite(ws.normedRow(0)[:1]) {
		return errorf("a layer", "computes numbers that are not finite: the weights are damaged, or their activations are too large for 32-bit floats")
	}
	if len(ws.wanted) == 0 || ws.noHead {
		return nil
	}
	if len(ws.logits) == 0 {
		ws.logits = grow(ws.logits, r.m.config.Vocabulary)
		if err := ws.multiply(ws.normed, 1, product{r.m.head, ws.logits}); err != nil {
			return err
		}
	}
	if r.m.config.LogitCap > 0 {
		ws.capLogits(0)
	}
	ws.clock(&ws.times.Head)
	return ws.finite()
}

// missing is an operator that the device lacks.
func missing(name string) error { return fmt.Errorf("model: the device has no operator %s", name) }
