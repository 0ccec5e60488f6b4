package amd64

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// lookupInstrs are the instructions of a lookup by v0 in v1, without loads and
// stores.
var lookupInstrs = []struct{ target, types, lookup, want string }{
	{"avx512", "u16x32 i16x32", "i16x32 = lookup32mod v0 v1", "VPERMW(mem)"},
	{"avx512", "u16x16 i16x16", "i16x16 = lookup16 v0 v1", "VPERMW(mem)"},
	{"avx512", "u16x32 i16x32", "i16x32 = lookup16 v0 v1", "VPORD(mem) VPERMW(mem)"},
	{"avx512", "u16x32 i16x16", "i16x32 = lookup16mod v0 v9\n\tv9:i16x32 = join v1 v1", "VINSERTI64X4 VPERMW"},
	{"avx512", "u16x32 i16x16", "i16x32 = lookup16mod v0 v9\n\tv9:i16x32 = tile [y+0 i16x16]", "VSHUFI64X2(mem) VPERMW"},
	{"avx512", "u16x32 i16x64", "i16x32 = lookup64 v0 v1", "VPERMI2W(mem)"},
	{"avx512", "u16x32 i16x64", "i16x32 = lookup64mod v0 v1", "VPERMI2W(mem)"},
	{"avx512", "u32x16 f32x16", "f32x16 = lookup16mod v0 v1", "VPERMPS(mem)"},
	{"avx512", "u32x16 f32x32", "f32x16 = lookup32mod v0 v1", "VPERMI2PS(mem)"},
	{"avx512", "u32x16 i32x64", "i32x16 = lookup64mod v0 v1", "VPSLLD VPERMI2D(mem) VPERMI2D(mem) VPMOVD2M; VPBLENDMD"},
	{"avx512vbmi", "u8x64 u8x128", "u8x64 = lookup128 v0 v1", "VPERMI2B(mem)"},
	{"avx512vbmi", "u8x64 u8x128", "u8x64 = lookup128mod v0 v1", "VPERMI2B(mem)"},
	{"avx512vbmi", "u8x64 u8x64", "u8x64 = lookup32mod v0 v1", "VPANDD(mem) VPORD VPERMB(mem)"},
	{"avx2", "u32x8 f32x8", "f32x8 = lookup8mod v0 v1", "VPERMPS(mem)"},
	{"avx2", "u32x8 f32x16", "f32x8 = lookup16mod v0 v1", "VPSLLD VPERMPS(mem) VPERMPS(mem) VBLENDVPS"},
	{"avx2", "u16x8 i16x8", "i16x8 = lookup8 v0 v1", "VPMULLW(mem) VPADDW VPSHUFB"},
	{"avx2", "u16x8 i16x16", "i16x8 = lookup16 v0 v1", "VPMULLW(mem) VPADDW VPSLLW VPAND VPSHUFB VPSHUFB VPBLENDVB"},
	{"avx2", "u8x32 u8x32", "u8x32 = lookup32 v0 v1", "VPSLLW VINSERTI128(mem) VPAND VPSHUFB VINSERTI128(mem) VPSHUFB VPBLENDVB"},
	{"avx2", "u8x16 u8x32", "u8x16 = lookup32 v0 v1", "VPSLLW VPAND VPSHUFB VPSHUFB VPBLENDVB"},
}

func TestLookupInstrs(t *testing.T) {
	for _, c := range lookupInstrs {
		types := strings.Fields(c.types)
		lookup, before, _ := strings.Cut(c.lookup, "\n")
		text := "func f(x ptr, y ptr, out ptr)\n\tv0:" + types[0] + " = load x+0\n\tv1:" + types[1] + " = load y+0\n" +
			before + "\n\tv2:" + lookup + "\n\tstore out+0 v2\n"
		_, k := compiled(t, ByName(c.target), text)
		if got := strings.Join(instrs(k), " "); got != c.want {
			t.Errorf("%s: %s of %s is %s, want %s", c.target, lookup, c.types, got, c.want)
		}
	}
}

// instrs are the instructions of k as their rows name them, without loads, stores
// and moves.
func instrs(k *lower.Kernel) []string {
	var names []string
	for _, o := range k.Ops {
		if o.Kind != lower.MInstr {
			continue
		}
		switch o.In.Op {
		case vir.OpLoad, vir.OpStore, vir.OpConst, vir.OpSplat, vir.OpBitcast, vir.OpHalf:
		default:
			name := o.Row.Asm
			if o.In.Fold > 0 {
				name += "(mem)"
			}
			names = append(names, name)
		}
	}
	return names
}

// TestSelectByTop says what selects by the top bit of lanes.
func TestSelectByTop(t *testing.T) {
	for _, c := range []struct{ target, elem, op, want string }{
		{"avx512", "u8x64", "submsb", "VPMOVB2M; VPSUBB"},
		{"avx512", "u8x64", "selmsb", "VPMOVB2M; VPBLENDMB(mem)"},
		{"avx2", "u8x32", "submsb", "VPSUBB VPBLENDVB"},
		{"avx2", "i16x16", "selmsb", "VPSRAW VPBLENDVB(mem)"},
		{"avxvnni", "f32x8", "selmsb", "VBLENDVPS(mem)"},
	} {
		text := strings.ReplaceAll("func f(x ptr, y ptr, z ptr, out ptr)\n\tv0:T = load x+0\n\tv1:T = load y+0\n\tv2:T = load z+0\n", "T", c.elem) +
			"\tv3:" + c.elem + " = " + c.op + " v0 v1 v2\n\tstore out+0 v3\n"
		_, k := compiled(t, ByName(c.target), text)
		if got := strings.Join(instrs(k), " "); got != c.want {
			t.Errorf("%s: %s of %s is %s, want %s", c.target, c.op, c.elem, got, c.want)
		}
	}
}

// TestSums says what sums of products and of lanes are, and loads that widen.
func TestSums(t *testing.T) {
	const pairs = "\tv3:i32x8 = splat 65536\n\tv4:i16x16 = bitcast v3\n\tv2:i32x8 = dot2 v0 v4 [y+0 i16x16]\n"
	const bytes = "\tv3:i8x32 = splat 1\n\tv2:i32x8 = dot4 v0 [y+0 u8x32] v3\n"
	const wide = "\tv3:i8x32 = load y+0\n\tv4:i16x32 = widen v3\n\tv5:i16x16 = half v4 0\n\tv6:i16x16 = half v4 1\n" +
		"\tv7:i16x16 = mul v5 v6\n\tv8:i32x8 = bitcast v7\n\tv2:i32x8 = add v0 v8\n"
	for _, c := range []struct{ target, text, want string }{
		{"avx2", pairs, "VPMADDWD(mem) VPADDD(mem)"},
		{"avxvnni", pairs, "VPDPWSSD_VEX(mem)"},
		{"avx512", pairs, "VPDPWSSD(mem)"},
		{"avx2", bytes, "VPMADDUBSW VPMADDWD VPADDD(mem)"},
		{"avxvnni", bytes, "VPDPBUSD_VEX"},
		{"avx512", bytes, "VPDPBUSD"},
		{"avx2", wide, "VPMOVSXBW(mem) VPMOVSXBW(mem) VPMULLW VPADDD(mem)"},
	} {
		_, k := compiled(t, ByName(c.target), "func f(x ptr, y ptr, out ptr)\n\tv0:i32x8 = load x+0\n"+c.text+"\tstore out+0 v2\n")
		if got := strings.Join(instrs(k), " "); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.target, c.text, got, c.want)
		}
	}
}
