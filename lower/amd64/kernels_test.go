package amd64

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/worker"
)

// compiled is text as a function and as a kernel of tg.
func compiled(t *testing.T, tg lower.Target, text string) (*vir.Func, *lower.Kernel) {
	t.Helper()
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	k, err := lower.Compile(tg, f)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f, k
}

// gemv is 16 rows of 2-bit weights, 4 in a byte, times int8 activations: the
// codes times 1 and times 4 accumulate apart.
const gemv = `func gemv(w ptr, act ptr, scale ptr, out ptr, k int)
	v0:i32x16 = splat 0
	v1:i32x16 = splat 0
	v2:i32x16 = splat 0
	v3:i32x16 = splat 0
	v4:u8x64 = splat 3
	v5:u8x64 = splat 12
	loop l0 k carry v0 v1 v2 v3
		prefetch w+4096 l0*64
		v6:u8x64 = load w+0 l0*64
		v7:u16x32 = bitcast v6
		v8:u16x32 = shru v7 4
		v9:u8x64 = bitcast v8
		v10:u8x64 = and v6 v4
		v11:i32x16 = loadsplat act+0 l0*16
		v12:i8x64 = bitcast v11
		v0:i32x16 = dot4 v0 v10 v12
		v13:u8x64 = and v6 v5
		v14:i32x16 = loadsplat act+4 l0*16
		v15:i8x64 = bitcast v14
		v1:i32x16 = dot4 v1 v13 v15
		v16:u8x64 = and v9 v4
		v17:i32x16 = loadsplat act+8 l0*16
		v18:i8x64 = bitcast v17
		v2:i32x16 = dot4 v2 v16 v18
		v19:u8x64 = and v9 v5
		v20:i32x16 = loadsplat act+12 l0*16
		v21:i8x64 = bitcast v20
		v3:i32x16 = dot4 v3 v19 v21
	end
	v22:i32x16 = add v0 v2
	v23:i32x16 = add v1 v3
	v24:i32x16 = shrs v23 2
	v25:i32x16 = add v22 v24
	v26:f32x16 = cvtf32 v25
	v27:f16x16 = load scale+0
	v28:f32x16 = cvthalf v27
	v29:f32x16 = mul v26 v28
	store out+0 v29
`

func TestGEMV(t *testing.T) {
	const k = 64
	rnd := rand.New(rand.NewPCG(1, 1))
	args := []vir.Arg{{Buf: make([]byte, 64*k)}, {Buf: make([]byte, 16*k)}, {Buf: make([]byte, 32)}, {Buf: make([]byte, 64)}, {Int: k}}
	for _, a := range args[:2] {
		for i := range a.Buf {
			a.Buf[i] = byte(rnd.Uint32())
		}
	}
	for i := 0; i < 32; i += 2 {
		binary.LittleEndian.PutUint16(args[2].Buf[i:], uint16(rnd.IntN(0x7000)))
	}
	for _, tg := range Targets() {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			tg := onThisCPU(t, tg)
			f, kernel := compiled(t, tg, gemv)
			for _, n := range []int64{k, 1, 0, -5} {
				args[4].Int = n
				checkKernel(t, tg, f, kernel, args)
			}
		})
	}
}

// lut is a product of 4-bit codes by table: loops nest, one of them with a constant
// count, and a constant is looked up.
const lut = `func lut(w ptr, act ptr, out ptr, rows int, k int)
	const c0 80c0e0f0f8fcfeff0001020408102040
	v0:i8x16 = const c0
	v1:i8x32 = join v0 v0
	v2:u8x32 = splat 15
	loop l0 rows
		v3:i32x8 = splat 0
		loop l1 k carry v3
			loop l2 3 carry v3
				v4:u8x32 = load w+0 l0*384 l1*96 l2*32
				v5:u8x32 = and v4 v2
				v6:i8x32 = lookup16 v5 v1
				v7:u8x32 = shru v4 4
				v8:i8x32 = lookup16 v7 v1
				v3:i32x8 = dot4 v3 v6 [act+0 l1*192 l2*64 i8x32]
				v3:i32x8 = dot4 v3 v8 [act+32 l1*192 l2*64 i8x32]
			end
		end
		v9:i32x1 = redadd v3
		store out+0 l0*4 v9
	end
`

func TestNestedLoops(t *testing.T) {
	const rows, k = 5, 4
	rnd := rand.New(rand.NewPCG(2, 1))
	args := []vir.Arg{{Buf: make([]byte, rows*k*96)}, {Buf: make([]byte, k*192)}, {Buf: make([]byte, rows*4)}, {Int: rows}, {Int: k}}
	for _, a := range args[:2] {
		for i := range a.Buf {
			a.Buf[i] = byte(rnd.Uint32())
		}
	}
	for _, tg := range Targets() {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			tg := onThisCPU(t, tg)
			f, kernel := compiled(t, tg, lut)
			for _, n := range []int64{k, 1, 0} {
				args[4].Int = n
				checkKernel(t, tg, f, kernel, args)
			}
		})
	}
}

