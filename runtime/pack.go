package runtime

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
)

// A packed matrix is a header of 64 bytes and the stream that the layout
// defines. All numbers are little endian, so it can be saved and loaded anywhere:
//
//	0 magic   8 layout hash   16 format hash   24 m   32 k   40 bytes of the stream
//	48 CRC-32C of the stream   52 the scale   56 CRC-32C of bytes 0 to 55   60 0
//
// The scale is a float32. A matrix without one has 0 there and packedMagic; a matrix with one has scaledMagic, so that
// versions of tmacc that know no scales refuse it.
const headerBytes = 64

const (
	packedMagic = "tmaccW\x00\x01"
	scaledMagic = "tmaccW\x00\x02"
	actMagic    = "tmaccA\x00\x01"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func layoutHash(l *format.Layout) uint64 {
	h, err := strconv.ParseUint(l.Hash(), 16, 64)
	if err != nil {
		panic("BUG: runtime: layout hash: " + err.Error())
	}
	return h
}

// weightHash identifies what the codes, scales, minimums and zero points of a format mean.
func weightHash(w format.Weight) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, w.Bits, w.Levels, w.Per, w.Group, w.Zero)
	if w.Super > 0 || w.Min {
		fmt.Fprint(h, w.Super, w.Min)
	}
	if w.Books > 0 {
		fmt.Fprint(h, " books ", w.Books, w.BookGroup)
	}
	return h.Sum64()
}

// streamAt is where a header has the CRC of its stream, behind its numbers; scaleAt is where that of a matrix has its scale.
const (
	streamAt = 8 + 8*5
	scaleAt  = streamAt + 4
)

// putHeader writes a header: its magic, five numbers and the CRC of the stream.
func putHeader(to []byte, magic string, numbers [5]uint64, stream uint32) {
	clear(to[:headerBytes])
	copy(to, magic)
	for i, n := range numbers {
		binary.LittleEndian.PutUint64(to[8+8*i:], n)
	}
	binary.LittleEndian.PutUint32(to[streamAt:], stream)
	sealHeader(to)
}

// sealHeader writes the CRC of a header.
func sealHeader(to []byte) {
	binary.LittleEndian.PutUint32(to[56:], crc32.Checksum(to[:56], castagnoli))
}

// getHeader reads the numbers of an intact header of that magic.
func getHeader(from []byte, magic string) (numbers [5]uint64, ok bool) {
	if len(from) < headerBytes || string(from[:8]) != magic ||
		binary.LittleEndian.Uint32(from[56:]) != crc32.Checksum(from[:56], castagnoli) || binary.LittleEndian.Uint32(from[60:]) != 0 {
		return numbers, false
	}
	for i := range numbers {
		numbers[i] = binary.LittleEndian.Uint64(from[8+8*i:])
	}
	return numbers, true
}

// getPackedHeader is getHeader of a packed matrix, and its scale: 0 if it has none.
func getPackedHeader(from []byte) (numbers [5]uint64, scale float32, ok bool) {
	if numbers, ok = getHeader(from, packedMagic); ok {
		return numbers, 0, binary.LittleEndian.Uint32(from[scaleAt:]) == 0
	}
	if numbers, ok = getHeader(from, scaledMagic); ok {
		scale = float32At(from, scaleAt)
	}
	return numbers, scale, ok && isScale(scale)
}

// isScale says that x can be the scale of a matrix: products that are all 0 or NaN have none.
func isScale(x float32) bool { return x != 0 && x-x == 0 }

// matrix is a packed matrix whose header holds.
type matrix struct {
	m, k      int
	tileBytes int
	scale     float32 // of all products; 0: none
	data      []byte
}

// checkShape holds m and k to what the product can multiply.
func (p *Product) checkShape(m, k int) error {
	if p.ready() == nil && m < 1 {
		return p.spec.errorf("argument m", "is %d; it must be at least 1", m)
	}
	return p.checkK(k)
}

