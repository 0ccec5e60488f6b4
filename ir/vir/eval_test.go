package vir

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parseLanes reads "1 -2" as lanes of t; numbers with a point are floats, 0x..
// are bits. A single number stands for all lanes.
func parseLanes(t *testing.T, typ Type, text string) []int64 {
	t.Helper()
	var v []int64
	for _, w := range strings.Fields(text) {
		x, err := strconv.ParseInt(w, 0, 64)
		if err != nil {
			f, ferr := strconv.ParseFloat(w, 32)
			if ferr != nil {
				t.Fatalf("lane %q: %v", w, ferr)
			}
			x = int64(math.Float32bits(float32(f)))
		}
		v = append(v, x)
	}
	for len(v) > 0 && len(v) < typ.Lanes {
		v = append(v, v[0])
	}
	if len(v) != typ.Lanes {
		t.Fatalf("%d lanes for %v in %q", len(v), typ, text)
	}
	return v
}

// oneOp is the function "result = op args imm" on loaded arguments, whose last
// parameter receives the result.
func oneOp(dst string, op string, args []string, imm string) string {
	var params, loads, regs string
	for i, a := range args {
		params += fmt.Sprintf("a%d ptr, ", i)
		loads += fmt.Sprintf("\tv%d:%s = load a%d+0\n", i, a, i)
		regs += fmt.Sprintf(" v%d", i)
	}
	return fmt.Sprintf("func f(%sout ptr)\n%s\tv9:%s = %s%s %s\n\tstore out+0 v9\n", params, loads, dst, op, regs, imm)
}

func mustParse(t testing.TB, text string) *Func {
	t.Helper()
	f, err := Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if err := Verify(f); err != nil {
		t.Fatalf("%v in\n%s", err, f)
	}
	return f
}

func mustType(t *testing.T, text string) Type {
	t.Helper()
	typ, err := parseType(text)
	if err != nil {
		t.Fatal(err)
	}
	return typ
}

func bytesOf(typ Type, lanes []int64) []byte {
	b := make([]byte, typ.Bytes())
	pack(typ.Elem, b, lanes)
	return b
}

