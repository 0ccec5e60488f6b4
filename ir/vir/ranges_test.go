package vir

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRanges states ranges of v9, made from v0..v7: loaded u8 and i8, u8 and i8
// in 0..15, loaded u16, a u16 in 0..4095, an i32 and a table; bytes of act are at most 100.
func TestRanges(t *testing.T) {
	for _, row := range []struct {
		body   string
		lo, hi int64
	}{
		{"v9:u8x8 = and v0 v2", 0, 15},
		{"v9:u8x8 = or v0 v2", 0, 255},
		{"v9:u8x8 = or v2 v2", 0, 15},
		{"v9:u8x8 = xor v2 v0", 0, 255},
		{"v9:u8x8 = andnot v2 v0", 0, 15},
		{"v9:i8x8 = andnot v1 v3", -128, 127},
		{"v9:i8x8 = and v1 v3", 0, 15},
		{"v9:u8x8 = bitsel v0 v2 v2", 0, 15},
		{"v9:u8x8 = shl v2 3", 0, 120},
		{"v9:u8x8 = shl v2 5", 0, 255},
		{"v9:u8x8 = shru v0 4", 0, 15},
		{"v9:i8x8 = shru v1 1", 0, 127},
		{"v9:i8x8 = shru v1 0", -128, 127},
		{"v9:i8x8 = shrs v1 4", -8, 7},
		{"v9:u8x8 = shrs v2 1", 0, 7},
		{"v9:u8x8 = shrs v0 1", 0, 255},
		{"v8:i8x8 = splat -8\nv9:i8x8 = add v3 v8", -8, 7},
		{"v8:i8x8 = splat -8\nv9:i8x8 = sub v8 v3", -23, -8},
		{"v9:i8x8 = add v1 v3", -128, 127},
		{"v8:i8x8 = splat 1\nv9:i8x8 = abs v8", 1, 1},
		{"v9:i8x8 = abs v1", -128, 127},
		{"v8:i8x8 = shrs v1 1\nv9:i8x8 = abs v8", 0, 64},
		{"v9:i8x8 = sign v3 v1", -15, 15},
		{"v9:i8x8 = sign v1 v3", -128, 127},
		{"v8:i32x2 = loadsplat act+0\nv9:i8x8 = bitcast v8", -100, 100},
		{"v8:i8x16 = load act+0\nv9:i8x8 = half v8 1", -100, 100},
		{"v8:i8x8 = load act+0\nv9:u8x8 = bitcast v8", 0, 255},
		{"v9:i8x8 = abs [act+0 i8x8]", 0, 100},
		{"v9:i8x8 = cmpgts v1 v3", -1, 0},
		{"v9:i8x8 = mins v1 v3", -128, 15},
		{"v9:i8x8 = maxs v1 v3", 0, 127},
		{"v9:i16x8 = widen v1", -128, 127},
		{"v8:i16x8 = widen v1\nv9:i16x8 = mul v8 v8", -16256, 16384},
		{"v9:u16x4 = mul v4 v5", 0, 65535},
		{"v8:i16x8 = widen v2\nv9:i8x8 = trunc v8", 0, 15},
		{"v8:i16x8 = widen v0\nv9:i8x8 = trunc v8", -128, 127},
		{"v9:i32x2 = dot4 v6 v2 v1", -2147483648, 2147483647},
		{"v8:i32x2 = splat 100\nv9:i32x2 = dot4 v8 v2 v1", 100 - 4*15*128, 100 + 4*15*127},
		{"v8:i32x4 = splat 0\nv7:i16x8 = widen v1\nv9:i32x4 = dot2 v8 v7 [in+0 i16x8]", -2 * 32767 * 128, 2 * 32768 * 128},
		{"v7:i16x8 = widen v1\nv9:i32x4 = dot2wrap v7 [in+0 i16x8]", -2 * 32767 * 128, 2 * 32768 * 128},
		{"v9:i16x4 = dot2sat v2 v1", -3840, 3810},
		{"v9:i16x4 = dot2sat v0 v1", -32768, 32767},
		{"v9:i8x16 = join v1 v3", -128, 127},
		{"v9:i8x16 = join v3 v3", 0, 15},
		{"v9:i8x4 = half v3 1", 0, 15},
		{"v9:i8x64 = tile v3", 0, 15},
		{"v8:i8x1 = load in+0\nv9:i8x4 = splatlane v8", -128, 127},
		{"v8:i32x2 = splat 5\nv9:i32x1 = redadd v8", 10, 10},
		{"v8:i32x2 = splat 0\nv7:i32x2 = dot4 v8 v2 v3\nv9:i32x1 = redadd v7", 0, 1800},
		{"v8:i32x2 = splat 5\nv9:i32x1 = redmaxs v8", 5, 5},
		{"v8:i32x8 = splat 5\nv9:i32x4 = redadd v8", 10, 10},
		{"v8:f32x2 = load in+0\nv9:i32x2 = cvti32 v8", -2147483648, 2147483647},
		{"v9:i32x4 = loadsplat sums+0", -300, 300},
		{"v8:i8x16 = load sums+0\nv9:i32x4 = bitcast v8", -300, 300},
		{"v8:i32x4 = load sums+0\nv9:i32x4 = spread v8 3", -300, 300},
		{"v8:i8x16 = load sums+0\nv7:i8x16 = spread v8 0\nv9:i32x4 = bitcast v7", -2147483648, 2147483647},
		{"v8:i8x16 = load act+0\nv9:i8x8 = spread v8 1", -100, 100},
		{"v9:i16x8 = mulwide v2 v1 0", -15 * 128, 15 * 127},
		{"v8:i16x8 = splat 100\nv9:i16x8 = dot1 v8 v2 v1 0", 100 - 15*128, 100 + 15*127},
		{"v8:i16x8 = splat 32767\nv9:i16x8 = dot1 v8 v2 v1 0", -32768, 32767},
		{"v8:i32x2 = splat 100\nv9:i32x2 = dot4unit v8 v2 v1 1", 100 - 4*15*128, 100 + 4*15*127},
		{"v9:i8x8 = load sums+0", -128, 127},
		{"v8:i32x2 = splat 2\nv9:i32x2 = mul v8 [sums+0 i32x2]", -600, 600},
		{"v9:i8x8 = bitcast v0", -128, 127},
		{"v9:i8x8 = bitcast v2", 0, 15},
		{"v9:u8x8 = bitcast v3", 0, 15},
		{"v9:u8x8 = bitcast v5", 0, 255},
		{"v8:u8x8 = bitcast v5\nv9:u8x8 = and v8 v2", 0, 15},
		{"v9:u16x4 = bitcast v2", 0, 0x0f0f},
		{"v9:i32x2 = bitcast v0", -2147483648, 2147483647},
		{"v8:i16x4 = splat 100\nv7:i16x4 = maxs v8 [in+0 i16x4]\nv9:i8x8 = bitcast v7", -128, 127},
		{"v7:u16x4 = shru v4 9\nv9:i8x8 = bitcast v7", 0, 127},
		{"v8:i32x2 = splat 1798\nv9:u8x8 = bitcast v8", 0, 7},
		{"v9:i8x8 = const c0", -3, 127},
		{"v9:u8x8 = const c0", 0, 255},
		{"v8:u8x8 = const c1\nv9:u8x8 = and v0 v8", 0, 9},
		{"v8:i8x16 = const c2\nv9:i8x8 = lookup16 v2 v8", -7, 8},
		{"v9:i8x8 = lookup16mod v0 [in+0 i8x16]", -128, 127},
		{"v9:u8x8 = lookup8 v2 v2", 0, 15},
		{"v9:u8x8 = lookuppair v0 v2 v2", 0, 15},
		{"v9:u8x8 = lookuppair v0 v2 v0", 0, 255},
		{"v9:i8x8 = selmsb v1 v3 v3", 0, 15},
		{"v9:i8x8 = selmsb v3 v1 v3", -128, 127},
		{"v9:i8x8 = submsb v1 v3 v3", -15, 15},
		{"v9:i8x8 = submsb v1 v1 v3", -128, 127},
		{"v8:f32x2 = splat 1\nv9:u32x2 = bitcast v8", 1, 1},
		{"v9:u8x8 = splat 0\nloop l0 2 carry v9\nv9:u8x8 = splat 1\nend", 0, 255},
		{"v9:u8x8 = splat 3\nloop l0 2 carry v9\nend", 3, 3},
		{"v8:u8x8 = splat 3\nloop l0 2 carry v8\nv9:u8x8 = add v8 v2\nv8:u8x8 = splat 1\nend", 0, 255},
	} {
		f := mustParse(t, rangePrelude+row.body)
		if have, want := Ranges(f)[9], (Range{row.lo, row.hi}); have != want {
			t.Errorf("%s: have %v, want %v", row.body, have, want)
		}
	}
}

