package vir

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

const everyForm = `func f(codes ptr, act ptr, out ptr, n int, times int, bytes int)
	const c0 0f0f0f0f
	const c1 01
	repeat times codes+bytes out+bytes
	v0:i32x1 = splat -3
	v7:u8x1 = const c1
	loop l0 n carry v0
		prefetch codes+512 l0*4
		v1:u8x4 = load codes+0 l0*4
		v2:u8x4 = const c0
		v3:u8x4 = and v1 v2
		v4:u8x4 = shru v3 2
		loop l2 16 carry v0
			v0:i32x1 = dot4 v0 v4 [act-4 l0*16 l2*-4 i8x4]
			v0:i32x1 = dot4 v0 v3 [act+4 l0*16 i8x4 splat 2]
		end
	end
	loop l5 2
	end
	store out+0 v0
`

func TestPrintParse(t *testing.T) {
	if have := mustParse(t, everyForm).String(); have != everyForm {
		t.Errorf("have\n%s", have)
	}
	loose := "\n// a kernel\nfunc f( a ptr ,b int ) // its head\n\n v1:u8x1=\n"
	if _, err := Parse(loose); err == nil {
		t.Error("= without spaces accepted")
	}
	if _, err := Parse(strings.Replace(loose, "=\n", " =  load   a-0 // one\n", 1)); err != nil {
		t.Error(err)
	}
}

// TestPrintParseAllOps round-trips each row of evalRows.
func TestPrintParseAllOps(t *testing.T) {
	for _, row := range evalRows {
		instr, imm, _ := strings.Cut(row.instr, ",")
		words := strings.Fields(instr)
		f := mustParse(t, oneOp(words[0], words[2], words[3:], imm))
		g := mustParse(t, f.String())
		if !reflect.DeepEqual(f, g) {
			t.Errorf("have\n%swant\n%s", g, f)
		}
	}
}

