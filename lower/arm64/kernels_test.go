package arm64

import (
	"encoding/binary"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// kernels are whole functions, wider than the machine, and how to make arguments:
// n is the trip count of the outermost loop.
var kernels = []struct {
	text string
	args func(n int, r *rand.Rand) []vir.Arg
}{
	{ // 16 rows of 2-bit codes, 4 columns of K to a field
		`func w2(out ptr, codes ptr, scales ptr, act ptr, actscale ptr, n int)
			v0:i32x16 = splat 0
			v1:u8x64 = splat 3
			loop l0 n carry v0
				prefetch codes+4096 l0*64
				v2:u8x64 = load codes+0 l0*64
				v3:u8x64 = and v2 v1
				v0:i32x16 = dot4 v0 v3 [act+0 l0*16 i8x64 splat 4]
				v4:u8x64 = shru v2 2
				v5:u8x64 = and v4 v1
				v0:i32x16 = dot4 v0 v5 [act+4 l0*16 i8x64 splat 4]
				v6:u8x64 = shru v2 4
				v7:u8x64 = and v6 v1
				v0:i32x16 = dot4 v0 v7 [act+8 l0*16 i8x64 splat 4]
				v8:u8x64 = shru v2 6
				v9:u8x64 = and v8 v1
				v0:i32x16 = dot4 v0 v9 [act+12 l0*16 i8x64 splat 4]
			end
			v10:f32x16 = cvtf32 v0
			v11:f32x16 = load scales+0
			v12:f32x16 = loadsplat actscale+0
			v13:f32x16 = mul v11 v12
			v14:f32x16 = mul v10 v13
			v15:f32x16 = canonnan v14
			store out+0 v15`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{zeros(64), raw(r, 64*n), floats(r, 16), codes(r, 16*n), floats(r, 1), {Int: int64(n)}}
		},
	},
	{ // 16 rows of 4-bit codebook codes in groups of 32 with an f16 scale, 2 columns of N
		`func w4(out ptr, codes ptr, scales ptr, act ptr, actscale ptr, n int)
			const c0 80900a0b0c0d0e0f0001020304050607
			v0:f32x16 = splat 0
			v1:f32x16 = splat 0
			v3:u8x64 = splat 15
			v4:i8x16 = const c0
			v5:i8x32 = join v4 v4
			v6:i8x64 = join v5 v5
			loop l0 n carry v0 v1
				v10:i32x16 = splat 0
				v11:i32x16 = splat 0
				loop l1 4 carry v10 v11
					v20:u8x64 = load codes+0 l0*256 l1*64
					v21:u8x64 = and v20 v3
					v22:u8x64 = shru v20 4
					v23:i8x64 = lookup16 v21 v6
					v24:i8x64 = lookup16 v22 v6
					v10:i32x16 = dot4 v10 v23 [act+0 l0*64 l1*8 i8x64 splat 4]
					v10:i32x16 = dot4 v10 v24 [act+4 l0*64 l1*8 i8x64 splat 4]
					v11:i32x16 = dot4 v11 v23 [act+32 l0*64 l1*8 i8x64 splat 4]
					v11:i32x16 = dot4 v11 v24 [act+36 l0*64 l1*8 i8x64 splat 4]
				end
				v40:f16x16 = load scales+0 l0*32
				v41:f32x16 = cvthalf v40
				v42:f32x16 = loadsplat actscale+0 l0*8
				v43:f32x16 = mul v41 v42
				v44:f32x16 = cvtf32 v10
				v45:f32x16 = mul v44 v43
				v0:f32x16 = add v0 v45
				v52:f32x16 = loadsplat actscale+4 l0*8
				v53:f32x16 = mul v41 v52
				v54:f32x16 = cvtf32 v11
				v55:f32x16 = mul v54 v53
				v1:f32x16 = add v1 v55
			end
			store out+0 v0
			store out+64 v1`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{zeros(128), raw(r, 256*n), halves(r, 16*n), codes(r, 64*n), floats(r, 2*n), {Int: int64(n)}}
		},
	},
	{ // quantize: largest magnitude, then codes and their sum
		`func prepare(x ptr, act ptr, sum ptr, scale ptr, n int)
			v0:i32x16 = splat 0
			v1:i32x16 = splat 2147483647
			loop l0 n carry v0
				v2:i32x16 = load x+0 l0*64
				v3:i32x16 = and v2 v1
				v0:i32x16 = maxs v0 v3
			end
			v4:i32x1 = redmaxs v0
			v5:f32x1 = bitcast v4
			v6:f32x1 = splat 1123942400
			v7:f32x1 = div v5 v6
			store scale+0 v7
			v8:f32x1 = div v6 v5
			v9:f32x16 = splatlane v8
			v10:i32x16 = splat 0
			v11:i8x16 = splat 1
			v12:i32x4 = splat 0
			loop l1 n carry v10 v12
				v13:f32x16 = load x+0 l1*64
				v14:f32x16 = mul v13 v9
				v15:i32x16 = cvti32 v14
				v16:i8x16 = trunc v15
				store act+0 l1*16 v16
				v10:i32x16 = add v10 v15
				v12:i32x4 = dot4 v12 v11 v16
			end
			v17:i32x1 = redadd v10
			v18:i32x1 = redadd v12
			store sum+0 v17
			store sum+4 v18`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{floats(r, 16*n), zeros(16 * n), zeros(8), zeros(4), {Int: int64(n)}}
		},
	},
	{ // every operation that NEON has no row for
		`func expanded(a ptr, b ptr, out ptr, n int)
			v0:i32x8 = splat 1000
			loop l0 n carry v0
				v1:u8x32 = load a+0 l0*32
				v2:i8x32 = load b+0 l0*32
				v0:i32x8 = dot4 v0 v1 v2
				v3:i16x16 = bitcast v1
				v4:i16x16 = bitcast v2
				v0:i32x8 = dot2 v0 v3 v4
				v5:i16x16 = dot2sat v1 v2
				store out+0 l0*256 v5
				v6:i8x16 = trunc v5
				store out+32 l0*256 v6
				v7:u8x8 = trunc v0
				store out+48 l0*256 v7
				v8:f32x8 = bitcast v1
				v9:f32x8 = canonnan v8
				store out+64 l0*256 v9
				v10:u8x16 = half v1 1
				v11:i8x16 = half v2 0
				v12:i8x16 = lookup16mod v10 v11
				store out+96 l0*256 v12
				v13:i8x16 = lookup32mod v10 v2
				store out+112 l0*256 v13
				v14:i8x32 = lookup32mod v1 v2
				store out+128 l0*256 v14
				v15:u8x64 = join v1 v1
				v16:u8x16 = lookup64mod v10 v15
				store out+160 l0*256 v16
			end
			store out+224 v0`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{raw(r, 32*n), raw(r, 32*n), zeros(256 * max(1, n)), {Int: int64(n)}}
		},
	},
	{ // 16-bit sums of table entries, widened by pairs
		`func sums(index ptr, table ptr, out ptr, n int)
			v0:i32x8 = splat 5
			v1:i16x16 = splat 1
			v2:i8x16 = load table+0
			loop l0 n carry v0
				v3:i16x16 = splat 0
				loop l1 16 carry v3
					v4:u8x16 = load index+0 l0*256 l1*16
					v5:i8x16 = lookup16mod v4 v2
					v6:i16x16 = widen v5
					v3:i16x16 = add v3 v6
				end
				v0:i32x8 = dot2 v0 v3 v1
				v8:i16x16 = load index+0 l0*256
				v7:i32x8 = dot2wrap v1 v8
				store out+0 l0*32 v7
			end
			store out+0 v0`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{raw(r, 256*n), raw(r, 16), zeros(32 * max(1, n)), {Int: int64(n)}}
		},
	},
	{ // a register set to 0 last is not 0 at first
		`func last(a ptr, out ptr, n int)
			v0:i32x4 = load a+0
			loop l0 n carry v0
				v1:i16x8 = load a+16 l0*16
				v2:i32x4 = sum2 v0 v1
				store out+0 l0*16 v2
				v0:i32x4 = splat 0
			end
			store out+0 v0`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{raw(r, 16+16*n), zeros(16 * max(1, n)), {Int: int64(n)}}
		},
	},
	{ // pointers that go down, offsets past every field, loops in loops
		`func far(a ptr, out ptr, n int)
			v0:i32x4 = splat 7
			loop l0 n carry v0
				v1:i32x4 = load a+70000 l0*-16
				v2:i32x4 = loadsplat a+66000 l0*-4
				v0:i32x4 = add v0 v1
				loop l1 3 carry v0
					v3:i32x4 = load a+32768 l0*16 l1*1024
					v4:u16x8 = loadsplat a+12345 l1*-5000
					v5:i32x4 = bitcast v4
					v6:i32x4 = xor v3 v5
					loop l2 n carry v0
						v7:i32x4 = load a+3 l0*1 l1*2 l2*5
						v8:i32x4 = add v6 v7
						v0:i32x4 = sub v0 v8
					end
					store out+4 l0*48 l1*16 v0
				end
				v0:i32x4 = add v0 v2
			end
			store out+65537 v0`,
		func(n int, r *rand.Rand) []vir.Arg {
			return []vir.Arg{raw(r, 80000), zeros(66000), {Int: int64(n)}}
		},
	},
}

