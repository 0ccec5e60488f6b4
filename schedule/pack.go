package schedule

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/nest"
)

// Pack lays the weights out as one linear stream. Order lists loops, outermost first: a run-time loop over rows (a
// tile), a run-time loop over K (a record), then constant loops. Constant loops between the first two count the tiles
// that a call reads side by side. Fields are the loops inside one byte, outermost first. If codes do not fill bytes,
// they are the loops inside one cell of several words, and the word "words" in Order says where these words go.
//
// Groups and super-blocks share scales, zero points, minimums or indices of codebooks. These shared values follow the
// codes of their record; scales of whole rows lead their tile. The word "shared" in Order, after some of the constant
// loops, divides a record into pieces, one for each iteration of these loops. Then the shared values of groups that lie
// whole in a piece follow the codes of the piece, and the other shared values follow all pieces. With Lead, these other
// values come before the codes of their record, in the order in which kernels read them. Alike, shared values lie in the order of codes also where
// lanes hold tiles: as they do in layouts of other kernels for workgroups.
//
// Of 2-bit codes, in the order mt ks l j with fields f, where m = 16*mt + l and
// k = 16*ks + 4*f + j:
//
//	codes[m, k]    ->    tile mt, record ks, byte 4*l + j, bits 2*f and 2*f+1
//
// Map places the bits of a cell: "dense" (whole fields from bit 0 up, left-over
// bits strung together), "planes" (bit i of every field in word i) or "words":
// Join neighbouring fields, the innermost loops of Fields, are one codeword
// (format.JoinCodes; its highest bit mirrors Mirror of them), and codewords are
// strung together. Of 3 levels, in the order mt ks l j with 5 fields f joined, where
// k = 20*ks + 4*f + j:
//
//	codes[m, 20*ks + 4*f + j], f 0 to 4    ->    tile mt, record ks, byte 4*l + j
//
// "signs" is "words" with the highest bits of mirrored codewords in words of their own after the others: 8 codewords of
// 3 trits are 4 bytes with indices of 4 bits, then a byte with 8 signs.
//
// Head instead of Mirror numbers codewords of 8 bits so that lookups of 64 entries find
// each code (format.HeadCodes): without its two lowest bits a codeword tells the first Head
// codes, and which two more bits the others depend on. Fraction numbers them so that products take them apart
// (format.FractionCodes), for machines that have no fast lookups.
//
// Word neighbouring bytes of a cell stay together, whatever the order, so that lanes of Word bytes can read them. Then
// "words" counts words of this size.
//
// With tables, the loop digit over the codes of an index is one of the fields, the
// innermost. Planes of more than 8 fields have several words for each bit: "planes" in
// Order says where the planes go, and "words" where the words of one plane go.
//
// "d/16" and "d%16" are the outer and the inner part of a loop d, in steps of 16 iterations, and "d%16/4" is the outer part of the
// inner one: so loops that cannot be split, such as the ones of tiles, may have fields inside.
//
// Tensor "act" packs the activations instead: Chunk consecutive elements of a
// column lie together, with the columns of a block side by side. In a preparation of
// activations, "table" says that the tables of Chunk elements lie together. The tables of the next Chunk elements are a
// number of bytes behind them that the caller chooses, so that tables are made where products with several columns read them.
type Pack struct {
	Tensor string   `json:"tensor"`
	Order  []string `json:"order,omitempty"`
	Fields []string `json:"fields,omitempty"`
	Map    string   `json:"map,omitempty"`
	Join   int      `json:"join,omitempty"`
	Mirror int      `json:"mirror,omitempty"`
	Head   int      `json:"head,omitempty"`
	Lead   bool     `json:"lead,omitempty"`
	Word   int      `json:"word,omitempty"` // 0 is 1
	Chunk  int      `json:"chunk,omitempty"`

	Fraction bool `json:"fraction,omitempty"`
	Alike    bool `json:"alike,omitempty"`
}

// Apply implements Step.
func (x Pack) Apply(s *Product) (*Product, error) {
	if err := s.decomposed(x, x.Tensor); err != nil {
		return nil, err
	}
	switch x.Tensor {
	case "codes":
		if x.Chunk != 0 {
			return nil, illegal(x, x.Tensor, "takes no chunk")
		}
		return x.codes(s)
	case "act":
		if err := x.chunks(s.chunk, 4); err != nil {
			return nil, err
		}
		c := s.clone()
		c.chunk = x.Chunk
		return c, nil
	}
	return nil, illegal(x, x.Tensor, "no such tensor; have codes, act")
}

