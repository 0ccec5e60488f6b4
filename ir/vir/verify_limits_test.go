package vir

import (
	"math"
	"strings"
	"testing"
)

// TestVerifyLimits has the last legal value of each limit, and the first illegal one with its refusal.
func TestVerifyLimits(t *testing.T) {
	for _, row := range []struct{ good, bad, want string }{
		{"v0:u8x1024 = splat 0", "v0:u8x2048 = splat 0", "lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:u16x512 = splat 0", "v0:u16x1024 = splat 0", "lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:u8x1 = splat 0", "v0:u8x0 = splat 0", "lanes are a power of two, at most 1024 and 1024 bytes"},
		{"loop l0 1\nend", "loop l0 0\nend", "a constant trip count is at least 1, not 0"},
		{"loop l0 2147483647\nend", "loop l0 2147483648\nend", "a constant trip count is at most 2147483647, not 2147483648"},
		{"prefetch a+1073741824", "prefetch a+1073741825", "offset 1073741825 is out of range"},
		{"prefetch a-1073741824", "prefetch a-1073741825", "offset -1073741825 is out of range"},
		{"loop l0 1\nprefetch a+0 l0*1073741824\nend", "loop l0 1\nprefetch a+0 l0*1073741825\nend", "stride of 1073741825 bytes"},
		{"loop l0 1\nprefetch a+0 l0*-1073741824\nend", "loop l0 1\nprefetch a+0 l0*-1073741825\nend", "stride of -1073741825 bytes"},
		{"prefetch a+0 n*1073741824", "prefetch a+0 n*1073741825", "1073741825 times n is out of range"},
		{"prefetch a+0 n*-1073741824", "prefetch a+0 n*-1073741825", "-1073741825 times n is out of range"},
		{"prefetch a+0 n*1 m*1", "prefetch a+0 m*1 n*1", "multiples are not in the order of their parameters"},

		// The reach of an access: its beginning, its bytes, and the steps of each loop except one. One more is too many.
		{"v0:i32x16 = load a+1073741760", "v0:i32x16 = load a+1073741761", "reaches 1073741825 bytes from a: out of range, at most 1073741824"},
		{"v0:i32x16 = load a-1073741760", "v0:i32x16 = load a-1073741761", "reaches 1073741825 bytes from a"},
		{"v0:i32x16 = loadsplat a+1073741820", "v0:i32x16 = loadsplat a+1073741821", "reaches 1073741825 bytes from a"},
		{"v0:i32x16 = splat 0\nstore a+1073741760 v0", "v0:i32x16 = splat 0\nstore a+1073741761 v0", "reaches 1073741825 bytes from a"},
		{"v0:i32x16 = abs [a+1073741760 i32x16]", "v0:i32x16 = abs [a+1073741761 i32x16]", "reaches 1073741825 bytes from a"},
		{"v0:i32x16 = abs [a+1073741816 i32x16 splat 8]", "v0:i32x16 = abs [a+1073741817 i32x16 splat 8]", "reaches 1073741825 bytes from a"},
		{"loop l0 1024\nprefetch a+0 l0*1048576\nend", "loop l0 1025\nprefetch a+0 l0*1048576\nend", "reaches 1074790400 bytes from a"},
		{"loop l0 1024\nprefetch a+0 l0*-1048576\nend", "loop l0 1025\nprefetch a+0 l0*-1048576\nend", "reaches 1074790400 bytes from a"},
		{"loop l0 512\nloop l1 512\nprefetch a+0 l0*1048576 l1*1048576\nend\nend", "loop l0 512\nloop l1 513\nprefetch a+0 l0*1048576 l1*1048576\nend\nend", "reaches 1074790400 bytes from a"},
		{"loop l0 n\nprefetch a-536870912 l0*536870912\nend", "loop l0 n\nprefetch a-536870913 l0*536870912\nend", "reaches 1073741825 bytes from a"},

		{"loop l0 1\nloop l1 2\nprefetch a+0 l0*1073741823 l1*0+1*n\nend\nend", "loop l0 1\nloop l1 2\nprefetch a+0 l0*1073741824 l1*1\nend\nend", "reaches 1073741826 bytes from a"},

		{"v0:u8x1 = splat 0\nv1:u8x1 = shl v0 7", "v0:u8x1 = splat 0\nv1:u8x1 = shl v0 8", "a shift by 8 is not in 0..7"},
		{"v0:i32x1 = splat 0\nv1:i32x1 = shrs v0 0", "v0:i32x1 = splat 0\nv1:i32x1 = shrs v0 -1", "a shift by -1 is not in 0..31"},
		{"v0:i16x1 = splat 0\nv1:i16x1 = shru v0 15", "v0:i16x1 = splat 0\nv1:i16x1 = shru v0 16", "a shift by 16 is not in 0..15"},
		{"v0:u8x2 = splat 0\nv1:u8x1 = half v0 0", "v0:u8x2 = splat 0\nv1:u8x1 = half v0 -1", "no half -1"},
		{"v0:u8x2 = splat 0\nv1:u8x2 = unzip v0 v0 1", "v0:u8x2 = splat 0\nv1:u8x2 = unzip v0 v0 2", "no half 2"},
		{"v0:i8x8 = splat 0\nv1:i8x8 = spread v0 7", "v0:i8x8 = splat 0\nv1:i8x8 = spread v0 8", "no part 8 of 8"},
		{"v0:i8x8 = splat 0\nv1:i8x8 = spread v0 0", "v0:i8x8 = splat 0\nv1:i8x8 = spread v0 -1", "no part -1 of 8"},
		{"v1:i8x8 = spread [a+0 i8x4] 3", "v1:i8x8 = spread [a+0 i8x4] 4", "no part 4 of 4"},
		{"v0:i32x2 = splat 0\nv1:i8x8 = splat 0\nv2:i32x2 = dot4unit v0 v1 v1 1", "v0:i32x2 = splat 0\nv1:i8x8 = splat 0\nv2:i32x2 = dot4unit v0 v1 v1 2", "no part 2 of 2"},
		{"v1:i8x16 = splat 0\nv2:i16x8 = mulwide v1 v1 1", "v1:i8x16 = splat 0\nv2:i16x8 = mulwide v1 v1 2", "no part 2 of 2"},
		{"v1:u8x4 = const c0", "v1:u8x4 = const c1", "no constant c1"},

		{"v0:i8x4 = abs [a+0 i8x4 splat 1]", "v0:i16x4 = abs [a+0 i16x4 splat 1]", "no unit of 1 bytes in i16x4"},
		{"v0:i8x4 = abs [a+0 i8x4 splat 4]", "v0:i8x4 = abs [a+0 i8x4 splat 8]", "no unit of 8 bytes in i8x4"},
		{"v0:i8x4 = abs [a+0 i8x4 splat 2]", "v0:i8x4 = abs [a+0 i8x4 splat 3]", "no unit of 3 bytes in i8x4"},
		{"loop l0 2 list a\nend", "loop l0 2 list n\nend", "n is an integer, not a list"},
		{"loop l0 m\nend", "loop l0 a\nend", "a is a pointer, not a count"},
		{"loop l0 n\nprefetch a+0 l0*64+1*m\nend", "loop l0 n list a\nprefetch a+0 l0*0+1*m\nend", "loop l0 is over a list: no stride of a parameter"},
		{"loop l0 n list a\nprefetch a+0 l0*64\nend", "loop l0 n list a\nprefetch a+0 l0*64+1*m\nend", "loop l0 is over a list: no stride of a parameter"},
	} {
		for text, want := range map[string]string{row.good: "", row.bad: row.want} {
			f, err := Parse("func f(a ptr, n int, m int)\nconst c0 00000000\n" + text)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			err = Verify(f)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), ": "+want)) {
				t.Errorf("%q:\nhave %v\nwant %s", text, err, want)
			}
		}
	}
}

