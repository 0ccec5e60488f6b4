package runtime

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/abi"
)

// An activation buffer is a header of 64 bytes (that of a packed matrix, with
// cut.id, n and k) and one block for each kernel call, as abi.CutOf cuts them: the last one may be padded
// with rows of zeros. A block is
//
//	codes   int8  [padK/chunk][width][chunk], or the tables of that many elements
//	sums    int32 [groups][width]
//	scales  f32   [scales][width]
//
// and with tables that have residuals
//
//	residuals  u8     as the tables
//	offsets    int32  [width]
//	list       uint32 the number of steps of the kernel that have residuals, then which ones
//
// or of f32 activations the tables, or without tables the activations themselves;
// each padded to 64 bytes. padK is k, with its groups filled up, rounded up to a multiple of cut.pad.
type cut struct {
	id                 uint64
	widths             []width // ascending
	fill               fill
	pad                int
	actGroup, sumGroup int // elements of K as kernels count them, 0: all
	floats             bool
	tables             abi.Tables
	device             bool // its kernels read all weights anew for each block
}

// fill is how kernels count elements of K: `to` for every group, padded with zeros. Without a
// group they count as callers do.
type fill struct{ group, to int }

// of is how many elements kernels count for the groups of k.
func (f fill) of(k int) int {
	if f.group == 0 {
		return k
	}
	return ceilDiv(k, f.group) * f.to
}

// codes spreads the codes of a row, whole groups, as kernels count them, with zeros behind them.
func (f fill) codes(to, from []byte) {
	for ; len(from) > 0; to, from = to[f.to:], from[f.group:] {
		clear(to[copy(to, from[:f.group]):f.to])
	}
	clear(to)
}

// width is one kernel's view of its activations.
type width struct {
	cols, chunk int
	tables      bool
	step        int // elements of K that residuals are listed by, 0: there are none
}

// usualPad is the padding of K in activation buffers unless a record of the
// weights needs another: formats whose records differ can share a buffer.
const usualPad = 256

func newCut(s *Spec, v *abi.Variant, recordK int) cut {
	f := s.fill(v)
	c := cut{fill: f, pad: usualPad, actGroup: f.of(s.Act.Group), sumGroup: f.of(s.groupK()), floats: s.Act.Floats()}
	if recordK = f.of(recordK); c.pad%recordK != 0 {
		c.pad = recordK
	}
	if v == nil {
		c.widths = []width{{cols: 1, chunk: c.pad}}
	} else {
		for _, k := range v.Kernels {
			w := width{cols: k.Cols, chunk: k.Chunk, tables: k.Tables}
			if k.Tables && v.Prepare.Tables.Residual {
				w.step = k.StepK
			}
			if w.cols == 1 {
				w.chunk = c.pad // one row is linear whatever the chunk
			}
			c.widths = append(c.widths, w)
		}
		if v.Prepare != nil {
			c.tables = v.Prepare.Tables
		}
		c.device = len(v.Shaders) > 0
	}
	h := fnv.New64a()
	fmt.Fprint(h, c.widths, c.pad, c.actGroup, c.sumGroup, c.floats, c.tables)
	if f.group > 0 {
		fmt.Fprint(h, f)
	}
	if c.device && len(c.widths) > 1 {
		fmt.Fprint(h, "device")
	}
	c.id = h.Sum64()
	return c
}

// shape is where everything lies in the activation buffer of n rows of k.
type shape struct {
	n, k                 int
	filled               int // k as kernels count it
	padK, groups, scales int // per row, padding included
	full                 int // blocks of the widest kernel
	some                 int // and of another one
	wide, middle, tail   block
	bytes                int // all blocks; negative if an int does not hold it
}

