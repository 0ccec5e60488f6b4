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

// residualOf is where the assembly puts the residuals of row j of a block, nil if it makes none: in the
// block, or beside it as rowOf does.
func (p *Product) residualOf(w *scratch, b *block, to []byte, j int) []byte {
	t := p.cut.tables
	if !t.Residual {
		return nil
	}
	var residual []byte
	if w.inPlace(b) && b.steps > 0 {
		residual = to[b.residuals:][:b.row]
	} else {
		room := w.room(b)
		w.residuals = grow(w.residuals, b.cols*max(room, w.row.tables))
		residual = w.residuals[j*room:][:w.row.tables]
	}
	clear(residual[w.shape.k/t.K*t.Bytes:])
	return residual
}

// beginList makes the list of a block's steps empty.
func (w *scratch) beginList(b *block) {
	w.listed = grow(w.listed, b.steps)
	clear(w.listed)
}

// list puts the offset of row j of a block where it belongs, and lists the steps that have residuals of it.
func (w *scratch) list(b *block, to, residual []byte, j int) {
	binary.LittleEndian.PutUint32(to[b.offsets+4*j:], uint32(w.offsets[0]))
	if w.excess[0] == 0 {
		return
	}
	size := b.row / b.steps
	for i := range w.listed {
		w.listed[i] = w.listed[i] || !allZero(residual[i*size:][:size])
	}
}

// putList stores the list of a block, and where they do not lie there yet the residuals of n rows for the
// steps in it; for others nobody reads any.
func (w *scratch) putList(b *block, to []byte, n int) {
	if b.steps == 0 {
		return
	}
	count, size := 0, b.row/b.steps
	for i, some := range w.listed {
		if !some {
			continue
		}
		count++
		binary.LittleEndian.PutUint32(to[b.list+4*count:], uint32(i))
		if !w.inPlace(b) {
			interleave(to[b.residuals+i*size*b.cols:][:size*b.cols], w.residuals[i*size:], b.cols, n, w.room(b), b.unit)
		}
	}
	binary.LittleEndian.PutUint32(to[b.list:], uint32(count))
}

// allZero says that bytes are 0, a line at once.
func allZero(x []byte) bool {
	for len(x) >= lineBytes {
		w := (*[lineBytes / 8]uint64)(unsafe.Pointer((*[lineBytes]byte)(x)))
		if w[0]|w[1]|w[2]|w[3]|w[4]|w[5]|w[6]|w[7] != 0 {
			return false
		}
		x = x[lineBytes:]
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