// checkKernel compares k, run natively, with f, which it was made from.
func checkKernel(t *testing.T, tg lower.Target, f *vir.Func, k *lower.Kernel, args []vir.Arg) {
	t.Helper()
	want, got := cloned(args), cloned(args)
	if err := vir.Eval(f, want); err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(tg, k, got); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if !bytes.Equal(want[i].Buf, got[i].Buf) {
			t.Errorf("parameter %s:\ngot  %x\nwant %x\n%s", k.Func.Params[i].Name, got[i].Buf, want[i].Buf, k.Func)
		}
	}
}

func cloned(args []vir.Arg) []vir.Arg {
	var out []vir.Arg
	for _, a := range args {
		out = append(out, vir.Arg{Buf: bytes.Clone(a.Buf), Int: a.Int})
	}
	return out
}

// wholeOps lists every operation by its types: "N" lanes of the result, other
// counts as multiples of it. Elements separated by / are tried in turn, the same
// one throughout a line.
var wholeOps = []struct{ elems, text string }{
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = loadsplat"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = splat 77"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = half T*2 0"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = half T*2 1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*2 = join T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = splatlane T1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = tile T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*2 = tile T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*4 = tile T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*8 = tile T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = and T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = or T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = xor T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = andnot T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = bitsel T*1 T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32", "T*1 = shl T*1 3"},
	{"u8/i8/u16/i16/u32/i32", "T*1 = shru T*1 3"},
	{"u8/i8/u16/i16/u32/i32", "T*1 = shrs T*1 3"},
	{"u8/i8/u16/i16/u32/i32/f32", "T*1 = add T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32/f32", "T*1 = sub T*1 T*1"},
	{"u16/i16/u32/i32/f32", "T*1 = mul T*1 T*1"},
	{"f32", "T*1 = div T*1 T*1"},
	{"i8/i16/i32", "T*1 = mins T*1 T*1"},
	{"i8/i16/i32", "T*1 = maxs T*1 T*1"},
	{"u8/u16", "T*1 = avgu T*1 T*1"},
	{"i8/i16", "T*1 = avgs T*1 T*1"},
	{"i8/i16/i32", "T*1 = abs T*1"},
	{"i8/i16/i32", "T*1 = cmpgts T*1 T*1"},
	{"i8/u8", "i16*1 = widen T*1"},
	{"i16/u16", "i32*1 = widen T*1"},
	{"u8/i8/u16/i16", "T*1 = trunc i32*1"},
	{"u8/i8", "T*1 = trunc i16*1"},
	{"u8/i8", "i32*1 = dot4 i32*1 T*4 i8*4"},
	{"i16", "i32*1 = dot2wrap T*2 T*2"},
	{"i16", "i32*1 = dot2 i32*1 T*2 T*2"},
	{"i16", "T*1 = dot2sat u8*2 i8*2"},
	{"i32", "f32*1 = cvtf32 T*1"},
	{"f32", "i32*1 = cvti32 T*1"},
	{"f16", "f32*1 = cvthalf T*1"},
	{"f32", "T*1 = canonnan T*1"},
	{"f16", "T*1 = cvtf16 f32*1"},
	{"i32", "T*1 = cmpgtf f32*1 f32*1"},
	{"f32", "T*1 = maxf T*1 T*1"},
	{"f32", "T*1 = minf T*1 T*1"},
	{"i32", "T1 = redadd T*1"},
	{"i32", "T1 = redmaxs T*1"},
	{"i32", "T*1 = redadd T*2"},
	{"i32", "T*1 = redadd T*8"},
	{"i32", "T*1 = redmaxs T*4"},
	{"i32", "T*1 = redmaxs T*32"},
	{"u8/i8/u16/i16/u32/i32/f16/f32", "T*1 = selmsb T*1 T*1 T*1"},
	{"u8/i8/u16/i16/u32/i32", "T*1 = submsb T*1 T*1 T*1"},
	{"u8/i8", "T*1 = lookupN u8*1 T>N"},
	{"u16/i16/f16", "T*1 = lookupN u16*1 T>N"},
	{"u32/i32/f32", "T*1 = lookupN u32*1 T>N"},
	{"u8/i8", "T*1 = lookuppair u8*1 T>N T>N"},
	{"u16/i16/f16", "T*1 = lookuppair u16*1 T>N T>N"},
	{"u32/i32/f32", "T*1 = lookuppair u32*1 T>N T>N"},
}

// tableSizes is text with every table size that n lanes can have.
func tableSizes(text string, n int) []string {
	var all []string
	switch {
	case strings.Contains(text, "lookupN"):
		for _, size := range []string{"8", "16", "32", "64", "128"} {
			plain := strings.ReplaceAll(text, "N", size)
			all = append(all, plain, strings.Replace(plain, "lookup"+size, "lookup"+size+"mod", 1))
		}
	case strings.Contains(text, "N"):
		for _, size := range []int{4, 8, 16, 32, 64} {
			if n <= size {
				all = append(all, strings.ReplaceAll(text, "N", fmt.Sprint(size)))
			}
		}
	default:
		return []string{text}
	}
	return all
}