// block is the geometry of one block; cols 0 is none.
type block struct {
	kernel, cols, chunk int
	tables              bool
	row, unit           int   // bytes of the codes or tables of a row, and of a chunk of it
	sums, scales, bytes int   // offsets in bytes
	steps               int   // of K whose residuals are listed, 0: there are none
	count               int64 // iterations of the kernel over K
	// Offsets in bytes, if there are:
	residuals, offsets, list int
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

func roundUp(a, to int) int { return ceilDiv(a, to) * to }

// groupsOf is the number of groups of g, 0 for all, in k elements.
func groupsOf(k, g int) int {
	if g == 0 {
		return 1
	}
	return ceilDiv(k, g)
}

// groupsOf is the number of sums and of scales of k elements.
func (c *cut) groupsOf(k int) (sums, scales int) {
	if c.floats {
		return 0, 0
	}
	return groupsOf(k, c.sumGroup), groupsOf(k, c.actGroup)
}

func (c *cut) shape(n, k int) shape {
	s := shape{n: n, k: k, filled: c.fill.of(k)}
	s.padK = roundUp(s.filled, c.pad)
	s.groups, s.scales = c.groupsOf(s.padK)
	s.wide = c.block(len(c.widths)-1, &s)
	x := c.of(n)
	if s.full, s.some = x.Full, x.Some; s.some > 0 {
		s.middle = c.block(x.Middle, &s)
	}
	if x.Tail >= 0 {
		s.tail = c.block(x.Tail, &s)
	}
	rest := s.some*s.middle.bytes + s.tail.bytes
	s.bytes = -1
	if s.full <= (math.MaxInt-headerBytes-rest)/s.wide.bytes {
		s.bytes = s.full*s.wide.bytes + rest
	}
	return s
}

// of is the cut of n activations.
func (c *cut) of(n int) abi.Cut {
	cols := func(i int) int { return c.widths[i].cols }
	if c.device {
		return abi.CutWhole(len(c.widths), cols, n)
	}
	return abi.CutOf(len(c.widths), cols, n)
}

func (c *cut) block(i int, s *shape) block {
	b := block{kernel: i, cols: c.widths[i].cols, chunk: c.widths[i].chunk, tables: c.widths[i].tables}
	b.row, b.unit = s.padK, b.chunk
	if c.floats {
		b.row, b.unit = 4*b.row, 4*b.unit
	}
	if b.tables {
		b.row, b.unit = s.padK/c.tables.K*c.tables.Bytes, b.chunk/c.tables.K*c.tables.Bytes
	}
	b.sums = roundUp(b.row*b.cols, 64)
	b.scales = b.sums + roundUp(4*s.groups*b.cols, 64)
	b.bytes = b.scales + roundUp(4*s.scales*b.cols, 64)
	if step := c.widths[i].step; step > 0 {
		b.withResiduals(s.padK / step)
	}
	return b
}

// blocks is the number of blocks.
func (s *shape) blocks() int {
	if s.tail.cols > 0 {
		return s.full + s.some + 1
	}
	return s.full + s.some
}

// at is block i, with its first row of activations, and its offset after the header.
func (s *shape) at(i int) (b *block, first, offset int) {
	if i < s.full {
		return &s.wide, i * s.wide.cols, i * s.wide.bytes
	}
	first, offset = s.full*s.wide.cols, s.full*s.wide.bytes
	if i -= s.full; i < s.some {
		return &s.middle, first + i*s.middle.cols, offset + i*s.middle.bytes
	}
	return &s.tail, first + s.some*s.middle.cols, offset + s.some*s.middle.bytes
}

func (p *Product) actShape(n, k int) (shape, error) {
	if p.ready() == nil && n < 1 {
		return shape{}, p.spec.errorf("argument n", "is %d; it must be at least 1", n)
	}
	if err := p.checkK(k); err != nil {
		return shape{}, err
	}
	s := p.cut.shape(n, k)
	if p.variant != nil {
		s.wide.count = int64(ceilDiv(s.filled, p.variant.Kernels[s.wide.kernel].StepK))
		s.middle.count = int64(ceilDiv(s.filled, p.variant.Kernels[s.middle.kernel].StepK))
		s.tail.count = int64(ceilDiv(s.filled, p.variant.Kernels[s.tail.kernel].StepK))
	}
	if s.bytes < 0 || n > math.MaxInt/4/k {
		return s, p.spec.errorf("argument n", "%d rows of %d activations are too large to address", n, k)
	}
	return s, nil
}

// ActSize is the number of bytes of an activation buffer for n rows of k.
func (p *Product) ActSize(n, k int) (int, error) {
	s, err := p.actShape(n, k)
	if err != nil {
		return 0, err
	}
	return headerBytes + s.bytes, nil
}

// ActStep is what divides the row ranges of PrepareActRows.
func (p *Product) ActStep() int {
	widths := p.orNone().cut.widths
	return widths[len(widths)-1].cols
}

// SharesAct reports whether p and q accept each other's activation buffers: their
// groups are the same, and so are the widths and chunks of their kernels.
func (p *Product) SharesAct(q *Product) bool {
	return p.ready() == nil && q.ready() == nil && p.cut.id == q.cut.id
}

// PrepareAct quantizes n rows of k activations, x[n][k], into act, which has
// ActSize(n, k) bytes: per row, or per group if the product has an activation
// group, to integers -127 to 127 of one scale. A NaN or an infinity makes its
// group's products NaN. Products for which SharesAct is true accept the buffer too.
func (p *Product) PrepareAct(act []byte, x []float32, n, k int) error {
	return p.PrepareActRows(act, x, n, k, 0, n)
}

// PrepareActRows does the rows from lo up to hi of PrepareAct, for several
// goroutines to share the work: lo and hi must be multiples of ActStep, or n.
// The one that does row 0 also writes the header.
func (p *Product) PrepareActRows(act []byte, x []float32, n, k, lo, hi int) error {
	if err := p.ready(); err != nil {
		return err
	}
	w := p.pool.Get().(*scratch)
	defer p.release(w)
	s, err := p.known(w, n, k)
	step := p.ActStep()
	switch {
	case err != nil:
		return err
	case len(act) != headerBytes+s.bytes:
		return p.spec.errorf("argument act", "has %d bytes; %d rows of %d activations have %d", len(act), n, k, headerBytes+s.bytes)
	}
	if err := p.checkInput(x, n, k); err != nil {
		return err
	}
	if hi > n {
		return p.spec.errorf("argument hi", "is %d; there are %d rows", hi, n)
	}
	if lo < 0 || hi < lo || lo%step != 0 && lo != n || hi%step != 0 && hi != n {
		return p.spec.errorf("argument lo", "rows %d to %d of %d; both must be multiples of ActStep, %d, or the end", lo, hi, n, step)
	}
	if lo == 0 {
		copy(act, w.header[:])
	}
	for i := lo / step; i < s.blocks(); i++ {
		b, first, offset := s.at(i)
		if first < lo || first >= hi {
			break
		}
		p.prepareBlock(w, b, act[headerBytes+offset:][:b.bytes], x[first*k:hi*k])
	}
	return nil
}

// checkInput holds x to n rows of k activations.
func (p *Product) checkInput(x []float32, n, k int) error {
	if isProduct(len(x), n, k) {
		return nil
	}
	return p.spec.errorf("argument x", "has %d elements; %d rows of %d have %d", len(x), n, k, n*k)
}

// prepareBlock quantizes the first rows of x into a block.
func (p *Product) prepareBlock(w *scratch, b *block, to []byte, x []float32) {
	k := w.shape.k
	n := min(len(x)/k, b.cols)
	if n < b.cols {
		clear(to)
	}
	w.beginList(b)
	for j := range n {
		w.prep.Next = unsafe.Pointer(&x[min(j+1, len(x)/k-1)*k])
		p.prepareRow(w, b, to, j, x[j*k:][:k])
	}
	if !w.inPlace(b) && !p.inChunks(w, b) {
		interleave(to[:b.row*b.cols], w.rows, b.cols, n, w.room(b), b.unit)
	}
	w.putList(b, to, n)
}

// known is the shape of n rows of k: that of the last call with the same scratch, or
// worked out, with the header of such a buffer and how its rows are quantized.
func (p *Product) known(w *scratch, n, k int) (*shape, error) {
	if n > 0 && n == w.shape.n && k == w.shape.k {
		return &w.shape, nil
	}
	s, err := p.actShape(n, k)
	if err != nil {
		return nil, err
	}
	w.shape = s
	putHeader(w.header[:], actMagic, [5]uint64{p.cut.id, uint64(n), uint64(k)}, 0)
	w.row = p.rowPlan(&s)
	p.planArgs(w)
	return &w.shape, nil
}

// planArgs sets those parameters of the assembly that all rows of a shape share.
func (p *Product) planArgs(w *scratch) {
	w.prep = abi.PrepareArgs{}
	if p.variant == nil || p.variant.Prepare == nil {
		return
	}
	r, a := &w.row, &w.prep
	w.amax, w.finite, w.inv = grow(w.amax, r.actRoom), grow(w.finite, r.actRoom), grow(w.inv, r.actRoom)
	a.Amax, a.Finite, a.Inv = unsafe.Pointer(&w.amax[0]), unsafe.Pointer(&w.finite[0]), unsafe.Pointer(&w.inv[0])
	switch t := p.cut.tables; {
	case t.Residual:
		units := r.tables / unitBytes
		w.pair, w.excess = grow(w.pair, units*pairBytes), grow(w.excess, units)
		a.Pair, a.Excess = unsafe.Pointer(&w.pair[0]), unsafe.Pointer(&w.excess[0])
		a.Span = a.Pair // pairs are made when spans have been read
		a.Offsets = unsafe.Pointer(&w.offsets[0])
	case t.K > 0:
		w.wide = grow(w.wide, r.padded)
		a.Wide = unsafe.Pointer(&w.wide[0])
	}
	for i, d := range p.variant.Prepare.CountDiv {
		a.Count[i] = int64(ceilDiv(w.shape.k, d))
	}
	if p.cut.tables.Residual {
		p.planResiduals(w)
	}
}

// rowPlan is how rows of k elements are quantized.
type rowPlan struct {
	groups, scales int  // of k elements, without padding
	direct         bool // the assembly writes all of a block of one row
	// What the assembly does:
	padded           int // elements that it reads and writes
	sumRoom, actRoom int // elements of arrays of one element per group
	// Room for a row and what the assembly writes of it:
	width, tables int // elements, and bytes of their tables
}

// rowPlan makes the plan for a shape. If all counts of the assembly divide k, it
// writes k elements and their groups and no more.
func (p *Product) rowPlan(s *shape) rowPlan {
	r := rowPlan{padded: s.k, width: s.padK}
	r.groups, r.scales = p.cut.groupsOf(s.filled)
	if p.variant == nil || p.variant.Prepare == nil {
		return r
	}
	f := p.variant.Prepare
	for _, pad := range f.Pads {
		r.padded = max(r.padded, roundUp(s.k, pad))
	}
	r.width = max(r.padded, s.padK)
	if t := p.cut.tables; t.K > 0 {
		r.tables = ceilDiv(r.width, t.K) * t.Bytes
	}
	r.sumRoom, r.actRoom = p.cut.groupsOf(p.cut.fill.of(r.padded))
	r.sumRoom, r.actRoom = max(r.sumRoom, s.groups)+room, max(r.actRoom, s.scales)+room
	r.direct = littleEndian && p.cut.tables.K == 0 && p.cut.fill.group == 0
	for _, d := range f.CountDiv {
		r.direct = r.direct && s.k%d == 0
	}
	return r
}

// prepareRow quantizes x into row j of a block, its codes or tables to where interleave
// finds them.
func (p *Product) prepareRow(w *scratch, b *block, to []byte, j int, x []float32) {
	s, r := &w.shape, &w.row
	if p.cut.floats {
		p.prepareFloats(w, b, to, j, x)
		return
	}
	if b.cols == 1 && r.direct {
		p.runPrepare(w, x, nil, unsafe.Pointer(&to[0]), unsafe.Pointer(&to[b.sums]), unsafe.Pointer(&to[b.scales]))
		clear(to[s.k:b.sums])
		clear(to[b.sums+4*r.groups : b.scales])
		clear(to[b.scales+4*r.scales:])
		return
	}
	var codes, table []byte
	switch {
	case p.cut.fill.group > 0:
		w.codes = grow(w.codes, r.width)
		codes = w.codes
	case p.cut.tables.K == 0:
		codes = w.rowOf(b, to, j)
	case b.tables:
		w.codes = grow(w.codes, r.width)
		codes, table = w.codes, p.tableOf(w, b, to, j)
	default:
		w.table = grow(w.table, r.tables)
		codes, table = w.rowOf(b, to, j), p.oneTable(w, w.table)
	}
	p.quantize(w, codes, table, x)
	if p.cut.fill.group > 0 {
		p.cut.fill.codes(w.rowOf(b, to, j)[:s.padK], codes[:s.k])
	}
	if b.steps > 0 {
		p.list(w, b, to, j)
	}
	putWords(to[b.sums+4*j:], w.sums[:s.groups], b.cols)
	putWords(to[b.scales+4*j:], w.scales[:s.scales], b.cols)
}

// inPlace says that the one row of a block is made where it belongs.
func (w *scratch) inPlace(b *block) bool {
	return b.cols == 1 && (w.row.direct || w.row.padded <= w.shape.padK)
}

// inChunks says that rows of tables are made in their places in a block, chunk by chunk.
func (p *Product) inChunks(w *scratch, b *block) bool {
	chunk := p.chunk()
	return b.tables && chunk > 0 && b.chunk == chunk && w.shape.padK%chunk == 0
}

// chunk is how many elements of K the assembly makes tables of that lie together, 0: of all.
func (p *Product) chunk() int {
	if p.variant == nil || p.variant.Prepare == nil {
		return 0
	}
	return p.variant.Prepare.Chunk
}

// tableOf is where the tables of row j of a block begin. The room behind the last element's tables
// that the assembly does not write is cleared before; the assembly itself writes tables of zeros.
func (p *Product) tableOf(w *scratch, b *block, to []byte, j int) []byte {
	if !p.inChunks(w, b) {
		return p.oneTable(w, w.rowOf(b, to, j))
	}
	w.prep.TableStep = int64(b.unit * b.cols)
	for c := w.shape.k / b.chunk; c < w.shape.padK/b.chunk; c++ {
		clear(to[(c*b.cols+j)*b.unit:][:b.unit])
	}
	return to[j*b.unit:]
}

// oneTable is tables that lie together, likewise.
func (p *Product) oneTable(w *scratch, tables []byte) []byte {
	t := p.cut.tables
	w.prep.TableStep = int64(p.chunk() / t.K * t.Bytes)
	clear(tables[w.shape.k/t.K*t.Bytes:])
	return tables
}

// room is how far apart rows are made that do not lie in their block: not whole pages, so that
// rows do not take their turns in the same few places of a cache.
func (w *scratch) room(b *block) int {
	if b.tables {
		return roundUp(w.row.tables, 64) + 64
	}
	return roundUp(w.row.width, 64) + 64
}

// rowOf is where the codes or tables of row j of a block are made.
func (w *scratch) rowOf(b *block, to []byte, j int) []byte {
	if w.inPlace(b) {
		return to[:b.row]
	}
	room := w.room(b)
	w.rows = grow(w.rows, b.cols*room)
	return w.rows[j*room:][:room]
}

// littleEndian says that words lie in memory as they do in buffers.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// putWords stores words, every cols words apart.
func putWords[W int32 | uint32](to []byte, words []W, cols int) {
	if cols == 1 && littleEndian {
		copy(to, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words)))
		return
	}
	for i, v := range words {
		binary.LittleEndian.PutUint32(to[4*i*cols:], uint32(v))
	}
}

