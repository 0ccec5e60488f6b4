package format

import (
	"fmt"
	"reflect"
	"testing"
)

// TestCodewordLimits has the most codewords that there are, and numbers of levels that overflow.
func TestCodewordLimits(t *testing.T) {
	large := int64(9187483429707480961)
	wraps := int(large) // 257 times it is 129, modulo 2^64 and, where an int has 32 bits, 2^32
	ways := "there must be 2 to 8 codes, and at most 256 ways to choose them"
	for _, c := range []struct {
		levels, join, mirror int
		want                 string
	}{
		{2, 8, 0, ""}, {16, 2, 0, ""}, {2, 2, 0, ""}, {2, 2, 2, ""}, {2, 8, 8, ""},
		{17, 2, 0, ways}, {2, 9, 0, ways}, {2, 1, 0, ways}, {1, 2, 0, ways}, {0, 2, 0, ways}, {-3, 2, 0, ways},
		{257, 2, 0, ways}, {wraps, 2, 0, ways}, {wraps, 8, 0, ways}, {2, 1 << 30, 0, ways},
		{2, 2, -1, "-1 codes to mirror; they must be some of the codes"},
		{2, 2, 3, "3 codes to mirror; they must be some of the codes"},
	} {
		_, _, err := JoinCodes(c.levels, c.join, c.mirror)
		if c.want != "" {
			wantError(t, c.want, c.want)(nil, err)
		} else if err != nil {
			t.Errorf("%d of %d levels: %v", c.join, c.levels, err)
		}
	}
	for _, c := range [][3]int{{4, 4, 1}, {2, 8, 2}} { // 64 codewords for each head, which is all that there can be
		if _, err := HeadCodes(c[0], c[1], c[2]); err != nil {
			t.Error(err)
		}
	}
	long := func(n int) *Part {
		c, _, err := JoinCodes(2, 8, 0)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := StringMap(8, n)
		return &Part{Name: Codes, Map: m, Codewords: c}
	}
	edited := func(edit func(c *Codewords)) *Part {
		p := long(1)
		edit(p.Codewords)
		return p
	}
	for _, c := range []struct {
		p    *Part
		want string
	}{
		{long(512), ""},
		{long(513), "has 4104 fields; at most 4096 are allowed"},
		{edited(func(c *Codewords) { c.Join = 9 }), "joins 9 codes; it must be 2 to 8"},
		{edited(func(c *Codewords) { c.Join = 1 }), "joins 1 codes; it must be 2 to 8"},
		{edited(func(c *Codewords) { c.Levels = 1 }), "joins 8 codes of 1 levels; there must be 4 to 256 ways"},
		{edited(func(c *Codewords) { c.Levels = 3 }), "joins 8 codes of 3 levels; there must be 4 to 256 ways"},
		{edited(func(c *Codewords) { c.Join, c.Levels, c.Table = 2, wraps, c.Table[:129] }), fmt.Sprintf("joins 2 codes of %d levels; there must be", wraps)},
	} {
		if err := c.p.Codewords.valid(c.p); c.want != "" {
			wantError(t, c.want, c.want)(nil, err)
		} else if err != nil {
			t.Error(err)
		}
	}
}

// TestCode takes a codeword apart by hand: 2 + 0*3 + 1*9 + 2*27 + 0*81 = 65.
func TestCode(t *testing.T) {
	c, _, err := JoinCodes(3, 5, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []byte{2, 0, 1, 2, 0} {
		if code, ok := c.Code(65, i); code != want || !ok {
			t.Errorf("code %d of 65 is %d, %v; want %d", i, code, ok, want)
		}
		if code, ok := c.Code(0, i); code != 0 || !ok {
			t.Errorf("code %d of 0 is %d, %v", i, code, ok)
		}
	}
	if _, ok := c.Code(243, 0); ok {
		t.Error("243 is a codeword")
	}
}

// TestMirrors tells codewords that are mirrored from those that are not, and from what cannot be.
func TestMirrors(t *testing.T) {
	for _, mirror := range []int{0, 4} {
		c, _, err := JoinCodes(3, 5, mirror)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 2, 4, 6} { // 2 would take 9 bits
			if have := c.Mirrors(n); have != (n == mirror) {
				t.Errorf("%d mirrored: Mirrors(%d) is %v", mirror, n, have)
			}
		}
	}
}

