package vir

import (
	"strings"
	"testing"
)

func TestVerifyRefusals(t *testing.T) {
	for _, row := range []struct{ body, want string }{
		{"v0:u8x3 = splat 0", "v0:u8x3 = splat 0: u8x3: lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:u8x0 = splat 0", "v0:u8x0 = splat 0: u8x0: lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:u16x1024 = splat 0", "v0:u16x1024 = splat 0: u16x1024: lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:u8x2305843009213693952 = splat 0", "v0:u8x2305843009213693952 = splat 0: u8x2305843009213693952: lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:bf16x4 = splat 0", "v0:bf16x4 = splat 0: bf16x4: registers have no lanes of bf16"},
		{"v0:i16x16 = splat 0\nv1:i16x16 = lookup16 v0 v0", "v1:i16x16 = lookup16 v0 v0: arguments are [i16x16 i16x16]; lookup16 is TxN <- UxN, TxM; T any, U unsigned of its size; M = max(N, 16)"},
		{"v0:u8x8 = splat 0\nv1:u8x4 = splat 0\nv2:u8x8 = lookuppair v0 v1 v1", "v2:u8x8 = lookuppair v0 v1 v1: arguments are [u8x8 u8x4 u8x4]; lookuppair is TxN <- UxN, TxM, TxM; T any, U unsigned of its size; N <= M; 4 <= M <= 64"},
		{"v0:u8x1 = splat 0\nv0:u8x1 = splat 0", "v0:u8x1 = splat 0: v0 is already defined"},
		{"v0:u8x1 = splat 0\nv0:u8x1 = and v0 v0", "v0:u8x1 = and v0 v0: v0 is already defined"},
		{"v0:u8x1 = and v1 v1", "v0:u8x1 = and v1 v1: v1 is used before it is defined"},
		{"store a+0 v1", "store a+0 v1: v1 is used before it is defined"},
		{"loop l0 2\nv0:u8x1 = splat 0\nend\nstore a+0 v0", "store a+0 v0: v0 is used after loop l0, which defines it"},
		{"loop l0 2\nv0:u8x1 = splat 0\nend\nv0:u8x1 = splat 0", "v0:u8x1 = splat 0: v0 is already defined"},
		{"v0:u8x1 = splat 0\nloop l0 2\nv0:u8x1 = splat 0\nend", "v0:u8x1 = splat 0: v0 is already defined, and loop l0 does not carry it"},
		{"v0:u8x1 = splat 0\nloop l0 2\nloop l1 2 carry v0\nv0:u8x1 = splat 0\nend\nend", "v0:u8x1 = splat 0: v0 is already defined, and loop l0 does not carry it"},
		{"v0:u8x1 = splat 0\nloop l0 2 carry v0\nloop l1 2\nv0:u8x1 = splat 0\nend\nend", "v0:u8x1 = splat 0: v0 is already defined, and loop l1 does not carry it"},
		{"v0:u8x1 = splat 0\nloop l0 2 carry v0\nend\nv0:u8x1 = splat 0", "v0:u8x1 = splat 0: v0 is already defined"},
		{"loop l0 2 carry v0\nv0:u8x1 = splat 0\nend", "loop l0 2 carry v0: v0 is used before it is defined"},
		{"v0:u8x1 = splat 0\nloop l0 2 carry v0 v0\nend", "loop l0 2 carry v0 v0: v0 carried twice"},
		{"loop l0 2\nend\nloop l0 2\nend", "loop l0 2: two loops l0"},
		{"loop l0 2\nloop l0 2\nend\nend", "loop l0 2: two loops l0"},
		{"repeat a", "repeat: a is no integer"},
		{"repeat n n+n", "repeat: n+n: want a pointer and an integer"},
		{"repeat n a+a", "repeat: a+a: want a pointer and an integer"},
		{"repeat n a+n", "repeat: n is the count and a number of bytes"},
		{"repeat n\nloop l0 n\nend", "loop l0 n: n counts how often the body runs"},
		{"repeat n\nprefetch a+0 n*8", "prefetch a+0 n*8: n counts how often the body runs"},
		{"loop l0 0\nend", "loop l0 0: a constant trip count is at least 1, not 0"},
		{"loop l0 a\nend", "loop l0 a: a is a pointer, not a count"},
		{"loop l0 2 list n\nend", "loop l0 2 list n: n is an integer, not a list"},
		{"v0:u8x1 = load n+0", "v0:u8x1 = load n+0: n is an integer, not a pointer"},
		{"v0:u8x1 = load a+0 l0*1", "v0:u8x1 = load a+0 l0*1: loop l0 is not around it"},
		{"loop l0 2\nend\nprefetch a+0 l0*1", "prefetch a+0 l0*1: loop l0 is not around it"},
		{"loop l0 2\nprefetch a+0 l0*0\nend", "prefetch a+0 l0*0: stride of 0 bytes"},
		{"loop l0 2\nloop l1 2\nprefetch a+0 l1*1 l0*1\nend\nend", "prefetch a+0 l1*1 l0*1: strides are not in the order of their loops"},
		{"loop l0 2\nprefetch a+0 l0*1 l0*1\nend", "prefetch a+0 l0*1 l0*1: strides are not in the order of their loops"},
		{"prefetch a+0 a*1", "prefetch a+0 a*1: a is a pointer, not a number of bytes"},
		{"prefetch a+0 n*1 n*1", "prefetch a+0 n*1 n*1: multiples are not in the order of their parameters"},
		{"prefetch a+0 n*1099511627777", "prefetch a+0 n*1099511627777: 1099511627777 times n is out of range"},
		{"prefetch a+1099511627777", "prefetch a+1099511627777: offset 1099511627777 is out of range"},
		{"v0:i32x16 = load a+1073741823", "v0:i32x16 = load a+1073741823: reaches 1073741887 bytes from a: out of range, at most 1073741824"},
		{"v0:i32x16 = loadsplat a+1073741821", "v0:i32x16 = loadsplat a+1073741821: reaches 1073741825 bytes from a: out of range, at most 1073741824"},
		{"loop l0 2\nloop l1 1000\nprefetch a+0 l0*32 l1*4000000\nend\nend", "prefetch a+0 l0*32 l1*4000000: reaches 4000000064 bytes from a: out of range, at most 1073741824"},
		{"loop l0 n\nprefetch a-536870913 l0*-536870912\nend", "prefetch a-536870913 l0*-536870912: reaches 1073741825 bytes from a: out of range, at most 1073741824"},
		{"loop l0 2147483647\nloop l1 2147483647\nprefetch a+0 l0*1073741824 l1*1073741824\nend\nend", "prefetch a+0 l0*1073741824 l1*1073741824: reaches 2305843008139952128 bytes from a: out of range, at most 1073741824"},
		{"loop l0 2147483648\nend", "loop l0 2147483648: a constant trip count is at most 2147483647, not 2147483648"},
		{"v0:u8x1 = splat 0\nv1:u8x1 = shl v0 8", "v1:u8x1 = shl v0 8: a shift by 8 is not in 0..7"},
		{"v0:i32x1 = splat 0\nv1:i32x1 = shrs v0 -1", "v1:i32x1 = shrs v0 -1: a shift by -1 is not in 0..31"},
		{"v0:u8x2 = splat 0\nv1:u8x1 = half v0 2", "v1:u8x1 = half v0 2: no half 2"},
		{"v0:u8x2 = const c1", "v0:u8x2 = const c1: no constant c1"},
		{"v0:u8x2 = const c0", "v0:u8x2 = const c0: the constant has 4 bytes, the register 2"},
		{"v0:u8x2 = splat 0\nv1:u8x4 = add v0 v0", "v1:u8x4 = add v0 v0: arguments are [u8x2 u8x2]; add is TxN <- TxN, TxN; T u8 i8 u16 i16 u32 i32 f32"},
		{"v0:u8x2 = splat 0\nv1:i8x2 = add v0 v0", "v1:i8x2 = add v0 v0: arguments are [u8x2 u8x2]; add is TxN <- TxN, TxN; T u8 i8 u16 i16 u32 i32 f32"},
		{"v0:u8x2 = splat 0\nv1:u8x2 = mul v0 v0", "v1:u8x2 = mul v0 v0: arguments are [u8x2 u8x2]; mul is TxN <- TxN, TxN; T u16 i16 u32 i32 f32"},
		{"v0:u8x4 = abs [a+0 u8x3]", "v0:u8x4 = abs [a+0 u8x3]: u8x3: lanes are a power of two, at most 1024 and 1024 bytes"},
		{"v0:i8x4 = abs [a+0 i8x4 splat 8]", "v0:i8x4 = abs [a+0 i8x4 splat 8]: no unit of 8 bytes in i8x4"},
		{"v0:i8x4 = abs [a+0 i8x4 splat 3]", "v0:i8x4 = abs [a+0 i8x4 splat 3]: no unit of 3 bytes in i8x4"},
		{"v0:i8x4 = abs [c1 i8x4]", "v0:i8x4 = abs [c1 i8x4]: no constant c1"},
		{"v0:i8x2 = abs [c0 i8x2]", "v0:i8x2 = abs [c0 i8x2]: the constant has 4 bytes, the argument 2"},
		{"v0:i32x4 = abs [a+0 i32x4 splat 2]", "v0:i32x4 = abs [a+0 i32x4 splat 2]: no unit of 2 bytes in i32x4"},
	} {
		f, err := Parse("func f(a ptr, n int)\nconst c0 00000000\n" + row.body)
		if err != nil {
			t.Errorf("%q: %v", row.body, err)
			continue
		}
		err = Verify(f)
		if want := "vir: func f: " + row.want; err == nil || err.Error() != want {
			t.Errorf("%q:\nhave %v\nwant %s", row.body, err, want)
		}
		if Eval(f, make([]Arg, 2)) == nil {
			t.Errorf("%q: Eval accepts it", row.body)
		}
	}
}