// getWords reads words that follow each other.
func getWords(words []int32, from []byte) {
	if littleEndian {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 4*len(words)), from[:4*len(words)])
		return
	}
	for i := range words {
		words[i] = int32(binary.LittleEndian.Uint32(from[4*i:]))
	}
}

// interleave fills a block, whose rows take turns by chunks, from its beginning to its end, with n
// rows that lie room bytes apart: memory is written in order, most of it for the first time.
func interleave(to, rows []byte, cols, n, room, chunk int) {
	for at := 0; len(to) > 0; at += chunk {
		for j := range n {
			d, s := to[j*chunk:][:chunk], rows[j*room+at:][:chunk]
			switch {
			case chunk == 4: // one copy per word: not worth a call each
				binary.LittleEndian.PutUint32(d, binary.LittleEndian.Uint32(s))
			case chunk%lineBytes == 0:
				for ; len(d) >= lineBytes && len(s) >= lineBytes; d, s = d[lineBytes:], s[lineBytes:] {
					copyLine((*[lineBytes]byte)(d), (*[lineBytes]byte)(s))
				}
			default:
				copy(d, s)
			}
		}
		to = to[cols*chunk:]
	}
}

// lineBytes is how much copyLine copies.
const lineBytes = 64

// copyLine copies a line by four arrays that are a register each: one array would be a call.
func copyLine(to, from *[lineBytes]byte) {
	*(*[16]byte)(to[0:]) = *(*[16]byte)(from[0:])
	*(*[16]byte)(to[16:]) = *(*[16]byte)(from[16:])
	*(*[16]byte)(to[32:]) = *(*[16]byte)(from[32:])
	*(*[16]byte)(to[48:]) = *(*[16]byte)(from[48:])
}

