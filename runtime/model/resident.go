package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/ops"
)

// resident computes steps on the device of the products: all layers, between memory that stays there, in one submission. What goes in is rows of the
// embedding, the angles of the positions, their places in the cache, and which positions of blocks count. Keys and values, the last norms and logits of the wanted rows come out.
// Models that it does not cover, and batches of more sessions than it has room for, are computed on the CPU, by products on the device.
//
// Pages of caches are the host's. The device has copies of the sessions of the largest step, page after page, which follow their versions.
type resident struct {
	m  *Model
	mu sync.Mutex // held by a step
	on abi.Computer
	// why steps are not computed here; nil if they are, or are not known to be yet
	why error
	// tried are the blocks of the step that had why, if it may pass: steps that see others try again
	tried [][2]int
	// widths are the numbers of columns, ascending, of kernels for blocks of one expert, besides one column
	widths []int
	// the first step of a kind, or with blocks of experts of a number of columns, had the bits of products and of the CPU
	same     [numKinds]bool
	sameCols map[int]bool
	sameEnds map[ended]bool
	// cannotEnd is why kernels do not end in operators, nil: they can
	cannotEnd map[ended]error
	most      int        // tokens of a step that there is memory for
	large     int64      // bytes of work for this number
	kept      *kept      // nil before the first step, and after a loss of the device
	seats     []*seat    // the latest first
	few       int        // sessions of the smallest batch that had no room, 0: each had
	work      abi.Memory // of steps, nil before the first
	bytes     int64      // of work
	ran       *layout    // of the last step
	steps     []*recorded
}

// Kinds of steps, by what differs in how they are computed.
const (
	oneToken    = iota
	oneSession  // several tokens of one
	allSessions // tokens of several
	numKinds
)

func (ws *workspace) kind() int {
	switch {
	case ws.rows == 1:
		return oneToken
	case len(ws.segments) == 1:
		return oneSession
	}
	return allSessions
}

// seat is memory of the device for the pages of a session.
type seat struct {
	session *Session // that had it last
	pages   []copied // of each layer
}

// copied is the pages of a layer on the device.
type copied struct {
	memory   abi.Memory
	of       []*page // by number, nil: none
	versions []uint64
}

// recorded is a step.
type recorded struct {
	abi.Recording
	at        *layout
	sequences []sequence
}

// sequence is neighbouring rows of a step, the next tokens of one session.
type sequence struct {
	*seat
	row, n   int
	position int      // of the first
	blocks   [][2]int // that it sees, of each kind of layers: from the first to before the end
}

// alike says that a step with the rows of x is also one with those of y.
func (x sequence) alike(y sequence) bool {
	return x.seat == y.seat && x.row == y.row && x.n == y.n && (x.position == y.position || x.n == 1 && slices.Equal(x.blocks, y.blocks))
}

// newResident says whether steps of a model can stay on a device.
func newResident(m *Model) *resident {
	r := &resident{m: m, sameCols: map[int]bool{}, sameEnds: map[ended]bool{}, cannotEnd: map[ended]error{}}
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
	case c.Growth > 0:
		return errorf("device", "queries that grow with positions are computed on the CPU")
	case c.HeadSize%ops.Panel != 0:
		return errorf("device", "heads of %d elements are computed on the CPU", c.HeadSize)
	}
	for _, kind := range c.Kinds {
		if kind.Rope.Dims%ops.Panel != 0 {
			return errorf("device", "heads of which %d elements are rotated are computed on the CPU", kind.Rope.Dims)
		}
	}
	for i := range m.layers {
		for role, x := range m.layers[i].matrices {
			covered := r.covered
			if x != nil && x.packed == nil && ofRouter(role) {
				covered = coveredFloats
			}
			if err := covered(x); err != nil {
				return err
			}
		}
	}
	if c.Experts.Count > 0 {
		return r.coversExperts()
	}
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
	p := x.packed.Product()
	for n := 1; n <= p.ActStep(); n++ { // by each kernel
		steps, err := p.Steps(n, x.k)
		if err != nil {
			return err
		}
		r.on = cmp.Or(r.on, steps.On)
	}
	return nil
}

// onDevice says that the device multiplies by the head. Otherwise the CPU does.
func (r *resident) onDevice(head *matrix) bool { return r.covered(head) == nil }

// Resident is nil if steps stay on the device of the products, and otherwise says why they do not. Batches of more than ResidentSessions never do.
func (m *Model) Resident() error {
	m.resident.mu.Lock()
	defer m.resident.mu.Unlock()
	return m.resident.why
}