// TestVerifyStructureLimits has limits of what no text says, or what the parser refuses first.
func TestVerifyStructureLimits(t *testing.T) {
	nested := func(n int) []Node {
		var body []Node
		for i := range n {
			body = []Node{&Loop{ID: i, Count: Extent{Const: 1, Param: -1}, Body: body}}
		}
		return body
	}
	params := func(p ...Param) *Func { return &Func{Name: "f", Params: p} }
	ints := []Param{{Name: "n", Int: true}, {Name: "a"}, {Name: "b"}, {Name: "m", Int: true}}
	repeat := func(count int, moves ...Move) *Func {
		return &Func{Name: "f", Params: ints, Repeat: &Repeat{Count: count, Moves: moves}}
	}
	instr := func(in *Instr) *Func {
		return &Func{Name: "f", Params: ints, Regs: []Type{{Elem: i8, Lanes: 4}}, Consts: [][]byte{{1, 2, 3, 4}}, Body: []Node{in}}
	}
	abs := func(edit func(*Instr)) *Func {
		in := &Instr{Op: OpAbs, Args: []Reg{NoReg}, Fold: 1, FoldConst: 1, FoldType: Type{Elem: i8, Lanes: 4}}
		edit(in)
		return instr(in)
	}
	// moved is an access in a loop that is counted by the first parameter. One iteration counts.
	moved := func(stride, off int) *Func {
		in := &Instr{Op: OpPrefetch, Dst: NoReg, Mem: Mem{Buf: 1, Off: off, Stride: []Stride{{Loop: 0, Bytes: stride}}}}
		return &Func{Name: "f", Params: ints, Body: []Node{&Loop{Count: Extent{Const: 0, Param: 0}, Body: []Node{in}}}}
	}
	const place = "a constant is neither repeated nor at an address"
	for _, row := range []struct {
		f    *Func
		want string // of the refusal
	}{
		{&Func{Name: "f", Body: nested(32)}, ""},
		{&Func{Name: "f", Body: nested(33)}, "more than 32 nested loops"},
		{&Func{Name: "f", Regs: make([]Type, 65536)}, ""},
		{&Func{Name: "f", Regs: make([]Type, 65537)}, "65537 registers, at most 65536 are allowed"},
		{&Func{Name: "f", Consts: [][]byte{make([]byte, 1), make([]byte, 1024)}}, ""},
		{&Func{Name: "f", Consts: [][]byte{make([]byte, 1025)}}, "const c0 has 1025 bytes"},
		{&Func{Name: "f", Consts: [][]byte{{}}}, "const c0 has 0 bytes"},

		{params(Param{Name: "a", Most: 1}), ""},
		{params(Param{Name: "a", Most: 127}), ""},
		{params(Param{Name: "a", Most: 128}), "bytes up to 128: want 1 to 127, of a pointer"},
		{params(Param{Name: "a", Most: -1}), "bytes up to -1: want 1 to 127, of a pointer"},
		{params(Param{Name: "a", Most: 1, Int: true}), "bytes up to 1: want 1 to 127, of a pointer"},
		{params(Param{Name: "a", Most: 1, Words: true}), ""},
		{params(Param{Name: "a", Most: math.MaxInt32, Words: true}), ""},
		{params(Param{Name: "a", Most: math.MaxInt32 + 1, Words: true}), "bytes up to 2147483648: want 1 to 2147483647, of a pointer"},
		{params(Param{Name: "a", Words: true}), "bytes up to 0: want 1 to 2147483647, of a pointer"},

		{repeat(0), ""},
		{repeat(3), ""},
		{repeat(-1), "repeat: param-1 is no integer"},
		{repeat(4), "repeat: param4 is no integer"},
		{repeat(1), "repeat: a is no integer"},
		{repeat(0, Move{1, 3}, Move{2, 3}), ""},
		{repeat(3, Move{1, 0}), ""},
		{repeat(3, Move{0, 0}), "repeat: n+n: want a pointer and an integer"},
		{repeat(3, Move{1, 2}), "repeat: a+b: want a pointer and an integer"},
		{repeat(3, Move{1, 3}), "repeat: m is the count and a number of bytes"},

		{abs(func(in *Instr) {}), ""},
		{abs(func(in *Instr) { in.FoldUnit = 1 }), place},
		{abs(func(in *Instr) { in.Mem.Buf = 1 }), place},
		{abs(func(in *Instr) { in.Mem.Off = 1 }), place},
		{abs(func(in *Instr) { in.Mem.Stride = []Stride{} }), place},
		{abs(func(in *Instr) { in.Mem.Plus[0] = Multiple{1, 0} }), place},
		{abs(func(in *Instr) { in.FoldConst = 2 }), "no constant c1"},
		{abs(func(in *Instr) { in.FoldConst = -1 }), "no constant c-2"},
		{abs(func(in *Instr) { in.Fold = -1 }), "no argument -1 to fold"},
		{abs(func(in *Instr) { in.Args[0] = 0 }), "v0 stands where an argument is folded"},
		{abs(func(in *Instr) { in.Dst = 1 }), "no register v1"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 2}}), ""},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: -1}}), "no parameter -1"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 4}}), "no parameter 4"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{1, 3}}}}), ""},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{1, 4}}}}), "1 times parameter 4"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{1, -1}}}}), "1 times parameter -1"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{0, 3}}}}), "0 times parameter 3"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{1, 0}, {1, 3}}}}), ""},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{1, 3}, {1, 3}}}}), "multiples are not in the order of their parameters"},
		{instr(&Instr{Op: OpLoad, Mem: Mem{Buf: 1, Plus: [2]Multiple{{}, {1, 3}}}}), "multiples are not in the order of their parameters"},
		{instr(&Instr{Op: OpStore, Dst: NoReg, Args: []Reg{-1}, Mem: Mem{Buf: 1}}), "no register v-1"},
		{instr(&Instr{Op: OpStore, Dst: NoReg, Args: []Reg{1}, Mem: Mem{Buf: 1}}), "no register v1"},
		{instr(&Instr{Op: OpStore, Dst: NoReg, Args: []Reg{0}, Mem: Mem{Buf: 1}}), "v0 is used before it is defined"},

		{&Func{Name: "f", Params: ints, Body: []Node{&Loop{Count: Extent{Const: 0, Param: 3}, List: 3}}}, ""},
		{&Func{Name: "f", Params: ints[:3], Body: []Node{&Loop{Count: Extent{Const: 0, Param: 0}, List: 3}}}, ""},
		{&Func{Name: "f", Params: ints[:3], Body: []Node{&Loop{Count: Extent{Const: 0, Param: 0}, List: 4}}}, "no parameter 3"},
		{&Func{Name: "f", Params: ints, Body: []Node{&Loop{Count: Extent{Const: 0, Param: 0}, List: -1}}}, "no parameter -2"},
		{&Func{Name: "f", Params: ints, Body: []Node{&Loop{Count: Extent{Const: 0, Param: 4}}}}, "no parameter 4"},
		{&Func{Name: "f", Params: ints, Body: []Node{&Loop{Count: Extent{Const: 1 << 40, Param: 0}}}}, ""}, // the constant does not count
		{&Func{Name: "f", Params: ints, Repeat: &Repeat{Count: 0}, Body: []Node{&Loop{Count: Extent{Const: 0, Param: 0}}}}, "n counts how often the body runs"},
		{&Func{Name: "f", Params: ints, Repeat: &Repeat{Count: 0}, Body: []Node{&Loop{Count: Extent{Const: 0, Param: 3}}}}, ""},
		{moved(1<<30, 0), ""},
		{moved(1<<30, 1), "reaches 1073741825 bytes from a: out of range, at most 1073741824"},

		{&Func{Name: "azAZ_09"}, ""},
		{&Func{Name: "_"}, ""},
		{&Func{Name: "0"}, `"0" is no identifier`},
		{&Func{Name: "a@"}, `"a@" is no identifier`},
		{&Func{Name: "a["}, `"a[" is no identifier`},
		{&Func{Name: "a`"}, "\"a`\" is no identifier"},
		{&Func{Name: "a{"}, `"a{" is no identifier`},
		{&Func{Name: "a/"}, `"a/" is no identifier`},
		{&Func{Name: "a:"}, `"a:" is no identifier`},
		{&Func{Name: "aä"}, `"aä" is no identifier`},
	} {
		if err := Verify(row.f); row.want == "" && err != nil || row.want != "" && (err == nil || !strings.HasSuffix(err.Error(), row.want)) {
			t.Errorf("have %v\nwant %s", err, row.want)
		}
	}
}