// evalRows states each operation on edge values: "result = op args, imm" with
// the lanes of the arguments, separated by bars, and of the result.
var evalRows = []struct{ instr, args, want string }{
	{"i8x4 = splat, 300", "", "44"},
	{"i8x4 = splat, 128", "", "-128"},
	{"u16x2 = splat, -1", "", "65535"},
	{"f32x2 = splat, 1065353216", "", "1.0"},
	{"f16x2 = splat, -1", "", "0xffff"},
	{"i32x2 = bitcast u8x8", "1 2 3 4 255 255 255 255", "0x04030201 -1"},
	{"u8x8 = bitcast i32x2", "0x04030201 -2", "1 2 3 4 254 255 255 255"},
	{"i8x4 = bitcast u8x4", "0 127 128 255", "0 127 -128 -1"},
	{"u16x2 = bitcast i16x2", "-1 -32768", "65535 32768"},
	{"u32x1 = bitcast f32x1", "-0.0", "0x80000000"},
	{"f32x1 = bitcast u32x1", "0x7f800001", "0x7f800001"},
	{"f16x2 = bitcast u32x1", "0xfffe7c01", "0x7c01 0xfffe"},
	{"i16x2 = half i16x4, 0", "1 -2 3 -4", "1 -2"},
	{"i16x2 = half i16x4, 1", "1 -2 3 -4", "3 -4"},
	{"u8x4 = join u8x2 u8x2", "1 2 | 3 255", "1 2 3 255"},
	{"i8x4 = splatlane i8x1", "-7", "-7 -7 -7 -7"},
	{"i16x4 = tile i16x2", "1 -2", "1 -2 1 -2"},
	{"f32x2 = tile f32x2", "1.0 -0.0", "1.0 -0.0"},
	{"u8x4 = tile u8x1", "200", "200"},
	{"u8x2 = and u8x2 u8x2", "0xf3 0xff | 0x0f 0", "3 0"},
	{"i8x2 = and i8x2 i8x2", "-1 -128 | -2 127", "-2 0"},
	{"f32x1 = and f32x1 f32x1", "-2.5 | 0x7fffffff", "2.5"},
	{"i16x2 = or i16x2 i16x2", "1 -32768 | 2 32767", "3 -1"},
	{"u32x2 = xor u32x2 u32x2", "0xffffffff 5 | 1 5", "0xfffffffe 0"},
	{"u8x2 = andnot u8x2 u8x2", "0xff 0x0f | 0x0f 0xff", "0xf0 0"},
	{"i8x1 = andnot i8x1 i8x1", "-1 | 1", "-2"},
	{"u8x2 = bitsel u8x2 u8x2 u8x2", "0xf0 0 | 0xab 1 | 0xcd 2", "0xad 2"},
	{"i8x1 = bitsel i8x1 i8x1 i8x1", "-128 | -1 | 3", "-125"},
	{"i8x4 = shl i8x4, 1", "64 -128 -1 1", "-128 0 -2 2"},
	{"u16x2 = shl u16x2, 15", "1 2", "32768 0"},
	{"i32x2 = shl i32x2, 31", "1 2", "-2147483648 0"},
	{"i32x2 = shl i32x2, 0", "1 -2", "1 -2"},
	{"i8x4 = shru i8x4, 1", "-1 -128 127 1", "127 64 63 0"},
	{"i32x2 = shru i32x2, 0", "-1 1", "-1 1"},
	{"u32x2 = shru u32x2, 31", "0xffffffff 1", "1 0"},
	{"i8x4 = shrs i8x4, 7", "-1 -128 127 1", "-1 -1 0 0"},
	{"u8x4 = shrs u8x4, 1", "255 128 127 2", "255 192 63 1"},
	{"u32x1 = shrs u32x1, 31", "0x80000000", "0xffffffff"},
	{"i8x4 = add i8x4 i8x4", "127 -128 -1 5 | 1 -1 1 7", "-128 127 0 12"},
	{"u8x2 = add u8x2 u8x2", "255 200 | 1 100", "0 44"},
	{"u32x1 = add u32x1 u32x1", "0xffffffff | 1", "0"},
	{"f32x4 = add f32x4 f32x4", "16777216.0 16777218.0 0x7f7fffff 0.1 | 1.0 1.0 0x7f7fffff 0.2", "16777216.0 16777220.0 inf 0x3e99999a"},
	{"f32x2 = add f32x2 f32x2", "-0.0 0x00000001 | -0.0 0x00000001", "-0.0 0x00000002"},
	{"i16x2 = sub i16x2 i16x2", "-32768 0 | 1 -32768", "32767 -32768"},
	{"u16x1 = sub u16x1 u16x1", "0 | 1", "65535"},
	{"f32x1 = sub f32x1 f32x1", "1.0 | 0x33000000", "1.0"},
	{"i16x4 = mul i16x4 i16x4", "-32768 300 -1 7 | -32768 300 -1 -3", "0 24464 1 -21"},
	{"u16x1 = mul u16x1 u16x1", "65535 | 65535", "1"},
	{"i32x2 = mul i32x2 i32x2", "-2147483648 65536 | -1 65536", "-2147483648 0"},
	{"u32x1 = mul u32x1 u32x1", "0xffffffff | 0xffffffff", "1"},
	{"f32x2 = mul f32x2 f32x2", "0x3f800001 0x00800000 | 0x3f800001 0.5", "0x3f800002 0x00400000"},
	{"f32x4 = div f32x4 f32x4", "1.0 1.0 -1.0 0.0 | 3.0 0.0 0.0 -2.0", "0x3eaaaaab inf -inf -0.0"},
	{"i8x2 = mins i8x2 i8x2", "-128 5 | 127 4", "-128 4"},
	{"i32x2 = mins i32x2 i32x2", "-1 1 | 0 0", "-1 0"},
	{"u8x4 = avgu u8x4 u8x4", "255 255 0 1 | 255 0 0 2", "255 128 0 2"},
	{"i8x4 = avgs i8x4 i8x4", "-128 -1 -3 127 | -128 1 0 127", "-128 0 -1 127"},
	{"i16x2 = avgs i16x2 i16x2", "-32768 -2 | 32767 -1", "0 -1"},
	{"i16x2 = maxs i16x2 i16x2", "-32768 5 | 32767 4", "32767 5"},
	{"u8x4 = addsat u8x4 u8x4", "200 200 0 255 | 55 56 0 255", "255 255 0 255"},
	{"u8x4 = subsat u8x4 u8x4", "7 5 0 255 | 5 7 255 0", "2 0 0 255"},
	{"i8x4 = abs i8x4", "-128 -127 0 127", "-128 127 0 127"},
	{"i8x8 = sign i8x8 i8x8", "-128 -128 -128 5 5 5 -7 127 | 1 0 -1 -128 0 127 -3 -128", "-128 0 -128 -5 0 5 7 -127"},
	{"i32x2 = abs i32x2", "-2147483648 -1", "-2147483648 1"},
	{"i8x4 = cmpgts i8x4 i8x4", "1 -128 127 3 | 0 127 -128 3", "-1 0 -1 0"},
	{"i32x2 = cmpgts i32x2 i32x2", "0 -1 | -1 0", "-1 0"},
	{"u8x4 = selmsb u8x4 u8x4 u8x4", "0x80 0x7f 255 0 | 1 2 3 4 | 5 6 7 8", "1 6 3 8"},
	{"i16x2 = selmsb i16x2 i16x2 i16x2", "-1 32767 | 1 2 | 5 -6", "1 -6"},
	{"f32x2 = selmsb f32x2 f32x2 f32x2", "-0.0 0.0 | 1.0 2.0 | 3.0 4.0", "1.0 4.0"},
	{"u8x4 = submsb u8x4 u8x4 u8x4", "0x80 0x7f 255 0 | 1 2 3 4 | 5 6 2 8", "252 6 1 8"},
	{"i8x2 = submsb i8x2 i8x2 i8x2", "-1 1 | -128 2 | 1 -6", "127 -6"},
	{"i32x1 = submsb i32x1 i32x1 i32x1", "-5 | 7 | 9", "-2"},
	{"i16x4 = unzip i16x4 i16x4, 0", "1 2 3 4 | -1 -2 -3 -4", "1 3 -1 -3"},
	{"i16x4 = unzip i16x4 i16x4, 1", "1 2 3 4 | -1 -2 -3 -4", "2 4 -2 -4"},
	{"i32x4 = mmla i32x4 i8x16 i8x16", "1 2 3 2147483647 | 1 0 0 0 0 0 0 0 0 1 0 0 0 0 0 2 | -128 5 0 0 0 0 0 7 3 -4 0 0 0 0 0 127", "-127 5 22 -2147483399"},
	{"i32x8 = mmla i32x8 u8x32 i8x16", "1 2 3 4 5 6 7 8 | 255 0 0 0 0 0 0 0 0 1 0 0 0 0 0 2 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 | -128 5 0 0 0 0 0 7 3 -4 0 0 0 0 0 127",
		"-32639 767 22 254 -111 132 7 8"},
	{"u8x2 = spread u8x4, 3", "1 2 3 255", "255 255"},
	{"i32x4 = spread i32x2, 0", "-7 2", "-7 -7 -7 -7"},
	{"i16x2 = widen i8x2", "-128 127", "-128 127"},
	{"i16x2 = widen u8x2", "128 255", "128 255"},
	{"i32x2 = widen i16x2", "-32768 32767", "-32768 32767"},
	{"i32x2 = widen u16x2", "65535 1", "65535 1"},
	{"i16x2 = trunc i32x2", "0x18000 -1", "-32768 -1"},
	{"u16x2 = trunc i32x2", "0x18000 -1", "32768 65535"},
	{"i8x2 = trunc i32x2", "0x180 -129", "-128 127"},
	{"u8x2 = trunc i16x2", "256 -1", "0 255"},
	{"i32x2 = dot4 i32x2 u8x8 i8x8", "10 0 | 255 255 255 255 1 2 3 4 | -128 -128 -128 -128 1 -1 1 -1", "-130550 -2"},
	{"i32x1 = dot4 i32x1 i8x4 i8x4", "2147483647 | -128 1 0 0 | -128 0 0 0", "-2147467265"},
	{"i32x2 = dot4unit i32x2 u8x8 i8x8, 1", "10 0 | 255 255 255 255 1 2 3 4 | 9 9 9 9 -128 1 -128 2", "-64505 -502"},
	{"i32x1 = dot4unit i32x1 i8x4 i8x4, 0", "1 | -128 1 0 0 | -128 0 0 0", "16385"},
	{"i32x2 = dot2wrap i16x4 i16x4", "-32768 -32768 1 2 | -32768 -32768 3 -4", "-2147483648 -5"},
	{"i32x2 = dot2 i32x2 i16x4 i16x4", "0 5 | -32768 -32768 1 2 | -32768 -32768 3 -4", "-2147483648 0"},
	{"i16x4 = dot2sat u8x8 i8x8", "255 255 255 255 255 1 2 3 | 127 127 -128 -128 100 1 -4 5", "32767 -32768 25501 7"},
	{"i16x2 = mulwide u8x2 i8x2, 0", "255 3 | -128 -5", "-32640 -15"},
	{"i16x2 = mulwide i8x4 i8x4, 1", "1 2 -128 -3 | 1 2 -128 7", "16384 -21"},
	{"i16x2 = mulwide i8x4 i8x4, 0", "1 2 -128 -3 | 1 2 -128 7", "1 4"},
	{"i16x4 = mulwide i8x4 i8x4, 0", "1 2 -128 -3 | 1 2 -128 7", "1 4 16384 -21"},
	{"i16x2 = dot1 i16x2 u8x2 i8x2, 0", "-32768 7 | 1 255 | -1 127", "32767 32392"},
	{"i16x2 = dot1 i16x2 i8x4 i8x4, 1", "5 -6 | 9 9 -2 3 | 9 9 4 -5", "-3 -21"},
	{"i16x4 = addpairs i16x4 i16x4", "32767 1 2 3 | -4 5 -32768 -1", "-32768 5 1 32767"},
	{"i32x2 = addpairs i32x2 i32x2", "2147483647 1 | 2 -3", "-2147483648 -1"},
	{"i32x2 = sum2 i32x2 i16x4", "10 2147483647 | -32768 -32768 2 3", "-65526 -2147483644"},
	{"f32x4 = cvtf32 i32x4", "16777217 16777219 -2147483648 2147483647", "16777216.0 16777220.0 -2147483648.0 2147483648.0"},
	{"i32x8 = cvti32 f32x8", "0.5 1.5 -0.5 -1.5 2.5 -2147483648.0 2147483520.0 -0.0", "0 2 0 -2 2 -2147483648 2147483520 0"},
	{"f32x8 = cvthalf f16x8", "0x3c00 0x8000 0x0001 0x03ff 0x7bff 0x7c00 0xfc00 0x7e01", "1.0 -0.0 0x33800000 0x387fc000 65504.0 inf -inf 0x7fc02000"},
	{"f32x8 = canonnan f32x8", "0x7f800001 0xffc00000 0x7fffffff inf -inf -0.0 1.0 0xff800001", "0x7fc00000 0x7fc00000 0x7fc00000 inf -inf -0.0 1.0 0x7fc00000"},
	{"f16x8 = cvtf16 f32x8", "1.0 -0.0 65519.99 65520.0 0x33000000 0x33000001 0x7f802001 0xff800001", "0x3c00 0x8000 0x7bff 0x7c00 0 1 0x7e01 0xfe00"},
	{"f16x4 = cvtf16 f32x4", "0x3f801000 0x3f803000 0x387fdfff 0x387fe000", "0x3c00 0x3c02 0x03ff 0x0400"},
	{"i32x8 = cmpgtf f32x8 f32x8", "1.0 0x7fc00000 1.0 0.0 -0.0 inf 1e-45 -1.0 | 0.5 1.0 0x7fc00000 -0.0 0.0 inf 0.0 -2.0", "-1 0 0 0 0 0 -1 -1"},
	{"f32x8 = maxf f32x8 f32x8", "1.0 -0.0 0.0 0x7f800001 1.0 -inf 3.0 -2.0 | 2.0 0.0 -0.0 1.0 0xffc00001 inf 2.0 -3.0", "2.0 0.0 -0.0 1.0 0xffc00001 inf 3.0 -2.0"},
	{"f32x8 = minf f32x8 f32x8", "1.0 -0.0 0.0 0x7f800001 1.0 -inf 3.0 -2.0 | 2.0 0.0 -0.0 1.0 0xffc00001 inf 2.0 -3.0", "1.0 0.0 -0.0 1.0 0xffc00001 -inf 2.0 -3.0"},
	{"i32x1 = redadd i32x4", "2147483647 1 5 -3", "-2147483646"},
	{"i32x1 = redmaxs i32x4", "-5 -2147483648 -2 -3", "-2"},
	{"i32x2 = redadd i32x4", "2147483647 1 5 -3", "-2147483648 2"},
	{"i32x2 = redmaxs i32x8", "-5 -2147483648 -2 -3 1 2 4 3", "-2 4"},
	{"i32x4 = redadd i32x4", "1 2 3 4", "1 2 3 4"},
	{"i8x2 = lookup16 u8x2 i8x16", "0 15 | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 -15", "0 -15"},
	{"u8x1 = lookup32 u8x1 u8x32", "31 | 200", "200"},
	{"u8x1 = lookup64 u8x1 u8x64", "63 | 201", "201"},
	{"u8x1 = lookup16mod u8x1 u8x16", "0xf1 | 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", "1"},
	{"i8x1 = lookup32mod u8x1 i8x32", "255 | 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 -31", "-31"},
	{"i16x1 = lookup8 u16x1 i16x8", "7 | 0 1 2 3 4 5 6 -7", "-7"},
	{"f32x2 = lookup8mod u32x2 f32x8", "0xfffffff9 1 | 0.0 1.5 2.0 3.0 4.0 5.0 6.0 -7.0", "1.5 1.5"},
	{"i16x2 = lookup16mod u16x2 i16x16", "0xfff1 15 | 0 -1 2 3 4 5 6 7 8 9 10 11 12 13 14 1500", "-1 1500"},
	{"u8x1 = lookup128 u8x1 u8x128", "127 | 202", "202"},
	{"u8x1 = lookup128mod u8x1 u8x128", "255 | 203", "203"},
	{"u8x4 = lookuppair u8x4 u8x4 u8x4", "0 3 4 0xff | 10 11 12 13 | 14 15 16 17", "10 13 14 17"},
	{"f32x1 = lookuppair u32x1 f32x4 f32x4", "5 | 1.0 | 0.0 1.5 2.0 3.0", "1.5"},
	{"u8x1 = lookup64mod u8x1 u8x64", "128 | 77 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0", "77"},
}

