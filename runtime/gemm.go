package runtime

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/abi"
)

// Options says what Gemm does with the product besides storing it.
type Options struct {
	// Scale multiplies the product of this call before anything is added, after the scale
	// that the matrix itself has (Matrix.SetScale). 0 means that there is none, as 1 does;
	// for products that are 0, clear dst.
	Scale float32
	// Accumulate adds to what dst holds instead of overwriting it.
	Accumulate bool
	// Bias, unless nil, has one element per row of the matrix, added to the product.
	Bias []float32
	// Threads is how many threads may share the work, at most GOMAXPROCS: AllThreads
	// for that many, 0 or 1 for the caller's alone. The others are kept ready for the
	// next call; one that is busy elsewhere, or gets no CPU, does not hold it up.
	Threads int
}

// A block of activations is multiplied by a panel of weights before the next block,
// and all blocks of a part by all rows before the next part: a panel and a part should
// stay in a second-level cache. Memory for sums grows with the part. Figures: docs/lab/choices.md, partBytes.
const (
	panelBytes = 512 << 10  // of weights
	partBytes  = 1280 << 10 // of activations
)

// callBytes bounds the weights, in bytes, that one call of a kernel multiplies, divided by its columns or by
// fewColumns; a call takes at least one tile of each side. Assembly cannot be preempted: longer calls would delay garbage
// collections. Figures: docs/lab/choices.md, callBytes.
const (
	callBytes  = 1 << 20
	fewColumns = 4
)

// together is how many tiles of each side one call multiplies: at most `tiles`, each of `bytes` bytes.
func (k *placed) together(tiles, bytes int) int {
	each := int64(k.sides*min(k.Cols, fewColumns)) * int64(bytes)
	if int64(tiles)*each <= callBytes { // as most do: divisions count in small products
		return tiles
	}
	return max(1, int(callBytes/each))
}

// task is rows of a product, checked.
type task struct {
	p      *Product
	dst    []float32
	w      matrix
	a      *shape
	act    []byte // blocks
	lo, hi int
	opt    Options
	plain  bool // opt does nothing to the product, which the scale of the matrix may multiply
	fused  bool // act are the floats of a row, for a kernel that takes them
	// The chunks that threads take of it: rows rows each, the first is number first.
	rows, first int
	*scratch
}

// Gemm multiplies a packed matrix of m rows by all n rows of an activation
// buffer: for rows r from lo up to hi,
//
//	v = product of row r and activations j, the canonical result
//	v = v * scale          if the matrix has one: SetScale
//	v = v * Scale          unless Scale is 0
//	v = v + Bias[r]        if there is a bias
//	v = dst[j*m+r] + v     if Accumulate
//	dst[j*m+r] = v
//
// each step rounded to float32, and every NaN is the canonical one. dst has
// n*m elements; lo and hi must be multiples of Step, or m. Calls on different rows
// may run at once. The result does not depend on the number of threads.
func (p *Product) Gemm(dst []float32, packed, act []byte, lo, hi int, opt Options) error {
	if err := p.ready(); err != nil {
		return err
	}
	if p.runner != nil {
		return p.gemmOn(nil, dst, packed, act, lo, hi, &opt)
	}
	if opt.Threads == 0 || opt.Threads == 1 {
		return p.gemmAlone(dst, packed, act, lo, hi, &opt)
	}
	r := regions.Get().(*region)
	defer r.release()
	t := r.add(p)
	if err := t.open(dst, packed, act, &opt); err != nil {
		return err
	}
	if err := t.cutRows(lo, hi); err != nil {
		return err
	}
	r.run(opt.Threads)
	return nil
}

// gemmAlone is Gemm by the caller's thread. It shares nothing, which small products would notice.
func (p *Product) gemmAlone(dst []float32, packed, act []byte, lo, hi int, opt *Options) error {
	s := p.pool.Get().(*scratch)
	if s.again(dst, packed, act, lo, hi, opt) {
		p.runOnce(s, dst, packed[headerBytes:], act[headerBytes:])
		s.forget()
		p.pool.Put(s)
		return nil
	}
	defer p.release(s)
	t := &s.alone
	t.p, t.scratch = p, s
	if err := t.open(dst, packed, act, opt); err != nil {
		return err
	}
	if err := t.cutRows(lo, hi); err != nil {
		return err
	}
	t.run()
	s.once = t.once()
	return nil
}

