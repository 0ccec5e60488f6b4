package vir

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// Every lane loads a word of its own and stores it for the next lane of its workgroup, which passes it on.
const passOn = `func rotate(in ptr, out ptr, tiles int, bytes int align 16, box shared 16)
	groups tiles in+bytes out+bytes
	loop l0 2 lane
		loop l1 2 lane
			v0:i32x1 = load in+0 l0*8 l1*4
			store box+0 l0*8 l1*4 v0
			barrier
			v1:i32x1 = load box+8 l0*-8 l1*4
			v2:i32x1 = add v1 v1
			store out+0 l0*8 l1*4 v2
		end
	end
`

func TestLanes(t *testing.T) {
	f := mustParse(t, passOn)
	if have := f.String(); have != passOn {
		t.Errorf("prints\n%s", have)
	}
	if lanes := f.Lanes(); Product(lanes) != 4 {
		t.Errorf("lanes %v", lanes)
	}
	in, out := make([]byte, 48), make([]byte, 48)
	for i := range 12 {
		in[4*i] = byte(i)
	}
	if err := Eval(f, []Arg{{Buf: in}, {Buf: out}, {Int: 3}, {Int: 16}}); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		if want := byte(2 * (i ^ 2)); out[4*i] != want {
			t.Errorf("word %d is %d, want %d", i, out[4*i], want)
		}
	}
}

// Groups find their places in a list, which nobody stores to or moves.
func TestListedGroups(t *testing.T) {
	const text = `func scatter(in ptr, out ptr, places ptr, n int, bytes int)
	groups n in+bytes out+places
	v0:i32x1 = load in+0
	store out+0 v0
`
	f := mustParse(t, text)
	if have := f.String(); have != text {
		t.Errorf("prints\n%s", have)
	}
	out := make([]byte, 16)
	args := []Arg{{Buf: []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}}, {Buf: out}, {Buf: []byte{12, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0}}, {Int: 3}, {Int: 4}}
	if err := Eval(f, args); err != nil {
		t.Fatal(err)
	}
	if string(out) != "\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00" {
		t.Errorf("stored %v", out)
	}
	args[2].Buf = args[2].Buf[:8]
	if err := Eval(f, args); err == nil || !strings.Contains(err.Error(), "group 2 is not in the list places of 8 bytes") {
		t.Error(err)
	}
	args[2].Buf = []byte{4, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0}
	if err := Eval(f, args); err == nil || !strings.Contains(err.Error(), "is stored by lane 0 of group 0 and accessed by lane 0 of group 1") {
		t.Errorf("a race is not found: %v", err)
	}
	const want = "out+places: want a pointer and an integer"
	for wrong, want := range map[string]string{
		strings.Replace(text, "out+places", "out+places places+bytes", 1): want + ", or a list that nobody stores to or moves",
		strings.Replace(text, "store out+0", "store places+0", 1):         want + ", or a list that nobody stores to or moves",
		strings.Replace(text, "groups", "repeat", 1):                      want,
	} {
		f, err := Parse(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(f); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v of\n%s", err, wrong)
		}
	}
}

