package format

import (
	"slices"
	"testing"
)

// TestGrouped: 4 bytes side by side whose codes come the same way from 4 cells side by side are made
// together. It has what makes them so, and one change after the other that makes them not so.
func TestGrouped(t *testing.T) {
	type group struct {
		all   []target
		moves []move
	}
	// Byte 8+j has bits 0..3 of the code of cell j, and bits 2..3 of cell 16+j.
	good := func() *group {
		g := &group{}
		for j := range int32(4) {
			g.all = append(g.all, target{8 + j, 2 * j, 2*j + 2})
			g.moves = append(g.moves, move{from: j, mask: 15}, move{from: 16 + j, down: 2, up: 4, mask: 3})
		}
		return g
	}
	for _, c := range []struct {
		name string
		want bool
		edit func(*group)
	}{
		{"4 bytes", true, func(*group) {}},
		{"4 bytes and another", true, func(g *group) { g.all = append(g.all, target{99, 0, 1}) }},
		{"3 bytes", false, func(g *group) { g.all = g.all[:3] }},
		{"none", false, func(g *group) { g.all = nil }},
		{"a byte apart", false, func(g *group) { g.all[3].at = 12 }},
		{"downward", false, func(g *group) {
			for j := range g.all {
				g.all[j].at = 8 - int32(j)
			}
		}},
		{"one place", false, func(g *group) {
			for j := range g.all {
				g.all[j].at = 8
			}
		}},
		{"a byte of fewer codes", false, func(g *group) { g.all[2].end-- }},
		{"a byte of more codes", false, func(g *group) { g.moves = append(g.moves, move{}); g.all[3].end++ }},
		{"cells apart", false, func(g *group) { g.moves[7].from++ }},
		{"one cell", false, func(g *group) { g.moves[2].from, g.moves[4].from, g.moves[6].from = 0, 0, 0 }},
		{"cells downward", false, func(g *group) {
			for j := range int32(4) {
				g.moves[2*j].from = 8 - j
			}
		}},
		{"other bits of the code", false, func(g *group) { g.moves[5].down = 3 }},
		{"other bits of the byte", false, func(g *group) { g.moves[5].up = 5 }},
		{"fewer bits", false, func(g *group) { g.moves[5].mask = 1 }},
	} {
		g := good()
		c.edit(g)
		p := &Packer{moves: g.moves}
		if have := p.grouped(g.all); have != c.want {
			t.Errorf("%s: %v, want %v", c.name, have, c.want)
		}
	}
}

// TestPackerGroups: kernels' layouts are packed 4 bytes at a time.
func TestPackerGroups(t *testing.T) {
	w4 := lookup(t, "w4")
	rows := rowLanes(t, 4, 8)
	// 4 rows of 2 codes: 4 bytes, each with the codes of 2 cells, never the cells next to its neighbour.
	few := PlainLayout(w4)
	few.TileM, few.RecordK = 4, 2
	few.HeaderBytes, few.RecordBytes = 16, 4
	few.Parts[1].Digits[0].Mod = 4
	few.Parts[0].Base, few.Parts[0].Map = 16, few.Parts[0].Map[:2]
	few.Parts[0].Digits = []Digit{{Axis: "m", Div: 1, Mod: 4, Stride: 1}}
	few.Parts[0].Fields = []Digit{{Axis: "k", Div: 1, Mod: 2, Stride: 1}}
	for _, c := range []struct {
		name         string
		l            *Layout
		words, bytes int
	}{
		{"4 columns side by side", rows, 256, 0},
		{"planes: 8 columns in a byte", planes(4), 0, 128},
		{"2 columns in a byte", few, 0, 4},
	} {
		p, err := NewPacker(w4, c.l)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(p.words4) != c.words || len(p.bytes) != c.bytes {
			t.Errorf("%s: %d groups and %d bytes, want %d and %d", c.name, len(p.words4), len(p.bytes), c.words, c.bytes)
		}
	}
}

