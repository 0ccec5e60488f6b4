package format

import (
	"encoding/json"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// rowLanes is a layout for tiles of 64 rows: 4 registers of 16 lanes, 4 columns
// per lane, a record of 4*fields columns whose fields share their words.
//
//	code words: [word][register 4][lane 16][column 4], one byte each
func rowLanes(t testing.TB, bits, fields int) *Layout {
	m, words, err := DenseMap(bits, fields)
	if err != nil {
		t.Fatal(err)
	}
	return &Layout{
		TileM: 64, RecordK: 4 * fields, HeaderBytes: 256, RecordBytes: words * 256,
		Parts: []Part{
			{Name: Scales, Elem: F32, Header: true, Digits: []Digit{{Axis: "m", Div: 1, Mod: 64, Stride: 4}}},
			{
				Name: Codes, Base: 256, WordStride: 256, Map: m,
				Digits: []Digit{{Axis: "m", Div: 16, Mod: 4, Stride: 64}, {Axis: "m", Div: 1, Mod: 16, Stride: 4}, {Axis: "k", Div: 1, Mod: 4, Stride: 1}},
				Fields: []Digit{{Axis: "k", Div: 4, Mod: fields, Stride: 1}},
			},
		},
	}
}

// planes is a layout of bit planes: tiles of 32 rows, records of 8 columns, a
// byte per row and plane.
func planes(bits int) *Layout {
	return &Layout{
		TileM: 32, RecordK: 8, HeaderBytes: 128, RecordBytes: 32 * bits,
		Parts: []Part{
			{Name: Codes, Base: 128, WordStride: 32, Map: PlaneMap(bits, 8), Digits: []Digit{{Axis: "m", Div: 1, Mod: 32, Stride: 1}}, Fields: []Digit{{Axis: "k", Div: 1, Mod: 8, Stride: 1}}},
			{Name: Scales, Elem: F32, Header: true, Digits: []Digit{{Axis: "m", Div: 1, Mod: 32, Stride: 4}}},
		},
	}
}

// groups is a layout whose record is one group of 16 rows: scales, zeros if
// wanted, then a row's codes one after the other.
func groups(t testing.TB, w Weight, elem DType) *Layout {
	m, words, err := DenseMap(w.Bits, w.Group)
	if err != nil {
		t.Fatal(err)
	}
	l := &Layout{TileM: 16, RecordK: w.Group}
	at := 0
	for _, x := range w.Shared() {
		p := Part{Name: x.Name, Elem: x.Elem, Base: at}
		if x.Name == Scales {
			p.Elem = elem
		}
		p.Digits = []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: p.Elem.Bytes()}}
		l.Parts = append(l.Parts, p)
		at += 16 * p.Elem.Bytes()
	}
	l.Parts = append(l.Parts, Part{Name: Codes, Base: at, WordStride: 1, Map: m, Digits: []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: words}}, Fields: []Digit{{Axis: "k", Div: 1, Mod: w.Group, Stride: 1}}})
	l.RecordBytes = at + 16*words
	return l
}

// superBlock is a layout whose record is a whole super-block of 16 rows, or a group.
func superBlock(t testing.TB, w Weight) *Layout {
	wide := w
	wide.Group, wide.Name = w.Unit(), "wide"
	l := groups(t, wide, w.Scale)
	l.Parts = l.Parts[len(l.Parts)-1:]
	for _, x := range w.Shared() {
		n, size := l.RecordK/x.Span, x.Elem.Bytes()
		l.Parts = append(l.Parts, Part{Name: x.Name, Elem: x.Elem, Base: l.RecordBytes, Digits: []Digit{{Axis: "k", Div: x.Span, Mod: n, Stride: 16 * size}, {Axis: "m", Div: 1, Mod: 16, Stride: size}}})
		l.RecordBytes += n * 16 * size
	}
	return l
}

// joined is rowLanes of 16 rows with codewords, a cell of cells of them.
func joined(t testing.TB, levels, join, mirror, cells int) *Layout {
	c, width, err := JoinCodes(levels, join, mirror)
	if err != nil {
		t.Fatal(err)
	}
	m, words := StringMap(width, cells)
	return &Layout{
		TileM: 16, RecordK: 4 * join * cells, HeaderBytes: 64, RecordBytes: words * 64,
		Parts: []Part{
			{Name: Scales, Elem: F32, Header: true, Digits: []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: 4}}},
			{
				Name: Codes, Base: 64, WordStride: 64, Map: m, Codewords: c,
				Digits: []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: 4}, {Axis: "k", Div: 1, Mod: 4, Stride: 1}},
				Fields: []Digit{{Axis: "k", Div: 4, Mod: join * cells, Stride: 1}},
			},
		},
	}
}