// memOps have their own tests, below or in tile_test.go.
var memOps = []Op{OpLoad, OpLoadSplat, OpStore, OpPrefetch, OpPrefetch2, OpConst, OpBarrier, OpLane, OpLoadRows, OpLoadColumns, OpStoreRows, OpStoreColumns, OpMatMul, OpColumn}

func TestEvalRows(t *testing.T) {
	seen := map[Op]bool{}
	for _, row := range evalRows {
		t.Run(row.instr, func(t *testing.T) { seen[evalRow(t, row.instr, row.args, row.want)] = true })
	}
	for _, op := range Ops() {
		if !seen[op] && !slices.Contains(memOps, op) {
			t.Errorf("%v has no row", op)
		}
	}
}

func evalRow(t *testing.T, instr, args, want string) Op {
	instr, imm, _ := strings.Cut(instr, ",")
	words := strings.Fields(instr)
	dst, op, types := mustType(t, words[0]), words[2], words[3:]
	f := mustParse(t, oneOp(words[0], op, types, imm))
	var in []Arg
	for i, text := range strings.Split(args, "|") {
		if len(types) > 0 {
			typ := mustType(t, types[i])
			in = append(in, Arg{Buf: bytesOf(typ, parseLanes(t, typ, text))})
		}
	}
	out := make([]byte, dst.Bytes())
	if err := Eval(f, append(in, Arg{Buf: out})); err != nil {
		t.Fatal(err)
	}
	if want := bytesOf(dst, parseLanes(t, dst, want)); !slices.Equal(out, want) {
		t.Errorf("have bytes %x, want %x", out, want)
	}
	return opByName(op)
}