const rangePrelude = `func f(in ptr, act ptr 100, sums ptr 300 words)
	const c0 000102fdfe05ff7f
	const c1 0001020304050809
	const c2 f9fafbfcfdfeff000102030405060708
	v20:u8x8 = splat 15
	v0:u8x8 = load in+0
	v1:i8x8 = load in+0
	v2:u8x8 = and v0 v20
	v3:i8x8 = bitcast v2
	v4:u16x4 = load in+0
	v5:u16x4 = shru v4 4
	v6:i32x2 = load in+0
`

func TestRangesOfIntegersOnly(t *testing.T) {
	r := Ranges(mustParse(t, "func f(in ptr)\nv0:f32x1 = load in+0\nv1:f32x1 = splat 0"))
	if len(r) != 2 || r[0].Known() || r[1].Known() {
		t.Errorf("have %v", r)
	}
}

// TestRangesHold runs random functions on random inputs and compares every
// register, stored by the function itself, with its range.
func TestRangesHold(t *testing.T) {
	narrow, checked := 0, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		f := randomFunc(rng)
		args := randomArgs(rng)
		if Eval(f, args) != nil {
			continue
		}
		ranges := Ranges(f)
		Walk(f.Body, func(in *Instr, _ []*Loop) {
			if in.Op != OpStore || !isInt(f.Regs[in.Args[0]].Elem) {
				return
			}
			typ, r := f.Regs[in.Args[0]], ranges[in.Args[0]]
			lanes := make([]int64, typ.Lanes)
			unpack(typ.Elem, lanes, args[in.Mem.Buf].Buf[in.Mem.Off:])
			checked++
			if r != FullRange(typ.Elem) {
				narrow++
			}
			if !rangeOf(lanes).in(r) {
				t.Fatalf("seed %d: %v is %v, its range %v in\n%s", seed, in.Args[0], lanes, r, f)
			}
		})
	}
	if checked < 10000 || narrow < checked/4 {
		t.Errorf("only %d registers checked, %d narrow", checked, narrow)
	}
}

