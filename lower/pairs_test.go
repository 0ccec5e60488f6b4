package lower

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/tests/virgen"
)

// passCase is a body, and what a pass makes of it and does not leave.
type passCase struct{ name, body, want, not string }

// run holds the pass to what c wants and to the meaning of its body.
func (c passCase) run(t *testing.T, head string, pass func(*vir.Func) (*vir.Func, error)) {
	t.Helper()
	f, err := vir.Parse(head + c.body)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	g, err := pass(f)
	if err == nil {
		g, err = dce(g)
	}
	if err == nil {
		err = vir.Verify(g)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.name, err, g)
	}
	if got := g.String(); !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
		t.Errorf("%s: want %q and no %q in\n%s", c.name, c.want, c.not, got)
	}
	for seed := range int64(20) {
		args, again := passArgs(f, seed), passArgs(g, seed)
		if err := vir.Eval(f, args); err != nil {
			t.Fatal(err)
		}
		if err := vir.Eval(g, again); err != nil {
			t.Fatalf("%s: %v\n%s", c.name, err, g)
		}
		for i := range args {
			if !bytes.Equal(args[i].Buf, again[i].Buf) {
				t.Fatalf("%s: another result\n%s", c.name, g)
			}
		}
	}
}

// passArgs are random, but within what parameters promise of bytes.
func passArgs(f *vir.Func, seed int64) []vir.Arg {
	args := virgen.Args(rand.New(rand.NewSource(seed)), f, 3)
	for i, p := range f.Params {
		for k, b := range args[i].Buf {
			if seed%2 == 1 { // where bounds are reached
				b = []byte{0, 127, 128, 129}[b%4]
				args[i].Buf[k] = b
			}
			if p.Most > 0 && b == 128 {
				args[i].Buf[k] = 129
			}
		}
	}
	return args
}

// TestNarrow: a sum with a constant that is truncated is computed from truncated terms, if nothing else reads the sum.
func TestNarrow(t *testing.T) {
	const head = "func f(x ptr, out ptr)\n const c0 01020304050607080900ff80aabbccdd\n v0:i16x8 = load x+0\n v1:i16x8 = const c0\n v2:i16x8 = splat -64\n "
	for _, c := range []passCase{
		{"and, sub", "v3:i16x8 = and v0 v2\n v4:i16x8 = sub v3 v1\n v5:u8x8 = trunc v4\n store out+0 v5", "= trunc v0", "trunc v4"},
		{"sub from", "v4:i16x8 = sub v2 v0\n v5:u8x8 = trunc v4\n store out+0 v5", "= trunc v0", "trunc v4"},
		{"splat of i8", "v4:i16x8 = add v2 v0\n v5:i8x8 = trunc v4\n store out+0 v5", "splat -64", "trunc v4"},
		{"no constant", "v3:i16x8 = load x+16\n v4:i16x8 = add v3 v0\n v5:u8x8 = trunc v4\n store out+0 v5", "trunc v4", ""},
		{"read again", "v4:i16x8 = add v1 v0\n v5:u8x8 = trunc v4\n store out+0 v5\n store out+8 v4", "trunc v4", ""},
		{"shifted", "v4:i16x8 = shru v0 3\n v5:u8x8 = trunc v4\n store out+0 v5", "trunc v4", ""},
		{"carried", "v4:i16x8 = add v1 v0\n loop l0 2 carry v4\n v5:u8x8 = trunc v4\n store out+0 v5\n v4:i16x8 = add v4 v1\n end", "trunc v4", ""},
	} {
		c.run(t, head, newTable(newToy(toyAll)).narrow)
	}
}