// filled is joined by five in groups of 32 elements of 16 rows, filled up to 40.
func filled(t testing.TB, w Weight) *Layout {
	l := joined(t, 3, 5, 0, 1)
	scales, codes := &l.Parts[0], &l.Parts[1]
	l.RecordK, l.HeaderBytes, l.RecordBytes = w.Group, 0, 2*64+32
	*scales = Part{Name: Scales, Elem: F16, Base: 2 * 64, Digits: []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: 2}}}
	codes.Base = 0
	codes.Digits = append(codes.Digits, Digit{Axis: "k", In: 32, Div: 20, Mod: 2, Stride: 64})
	codes.Fields = []Digit{{Axis: "k", In: 32, Div: 4, Mod: 5, Stride: 1}}
	return l
}

func lookup(t testing.TB, name string) Weight {
	w, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func randomSource(w Weight, m, k int, rng *rand.Rand) Source {
	src := w.NewSource(make([]byte, m*k), m, k, func(x Shared, _ int) float32 {
		if x.Elem.Bits() == 8 {
			return x.Elem.Round(float32(rng.Intn(512) - 256))
		}
		return x.Elem.Round(HalfToFloat32(uint16(rng.Intn(0x7c00)) | uint16(rng.Intn(2))<<15))
	})
	for i := range src.Codes {
		src.Codes[i] = byte(rng.Intn(w.Codes()))
	}
	return src
}

type packCase struct {
	w Weight
	l *Layout
}

func packCases(t testing.TB) []packCase {
	var cases []packCase
	for _, name := range []string{"w1", "ternary", "w2", "w3", "w4", "w8", "iq4nl", "w2-tensor", "w2-row-f16"} {
		w := lookup(t, name)
		cases = append(cases, packCase{w, rowLanes(t, w.Bits, 8)}, packCase{w, planes(w.Bits)})
	}
	for _, name := range []string{"w4-g32", "w4-g128-f32", "w3-g16-z", "q4_0", "q8_0", "iq4_nl", "tq2_0", "q1_0"} {
		w := lookup(t, name)
		cases = append(cases, packCase{w, groups(t, w, w.Scale)}, packCase{w, groups(t, w, F32)})
	}
	for _, name := range []string{"w4-g32-s256", "w3-g16-s64-m", "w4-g32-s64-i8-z", "w4-g32-bf16-m", "w2-g16-m"} {
		w := lookup(t, name)
		cases = append(cases, packCase{w, groups(t, w, w.Scale)}, packCase{w, superBlock(t, w)})
	}
	// A group of two records, each with the scale; two groups in a record.
	w := lookup(t, "w4-g64")
	split := groups(t, lookup(t, "w4-g32"), F16)
	twice := groups(t, w, F16)
	narrow := lookup(t, "w4-g32")
	twice.Parts[0].Digits = []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: 2}, {Axis: "k", Div: 32, Mod: 2, Stride: 32}}
	twice.Parts[1].Base = 64
	twice.RecordBytes += 32
	tensor := planes(2) // one scale per tile
	tensor.Parts[1].Digits = nil
	three := lookup(t, "ternary")
	cases = append(cases, packCase{three, joined(t, 3, 5, 4, 1)}, packCase{three, joined(t, 3, 5, 0, 2)}, packCase{three, joined(t, 3, 3, 0, 3)},
		packCase{three, joined(t, 3, 2, 2, 4)}, packCase{lookup(t, "w2"), joined(t, 4, 4, 1, 1)}, packCase{lookup(t, "w1"), joined(t, 2, 8, 8, 1)})
	trits := lookup(t, "ternary-g32")
	cases = append(cases, packCase{trits, filled(t, trits)})
	return append(cases, packCase{w, split}, packCase{narrow, twice}, packCase{lookup(t, "w2-tensor"), tensor})
}

// Pack puts every bit where Address says, and Unpack is its inverse.
func TestPack(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, c := range packCases(t) {
		for _, m := range []int{1, 63, 64, 130} {
			for _, k := range []int{1, 33, 256} {
				if c.w.Per == PerGroup {
					k = (k + c.w.Unit() - 1) / c.w.Unit() * c.w.Unit()
				}
				src := randomSource(c.w, m, k, rng)
				packed, err := Pack(c.w, c.l, m, k, src)
				if err != nil {
					t.Fatalf("%s: %v", c.w, err)
				}
				checkPacked(t, c, m, k, src, packed)
				back, err := Unpack(c.w, c.l, m, k, packed)
				last := src.Row(c.w, m-1, k)
				if err := last.Check(c.w, 1, k); err != nil || last.Scaling(c.w, 0, k-1, k) != src.Scaling(c.w, m-1, k-1, k) {
					t.Fatalf("%s: the last row alone: %v", c.w, err)
				}
				if err != nil || !back.Equal(src) {
					t.Fatalf("%s %dx%d: unpacked differs, %v", c.w, m, k, err)
				}
			}
		}
	}
}

