package vir

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
)

// Two subgroups of four lanes: each copies A into a buffer of its own and multiplies it by B, whose columns lie one after the other.
const tileText = `func tiles(a ptr, b ptr, scales ptr, out ptr, floats ptr, near shared 16)
	loop l0 2 lane
		loop l1 4 lane
			v0:i8x2 = load a+0 l0*8 l1*2
			store near+0 l0*8 l1*2 v0
		end
		barrier
		v1:i32x2x2c = splat 10
		v2:i8x2x4a = loadrows near+0 l0*8 by 4
		v3:i8x4x2b = loadcolumns b+0 by 4
		v1:i32x2x2c = matmul v1 v2 v3
		storecolumns out+0 l0*16 by 8 v1
		v4:f32x2x2c = cvtf32 v1
		v5:f32x2x2c = loadcolumns scales+0 by 0
		v6:f32x2x2c = mul v4 v5
		storerows floats+0 l0*16 by 8 v6
	end
`

func tileArgs() []Arg {
	a := []byte{1, 2, 3, 4, 0xff, 0, 0, 1, 9, 0, 0, 0, 0, 9, 0, 0}
	b := []byte{1, 1, 1, 1, 0, 0xfe, 0, 5}
	scales := binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5))
	scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(-2))
	return []Arg{{Buf: a}, {Buf: b}, {Buf: scales}, {Buf: make([]byte, 32)}, {Buf: make([]byte, 32)}}
}

// carriedTile is tileText with its sum in one register, as loops carry it.
func carriedTile() string {
	text := strings.Replace(tileText, "\t\tv1:i32x2x2c = matmul", "\t\tloop l2 1 carry v1\n\t\tv1:i32x2x2c = matmul", 1)
	return strings.Replace(text, "\t\tstorecolumns", "\t\tend\n\t\tstorecolumns", 1)
}

func TestTiles(t *testing.T) {
	f := mustParse(t, carriedTile())
	if again := mustParse(t, f.String()); again.String() != f.String() {
		t.Errorf("prints\n%s", f)
	}
	args := tileArgs()
	if err := Eval(f, args); err != nil {
		t.Fatal(err)
	}
	// By columns: (1+2+3+4)+10, (-1+1)+10, then (-4+20)+10, (5)+10; of the second subgroup 9+10, 9+10, 0+10, -18+10.
	for i, want := range []int32{20, 10, 26, 15, 19, 19, 10, -8} {
		if have := int32(binary.LittleEndian.Uint32(args[3].Buf[4*i:])); have != want {
			t.Errorf("sum %d is %d, want %d", i, have, want)
		}
	}
	for i, want := range []float32{10, 13, -20, -30, 9.5, 5, -38, 16} {
		if have := math.Float32frombits(binary.LittleEndian.Uint32(args[4].Buf[4*i:])); have != want {
			t.Errorf("float %d is %v, want %v", i, have, want)
		}
	}
}

