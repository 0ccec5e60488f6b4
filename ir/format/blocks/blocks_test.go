package blocks

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand"
	randv2 "math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/gguf"
)

func open(t testing.TB, name string) *gguf.File {
	f, err := gguf.Open(filepath.Join("../../../testdata/gguf", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func content(t testing.TB, x *gguf.Tensor) []byte {
	b, err := x.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type matrix struct {
	name string
	typ  string
	m, k int
	data []byte
	ref  []byte // ggml's dequantization, f32
}

// matrices are all tensors of the test data that a row of the table reads and
// for which there is a dequantization.
func matrices(t testing.TB) []matrix {
	var all []matrix
	for _, file := range []string{"blocks.gguf", "blocks-i2s.gguf"} {
		f := open(t, file)
		for i := range f.Tensors {
			x := &f.Tensors[i]
			if ref := f.Tensor(x.Name + ".ref"); ref != nil && slices.Contains(Types(), x.TypeName()) {
				all = append(all, matrix{x.Name, x.TypeName(), x.Shape[1], x.Shape[0], content(t, x), content(t, ref)})
			}
		}
	}
	if want := 2*(len(Types())-3) + 1; len(all) != want { // I2_S has no raw one, and one of its layouts
		t.Fatalf("%d matrices, want %d", len(all), want)
	}
	return all
}

// Every weight has the bits that ggml's dequantization has.
func TestDequantize(t *testing.T) {
	for _, x := range matrices(t) {
		w, src, err := Read(x.typ, x.data, x.m, x.k)
		if err != nil {
			t.Errorf("%s: %v", x.name, err)
			continue
		}
		row := make([]float32, x.k)
		for r := range x.m {
			if err := w.Dequantize(row, src.Row(w, r, x.k)); err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			for i, v := range row {
				want := binary.LittleEndian.Uint32(x.ref[4*(r*x.k+i):])
				one := src.Value(w, r, i, x.k)
				if math.Float32bits(v) != want || math.Float32bits(one) != want {
					t.Fatalf("%s: row %d, column %d is %v, by ggml %v", x.name, r, i, v, math.Float32frombits(want))
				}
			}
		}
	}
}

// rowLanes is a layout of tiles of 64 rows: 4 registers of 16 lanes, 4 columns
// per lane, fields innermost; what weights share leads each record.
func rowLanes(t testing.TB, w format.Weight, scale format.DType, record int) *format.Layout {
	fields := 8
	if 8%w.Bits == 0 {
		fields = 8 / w.Bits
	}
	m, words, err := format.DenseMap(w.Bits, fields)
	if err != nil {
		t.Fatal(err)
	}
	chunk := 4 * fields // columns that share their words
	parts, shared := sharedParts(w, scale, 0, 64, record)
	return &format.Layout{
		TileM: 64, RecordK: record, RecordBytes: shared + 256*words*record/chunk,
		Parts: append(parts, format.Part{
			Name: format.Codes, Base: shared, WordStride: 256, Map: m,
			Digits: []format.Digit{
				{Axis: "k", Div: chunk, Mod: record / chunk, Stride: 256 * words},
				{Axis: "m", Div: 16, Mod: 4, Stride: 64},
				{Axis: "m", Div: 1, Mod: 16, Stride: 4},
				{Axis: "k", Div: 1, Mod: 4, Stride: 1},
			},
			Fields: []format.Digit{{Axis: "k", Div: 4, Mod: fields, Stride: 1}},
		}),
	}
}

// planes is a layout of bit planes: tiles of 32 rows, 8 columns to a byte; what
// weights share comes last.
func planes(w format.Weight, scale format.DType, record int) *format.Layout {
	codes := 32 * record * w.Bits / 8
	parts, shared := sharedParts(w, scale, codes, 32, record)
	return &format.Layout{
		TileM: 32, RecordK: record, RecordBytes: codes + shared,
		Parts: append(parts, format.Part{
			Name: format.Codes, WordStride: 32, Map: format.PlaneMap(w.Bits, 8),
			Digits: []format.Digit{{Axis: "k", Div: 8, Mod: record / 8, Stride: 32 * w.Bits}, {Axis: "m", Div: 1, Mod: 32, Stride: 1}},
			Fields: []format.Digit{{Axis: "k", Div: 1, Mod: 8, Stride: 1}},
		}),
	}
}

// sharedParts are the parts of what weights share, each in order of k and then m,
// from base in the record, and their size. Scales are of type scale.
func sharedParts(w format.Weight, scale format.DType, base, rows, record int) ([]format.Part, int) {
	var parts []format.Part
	size := 0
	for _, x := range w.Shared() {
		elem, span := x.Elem, record
		if x.Name == format.Scales {
			elem = scale
		}
		if x.Span > 0 {
			span = min(x.Span, record)
		}
		parts = append(parts, format.Part{Name: x.Name, Elem: elem, Base: base + size, Digits: []format.Digit{
			{Axis: "k", Div: span, Mod: record / span, Stride: rows * elem.Bytes()},
			{Axis: "m", Div: 1, Mod: rows, Stride: elem.Bytes()},
		}})
		size += record / span * rows * elem.Bytes()
	}
	return parts, size
}

// What Read reads survives packing in several layouts, codes and scale bits.
func TestPack(t *testing.T) {
	for _, x := range matrices(t) {
		w, src, err := Read(x.typ, x.data, x.m, x.k)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		wide := w.Scale // a type that holds the scales too
		if w.Super == 0 {
			wide = format.F32
		}
		group, half := max(w.Group, 32), max(w.Group/2, 32)
		for name, l := range map[string]*format.Layout{
			"row lanes":         rowLanes(t, w, w.Scale, group),
			"row lanes, wide":   rowLanes(t, w, wide, group),
			"row lanes, halves": rowLanes(t, w, w.Scale, half),
			"row lanes, super":  rowLanes(t, w, w.Scale, max(w.Super, group)),
			"planes":            planes(w, w.Scale, group),
		} {
			packed, err := format.Pack(w, l, x.m, x.k, src)
			if err != nil {
				t.Fatalf("%s, %s: %v", x.name, name, err)
			}
			back, err := format.Unpack(w, l, x.m, x.k, packed)
			if err != nil || !sameSource(back, src) {
				t.Errorf("%s, %s: unpacked differs, %v", x.name, name, err)
			}
		}
	}
}

func sameSource(a, b format.Source) bool {
	return slices.Equal(a.Codes, b.Codes) && slices.EqualFunc(a.Scales, b.Scales, sameBits) && slices.EqualFunc(a.Mins, b.Mins, sameBits) &&
		slices.EqualFunc(a.Supers, b.Supers, sameBits) && slices.EqualFunc(a.SuperMins, b.SuperMins, sameBits)
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// Each row of the table uses every bit of a block once, and matches its format.
func TestTable(t *testing.T) {
	for _, b := range table {
		w := b.weight()
		if w.Per == format.PerGroup && (b.Values%w.Unit() != 0 || b.Rows > 1) || b.Super.bits != nil && (w.Super == 0) != (b.Unit != 0) {
			t.Errorf("%s: blocks of %d values, unit %v, do not hold %+v", b.Type, b.Values, b.Unit, w)
		}
		for _, p := range b.Codes.places(b.Values * max(b.Rows, 1)).pieces {
			if slices.ContainsFunc(p.at, func(at int32) bool { return int(at%8)+p.width > 8 }) {
				t.Errorf("%s: a piece of a code lies in two bytes", b.Type)
			}
		}
		used := make([]int, 8*b.Bytes)
		for _, p := range b.pieces(w) {
			for _, at := range p.at {
				for bit := range p.width {
					used[int(at)+bit]++
				}
			}
		}
		for bit, n := range used {
			if n != 1 {
				t.Errorf("%s: bit %d is used %d times", b.Type, bit, n)
				break
			}
		}
		for id := gguf.Type(0); id < 64; id++ {
			if values, bytes, ok := id.Block(); ok && id.String() == b.Type && (values != b.Values || bytes != b.Bytes) {
				t.Errorf("%s: %d values in %d bytes; gguf says %d in %d", b.Type, b.Values, b.Bytes, values, bytes)
			}
		}
	}
}

// pieces are the places of everything in a block.
func (b Block) pieces(w format.Weight) []placed {
	var all []placed
	add := func(f field, count int) {
		for _, p := range f.places(count).pieces {
			p.at = slices.Compact(p.at) // a sign may be that of several vectors
			all = append(all, p)
		}
	}
	switch {
	case b.Grid != nil:
		add(b.Grid.Index, b.Values/b.Grid.Vector)
		add(b.Grid.Signs, b.Values/8)
	case b.Trits != nil:
		for _, x := range b.Trits {
			add(field{bits(8, 8*x.Offset, k(1, x.Bytes, 8))}, x.Bytes)
		}
	default:
		add(b.Codes, b.Values*max(b.Rows, 1))
	}
	if w.Per == format.PerGroup {
		add(b.Scale.bits, b.Values/w.Group)
		add(b.Min.bits, b.Values/w.Group)
		add(b.Super.bits, 1)
		add(b.SuperMin.bits, 1)
	}
	return all
}

func TestRefusals(t *testing.T) {
	with := func(size int, set map[int]byte) []byte {
		data := make([]byte, size)
		for at, b := range set {
			data[at] = b
		}
		return data
	}
	for _, c := range []struct {
		want, typ string
		data      []byte
		m, k      int
	}{
		{"type Q8_K: is not one that can be read as codes and scales; there are Q4_0 Q4_1", "Q8_K", nil, 1, 256},
		{"row 1, block 1: element 160 has code 3, which TQ2_0 forbids; codes are 0 to 2", "TQ2_0", with(6*66, map[int]byte{3*66 + 32: 3 << 2}), 3, 512},
		{"row 2, block 0: scale NaN is not finite", "TQ2_0", with(6*66, map[int]byte{4*66 + 64: 1, 4*66 + 65: 0x7c}), 3, 512},
		{"row 0, block 0: scale -Inf is not finite", "TQ2_0", with(6*66, map[int]byte{65: 0xfc}), 3, 512},
		{"row 1, block 0: super-scale +Inf is not finite", "Q6_K", with(3*210, map[int]byte{210 + 209: 0x7c}), 3, 256},
		{"row 0, block 1: super-minimum NaN is not finite", "Q4_K", with(2*144, map[int]byte{144 + 3: 0xfe}), 1, 512},
		{"row 1, block 0: minimum -Inf is not finite", "Q5_1", with(2*24, map[int]byte{24 + 3: 0x7c}), 2, 32},
		{"row 0, block 1: scale +Inf is not finite", "IQ2_XS", with(2*74, map[int]byte{74 + 1: 0x7c}), 1, 512},
		{"row 1, block 0: scale +Inf is not finite", "IQ1_M", with(2*56, map[int]byte{56 + 55: 0x7f, 56 + 53: 0xc0}), 2, 256},
		{"row 4, block 5: element 2 has code 3, which I2_S:rows4 forbids", "I2_S:rows4", with(2*70+32, map[int]byte{75: 3 << 2}), 8, 70},
		{"are not whole blocks of 128; if it was written in another layout, read it as I2_S:arm-64 or I2_S:rows4", "I2_S", nil, 4, 64},
		{"the rows are not whole blocks of 4; if it was written in another layout", "I2_S:rows4", nil, 3, 128},
		{"argument data: has 17 bytes; a Q4_0 matrix of 1 rows and 32 columns has 18", "Q4_0", make([]byte, 17), 1, 32},
		{"Q4_0 matrix of 1 rows and 48 columns: the columns are not whole blocks of 32", "Q4_0", make([]byte, 27), 1, 48},
		{"both must be at least 1", "Q8_0", nil, 0, 32},
		{"the product must fit an int", "Q8_0", nil, math.MaxInt / 32, 1 << 20},
		{"tensor: scale +Inf is not finite", "I2_S", with(64, map[int]byte{34: 0x80, 35: 0x7f}), 1, 128},
	} {
		_, _, err := Read(c.typ, c.data, c.m, c.k)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}

// Any bytes are read or refused, and a matrix that was read is valid.
func FuzzRead(f *testing.F) {
	for i, b := range table {
		f.Add(uint8(i), make([]byte, b.Bytes))
		f.Add(uint8(i), bytes.Repeat([]byte{0x5b}, b.Bytes))
	}
	f.Fuzz(func(t *testing.T, which uint8, seed []byte) {
		b := table[int(which)%len(table)]
		m, k := 2*max(b.Rows, 1), 2*b.Values
		size, err := b.Size(m, k)
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, size)
		for i := range data {
			if len(seed) > 0 {
				data[i] = seed[i%len(seed)]
			}
		}
		w, src, err := Read(b.Type, data, m, k)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %v", err)
			}
			return
		}
		if err := src.Check(w, m, k); err != nil {
			t.Errorf("%s: read, but %v", b.Type, err)
		}
	})
}

// The layouts of I2_S hold the same codes at other places.
func TestLayouts(t *testing.T) {
	const m, k = 8, 192
	rng := rand.New(rand.NewSource(1))
	codes := make([]byte, m*k)
	for i := range codes {
		codes[i] = byte(rng.Intn(3))
	}
	tail := append([]byte{0, 0, 0x20, 0x3f}, make([]byte, 28)...) // 0.625
	for name, place := range map[string]func(row, col int) (at, shift int){
		"I2_S:arm-64": func(row, col int) (at, shift int) { return (row*k+col)/64*16 + col%16, 6 - 2*(col%64/16) },
		"I2_S:rows4":  func(row, col int) (at, shift int) { return row/4*k + col, 6 - 2*(row%4) },
	} {
		data := make([]byte, m*k/4)
		for i, c := range codes {
			at, shift := place(i/k, i%k)
			data[at] |= c << shift
		}
		w, src, err := Read(name, append(data, tail...), m, k)
		if err != nil || w.Name != "ternary-tensor" || !slices.Equal(src.Codes, codes) || !slices.Equal(src.Scales, []float32{0.625}) {
			t.Errorf("%s: %s %v, %v", name, w, src.Scales, err)
		}
	}
	var names []string
	for _, b := range Layouts("I2_S") {
		names = append(names, b.Type)
	}
	if want := []string{"I2_S", "I2_S:arm-64", "I2_S:rows4"}; !slices.Equal(names, want) {
		t.Errorf("layouts %v, want %v", names, want)
	}
}

// The scales of the FP4 types, at the ends of their ranges.
func TestFP4Scales(t *testing.T) {
	for _, c := range []struct {
		as   func(uint32) float32
		bits uint32
		want float32
	}{
		{e8m0, 0, 0x1p-128}, {e8m0, 1, 0x1p-127}, {e8m0, 127, 0.5}, {e8m0, 255, 0x1p127},
		{ue4m3, 0, 0}, {ue4m3, 1, 0x1p-10}, {ue4m3, 7, 7 * 0x1p-10}, {ue4m3, 8, 0x1p-7}, {ue4m3, 0x38, 0.5},
		{ue4m3, 0x7e, 224}, {ue4m3, 0x7f, 0}, {ue4m3, 0xb8, 0.5}, {ue4m3, 0xff, 240},
	} {
		if got := c.as(c.bits); got != c.want {
			t.Errorf("%#x is %v, want %v", c.bits, got, c.want)
		}
	}
}

// Every index of a grid has an entry, and entries ascend.
func TestGrids(t *testing.T) {
	for _, b := range table {
		if b.Grid == nil {
			continue
		}
		entries := b.Grid.Entries()
		if len(entries) != 1<<b.Grid.Index.width() || !slices.IsSorted(entries) || len(slices.Compact(slices.Clone(entries))) != len(entries) {
			t.Errorf("%s: %d entries for %d bits of index, or not ascending", b.Type, len(entries), b.Grid.Index.width())
		}
		width, digits := 16/b.Grid.Vector, len(b.Grid.Codes[0])
		for _, e := range entries {
			for j := range b.Grid.Vector {
				if d := int(e) >> (j * width) & (1<<width - 1); d >= digits {
					t.Fatalf("%s: an entry has digit %d; there are %d", b.Type, d, digits)
				}
			}
		}
	}
}

// Random blocks of every type can be read, hold every code and no unusual scale,
// and are the same for the same seed.
func TestRandom(t *testing.T) {
	for _, typ := range Types() {
		const m, k = 8, 1024
		data, err := Random(randv2.New(randv2.NewPCG(1, 2)), typ, m, k)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Random(randv2.New(randv2.NewPCG(1, 2)), typ, m, k); !bytes.Equal(data, again) {
			t.Errorf("%s: another matrix of the same seed", typ)
		}
		w, src, err := Read(typ, data, m, k)
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		codes := slices.Compact(slices.Sorted(slices.Values(src.Codes)))
		if len(codes) != len(w.Levels) {
			t.Errorf("%s: %d codes of %d", typ, len(codes), len(w.Levels))
		}
		scales := src.Scales
		if src.Supers != nil {
			scales = src.Supers
		}
		for _, s := range scales {
			if s == 0 || math.Abs(float64(s)) > 1 {
				t.Errorf("%s: scale %v", typ, s)
			}
		}
	}
	if _, err := Random(randv2.New(randv2.NewPCG(1, 2)), "Q4_0", 1, 33); err == nil {
		t.Error("a row of 33 in blocks of 32")
	}
}

// TestReader: rows are the same read in pieces in any order, by a reader that keeps its memory, as all at once.
func TestReader(t *testing.T) {
	for _, typ := range Types() {
		const m, k = 16, 1024
		data, err := Random(randv2.New(randv2.NewPCG(1, 2)), typ, m, k)
		if err != nil {
			t.Fatal(err)
		}
		w, all, err := Read(typ, data, m, k)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewReader(typ, bytes.NewReader(data), m, k)
		if err != nil || !reflect.DeepEqual(r.Weight(), w) {
			t.Fatalf("%s: %v, %v", typ, r.Weight(), err)
		}
		for _, rows := range [][2]int{{8, 12}, {0, 16}, {4, 8}, {12, 16}} {
			src, err := r.Rows(rows[0], rows[1])
			if want := all.Rows(w, rows[0], rows[1], k); err != nil || !sameSource(src, want) {
				t.Errorf("%s: rows %v: %v, or other weights", typ, rows, err)
			}
		}
		if _, err := r.Rows(0, 17); err == nil {
			t.Errorf("%s: no error of rows that there are not", typ)
		}
		short, err := NewReader(typ, bytes.NewReader(data[:len(data)/2]), m, k)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := short.Rows(12, 16); err == nil || !strings.Contains(err.Error(), "reading") {
			t.Errorf("%s: %v of data that ends", typ, err)
		}
	}
}