// checkPacked reads a packed buffer by the definition of Part, and that
// nothing else is in it.
func checkPacked(t *testing.T, c packCase, m, k int, src Source, packed []byte) {
	t.Helper()
	rest := slices.Clone(packed)
	tile := c.l.TileBytes(k)
	codes := c.l.Part(Codes)
	for row := range m {
		for col := range k {
			code, word := 0, 0
			for i := range codes.Map[0] {
				at, bit := c.l.BitAddress(codes, row, col, i, tile)
				word |= int(packed[at]>>bit&1) << i
				rest[at] &^= 1 << bit
			}
			if code = word; codes.Codewords != nil {
				code = codeOf(codes.Codewords, word, codes.Field(row, col)%codes.Codewords.Join)
			}
			if code != int(src.Codes[row*k+col]) {
				t.Fatalf("%s %dx%d: row %d, column %d holds %d, want %d", c.w, m, k, row, col, code, src.Codes[row*k+col])
			}
			for _, x := range c.w.Shared() {
				p, i := c.l.Part(x.Name), c.w.Index(x, row, col, k)
				at := c.l.Address(p, row, col, tile)
				got := p.Elem.Get(packed[at:])
				want := src.Number(x, i)
				if math.Float32bits(got) != math.Float32bits(want) {
					t.Fatalf("%s %dx%d: row %d, column %d has %s %v, want %v", c.w, m, k, row, col, x.Name, got, want)
				}
				clear(rest[at:][:p.Elem.Bytes()])
			}
		}
	}
	if codes.Codewords != nil {
		return // padding has codewords too
	}
	if i := slices.IndexFunc(rest, func(b byte) bool { return b != 0 }); i >= 0 {
		t.Fatalf("%s %dx%d: byte %d holds %#x of padding", c.w, m, k, i, rest[i])
	}
}

// codeOf is code i of the codes whose codeword is word, -1 if there are none.
func codeOf(c *Codewords, word, i int) int {
	code := -1
	for n, x := range c.Table {
		if int(x) == word {
			for code = n; i > 0; i-- {
				code /= c.Levels
			}
			code %= c.Levels
		}
	}
	return code
}

// Codewords are different, fit their bits, mirror as JoinCodes says, and decode.
func TestJoinCodes(t *testing.T) {
	for levels := 2; levels <= 16; levels++ {
		for join := 2; join <= 8; join++ {
			for mirror := 0; mirror <= join; mirror++ {
				c, width, err := JoinCodes(levels, join, mirror)
				if err != nil {
					continue
				}
				l := joined(t, levels, join, mirror, 1)
				if err := l.Validate(); err != nil {
					t.Fatalf("%d levels, %d mirror %d: %v", levels, join, mirror, err)
				}
				p := l.Part(Codes)
				for n, word := range c.Table {
					for i := range join {
						at := p.Unjoined()[i]
						value, used := c.Decoder(width, at[0].Word)
						code := int(value[word]) >> at[0].Bit & (1<<len(at) - 1)
						if want := codeOf(c, int(word), i); code != want || !used[word] {
							t.Fatalf("%d levels, %d mirror %d: code %d of %d is %d, want %d", levels, join, mirror, i, n, code, want)
						}
					}
					image := pow(levels, mirror) - 1 - n%pow(levels, mirror) + n/pow(levels, mirror)*pow(levels, mirror)
					if mirror > 0 && image != n && c.Table[image] != word^1<<(width-1) {
						t.Fatalf("%d levels, %d mirror %d: %d is %b, its mirror image %d %b", levels, join, mirror, n, word, image, c.Table[image])
					}
				}
			}
		}
	}
	c, width, err := JoinCodes(3, 5, 4)
	if err != nil || width != 8 || c.Words() != 2 || c.Table[0] != 0 || c.Table[40] != 3*40 || c.Table[242] != 1<<7|2 {
		t.Errorf("%d bits, %d words, %v, %v", width, c.Words(), c.Table, err)
	}
	for want, l := range map[float64]*Layout{1.6: joined(t, 3, 5, 4, 1), 16.0 / 9: joined(t, 3, 3, 0, 3), 3: rowLanes(t, 3, 8), 5: planes(5)} {
		if got := l.Part(Codes).CodeBits(); got != want {
			t.Errorf("%v bits per code, want %v", got, want)
		}
	}
	for want, err := range map[string]error{
		"codewords of 6 codes of 3 levels: there must be 2 to 8 codes, and at most 256 ways": third(JoinCodes(3, 6, 0)),
		"codewords of 1 codes of 3 levels: there must be":                                    third(JoinCodes(3, 1, 0)),
		"codewords of 8 codes of 1073741824 levels: there must be":                           third(JoinCodes(1<<30, 8, 0)),
		"3 codes to mirror; they must be some of the codes":                                  third(JoinCodes(3, 2, 3)),
		"mirrored they have 9 bits, at most 8":                                               third(JoinCodes(3, 5, 2)),
	} {
		wantError(t, want, want)(nil, err)
	}
}