// ApplyPreparation implements PreparationStep: it packs the tables that a preparation makes.
func (x Pack) ApplyPreparation(s *Preparation) (*Preparation, error) {
	if x.Tensor != "table" {
		return nil, forProducts(x)
	}
	if s.tables == nil {
		return nil, illegal(x, x.Tensor, "this preparation makes no tables")
	}
	if err := x.chunks(s.chunk, s.tables.Digits()*s.tables.Together); err != nil {
		return nil, err
	}
	c := s.clone()
	c.chunk = x.Chunk
	return c, nil
}

// MostChunk bounds the elements of a chunk.
const MostChunk = 4096

// chunks checks a step that says nothing but a chunk: whole units, each of unit elements. The chunk chosen before is
// old, 0 if there is none.
func (x Pack) chunks(old, unit int) error {
	if old != 0 {
		return illegal(x, x.Tensor, "already packed")
	}
	if x.Chunk < unit || x.Chunk > MostChunk || x.Chunk%unit != 0 {
		return illegal(x, x.Tensor, "chunk %d: want a multiple of %d up to %d", x.Chunk, unit, MostChunk)
	}
	if x.Order != nil || x.Fields != nil || x.Map != "" || x.Join != 0 || x.Mirror != 0 || x.Head != 0 || x.Lead || x.Word != 0 || x.Fraction || x.Alike {
		return illegal(x, x.Tensor, "takes a chunk only")
	}
	return nil
}

// cell is what Map makes of a cell of fields codes of w.
func (x Pack) cell(w format.Weight, fields int) (m [][]format.BitPos, words int, c *format.Codewords, err error) {
	switch {
	case x.Map != "words" && x.Map != "signs" && (x.Join != 0 || x.Mirror != 0 || x.Head != 0 || x.Fraction):
		return nil, 0, nil, fmt.Errorf("join, mirror, head and fraction are for the maps words and signs, not %q", x.Map)
	case x.Map == "dense":
		m, words, err = format.DenseMap(w.Bits, fields)
		return m, words, nil, err
	case x.Map == "planes" && fields%8 != 0:
		return nil, 0, nil, fmt.Errorf("bit planes have a multiple of 8 fields, not %d", fields)
	case x.Map == "planes":
		return format.PlaneMap(w.Bits, fields), w.Bits * fields / 8, nil, nil
	case x.Map != "words" && x.Map != "signs":
		return nil, 0, nil, fmt.Errorf("no bit map %q; have dense, planes, words, signs", x.Map)
	case x.Map == "signs" && x.Mirror == 0:
		return nil, 0, nil, fmt.Errorf("the map signs is for codewords that have one: mirror some of their codes")
	case (x.Head != 0 || x.Fraction) && x.Mirror != 0 || x.Head != 0 && x.Fraction:
		return nil, 0, nil, fmt.Errorf("codewords have a head, are mirrored or are fractions: one of these")
	}
	c, bits, err := x.codewords(w)
	if err != nil {
		return nil, 0, nil, err
	}
	if fields%x.Join != 0 {
		return nil, 0, nil, fmt.Errorf("%d fields are not whole codewords of %d", fields, x.Join)
	}
	n := fields / x.Join
	if x.Map == "words" {
		m, words = format.StringMap(bits, n)
		return m, words, c, nil
	}
	if n%8 != 0 {
		return nil, 0, nil, fmt.Errorf("signs lie together by 8 codewords, not %d", n)
	}
	m, words = format.SignMap(bits, n)
	return m, words, c, nil
}

// codewords are the codewords of codes of w, and their bits.
func (x Pack) codewords(w format.Weight) (c *format.Codewords, bits int, err error) {
	switch {
	case x.Head > 0:
		c, err = format.HeadCodes(w.Codes(), x.Join, x.Head)
		return c, 8, err
	case x.Fraction:
		c, err = format.FractionCodes(w.Codes(), x.Join)
		return c, 8, err
	}
	return format.JoinCodes(w.Codes(), x.Join, x.Mirror)
}