// TestLookupGroups checks that each group of lanes has its own table.
func TestLookupGroups(t *testing.T) {
	for _, n := range []int{16, 32, 64} {
		for _, mod := range []string{"", "mod"} {
			f := mustParse(t, oneOp("u8x128", fmt.Sprintf("lookup%d%s", n, mod), []string{"u8x128", "u8x128"}, ""))
			idx, table, out := make([]byte, 128), make([]byte, 128), make([]byte, 128)
			for i := range idx {
				idx[i], table[i] = byte(n-1-i%n), byte(i)
				if mod == "mod" {
					idx[i] += byte(n)
				}
			}
			if err := Eval(f, []Arg{{Buf: idx}, {Buf: table}, {Buf: out}}); err != nil {
				t.Fatal(err)
			}
			for i, have := range out {
				if want := byte(i/n*n + n - 1 - i%n); have != want {
					t.Fatalf("lookup%d%s lane %d: have %d, want %d", n, mod, i, have, want)
				}
			}
		}
	}
}

func TestNaNArithmetic(t *testing.T) {
	for _, op := range []string{"add", "sub", "mul", "div"} {
		f := mustParse(t, oneOp("f32x1", op, []string{"f32x1", "f32x1"}, ""))
		nan, out := bytesOf(Type{Elem: f32, Lanes: 1}, []int64{0x7fc00001}), make([]byte, 4)
		if err := Eval(f, []Arg{{Buf: nan}, {Buf: make([]byte, 4)}, {Buf: out}}); err != nil {
			t.Fatal(err)
		}
		v := make([]int64, 1)
		unpack(f32, v, out)
		if f := floatOf(v[0]); f == f {
			t.Errorf("%s of a NaN is %v", op, f)
		}
	}
}