func TestPrintParseRandom(t *testing.T) {
	for seed := range uint64(200) {
		f := randomFunc(rand.New(rand.NewPCG(seed, 1)))
		g := mustParse(t, f.String())
		if f.String() != g.String() || !reflect.DeepEqual(g, mustParse(t, g.String())) {
			t.Fatalf("seed %d: have\n%swant\n%s", seed, g, f)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "vir: line 1: no function"},
		{"\n\n", "vir: line 3: no function"},
		{"store a+0 v0", `vir: line 1: want func name(param ptr, ...), have "store a+0 v0"`},
		{"func f(a ptr", `vir: line 1: want func name(param ptr, ...), have "func f(a ptr"`},
		{"func 1()", `vir: line 1: "1" is no identifier`},
		{"func f(a)", `vir: line 1: parameter "a": want name ptr or name int`},
		{"func f(a ptr,)", `vir: line 1: parameter "": want name ptr or name int`},
		{"func f(a ptr 128)", `vir: line 1: parameter "a ptr 128": a ptr may say how large its bytes are, 1 to 127, or with words how large those are`},
		{"func f(a ptr x)", `vir: line 1: parameter "a ptr x": a ptr may say how large its bytes are, 1 to 127, or with words how large those are`},
		{"func f(a ptr 1 2)", `vir: line 1: parameter "a ptr 1 2": a ptr may say how large its bytes are, 1 to 127, or with words how large those are`},
		{"func f(a ptr 2147483648 words)", `vir: line 1: parameter "a ptr 2147483648 words": a ptr may say how large its bytes are, 1 to 127, or with words how large those are`},
		{"func f(a int 1)", `vir: line 1: parameter "a int 1": a ptr may say how large its bytes are, 1 to 127, or with words how large those are`},
		{"func f(a-b ptr)", `vir: line 1: parameter "a-b ptr": want name ptr or name int`},
		{"func f(a ptr, a int)", `vir: line 1: two parameters a`},
		{"func f()\nfunc g()", `vir: line 2: unknown operation "func"`},
		{"func f()\nend", `vir: line 2: end without a loop`},
		{"func f()\nloop l0 2", `vir: line 2: loop l0 has no end`},
		{"func f()\nloop 0 2", `vir: line 2: "0": want a loop`},
		{"func f()\nloop l0", `vir: line 2: trip count "" is neither a number nor a parameter`},
		{"func f()\nloop l0 m", `vir: line 2: trip count "m" is neither a number nor a parameter`},
		{"func f()\nloop l0 2 v0", `vir: line 2: "v0": want carry and registers`},
		{"func f()\nloop l0 2 carry", `vir: line 2: "carry": want carry and registers`},
		{"func f()\nloop l0 2 list", `vir: line 2: "list": want carry and registers`},
		{"func f()\nloop l0 2 list m", `vir: line 2: list: no parameter m`},
		{"func f()\nloop l0 2 carry w", `vir: line 2: "w": want a register`},
		{"func f()\n" + strings.Repeat("loop l0 1\n", MaxDepth+1), `vir: line 34: more than 32 nested loops`},
		{"func f()\nloop l0 1\nend v0", `vir: line 3: "v0" is too much`},
		{"func f()\nrepeat", `vir: line 2: repeat: no parameter ""`},
		{"func f(a ptr, n int)\nrepeat n a", `vir: line 2: repeat: no parameter ""`},
		{"func f(a ptr, n int)\nrepeat n b+n", `vir: line 2: repeat: no parameter "b"`},
		{"func f(n int)\nrepeat n\nrepeat n", `vir: line 3: repeat stands once, before what it repeats`},
		{"func f(n int)\nv0:u8x1 = splat 0\nrepeat n", `vir: line 3: repeat stands once, before what it repeats`},
		{"func f(n int)\nrepeat n\nconst c0 00", `vir: line 3: c0: constants come first`},
		{"func f()\nconst c1 00", `vir: line 2: c1: the next constant is c0`},
		{"func f()\nconst c0 0", `vir: line 2: c0: want bytes in hexadecimal`},
		{"func f()\nconst c0", `vir: line 2: c0: want bytes in hexadecimal`},
		{"func f()\nv0:u8x1 = splat 0\nconst c0 00", `vir: line 3: c0: constants come first`},
		{"func f()\nv0:u8x1 = frob", `vir: line 2: unknown operation "frob"`},
		{"func f()\nv0:u8x1 =", `vir: line 2: unknown operation ""`},
		{"func f()\nv0:u8x1 splat 0", `vir: line 2: "splat": want = after v0:u8x1`},
		{"func f()\nv0:u9x1 = splat 0", `vir: line 2: "u9x1": want a type such as u8x64`},
		{"func f()\nv0:u8x = splat 0", `vir: line 2: "u8x": want a type such as u8x64`},
		{"func f()\nv0:?x1 = splat 0", `vir: line 2: "?x1": want a type such as u8x64`},
		{"func f()\nv-1:u8x1 = splat 0", `vir: line 2: "v-1": want a register`},
		{"func f()\nv65536:u8x1 = splat 0", `vir: line 2: v65536: registers end at v65535`},
		{"func f()\nv0:u8x1 = splat zero", `vir: line 2: splat: immediate "zero" is no number`},
		{"func f()\nv0:u8x1 = splat", `vir: line 2: splat: immediate "" is no number`},
		{"func f()\nv0:u8x1 = splat 9223372036854775808", `vir: line 2: splat: immediate "9223372036854775808" is no number`},
		{"func f()\nv0:u8x1 = const 0", `vir: line 2: const: "0": want a constant`},
		{"func f()\nv0:u8x1 = splat 0 1", `vir: line 2: "1" is too much`},
		{"func f()\nsplat 0", `vir: line 2: splat has a result`},
		{"func f(a ptr)\nv0:u8x1 = store a+0 v0", `vir: line 2: store has no result`},
		{"func f()\nv0:u8x1 = splat 0\nv0:u8x2 = splat 0", `vir: line 3: v0 is u8x2 here and u8x1 above`},
		{"func f()\nv0:u8x1 = abs", `vir: line 2: abs: "": want a register`},
		{"func f(a ptr)\nv0:u8x1 = load a", `vir: line 2: load: address "a": want buffer+offset`},
		{"func f(a ptr)\nv0:u8x1 = load a+", `vir: line 2: load: address "a+": want buffer+offset`},
		{"func f(a ptr)\nv0:u8x1 = load b+0", `vir: line 2: load: address "b+0": no parameter b`},
		{"func f(a ptr)\nv0:u8x1 = load a+0 l0*x", `vir: line 2: load: stride "l0*x": want loop*bytes, loop*bytes+times*parameter or parameter*times`},
		{"func f(a ptr, n int)\nv0:u8x1 = load a+0 l0*4+x*n", `vir: line 2: load: stride "l0*4+x*n": want loop*bytes, loop*bytes+times*parameter or parameter*times`},
		{"func f(a ptr, n int)\nv0:u8x1 = load a+0 l0*4+2*b", `vir: line 2: load: stride "l0*4+2*b": no parameter b`},
		{"func f(a ptr, n int, m int)\nv0:u8x1 = load a+0 n*4 m*3 n*1", `vir: line 2: load: stride "n*1": want at most 2 parameters, times a number that is not 0`},
		{"func f(a ptr, n int)\nv0:u8x1 = load a+0 n*0", `vir: line 2: load: stride "n*0": want at most 2 parameters, times a number that is not 0`},
		{"func f(a ptr)\nv0:u8x1 = load a+0 0*4", `vir: line 2: load: "0": want a loop`},
		{"func f(a ptr)\nstore a+0 [a+0 u8x1]", `vir: line 2: store: two addresses, or arguments in brackets`},
		{"func f(a ptr)\nv0:u8x1 = and [a+0 u8x1] [a+0 u8x1]", `vir: line 2: and: two addresses, or arguments in brackets`},
		{"func f(a ptr)\nv0:u8x1 = abs [a+0 u8x1", `vir: line 2: abs: [ without ]`},
		{"func f(a ptr)\nv0:u8x1 = abs [a+0]", `vir: line 2: abs: "": want a type such as u8x64`},
		{"func f(a ptr)\nv0:u8x1 = abs [a+0 u8x1 by 2]", `vir: line 2: abs: "by": want splat`},
		{"func f(a ptr)\nv0:u8x1 = abs [a+0 u8x1 splat]", `vir: line 2: abs: "": want a number`},
		{"func f()\nconst c0 01\nv0:u8x1 = abs [c0 u8x1 splat 1]", `vir: line 3: abs: "splat" is too much`},
		{"func f()\nconst c0 01\nv0:u8x1 = abs [c99999999999999999999 u8x1]", `vir: line 3: abs: "c99999999999999999999": want a constant`},
		{"func f(c0 ptr)\nconst c0 01\nv0:u8x1 = abs [c u8x1]", `vir: line 3: abs: address "c": want buffer+offset`},
		{"func f()\nconst c0 01\nv0:u8x1 = abs [c0]", `vir: line 3: abs: "": want a type such as u8x64`},
		{"func f(a ptr)\nv0:u8x1 = abs [a+0 u8x1 splat 1 1]", `vir: line 2: abs: "1" is too much`},
	} {
		_, err := Parse(row.text)
		if err == nil || err.Error() != row.want {
			t.Errorf("%q:\nhave %v\nwant %s", row.text, err, row.want)
		}
	}
}