func (x Pack) codes(s *Product) (*Product, error) {
	c := s.clone()
	if c.weights != nil {
		return nil, illegal(x, x.Tensor, "already packed")
	}
	p := &packing{x: x, s: c}
	if err := p.cell(); err != nil {
		return nil, err
	}
	if err := p.order(); err != nil {
		return nil, err
	}
	lay, err := p.layout()
	if err != nil {
		return nil, err
	}
	c.weights = lay
	return c, nil
}

// packing is a layout in the making.
type packing struct {
	x      Pack
	s      *Product
	used   []string // loops and words named so far
	fields []format.Digit
	inside []nest.Loop // the loops of fields
	bitmap [][]format.BitPos
	words  int
	joined *format.Codewords // nil: codes are stored one by one
	loops  []nest.Loop       // of Order: tile (the innermost loop that counts some), record, then constant ones
	pieces int               // how many of loops lie around the shared values: at least tile and record
}

// loop is the loop over rows or K called name, which may be named once.
func (p *packing) loop(name string) (nest.Loop, error) {
	if x, ok := partOf(name); ok {
		return p.part(name, x)
	}
	loops := p.s.main().loops
	i := slices.IndexFunc(loops, func(l nest.Loop) bool { return l.Name == name })
	if t := p.s.tables; name == digitLoop && t != nil {
		return p.s.digits(), p.use(name)
	}
	if i < 0 || !overMatrix(loops[i]) {
		return nest.Loop{}, illegal(p.x, name, "no such loop over rows or K")
	}
	return loops[i], p.use(name)
}

// part is a part of a loop: every by-th iteration, of each run of in iterations, 0: of all.
type part struct {
	of     string
	in, by int
}

// partOf takes the name of a part of a loop apart, "d/16", "d%16" or "d%16/4".
func partOf(name string) (x part, ok bool) {
	of, rest, inner := strings.Cut(name, "%")
	in, by, outer := strings.Cut(rest, "/")
	if !inner {
		of, by, outer = strings.Cut(name, "/")
	}
	x = part{of: of, by: 1}
	for _, n := range []struct {
		text string
		to   *int
		is   bool
	}{{in, &x.in, inner}, {by, &x.by, outer}} {
		var err error
		if !n.is {
			continue
		}
		if *n.to, err = strconv.Atoi(n.text); err != nil || *n.to <= 0 {
			return x, false
		}
	}
	return x, inner || outer
}

// count is how many iterations of l are in the part, 0 if these are no equal runs.
func (x part) count(l nest.Loop) int {
	n := cmp.Or(x.in, l.N)
	if l.N%n != 0 || n%x.by != 0 {
		return 0
	}
	return n / x.by
}

// part is a part of a loop as a loop.
func (p *packing) part(name string, x part) (nest.Loop, error) {
	i := slices.IndexFunc(p.s.main().loops, func(l nest.Loop) bool { return l.Name == x.of && overMatrix(l) })
	if i < 0 {
		return nest.Loop{}, illegal(p.x, name, "no such loop over rows or K")
	}
	l := p.s.main().loops[i]
	if l.N == 0 || x.count(l) == 0 || slices.Contains(p.used, x.of) {
		return nest.Loop{}, illegal(p.x, name, "is no part of a constant loop that is named in parts only")
	}
	l.Name, l.Coef, l.N = name, l.Coef*x.by, x.count(l)
	return l, p.use(name)
}

// complete says that the layout has all of a loop: the loop, or parts of it.
func (p *packing) complete(l nest.Loop) bool {
	n := 1
	for _, name := range p.used {
		x, ok := partOf(name)
		switch {
		case name == l.Name:
			return true
		case ok && x.of == l.Name:
			n *= x.count(l)
		}
	}
	return n == l.N && l.N > 1
}

// overMatrix says that a loop counts rows or elements of K. Parts of a sum are counted by iterations of another loop.
func overMatrix(l nest.Loop) bool {
	return (l.Root == "m" || l.Root == "k" || l.Root == "g") && l.Kind != nest.Part
}

// digits is the loop over the codes of an index, which only layouts see.
func (s *Product) digits() nest.Loop {
	return nest.Loop{Name: digitLoop, Root: "k", Coef: 1, N: s.tables.Digits()}
}

func (p *packing) use(name string) error {
	if slices.Contains(p.used, name) {
		return illegal(p.x, name, "named twice")
	}
	p.used = append(p.used, name)
	return nil
}