// TestFold checks each operation with each argument in memory, or a constant, against the same
// on registers.
func TestFold(t *testing.T) {
	for _, row := range evalRows {
		instr, imm, _ := strings.Cut(row.instr, ",")
		words := strings.Fields(instr)
		types := words[3:]
		for k := range types {
			text := oneOp(words[0], words[2], types, imm)
			folded := strings.Replace(text, fmt.Sprintf("\tv%d:%s = load a%d+0\n", k, types[k], k), "", 1)
			folded = strings.Replace(folded, fmt.Sprintf(" v%d", k), fmt.Sprintf(" [a%d+0 %s]", k, types[k]), 1)
			typ := mustType(t, types[k])
			constant := strings.Replace(folded, fmt.Sprintf("[a%d+0 ", k), "[c0 ", 1)
			constant = strings.Replace(constant, "\n", fmt.Sprintf("\n\tconst c0 %x\n", bytesOf(typ, parseLanes(t, typ, strings.Split(row.args, "|")[k]))), 1)
			var out [3][]byte
			for i, text := range []string{text, folded, constant} {
				out[i] = make([]byte, mustType(t, words[0]).Bytes())
				var in []Arg
				for j, a := range strings.Split(row.args, "|") {
					typ := mustType(t, types[j])
					in = append(in, Arg{Buf: bytesOf(typ, parseLanes(t, typ, a))})
				}
				if err := Eval(mustParse(t, text), append(in, Arg{Buf: out[i]})); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(out[0], out[1]) || !slices.Equal(out[0], out[2]) {
				t.Errorf("%s: argument %d folded: %x, a constant: %x, want %x", row.instr, k, out[1], out[2], out[0])
			}
		}
	}
}

func run(t *testing.T, text string, args ...Arg) error {
	t.Helper()
	return Eval(mustParse(t, text), args)
}

func seq(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func TestMemory(t *testing.T) {
	out := make([]byte, 16)
	err := run(t, `func f(in ptr, out ptr, n int)
	const c0 0102
	v9:u8x2 = const c0
	loop l0 n
		loop l3 2
			prefetch in+1000000 l0*-64
			prefetch2 in-1000000 l0*64
			v0:u8x2 = load in+1 l0*4 l3*2
			v1:u8x2 = loadsplat in+8
			v2:u8x2 = add v0 v1
			v3:u8x2 = add v2 v9
			store out+0 l0*4 l3*2 v3
		end
	end
	v4:u8x8 = splat 0
	v5:u8x8 = add v4 [in+2 u8x8 splat 2]
	store out+8 v5
`, Arg{Buf: seq(10)}, Arg{Buf: out}, Arg{Int: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := []byte{10, 12, 12, 14, 14, 16, 16, 18, 2, 3, 2, 3, 2, 3, 2, 3}
	if !slices.Equal(out, want) {
		t.Errorf("have %v, want %v", out, want)
	}
}

func TestCarried(t *testing.T) {
	for n, want := range map[int64]byte{-1: 7, 0: 7, 3: 7 + 3*2*5} {
		out := make([]byte, 1)
		err := run(t, `func f(in ptr, out ptr, n int)
	v0:u8x1 = splat 7
	loop l0 n carry v0
		loop l1 2 carry v0
			v0:u8x1 = add v0 [in+0 u8x1]
		end
	end
	store out+0 v0
`, Arg{Buf: []byte{5}}, Arg{Buf: out}, Arg{Int: n})
		if err != nil || out[0] != want {
			t.Errorf("%d times: %d, %v; want %d", n, out[0], err, want)
		}
	}
}

// A loop over a list has the numbers of the list, in its order, also where they repeat.
func TestListedLoop(t *testing.T) {
	const text = `func f(in ptr, list ptr, out ptr, n int)
	v0:u8x4 = splat 0
	loop l0 n list list carry v0
		loop l1 2 carry v0
			v0:u8x4 = add v0 [in+0 l0*4 l1*8 u8x4]
		end
	end
	store out+0 v0
`
	if have := mustParse(t, text).String(); have != text {
		t.Errorf("prints\n%s", have)
	}
	out := make([]byte, 4)
	for _, row := range []struct {
		list []byte
		want []byte
	}{
		{nil, []byte{0, 0, 0, 0}},
		{[]byte{1, 0, 0, 0}, []byte{4 + 12, 5 + 13, 6 + 14, 7 + 15}},
		{[]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, []byte{2*16 + 8, 2*18 + 10, 2*20 + 12, 2*22 + 14}},
	} {
		err := run(t, text, Arg{Buf: seq(16)}, Arg{Buf: row.list}, Arg{Buf: out}, Arg{Int: int64(len(row.list) / 4)})
		if err != nil || !slices.Equal(out, row.want) {
			t.Errorf("%v: %v, %v; want %v", row.list, out, err, row.want)
		}
	}
	err := run(t, text, Arg{Buf: seq(16)}, Arg{Buf: []byte{1, 0, 0, 0}}, Arg{Buf: out}, Arg{Int: 2})
	if want := "vir: func f: loop l0 n list list carry v0: number 1 of a list of 4 bytes"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	err = run(t, text, Arg{Buf: seq(16)}, Arg{Buf: []byte{255, 255, 255, 255}}, Arg{Buf: out}, Arg{Int: 1})
	if err == nil || !strings.Contains(err.Error(), "of in, which has 16") {
		t.Errorf("%v", err)
	}
}

// A repeated body runs at least once, and finds pointers moved each time but the first.
func TestRepeat(t *testing.T) {
	const text = `func f(in ptr, same ptr, out ptr, n int, in_bytes int, out_bytes int)
	const c0 01
	repeat n in+in_bytes out+out_bytes
	v0:u8x1 = const c0
	v1:u8x1 = add v0 [in+0 u8x1]
	v2:u8x1 = add v1 [same+0 u8x1]
	store out+0 v2
`
	if have := mustParse(t, text).String(); have != text {
		t.Errorf("prints\n%s", have)
	}
	for _, row := range []struct {
		n       int64
		in, out int64
		want    []byte
	}{
		{-1, 1, 1, []byte{101, 0, 0, 0}},
		{0, 1, 1, []byte{101, 0, 0, 0}},
		{1, 9, 9, []byte{101, 0, 0, 0}},
		{3, 2, 1, []byte{101, 103, 105, 0}},
		{2, 0, 3, []byte{101, 0, 0, 101}},
	} {
		out := make([]byte, 4)
		err := run(t, text, Arg{Buf: seq(5)}, Arg{Buf: []byte{100}}, Arg{Buf: out}, Arg{Int: row.n}, Arg{Int: row.in}, Arg{Int: row.out})
		if err != nil || !slices.Equal(out, row.want) {
			t.Errorf("%+v: %v, %v", row, out, err)
		}
	}
	for _, row := range []struct {
		by   int64
		want string
	}{
		{5, "v1:u8x1 = add v0 [in+0 u8x1]: bytes [0,1) of in, which has 0"},
		{6, "repeat n in+in_bytes out+out_bytes: in moves by 6 bytes of 5"},
		{-1, "repeat n in+in_bytes out+out_bytes: in moves by -1 bytes of 5"},
	} {
		err := run(t, text, Arg{Buf: seq(5)}, Arg{Buf: []byte{100}}, Arg{Buf: make([]byte, 4)}, Arg{Int: 2}, Arg{Int: row.by}, Arg{Int: 0})
		if err == nil || err.Error() != "vir: func f: "+row.want {
			t.Errorf("by %d: %v", row.by, err)
		}
	}
	args := []Arg{{Buf: seq(5)}, {Buf: []byte{100}}, {Buf: make([]byte, 4)}, {Int: 1 << 40}, {}, {}}
	if err := EvalLimit(mustParse(t, text), args, 1000); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, want %v", err, ErrLimit)
	}
}

// TestCarriedTable uses a lookup whose result replaces its own table.
func TestCarriedTable(t *testing.T) {
	out := make([]byte, 16)
	err := run(t, `func f(in ptr, out ptr)
	v0:u8x16 = load in+0
	v1:u8x16 = load in+0
	loop l0 1 carry v1
		v1:u8x16 = lookup16 v0 v1
	end
	store out+0 v1
`, Arg{Buf: []byte{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}}, Arg{Buf: out})
	if err != nil || !slices.Equal(out, seq(16)) {
		t.Errorf("have %v, %v", out, err)
	}
}

func TestEvalErrors(t *testing.T) {
	for _, row := range []struct {
		body string
		want string
	}{
		{"v0:u8x8 = load in+9", "vir: func f: v0:u8x8 = load in+9: bytes [9,17) of in, which has 16"},
		{"v0:u8x8 = load in-1", "vir: func f: v0:u8x8 = load in-1: bytes [-1,7) of in, which has 16"},
		{"v0:u8x32 = load in+0", "vir: func f: v0:u8x32 = load in+0: bytes [0,32) of in, which has 16"},
		{"v0:u8x1 = splat 0\nstore in+16 v0", "vir: func f: store in+16 v0: bytes [16,17) of in, which has 16"},
		{"v0:i32x4 = loadsplat in+13", "vir: func f: v0:i32x4 = loadsplat in+13: bytes [13,17) of in, which has 16"},
		{"v0:u8x4 = splat 0\nv1:u8x4 = add v0 [in+15 u8x4 splat 2]", "vir: func f: v1:u8x4 = add v0 [in+15 u8x4 splat 2]: bytes [15,17) of in, which has 16"},
		{"loop l0 5\nv0:u8x4 = load in+0 l0*4\nend", "vir: func f: v0:u8x4 = load in+0 l0*4: bytes [16,20) of in, which has 16"},
		{"v0:u8x16 = splat 16\nv1:u8x16 = lookup16 v0 [in+0 u8x16]", "vir: func f: v1:u8x16 = lookup16 v0 [in+0 u8x16]: lane 0: index 16 of a table of 16"},
		{"v0:f32x1 = splat 1325400064\nv1:i32x1 = cvti32 v0", "vir: func f: v1:i32x1 = cvti32 v0: lane 0: 2.1474836e+09 is no i32"},
		{"v0:f32x1 = splat -1\nv1:i32x1 = cvti32 v0", "vir: func f: v1:i32x1 = cvti32 v0: lane 0: NaN is no i32"},
	} {
		err := run(t, "func f(in ptr)\n"+row.body, Arg{Buf: seq(16)})
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: %v, want %s", row.body, err, row.want)
		}
	}
	for _, body := range []string{"v0:u8x4 = load in+0", "v0:i32x4 = loadsplat in+0", "v0:i8x4 = splat 0\nv1:i8x4 = add v0 [in+0 i8x4]"} {
		if err := run(t, "func f(in ptr 127)\n"+body, Arg{Buf: []byte{0, 127, 129, 255}}); err != nil {
			t.Error(err)
		}
		err := run(t, "func f(in ptr 127)\n"+body, Arg{Buf: []byte{0, 127, 128, 255}})
		if err == nil || !strings.Contains(err.Error(), "byte 2 of in is -128, beyond 127") {
			t.Errorf("%s: %v", body, err)
		}
	}
	const inWords = "func f(in ptr 300 words)\n"
	for body, want := range map[string]string{
		"v0:i32x2 = load in+0":      "",
		"v0:u8x4 = load in+4":       "",
		"v0:i32x2 = loadsplat in+8": "word 2 of in is -301, beyond 300",
		"v0:i16x2 = loadsplat in+0": "bytes [0,2) of in are no whole words",
		"v0:i32x1 = load in+2":      "bytes [2,6) of in are no whole words",
	} {
		err := run(t, inWords+body, Arg{Buf: []byte{44, 1, 0, 0, 0xd4, 0xfe, 0xff, 0xff, 0xd3, 0xfe, 0xff, 0xff}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	if err := run(t, "func f(in ptr)"); err == nil || err.Error() != "vir: func f: 0 arguments for 1 parameters" {
		t.Error(err)
	}
}

func TestEvalLimit(t *testing.T) {
	f := mustParse(t, "func f(n int)\nloop l0 n\nend")
	if err := EvalLimit(f, []Arg{{Int: 1 << 62}}, 100); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if err := EvalLimit(f, []Arg{{Int: 100}}, 100); err != nil {
		t.Error(err)
	}
}

func BenchmarkEval(b *testing.B) {
	f := mustParse(b, `func f(in ptr, act ptr, out ptr)
	v0:i32x16 = splat 0
	v8:u8x64 = splat 15
	loop l0 100000 carry v0
		v1:u8x64 = load in+0
		v2:u8x64 = and v1 v8
		v0:i32x16 = dot4 v0 v2 [act+0 i8x64 splat 4]
	end
	store out+0 v0
`)
	args := []Arg{{Buf: seq(64)}, {Buf: seq(4)}, {Buf: make([]byte, 64)}}
	for b.Loop() {
		if err := Eval(f, args); err != nil {
			b.Fatal(err)
		}
	}
	lanes := float64(100000 * (64 + 64 + 64))
	b.ReportMetric(lanes*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mlanes/s")
}

// Operations are dot products and lookups by their rows, which their names say.
func TestKinds(t *testing.T) {
	for _, op := range Ops() {
		name := op.String()
		if dot, lookup := strings.HasPrefix(name, "dot") || op == OpMMLA || op == OpMatMul, strings.HasPrefix(name, "lookup"); op.IsDot() != dot || op.IsLookup() != lookup {
			t.Errorf("%s: a dot product %v, a lookup %v", name, op.IsDot(), op.IsLookup())
		}
	}
}