// TestFused: what one instruction can do is not done by more.
func TestFused(t *testing.T) {
	for _, c := range []struct {
		name string
		have string
		not  []string
	}{
		{"w4", "fcvtl2", []string{"zip1", "dup", "mov"}},
		{"prepare", "uzp1", []string{"xtn", "zip1"}},
		{"sums", "sadalp", []string{"zip1", "shl", "sshr", "mov"}},
		{"sums", "saddlp", nil},
		{"sums", "sshll2", nil},
	} {
		for _, text := range kernels {
			if !strings.HasPrefix(text.text, "func "+c.name+"(") {
				continue
			}
			asm := compile(t, text.text)
			if !strings.Contains(asm, c.have) {
				t.Errorf("%s has no %s:\n%s", c.name, c.have, asm)
			}
			for _, s := range c.not {
				if strings.Contains(asm, "// "+s+" ") {
					t.Errorf("%s has %s:\n%s", c.name, s, asm)
				}
			}
		}
	}
}

func compile(t *testing.T, text string) string {
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	k, err := lower.Compile(ByName("i8mm"), f)
	if err != nil {
		t.Fatal(err)
	}
	file, err := lower.Emit(ByName("i8mm"), "p", k)
	if err != nil {
		t.Fatal(err)
	}
	return string(file.Data)
}