// TestTypeRules checks that every operation refuses every change of the element
// or lane count of one type of a legal row, unless another row shows it.
func TestTypeRules(t *testing.T) {
	legal := map[string]bool{}
	for _, row := range evalRows {
		instr, _, _ := strings.Cut(row.instr, ",")
		legal[instr] = true
	}
	for _, row := range evalRows {
		instr, imm, _ := strings.Cut(row.instr, ",")
		words := strings.Fields(instr)
		op := opByName(words[2])
		if len(words) == 3 || op == OpBitcast {
			continue
		}
		for i := range words {
			if i == 1 || i == 2 {
				continue
			}
			typ := words[i]
			twice := mustType(t, typ)
			twice.Lanes *= 2
			for _, wrong := range []string{"f16x" + strings.SplitN(typ, "x", 2)[1], twice.String()} {
				words[i] = wrong
				lanesFree := (op == OpSplatLane || op == OpTile) && i == 0 || (op == OpTile || op == OpRedAdd || op == OpRedMaxS) && i == 3
				lanesFree = lanesFree || op == OpSpread || op == OpDot4Unit && i == 5
				if (op == OpRedAdd || op == OpRedMaxS) && i == 0 {
					lanesFree = twice.Lanes <= mustType(t, words[3]).Lanes
				}
				if lanesFree && wrong == twice.String() || wrong == typ || legal[strings.Join(words, " ")] {
					continue
				}
				f, err := Parse(oneOp(words[0], words[2], words[3:], imm))
				if err != nil {
					t.Fatal(err)
				}
				if Verify(f) == nil {
					t.Errorf("%s accepted", strings.Join(words, " "))
				}
			}
			words[i] = typ
		}
	}
}

