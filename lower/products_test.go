package lower

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
)

// TestProducts: 32-bit products of numbers of 16 bits are sums of pairs, where the target has
// such, and what they are added to is in the same instruction.
func TestProducts(t *testing.T) {
	const head = "func f(x ptr, small ptr 32767 words, out ptr)\n v9:u8x4 = load x+0\n v1:i32x4 = widen v9\n v2:i32x4 = load small+0\n v3:i32x4 = load small+16\n v0:i32x4 = load x+0\n "
	const pairs = "v14:u8x8 = load x+0\n v5:i16x8 = widen v14\n v15:i16x8 = load small+0\n v16:i16x8 = and v15 v5\n v17:i16x8 = splat 1\n v18:i32x4 = splat 0\n" +
		"v6:i32x4 = dot2 v18 v5 v17\n v8:i32x4 = dot2 v18 v16 v17\n"
	carried := pairs + "v21:i16x8 = and v5 v16\n v22:i32x4 = splat 5\n loop l0 3 carry v21 v22\n v23:i32x4 = dot2 v18 v21 v17\n v24:i32x4 = dot2 v18 v21 v17\n " +
		"v21:i16x8 = add v21 v5\n v10:i32x4 = mul v23 v1\n v11:i32x4 = mul v1 v24\n v12:i32x4 = add v22 v10\n v22:i32x4 = xor v12 v11\n end\n v25:i32x4 = xor v22 v6\n store out+0 v25"
	wide := strings.Replace(pairs, "dot2 v18 v5 v17", "dot2 v18 v15 v17", 1)
	for _, c := range []struct{ name, body, want, not string }{
		{"sum", "v4:i32x4 = mul v2 v1\n v5:i32x4 = add v0 v4\n store out+0 v5", "dot2 ", "mul"},
		{"sum, the other way around", "v4:i32x4 = mul v1 v2\n v5:i32x4 = add v4 v0\n store out+0 v5", "dot2 ", "mul"},
		{"two numbers with signs", "v4:i32x4 = mul v2 v3\n v5:i32x4 = add v0 v4\n store out+0 v5", "and v3", "mul"},
		{"product", "v4:i32x4 = mul v2 v1\n v5:i32x4 = sub v0 v4\n store out+0 v5", "dot2wrap", "mul"},
		{"used twice", "v4:i32x4 = mul v2 v1\n v5:i32x4 = add v0 v4\n v6:i32x4 = xor v5 v4\n store out+0 v6", "dot2wrap", "mul"},
		{"more than 16 bits", "v4:i32x4 = mul v0 v1\n store out+0 v4", "mul v0 v1", "dot2"},
		{"accumulated", "v7:i32x4 = splat 5\n loop l0 3 carry v7\n v4:i32x4 = mul v2 v1\n v7:i32x4 = add v7 v4\n end\n store out+0 v7", "dot2 v7", "mul"},
		{"of another body", "v7:i32x4 = splat 5\n v4:i32x4 = mul v2 v1\n loop l0 3 carry v7\n v7:i32x4 = add v7 v4\n end\n store out+0 v7", "add v7", "mul"},
		{"parts of words", "v5:u8x4 = load small+0\n v6:u8x2 = half v5 0\n v7:u8x16 = tile v6\n v8:i32x4 = bitcast v7\n v4:i32x4 = mul v8 v1\n store out+0 v4", "mul v8 v1", "dot2"},
		{"sums of pairs", pairs + "v10:i32x4 = mul v6 v1\n v11:i32x4 = mul v1 v8\n v12:i32x4 = add v0 v10\n v13:i32x4 = xor v12 v11\n store out+0 v13", "dot2wrap v5 ", "mul"},
		{"sums of pairs that need more bits", wide + "v10:i32x4 = mul v6 v1\n v13:i32x4 = xor v10 v8\n store out+0 v13", "dot2wrap v15 ", "mul"},
		{"sums of two pairs that need more bits", wide + "v19:i32x4 = dot2 v6 v5 v17\n v10:i32x4 = mul v19 v1\n v13:i32x4 = xor v10 v8\n store out+0 v13", "dot2wrap v5 ", "mul"},
		{"sums that need more bits by others that do", wide + "v10:i32x4 = mul v6 v0\n v13:i32x4 = xor v10 v8\n store out+0 v13", "mul v6 v0", "lookup16"},
		{"sums of pairs before a loop", pairs + "v20:i32x4 = splat 5\n loop l0 3 carry v20\n v10:i32x4 = mul v6 v1\n v11:i32x4 = mul v1 v8\n v12:i32x4 = add v20 v10\n v20:i32x4 = xor v12 v11\n end\n store out+0 v20", "dot2 v18 v5 v17", "lookup16"},
		{"sums of pairs that a loop carries", carried, "dot2 v18 v5 v17", "lookup16"},
		{"sums of pairs, of one", pairs + "v10:i32x4 = mul v6 v1\n v12:i32x4 = add v0 v10\n v13:i32x4 = xor v12 v8\n store out+0 v13", "dot2 v18 v5 v17", "lookup16"},
		{"sums of pairs, used twice", pairs + "v10:i32x4 = mul v6 v1\n v11:i32x4 = mul v6 v2\n v12:i32x4 = xor v11 v10\n v13:i32x4 = xor v12 v1\n store out+0 v13", "dot2 v18 v5 v17", "lookup16"},
		{"sums of pairs and more", strings.Replace(pairs, "v18:i32x4 = splat 0", "v18:i32x4 = splat 1", 1) + "v10:i32x4 = mul v6 v1\n v11:i32x4 = mul v8 v1\n v13:i32x4 = xor v10 v11\n store out+0 v13", "dot2 v18 v5 v17", "lookup16"},
		{"sums of twice the pairs", strings.Replace(pairs, "v17:i16x8 = splat 1", "v17:i16x8 = splat 2", 1) + "v10:i32x4 = mul v6 v1\n v11:i32x4 = mul v8 v1\n v13:i32x4 = xor v10 v11\n store out+0 v13", "dot2 v18 v5 v17", "lookup16"},
	} {
		f, err := vir.Parse(head + c.body)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		g, err := newTable(newToy(toyAll)).products(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := vir.Verify(g); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, g)
		}
		if got := g.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s: want %q and no %q in\n%s", c.name, c.want, c.not, got)
		}
		none, err := newTable(newToy(0)).products(f)
		if err != nil || none.String() != f.String() {
			t.Errorf("%s: without sums of pairs\n%s", c.name, none)
		}
		if want, got := productsOut(t, f), productsOut(t, g); want != got {
			t.Errorf("%s: %x, want %x\n%s", c.name, got, want, g)
		}
	}
}

func productsOut(t *testing.T, f *vir.Func) string {
	t.Helper()
	x := []byte("\x00\x01\x80\xff0123456789ab")
	var small []byte
	for _, v := range []int32{0, -1, 32767, -32767, 255, -255, -32767, -32767} {
		small = binary.LittleEndian.AppendUint32(small, uint32(v))
	}
	out := make([]byte, 16)
	if err := vir.Eval(f, []vir.Arg{{Buf: x}, {Buf: small}, {Buf: out}}); err != nil {
		t.Fatal(err)
	}
	return string(out)
}