// cell reads Fields and Map: which codes share a cell, and where their bits go.
func (p *packing) cell() error {
	n := 1
	for _, name := range slices.Backward(p.x.Fields) {
		l, err := p.loop(name)
		if err != nil {
			return err
		}
		if l.N == 0 {
			return illegal(p.x, name, "a field loop needs a constant trip count")
		}
		if l.N > 1 {
			p.fields, p.inside = append([]format.Digit{p.s.digit(l, n)}, p.fields...), append([]nest.Loop{l}, p.inside...)
		}
		n *= l.N
	}
	if n > mostFields {
		return illegal(p.x, p.x.Tensor, "%d fields in a cell", n)
	}
	var err error
	if p.bitmap, p.words, p.joined, err = p.x.cell(p.s.Problem.Weight, n); err != nil {
		return illegal(p.x, p.x.Tensor, "%v", err)
	}
	switch word := p.word(); {
	case word != 1 && word != 2 && word != 4:
		return illegal(p.x, p.x.Tensor, "words of %d bytes: want 1, 2 or 4", word)
	case p.inPlane()%word != 0:
		return illegal(p.x, p.x.Tensor, "%d bytes are no words of %d", p.inPlane(), word)
	}
	return nil
}

// word is the size of a word.
func (p *packing) word() int { return max(p.x.Word, 1) }

// order reads Order: a tile, a record, and all other loops that are not fields.
func (p *packing) order() error {
	if len(p.x.Order) < 2 {
		return illegal(p.x, p.x.Tensor, "the order wants a tile loop and a record loop")
	}
	p.pieces = 2
	tiles := 1
	for _, name := range p.x.Order {
		if name == sharedWord {
			if p.pieces = len(p.loops); p.pieces < 3 {
				return illegal(p.x, name, "pieces are iterations of loops within a record: name it behind one of them")
			}
			if err := p.use(name); err != nil {
				return err
			}
			continue
		}
		l, err := p.ordered(name)
		if err != nil {
			return err
		}
		switch {
		case len(p.loops) == 0 && (l.Root != "m" || l.N != 0):
			return illegal(p.x, name, "the first loop must be the run-time loop over rows")
		case len(p.loops) == 1 && l.Root == "m" && l.N > 0 && l.N*l.Coef == p.loops[0].Coef && l.Kind != nest.Vector:
			p.loops[0] = l // of tiles that a call has side by side
			if tiles *= l.N; tiles > format.MostTiles {
				return illegal(p.x, name, "%d tiles side by side: at most %d", tiles, format.MostTiles)
			}
		default:
			p.loops = append(p.loops, l)
		}
	}
	for _, l := range p.s.main().loops {
		if overMatrix(l) && !p.complete(l) {
			return illegal(p.x, l.Name, "is not in the layout")
		}
	}
	if len(p.loops) < 2 {
		return illegal(p.x, p.x.Tensor, "the order wants a tile loop and a record loop")
	}
	record := p.loops[1]
	switch {
	case record.N != 0 || record.Root == "m" || record.Root == "":
		return illegal(p.x, record.Name, "the second loop must be the run-time loop over K: one linear stream")
	case slices.ContainsFunc(p.loops[:p.pieces], func(l nest.Loop) bool { return !overMatrix(l) }):
		return illegal(p.x, sharedWord, "shared values lie between cells, not between their words")
	case p.wordCount() > 1 && !slices.Contains(p.x.Order, "words"):
		return illegal(p.x, p.x.Tensor, "a cell has %d words: say where they go in the order", p.wordCount())
	}
	return nil
}

// ordered is what a name in Order stands for.
func (p *packing) ordered(name string) (nest.Loop, error) {
	bits := p.s.Problem.Weight.Bits
	switch {
	case name == "words":
		return nest.Loop{Name: name, N: p.wordCount()}, p.use(name)
	case name == "planes" && p.x.Map == "planes":
		return nest.Loop{Name: name, N: bits}, p.use(name)
	}
	return p.loop(name)
}

// wordCount is how many words of a cell the order places.
func (p *packing) wordCount() int { return p.inPlane() / p.word() }

// inPlane is the bytes of a cell, of a plane of it where planes have a place.
func (p *packing) inPlane() int {
	if p.inPlanes() {
		return p.words / p.s.Problem.Weight.Bits
	}
	return p.words
}