// TestVerifyStructure has what no text says.
func TestVerifyStructure(t *testing.T) {
	u8x1 := []Type{{Elem: u8, Lanes: 1}}
	for want, f := range map[string]*Func{
		`vir: func : "" is no identifier`:                                                        {},
		`vir: func f: parameter "" is no identifier`:                                             {Name: "f", Params: []Param{{}}},
		`vir: func f: two parameters a`:                                                          {Name: "f", Params: []Param{{Name: "a"}, {Name: "a"}}},
		`vir: func f: const c0 has 0 bytes`:                                                      {Name: "f", Consts: [][]byte{nil}},
		`vir: func f: 65537 registers, at most 65536 are allowed`:                                {Name: "f", Regs: make([]Type, MaxRegs+1)},
		`vir: func f: node of type <nil>`:                                                        {Name: "f", Body: []Node{nil}},
		`vir: func f: Op(0): no such operation`:                                                  {Name: "f", Body: []Node{&Instr{Dst: NoReg}}},
		`vir: func f: Op(200): no such operation`:                                                {Name: "f", Body: []Node{&Instr{Op: 200, Dst: NoReg}}},
		`vir: func f: v0:u8x1 = abs: 0 arguments, want 1`:                                        {Name: "f", Regs: u8x1, Body: []Node{&Instr{Op: OpAbs}}},
		`vir: func f: v7:?x0 = splat 0: no register v7`:                                          {Name: "f", Regs: u8x1, Body: []Node{&Instr{Op: OpSplat, Dst: 7}}},
		`vir: func f: v0:?x0 = splat 0: register without a type`:                                 {Name: "f", Regs: []Type{{}}, Body: []Node{&Instr{Op: OpSplat}}},
		`vir: func f: splat 0: no register v-1`:                                                  {Name: "f", Regs: u8x1, Body: []Node{&Instr{Op: OpSplat, Dst: NoReg}}},
		`vir: func f: v0:u8x1 = load param3+0: no parameter 3`:                                   {Name: "f", Regs: u8x1, Body: []Node{&Instr{Op: OpLoad, Mem: Mem{Buf: 3}}}},
		`vir: func f: v0:u8x1 = prefetch a+0: prefetch has no result`:                            {Name: "f", Params: []Param{{Name: "a"}}, Regs: u8x1, Body: []Node{&Instr{Op: OpPrefetch}}},
		`vir: func f: parameter a: bytes up to 128: want 1 to 127, of a pointer`:                 {Name: "f", Params: []Param{{Name: "a", Most: 128}}},
		`vir: func f: v0:u8x1 = abs none: no argument 2 to fold`:                                 {Name: "f", Regs: u8x1, Body: []Node{&Instr{Op: OpAbs, Args: []Reg{NoReg}, Fold: 2}}},
		`vir: func f: v0:u8x1 = splat 0: a constant, but no argument to fold`:                    {Name: "f", Regs: u8x1, Body: []Node{&Instr{Op: OpSplat, FoldConst: 1}}},
		`vir: func f: v0:i8x1 = abs [c0 i8x1]: a constant is neither repeated nor at an address`: {Name: "f", Regs: []Type{{Elem: i8, Lanes: 1}}, Consts: [][]byte{{1}}, Body: []Node{&Instr{Op: OpAbs, Args: []Reg{NoReg}, Fold: 1, FoldConst: 1, FoldUnit: 1, FoldType: Type{Elem: i8, Lanes: 1}}}},
		`vir: func f: repeat: param1 is no integer`:                                              {Name: "f", Params: []Param{{Name: "a"}}, Repeat: &Repeat{Count: 1}},
		`vir: func f: repeat: a moves twice`: {Name: "f", Params: []Param{{Name: "a"}, {Name: "n", Int: true}, {Name: "m", Int: true}},
			Repeat: &Repeat{Count: 1, Moves: []Move{{0, 2}, {0, 2}}}},
		`vir: func f: loop l-1 1: negative loop id`:          {Name: "f", Body: []Node{&Loop{ID: -1, Count: Extent{Const: 1, Param: -1}}}},
		`vir: func f: loop l0 1 list param4: no parameter 4`: {Name: "f", Body: []Node{&Loop{Count: Extent{Const: 1, Param: -1}, List: 5}}},
		`vir: func f: loop l0 param4: no parameter 4`:        {Name: "f", Body: []Node{&Loop{Count: Extent{Const: 0, Param: 4}}}},
	} {
		if err := Verify(f); err == nil || err.Error() != want {
			t.Errorf("have %v\nwant %s", err, want)
		}
	}
}
