package lower

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
)

// permuter is a toy with 512-bit lookups that ignore the high bits of an index.
func permuter() toy {
	t := newToy(toyAll)
	bytes := vir.Type{Elem: format.I8, Lanes: 64}
	t.m.VecBits = 512
	t.op(vir.OpConst, bytes)
	t.op(vir.OpLookup64Mod, bytes, vir.Type{Elem: format.U8, Lanes: 64}, bytes)
	return t
}

const (
	words = "000102030405060708090a0b0c0d0e0f" // table of 16: entry i is i
	four  = "05060708000000000000000000000000" // table of 4
)

func x4(s string) string { return strings.Repeat(s, 4) }

// each entry n times
func stretched(entries string, n int) string {
	var b strings.Builder
	for i := 0; i < len(entries); i += 2 {
		b.WriteString(strings.Repeat(entries[i:i+2], n))
	}
	return b.String()
}

func TestLookups(t *testing.T) {
	for _, c := range []struct{ name, table, index, want, newTable string }{
		{"mask", words, "v2:u8x64 = and v0 v1 15", "lookup64mod v0", x4(words)},
		{"mask of a shift that leaves the table", words,
			"v7:u16x32 = bitcast v0\n v8:u16x32 = shru v7 4\n v9:u8x64 = bitcast v8\n v2:u8x64 = and v9 v1 15", "lookup64mod v9", x4(words)},
		{"mask and shift", four,
			"v7:u16x32 = bitcast v0\n v8:u16x32 = shru v7 2\n v9:u8x64 = bitcast v8\n v2:u8x64 = and v9 v1 3", "lookup64mod v0", x4(stretched("05060708", 4))},
		{"mask of two bits", four, "v2:u8x64 = and v0 v1 3", "lookup64mod v0", strings.Repeat("05060708", 16)},
		{"another use of the mask", words, "v2:u8x64 = and v0 v1 15\n store out+64 v2", "lookup16 v2", ""},
		{"no mask", words, "v2:u8x64 = bitcast v0", "lookup16 v2", ""},
	} {
		index, mask, _ := strings.Cut(c.index, "v1 ")
		if mask != "" {
			index += "v1"
			num, rest, _ := strings.Cut(mask, "\n")
			index, mask = index+"\n"+rest, num
		} else {
			mask = "0"
		}
		text := "func f(x ptr, out ptr)\n const c0 " + x4(c.table) + "\n v1:u8x64 = splat " + mask +
			"\n v3:i8x64 = const c0\n v0:u8x64 = load x+0\n " + index + "\n v4:i8x64 = lookup16 v2 v3\n store out+0 v4"
		f, err := vir.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, text)
		}
		g, err := newTable(permuter()).lookups(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := vir.Verify(g); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, g)
		}
		if got := g.String(); !strings.Contains(got, c.want) || !strings.Contains(got, " "+c.newTable) {
			t.Errorf("%s: want %q and table %s in\n%s", c.name, c.want, c.newTable, got)
		}
		x := []byte(strings.Repeat("\x00\x1b\x2e\x3f\x47\x9c\xe8\xff", 8))
		if strings.HasSuffix(c.name, "no mask") {
			clear(x)
		}
		if want, got := out128(t, f, x), out128(t, g, x); want != got {
			t.Errorf("%s: %x, want %x\n%s", c.name, got, want, g)
		}
	}
}

// out128 is what f stores.
func out128(t *testing.T, f *vir.Func, x []byte) string {
	t.Helper()
	out := make([]byte, 128)
	if err := vir.Eval(f, []vir.Arg{{Buf: x}, {Buf: out}}); err != nil {
		t.Fatalf("%v\n%s", err, f)
	}
	return string(out)
}