// gemmOn is Gemm on a device, which has a copy of the matrix, or gets one for this call.
func (p *Product) gemmOn(loaded abi.Loaded, dst []float32, packed, act []byte, lo, hi int, opt *Options) error {
	s := p.pool.Get().(*scratch)
	defer p.release(s)
	t := &s.alone
	t.p, t.scratch = p, s
	if err := t.open(dst, packed, act, opt); err != nil {
		return err
	}
	if err := t.cutRows(lo, hi); err != nil {
		return err
	}
	return t.runLoaded(loaded)
}

// once is a product of all rows of a matrix that is one call of a kernel, stored as it is: what the last one of a scratch came
// to, by which the next one of that shape is spared what depends on its shape alone (BenchmarkCall). The zero value is none.
type once struct {
	m, k, n int
	kernel  *placed
	args    abi.GemmArgs // numbers only
}

// once is what t, which has run, came to.
func (t *task) once() once {
	if !t.plain || t.p.variant == nil || t.p.log != nil || t.a.blocks() != 1 || t.lo != 0 || t.hi != t.w.m {
		return once{}
	}
	b, _, _ := t.a.at(0)
	k, a := &t.p.kernels[b.kernel], t.gemm
	tiles := t.w.m / (k.sides * k.rows)
	if b.cols != t.a.n || len(k.at) > 1 || t.w.m != tiles*k.sides*k.rows || k.together(tiles, t.w.tileBytes) < tiles {
		return once{}
	}
	return once{t.w.m, t.w.k, t.a.n, k, abi.GemmArgs{OutStep: a.OutStep, Tiles: int64(tiles), TileBytes: a.TileBytes,
		OutBytes: a.OutBytes, SideBytes: a.SideBytes, SideOut: a.SideOut, Count: a.Count}}
}

// again says whether a product has the shape of s.once, between buffers whose headers s has accepted.
func (s *scratch) again(dst []float32, packed, act []byte, lo, hi int, opt *Options) bool {
	o, a := &s.once, &s.shape
	switch {
	case o.m == 0 || lo != 0 || hi != o.m || len(dst) != o.m*o.n:
		return false
	case opt.Scale != 0 || opt.Accumulate || opt.Bias != nil:
		return false
	case a.n != o.n || a.k != o.k || s.matrix.m != o.m || s.matrix.k != o.k:
		return false
	}
	return s.accepts(packed) && s.acceptsAct(act) && a.listsFit(act[headerBytes:])
}

// runOnce is run of a product that again has found to be like the last one.
func (p *Product) runOnce(s *scratch, dst []float32, weights, act []byte) {
	b, _, _ := s.shape.at(0)
	a, k := &s.gemm, s.once.kernel
	*a = s.once.args
	if groups := s.shape.groups; groups > 0 {
		s.sums = grow(s.sums, groups*b.cols)
		p.multiplyBlock(s.sums, b, act)
		a.Sums = unsafe.Pointer(&s.sums[0])
	}
	s.shape.give(a, b, act)
	s.lend(k.Kernel)
	for _, i := range p.has {
		a.Weights[i] = unsafe.Pointer(&weights[k.at[0][i]])
	}
	a.Out = unsafe.Pointer(&dst[0])
	k.Fn(a)
	if scale := s.matrix.scale; scale != 0 {
		scaleAll(dst, scale)
	}
}

// open checks a product of all rows of a matrix and sets t to it.
func (t *task) open(dst []float32, packed, act []byte, opt *Options) (err error) {
	p := t.p
	t.keep(dst, opt)
	if err = p.openPacked(t.scratch, packed, &t.w); err != nil {
		return err
	}
	if t.a, err = p.openAct(t.scratch, act); err != nil {
		return err
	}
	t.act, t.lo, t.hi = act[headerBytes:], 0, t.w.m
	if err = p.checkGemm(t); err == nil && p.log != nil {
		p.log.say(t)
	}
	return err
}

