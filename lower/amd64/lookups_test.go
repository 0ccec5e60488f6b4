package amd64

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// lookupInstrs are the instructions of a lookup by v0 in v1, but for loads and
// stores.
var lookupInstrs = []struct{ target, types, lookup, want string }{
	{"avx512", "u16x32 i16x32", "i16x32 = lookup32mod v0 v1", "VPERMW"},
	{"avx512", "u16x16 i16x16", "i16x16 = lookup16 v0 v1", "VPERMW"},
	{"avx512", "u16x32 i16x32", "i16x32 = lookup16 v0 v1", "VPORD VPERMW"},
	{"avx512", "u16x32 i16x16", "i16x32 = lookup16mod v0 v9\n\tv9:i16x32 = join v1 v1", "VINSERTI64X4 VPERMW"},
	{"avx512", "u16x32 i16x64", "i16x32 = lookup64 v0 v1", "VPERMI2W"},
	{"avx512", "u16x32 i16x64", "i16x32 = lookup64mod v0 v1", "VPERMI2W"},
	{"avx512", "u32x16 f32x16", "f32x16 = lookup16mod v0 v1", "VPERMPS"},
	{"avx512", "u32x16 f32x32", "f32x16 = lookup32mod v0 v1", "VPERMI2PS"},
	{"avx512", "u32x16 i32x64", "i32x16 = lookup64mod v0 v1", "VPSLLD VPERMI2D VPERMI2D VPMOVD2M; VPBLENDMD"},
	{"avx512vbmi", "u8x64 u8x128", "u8x64 = lookup128 v0 v1", "VPERMI2B"},
	{"avx512vbmi", "u8x64 u8x128", "u8x64 = lookup128mod v0 v1", "VPERMI2B"},
	{"avx512vbmi", "u8x64 u8x64", "u8x64 = lookup32mod v0 v1", "VPANDD VPORD VPERMB"},
	{"avx2", "u32x8 f32x8", "f32x8 = lookup8mod v0 v1", "VPERMPS"},
	{"avx2", "u32x8 f32x16", "f32x8 = lookup16mod v0 v1", "VPSLLD VPERMPS VPERMPS VBLENDVPS"},
	{"avx2", "u16x8 i16x8", "i16x8 = lookup8 v0 v1", "VPMULLW VPADDW VPSHUFB"},
	{"avx2", "u16x8 i16x16", "i16x8 = lookup16 v0 v1", "VPMULLW VPADDW VPSLLW VPAND VPSHUFB VPSHUFB VPBLENDVB"},
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

func instrs(k *lower.Kernel) []string {
	var names []string
	for _, o := range k.Ops {
		if o.Kind != lower.MInstr {
			continue
		}
		switch o.In.Op {
		case vir.OpLoad, vir.OpStore, vir.OpConst, vir.OpSplat, vir.OpBitcast, vir.OpHalf:
		default:
			names = append(names, o.Row.Asm)
		}
	}
	return names
}

// TestSelectByTop says what selects by the top bit of lanes.
func TestSelectByTop(t *testing.T) {
	for _, c := range []struct{ target, elem, op, want string }{
		{"avx512", "u8x64", "submsb", "VPMOVB2M; VPSUBB"},
		{"avx512", "u8x64", "selmsb", "VPMOVB2M; VPBLENDMB"},
		{"avx2", "u8x32", "submsb", "VPSUBB VPBLENDVB"},
		{"avx2", "i16x16", "selmsb", "VPSRAW VPBLENDVB"},
		{"avxvnni", "f32x8", "selmsb", "VBLENDVPS"},
	} {
		text := strings.ReplaceAll("func f(x ptr, y ptr, z ptr, out ptr)\n\tv0:T = load x+0\n\tv1:T = load y+0\n\tv2:T = load z+0\n", "T", c.elem) +
			"\tv3:" + c.elem + " = " + c.op + " v0 v1 v2\n\tstore out+0 v3\n"
		_, k := compiled(t, ByName(c.target), text)
		if got := strings.Join(instrs(k), " "); got != c.want {
			t.Errorf("%s: %s of %s is %s, want %s", c.target, c.op, c.elem, got, c.want)
		}
	}
}