// TestInterleave: what does not fit a register before it is truncated is computed by even and odd lanes, if truncation costs
// more and lanes can be had so.
func TestInterleave(t *testing.T) {
	const head = "func f(x ptr, out ptr)\n const c0 01000200030004000500060007000800090010001100120013ff14001500ff7f\n v0:i16x16 = loadsplat x+0\n v1:i16x16 = const c0\n v2:i16x16 = mul v0 v1\n "
	dear := newToy(toyAll)
	for i := range dear.rows {
		if dear.rows[i].Op == vir.OpTrunc {
			dear.rows[i].Cost = 20
		}
	}
	for _, c := range []passCase{
		{"product", "v3:i8x16 = trunc v2\n store out+0 v3", "bitsel", "trunc"},
		{"shifted", "v4:i16x16 = shrs v2 7\n v3:i8x16 = trunc v4\n store out+0 v3", "shl v", "shrs"},
		{"upper bytes", "v4:i16x16 = shru v2 8\n v3:i8x16 = trunc v4\n store out+0 v3", "bitsel", "shl"},
		{"shifted more", "v4:i16x16 = shru v2 9\n v3:i8x16 = trunc v4\n store out+0 v3", "bitsel", "trunc"},
		{"two of one", "v4:i16x16 = shrs v2 7\n v3:i8x16 = trunc v4\n v5:i8x16 = trunc v2\n store out+0 v3\n store out+16 v5", "bitsel", "trunc"},
		{"lanes from memory", "v4:i16x16 = load x+0\n v5:i16x16 = add v4 v2\n v3:i8x16 = trunc v5\n store out+0 v3", "trunc", "bitsel"},
		{"lanes in order too", "v3:i8x16 = trunc v2\n store out+0 v3\n store out+16 v2", "trunc", "bitsel"},
		{"one register", "v4:i16x8 = half v2 0\n v3:i8x8 = trunc v4\n store out+0 v3", "trunc", "bitsel"},
		{"32 bits", "v4:i32x16 = widen v2\n v3:i8x16 = trunc v4\n store out+0 v3", "trunc", "bitsel"},
	} {
		c.run(t, head, newTable(dear).interleave)
	}
	cheap := passCase{"cheap", "v3:i8x16 = trunc v2\n store out+0 v3", "trunc", "bitsel"}
	cheap.run(t, head, newTable(newToy(toyAll)).interleave)
}

// TestWhole: a loop that sums lower and upper parts of the same lanes adds the lanes, if nothing else is done to the sums.
func TestWhole(t *testing.T) {
	const head = "func f(x ptr, out ptr)\n v0:i16x8 = splat 0\n v1:i16x8 = splat 0\n v2:i16x8 = splat 255\n v10:i16x8 = splat 1\n "
	const tail = " end\n store out+0 v0\n store out+16 v1\n"
	const load, load2 = "v3:i16x8 = load x+0 l0*16\n ", "v6:i16x8 = load x+64 l0*16\n "
	const low, high = "v4:i16x8 = and v3 v2\n v0:i16x8 = add v0 v4\n ", "v5:i16x8 = shru v3 8\n v1:i16x8 = add v5 v1\n "
	const low2, high2 = "v7:i16x8 = and v2 v6\n v0:i16x8 = add v7 v0\n ", "v8:i16x8 = shru v6 8\n v1:i16x8 = add v1 v8\n "
	const loop = "loop l0 3 carry v0 v1\n "
	for _, c := range []passCase{
		{"one", loop + load + low + high + tail, "shl v1 8", "and"},
		{"two", loop + load + low + high + load2 + low2 + high2 + tail, "shl v1 8", "and"},
		{"upper first", loop + load + high + low + tail, "shl v1 8", "and"},
		{"two pairs", "v20:i16x8 = splat 0\n v21:i16x8 = splat 0\n loop l0 3 carry v0 v1 v20 v21\n " + load + low + high + "v22:i16x8 = and v3 v2\n v20:i16x8 = add v20 v22\n v23:i16x8 = shru v3 8\n v21:i16x8 = add v21 v23\n" +
			"end\n store out+0 v0\n store out+16 v1\n store out+32 v20\n store out+48 v21\n", "shl v", "and"},
		{"32 bits", "v20:i32x4 = splat 0\n v21:i32x4 = splat 0\n v22:i32x4 = splat 4095\n loop l0 3 carry v20 v21\n v23:i32x4 = load x+0 l0*16\n v24:i32x4 = and v23 v22\n v20:i32x4 = add v20 v24\n v25:i32x4 = shru v23 12\n" +
			"v21:i32x4 = add v21 v25\n end\n store out+0 v20\n store out+16 v21\n", "shl v21 12", "and"},
		{"upper not from 0", "loop l0 3 carry v0 v10\n " + load + low + "v5:i16x8 = shru v3 8\n v10:i16x8 = add v5 v10\n end\n store out+0 v0\n store out+16 v10\n", "and", "shl"},
		{"other order", loop + load + load2 + low + low2 + high2 + high + tail, "and", "shl"},
		{"one upper part", loop + load + load2 + low + low2 + high + tail, "and", "shl"},
		{"other lanes", loop + load + load2 + low + high2 + tail, "and", "shl"},
		{"other bits", loop + load + low + "v5:i16x8 = shru v3 7\n v1:i16x8 = add v5 v1\n" + tail, "and", "shl"},
		{"no mask of low bits", loop + load + "v9:i16x8 = splat 254\n v4:i16x8 = and v3 v9\n v0:i16x8 = add v0 v4\n" + high + tail, "and", "shl"},
		{"signed", loop + load + low + "v5:i16x8 = shrs v3 8\n v1:i16x8 = add v5 v1\n" + tail, "and", "shl"},
		{"read in the loop", loop + load + low + high + "v9:i16x8 = add v0 v2\n store out+64 v9\n" + tail, "and", "shl"},
		{"part read again", loop + load + low + high + "store out+64 v4\n" + tail, "and", "shl"},
		{"not from 0", "loop l0 3 carry v10 v1\n " + load + "v4:i16x8 = and v3 v2\n v10:i16x8 = add v10 v4\n " + high + "end\n store out+0 v10\n store out+16 v1\n", "and", "shl"},
		{"read before", "store out+64 v0\n " + loop + load + low + high + tail, "and", "shl"},
		{"around a loop", loop + "loop l1 2 carry v0 v1\n " + load + low + high + "end\n" + tail, "and", "shl"},
		{"within a loop", "loop l1 2\n v12:i16x8 = splat 0\n v11:i16x8 = splat 0\n loop l0 3 carry v12 v11\n " + load + "v4:i16x8 = and v3 v2\n v12:i16x8 = add v12 v4\n v5:i16x8 = shru v3 8\n v11:i16x8 = add v11 v5\n end\n" +
			"store out+0 l1*32 v12\n store out+16 l1*32 v11\n end\n", "shl v11 8", "and"},
	} {
		c.run(t, head, newTable(newToy(toyAll)).whole)
	}
	without := newToy(toyAll)
	without.rows = slices.DeleteFunc(without.rows, func(r Row) bool { return r.Op == vir.OpSub })
	passCase{"no subtraction", loop + load + low + high + tail, "and", "shl"}.run(t, head, newTable(without).whole)
}