// TestFractionCodes: codewords are different, decode, and a product by the number of levels has the first code above bit 8.
func TestFractionCodes(t *testing.T) {
	made := 0
	for levels := 2; levels <= 16; levels++ {
		for join := 2; join <= 8; join++ {
			c, err := FractionCodes(levels, join)
			if err != nil {
				continue
			}
			made++
			m, _ := StringMap(8, 1)
			p := &Part{Name: Codes, Map: m, Codewords: c}
			if err := c.valid(p); err != nil {
				t.Fatalf("%d levels, %d joined: %v", levels, join, err)
			}
			for n, word := range c.Table {
				x := int(word)
				for i := range join {
					x *= levels
					if code, ok := c.Code(word, i); x>>8 != n/pow(levels, i)%levels || !ok || int(code) != x>>8 {
						t.Fatalf("%d levels, %d joined: code %d of %d is %d by products, %d by the table", levels, join, i, n, x>>8, code)
					}
					x &= 255
				}
			}
			wrong := *c
			wrong.Table = slices.Clone(c.Table)
			wrong.Table[0], wrong.Table[1] = wrong.Table[1], wrong.Table[0]
			if wrong.valid(p) == nil {
				t.Errorf("%d levels, %d joined: other codewords are valid fractions", levels, join)
			}
		}
	}
	if made < 10 {
		t.Errorf("%d kinds of fractions", made)
	}
	if _, err := FractionCodes(3, 6); err == nil {
		t.Error("fractions of 729 in 8 bits")
	}
}