// keep notes where the product goes, and what is done with it.
func (t *task) keep(dst []float32, opt *Options) {
	t.dst, t.plain = dst, opt.Scale == 0 && !opt.Accumulate && opt.Bias == nil
	if !t.plain {
		t.opt = *opt
	}
}

// work is about what t costs: the bytes of weights that kernels read.
func (t *task) work() int { return ceilDiv(t.hi-t.lo, t.p.Step()) * t.w.tileBytes * t.a.blocks() }

// run multiplies the rows of t.
func (t *task) run() {
	switch {
	case t.lo == t.hi:
	case t.p.variant == nil:
		t.p.generic(t)
	default:
		t.p.run(t)
	}
}

func (p *Product) checkGemm(t *task) error {
	m := t.w.m
	if t.w.k != t.a.k {
		return p.spec.errorf("argument act", "has rows of %d; the packed matrix has %d columns", t.a.k, t.w.k)
	}
	if err := p.checkOutput(t.dst, t.a.n, m); err != nil {
		return err
	}
	switch {
	case t.opt.Bias != nil && len(t.opt.Bias) != m:
		return p.spec.errorf("argument opt", "the bias has %d elements; the packed matrix has %d rows", len(t.opt.Bias), m)
	case !t.fused && !t.a.listsFit(t.act):
		return p.spec.errorf("argument act", "is damaged: it lists residuals behind its end; prepare it again")
	}
	return nil
}

// checkOutput holds dst to n rows of m elements.
func (p *Product) checkOutput(dst []float32, n, m int) error {
	if isProduct(len(dst), n, m) {
		return nil
	}
	return p.spec.errorf("argument dst", "has %d elements; %d rows of %d are needed", len(dst), n, m)
}

// isProduct says whether x is a times b, none of them negative.
func isProduct(x, a, b int) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return hi == 0 && lo == uint64(x)
}

// cutRows leaves only the rows from lo up to hi in t.
func (t *task) cutRows(lo, hi int) error {
	step, m := t.p.Step(), t.w.m
	if lo == 0 && hi == m {
		return nil // as open left it
	}
	if hi > m {
		return t.p.spec.errorf("argument hi", "is %d; there are %d rows", hi, m)
	}
	if lo < 0 || hi < lo || lo%step != 0 && lo != m || hi%step != 0 && hi != m {
		return t.p.spec.errorf("argument lo", "rows %d to %d of %d; both must be multiples of Step, %d, or the end", lo, hi, m, step)
	}
	t.lo, t.hi = lo, hi
	return nil
}

// run calls the kernels: for a part of the activations and a panel of rows, each
// block of the activations times all rows of the panel.
func (p *Product) run(t *task) {
	blocks := t.a.blocks()
	if blocks == 1 {
		p.multiplySums(t, 0, 1)
		p.runBlock(t, t.lo, t.hi, 0, 0)
		return
	}
	part := ceilDiv(blocks, ceilDiv(blocks*t.a.wide.read(), partBytes)) // of equal length
	panel := roundUp(max(1, panelBytes/t.w.tileBytes), t.side()) * p.layout.TileM
	for b := (blocks - 1) / part * part; b >= 0; b -= part { // the last ones may still be in a cache: they were prepared last
		end := min(b+part, blocks)
		p.multiplySums(t, b, end)
		if end-b == 1 {
			p.runBlock(t, t.lo, t.hi, b, 0)
			continue
		}
		for lo := t.lo; lo < t.hi; lo += panel {
			for i := b; i < end; i++ {
				p.runBlock(t, lo, min(lo+panel, t.hi), i, i-b)
			}
		}
	}
}

// multiplied identifies the sums in a scratch: the activations whose sums they are, multiplied as kernels
// want them. A thread that does several chunks of a product multiplies them once.
type multiplied struct {
	act      *byte
	by       *abi.Variant
	from, to int
}