// inPlanes says that the planes have a place of their own in the order.
func (p *packing) inPlanes() bool {
	return p.x.Map == "planes" && slices.Contains(p.x.Order, "planes")
}

// sharedWord stands in Order where the shared values of groups lie.
const sharedWord = "shared"

// layout places the pieces with codes and shared values, then the values that several pieces share.
func (p *packing) layout() (*format.Layout, error) {
	lay := &format.Layout{TileM: p.loops[0].Coef, RecordK: p.s.fullCoef(p.loops[1])}
	codes := format.Part{Name: "codes", Map: p.bitmap, Fields: p.fields, WordStride: 1, Codewords: p.joined}
	piece := p.s.place(&codes, p.loops[p.pieces:], p.word())
	lay.Parts = append(lay.Parts, codes)
	if err := p.inPieces(lay, &piece); err != nil {
		return nil, err
	}
	lay.RecordBytes = piece
	for i := range lay.Parts {
		lay.RecordBytes = p.s.place(&lay.Parts[i], p.loops[2:p.pieces], piece)
	}
	if p.inPlanes() || p.word() > 1 {
		p.spread(&lay.Parts[0])
	}
	if err := p.shared(lay); err != nil {
		return nil, err
	}
	for i := range lay.Parts {
		lay.Parts[i].Digits = merge(lay.Parts[i].Digits)
	}
	if err := p.s.valid.validate(lay); err != nil {
		return nil, illegal(p.x, p.x.Tensor, "%v", err)
	}
	return lay, nil
}

// validLayouts are layouts that have no faults, by their sizes: schedules of one product have few layouts.
type validLayouts struct {
	mu    sync.Mutex
	known map[[4]int][]*format.Layout
}

// mostValid bounds the layouts of equal sizes that are remembered.
const mostValid = 64