// TestHeadCodes: codewords are different, decode, and without two bits still tell the head.
func TestHeadCodes(t *testing.T) {
	made := 0
	for levels := 2; levels <= 16; levels++ {
		for join := 2; join <= 8; join++ {
			for head := range join + 1 {
				c, err := HeadCodes(levels, join, head)
				if err != nil {
					continue
				}
				made++
				m, _ := StringMap(8, 1)
				p := &Part{Name: Codes, Map: m, Codewords: c}
				if err := c.valid(p); err != nil || c.Words() != join {
					t.Fatalf("%d levels, %d head %d: %d words, %v", levels, join, head, c.Words(), err)
				}
				heads := map[byte]int{}
				for n, word := range c.Table {
					for i, at := range p.Unjoined() {
						value, used := c.Decoder(8, i)
						if want := codeOf(c, int(word), i); int(value[word]) != want || !used[word] || at[0] != (BitPos{Word: i}) {
							t.Fatalf("%d levels, %d head %d: code %d of %d is %d at %v, want %d", levels, join, head, i, n, value[word], at, want)
						}
					}
					of := n % pow(levels, head)
					if have, ok := heads[word>>2]; ok && have != of {
						t.Fatalf("%d levels, %d head %d: codeword %d is of heads %d and %d", levels, join, head, word, have, of)
					}
					heads[word>>2] = of
				}
			}
		}
	}
	if made < 10 {
		t.Errorf("%d of all codewords have heads", made)
	}
	if c, err := HeadCodes(3, 5, 2); err != nil || c.Table[8] != 8*28 || c.Table[9] != 1 || c.Table[242] != 250 {
		t.Errorf("%v, %v", c, err)
	}
	for want, x := range map[string][3]int{
		"codewords of 6 codes of 3 levels: there must be 2 to 8 codes":                                                    {3, 6, 2},
		"codewords of 5 codes of 3 levels: 5 codes at the head; they must be some of the codes, not all":                  {3, 5, 5},
		"codewords of 5 codes of 3 levels: 3 codes at the head make 27 times 12 codewords; at most 256, and 64 for each":  {3, 5, 3},
		"codewords of 5 codes of 3 levels: 1 codes at the head make 3 times 84 codewords; at most 256, and 64 for each":   {3, 5, 1},
		"codewords of 3 codes of 3 levels: with 1 codes at the head they would still have 5 bits, which one lookup tells": {3, 3, 1},
		"codewords of 5 codes of 3 levels: 0 codes at the head; they must be some of the codes, not all":                  {3, 5, 0},
	} {
		_, err := HeadCodes(x[0], x[1], x[2])
		wantError(t, want, want)(nil, err)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

func pow(base, n int) int {
	p := 1
	for range n {
		p *= base
	}
	return p
}

func TestPackRefusals(t *testing.T) {
	w, g := lookup(t, "ternary"), lookup(t, "w4-g32-z")
	l, lg := rowLanes(t, 2, 4), groups(t, g, F16)
	src := func(edit func(*Source)) Source {
		s := Source{Codes: make([]byte, 3*16), Scales: []float32{1, 2, 3}}
		edit(&s)
		return s
	}
	srcG := func(edit func(*Source)) Source {
		s := Source{Codes: make([]byte, 4*64), Scales: make([]float32, 8), Zeros: make([]int8, 8)}
		edit(&s)
		return s
	}
	least, two := lookup(t, "w4-g32-m"), lookup(t, "w4-g32-s64")
	nan, books := float32(math.NaN()), lookup(t, "cb2x4-g32")
	for _, c := range []struct {
		want string
		w    Weight
		l    *Layout
		m, k int
		src  Source
	}{
		{"row 2, column 1: code 3 is forbidden; weight ternary has codes 0 to 2", w, l, 3, 16, src(func(s *Source) { s.Codes[33] = 3 })},
		{"row 0, column 0: code 255 is forbidden", w, l, 3, 16, src(func(s *Source) { s.Codes[0] = 255 })},
		{"row 1: scale NaN is not finite", w, l, 3, 16, src(func(s *Source) { s.Scales[1] = nan })},
		{"argument codes: has 47 elements; a 3 by 16 matrix has 48", w, l, 3, 16, src(func(s *Source) { s.Codes = s.Codes[1:] })},
		{"argument scales: has 2 elements; a 3 by 16 matrix of ternary has 3", w, l, 3, 16, src(func(s *Source) { s.Scales = s.Scales[1:] })},
		{"argument zeros: has 3 elements; a 3 by 16 matrix of ternary has 0", w, l, 3, 16, src(func(s *Source) { s.Zeros = make([]int8, 3) })},
		{"matrix of 0 rows and 16 columns: both must be at least 1", w, l, 0, 16, Source{}},
		{"both must be at least 1", w, l, -1, -1, Source{Codes: []byte{0}}},
		{"the product must fit an int", w, l, math.MaxInt, math.MaxInt, Source{}},
		{"too large to address", w, l, 1, math.MaxInt, Source{}},
		{"row 3, block 1: scale 0.1 is not representable in f16: round it first or use f32 scales", g, lg, 4, 64, srcG(func(s *Source) { s.Scales[7] = 0.1 })},
		{"row 1, block 0: scale +Inf is not finite", g, lg, 4, 64, srcG(func(s *Source) { s.Scales[2] = float32(math.Inf(1)) })},
		{"the columns are not whole groups of 32, as weight w4-g32-z needs", g, lg, 4, 48, srcG(func(*Source) {})},
		{"row 1, block 0: book index 4; there are 4 books", books, groups(t, books, F16), 2, 32, Source{Codes: make([]byte, 64), Scales: []float32{1, 1}, Books: []byte{3, 4}}},
		{"argument books: has 0 elements; a 1 by 32 matrix of cb2x4-g32 has 1", books, groups(t, books, F16), 1, 32, Source{Codes: make([]byte, 32), Scales: []float32{1}}},
		{"argument zeros: has 0 elements", g, lg, 4, 64, srcG(func(s *Source) { s.Zeros = nil })},
		{"has 2 bits per code; weight w3 has 3", lookup(t, "w3"), l, 3, 16, src(func(*Source) {})},
		{`part "zeros" and weight w4-g32: one is there without the other`, lookup(t, "w4-g32"), lg, 4, 64, srcG(func(*Source) {})},
		{"argument mins: has 0 elements; a 1 by 32 matrix of w4-g32-m has 1", least, groups(t, least, F16), 1, 32, Source{Codes: make([]byte, 32), Scales: []float32{1}}},
		{"argument supers: has 1 elements; a 1 by 32 matrix of w4-g32-m has 0", least, groups(t, least, F16), 1, 32, Source{Codes: make([]byte, 32), Scales: []float32{1}, Mins: []float32{1}, Supers: []float32{1}}},
		{"row 0, block 0: minimum 0.1 is not representable in f16", least, groups(t, least, F16), 1, 32, Source{Codes: make([]byte, 32), Scales: []float32{1}, Mins: []float32{0.1}}},
		{"row 1, block 1: scale 256 is not one of the integers of u8", two, groups(t, two, U8), 2, 64, Source{Codes: make([]byte, 128), Scales: []float32{0, 255, 1, 256}, Supers: []float32{1, 1}}},
		{"row 1, block 0: super-scale 65505 is not representable in f16", two, groups(t, two, U8), 2, 64, Source{Codes: make([]byte, 128), Scales: []float32{0, 255, 1, 25}, Supers: []float32{1, 65505}}},
		{"the columns are not whole groups of 64, as weight w4-g32-s64 needs", two, groups(t, two, U8), 2, 32, Source{}},
		{"lies in the header, but weight ternary-g32 has one per group", lookup(t, "ternary-g32"), l, 3, 32, Source{}},
	} {
		wantError(t, c.want, c.want)(Pack(c.w, c.l, c.m, c.k, c.src))
	}
	packed, err := Pack(w, l, 3, 16, src(func(*Source) {}))
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, "unpack", "argument packed: has 511 bytes; a 3 by 16 matrix in this layout has 512")(Unpack(w, l, 3, 16, packed[1:]))
	packed[256] = 3
	wantError(t, "unpack", "row 0, column 0: code 3 is forbidden")(Unpack(w, l, 3, 16, packed))
	l = joined(t, 3, 5, 4, 1)
	if packed, err = Pack(w, l, 3, 16, src(func(*Source) {})); err != nil || packed[64+63] != 0 {
		t.Fatal(packed, err)
	}
	packed[64+4*3+3] = 255 // padding
	if _, err := Unpack(w, l, 3, 16, packed); err != nil {
		t.Fatal(err)
	}
	packed[64+4*2+3] = 255
	wantError(t, "unpack", "row 2, columns [3 7 11 15]: no codes of weight ternary have codeword 255; pack the matrix again")(Unpack(w, l, 3, 16, packed))
	wantError(t, "levels", "joins codes of 3 levels; weight w2 has 4")(Pack(lookup(t, "w2"), l, 3, 16, src(func(*Source) {})))
}

func TestLayoutRefusals(t *testing.T) {
	for want, edit := range map[string]func(*Layout){
		"tile_m 0 by record_k 32":                       func(l *Layout) { l.TileM = 0 },
		"their product at most 1048576":                 func(l *Layout) { l.TileM = 1 << 19 },
		"header_bytes is -1":                            func(l *Layout) { l.HeaderBytes = -1 },
		"record_bytes is 99999999":                      func(l *Layout) { l.RecordBytes = 99999999 },
		"has 0 parts":                                   func(l *Layout) { l.Parts = nil },
		`layout part "codes": there are two parts`:      func(l *Layout) { l.Parts = append(l.Parts, l.Parts[1]) },
		"has neither elem nor a map":                    func(l *Layout) { l.Parts[1].Map = nil },
		"has whole elements (elem f32) and also fields": func(l *Layout) { l.Parts[0].WordStride = 1 },
		`digit of axis "q"; there are m, n and k`:       func(l *Layout) { l.Parts[1].Digits[0].Axis = "q" },
		"digit m/16%0; div and mod must be at least 1":  func(l *Layout) { l.Parts[1].Digits[0].Mod = 0 },
		"digit m%48/16%2; div and mod":                  func(l *Layout) { l.Parts[1].Digits[0].In, l.Parts[1].Digits[0].Mod = 48, 2 },
		"digit m%-64/16%4; div and mod":                 func(l *Layout) { l.Parts[1].Digits[0].In = -64 },
		"digit m/16%8; div and mod":                     func(l *Layout) { l.Parts[1].Digits[0].Mod = 8 },
		"it can have no k digit":                        func(l *Layout) { l.Parts[0].Digits[0].Axis = "k" },
		"row 0, k 16 has field 4; the map has 4":        func(l *Layout) { l.Parts[1].Map = l.Parts[1].Map[:4] },
		"row 0, k 0 lies at byte 252, outside bytes 256 to 1280 of the record; base counts from the tile's start and includes header_bytes": func(l *Layout) { l.Parts[1].Base = 252 },
		"row 63, k 0 lies at byte 256, outside bytes 0 to 256 of the header":                                                                func(l *Layout) { l.Parts[0].Base = 4 },
		"row 1, k 0 shares byte 2 with part \"scales\"":                                                                                     func(l *Layout) { l.Parts[0].Digits[0].Stride = 2 },
		"shares bit 0 of byte 257 with part \"codes\"":                                                                                      func(l *Layout) { l.Parts[1].Digits[1].Stride = 1 },
		"field 0: bit 8 of word 0":             func(l *Layout) { l.Parts[1].Map[0][0].Bit = 8 },
		"field 3 has 3 bits; every field must": func(l *Layout) { l.Parts[1].Map[3] = l.Parts[1].Map[3][:3] },
	} {
		l := rowLanes(t, 4, 8)
		edit(l)
		wantError(t, want, want)(nil, l.Validate())
	}
}

func TestCodewordRefusals(t *testing.T) {
	for want, edit := range map[string]func(*Layout){
		"has whole elements (elem f32) and also":                     func(l *Layout) { l.Parts[0].Codewords = l.Parts[1].Codewords },
		"joins 1 codes; it must be 2 to 8":                           func(l *Layout) { l.Parts[1].Codewords.Join = 1 },
		"joins 5 codes of 1073741824 levels; there must be 4 to 256": func(l *Layout) { l.Parts[1].Codewords.Levels = 1 << 30 },
		"has 0 codewords for 5 codes of 3 levels, which are 243":     func(l *Layout) { l.Parts[1].Codewords.Table = nil },
		"codes 1 and 2 have the same codeword, 3":                    func(l *Layout) { l.Parts[1].Codewords.Table[2] = l.Parts[1].Codewords.Table[1] },
		"codeword 245 does not fit 7 bits":                           func(l *Layout) { l.Parts[1].Map[0] = l.Parts[1].Map[0][:7] },
		"row 0, k 4 has field 5; the map has 5": func(l *Layout) {
			l.Parts[1].Fields[0].Stride, l.Parts[1].Fields[0].Mod = 5, 5
			l.Parts[1].Fields[0].Div = 4
		},
		"row 0, k 4 shares code 0 of the codeword at byte 64 with ano": func(l *Layout) { l.Parts[1].Fields = nil },
		"shares bit 0 of byte 64 with part \"codes\"": func(l *Layout) {
			l.Parts[1].Map = append(l.Parts[1].Map, l.Parts[1].Map[0])
			l.Parts[1].Fields[0].Stride, l.Parts[1].Digits[1].Mod = 2, 4
		},
	} {
		l := joined(t, 3, 5, 4, 1)
		edit(l)
		wantError(t, want, want)(nil, l.Validate())
	}
}

func TestFits(t *testing.T) {
	w := lookup(t, "w4-g32")
	for want, edit := range map[string]func(*Layout){
		`has no part "codes" with a bit map`:            func(l *Layout) { l.Parts[1].Name = "bits" },
		`has no part "scales"`:                          func(l *Layout) { l.Parts[0].Name = "sums" },
		"elem is i32; it must be one of [f16 bf16 f32]": func(l *Layout) { l.Parts[0].Elem = I32; l.Parts[0].Digits[0].Stride = 0 },
		"and so does another scale":                     func(l *Layout) { l.Parts[0].Digits = nil },
	} {
		l := groups(t, w, F16)
		edit(l)
		wantError(t, want, want)(nil, l.Fits(w))
	}
	wantError(t, "group", "record_k 32 is neither a multiple nor a divisor of the group of 48")(nil, groups(t, w, F16).Fits(lookup(t, "w4-g48")))
}

func TestDenseMap(t *testing.T) {
	m, words, err := DenseMap(3, 8)
	want := [][]BitPos{
		{{0, 0}, {0, 1}, {0, 2}}, {{0, 3}, {0, 4}, {0, 5}},
		{{1, 0}, {1, 1}, {1, 2}}, {{1, 3}, {1, 4}, {1, 5}},
		{{2, 0}, {2, 1}, {2, 2}}, {{2, 3}, {2, 4}, {2, 5}},
		{{1, 7}, {0, 6}, {0, 7}}, {{2, 6}, {2, 7}, {1, 6}},
	}
	if err != nil || words != 3 || !reflect.DeepEqual(m, want) {
		t.Errorf("3 bits: %v %d %v", m, words, err)
	}
	for bits := 1; bits <= 8; bits++ {
		fields := 8 / (bits & -bits)
		for _, n := range []int{fields, 2 * fields, 16 * fields} {
			m, words, err := DenseMap(bits, n)
			if err != nil || len(m) != n || words*8 != n*bits {
				t.Fatalf("%d bits: %d fields in %d words, %v", bits, len(m), words, err)
			}
			seen := map[BitPos]bool{}
			for _, code := range append(m, PlaneMap(bits, 8)...) {
				if len(code) != bits {
					t.Fatalf("%d bits: a field of %d", bits, len(code))
				}
			}
			for _, code := range m {
				for _, b := range code {
					seen[b] = true
				}
			}
			if len(seen) != words*8 {
				t.Errorf("%d bits, %d fields: %d of %d bits used", bits, n, len(seen), words*8)
			}
		}
	}
	if _, _, err := DenseMap(3, 4); err == nil || !strings.Contains(err.Error(), "use a multiple of 8 fields") {
		t.Error(err)
	}
	wantError(t, "bits", "bits must be 1 to 8")(first(DenseMap(9, 8)))
	wantError(t, "fields", "fields must be 1 to")(first(DenseMap(4, 0)))
}

func first[A, B any](a A, _ B, err error) (A, error) { return a, err }

func TestPackedBytes(t *testing.T) {
	l := rowLanes(t, 4, 8)
	for _, c := range []struct{ m, k, want int }{{1, 1, 256 + 1024}, {64, 32, 256 + 1024}, {65, 33, 2 * (256 + 2048)}, {math.MaxInt, 1, 0}, {1, math.MaxInt, 0}, {math.MaxInt >> 8, math.MaxInt >> 8, 0}, {0, 1, 0}, {1, -1, 0}} {
		got, err := l.PackedBytes(c.m, c.k)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%d by %d: %d, %v; want %d", c.m, c.k, got, err, c.want)
		}
	}
}

