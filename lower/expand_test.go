package lower

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/tests/virgen"
)

// later are the expansions into an operation that is declared later, or into the
// same on vectors that are not narrower, and why they end nevertheless.
var later = map[[2]vir.Op]string{
	{vir.OpLoadSplat, vir.OpSplatLane}: "splatlane becomes joins",
	{vir.OpShrS, vir.OpSub}:            "sub has no expansion",
	{vir.OpMinS, vir.OpCmpGtS}:         "cmpgts becomes bitwise operations and a shift",
	{vir.OpMaxS, vir.OpCmpGtS}:         "cmpgts becomes bitwise operations and a shift",
	{vir.OpDot4, vir.OpDot2}:           "dot2 becomes dot2wrap, or there is a row",
	{vir.OpDot4, vir.OpDot2Sat}:        "only if there is a row",
	{vir.OpDot2Wrap, vir.OpDot2}:       "only if there is a row",
	{vir.OpDot4, vir.OpMulWide}:        "only if there is a row",
	{vir.OpDot4, vir.OpAddPairs}:       "likewise",
	{vir.OpDot4, vir.OpSum2}:           "likewise",
	{vir.OpDot4Unit, vir.OpDot4Unit}:   "by a half of what no register holds",
	{vir.OpMulWide, vir.OpMulWide}:     "of a half of the bytes, then of all there are",
	{vir.OpDot1, vir.OpDot1}:           "likewise",
	{vir.OpAddPairs, vir.OpRedAdd}:     "redadd becomes addpairs only if there is a row",
	{vir.OpSelMSB, vir.OpSelMSB}:       "lanes of bytes, if there is a row",
	{vir.OpLookup8, vir.OpLookup16}:    "of bytes, or in the lanes of a row: neither goes on to more entries",
	{vir.OpLookup8Mod, vir.OpLookup16}: "likewise",
	{vir.OpLookup8, vir.OpLookup32}:    "likewise",
	{vir.OpLookup16, vir.OpLookup32}:   "likewise",
	{vir.OpLookup16, vir.OpLookup64}:   "likewise",
	{vir.OpLookup32, vir.OpLookup64}:   "likewise",
	{vir.OpLookup32, vir.OpLookup128}:  "likewise",
	{vir.OpLookup64, vir.OpLookup128}:  "likewise",
	{vir.OpTrunc, vir.OpTrunc}:         "i32 to bytes in two steps",
	{vir.OpWiden, vir.OpWiden}:         "bytes to i32 in two steps",
	{vir.OpShl, vir.OpShl}:             "bytes to 16 bits",
	{vir.OpShrU, vir.OpShrU}:           "bytes to 16 bits",
}

// Expanding ends: every expansion of every instruction of random functions, on
// machines with and without rows, uses earlier operations, narrower vectors, rows,
// or is in the list. The list has no more than is needed.
func TestExpansionsEnd(t *testing.T) {
	machines := []*table{newTable(toy{m: Machine{Name: "bare", ISA: ISA{VecBits: 128}}})}
	for _, x := range toys() {
		machines = append(machines, newTable(x))
	}
	used := map[[2]vir.Op]bool{}
	for seed := range int64(100) {
		f := virgen.Func(rand.New(rand.NewSource(seed)), 40)
		each(f.Body, func(in *vir.Instr) {
			for _, x := range machines {
				b := &Builder{F: clone(f), ranges: vir.Ranges(f)}
				for _, out := range expandShared(x, b, in) {
					if why := mayNotEnd(x, b, in, out, used); why != "" {
						t.Fatalf("%s: %s -> %s: %s", x.m.Name, b.F.Format(in), b.F.Format(out), why)
					}
				}
			}
		})
	}
	for pair := range later {
		if !used[pair] {
			t.Errorf("no expansion of %v uses %v", pair[0], pair[1])
		}
	}
}

func mayNotEnd(x *table, b *Builder, in, out *vir.Instr, used map[[2]vir.Op]bool) string {
	pair := [2]vir.Op{in.Op, out.Op}
	switch {
	case out.Op < in.Op || narrower(b, in, out) || x.find(b.F, out) != nil:
		if _, ok := later[pair]; ok {
			used[pair] = true
		}
		return ""
	case later[pair] != "":
		used[pair] = true
		return ""
	}
	return "neither earlier nor narrower nor a row nor in the list"
}

// narrower says whether out does what in does on less.
func narrower(b *Builder, in, out *vir.Instr) bool {
	if in.Op != out.Op || len(in.Args) == 0 {
		return false
	}
	return b.TypeOf(out.Args[0]).Bits() < b.TypeOf(in.Args[0]).Bits()
}

// A target that overwrites its result too early, or expands in circles, is caught.
func TestBadExpansions(t *testing.T) {
	f := parse(t, `func f(x ptr)
	v0:i16x8 = load x+0
	v1:i16x8 = abs v0
	store x+0 v1
`)
	for name, expand := range map[string]func(b *Builder, in *vir.Instr) []*vir.Instr{
		"no other, sets its result": func(b *Builder, in *vir.Instr) []*vir.Instr {
			s := b.Seq()
			s.End(in.Dst, vir.OpAdd, 0, in.Args[0], in.Args[0])
			return s.End(in.Dst, vir.OpAdd, 0, in.Args[0], in.Args[0])
		},
		"does not end": func(b *Builder, in *vir.Instr) []*vir.Instr {
			return b.Seq().End(in.Dst, vir.OpAbs, 0, in.Args[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.HasPrefix(msg, "BUG: toy: ") || !strings.Contains(msg, name) {
					t.Errorf("panic %s", msg)
				}
			}()
			_, err := Compile(expander{newToy(0), expand}, f)
			t.Errorf("no panic, error %v", err)
		})
	}
}

