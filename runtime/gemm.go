package runtime

import (
	"encoding/binary"
	"unsafe"
)

// Options says what Gemm does with the product besides storing it.
type Options struct {
	// Accumulate adds to what dst holds instead of overwriting it.
	Accumulate bool
	// Bias, unless nil, has one element per row of the matrix, added to the product.
	Bias []float32
}

// panelBytes is how much of an activation buffer is multiplied by all rows
// before the next part: it should stay in a second-level cache. (Emerald Rapids,
// 4 bit weights, 4096 x 4096 x 256: 0.73 of the int8 peak with 256 KiB, 0.74 with
// 600 KiB, 0.78 with 1200 KiB, which saves passes over the weights.)
const panelBytes = 1200 << 10

// task is one call of Gemm, checked.
type task struct {
	dst    []float32
	w      matrix
	a      shape
	act    []byte // blocks
	lo, hi int
	opt    Options
	plain  bool // store the product as it is
	*scratch
}

// Gemm multiplies a packed matrix of m rows by all n rows of an activation
// buffer: for rows r from lo up to hi,
//
//	v = product of row r and activations j, the canonical result
//	v = v + Bias[r]        if there is a bias
//	v = dst[j*m+r] + v     if Accumulate
//	dst[j*m+r] = v
//
// each addition rounded to float32, and every NaN is the canonical one. dst has
// n*m elements; lo and hi must be multiples of Step, or m. Calls on different rows
// may run at once.
func (p *Product) Gemm(dst []float32, packed, act []byte, lo, hi int, opt Options) error {
	t := task{dst: dst, lo: lo, hi: hi, opt: opt, plain: !opt.Accumulate && opt.Bias == nil}
	var err error
	if t.w, err = p.open(packed); err != nil {
		return err
	}
	if t.a, err = p.openAct(act); err != nil {
		return err
	}
	if err := p.checkGemm(&t); err != nil {
		return err
	}
	if lo == hi {
		return nil
	}
	t.act = act[headerBytes:]
	t.scratch = p.pool.Get().(*scratch)
	defer p.release(t.scratch)
	if p.variant == nil {
		p.generic(&t)
	} else {
		p.run(&t)
	}
	return nil
}

func (p *Product) checkGemm(t *task) error {
	step, m := p.layout.TileM, t.w.m
	switch {
	case t.w.k != t.a.k:
		return p.spec.errorf("argument act", "has rows of %d; the packed matrix has %d columns", t.a.k, t.w.k)
	case len(t.dst)%t.a.n != 0 || len(t.dst)/t.a.n != m:
		return p.spec.errorf("argument dst", "has %d elements; %d rows of %d are needed", len(t.dst), t.a.n, m)
	case t.opt.Bias != nil && len(t.opt.Bias) != m:
		return p.spec.errorf("argument opt", "the bias has %d elements; the packed matrix has %d rows", len(t.opt.Bias), m)
	case t.lo < 0 || t.hi < t.lo || t.hi > m || t.lo%step != 0 && t.lo != m || t.hi%step != 0 && t.hi != m:
		return p.spec.errorf("argument lo", "rows %d to %d of %d; both must be multiples of Step, %d, or the end", t.lo, t.hi, m, step)
	}
	return nil
}

// run calls the kernels: for a panel of activations, all rows; for a few rows,
// all blocks of the panel.
func (p *Product) run(t *task) {
	blocks := t.a.blocks()
	panel := max(1, panelBytes/t.a.wide.bytes)
	for b := 0; b < blocks; b += panel {
		p.multiplySums(t, b, min(b+panel, blocks))
		for row := t.lo; row < t.hi; row += p.rowStep {
			for i := b; i < min(b+panel, blocks); i++ {
				p.runBlock(t, row, i, i-b)
			}
		}
	}
}

// multiplySums multiplies the sums of blocks from up to to as their kernels want
// them. Buffers hold plain sums, so that formats of different levels share them.
func (p *Product) multiplySums(t *task, from, to int) {
	size := t.a.groups * t.a.wide.cols
	t.sums = grow(t.sums, (to-from)*size)
	for i := from; i < to; i++ {
		b, offset := t.a.at(i)
		by := int32(p.variant.Kernels[b.kernel].SumBy)
		in, out := t.act[offset+b.sums:], t.sums[(i-from)*size:][:t.a.groups*b.cols]
		for j := range out {
			out[j] = by * int32(binary.LittleEndian.Uint32(in[4*j:]))
		}
	}
}

// runBlock multiplies rowStep rows by block i of the activations, the nth of its
// panel.
func (p *Product) runBlock(t *task, row, i, nth int) {
	b, offset := t.a.at(i)
	k, at := &p.variant.Kernels[b.kernel], p.rowAt[b.kernel]
	first := i * t.a.wide.cols // row of activations
	cols := min(b.cols, t.a.n-first)
	a, data := &t.gemm, t.w.data
	a.Act = unsafe.Pointer(&t.act[offset])
	a.Sums = unsafe.Pointer(&t.sums[nth*t.a.groups*t.a.wide.cols])
	a.ActScale = unsafe.Pointer(&t.act[offset+b.scales])
	a.Count = int64(ceilDiv(t.a.k, k.StepK))
	for r := row; r < min(row+p.rowStep, t.hi); r += k.Rows {
		tile := r / p.layout.TileM
		from := at[(r-tile*p.layout.TileM)/k.Rows]
		tile *= t.w.tileBytes
		a.Codes = unsafe.Pointer(&data[tile+from.codes])
		a.Scales = unsafe.Pointer(&data[tile+from.scales])
		if p.parts[2] != nil {
			a.Zeros = unsafe.Pointer(&data[tile+from.zeros])
		}
		if t.plain && b.cols == 1 && r+k.Rows <= t.w.m {
			a.Out = unsafe.Pointer(&t.dst[first*t.w.m+r])
			k.Fn(a)
			continue
		}
		t.out = grow(t.out, k.Rows*k.Cols)
		a.Out = unsafe.Pointer(&t.out[0])
		k.Fn(a)
		rows := min(k.Rows, t.w.m-r)
		for c := range cols {
			t.store(first+c, r, t.out[c*k.Rows:][:rows])
		}
	}
}

// store finishes rows r and up of the product with activations j.
func (t *task) store(j, r int, v []float32) {
	dst := t.dst[j*t.w.m+r:][:len(v)]
	if t.plain {
		copy(dst, v)
		return
	}
	for i, x := range v {
		if t.opt.Bias != nil {
			x += t.opt.Bias[r+i]
		}
		if t.opt.Accumulate {
			x += dst[i]
		}
		dst[i] = canonical(x)
	}
}