func (p *Product) checkK(k int) error {
	if err := p.ready(); err != nil {
		return err
	}
	g := p.spec.Act.Unit(p.spec.Weight)
	switch {
	case k < 1:
		return p.spec.errorf("argument k", "is %d; it must be at least 1", k)
	case k > format.MostK:
		return p.spec.errorf("argument k", "is %d; no package can be compiled for more than %d: multiply parts of K and add their products", k, format.MostK)
	case k > p.spec.LimitK:
		return p.spec.errorf("argument k", "is %d; %s", k, p.spec.beyond(k))
	case k%g != 0:
		return p.spec.errorf("argument k", "is %d; it must be a multiple of the group of %d, of weights or activations: fill rows up to %d, weights with any code and activations with 0", k, g, (k+g-1)/g*g)
	}
	return nil
}

// beyond says what to do about a k above LimitK.
func (s *Spec) beyond(k int) string {
	return fmt.Sprintf("the package was compiled for K up to %d: compile it again with -max-k %d (or max-k in tmacc.yaml)", s.LimitK, k)
}

// PackedSize is the number of bytes of a packed matrix of m rows and k columns.
func (p *Product) PackedSize(m, k int) (int, error) {
	if err := p.checkShape(m, k); err != nil {
		return 0, err
	}
	data, err := p.layout.PackedBytes(m, k)
	if err != nil || data > data+headerBytes {
		return 0, p.spec.errorf("argument m", "%d rows of %d columns are too large to address", m, k)
	}
	return data + headerBytes, nil
}

// Pack packs a matrix of m rows and k columns into dst, which has PackedSize(m, k)
// bytes, with GOMAXPROCS threads. It allocates little. A forbidden
// code and a scale that is not finite or not exact in the layout's type are errors
// that name the row; dst is then no packed matrix.
func (p *Product) Pack(dst []byte, src format.Source, m, k int) error {
	if err := p.checkPack(dst, m, k); err != nil {
		return err
	}
	if err := p.checkSource(src, m, k); err != nil {
		return err
	}
	rows := func(lo, hi int) (format.Source, error) { return src.Rows(p.spec.Weight, lo, hi, k), nil }
	err := p.packRows(dst, m, k, 1, func() (rowReader, bool, error) { return rows, false, nil })
	if err != nil { // of a row counted from that of another
		return p.spec.wrap(cmp.Or(src.Check(p.spec.Weight, m, k), err))
	}
	return nil
}

// checkSource is the part of checking src that looks at no element.
func (p *Product) checkSource(src format.Source, m, k int) error {
	if err := p.ready(); err != nil {
		return err
	}
	return p.spec.wrap(src.CheckSizes(p.spec.Weight, m, k))
}

// PackBlocks is Pack of a matrix in the blocks of a GGUF type: "Q4_0", or of one
// with several layouts, which: "I2_S:rows4" (docs/gguf.md). The type must have
// the levels of the product's format; its scales may be for larger groups. It
// reads a few rows at a time.
func (p *Product) PackBlocks(dst []byte, typeName string, data []byte, m, k int) error {
	b, err := p.blocksFor(typeName, m, k)
	if err != nil {
		return err
	}
	if err := b.CheckSize(data, m, k); err != nil {
		return p.spec.wrap(err)
	}
	return p.PackBlocksFrom(dst, typeName, bytes.NewReader(data), m, k)
}

// PackBlocksFrom is PackBlocks of a matrix that from has from its beginning on. It is read while it is packed, so that only
// dst and about a megabyte for each thread are in memory.
func (p *Product) PackBlocksFrom(dst []byte, typeName string, from io.ReaderAt, m, k int) error {
	b, err := p.blocksFor(typeName, m, k)
	if err != nil {
		return err
	}
	if err := p.checkPack(dst, m, k); err != nil {
		return err
	}
	return p.packRows(dst, m, k, max(b.Rows, 1), func() (rowReader, bool, error) { return p.blockReader(typeName, from, m, k) })
}

// rowReader reads the rows from lo up to hi of a matrix, as weights of a product. They hold until the next call.
type rowReader func(lo, hi int) (format.Source, error)