// ResidentSessions is of how many sessions a batch is at most that stays on the device, 0 if there was room for each batch so far. It
// is decided by the first batch that finds none, and again after a loss of the device.
func (m *Model) ResidentSessions() int {
	m.resident.mu.Lock()
	defer m.resident.mu.Unlock()
	return max(m.resident.few-1, 0)
}

// chunk is how many tokens a step has at most.
func (m *Model) chunk() int {
	r := m.resident
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.why != nil:
		return m.options.Chunk
	case !r.same[oneSession]: // it is computed twice
		return min(r.most, ops.Block)
	}
	if cols := r.grouped(r.most).cols; cols > 1 && !r.sameCols[cols] { // so is the first of these, which has no more tokens than it must
		return 1 + sort.Search(r.most-1, func(n int) bool { return r.grouped(n+1).cols >= cols })
	}
	return r.most
}

func (r *resident) free() {
	if r == nil {
		return
	}
	r.freeSteps()
	if r.kept != nil && r.kept.memory != nil {
		r.kept.memory.Free()
	}
	for _, x := range r.seats {
		x.free()
	}
	r.kept, r.seats, r.few = nil, nil, 0
	clear(r.cannotEnd) // a loss of the device may have been why
}

func (x *seat) free() {
	for _, p := range x.pages {
		p.memory.Free()
	}
}

// freeSteps frees the memory of steps, and those that are recorded for it.
func (r *resident) freeSteps() {
	for _, x := range r.steps {
		x.Free()
	}
	if r.work != nil {
		r.work.Free()
	}
	r.steps, r.work, r.bytes, r.ran = nil, nil, 0, nil
}

// forward computes the batch of ws, if it can, and says whether it did.
func (r *resident) forward(ctx context.Context, ws *workspace) (done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil && !r.again(ws) || ctx.Err() != nil {
		return false, ctx.Err()
	}
	if r.few > 0 && len(ws.segments) >= r.few {
		return false, nil
	}
	step := r.readied(ws)
	if step == nil {
		return false, nil
	}
	if err := r.step(ws, step); err != nil {
		r.free() // and the next step begins anew: after a loss the device is opened again
		return true, err
	}
	err = r.finish(ws, step.at)
	known := r.same[ws.kind()] && !slices.ContainsFunc(step.at.groupings, func(g grouping) bool { return !r.sameCols[g.cols] })
	for of := range step.at.ended {
		known = known && r.sameEnds[of]
	}
	if !known {
		err = r.compare(ctx, ws, step.at)
	}
	return true, err
}

// again says that why may have passed: the session has gone on to other blocks.
func (r *resident) again(ws *workspace) bool {
	return r.tried != nil && !slices.Equal(r.tried, r.blocks(ws.segments[0].position))
}

// readied is the step of ws, recorded. It is nil if there is none, and r remembers why. It drops what a lost device had.
func (r *resident) readied(ws *workspace) (step *recorded) {
	if r.kept != nil && r.kept.memory != nil && r.kept.memory.Lost() {
		r.free()
	}
	passing := true
	if r.why, r.tried = r.room(), nil; r.why == nil {
		step, r.why = r.ready(ws)
		passing = r.on.Passing(r.why) || errors.Is(r.why, errSeats)
	}
	switch lost := r.kept != nil && r.kept.memory != nil && r.kept.memory.Lost(); {
	case r.why == nil:
		return step
	case passing && ws.rows > 1 && r.kept != nil && !lost: // there may be memory for steps of one token
		if errors.Is(r.why, errSeats) {
			r.few = len(ws.segments)
		}
		r.why = nil
		return nil
	case passing || lost:
		r.tried = r.blocks(ws.segments[0].position)
	}
	r.free()
	return nil
}

// room is why the memory of the device does not suffice, nil if r has what it needs. It sets r.most.
func (r *resident) room() error {
	if r.kept != nil {
		return nil
	}
	stays := r.newKept().bytes
	for i := range r.m.layers {
		stays += r.m.layers[i].mixer.(*attention).deviceBytes()
	}
	room, err := r.on.Room()
	if err != nil {
		return err
	}
	for r.most = min(r.m.options.Chunk, r.m.options.Context); ; r.most = (r.most + 1) / 2 {
		r.large = r.lay(r.shapeOf(r.most, r.most == 1, span{r.most - 1, 1}, false)).bytes
		need := stays + r.large
		if need <= room {
			return nil
		}
		if r.most == 1 {
			return errorf("option Context", "%d takes %s of the device's memory, and %s are free: %s are missing, so that only products are computed there. Ask for fewer tokens",
				r.m.options.Context, size64(need), size64(room), size64(need-room))
		}
	}
}