// TestMaps has bits of strung and of signed codes by hand.
func TestMaps(t *testing.T) {
	at := func(m [][]BitPos, words int) func(want int, fields map[int][]BitPos) {
		return func(want int, fields map[int][]BitPos) {
			t.Helper()
			if words != want {
				t.Errorf("%d words, want %d", words, want)
			}
			for f, bits := range fields {
				if !reflect.DeepEqual(m[f], bits) {
					t.Errorf("field %d is %v, want %v", f, m[f], bits)
				}
			}
		}
	}
	at(StringMap(5, 3))(2, map[int][]BitPos{0: run(0, 0, 5), 1: {{0, 5}, {0, 6}, {0, 7}, {1, 0}, {1, 1}}, 2: run(1, 2, 5)})
	at(StringMap(8, 2))(2, map[int][]BitPos{1: run(1, 0, 8)})
	// 16 codes of 3 bits: two bits of each in words 0 to 3, then the last bits of 8 codes, and of the next 8.
	at(SignMap(3, 16))(6, map[int][]BitPos{0: {{0, 0}, {0, 1}, {4, 0}}, 7: {{1, 6}, {1, 7}, {4, 7}}, 8: {{2, 0}, {2, 1}, {5, 0}}, 15: {{3, 6}, {3, 7}, {5, 7}}})
	// Of two codewords of 5 codes, each takes two words apart: of 4 codes, and of 1.
	p := joined(t, 3, 5, 4, 2).Part(Codes)
	at(p.Unjoined(), 4)(4, map[int][]BitPos{0: run(0, 0, 2), 3: run(0, 6, 2), 4: run(1, 0, 2), 5: run(2, 0, 2), 9: run(3, 0, 2)})
}

// TestFilledCodewords: codes of a codeword that no element has count as 0.
func TestFilledCodewords(t *testing.T) {
	w := lookup(t, "ternary-g32")
	l := filled(t, w)
	src := Source{Codes: make([]byte, 32), Scales: []float32{1}}
	for i := range src.Codes {
		src.Codes[i] = 2
	}
	packed, err := Pack(w, l, 1, 32, src)
	if err != nil {
		t.Fatal(err)
	}
	// Columns 0 to 19 are 4 codewords of 5 codes, the 12 others are 4 of 3.
	for column := range 4 {
		if first, second := packed[column], packed[64+column]; first != 242 || second != 2+2*3+2*9 {
			t.Errorf("column %d: codewords %d and %d, want 242 and 26", column, first, second)
		}
	}
}

// TestDamagedCodeword names the row and the columns of a codeword that there is not, and no others.
func TestDamagedCodeword(t *testing.T) {
	w := lookup(t, "ternary")
	const m, k = 5, 16
	src := Source{Codes: make([]byte, m*k), Scales: []float32{1, 1, 1, 1, 1}}
	rows := joined(t, 3, 5, 4, 1) // whose codewords are of 5 rows
	rows.TileM, rows.RecordK, rows.HeaderBytes, rows.RecordBytes = 5, 4, 20, 4
	rows.Parts[0].Digits[0].Mod = 5
	p := &rows.Parts[1]
	p.Base, p.WordStride = 20, 1
	p.Digits = []Digit{{Axis: "k", Div: 1, Mod: 4, Stride: 1}}
	p.Fields = []Digit{{Axis: "m", Div: 1, Mod: 5, Stride: 1}}
	for _, c := range []struct {
		l    *Layout
		at   int
		want string
	}{
		{joined(t, 3, 5, 4, 1), 64, "row 0, columns [0 4 8 12]: no codes of weight ternary have codeword 255; pack the matrix again"},
		{joined(t, 3, 5, 4, 1), 64 + 3, "row 0, columns [3 7 11 15]: no codes"}, // and column 19, which is padding
		{joined(t, 3, 5, 4, 1), 64 + 4 + 1, "row 1, columns [1 5 9 13]: no codes"},
		{rows, 20, "row 0, columns [0]: no codes"},
		{rows, 20 + 4 + 1, "row 0, columns [5]: no codes"},
	} {
		packed, err := Pack(w, c.l, m, k, src)
		if err != nil {
			t.Fatal(err)
		}
		packed[c.at] = 255
		_, err = Unpack(w, c.l, m, k, packed)
		wantError(t, c.want, c.want)(nil, err)
	}
}