// blocksFor is the block type of a GGUF type, which holds weights of p.
func (p *Product) blocksFor(typeName string, m, k int) (blocks.Block, error) {
	if err := p.checkShape(m, k); err != nil {
		return blocks.Block{}, err
	}
	b, err := blocks.Lookup(typeName)
	if err != nil {
		return b, p.spec.wrap(err)
	}
	from, err := format.Lookup(b.Weight)
	if err != nil {
		return b, p.spec.wrap(err)
	}
	if _, err := p.spec.fits(from); err != nil {
		return b, err
	}
	_, err = b.Size(m, k)
	return b, p.spec.wrap(err)
}

// blockReader reads rows of a matrix in the blocks of a GGUF type that blocksFor has accepted. checked says that what it reads needs no
// check, as blocks hold nothing that the product's format does not.
func (p *Product) blockReader(typeName string, from io.ReaderAt, m, k int) (read rowReader, checked bool, err error) {
	r, err := blocks.NewReader(typeName, from, m, k)
	if err != nil {
		return nil, false, p.spec.wrap(err)
	}
	same, err := p.spec.fits(r.Weight())
	if err != nil {
		return nil, false, err
	}
	return func(lo, hi int) (format.Source, error) {
		src, err := r.Rows(lo, hi)
		if err != nil || same {
			return src, p.spec.wrap(err)
		}
		return p.spec.adapt(r.Weight(), src, hi-lo, k), nil
	}, same && slices.Equal(r.Weight().Shared(), p.spec.Weight.Shared()), nil
}

func (s *Spec) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.Name, err)
}

func (p *Product) checkPack(dst []byte, m, k int) error {
	size, err := p.PackedSize(m, k)
	if err == nil && len(dst) != size {
		return p.spec.errorf("argument dst", "has %d bytes; a packed matrix of %d rows and %d columns has %d", len(dst), m, k, size)
	}
	return err
}

// pieceBytes is about how much of a matrix a thread packs at a time, in weights.
const pieceBytes = 1 << 20

// packRows packs a matrix, whole tiles of rows and multiples of align at a time,
// several threads at once, and then writes the header. Each thread has a reader of its own. An error is that of
// the first piece that has one.
func (p *Product) packRows(dst []byte, m, k, align int, open func() (read rowReader, checked bool, err error)) error {
	packer, data, tile := p.packer(), dst[headerBytes:], p.layout.TileBytes(k)
	clear(dst[:headerBytes])
	rows := p.layout.TileM
	for rows%align != 0 {
		rows += p.layout.TileM
	}
	rows *= max(1, pieceBytes/k/rows)
	err := inParallel(ceilDiv(m, rows), func() (func(i int) error, error) {
		read, checked, err := open()
		pack := packer.Pack
		if checked {
			pack = packer.PackChecked
		}
		return func(i int) error {
			lo, hi := i*rows, min((i+1)*rows, m)
			src, err := read(lo, hi)
			if err != nil {
				return err
			}
			return pack(data[lo/p.layout.TileM*tile:ceilDiv(hi, p.layout.TileM)*tile], src, hi-lo, k)
		}, err
	})
	if err != nil {
		return err
	}
	putHeader(dst, packedMagic, [5]uint64{p.hash, p.weight, uint64(m), uint64(k), uint64(len(data))}, crc32.Checksum(data, castagnoli))
	return nil
}