// validate is l.Validate, once for equal layouts.
func (v *validLayouts) validate(l *format.Layout) error {
	size := [4]int{l.TileM, l.RecordK, l.HeaderBytes, l.RecordBytes}
	v.mu.Lock()
	known := v.known[size]
	v.mu.Unlock()
	if slices.ContainsFunc(known, func(o *format.Layout) bool { return reflect.DeepEqual(o, l) }) {
		return nil
	}
	if err := l.Validate(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil {
		v.known = map[[4]int][]*format.Layout{}
	}
	if known := v.known[size]; len(known) < mostValid {
		v.known[size] = append(slices.Clip(known), l)
	}
	return nil
}

// inPieces adds, behind the codes of a piece, the values that groups share which lie whole in it.
func (p *packing) inPieces(lay *format.Layout, size *int) error {
	if p.pieces == 2 {
		return nil
	}
	for _, x := range p.s.Problem.Weight.Shared() {
		if !p.inPiece(x) {
			continue
		}
		loops, err := p.sharedLoops(x.Span)
		if err != nil {
			return err
		}
		loops = slices.DeleteFunc(loops, func(l nest.Loop) bool {
			return slices.ContainsFunc(p.loops[2:p.pieces], func(o nest.Loop) bool { return o.Name == l.Name })
		})
		part := format.Part{Name: x.Name, Elem: x.Elem, Base: *size}
		*size += p.s.place(&part, loops, x.Elem.Bytes())
		lay.Parts = append(lay.Parts, part)
	}
	if len(lay.Parts) == 1 {
		return illegal(p.x, sharedWord, "nothing that is shared is whole in an iteration of %s", p.loops[p.pieces-1].Name)
	}
	return nil
}

// inPiece says that the weights that share x lie in one piece.
func (p *packing) inPiece(x format.Shared) bool {
	return p.pieces > 2 && x.Span > 0 && !slices.ContainsFunc(p.loops[2:p.pieces], func(l nest.Loop) bool {
		return l.Root != "m" && p.s.fullCoef(l)%x.Span != 0
	})
}

// spread gives the bytes of a cell the strides of their planes and words in the order.
func (p *packing) spread(codes *format.Part) {
	perPlane, word := p.inPlane(), p.word()
	planes, words := p.stride("planes"), p.stride("words")
	codes.WordStride = 1
	for f := range codes.Map {
		codes.Map[f] = slices.Clone(codes.Map[f])
		for i, b := range codes.Map[f] {
			in := b.Word % perPlane
			codes.Map[f][i].Word = b.Word/perPlane*planes + in/word*words + in%word
		}
	}
}

// stride is how far apart in bytes what a name in Order counts lies.
func (p *packing) stride(name string) int {
	size := p.word()
	for _, l := range slices.Backward(p.loops) {
		if l.Name == name {
			return size
		}
		size *= l.N
	}
	return 0
}

// merge joins digits that continue each other, so that a layout does not depend
// on how the loops that made it are split.
func merge(digits []format.Digit) []format.Digit {
	ds := slices.DeleteFunc(digits, func(d format.Digit) bool { return d.Mod == 1 })
	slices.SortFunc(ds, func(a, b format.Digit) int {
		if c := strings.Compare(a.Axis, b.Axis); c != 0 {
			return c
		}
		return b.Div - a.Div
	})
	var out []format.Digit
	for _, d := range ds {
		if n := len(out); n > 0 {
			up := &out[n-1]
			if up.Axis == d.Axis && up.Div == d.Div*d.Mod && up.Stride == d.Stride*d.Mod {
				*up = format.Digit{Axis: d.Axis, Div: d.Div, Mod: up.Mod * d.Mod, Stride: d.Stride}
				continue
			}
		}
		out = append(out, d)
	}
	return out
}

// digit is the digit of the logical index that l counts.
func (s *Product) digit(l nest.Loop, stride int) format.Digit {
	axis := "k"
	if l.Root == "m" {
		axis = "m"
	}
	return format.Digit{Axis: axis, Div: s.fullCoef(l), Mod: l.N, Stride: stride}
}

// loopOf is the loop that counts a digit: after pack, loops stay as they are. whole says that the digit is no part of it.
func (s *Product) loopOf(d format.Digit) (l nest.Loop, whole bool) {
	loops := s.main().loops
	if s.tables != nil {
		loops = append(slices.Clip(loops), s.digits())
	}
	for _, l := range loops {
		if !overMatrix(l) {
			continue
		}
		have := s.digit(l, d.Stride)
		if have == d {
			return l, true
		}
		if have.Axis == d.Axis && d.Div%have.Div == 0 && d.Div*d.Mod <= have.Div*have.Mod {
			return l, false
		}
	}
	panic(fmt.Sprintf("BUG: schedule: no loop counts the fields (%s / %d) mod %d", d.Axis, d.Div, d.Mod))
}

// place gives the loops of a part strides of elem bytes and up, innermost
// first, and returns the size.
func (s *Product) place(p *format.Part, loops []nest.Loop, elem int) int {
	size := elem
	for _, l := range slices.Backward(loops) {
		if l.Name == "words" {
			p.WordStride = size
		} else if l.Name != "planes" {
			p.Digits = append([]format.Digit{s.digit(l, size)}, p.Digits...)
		}
		size *= l.N
	}
	return size
}

// shared adds the other parts for what weights share: at the head of the tile if it
// belongs to rows, if it belongs to groups behind the codes of the record, or before them.
func (p *packing) shared(lay *format.Layout) error {
	w := p.s.Problem.Weight
	if unit := w.Unit(); lay.RecordK%unit != 0 {
		return illegal(p.x, p.loops[1].Name, "a record of %d is not a whole number of weight groups of %d", lay.RecordK, unit)
	}
	own, codes := len(lay.Parts), lay.RecordBytes
	for _, x := range w.Shared() {
		if p.inPiece(x) {
			continue
		}
		loops, err := p.sharedLoops(x.Span)
		if err != nil {
			return err
		}
		part := format.Part{Name: x.Name, Elem: x.Elem, Base: lay.RecordBytes}
		if x.Span > 0 {
			lay.RecordBytes += p.s.place(&part, loops, x.Elem.Bytes())
		} else {
			part.Header, part.Base = true, 0
			lay.HeaderBytes = p.s.place(&part, loops, x.Elem.Bytes())
		}
		lay.Parts = append(lay.Parts, part)
	}
	shared := lay.RecordBytes - codes
	if p.x.Lead && shared == 0 {
		return illegal(p.x, p.x.Tensor, "nothing that groups share leads a record")
	}
	for i := range lay.Parts {
		part := &lay.Parts[i]
		switch {
		case part.Header:
			continue
		case p.x.Lead && i < own:
			part.Base += shared
		case p.x.Lead:
			part.Base -= codes
		}
		part.Base += lay.HeaderBytes // which records follow
	}
	return nil
}

// sharedLoops are the loops that count, within a record, the rows and the groups
// of span elements of K (0: rows only); rows in their natural order, so that the
// scales of neighbouring lanes are neighbours, groups of a sum that has their scales too, or with lanes of workgroups and without
// tiles in the order of codes.
func (p *packing) sharedLoops(span int) (loops []nest.Loop, err error) {
	var all []nest.Loop
	all = append(slices.Clone(p.inside), p.loops[2:]...)
	for _, l := range all {
		switch {
		case l.Root == "m":
			loops = append(loops, l)
		case !overMatrix(l) || span == 0 || p.s.fullCoef(l)*l.N <= span:
		case p.s.fullCoef(l)%span == 0:
			loops = append(loops, l)
		case l.Root == "k" && span%l.Coef == 0 && l.Coef*l.N%span == 0: // of several groups whose scales are folded
			l.Coef, l.N = span, l.Coef*l.N/span
			loops = append(loops, l)
		default:
			return nil, illegal(p.x, l.Name, "straddles the weight groups of %d", span)
		}
	}
	runs := func(kind nest.Kind) func(nest.Loop) bool { return func(l nest.Loop) bool { return l.Kind == kind } }
	if p.x.Alike || slices.ContainsFunc(loops, runs(nest.Lane)) && !slices.ContainsFunc(p.s.Loops(), runs(nest.Tile)) {
		return loops, nil // like the codes: neighbouring lanes read neighbours
	}
	slices.SortStableFunc(loops, func(a, b nest.Loop) int {
		if a.Root == b.Root && (a.Root == "m" || p.s.folded) {
			return b.Coef - a.Coef
		}
		return strings.Compare(a.Root, b.Root) // g, k, m
	})
	return loops, nil
}

// mostFields bounds the codes of a cell.
const mostFields = 64

// CellSizes lists the numbers of codes that some map puts into a cell: the two smallest of each kind.
func (s *Product) CellSizes() (out []int) {
	for _, x := range s.codings() {
		for n, found := s.unit(), 0; n <= mostFields && found < 2; n += s.unit() {
			if x.fills(n) {
				found++
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CellBits is the fewest bits that a code takes in a cell of n codes, for the numbers that CellSizes lists.
func (s *Product) CellBits(n int) float64 {
	least := math.Inf(1)
	for _, x := range s.codings() {
		if x.fills(n) {
			words := (n/x.join*x.bits + x.word - 1) / x.word
			least = min(least, float64(words*x.word)/float64(n))
		}
	}
	return least
}

// coding is a way to place codes in a cell of whole words: join codes in some bits.
type coding struct {
	Pack
	join, bits int
	word       int // bits of a word
}

// fills says that n codes waste at most a sixteenth of a word.
func (x coding) fills(n int) bool {
	over := (x.word - n/x.join*x.bits%x.word) % x.word
	switch {
	case n%x.join != 0 || x.Join == 0 && over > 0 || over > max(x.word/16, 1):
		return false
	case x.Map == "planes":
		return n%x.word == 0
	}
	return x.Map != "signs" || n/x.join%8 == 0
}

// codings lists the ways to place codes. They are joined where that takes fewer bits, or, with tables, where an index has the digits of
// a codeword.
func (s *Product) codings() (out []coding) {
	w, t, word := s.Problem.Weight, s.tables, 8
	byBit, dense, joined := false, true, true
	if t != nil {
		word, byBit = s.indexType().Bits(), t.ByBit
		dense, joined = !byBit && len(t.Alphabet) == 1<<w.Bits && !t.Mirror, !byBit && len(t.Alphabet) == w.Codes()
	}
	if dense {
		out = append(out, coding{Pack{Map: "dense"}, 1, w.Bits, word})
	}
	if byBit || t == nil && w.Bits > 1 {
		out = append(out, coding{Pack{Map: "planes"}, 1, w.Bits, word})
	}
	for join := 2; joined; join++ {
		_, bits, err := format.JoinCodes(w.Codes(), join, 0)
		if err != nil {
			break
		}
		for mirror := range join + 1 {
			_, b, err := format.JoinCodes(w.Codes(), join, mirror)
			switch x := (coding{Pack{Map: "words", Join: join, Mirror: mirror}, join, b, word}); {
			case err != nil:
			case t == nil && b == bits && bits < join*w.Bits:
				out = append(out, x)
			case t != nil && join == t.Parts[0] && (mirror == join) == t.Mirror && mirror%join == 0:
				if out = append(out, x); t.Mirror {
					x.Map = "signs"
					out = append(out, x)
				}
			}
		}
		for head := 1; head < join && t == nil && bits < join*w.Bits; head++ {
			if _, err := format.HeadCodes(w.Codes(), join, head); err == nil {
				out = append(out, coding{Pack{Map: "words", Join: join, Head: head}, join, 8, word})
			}
		}
	}
	return out
}

// Propose implements Proposer. Of activations it lists chunks. Of codes, Order has the loops over tiles, the word "words" and what follows
// it in a layout; the loops over rows go in between: all together behind the loops over K, or the outer ones of them around the loops
// within a group or a record. Shared values of groups may lie behind the codes of each group, or lead a record.
func (x Pack) Propose(s State, m Machine) (out []Step) {
	p, ok := s.(*Product)
	if !ok || len(p.stages) == 0 {
		return nil
	}
	if x.Tensor == "act" {
		chunks := []int{16, 32, 64}
		if m.Group > 0 && p.weights != nil {
			chunks = []int{p.weights.RecordK}
		}
		for _, chunk := range chunks {
			if p.weights != nil && p.weights.RecordK%chunk == 0 {
				out = append(out, Pack{Tensor: "act", Chunk: chunk})
			}
		}
		return out
	}
	n := 1
	for _, name := range x.Fields {
		n *= max(loopCalled(s, name).N, 1)
	}
	if p.tables != nil {
		x.Fields = append(slices.Clone(x.Fields), digitLoop)
		n *= p.unit()
		x.Word = map[int]int{32: 4}[p.indexType().Bits()]
	}
	placements := x.placements(p)
	for _, of := range p.codings() {
		if !of.fills(n) {
			continue
		}
		y := of.Pack
		y.Tensor, y.Fields, y.Word = x.Tensor, x.Fields, x.Word
		if y.Fraction = m.Group > 0 && y.Join > 0; y.Fraction && (of.bits < 8 || y.Mirror+y.Head > 0) {
			continue
		}
		for _, y.Order = range placements {
			out = append(out, y)
			if p.Problem.Unit() > p.Problem.GroupK() && p.tables == nil {
				y.Lead = true
				out = append(out, y)
				y.Lead = false
			}
		}
	}
	return out
}

// placements are the orders that Propose tries.
func (x Pack) placements(p *Product) (out [][]string) {
	w, words := p.Problem.Weight, slices.Index(x.Order, "words")
	if words < 0 { // the caller has no words to begin with
		return nil
	}
	tiles, inner := x.Order[:words], x.Order[words:]
	var along, rows []string
	shared := -1 // behind this one of along, the codes of a group that is less than a record are complete
	for _, l := range p.main().loops {
		switch {
		case !overMatrix(l) || slices.Contains(x.Order, l.Name) || slices.Contains(x.Fields, l.Name):
		case l.Root == "m":
			rows = append(rows, l.Name)
		default:
			if along = append(along, l.Name); shared < 0 && l.N > 0 && w.Group < p.Problem.Unit() && p.fullCoef(l) == w.Group {
				shared = len(along) - 1
			}
		}
	}
	if len(rows) == 0 || len(along) == 0 {
		return nil
	}
	if p.tables != nil {
		last := inner
		if p.indexType().Bits() == 16 { // neighbouring lanes have their bytes beside each other
			last = append(slices.Clone(inner[1:]), inner[0])
		}
		if p.tables.ByBit {
			rows = slices.Insert(rows, len(rows)-1, "planes")
		}
		return [][]string{slices.Concat(tiles, along, rows, last)}
	}
	in := 1 // after the record, and the outermost loop over groups in it
	if p.Problem.GroupK() > 0 {
		in = min(2, len(along))
	}
	for cut := range len(rows) + 1 {
		order := slices.Concat(tiles, along[:in], rows[:cut], along[in:], rows[cut:], inner)
		if shared > 0 && (cut == 0 || shared < in) {
			out = append(out, slices.Insert(slices.Clone(order), len(tiles)+shared+1, sharedWord))
		}
		out = append(out, order)
	}
	return out
}
