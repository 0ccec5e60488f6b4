package runtime

import (
	"encoding/binary"
	"unsafe"
)

// Tables of bytes leave out what is above 255. Their residuals follow the rest of a block of
// activations, with a list of those steps along K that have any, of any row of the block: as a rule none.

// withResiduals adds residuals of so many steps to a block.
func (b *block) withResiduals(steps int) {
	b.steps, b.residuals = steps, b.bytes
	b.offsets = b.residuals + b.sums
	b.list = b.offsets + roundUp(4*b.cols, 64)
	b.bytes = b.list + roundUp(4*(1+steps), 64)
}

// read is how many bytes of a block kernels read as a rule.
func (b *block) read() int {
	if b.steps > 0 {
		return b.residuals
	}
	return b.bytes
}

// residualOf is where the assembly puts the residuals of a row, nil if it makes none: the block
// to, if the row has its place there.
func (p *Product) residualOf(w *scratch, b *block, to []byte, inPlace bool) []byte {
	t := p.cut.tables
	if !t.Residual {
		return nil
	}
	size := roundUp(max(w.row.padded, w.shape.padK), t.K) / t.K * t.Bytes
	residual := w.residual
	if inPlace && b.steps > 0 {
		residual = to[b.residuals:][:size]
	} else {
		w.residual = grow(w.residual, size)
		residual = w.residual
	}
	clear(residual[w.shape.k/t.K*t.Bytes:])
	return residual
}

// putResiduals puts the offset and the residuals of row j of a block where they belong. Before the first
// row that has any, the block's are not there yet.
func (w *scratch) putResiduals(b *block, to, residual []byte, inPlace bool, j int) {
	binary.LittleEndian.PutUint32(to[b.offsets+4*j:], uint32(w.offsets[0]))
	if w.excess[0] == 0 {
		return
	}
	if !inPlace {
		if !w.above {
			clear(to[b.residuals:b.offsets])
		}
		interleave(to[b.residuals:], residual[:b.row], b.cols, b.unit, j)
	}
	w.above = true
}

// makeList lists the steps of a block that have residuals; above says that there are any.
func (b *block) makeList(to []byte, above bool) {
	n, size := 0, b.row*b.cols/b.steps
	for i := 0; above && i < b.steps; i++ {
		if !allZero(to[b.residuals+i*size:][:size]) {
			n++
			binary.LittleEndian.PutUint32(to[b.list+4*n:], uint32(i))
		}
	}
	binary.LittleEndian.PutUint32(to[b.list:], uint32(n))
}

// allZero says that bytes are 0, eight at once.
func allZero(x []byte) bool {
	for ; len(x) >= 8; x = x[8:] {
		if binary.LittleEndian.Uint64(x) != 0 {
			return false
		}
	}
	for _, v := range x {
		if v != 0 {
			return false
		}
	}
	return true
}

// listed is how many steps of a block that begins at act have residuals, and the list of them.
func (b *block) listed(act []byte) (n int, list []byte) {
	return int(binary.LittleEndian.Uint32(act[b.list:])), act[b.list+4:]
}

// checkLists holds the lists of an activation buffer to the steps that there are: kernels
// read where they say.
func (p *Product) checkLists(t *task) error {
	for i := range t.a.blocks() {
		b, offset := t.a.at(i)
		if b.steps == 0 {
			continue
		}
		n, list := b.listed(t.act[offset:])
		bad := n > b.steps
		for j := 0; j < n && !bad; j++ {
			bad = int(binary.LittleEndian.Uint32(list[4*j:])) >= b.steps
		}
		if bad {
			return p.spec.errorf("argument act", "is damaged: it lists residuals behind its end; prepare it again")
		}
	}
	return nil
}

// residualArgs are the parameters of a kernel that reads the residuals of a block.
func (b *block) residualArgs(a *GemmArgs, act []byte) {
	n, list := b.listed(act)
	a.Residual, a.Offsets = unsafe.Pointer(&act[b.residuals]), unsafe.Pointer(&act[b.offsets])
	a.List, a.ListCount = unsafe.Pointer(&list[0]), int64(n)
}