// inParallel does 0 to n-1 in GOMAXPROCS threads, by the function that start gives each thread, and
// returns the error of the lowest that fails. Numbers above one that failed may be left out.
func inParallel(n int, start func() (do func(i int) error, err error)) error {
	var next, failed atomic.Int64
	failed.Store(int64(n))
	errs := make([]error, n)
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			do, err := start()
			for i := next.Add(1) - 1; i < failed.Load(); i = next.Add(1) - 1 {
				if errs[i] = err; err == nil {
					errs[i] = do(int(i))
				}
				if errs[i] != nil {
					failed.Store(min(failed.Load(), i))
				}
			}
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// fits reports whether blocks of a format hold what s packs, and whether it is the
// same, or its groups have to be divided first.
func (s *Spec) fits(from format.Weight) (same bool, err error) {
	to, kinds := s.Weight, from.Shared()
	fits := slices.Equal(to.Levels, from.Levels) && to.Bits == from.Bits && to.Books == from.Books && to.Per >= from.Per && len(to.Shared()) == len(kinds)
	same = to.Per == from.Per
	for i, x := range to.Shared() {
		fits = fits && x.Name == kinds[i].Name && (x.Span == kinds[i].Span || x.Span > 0 && kinds[i].Span%x.Span == 0)
		same = same && fits && x.Span == kinds[i].Span
	}
	if !fits {
		return false, s.errorf("argument typeName", "blocks of it hold %s, which does not fit %s: compile a product for %[1]s", from, to)
	}
	return same, nil
}

// adapt repeats what larger groups share for each of the product's smaller ones.
func (s *Spec) adapt(from format.Weight, src format.Source, m, k int) format.Source {
	to, of := s.Weight, map[string]format.Shared{}
	for _, x := range from.Shared() {
		of[x.Name] = x
	}
	return to.NewSource(src.Codes, m, k, func(x format.Shared, i int) float32 {
		perRow := max(to.Count(x, m, k)/m, 1)
		return src.Number(of[x.Name], from.Index(of[x.Name], i/perRow, i%perRow*x.Span, k))
	})
}

// Shape is the number of rows and columns of a packed matrix.
func (p *Product) Shape(packed []byte) (m, k int, err error) {
	w, err := p.open(packed)
	return w.m, w.k, err
}

// open checks a packed matrix's header against its length and the product.
func (p *Product) open(packed []byte) (matrix, error) {
	w, err := p.openHeader(packed, len(packed))
	if err == nil {
		w.data = packed[headerBytes:]
	}
	return w, err
}

// openHeader is open of a packed matrix of size bytes that begins with head, without
// its data.
func (p *Product) openHeader(head []byte, have int) (matrix, error) {
	if err := p.ready(); err != nil {
		return matrix{}, err
	}
	bad := func(problem string, args ...any) (matrix, error) {
		return matrix{}, p.spec.errorf("argument packed", problem, args...)
	}
	h, scale, ok := getPackedHeader(head)
	switch {
	case !ok:
		return bad("%s", foreign(head))
	case h[1] != p.weight:
		return bad("holds weights of another format than %s; use the product that packed it", p.spec.Weight)
	case h[0] != p.hash:
		return bad("was packed in layout %016x; %s runs layout %016x: pack it again here", h[0], p.Target(), p.hash)
	}
	m, k := int(h[2]), int(h[3])
	if k > p.spec.LimitK && k <= format.MostK {
		return bad("has %d columns; %s", k, p.spec.beyond(k))
	}
	size, err := p.PackedSize(m, k)
	if err != nil || uint64(size) != h[4]+headerBytes || size != have {
		return bad("has %d bytes; its header says %d rows and %d columns in %d bytes", have, h[2], h[3], h[4]+headerBytes)
	}
	return matrix{m: m, k: k, tileBytes: p.layout.TileBytes(k), scale: scale}, nil
}

// accepts says whether packed has a header like the last one that s has accepted, apart from its checksums and its scale; its
// own checksum is right. Other layers of a model have the same shape. s.matrix then has the scale of packed.
func (s *scratch) accepts(packed []byte) bool {
	if s.packed == 0 || len(packed) != s.packed {
		return false
	}
	numbers, all := sameHeader(packed, &s.packedHeader)
	if all || !numbers {
		return all
	}
	_, scale, ok := getPackedHeader(packed)
	if ok {
		s.packedHeader, s.matrix.scale = [headerBytes]byte(packed), scale
	}
	return ok
}

// openPacked is open into w, quick for headers that s accepts.
func (p *Product) openPacked(s *scratch, packed []byte, w *matrix) (err error) {
	if s.accepts(packed) {
		*w = s.matrix
		w.data = packed[headerBytes:]
		return nil
	}
	if *w, err = p.open(packed); err == nil {
		s.packed, s.packedHeader, s.matrix = len(packed), [headerBytes]byte(packed), *w
		s.matrix.data = nil
	}
	return err
}

// sameHeader compares the header that b begins with: its magic and its numbers, and all of it. Word by word, as comparing
// arrays of this size is a call.
func sameHeader(b []byte, h *[headerBytes]byte) (numbers, all bool) {
	x := (*[headerBytes]byte)(b)
	low := differ(x, h, 0) | differ(x, h, 8) | differ(x, h, 16) | differ(x, h, 24) | differ(x, h, 32) | differ(x, h, 40)
	return low == 0, low|differ(x, h, 48)|differ(x, h, 56) == 0
}

func differ(x, y *[headerBytes]byte, at int) uint64 {
	return binary.NativeEndian.Uint64(x[at:]) ^ binary.NativeEndian.Uint64(y[at:])
}

// Verify reads all of a packed matrix and reports damage since Pack.
func (p *Product) Verify(packed []byte) error {
	w, err := p.open(packed)
	if err != nil {
		return err
	}
	if crc32.Checksum(w.data, castagnoli) != binary.LittleEndian.Uint32(packed[48:]) {
		return p.spec.errorf("argument packed", "is damaged: its checksum is wrong; pack it again")
	}
	return nil
}

// SetScale makes scale a factor of all products of a packed matrix, and of its Row: a number that a file stores beside
// the matrix, as gguf.File.Scales returns them. Products are multiplied by it, rounded once, before Options do anything. It is
// finite and not 0; 1 is none. It is part of packed: Save keeps it, Unpack leaves it out.
func (p *Product) SetScale(packed []byte, scale float32) (err error) {
	if _, err := p.open(packed); err != nil {
		return err
	}
	if !isScale(scale) {
		return p.spec.errorf("argument scale", "is %v; the scale of a matrix is finite and not 0", scale)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = p.spec.errorf("argument packed", "is in memory that cannot be written, as Load maps it: set the scale before Save")
		}
	}()
	magic := scaledMagic
	if scale == 1 {
		magic, scale = packedMagic, 0
	}
	copy(packed, magic)
	binary.LittleEndian.PutUint32(packed[scaleAt:], math.Float32bits(scale))
	sealHeader(packed)
	return nil
}