func TestHash(t *testing.T) {
	a, b := planes(2), planes(2)
	a.Parts[1].Digits, b.Parts[1].Digits = nil, []Digit{}
	if a.Hash() != b.Hash() || len(a.Hash()) != 16 {
		t.Error(a.Hash(), b.Hash())
	}
	if a.Hash() == planes(2).Hash() || a.Parts[1].Digits != nil {
		t.Error("a different layout has an equal hash, or Hash edits its layout")
	}
	// Saved buffers carry this: it may not change.
	if got, want := planes(2).Hash(), "a667a7c190d147fc"; got != want {
		t.Errorf("hash of planes(2) is %s, was %s", got, want)
	}
}

func TestLayoutJSON(t *testing.T) {
	for _, c := range packCases(t) {
		text, err := json.Marshal(c.l)
		if err != nil {
			t.Fatal(err)
		}
		var back Layout
		if err := json.Unmarshal(text, &back); err != nil || back.Hash() != c.l.Hash() {
			t.Errorf("%s: %v", text, err)
		}
	}
	var l Layout
	for text, want := range map[string]string{
		`{"tilem":3}`:                           `unknown field "tilem"`,
		`{"Tile_m":3}`:                          `unknown field "Tile_m"`,
		`{"tile_m":1,"parts":[],"tile_m":2}`:    `field "tile_m" is there twice`,
		`{"parts":[{"map":[[{"Word":1}]]}]}`:    `unknown field "Word"`,
		`{"parts":[{"codewords":{"Join":5}}]}`:  `unknown field "Join"`,
		`{"parts":[{"digits":{"a":1,"a":[]}}]}`: `field "a" is there twice`,
	} {
		wantError(t, text, want)(nil, json.Unmarshal([]byte(text), &l))
	}
	wantError(t, "null", "tile_m 0")(nil, l.UnmarshalJSON([]byte("null")))
}