// typed resolves a type of wholeOps for n lanes.
func typed(s, elem string, n int) string {
	s = strings.Replace(s, "T", elem, 1)
	var count int
	if e, c, ok := strings.Cut(s, "*"); ok {
		fmt.Sscan(c, &count)
		return fmt.Sprintf("%sx%d", e, n*count)
	}
	if e, c, ok := strings.Cut(s, ">"); ok {
		fmt.Sscan(c, &count)
		return fmt.Sprintf("%sx%d", e, max(n, count))
	}
	return s[:len(s)-1] + "x1"
}

// wholeText is line i of wholeOps on n lanes: load the arguments, store the
// result.
func wholeText(name, text, elem string, n int) string {
	f := strings.Fields(text)
	var params, body []string
	op := []string{f[2]}
	for i, a := range f[3:] {
		if !strings.ContainsAny(a, "*>") && a != "T1" {
			op = append(op, a)
			continue
		}
		params = append(params, fmt.Sprintf("p%d ptr", i))
		body = append(body, fmt.Sprintf("v%d:%s = load p%d+0", i, typed(a, elem, n), i))
		op = append(op, fmt.Sprintf("v%d", i))
	}
	if f[2] == "loadsplat" {
		params, op = []string{"p0 ptr"}, append(op, "p0+0")
	}
	params = append(params, "out ptr")
	body = append(body, fmt.Sprintf("v9:%s = %s", typed(f[0], elem, n), strings.Join(op, " ")), "store out+0 v9")
	return fmt.Sprintf("func %s(%s)\n\t%s\n", name, strings.Join(params, ", "), strings.Join(body, "\n\t"))
}

// TestOps compiles every operation at every size from one lane to twice the
// machine's vectors: what has no row goes through splitting and expansion.
func TestOps(t *testing.T) {
	for _, tg := range likeNone(t) {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			tg := onThisCPU(t, tg)
			var b batch
			for _, l := range wholeOps {
				for _, e := range strings.Split(l.elems, "/") {
					for n := 1; n <= 128; n *= 2 {
						for _, text := range tableSizes(l.text, n) {
							b.add(t, tg, wholeText(fmt.Sprintf("k%d", len(b.kernels)), text, e, n))
						}
					}
				}
			}
			b.run(t, tg)
		})
	}
}

// batch is kernels that are assembled together.
type batch struct {
	kernels []*lower.Kernel
	funcs   []*vir.Func // before lowering
}

func (b *batch) add(t *testing.T, tg lower.Target, text string) {
	t.Helper()
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, r := range f.Regs {
		if r.Bits() > 2*tg.Machine().VecBits {
			return
		}
	}
	k, err := lower.Compile(tg, f)
	if err != nil {
		t.Errorf("%v\n%s", err, text)
		return
	}
	b.kernels, b.funcs = append(b.kernels, k), append(b.funcs, f)
}

func (b *batch) run(t *testing.T, tg lower.Target) {
	t.Helper()
	file, err := lower.Emit(tg, "main", b.kernels...)
	if err != nil {
		t.Fatal(err)
	}
	code, err := worker.Load(worker.Options{}, file)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	rnd := rand.New(rand.NewPCG(3, 5))
	for i, f := range b.funcs {
		fn, err := code.Func(f.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			args := wholeArgs(rnd, f)
			want, got := cloned(args), cloned(args)
			if err := vir.Eval(f, want); err != nil {
				t.Fatalf("%v\n%s", err, f)
			}
			if err := fn.Run(f.Params, got); err != nil {
				t.Fatal(err)
			}
			out := len(args) - 1
			if op, typ := resultOf(f); anyNaN[op] && typ.Elem == format.F32 {
				quiet(want[out].Buf)
				quiet(got[out].Buf)
			}
			if !bytes.Equal(want[out].Buf, got[out].Buf) {
				t.Errorf("got  %x\nwant %x\n%s%s", got[out].Buf, want[out].Buf, f, lower.Dump(b.kernels[i]))
				break
			}
		}
	}
}

// resultOf is the operation of a function of wholeText and its result.
func resultOf(f *vir.Func) (vir.Op, vir.Type) {
	in := f.Body[len(f.Body)-2].(*vir.Instr)
	return in.Op, f.Regs[in.Dst]
}

// wholeArgs makes a buffer for each load and for the store.
func wholeArgs(rnd *rand.Rand, f *vir.Func) []vir.Arg {
	op, dst := resultOf(f)
	var args []vir.Arg
	for i := range f.Params[:len(f.Params)-1] {
		t := vir.Type{Elem: dst.Elem, Lanes: 1}
		if in := f.Body[i].(*vir.Instr); in.Op == vir.OpLoad {
			t = f.Regs[in.Dst]
		}
		args = append(args, vir.Arg{Buf: input(rnd, op, i, t)})
	}
	return append(args, vir.Arg{Buf: make([]byte, dst.Bytes())})
}