// nan is the canonical quiet NaN.
const nan = 0x7fc00000

// quantize makes s.padK codes of one row, and its sums and scales in w. The
// padding is zero. There is room in codes, and if there are tables in table, for what
// the assembly writes.
func (p *Product) quantize(w *scratch, codes, table []byte, x []float32) {
	s, r := &w.shape, &w.row
	if p.variant != nil && p.variant.Prepare != nil {
		w.sums, w.scales = grow(w.sums, r.sumRoom), grow(w.scales, r.actRoom)
		clear(codes[s.k:r.padded]) // stages may read further than the one before wrote
		p.runPrepare(w, x, table, unsafe.Pointer(&codes[0]), unsafe.Pointer(&w.sums[0]), unsafe.Pointer(&w.scales[0]))
	} else {
		w.sums, w.scales = grow(w.sums, s.groups), grow(w.scales, s.scales)
		quantize(codes, w.sums[:r.groups], w.scales[:r.scales], x, p.spec.Act.Group, p.spec.groupK())
	}
	clear(codes[s.k:s.padK])
	clear(w.sums[r.groups:s.groups])
	clear(w.scales[r.scales:s.scales])
}

// room is what arrays of one element per group have beyond the groups.
const room = 64

// runPrepare calls the assembly for one row.
func (p *Product) runPrepare(w *scratch, x []float32, table []byte, codes, sums, scales unsafe.Pointer) {
	r := &w.row
	if r.padded > len(x) {
		w.x = grow(w.x, r.padded)
		clear(w.x[copy(w.x, x):])
		x = w.x
	}
	a := &w.prep
	a.X, a.Act, a.Sums, a.ActScale = unsafe.Pointer(&x[0]), codes, sums, scales
	if t := p.cut.tables; t.K > 0 {
		a.Table = unsafe.Pointer(&table[0])
		if t.Residual {
			clear(w.pair[w.shape.k/digits(t)*pairBytes:])
		} else {
			clear(w.wide[w.shape.k:])
		}
	}
	p.variant.Prepare.Fn(&w.prep)
}

// acceptsAct says whether act has the header of buffers of the last shape.
func (s *scratch) acceptsAct(act []byte) bool {
	if s.shape.n == 0 || len(act) != headerBytes+s.shape.bytes {
		return false
	}
	_, all := sameHeader(act, &s.header)
	return all
}

// openAct checks an activation buffer's header against its length and the product.
func (p *Product) openAct(w *scratch, act []byte) (*shape, error) {
	if w.acceptsAct(act) {
		return &w.shape, nil
	}
	h, ok := getHeader(act, actMagic)
	switch {
	case !ok:
		return nil, p.spec.errorf("argument act", "has no intact header of an activation buffer; fill it with PrepareAct")
	case h[0] != p.cut.id:
		return nil, p.spec.errorf("argument act", "was prepared for other groups or another target than %s; use PrepareAct of this product", p.Target())
	}
	s, err := p.known(w, int(h[1]), int(h[2]))
	if err != nil || len(act) != headerBytes+s.bytes {
		return nil, p.spec.errorf("argument act", "has %d bytes, not what its header says for %d rows of %d", len(act), h[1], h[2])
	}
	return s, nil
}