// shapeOf is the shape of a step of n tokens.
func (r *resident) shapeOf(n int, single bool, wanted span, noHead bool) shape {
	return shape{n: n, single: single, wanted: wanted, head: !noHead && wanted.n > 0 && r.onDevice(r.m.head)}
}

// deviceBytes is how many bytes the copies of a layer's pages take, of a session of all positions.
func (a *attention) deviceBytes() int64 { return int64(numBlocks(a.positions)) * int64(a.pageBytes()) }

// compare computes the tokens of a first step of its kind, groupings or kernels that end in operators again, by products, and compares. A device with other bits computes no more steps: its driver, or what it
// cannot be asked of floats, is the reason.
func (r *resident) compare(ctx context.Context, ws *workspace, at *layout) error {
	results := func() []float32 { return slices.Concat(ws.normed[:len(ws.wanted)*r.m.config.Embedding], ws.logits) }
	first, pages := results(), r.written(ws)
	if err := ws.forwardLayers(ctx); err != nil {
		return err
	}
	same := slices.EqualFunc(first, results(), func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) && bytes.Equal(pages, r.written(ws))
	r.same[ws.kind()] = same
	for _, g := range at.groupings {
		r.sameCols[g.cols] = same
	}
	for of := range at.ended {
		r.sameEnds[of] = same
	}
	if !same {
		r.why = errorf("device", "a step there had other bits than its products and the CPU's float operators")
		r.free()
	}
	return nil
}

// written are the pages that a step has written.
func (r *resident) written(ws *workspace) (all []byte) {
	for _, x := range ws.segments {
		for _, state := range x.session.states {
			for _, p := range state.(*cache).pages[x.position/ops.Block : numBlocks(x.position+x.n)] {
				all = append(all, p.data...)
			}
		}
	}
	return all
}

// mostRecorded is how many steps are kept.
const mostRecorded = 8

// ready makes everything that is missing: memory, weights of norms, seats, and the step of ws.
func (r *resident) ready(ws *workspace) (step *recorded, err error) {
	if r.kept == nil {
		r.kept = r.newKept()
		if err := r.kept.fill(r.on); err != nil {
			return nil, err
		}
	}
	sequences, err := r.seated(ws.segments)
	if err != nil {
		return nil, err
	}
	wanted := span{}
	if n := len(ws.wanted); n > 0 {
		wanted = span{int(ws.wanted[0]), int(ws.wanted[n-1]-ws.wanted[0]) + 1}
	}
	of := r.shapeOf(ws.rows, ws.rows == len(ws.segments), wanted, ws.noHead)
	same := func(x *recorded) bool {
		return x.at.shape == of && slices.EqualFunc(x.sequences, sequences, sequence.alike)
	}
	if i := slices.IndexFunc(r.steps, same); i >= 0 {
		step = r.steps[i]
		copy(r.steps[1:], r.steps[:i])
		r.steps[0] = step
		return step, nil
	}
	at, err := r.layout(of)
	if err != nil {
		return nil, err
	}
	recording, err := r.record(at, sequences)
	if err != nil {
		return nil, err
	}
	if n := len(r.steps); n == mostRecorded {
		r.steps[n-1].Free()
		r.steps = r.steps[:n-1]
	}
	step = &recorded{recording, at, sequences}
	r.steps = slices.Insert(r.steps, 0, step)
	return step, nil
}

