package blocks

import (
	"encoding/binary"
	"math"
	"path/filepath"
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
	if want := 2*len(Types()) - 1; len(all) != want { // I2_S has no raw one
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
				one := w.Value(src.Codes[r*x.k+i], src.Scaling(w, r, i, x.k))
				if math.Float32bits(v) != want || math.Float32bits(one) != want {
					t.Fatalf("%s: row %d, column %d is %v, by ggml %v", x.name, r, i, v, math.Float32frombits(want))
				}
			}
		}
	}
}

// rowLanes is a layout of tiles of 64 rows: 4 registers of 16 lanes, 4 columns
// per lane, fields of a byte innermost; the scales lead each record.
func rowLanes(t testing.TB, w format.Weight, elem format.DType, record int) *format.Layout {
	fields := 8 / w.Bits
	m, words, err := format.DenseMap(w.Bits, fields)
	if err != nil {
		t.Fatal(err)
	}
	chunk := 4 * fields // columns that share their words
	scales := 64 * elem.Bytes()
	return &format.Layout{
		TileM: 64, RecordK: record, RecordBytes: scales + 64*record*w.Bits/8,
		Parts: []format.Part{
			{Name: format.Scales, Elem: elem, Digits: []format.Digit{{Axis: "m", Div: 1, Mod: 64, Stride: elem.Bytes()}}},
			{
				Name: format.Codes, Base: scales, WordStride: 256, Map: m,
				Digits: []format.Digit{
					{Axis: "k", Div: chunk, Mod: record / chunk, Stride: 256 * words},
					{Axis: "m", Div: 16, Mod: 4, Stride: 64},
					{Axis: "m", Div: 1, Mod: 16, Stride: 4},
					{Axis: "k", Div: 1, Mod: 4, Stride: 1},
				},
				Fields: []format.Digit{{Axis: "k", Div: 4, Mod: fields, Stride: 1}},
			},
		},
	}
}

// planes is a layout of bit planes: tiles of 32 rows, 8 columns to a byte, the
// scales last.
func planes(w format.Weight, elem format.DType, record int) *format.Layout {
	codes := 32 * record * w.Bits / 8
	return &format.Layout{
		TileM: 32, RecordK: record, RecordBytes: codes + 32*elem.Bytes(),
		Parts: []format.Part{
			{
				Name: format.Codes, WordStride: 32, Map: format.PlaneMap(w.Bits),
				Digits: []format.Digit{{Axis: "k", Div: 8, Mod: record / 8, Stride: 32 * w.Bits}, {Axis: "m", Div: 1, Mod: 32, Stride: 1}},
				Fields: []format.Digit{{Axis: "k", Div: 1, Mod: 8, Stride: 1}},
			},
			{Name: format.Scales, Elem: elem, Base: codes, Digits: []format.Digit{{Axis: "m", Div: 1, Mod: 32, Stride: elem.Bytes()}}},
		},
	}
}

// What Read reads survives packing in several layouts, codes and scale bits.
func TestPack(t *testing.T) {
	for _, x := range matrices(t) {
		w, src, err := Read(x.typ, x.data, x.m, x.k)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		group, half := max(w.Group, 32), max(w.Group/2, 32)
		for name, l := range map[string]*format.Layout{
			"row lanes":         rowLanes(t, w, w.Scale, group),
			"row lanes, f32":    rowLanes(t, w, format.F32, group),
			"row lanes, halves": rowLanes(t, w, w.Scale, half),
			"planes":            planes(w, w.Scale, group),
		} {
			packed, err := format.Pack(w, l, x.m, x.k, src)
			if err != nil {
				t.Fatalf("%s, %s: %v", x.name, name, err)
			}
			back, err := format.Unpack(w, l, x.m, x.k, packed)
			if err != nil || !slices.Equal(back.Codes, src.Codes) || !slices.EqualFunc(back.Scales, src.Scales, sameBits) {
				t.Errorf("%s, %s: unpacked differs, %v", x.name, name, err)
			}
		}
	}
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// Each row of the table uses every bit at most once, inside its block, and
// matches its format.
func TestTable(t *testing.T) {
	for _, b := range table {
		w, err := format.Lookup(b.Weight)
		if err != nil {
			t.Fatal(err)
		}
		if w.Per == format.PerGroup && (w.Group != b.Values || w.Scale != format.F16) {
			t.Errorf("%s: blocks of %d, %s has %d and %s scales", b.Type, b.Values, w, w.Group, w.Scale)
		}
		used := map[int]bool{}
		for i, p := range b.places() {
			for bit := range w.Bits {
				at := p.at*8 + p.shift + bit
				if used[at] || at < 0 || at >= 8*b.Bytes || p.shift+w.Bits > 8 || b.Tail == 0 && at/16 == b.Scale/2 {
					t.Errorf("%s: bit %d of element %d lies at %d", b.Type, bit, i, at)
				}
				used[at] = true
			}
		}
		for id := gguf.Type(0); id < 64; id++ {
			if values, bytes, ok := id.Block(); ok && id.String() == b.Type && (values != b.Values || bytes != b.Bytes) {
				t.Errorf("%s: %d values in %d bytes; gguf says %d in %d", b.Type, b.Values, b.Bytes, values, bytes)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	tq2 := func(edit func([]byte)) []byte {
		data := make([]byte, 3*2*66)
		edit(data)
		return data
	}
	for _, c := range []struct {
		want, typ string
		data      []byte
		m, k      int
	}{
		{"type Q4_K: is not one that can be read as codes and scales; there are Q4_0 IQ4_NL", "Q4_K", nil, 1, 256},
		{"row 1, block 1: element 160 has code 3, which TQ2_0 forbids; codes are 0 to 2", "TQ2_0", tq2(func(b []byte) { b[3*66+32] = 3 << 2 }), 3, 512},
		{"row 2, block 0: scale NaN is not finite", "TQ2_0", tq2(func(b []byte) { b[4*66+64], b[4*66+65] = 1, 0x7c }), 3, 512},
		{"row 0, block 0: scale -Inf is not finite", "TQ2_0", tq2(func(b []byte) { b[65] = 0xfc }), 3, 512},
		{"argument data: has 17 bytes; a Q4_0 matrix of 1 rows and 32 columns has 18", "Q4_0", make([]byte, 17), 1, 32},
		{"Q4_0 matrix of 1 rows and 48 columns: the columns are not whole blocks of 32", "Q4_0", make([]byte, 27), 1, 48},
		{"both must be at least 1", "Q8_0", nil, 0, 32},
		{"the product must fit an int", "Q8_0", nil, math.MaxInt / 32, 1 << 20},
		{"tensor: scale +Inf is not finite", "I2_S", append(make([]byte, 32), append([]byte{0, 0, 0x80, 0x7f}, make([]byte, 28)...)...), 1, 128},
	} {
		_, _, err := Read(c.typ, c.data, c.m, c.k)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v; want %s", err, c.want)
		}
	}
}

// Any bytes are read or refused, and what is read is valid.
func FuzzRead(f *testing.F) {
	f.Add(uint8(0), make([]byte, 66))
	f.Fuzz(func(t *testing.T, which uint8, seed []byte) {
		b := table[int(which)%len(table)]
		data := make([]byte, 2*b.Bytes+b.Tail)
		for i := range data {
			if len(seed) > 0 {
				data[i] = seed[i%len(seed)]
			}
		}
		w, src, err := Read(b.Type, data, 2, b.Values)
		if err != nil {
			return
		}
		if err := src.Check(w, 2, b.Values); err != nil {
			t.Errorf("%s: read, but %v", b.Type, err)
		}
	})
}