// Scale is what SetScale set, 1 before.
func (p *Product) Scale(packed []byte) (float32, error) {
	w, err := p.open(packed)
	if err == nil && w.scale == 0 {
		w.scale = 1
	}
	return w.scale, err
}

// Row writes the weights of row r of a packed matrix of k columns to dst, which has k elements: the float32 that
// format.Weight defines, times the scale of the matrix if it has one. It does not look for damage, as Verify does.
func (p *Product) Row(dst []float32, packed []byte, r int) error {
	w, err := p.open(packed)
	switch {
	case err != nil:
		return err
	case r < 0 || r >= w.m:
		return p.spec.errorf("argument r", "is %d; the matrix has rows 0 to %d", r, w.m-1)
	case len(dst) != w.k:
		return p.spec.errorf("argument dst", "has %d elements; a row of the matrix has %d", len(dst), w.k)
	}
	s := p.pool.Get().(*scratch)
	defer p.release(s)
	s.weights = grow(s.weights, w.k)
	p.decode().row(s.weights, w, r)
	group := cmp.Or(p.spec.Weight.Group, w.k)
	for from := 0; from < w.k; from += group {
		x := p.scaling(w, r, from)
		for i, level := range s.weights[from:][:group] {
			dst[from+i] = x.Value(int(level))
		}
	}
	if w.scale != 0 {
		scaleAll(dst, w.scale)
	}
	return nil
}

// Unpack is the inverse of Pack. It allocates its result.
func (p *Product) Unpack(packed []byte) (format.Source, error) {
	w, err := p.open(packed)
	if err != nil {
		return format.Source{}, err
	}
	src, err := p.packer().Unpack(w.data, w.m, w.k)
	if err != nil {
		return src, fmt.Errorf("%s: %w", p.spec.Name, err)
	}
	return src, nil
}
