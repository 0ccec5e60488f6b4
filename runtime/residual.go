package runtime

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"github.com/tmacc/tmacc/runtime/abi"
)

// A table of bytes leaves out the part of an entry above 255. These residuals follow the rest of a block of
// activations, with a list of the steps along K where any row of the block has one: as a rule none.

// withResiduals adds residuals of the given number of steps to a block.
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

// A unit has a table of unitBytes, made of a pair of pairBytes together.
const unitBytes, pairBytes = 16, 8

// digits is how many activations a unit has.
func digits(t abi.Tables) int { return t.K / (t.Bytes / unitBytes) }

// planResiduals sets the parameters of the second call of the assembly, which makes residuals.
func (p *Product) planResiduals(w *scratch) {
	f, a := p.variant.Prepare, &w.rest
	*a = w.prep
	a.Count = [len(a.Count)]int64{}
	w.prep.Count[f.Residuals] = 0
	unused := unsafe.Pointer(&w.unused[0])
	a.Amax, a.Finite, a.Inv, a.Sums, a.ActScale, a.Offsets = unused, unused, unused, unused, unused, unused
}

// residualOf is where row j of a block has its residuals made: in the block, or beside it as
// rowOf does, where all are 0 that are of no listed step.
func (w *scratch) residualOf(b *block, to []byte, j int) []byte {
	if w.inPlace(b) {
		return to[b.residuals:][:b.row]
	}
	room := w.room(b)
	w.residuals = grow(w.residuals, b.cols*room)
	return w.residuals[j*room:][:w.row.tables]
}

// beginList makes the list of a block's steps empty.
func (w *scratch) beginList(b *block) {
	w.listed = grow(w.listed, ceilDiv(b.steps, 64))
	clear(w.listed)
}

// list puts the offset of row j of a block where it belongs, lists the steps that have residuals of it and
// makes those.
func (p *Product) list(w *scratch, b *block, to []byte, j int) {
	binary.LittleEndian.PutUint32(to[b.offsets+4*j:], uint32(w.offsets[0]))
	units := b.row / b.steps / unitBytes // of a step
	excess := w.excess[:ceilDiv(w.shape.k, digits(p.cut.tables))]
	for i := notZero(excess, 0); i < len(excess); {
		first := i / units
		end := first
		for ; i/units == end && i < len(excess); i = notZero(excess, end*units) { // of neighbours
			w.listed[end/64] |= 1 << (end % 64)
			end++
		}
		p.makeResiduals(w, w.residualOf(b, to, j), first*units, end*units)
	}
}

// makeResiduals makes the residuals of those units of a row from lo up to hi.
func (p *Product) makeResiduals(w *scratch, residual []byte, lo, hi int) {
	f, a, t := p.variant.Prepare, &w.rest, p.cut.tables
	clear(residual[lo*unitBytes : hi*unitBytes])
	digits, div := digits(t), f.CountDiv[f.Residuals]
	from := lo * digits / div * div // whole iterations, no further beyond K than the iterations of all units
	at := from / digits
	a.Pair, a.Residual = unsafe.Pointer(&w.pair[at*pairBytes]), unsafe.Pointer(&residual[at*unitBytes])
	a.Count[f.Residuals] = int64(ceilDiv(min(hi*digits, w.shape.k)-from, div))
	f.Fn(a)
}

// putList stores the list of a block, and where they do not lie there yet the residuals of n rows for the
// steps in it; for others nobody reads any.
func (w *scratch) putList(b *block, to []byte, n int) {
	if b.steps == 0 {
		return
	}
	count, size := 0, b.row/b.steps
	for word, steps := range w.listed {
		for ; steps != 0; steps &= steps - 1 {
			i := word*64 + bits.TrailingZeros64(steps)
			count++
			binary.LittleEndian.PutUint32(to[b.list+4*count:], uint32(i))
			if w.inPlace(b) {
				continue
			}
			interleave(to[b.residuals+i*size*b.cols:][:size*b.cols], w.residuals[i*size:], b.cols, n, w.room(b), min(b.unit, size))
			for j := range n {
				clear(w.residuals[j*w.room(b)+i*size:][:size])
			}
		}
	}
	binary.LittleEndian.PutUint32(to[b.list:], uint32(count))
}

// notZero is the index of the first byte of x from i on that is not 0, len(x) if there is none.
func notZero(x []byte, i int) int {
	for ; i+lineBytes <= len(x); i += lineBytes {
		w := (*[lineBytes / 8]uint64)(unsafe.Pointer((*[lineBytes]byte)(x[i:])))
		if w[0]|w[1]|w[2]|w[3]|w[4]|w[5]|w[6]|w[7] != 0 {
			break
		}
	}
	for i < len(x) && x[i] == 0 {
		i++
	}
	return i
}

// listed is how many steps of a block that begins at act have residuals, and the list of them.
func (b *block) listed(act []byte) (n int, list []byte) {
	return int(binary.LittleEndian.Uint32(act[b.list:])), act[b.list+4:]
}

// listsFit holds the lists of an activation buffer, without its header, to the steps that there are: kernels
// read where they say.
func (s *shape) listsFit(act []byte) bool {
	for i := range s.blocks() {
		b, _, offset := s.at(i)
		if b.steps == 0 {
			continue
		}
		n, list := b.listed(act[offset:])
		if n > b.steps {
			return false
		}
		for j := range n {
			if int(binary.LittleEndian.Uint32(list[4*j:])) >= b.steps {
				return false
			}
		}
	}
	return true
}

// residualArgs are the parameters of a kernel that reads the residuals of a block.
func (b *block) residualArgs(a *abi.GemmArgs, act []byte) {
	n, list := b.listed(act)
	a.Residual, a.Offsets = unsafe.Pointer(&act[b.residuals]), unsafe.Pointer(&act[b.offsets])
	a.List, a.ListCount = unsafe.Pointer(&list[0]), int64(n)
}