// Whatever decodes is valid, keeps its hash, and packs one element if it fits a format.
func FuzzLayoutJSON(f *testing.F) {
	for _, c := range packCases(f) {
		text, _ := json.Marshal(c.l)
		f.Add(text)
	}
	w, _ := Lookup("w2")
	f.Fuzz(func(t *testing.T, text []byte) {
		var l, again Layout
		if json.Unmarshal(text, &l) != nil {
			return
		}
		back, err := json.Marshal(&l)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(back, &again); err != nil || again.Hash() != l.Hash() {
			t.Fatalf("%s: %v", back, err)
		}
		if l.Fits(w) != nil {
			return
		}
		packed, err := Pack(w, &l, 1, 1, Source{Codes: []byte{2}, Scales: []float32{1.5}})
		if err != nil {
			t.Fatal(err)
		}
		if src, err := Unpack(w, &l, 1, 1, packed); err != nil || src.Codes[0] != 2 || src.Scales[0] != 1.5 {
			t.Fatalf("%v, %v", src, err)
		}
	})
}

func BenchmarkPack(b *testing.B) {
	for _, c := range []struct {
		name string
		l    *Layout
	}{{"w2", rowLanes(b, 2, 4)}, {"w3", rowLanes(b, 3, 8)}, {"w4", rowLanes(b, 4, 8)}, {"w4", planes(4)}, {"w8", rowLanes(b, 8, 4)}} {
		w := lookup(b, c.name)
		const m, k = 1024, 1024
		src := randomSource(w, m, k, rand.New(rand.NewSource(1)))
		packed, err := Pack(w, c.l, m, k, src)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/pack", func(b *testing.B) {
			for b.Loop() {
				Pack(w, c.l, m, k, src)
			}
			b.ReportMetric(float64(b.N)*m*k/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
		b.Run(c.name+"/unpack", func(b *testing.B) {
			for b.Loop() {
				Unpack(w, c.l, m, k, packed)
			}
			b.ReportMetric(float64(b.N)*m*k/b.Elapsed().Seconds()/1e6, "Mweights/s")
		})
	}
}