// layout is the layout of a shape, with memory for it.
func (r *resident) layout(of shape) (*layout, error) {
	for _, x := range r.steps {
		if x.at.shape == of {
			return x.at, nil
		}
	}
	at := r.lay(of)
	if at.bytes <= r.bytes {
		return at, nil
	}
	r.freeSteps()
	var err error
	if r.work, err = r.on.Memory(at.bytes); err == nil {
		r.bytes = at.bytes
	}
	return at, err
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

// errSeats is that there are fewer seats than a batch has sessions.
var errSeats = errorf("device", "it has no room for the keys and values of all sessions of the batch at once")

// seated gives each segment of a batch a seat: the one that its session had last, or one that no session of the batch had, or a new one.
func (r *resident) seated(segments []segment) (all []sequence, err error) {
	of := func(x *Session) *seat {
		if i := slices.IndexFunc(r.seats, func(s *seat) bool { return s.session == x }); i >= 0 {
			return r.seats[i]
		}
		return nil
	}
	if err := r.newSeats(len(segments) - len(r.seats)); err != nil {
		return nil, err
	}
	taken := map[*seat]bool{}
	for _, x := range segments {
		if s := of(x.session); s != nil {
			taken[s] = true
		}
	}
	for _, x := range segments {
		s := of(x.session)
		for i := len(r.seats) - 1; s == nil; i-- { // from the one that was used longest ago: there are enough
			if last := r.seats[i]; !taken[last] {
				s, last.session, taken[last] = last, x.session, true
			}
		}
		all = append(all, sequence{s, x.row, x.n, x.position, r.blocks(x.position)})
	}
	slices.SortStableFunc(r.seats, func(a, b *seat) int {
		switch {
		case taken[a] == taken[b]:
			return 0
		case taken[a]:
			return -1
		}
		return 1
	})
	return all, nil
}

// newSeats makes memory for the pages of n more sessions of all positions. All but the first leave room for the largest step.
func (r *resident) newSeats(n int) error {
	if len(r.seats)+n > 1 && n > 0 {
		need := max(r.large-r.bytes, 0)
		for i := range r.m.layers {
			need += int64(n) * r.m.layers[i].mixer.(*attention).deviceBytes()
		}
		if room, err := r.on.Room(); err != nil || need > room {
			return cmp.Or(err, errSeats)
		}
	}
	for range n {
		if err := r.newSeat(); err != nil {
			return err
		}
	}
	return nil
}

func (r *resident) newSeat() error {
	x := &seat{}
	for i := range r.m.layers {
		a := r.m.layers[i].mixer.(*attention)
		n := numBlocks(a.positions)
		memory, err := r.on.Memory(a.deviceBytes())
		if err != nil {
			x.free()
			return err
		}
		x.pages = append(x.pages, copied{memory, make([]*page, n), make([]uint64, n)})
	}
	r.seats = append(r.seats, x)
	return nil
}

// follow copies pages that have changed, from number first to before end, but those that a step of n positions writes all of.
func (p *copied) follow(pages []*page, first, end, position, n int) error {
	for i := first; i < end; i++ {
		version := pages[i].version.Load()
		if p.of[i] == pages[i] && p.versions[i] == version || i*ops.Block >= position && (i+1)*ops.Block <= position+n {
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

// step computes the tokens of ws.
func (r *resident) step(ws *workspace, x *recorded) error {
	for i, of := range ws.segments {
		q := &x.sequences[i]
		for layer := range q.pages {
			first := q.blocks[r.m.config.KindOf[layer]][0]
			if err := q.pages[layer].follow(of.cache(layer).pages, first, numBlocks(of.position+of.n), of.position, of.n); err != nil {
				return err
			}
		}
	}
	if err := r.begin(x.at); err != nil {
		return err
	}
	if err := r.work.Write(x.at.inputs.at, r.inputs(ws, x.at)); err != nil {
		return err
	}
	if err := r.on.Run(x.Recording); err != nil {
		return err
	}
	data := make([]byte, x.at.outputs.bytes)
	if len(data) > 0 {
		if err := r.work.Read(x.at.outputs.at, data); err != nil {
			return err
		}
	}
	r.outputs(ws, x.at, data)
	for i := range ws.segments {
		of, pages := &ws.segments[i], x.sequences[i].pages
		if x.at.single {
			r.takeKeys(ws, x.at, data, of, pages)
		} else if err := of.takePages(pages); err != nil {
			return err
		}
	}
	return nil
}

// cache is the state of a layer of attention.
func (x *segment) cache(layer int) *cache { return x.session.states[layer].(*cache) }

// begin makes activations 0, where steps leave them so, after a step with another layout.
func (r *resident) begin(at *layout) error {
	if r.ran == at {
		return nil
	}
	r.ran = at
	for _, x := range slices.Concat(at.acts, at.chosenActs) {
		if x.padded {
			if err := r.work.Write(x.at, make([]byte, x.bytes)); err != nil {
				return err
			}
		}
	}
	for _, x := range at.floats {
		if err := r.work.Write(x.at, make([]byte, x.bytes)); err != nil {
			return err
		}
	}
	return nil
}

// inputs is what a step is given: rows of the embedding, and of each kind of layers the angles and the positions of blocks that count.
func (r *resident) inputs(ws *workspace, l *layout) []byte {
	ws.each(ws.rows, (*workspace).begin)
	data := make([]byte, l.inputs.bytes)
	put := func(to region, at int, x any) {
		if _, err := binary.Encode(data[to.at-l.inputs.at+int64(at):], binary.LittleEndian, x); err != nil {
			panic("BUG: model: " + err.Error()) // the layout has room for it
		}
	}
	put(l.hidden, 0, ws.hidden[:ws.rows*r.m.config.Embedding])
	for row := range ws.rows {
		for i, place := range r.attention(0).cells(int(ws.positions[row])) {
			put(l.cells, 4*(i*ws.rows+row), uint32(place))
		}
		for kind, k := range l.kinds {
			cos, sin := ws.angles(kind, row)
			put(k.cos, row*k.cos.row, cos)
			put(k.sin, row*k.sin.row, sin)
			a, position := r.attention(kind), int(ws.positions[row])
			for i, block := range []int{a.windowBlock(position), position / ops.Block} {
				at := position - block*ops.Block
				put(k.first[i], row*k.first[i].row, slices.Repeat([]int32{int32(max(at+1-a.window, 0))}, a.group()))
				put(k.end[i], row*k.end[i].row, slices.Repeat([]int32{int32(min(at+1, ops.Block))}, a.group()))
			}
		}
	}
	return data
}

// take is the numbers of a region in the outputs of a step.
func (l *layout) take(to []float32, data []byte, from region, at int) []float32 {
	if _, err := binary.Decode(data[from.at-l.outputs.at+int64(at):], binary.LittleEndian, to); err != nil {
		panic("BUG: model: " + err.Error()) // the layout has room for them
	}
	return to
}

// outputs takes the last norms, and logits, of the wanted rows.
func (r *resident) outputs(ws *workspace, l *layout, data []byte) {
	n := r.m.config.Vocabulary
	if ws.logits = ws.logits[:0]; l.head {
		ws.logits = grow(ws.logits, len(ws.wanted)*n)
	}
	for i, row := range ws.wanted {
		at := int(row) - l.wanted.first
		l.take(ws.normedRow(i), data, l.last, at*l.last.row)
		if l.head {
			l.take(ws.logits[i*n:][:n], data, l.logits, at*l.logits.row)
		}
	}
}

// takeKeys takes the key and the value of a session's only token into the host's pages.
func (r *resident) takeKeys(ws *workspace, l *layout, data []byte, of *segment, pages []copied) {
	position, lane := of.position, attentionLane{codes: make([]byte, r.m.config.HeadSize)}
	for i := range pages {
		a, out := r.m.layers[i].mixer.(*attention), &l.layers[i]
		keys := l.take(ws.keys[:a.kvHeads*a.size], data, out.key, of.row*out.key.row)
		values := l.take(ws.values[:a.kvHeads*a.size], data, out.value, of.row*out.value.row)
		p := of.cache(i).pages[position/ops.Block]
		for head := range a.kvHeads {
			a.store(&lane, p.data, head, position%ops.Block, keys[head*a.size:][:a.size], values[head*a.size:][:a.size])
		}
		pages[i].versions[position/ops.Block] = p.version.Add(1)
	}
}

// takePages takes the pages that a step has written into the host's.
func (x *segment) takePages(pages []copied) error {
	first, end := x.position/ops.Block, numBlocks(x.position+x.n)
	for i := range pages {
		copied := &pages[i]
		for n, p := range x.cache(i).pages[first:end] {
			n += first
			copied.of[n] = nil
			if err := copied.memory.Read(int64(n)*int64(len(p.data)), p.data); err != nil {
				return err
			}
			copied.of[n], copied.versions[n] = p, p.version.Add(1)
		}
	}
	return nil
}

// finish computes logits where the device has not, caps them, and refuses numbers that are not finite. Rows that are not wanted were not looked at: what they have in the cache spoils the
// ones that see it.
func (r *resident) finish(ws *workspace, l *layout) error {
	ws.clock(&ws.times.Products)
	n := len(ws.wanted)
	for i := range n {
		if !ops.Finite(ws.normedRow(i)[:1]) {
			return errorf("a layer", "computes numbers that are not finite: the weights are damaged, or their activations are too large for 32-bit floats")
		}
	}
	if n == 0 || ws.noHead {
		return nil
	}
	if !l.head {
		ws.logits = grow(ws.logits, n*r.m.config.Vocabulary)
		if err := ws.multiply(ws.normed, n, product{r.m.head, ws.logits}); err != nil {
			return err
		}
	}
	if r.m.config.LogitCap > 0 {
		ws.each(n, (*workspace).capLogits)
	}
	ws.clock(&ws.times.Head)
	return ws.finite()
}

// missing is an operator that the device lacks.
func missing(name string) error { return fmt.Errorf("model: the device has no operator %s", name) }