// doubled runs pairs on a byte that is doubled `n` times by adding the sum to itself: 2^n terms, taken apart one by one.
func doubled(n int) error {
	text := "func f(act ptr 127, out ptr)\n v0:i8x8 = loadsplat act+0\n v1:i16x8 = widen v0\n"
	for i := range n {
		text += fmt.Sprintf(" v%d:i16x8 = add v%d v%d\n", i+2, i+1, i+1)
	}
	f, err := vir.Parse(text + fmt.Sprintf(" store out+0 v%d", n+1))
	if err == nil {
		_, err = newTable(newToy(toyAll)).pairs(f)
	}
	return err
}

// TestPairs: sums of bytes times constants are sums of pairs, where the target has those, they do not saturate and it is less.
func TestPairs(t *testing.T) {
	const head = `func f(act ptr 127, other ptr, out ptr)
		const c0 ffff0000010002000300fefffdff0400
		const c1 01000000010002000300040005000600
		const c2 0000ffffffff0000ffff0000ffff0000
		const c3 4000c00040004000c0ff400040fe4000
		const c4 4001c10040004000c0ff400040fe4000
		const c5 4100ffff000000000000000000000000
		const c6 4000ffff000000000000000000000000
		v0:i8x8 = loadsplat act+3
		v1:i16x8 = widen v0
		v2:i8x8 = loadsplat act+4
		v3:i16x8 = widen v2
		v4:i8x8 = loadsplat act+9
		v5:i16x8 = widen v4
		v6:i16x8 = const c0
		v7:i16x8 = const c1
		v8:i16x8 = const c2
		v9:i16x8 = const c3
		v10:i16x8 = mul v1 v6
		v11:i16x8 = mul v3 v7
		v12:i16x8 = and v5 v8
	`
	for _, c := range []passCase{
		{"two", "v20:i16x8 = add v10 v11\n store out+0 v20", "loadsplat act+3", "mul"},
		{"negative", "v20:i16x8 = sub v11 v10\n store out+0 v20", "dot2sat", "mul"},
		{"without signs", "v19:i16x8 = mul v1 v7\n v20:i16x8 = add v19 v11\n store out+0 v20", "dot2sat", "xor"},
		{"masked, three", "v20:i16x8 = add v10 v11\n v21:i16x8 = sub v20 v12\n store out+0 v21", "dot2sat", "and v5"},
		{"with room for constants", "v20:i16x8 = add v10 v11\n v21:i16x8 = add v20 v12\n v22:i16x8 = add v21 v9\n store out+0 v22", "dot2sat", "mul"},
		{"constants that are no bytes", "v18:i16x8 = const c4\n v20:i16x8 = add v10 v11\n v21:i16x8 = add v20 v12\n v22:i16x8 = add v21 v18\n store out+0 v22", "dot2sat", "mul"},
		{"shifted terms", "v18:i16x8 = shl v11 2\n v20:i16x8 = add v10 v18\n store out+0 v20", "dot2sat", "mul"},
		{"shifted sum", "v20:i16x8 = add v10 v11\n v21:i16x8 = shl v20 9\n store out+0 v21", "dot2sat", "mul"},
		{"one twice", "v18:i16x8 = mul v1 v7\n v20:i16x8 = add v10 v18\n v21:i16x8 = add v20 v11\n store out+0 v21", "dot2sat", "mul"},
		{"mask of some bits", "v18:i16x8 = and v11 v7\n v20:i16x8 = add v10 v18\n store out+0 v20", "mul", "dot2sat"},
		{"saturates", "v18:i16x8 = mul v10 v9\n v20:i16x8 = add v18 v11\n store out+0 v20", "mul", "dot2sat"},
		{"saturates by one too many", "v13:i16x8 = const c5\n v14:i16x8 = const c6\n v15:i16x8 = mul v1 v13\n v16:i16x8 = mul v3 v14\n v20:i16x8 = add v15 v16\n store out+0 v20", "mul", "dot2sat"}, // 255 * (65 + 64) is 32895
		{"just does not saturate", "v14:i16x8 = const c6\n v15:i16x8 = mul v1 v14\n v16:i16x8 = mul v3 v14\n v20:i16x8 = add v15 v16\n store out+0 v20", "dot2sat", "mul"},
		{"no fewer instructions", "v20:i16x8 = sub v1 v5\n store out+0 v20", "widen", "dot2sat"},
		{"stored to", "v18:i8x8 = splat 1\n store act+4 v18\n v20:i16x8 = add v10 v11\n store out+0 v20", "mul", "dot2sat"},
		{"bytes of 128", "v13:i8x8 = loadsplat other+4095\n v14:i16x8 = widen v13\n v15:i16x8 = mul v14 v6\n v16:i8x8 = loadsplat other+4094\n v17:i16x8 = widen v16\n v18:i16x8 = mul v17 v7\n v20:i16x8 = add v15 v18\n store out+0 v20", "loadsplat other+4094", "mul"},
		{"within a loop", "loop l0 2\n v13:i8x8 = loadsplat act+13 l0*16\n v14:i16x8 = widen v13\n v15:i16x8 = mul v14 v6\n v16:i8x8 = loadsplat act+14 l0*16\n v17:i16x8 = widen v16\n v18:i16x8 = mul v17 v7\n v20:i16x8 = add v15 v18\n store out+0 l0*16 v20\n end", "dot2sat", "v15"},
		{"another stored to", "v18:i8x8 = splat 1\n store out+64 v18\n v20:i16x8 = add v10 v11\n store out+0 v20", "dot2sat", "mul"},
		{"in a loop", "loop l0 2\n v20:i16x8 = add v10 v11\n store out+0 v20\n end", "mul", "dot2sat"},
		{"of any lanes", "v16:i8x8 = load act+1\n v17:i16x8 = widen v16\n v18:i16x8 = mul v17 v7\n v20:i16x8 = add v10 v18\n store out+0 v20", "mul", "dot2sat"},
	} {
		c.run(t, head, newTable(newToy(toyAll)).pairs)
	}
	if err := doubled(40); err != nil {
		t.Error(err)
	}
	none := passCase{"no such sums", "v20:i16x8 = add v10 v11\n store out+0 v20", "mul", "dot2sat"}
	none.run(t, head, newTable(newToy(0)).pairs)
}