// TestNarrowerScales: numbers that the layout stores in a smaller type than the format's are checked
// against that type, and numbers that it stores in a larger type stay as they are.
func TestNarrowerScales(t *testing.T) {
	for _, c := range []struct {
		weight string
		elem   DType
		scale  float32
		want   string // of the refusal
	}{
		{"w4-g32-f32", F32, 0.1, ""},
		{"w4-g32-f32", F16, 0.5, ""},
		{"w4-g32-f32", F16, 65504, ""},
		{"w4-g32-f32", F16, 0.1, "row 1, block 0: scale 0.1 is not representable in f16"},
		{"w4-g32-f32", F16, 65505, "row 1, block 0: scale 65505 is not representable in f16"},
		{"w4-g32-f32", BF16, 1 + 1.0/128, ""},
		{"w4-g32-f32", BF16, 1 + 1.0/256, "is not representable in bf16"},
		{"w4-g32", F32, 0x1p-24, ""},
		{"w4-g32", F32, 0.1, "is not representable in f16"},
		{"w4-g32", BF16, 1 + 1.0/256, "is not representable in bf16"},
	} {
		w := lookup(t, c.weight)
		l := groups(t, w, c.elem)
		src := Source{Codes: make([]byte, 64), Scales: []float32{1, c.scale}}
		packed, err := Pack(w, l, 2, 32, src)
		if c.want != "" {
			wantError(t, c.want, c.want)(packed, err)
			continue
		}
		if err != nil {
			t.Errorf("%s in %v: %v", w, c.elem, err)
			continue
		}
		back, err := Unpack(w, l, 2, 32, packed)
		if err != nil || !slices.Equal(back.Scales, src.Scales) {
			t.Errorf("%s in %v: %v, %v; want %v", w, c.elem, back.Scales, err, src.Scales)
		}
	}
}

// TestBitRuns: bits of a code that are neighbours in one byte, in their order, are moved together.
func TestBitRuns(t *testing.T) {
	for _, c := range []struct {
		name string
		code []BitPos
		want []bitRun
	}{
		{"one bit", []BitPos{{2, 5}}, []bitRun{{20, 0, 5, 1}}},
		{"3 neighbours", []BitPos{{1, 4}, {1, 5}, {1, 6}}, []bitRun{{10, 0, 4, 7}}},
		{"a byte", run(0, 0, 8), []bitRun{{0, 0, 0, 255}}},
		{"downward", []BitPos{{0, 2}, {0, 1}}, []bitRun{{0, 0, 2, 1}, {0, 1, 1, 1}}},
		{"a gap", []BitPos{{0, 1}, {0, 3}}, []bitRun{{0, 0, 1, 1}, {0, 1, 3, 1}}},
		{"another word", []BitPos{{0, 1}, {1, 2}}, []bitRun{{0, 0, 1, 1}, {10, 1, 2, 1}}},
		{"2 and 2", []BitPos{{0, 6}, {0, 7}, {1, 0}, {1, 1}}, []bitRun{{0, 0, 6, 3}, {10, 2, 0, 3}}},
	} {
		if have := bitRuns(c.code, 10); !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", c.name, have, c.want)
		}
	}
}

// TestBookLimit: the number of books is the first index that is too large, and there is one message for all of them.
func TestBookLimit(t *testing.T) {
	w := lookup(t, "cb2x4-g32")
	for index, want := range map[byte]string{3: "", 4: "book index 4; there are 4 books", 255: "book index 255; there are 4 books"} {
		_, err := Pack(w, groups(t, w, F16), 1, 32, Source{Codes: make([]byte, 32), Scales: []float32{1}, Books: []byte{index}})
		if want != "" {
			wantError(t, want, want)(nil, err)
		} else if err != nil {
			t.Errorf("%d: %v", index, err)
		}
	}
}

// TestFours: codewords of whole bytes are made by fours where neighbours have neighbours' codes, also where a record ends within a
// codeword. Others are made one by one.
func TestFours(t *testing.T) {
	apart := joined(t, 3, 5, 4, 1)
	apart.Parts[1].Digits = []Digit{{Axis: "m", Div: 1, Mod: 16, Stride: 1}, {Axis: "k", Div: 1, Mod: 4, Stride: 16}}
	group := lookup(t, "ternary-g32")
	for _, c := range []struct {
		name         string
		w            Weight
		l            *Layout
		fours, words int
	}{
		{"bytes of 5 codes", lookup(t, "ternary"), joined(t, 3, 5, 4, 1), 16, 0},
		{"a group that ends within a byte", group, filled(t, group), 32, 0},
		{"5 bits", lookup(t, "ternary"), joined(t, 3, 3, 0, 3), 0, 16 * 4 * 3},
		{"rows side by side", lookup(t, "ternary"), apart, 0, 64},
	} {
		p, err := NewPacker(c.w, c.l)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if len(p.fours) != c.fours || len(p.words) != c.words {
			t.Errorf("%s: %d fours and %d codewords, want %d and %d", c.name, len(p.fours), len(p.words), c.fours, c.words)
		}
	}
}