func TestEmitRefusesEqualNames(t *testing.T) {
	k := &lower.Kernel{Func: &vir.Func{Name: "twice"}}
	_, err := lower.Emit(ByName("i8mm"), "p", k, k)
	if err == nil || err.Error() != "arm64/i8mm: two kernels are called twice" {
		t.Error(err)
	}
}

func TestKernels(t *testing.T) {
	for _, target := range Targets() {
		t.Run(target.Machine().Name, func(t *testing.T) { runKernels(t, target) })
	}
}

func runKernels(t *testing.T, target lower.Target) {
	r := rand.New(rand.NewSource(5))
	var b batch
	for _, c := range kernels {
		f, err := vir.Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		k, err := lower.Compile(target, f)
		if err != nil {
			t.Fatal(err)
		}
		b.kernels = append(b.kernels, k)
		for _, n := range []int{1, 2, 7, 0, 33} {
			b.call(t, f, c.args(n, r))
		}
	}
	b.run(t, target)
}

func zeros(n int) vir.Arg             { return vir.Arg{Buf: make([]byte, n)} }
func raw(r *rand.Rand, n int) vir.Arg { return vir.Arg{Buf: randomBytes(r, n)} }

// codes are activations: -127 to 127, many at the ends.
func codes(r *rand.Rand, n int) vir.Arg {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte([]int{127, -127, r.Intn(255) - 127}[r.Intn(3)])
	}
	return vir.Arg{Buf: b}
}

func floats(r *rand.Rand, n int) vir.Arg {
	b := make([]byte, 4*n)
	for i := range n {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(float32(r.NormFloat64())))
	}
	return vir.Arg{Buf: b}
}

// halves are f16 of ordinary size, and some subnormal ones.
func halves(r *rand.Rand, n int) vir.Arg {
	b := randomBytes(r, 2*n)
	for i := range n {
		b[2*i+1] &= 0xbf
	}
	return vir.Arg{Buf: b}
}