// One core has all elements of a tile: they are the lanes of a vector, by rows, or of B by columns.
func TestTileLanes(t *testing.T) {
	f := mustParse(t, `func lanes(a ptr, b ptr, out ptr)
	v0:i8x16 = load a+0
	v1:i8x2x8a = bitcast v0
	v2:i8x8x2b = loadcolumns b+0 by 8
	v3:i32x2x2c = splat 1
	v6:i32x2x2c = matmul v3 v1 v2
	v4:i32x2 = column v6 1
	store out+0 v4
	v5:i32x4 = bitcast v6
	store out+8 v5
`)
	a, b, out := make([]byte, 16), make([]byte, 16), make([]byte, 24)
	a[0], a[7], a[8] = 1, 2, 3 // rows 1 0 0 0 0 0 0 2, and 3 0 0 0 0 0 0 0
	b[0], b[7], b[8] = 5, 6, 7 // columns 5 0 0 0 0 0 0 6, and 7 0 0 0 0 0 0 0
	if err := Eval(f, []Arg{{Buf: a}, {Buf: b}, {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{8, 22, 18, 8, 16, 22} {
		if have := binary.LittleEndian.Uint32(out[4*i:]); have != want {
			t.Errorf("word %d is %d, want %d", i, have, want)
		}
	}
}

// Tiles are loaded and stored by lanes that are not known: a barrier is between that and what lanes do.
func TestTileRaces(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"\t\tbarrier\n", "", "byte 0 of near is stored by lane 0 of group 0 and accessed by a tile of group 0"},
		{"storecolumns out+0 l0*16", "storecolumns out+0", "byte 0 of out is stored by a tile of group 0 and accessed by a tile of group 0"},
		{"\t\tstorerows floats", "\t\tv7:f32x2x2c = loadrows out+0 l0*16 by 8\n\t\tstorerows floats", "byte 0 of out is stored by a tile of group 0 and accessed by a tile of group 0"},
	} {
		f := mustParse(t, strings.Replace(carriedTile(), c.from, c.to, 1))
		if err := Eval(f, tileArgs()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// Bytes between rows are none of a tile's: other lanes may have them.
func TestTileRows(t *testing.T) {
	f := mustParse(t, `func rows(out ptr 3)
	loop l0 2 lane
		v0:i8x2x4c = splat 7
		storerows out+0 l0*4 by 8 v0
	end
`)
	out := make([]byte, 16)
	if err := Eval(f, []Arg{{Buf: out}}); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("\a", 16); string(out) != want {
		t.Errorf("%x", out)
	}
	f = mustParse(t, "func most(in ptr 3)\nv0:i8x2x2a = loadrows in+0 by 4\n")
	for at, ok := range []bool{false, false, true, true, false, false} {
		in := make([]byte, 6)
		in[at] = 4
		if err := Eval(f, []Arg{{Buf: in}}); (err == nil) != ok {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	if err := Eval(f, []Arg{{Buf: make([]byte, 5)}}); err == nil {
		t.Error("a tile outside its buffer")
	}
}

func TestTilesRefused(t *testing.T) {
	const begin = "func f(a ptr, n int)\nv0:i8x2x4a = loadrows a+0 by 4\nv1:i8x4x2b = loadcolumns a+0 by 4\nv2:i32x2x2c = splat 0\n"
	for _, c := range []struct{ body, want string }{
		{"v3:i8x3x4a = splat 0", "i8x3x4a: lanes are a power of two"},
		{"v3:i8x64x32a = splat 0", "i8x64x32a: lanes are a power of two"},
		{"v3:i8x2x4a = and v0 v0", "and is for vectors, not for tiles"},
		{"v3:i32x2x2c = load a+0", "load is for vectors, not for tiles"},
		{"store a+0 v2", "store is for vectors, not for tiles"},
		{"v3:i32x4 = loadrows a+0 by 8", "arguments are []; loadrows is TxMxNu <-; T any"},
		{"v3:i32x4 = splat 0\nstorerows a+0 by 8 v3", "storerows is <- TxMxNu; T any"},
		{"v3:i32x2x2c = matmul v2 v1 v0", "arguments are [i32x2x2c i8x4x2b i8x2x4a]"},
		{"v3:i32x2x2c = matmul v2 v0 v0", "arguments are [i32x2x2c i8x2x4a i8x2x4a]"},
		{"v3:f32x2x2c = splat 0\nv4:f32x2x2c = matmul v3 v0 v1", "arguments are [f32x2x2c i8x2x4a i8x4x2b]"},
		{"v3:i8x2x4a = loadrows a+0 by -4", "rows or columns -4 bytes apart"},
		{"v3:i32x2x2c = loadrows a+0 by 6", "rows or columns 6 bytes apart: want whole elements"},
		{"v3:i8x2x4a = loadrows a+0 by 2147483648", "want whole elements, up to 536870912 bytes"},
		{"v3:i8x2x4a = loadrows a+1073741817 by 4", "reaches 1073741825 bytes from a"},
		{"storerows a+0 by 4 v2", "stores rows or columns of 8 bytes 4 apart: they overlap"},
		{"v3:i8x2x4a = loadrows a+0 by 4+2*a", "a is a pointer, not a number of bytes"},
		{"v3:i32x2x2c = add v2 v0", "arguments are [i32x2x2c i8x2x4a]"},
		{"loop l0 2 lane\nloop l1 2 lane\nstorerows a+0 by 8 v2\nend\nend", "tiles are in 2 loops of lanes here and in 0 above"},
		{"loop l0 2 lane carry v2\nend", "lanes carry v2 of i32x2x2c"},
		{"v3:i32x2 = column v2 2", "no column 2 of 2"},
		{"v3:i32x4 = column v2 0", "arguments are [i32x2x2c]; column is TxN <- TxNxMc; T any"},
		{"v3:i8x4 = column v0 0", "arguments are [i8x2x4a]"},
		{"loop l0 2 lane\nv3:i32x2 = column v2 0\nend", "none has all of its elements"},
		{"v3:i8x8 = load a+0\nloop l0 2 lane\nv4:i8x2x4a = bitcast v3\nend", "none has all of its elements"},
	} {
		f, err := Parse(begin + c.body)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if err := Verify(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.body, err, c.want)
		}
	}
	for _, typ := range []string{"i8x2a", "i8xx2a", "i8x2x2d", "i8x0x4a", "i8x-1x2a", "q8x2x2a", "i8x2x99999999999a", "i8xa"} {
		if _, err := Parse("func f()\nv0:" + typ + " = splat 0\n"); err == nil {
			t.Errorf("%s is a type", typ)
		}
	}
	if err := Verify(&Func{Name: "f", Regs: []Type{{Elem: i8, Lanes: 4, Rows: 2, Use: 9}}, Body: []Node{&Instr{Op: OpSplat}}}); err == nil {
		t.Error("a use that there is not")
	}
}

// Sums of floats that no f32 holds would depend on their order.
func TestTileFloats(t *testing.T) {
	f := mustParse(t, "func f(a ptr, b ptr, out ptr)\nv0:f16x1x2a = loadrows a+0 by 4\nv1:f16x2x1b = loadcolumns b+0 by 4\nv2:f32x1x1c = splat 1065353216\nv3:f32x1x1c = matmul v2 v0 v1\nstorerows out+0 by 4 v3\n")
	halves := func(x, y float32) Arg {
		return Arg{Buf: binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, format.HalfFromFloat32(x)), format.HalfFromFloat32(y))}
	}
	out := make([]byte, 4)
	if err := Eval(f, []Arg{halves(3, -0.5), halves(1000, 8), {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	if have := math.Float32frombits(binary.LittleEndian.Uint32(out)); have != 2997 {
		t.Errorf("%v, want 2997", have)
	}
	if err := Eval(f, []Arg{halves(32768, 1.0/4096), halves(32768, 1.0/4096), {Buf: out}}); err == nil || !strings.Contains(err.Error(), "is no f32") {
		t.Errorf("%v, want an error", err)
	}
}

// A sum is bounded by its beginning and the products of a row.
func TestTileRanges(t *testing.T) {
	f := mustParse(t, "func f(a ptr 7, b ptr 100)\nv0:i8x2x4a = loadrows a+0 by 4\nv1:i8x4x2b = loadcolumns b+0 by 4\nv2:i32x2x2c = splat 5\nv3:i32x2x2c = matmul v2 v0 v1\nv4:i32x2x2c = loadrows a+0 by 8\n")
	r := Ranges(f)
	if want := (Range{5 - 4*700, 5 + 4*700}); r[3] != want {
		t.Errorf("%v, want %v", r[3], want)
	}
	if r[4] != FullRange(i32) {
		t.Errorf("%v, want all of i32", r[4])
	}
}

// Rows may be as far apart as a parameter says.
func TestTileStep(t *testing.T) {
	f := mustParse(t, "func f(out ptr, step int)\nv0:i8x2x2c = splat 7\nstorerows out+0 by 1+2*step v0\n")
	out := make([]byte, 9)
	if err := Eval(f, []Arg{{Buf: out}, {Int: 3}}); err != nil {
		t.Fatal(err)
	}
	if want := "\a\a\x00\x00\x00\x00\x00\a\a"; string(out) != want {
		t.Errorf("%x", out)
	}
	for _, step := range []int64{4, -1, 1 << 40} {
		if err := Eval(f, []Arg{{Buf: out}, {Int: step}}); err == nil {
			t.Errorf("step %d: a tile outside its buffer", step)
		}
	}
	for _, by := range []string{"", "4", "by", "by x", "by 4+x", "by 4+0*step", "by 4+1*q"} {
		if _, err := Parse("func f(out ptr, step int)\nv0:i8x2x2c = loadrows out+0 " + by + "\n"); err == nil {
			t.Errorf("%q is a distance", by)
		}
	}
}

func TestMutatedTiles(t *testing.T) {
	for seed := range uint64(300) {
		text := carriedTile()
		rng := rand.New(rand.NewPCG(seed, 5))
		for range 1 + rng.IntN(3) {
			text = mutate(rng, text)
		}
		checkText(t, text)
	}
}