// multiplySums multiplies the sums of blocks from up to to, or scales them, as their kernels want
// them. Buffers hold plain sums, so that formats of different levels share them.
func (p *Product) multiplySums(t *task, from, to int) {
	size, want := t.a.groups*t.a.wide.cols, multiplied{unsafe.SliceData(t.act), p.variant, from, to}
	if size == 0 || t.multiplied == want {
		return
	}
	t.multiplied = want
	t.sums = grow(t.sums, (to-from)*size)
	for i := from; i < to; i++ {
		b, _, offset := t.a.at(i)
		p.multiplyBlock(t.sums[(i-from)*size:][:t.a.groups*b.cols], b, t.act[offset:])
	}
}

// multiplyBlock puts the sums of a block, multiplied or scaled, into out.
func (p *Product) multiplyBlock(out []int32, b *block, act []byte) {
	getWords(out, act[b.sums:])
	if k := &p.variant.Kernels[b.kernel]; k.ScaledSums {
		p.cut.scaleSums(out, act[b.scales:], b.cols)
	} else {
		multiplyWords(out, int32(k.SumBy))
	}
}

// multiplyWords multiplies words, four at a time while four are left: most of what a small product of many groups does in Go.
func multiplyWords(words []int32, by int32) {
	for len(words) >= 4 {
		four := (*[4]int32)(words)
		four[0], four[1], four[2], four[3] = four[0]*by, four[1]*by, four[2]*by, four[3]*by
		words = words[4:]
	}
	for i := range words {
		words[i] *= by
	}
}

// scaleSums makes sums of cols activations the bits of f32, times the scale of their group if it has one.
func (c *cut) scaleSums(sums []int32, scales []byte, cols int) {
	if c.actGroup == 0 {
		for i, sum := range sums {
			sums[i] = int32(math.Float32bits(float32(sum)))
		}
		return
	}
	each := c.actGroup / c.sumGroup // groups of one scale
	if each == 1 {
		cols = len(sums)
	}
	for ; len(sums) > 0; scales = scales[4*cols:] {
		for range min(each, len(sums)/cols) {
			for j, sum := range sums[:cols] {
				sums[j] = int32(math.Float32bits(float32(sum) * float32At(scales, 4*j)))
			}
			sums = sums[cols:]
		}
	}
}

// side is how many tiles the kernel for the first activations has side by side.
func (t *task) side() int {
	if t.p.variant == nil {
		return 1
	}
	b, _, _ := t.a.at(0)
	return t.p.kernels[b.kernel].sides
}

// runBlock multiplies the rows from lo, the first of a tile, up to hi by block i
// of the activations, the nth of its part.
func (p *Product) runBlock(t *task, lo, hi, i, nth int) {
	b, first, offset := t.a.at(i)
	k := &p.kernels[b.kernel]
	cols := min(b.cols, t.a.n-first)
	a := &t.gemm
	t.a.give(a, b, t.act[offset:])
	t.lend(k.Kernel)
	if t.a.groups > 0 {
		a.Sums = unsafe.Pointer(&t.sums[nth*t.a.groups*t.a.wide.cols])
	}
	a.Count = b.count
	a.TileBytes, a.OutBytes = int64(t.w.tileBytes), int64(4*k.rows)
	if k.sides > 1 { // each side takes `apart` neighbouring tiles; the rest comes tile by tile
		apart := (hi - lo) / p.layout.TileM / k.sides
		end := lo + apart*p.layout.TileM
		t.runTiles(k, lo, end, apart, first, cols)
		lo += k.sides * (end - lo)
	}
	t.runTiles(k, lo, hi, 0, first, cols)
}

// give points a kernel at block b of activations, which act begins with.
func (s *shape) give(a *abi.GemmArgs, b *block, act []byte) {
	a.Act = unsafe.Pointer(&act[0])
	if s.groups > 0 {
		a.ActScale = unsafe.Pointer(&act[b.scales])
	}
	if b.steps > 0 {
		b.residualArgs(a, act)
	}
}