type expander struct {
	toy
	expand func(b *Builder, in *vir.Instr) []*vir.Instr
}

func (e expander) Expand(b *Builder, in *vir.Instr) []*vir.Instr {
	if in.Op == vir.OpAbs {
		return e.expand(b, in)
	}
	return nil
}

func parse(t *testing.T, text string) *vir.Func {
	t.Helper()
	f, err := vir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What no row and no expansion covers is named.
func TestUnsupported(t *testing.T) {
	target := newToy(toyAll)
	kept := target.rows[:0]
	for _, r := range target.rows {
		if r.Op != vir.OpDiv {
			kept = append(kept, r)
		}
	}
	target.rows = kept
	_, err := Compile(target, parse(t, `func f(x ptr)
	v0:f32x4 = load x+0
	v1:f32x4 = div v0 v0
	store x+0 v1
`))
	var u *Unsupported
	if !errors.As(err, &u) || u.Target != "toy" || u.Instr != "v1:f32x4 = div v0 v0" {
		t.Errorf("error %v", err)
	}
}

// FindRow takes the cheapest row whose features the machine has.
func TestFindRow(t *testing.T) {
	i32 := vir.Type{Elem: format.I32, Lanes: 4}
	target := newToy(toyDotU)
	target.rows = []Row{
		{Op: vir.OpAdd, Dst: i32, Args: []vir.Type{i32, i32}, Asm: "slow", Cost: 9},
		{Op: vir.OpAdd, Dst: i32, Args: []vir.Type{i32, i32}, Asm: "missing", Need: toyDotI, Cost: 1},
		{Op: vir.OpAdd, Dst: i32, Args: []vir.Type{i32, i32}, Asm: "fast", Need: toyDotU, Cost: 3},
		{Op: vir.OpAdd, Dst: i32, Args: []vir.Type{i32, i32}, Asm: "same", Cost: 3},
	}
	f := &vir.Func{Regs: []vir.Type{i32, i32}}
	add := &vir.Instr{Op: vir.OpAdd, Dst: 1, Args: []vir.Reg{0, 0}}
	if r := FindRow(target, f, add); r == nil || r.Asm != "fast" {
		t.Errorf("row %v", r)
	}
	if r := FindRow(target, f, &vir.Instr{Op: vir.OpSub, Dst: 1, Args: []vir.Reg{0, 0}}); r != nil {
		t.Errorf("row %v for an operation without", r)
	}
}

// General registers are counted, too.
func TestGeneralPressure(t *testing.T) {
	target := newToy(toyAll)
	target.m.NumGP = 3
	f := parse(t, `func f(x ptr, y ptr, out ptr)
	loop l0 4
		v0:i32x4 = load x+0 l0*16
		v1:i32x4 = load y+0 l0*16
		v2:i32x4 = add v0 v1
		store out+0 l0*16 v2
	end
`)
	_, err := Compile(target, f)
	var p *Pressure
	if !errors.As(err, &p) || *p != (Pressure{"general", 4, 3, "loop l0"}) {
		t.Errorf("error %v", err)
	}
	s, err := Select(t.Context(), target, f)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Held(t.Context())
	want := []HeldValue{{Text: "the address of y"}, {Text: "the address of x"}, {Text: "the address of out"}, {Text: "the count of loop l0"}}
	if err != nil || h == nil || h.Pressure != *p || !slices.Equal(h.Values, want) {
		t.Errorf("%+v, %v, want %v", h.Values, err, want)
	}
}

// Compiling a kernel that fits its registers runs the passes in their order.
func TestPasses(t *testing.T) {
	f := virgen.Func(rand.New(rand.NewSource(1)), 5)
	target := newToy(toyAll)
	target.m.NumVec = 100
	var ran, want []string
	if _, err := Compile(target, f, func(pass string, _ *vir.Func) { ran = append(ran, pass) }); err != nil {
		t.Fatal(err)
	}
	x := newTable(target)
	for _, p := range append(x.front(), x.back(plan{})...) {
		want = append(want, p.name)
	}
	if fmt.Sprint(ran) != fmt.Sprint(want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestCost(t *testing.T) {
	k, err := Compile(newToy(toyAll), parse(t, `func f(x ptr, w ptr, n int)
	v0:i32x4 = splat 0
	loop l0 n carry v0
		v1:i32x4 = load x+0
		v0:i32x4 = add v0 v1
		loop l1 4 carry v0
			v2:u8x16 = load w+0 l0*64 l1*16
			v3:i32x4 = loadsplat x+0 l1*4
			v4:i8x16 = bitcast v3
			v0:i32x4 = dot4 v0 v2 v4
		end
	end
	store x+0 v0
`))
	if err != nil {
		t.Fatal(err)
	}
	want := LoopCost{Loop: 1, Instrs: 2, Overhead: 4, Tenths: 15, Bytes: 20}
	if c := Cost(k); len(c) != 1 || c[0] != want {
		t.Errorf("cost %+v, want %+v\n%s", c, want, Dump(k))
	}
}