// randomFunc is a straight function of random operations on registers of at most
// 64 bytes. It stores every register at a place of its own in "out".
// Bounds of parameters do not bound constants.
func TestRangesConstants(t *testing.T) {
	for _, text := range []string{
		"func f()\nconst c0 7f\nv0:i8x1 = bitcast [c0 u8x1]",
		"func f(x ptr 1)\nconst c0 7f\nv0:i8x1 = bitcast [c0 u8x1]",
		"func f(x ptr 1)\nconst c0 7f\nv0:i8x1 = abs [c0 i8x1]",
	} {
		f := mustParse(t, text)
		if err := Verify(f); err != nil {
			t.Fatal(err)
		}
		if r := Ranges(f)[0]; r.Hi < 127 {
			t.Errorf("%s: %v", text, r)
		}
	}
}

func randomFunc(rng *rand.Rand) *Func {
	f := &Func{Name: "f", Params: []Param{{Name: "in"}, {Name: "out"}}}
	f.Consts = [][]byte{make([]byte, 8), make([]byte, 16)}
	for _, c := range f.Consts {
		for i := range c {
			c[i] = byte(rng.IntN(256) & rng.IntN(256))
		}
	}
	for tries := 0; len(f.Regs) < 30 && tries < 4000; tries++ {
		if in := randomInstr(rng, f); in != nil {
			f.Body = append(f.Body, in)
		}
	}
	off := 0
	for r, typ := range f.Regs {
		f.Body = append(f.Body, &Instr{Op: OpStore, Dst: NoReg, Args: []Reg{Reg(r)}, Mem: Mem{Buf: 1, Off: off}})
		off += typ.Bytes()
	}
	return f
}

func randomArgs(rng *rand.Rand) []Arg {
	in := make([]byte, 128)
	for i := range len(in) / 4 {
		binary.LittleEndian.PutUint32(in[4*i:], rng.Uint32()&rng.Uint32())
	}
	return []Arg{{Buf: in}, {Buf: make([]byte, 30*128)}}
}

// randomInstr appends the result register of a random instruction to f, or
// returns nil if the draw is not legal.
func randomInstr(rng *rand.Rand, f *Func) *Instr {
	op := Op(1 + rng.IntN(len(ops)-1))
	typ := Type{Elem: elems[rng.IntN(len(elems))], Lanes: 1 << rng.IntN(7)}
	if typ.Bytes() > 64 || !op.HasResult() {
		return nil
	}
	in := &Instr{Op: op, Dst: Reg(len(f.Regs)), Imm: int64(rng.IntN(9))}
	if op == OpSplat {
		in.Imm = int64(rng.Uint32()) >> rng.IntN(32)
	}
	var types []Type
	for range op.NumArgs() {
		if len(f.Regs) == 0 {
			return nil
		}
		r := Reg(rng.IntN(len(f.Regs)))
		in.Args = append(in.Args, r)
		types = append(types, f.Regs[r])
	}
	if op.NumArgs() > 0 && rng.IntN(8) == 0 {
		k := rng.IntN(op.NumArgs())
		in.Args[k], in.Fold, in.FoldType = NoReg, k+1, types[k]
		if c := slices.IndexFunc(f.Consts, func(c []byte) bool { return len(c) == types[k].Bytes() }); c >= 0 && rng.IntN(2) == 0 {
			in.FoldConst = c + 1
		}
	}
	if !ops[op].typ.ok(typ, types) {
		return nil
	}
	f.Regs = append(f.Regs, typ)
	f.Body = append(f.Body, in)
	err := Verify(f)
	f.Body = f.Body[:len(f.Body)-1]
	if err != nil {
		f.Regs = f.Regs[:len(f.Regs)-1]
		return nil
	}
	return in
}