// runTiles multiplies the rows from lo, the first of a tile, up to hi by cols activations from first; a kernel of tiles
// side by side also does the tiles `apart` farther, side after side; with apart 0, the same tiles.
func (t *task) runTiles(k *placed, lo, hi, apart, first, cols int) {
	if lo >= hi {
		return
	}
	a, m := &t.gemm, t.w.m
	direct := t.plain && cols == k.Cols // whole tiles are stored where they belong
	a.SideBytes, a.SideOut = int64(apart*t.w.tileBytes), int64(4*apart*k.rows)
	a.OutStep = int64(4 * m)
	tile := 0
	if lo > 0 {
		tile = lo / t.p.layout.TileM * t.w.tileBytes
	}
	if direct && len(k.at) == 1 { // many by one call
		whole := apart
		if whole == 0 {
			whole = (hi - lo) / k.rows
		}
		for together := k.together(whole, t.w.tileBytes); whole > 0; {
			tiles := min(whole, together)
			t.point(&k.at[0], tile)
			a.Out, a.Tiles = unsafe.Pointer(&t.dst[first*m+lo]), int64(tiles)
			k.Fn(a)
			if t.w.scale != 0 {
				t.scaleTiles(k, lo, tiles, apart, first, cols)
			}
			lo, tile, whole = lo+tiles*k.rows, tile+tiles*t.w.tileBytes, whole-tiles
		}
	}
	for ; lo < hi; tile += t.w.tileBytes {
		for j := 0; j < len(k.at) && lo < hi; j++ {
			t.point(&k.at[j], tile)
			a.Tiles = 1
			if direct && hi-lo >= k.rows {
				a.Out = unsafe.Pointer(&t.dst[first*m+lo])
				k.Fn(a)
				if t.w.scale != 0 {
					t.scaleTiles(k, lo, 1, 0, first, cols)
				}
			} else {
				t.runAside(k, lo, apart, first, cols)
			}
			lo += k.rows
		}
	}
}

// scaleTiles multiplies what a call of a kernel has stored where it belongs: tiles from row lo, of each side those apart tiles farther.
func (t *task) scaleTiles(k *placed, lo, tiles, apart, first, cols int) {
	for side := range k.sides {
		for c := range cols {
			scaleAll(t.dst[(first+c)*t.w.m+lo+side*apart*k.rows:][:tiles*k.rows], t.w.scale)
		}
		if apart == 0 {
			break
		}
	}
}

// scaleAll multiplies products by the scale of their matrix.
func scaleAll(v []float32, by float32) {
	for i, x := range v {
		v[i] = canonical(float32(x * by))
	}
}

// point points the kernel at rows of a tile, which begins at byte tile.
func (t *task) point(at *offsets, tile int) {
	for _, i := range t.p.has {
		t.gemm.Weights[i] = unsafe.Pointer(&t.w.data[tile+at[i]])
	}
}

// runAside runs the kernel on the rows from r, stores what it makes in a place of its own, and finishes it from there. Of a runTiles, what
// follows is done aside too.
func (t *task) runAside(k *placed, r, apart, first, cols int) {
	a := &t.gemm
	t.out = grow(t.out, k.Rows*k.Cols)
	a.Out, a.OutStep, a.SideOut = unsafe.Pointer(&t.out[0]), int64(4*k.Rows), int64(4*k.rows)
	k.Fn(a)
	for i := range k.sides {
		t.store(first, cols, r+i*apart*k.rows, k.rows, k.Rows, i*k.rows)
		if apart == 0 {
			break
		}
	}
}

// store finishes what a kernel put into t.out at at, step elements a column: rows rows from r times cols
// activations from first.
func (t *task) store(first, cols, r, rows, step, at int) {
	n := min(rows, t.w.m-r)
	for c := range cols {
		dst, v := t.dst[(first+c)*t.w.m+r:][:n], t.out[at+c*step:][:n]
		if t.w.scale != 0 {
			scaleAll(v, t.w.scale)
		}
		if t.plain {
			copy(dst, v)
		} else {
			t.add(dst, v, r)
		}
	}
}

// add finishes rows r and up of a product that is not stored as it is.
func (t *task) add(dst, v []float32, r int) {
	for i, x := range v {
		if t.opt.Scale != 0 {
			x = float32(x * t.opt.Scale)
		}
		if t.opt.Bias != nil {
			x += t.opt.Bias[r+i]
		}
		if t.opt.Accumulate {
			x += dst[i]
		}
		dst[i] = canonical(x)
	}
}