// Lanes know their numbers, and no others.
func TestLaneNumbers(t *testing.T) {
	const text = `func numbers(out ptr)
	loop l0 2 lane
		loop l1 4 lane
			v0:i32x1 = lane 1
			v1:i32x1 = lane 0
			v2:i32x1 = splat 10
			v3:i32x1 = mul v1 v2
			v4:i32x1 = add v3 v0
			store out+0 l0*16 l1*4 v4
		end
	end
`
	f, out := mustParse(t, text), make([]byte, 32)
	if have := f.String(); have != text {
		t.Errorf("prints\n%s", have)
	}
	if err := Eval(f, []Arg{{Buf: out}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []byte{0, 1, 2, 3, 10, 11, 12, 13} {
		if out[4*i] != want {
			t.Errorf("lane %d is number %d, want %d", i, out[4*i], want)
		}
	}
	for _, wrong := range []string{strings.Replace(text, "lane 1", "lane 2", 1), strings.Replace(text, "loop l1 4 lane", "loop l1 4", 1)} {
		f, err := Parse(wrong)
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(f); err == nil || !strings.Contains(err.Error(), "no loop of lanes") {
			t.Errorf("%v of\n%s", err, wrong)
		}
	}
}

// Lanes have the largest of their numbers, or the value before; a loop ahead is a loop.
func TestLargest(t *testing.T) {
	const text = `func largest(in ptr, out ptr, n int)
	v0:i32x1 = load out+0
	loop l0 2 lane max carry v0
		loop l1 n ahead carry v0
			v1:i32x1 = load in+0 l0*4 l1*8
			v0:i32x1 = maxs v0 v1
		end
	end
	store out+0 v0
`
	f := mustParse(t, text)
	if have := f.String(); have != text {
		t.Errorf("prints\n%s", have)
	}
	for _, c := range []struct{ before, want int32 }{{-9, 7}, {8, 8}} {
		in, out := make([]byte, 24), make([]byte, 4)
		for i, x := range []int32{-1, 5, 2, 7, -8, 0} {
			binary.LittleEndian.PutUint32(in[4*i:], uint32(x))
		}
		binary.LittleEndian.PutUint32(out, uint32(c.before))
		if err := Eval(f, []Arg{{Buf: in}, {Buf: out}, {Int: 3}}); err != nil {
			t.Fatal(err)
		}
		if have := int32(binary.LittleEndian.Uint32(out)); have != c.want {
			t.Errorf("%d, want %d", have, c.want)
		}
	}
	for from, want := range map[string]string{" lane max": " max", "i32": "f32"} {
		of := strings.ReplaceAll(text, from, want)
		if g, err := Parse(strings.ReplaceAll(of, "maxs", map[bool]string{true: "maxf", false: "maxs"}[want == "f32"])); err != nil || Verify(g) == nil {
			t.Errorf("%v: accepts\n%s", err, of)
		}
	}
}

// What depends on the order of lanes or of workgroups is an error, and says where.
func TestRaces(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"no barrier", "\t\t\tbarrier\n", "", "byte 8 of box is stored by lane 2 of group 0 and accessed by lane 0 of group 0"},
		{"one word for all lanes", "store out+0 l0*8 l1*4 v2", "store out+0 l0*8 v2", "byte 0 of out is stored by lane 0 of group 0 and accessed by lane 1 of group 0"},
		{"one tile for all groups", "out+bytes", "", "byte 0 of out is stored by lane 0 of group 0 and accessed by lane 0 of group 1"},
		{"stored where others load", "store out+0 l0*8 l1*4 v2", "store in+4 l0*8 l1*-4 v2", ""},
		{"stored where another lane has loaded", "\t\t\tstore out", "\t\t\tv3:i32x1 = load box+0 l0*8 l1*4\n\t\t\tstore box+8 l0*-8 l1*4 v3\n\t\t\tstore out", "byte 8 of box is loaded by several lanes and stored by lane 0 of group 0"},
		{"never stored", "\t\t\tstore box+0 l0*8 l1*4 v0\n", "", "byte 8 of box is loaded before it is stored"},
		{"odd step", "bytes int align 16", "bytes int align 32", "bytes is 16, no multiple of 32"},
	} {
		f := mustParse(t, strings.Replace(passOn, c.from, c.to, 1))
		err := Eval(f, []Arg{{Buf: make([]byte, 48)}, {Buf: make([]byte, 48)}, {Int: 3}, {Int: 16}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Three rows of words, each summed by four lanes that take every fourth word. Code around the lanes runs once.
const sumRows = `func sums(in ptr, out ptr, steps int)
	loop l0 3 lane
		v0:i32x1 = splat 100
		loop l1 4 lane carry v0
			loop l2 steps carry v0
				v1:i32x1 = load in+0 l0*32 l1*4 l2*16
				v0:i32x1 = add v0 v1
			end
		end
		store out+0 l0*4 v0
	end
`

func TestSumsOfLanes(t *testing.T) {
	f := mustParse(t, sumRows)
	if lanes := f.Lanes(); len(lanes) != 2 || lanes[0] != 3 || lanes[1] != 4 {
		t.Errorf("lanes %v", lanes)
	}
	in, out := make([]byte, 96), make([]byte, 12)
	for i := range 24 {
		in[4*i] = byte(i)
	}
	if err := Eval(f, []Arg{{Buf: in}, {Buf: out}, {Int: 2}}); err != nil {
		t.Fatal(err)
	}
	for row, want := range []byte{100 + 28, 100 + 92, 0} {
		if out[4*row] != want {
			t.Errorf("row %d is %d, want %d", row, out[4*row], want)
		}
	}
}

// Rows of words, two to a workgroup, whose sums three workgroups share: each has every third column of two words, and lanes sum a word each.
const sumParts = `func sums(in ptr, out ptr, columns int, tiles int, rows int, bytes int, box shared 8)
	groups tiles in+rows out+bytes
	loop l0 2 lane
		v0:i32x1 = splat 100
		v1:i32x1 = lane 0
		store box+0 l0*4 v1
		loop l1 3 part carry v0
			v2:i32x1 = load box+0 l0*4
			v0:i32x1 = add v0 v2
			loop l2 2 lane carry v0
				loop l3 columns dealt carry v0
					v3:i32x1 = load in+0 l0*32 l2*4 l3*8
					v0:i32x1 = add v0 v3
				end
			end
		end
		store out+0 l0*4 v0
	end
`

func TestParts(t *testing.T) {
	f := mustParse(t, sumParts)
	if have := f.String(); have != sumParts {
		t.Errorf("prints\n%s", have)
	}
	if l := f.Part(); l == nil || l.ID != 1 {
		t.Errorf("the loop of parts is %v", l)
	}
	for columns := range 5 {
		in, out := make([]byte, 128), make([]byte, 16)
		for i := range in {
			if i%4 == 0 {
				in[i] = byte(i / 4)
			}
		}
		if err := Eval(f, []Arg{{Buf: in}, {Buf: out}, {Int: int64(columns)}, {Int: 2}, {Int: 64}, {Int: 8}}); err != nil {
			t.Fatal(err)
		}
		for row := range 4 {
			want := 100 + 3*(row%2) // what each part adds once
			for word := range 2 * columns {
				want += 8*row + word
			}
			if have := int(int32(binary.LittleEndian.Uint32(out[4*row:]))); have != want {
				t.Errorf("%d columns: row %d is %d, want %d", columns, row, have, want)
			}
		}
	}
}

// What parts would do in an order, or do more than once, is refused: by the verifier, or when it is done.
func TestPartsRefused(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"loop l1 3 part", "loop l1 columns part", "parts are a constant number of workgroups, at most 1024"},
		{"loop l1 3 part", "loop l1 1025 part", "parts are a constant number of workgroups, at most 1024"},
		{"\tgroups tiles in+rows out+bytes\n", "", "parts are one more dimension of workgroups: want 1 to 2 others"},
		{"\tloop l0 2 lane\n", "\tv4:i32x1 = splat 0\n\tloop l0 2 lane carry v4\n\t\tv4:i32x1 = add v4 v4\n", "parts are in loop l0, which is no loop of lanes, or carries something"},
		{"loop l2 2 lane carry", "loop l2 2 part carry", "two loops have parts"},
		{"store box+0 l0*4 v1", "store out+0 l0*4 v1", "all parts would make the store before the loop"},
		{"\t\t\tv0:i32x1 = add v0 v2\n", "\t\t\tv0:i32x1 = add v0 v2\n\t\t\tstore out+0 l0*4 v2\n", "parts of a sum store to shared buffers only"},
		{"loop l1 3 part carry", "loop l1 3 carry", "iterations are dealt to the parts of a loop around, and there is none"},
		{"loop l3 columns dealt", "loop l3 2 dealt", "only iterations that a parameter counts are dealt to parts"},
		{"\t\tstore box+0 l0*4 v1\n", "", "is loaded before it is stored"},
		{"\t\tstore out", "\t\tstore box+4 l0*-4 v0\n\t\tstore out", "no barrier is between"},
		{"\t\t\tv0:i32x1 = add v0 v2\n", "\t\t\tv0:i32x1 = add v0 v2\n\t\t\tbarrier\n\t\t\tstore box+0 l0*4 v2\n", ""},
		{"v2:i32x1 = load box+0 l0*4\n", "v2:i32x1 = splat 1\n\t\t\tstore box+4 l0*-4 v2\n", "no barrier is between"},
	} {
		text := strings.ReplaceAll(sumParts, c.from, c.to)
		if text == sumParts {
			t.Fatalf("%q is not there", c.from)
		}
		f, err := Parse(text)
		if err == nil {
			err = Eval(f, []Arg{{Buf: make([]byte, 128)}, {Buf: make([]byte, 16)}, {Int: 3}, {Int: 2}, {Int: 64}, {Int: 8}})
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %s", c.to, err, c.want)
		}
	}
}

// sumFloats adds floats: iterations are dealt to parts, and each lane has one of an iteration.
const sumFloats = `func sum(in ptr, out ptr, tiles int, bytes int, columns int)
	groups tiles out+bytes
	v0:f32x1 = load in+0
	loop l0 3 part carry v0
		v1:f32x1 = load in+4
		loop l1 columns dealt carry v0
			loop l2 2 lane carry v0
				v2:f32x1 = load in+8 l1*8 l2*4
				v0:f32x1 = add v0 v2
			end
		end
	end
	store out+0 v0
`

// TestPartsOfFloats: parts add floats in the order of iterations and lanes, to the value before the loop, whichever part has them.
func TestPartsOfFloats(t *testing.T) {
	const single = "\t\t\tloop l2 2 lane carry v0\n\t\t\t\tv2:f32x1 = load in+8 l1*8 l2*4\n\t\t\t\tv0:f32x1 = add v0 v2\n\t\t\tend\n"
	for lanes, text := range map[int]string{2: sumFloats, 1: strings.Replace(sumFloats, single, "\t\t\tv2:f32x1 = load in+8 l1*8\n\t\t\tv0:f32x1 = add v0 v2\n", 1)} {
		f := mustParse(t, text)
		for columns := range 8 {
			in, out := make([]byte, 4*(2+2*columns)), make([]byte, 4)
			want := float32(0)
			for i := range len(in) / 4 {
				x := float32(math.Pow(-10, float64(i*7%11))) / 3 // another order has other bits
				binary.LittleEndian.PutUint32(in[4*i:], math.Float32bits(x))
				if i != 1 && (i < 2 || lanes == 2 || i%2 == 0) {
					want += x
				}
			}
			if err := Eval(f, []Arg{{Buf: in}, {Buf: out}, {Int: 1}, {Int: 4}, {Int: int64(columns)}}); err != nil {
				t.Fatal(err)
			}
			if have := binary.LittleEndian.Uint32(out); have != math.Float32bits(want) {
				t.Errorf("%d lanes, %d columns: %g, want %g", lanes, columns, math.Float32frombits(have), want)
			}
		}
	}
	for _, c := range []struct{ from, to, want string }{
		{"v1:f32x1 = load in+4", "v0:f32x1 = add v0 v0", "whose order is that of iterations which are dealt"},
		{"loop l1 columns dealt carry", "loop l1 columns carry", "whose order is that of iterations which are dealt"},
		{"\t\tv1:f32x1 = load in+4\n", "\t\tloop l3 2 carry v0\n\t\t\tv0:f32x1 = add v0 v0\n\t\tend\n", "whose order is that of iterations which are dealt"},
		{"f32x1", "f16x1", "they add i32 or f32"},
	} {
		f, err := Parse(strings.ReplaceAll(sumFloats, c.from, c.to))
		if err == nil {
			err = Verify(f)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.to, err, c.want)
		}
	}
}

// Loops of lanes have constant counts, equal ones at equal depth, and sums of words.
func TestLanesRefused(t *testing.T) {
	for _, c := range []struct{ text, from, to string }{
		{passOn, "loop l1 2 lane", "loop l1 tiles lane"},
		{passOn, "l1 2 lane", "l1 1024 lane"},
		{passOn, "box shared 16", "box shared 65537"},
		{passOn, "box shared 16", "box shared 16 align 4"},
		{passOn, "groups tiles in+bytes out+bytes", "groups bytes in+bytes"},
		{passOn, "groups tiles in+bytes", "groups tiles box+bytes"},
		{passOn, "align 16", "align 24"},
		{passOn, "\tloop l0", "\tloop l2 3 lane\n\tend\n\tloop l0"},
		{strings.ReplaceAll(sumRows, "i32", "u32"), "splat 100", "splat 10"},
	} {
		text := strings.Replace(c.text, c.from, c.to, 1)
		if text == c.text {
			t.Fatalf("%s is not there", c.from)
		}
		f, err := Parse(text)
		if err == nil {
			err = Verify(f)
		}
		if err == nil {
			t.Errorf("accepted:\n%s", text)
		}
	}
}

// Lanes that carry a float add theirs in the order of lanes to the value before the loop: in another order 2^24 + 1 would be lost,
// or the small ones would not.
func TestFloatsOfLanes(t *testing.T) {
	f := mustParse(t, `func order(in ptr, out ptr)
	v0:f32x1 = splat 1065353216
	loop l0 2 carry v0
		loop l1 4 lane carry v0
			v1:f32x1 = load in+0 l0*16 l1*4
			v0:f32x1 = add v0 v1
		end
	end
	store out+0 v0
`)
	values := []float32{1 << 24, 1, -1 << 24, 0.5, 3, 1 << 25, -1, 0.25}
	in, out, want := []byte{}, make([]byte, 4), float32(1)
	for _, x := range values {
		in = binary.LittleEndian.AppendUint32(in, math.Float32bits(x))
		want += x
	}
	if err := Eval(f, []Arg{{Buf: in}, {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	if have := math.Float32frombits(binary.LittleEndian.Uint32(out)); have != want {
		t.Errorf("%v, want %v", have, want)
	}
}

// Loops of lanes that carry the same floats add them in one order, unless something between them touches these: then the inner loop's lanes are added first.
func TestFloatsOfJoinedLanes(t *testing.T) {
	const text = `func order(in ptr, out ptr)
	v0:f32x1 = splat 0
	loop l0 2 lane carry v0
		v2:i32x1 = splat 0
		loop l1 2 lane carry v0
			v1:f32x1 = load in+0 l0*8 l1*4
			v0:f32x1 = add v0 v1
		end
	end
	store out+0 v0
`
	for _, c := range []struct {
		text   string
		joined int
		want   float32
	}{
		{text, 1, 0.5}, // ((1 + 2^24) - 2^24) + 0.5
		{strings.Replace(text, "v2:i32x1 = splat 0", "v2:f32x1 = add v0 v0", 1), 0, 0}, // (1 + 2^24) + (-2^24 + 0.5)
	} {
		f := mustParse(t, c.text)
		if n := len(f.Joined(f.Body[1].(*Loop))); n != c.joined {
			t.Errorf("%d loops are joined, want %d:\n%s", n, c.joined, c.text)
		}
		var in []byte
		for _, x := range []float32{1, 1 << 24, -1 << 24, 0.5} {
			in = binary.LittleEndian.AppendUint32(in, math.Float32bits(x))
		}
		out := make([]byte, 4)
		if err := Eval(f, []Arg{{Buf: in}, {Buf: out}}); err != nil {
			t.Fatal(err)
		}
		if have := math.Float32frombits(binary.LittleEndian.Uint32(out)); have != c.want {
			t.Errorf("%v, want %v:\n%s", have, c.want, c.text)
		}
	}
}
