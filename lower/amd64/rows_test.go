package amd64

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/worker"
)

// place says which registers a one-instruction kernel uses.
type place struct {
	name string
	dst  int
	args [3]int
}

// places of a machine with n vector registers: the result apart from the
// arguments, in an argument's register, and all at the upper end.
func places(n int, r *lower.Row) []place {
	ps := []place{{"apart", 0, [3]int{1, 2, 3}}, {"high", n - 1, [3]int{n - 2, n - 3, n - 4}}}
	for i := range r.Args {
		if r.Op.HasResult() {
			ps = append(ps, place{fmt.Sprintf("over%d", i), i + 1, [3]int{1, 2, 3}})
		}
	}
	if r.Tied == 0 {
		return ps
	}
	for i := range ps {
		ps[i].args[r.Tied-1] = ps[i].dst
	}
	return ps[:2]
}

// rowKernel is "out = op args" for a row: argument i is loaded from parameter i,
// except that argument fold-1 is the memory operand, or with unit constant a constant.
func rowKernel(t lower.Target, r *lower.Row, p place, name string, imm int64, fold, unit int) *lower.Kernel {
	f := &vir.Func{Name: name}
	k := &lower.Kernel{Func: f}
	add := func(in *vir.Instr, row *lower.Row, dst int, args []int, base int) {
		f.Body = append(f.Body, in)
		k.Ops = append(k.Ops, lower.MOp{Kind: lower.MInstr, In: in, Row: row, Dst: dst, Args: args, Base: base})
	}
	param := func() int {
		n := len(f.Params)
		f.Params = append(f.Params, vir.Param{Name: fmt.Sprintf("p%d", n)})
		k.Ops = append(k.Ops, lower.MOp{Kind: lower.MLoadParam, GP: n, Param: n})
		return n
	}
	newReg := func(t vir.Type) vir.Reg {
		f.Regs = append(f.Regs, t)
		return vir.Reg(len(f.Regs) - 1)
	}
	in := &vir.Instr{Op: r.Op, Dst: vir.NoReg, Imm: imm}
	base := -1
	var args []int
	for i, a := range r.Args {
		buf := param()
		switch {
		case i == fold-1 && unit == constant:
			f.Consts = [][]byte{input(rand.New(rand.NewPCG(1, 2)), r.Op, i, a)}
			in.Fold, in.FoldType, in.FoldConst = fold, a, 1
			in.Args, args = append(in.Args, vir.NoReg), append(args, -1)
			continue
		case i == fold-1:
			in.Fold, in.FoldType, in.FoldUnit, in.Mem = fold, a, unit, vir.Mem{Buf: buf}
			in.Args, args, base = append(in.Args, vir.NoReg), append(args, -1), buf
			continue
		}
		v := newReg(a)
		add(&vir.Instr{Op: vir.OpLoad, Dst: v, Mem: vir.Mem{Buf: buf}}, find(t, vir.OpLoad, a), p.args[i], nil, buf)
		in.Args, args = append(in.Args, v), append(args, p.args[i])
	}
	switch {
	case r.Op == vir.OpConst:
		f.Consts = [][]byte{bytesOf(rand.New(rand.NewPCG(1, 2)), r.Dst)}
		in.Imm = 0
	case r.Op.HasMem():
		in.Mem.Buf = param()
		base = in.Mem.Buf
	}
	if !r.Op.HasResult() {
		add(in, r, -1, args, base)
		return k
	}
	in.Dst = newReg(r.Dst)
	add(in, r, p.dst, args, base)
	out := param()
	add(&vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{in.Dst}, Mem: vir.Mem{Buf: out}},
		find(t, vir.OpStore, r.Dst), -1, []int{p.dst}, out)
	return k
}

// find returns the row of an operation on one type.
func find(t lower.Target, op vir.Op, typ vir.Type) *lower.Row {
	rows := t.Rows()
	for i := range rows {
		if rows[i].Op == op && rows[i].Dst == typ {
			return &rows[i]
		}
	}
	panic(fmt.Sprintf("no row for %v of %v", op, typ))
}

// immediates worth trying.
func immediates(r *lower.Row) []int64 {
	w := int64(r.Dst.Elem.Bits())
	switch r.Op {
	case vir.OpShl, vir.OpShrU, vir.OpShrS:
		return []int64{0, 1, w / 2, w - 1}
	case vir.OpHalf:
		return []int64{0, 1}
	case vir.OpSplat:
		return []int64{0, -1, 1, 0x12345678, -128}
	}
	return []int64{0}
}

// constant is the unit of an operand that is a constant.
const constant = -1

// operands lists which argument is a memory operand (1 + index), and its unit.
func operands(r *lower.Row) [][2]int {
	all := [][2]int{{0, 0}}
	for _, a := range r.Fold {
		all = append(all, [2]int{a, 0})
		if !r.NoConst {
			all = append(all, [2]int{a, constant})
		}
	}
	for _, a := range r.FoldSplat {
		all = append(all, [2]int{a, 4})
	}
	return all
}

var edges = map[int][]uint32{
	1: {0, 1, 0x7f, 0x80, 0x81, 0xff, 0x0f, 0x10},
	2: {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x00ff, 0x0100},
	4: {0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x0000ffff, 0x00010000},
}

var floatEdges = []uint32{0, 1 << 31, 1, 0x007fffff, 0x00800000, 0x3f800000, 0xbf000000, 0x7f7fffff,
	0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001, 0x4b000001, 0xcb000003, 0x3fc00000}

// bytesOf is a vector of t: random lanes, a third of them edges.
func bytesOf(rnd *rand.Rand, t vir.Type) []byte {
	var b []byte
	for range t.Lanes {
		e := edges[t.Elem.Bytes()]
		x := rnd.Uint32()
		switch {
		case rnd.IntN(3) == 0:
			x = e[rnd.IntN(len(e))]
		case t.Elem == format.F32 && rnd.IntN(2) == 0:
			x = floatEdges[rnd.IntN(len(floatEdges))]
		}
		b = append(b, binary.LittleEndian.AppendUint32(nil, x)[:t.Elem.Bytes()]...)
	}
	return b
}

// input is bytesOf made legal for argument i of op.
func input(rnd *rand.Rand, op vir.Op, i int, t vir.Type) []byte {
	b := bytesOf(rnd, t)
	if n := op.Entries(); n > 0 && i == 0 && !op.Mod() {
		for j := range b {
			b[j] &= byte(n - 1)
			if j%t.Elem.Bytes() > 0 {
				b[j] = 0
			}
		}
	}
	if op == vir.OpCvtI32 {
		for j := 0; j < len(b); j += 4 {
			f := []float32{0.5, 1.5, 2.5, -0.5, -1.5, 2147483520, -2147483648, float32(rnd.NormFloat64() * 100)}[rnd.IntN(8)]
			binary.LittleEndian.PutUint32(b[j:], math.Float32bits(f))
		}
	}
	return b
}

// quiet replaces NaNs, whose payload is unspecified, by one.
func quiet(b []byte) {
	for j := 0; j+4 <= len(b); j += 4 {
		if binary.LittleEndian.Uint32(b[j:])&0x7fffffff > 0x7f800000 {
			binary.LittleEndian.PutUint32(b[j:], 0x7fc00000)
		}
	}
}

// anyNaN are the operations that may make a NaN.
var anyNaN = map[vir.Op]bool{vir.OpAdd: true, vir.OpSub: true, vir.OpMul: true, vir.OpDiv: true, vir.OpCvtHalf: true}

type rowCase struct {
	label string
	row   *lower.Row
	k     *lower.Kernel
	unit  int
}

// newRows are the rows of t that no target with fewer features and equally many
// registers has.
func newRows(t lower.Target) []*lower.Row {
	key := func(t lower.Target, r *lower.Row) string {
		return fmt.Sprint(t.Machine().NumVec, r.Op, r.Dst, r.Args, r.Need, r.Asm, r.Tied, r.Fold, r.FoldSplat)
	}
	seen := map[string]bool{}
	for _, x := range Targets() {
		if x.Machine().Name == t.Machine().Name {
			break
		}
		rows := x.Rows()
		for i := range rows {
			seen[key(x, &rows[i])] = true
		}
	}
	var some []*lower.Row
	rows := t.Rows()
	for i := range rows {
		if !seen[key(t, &rows[i])] {
			some = append(some, &rows[i])
		}
	}
	return some
}

// rowCases are one kernel for each new row, placement, immediate and operand kind.
func rowCases(t lower.Target) []rowCase {
	var cases []rowCase
	for _, r := range newRows(t) {
		for _, p := range places(t.Machine().NumVec, r) {
			for _, imm := range immediates(r) {
				for _, o := range operands(r) {
					name := fmt.Sprintf("k%d", len(cases))
					k := rowKernel(t, r, p, name, imm, o[0], o[1])
					cases = append(cases, rowCase{fmt.Sprintf("%s %v: %s", p.name, r.Args, r.Asm), r, k, o[1]})
				}
			}
		}
	}
	return cases
}

// likeNone are the targets with instructions of their own; others are like one of these.
func likeNone(t *testing.T) (out []lower.Target) {
	for _, tg := range Targets() {
		m := tg.Machine()
		if m.Ordinary() {
			out = append(out, tg)
		} else if like := ByName(m.Class()); like == nil || len(tg.Rows()) != len(like.Rows()) || len(newRows(tg)) > 0 {
			t.Errorf("%s has other instructions than %s", m.Name, m.Class())
		}
	}
	return out
}

// TestRows runs every row as a one-instruction kernel against vir.Eval, on the
// first target that has it.
func TestRows(t *testing.T) {
	for _, tg := range likeNone(t) {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			tg := onThisCPU(t, tg)
			cases := rowCases(tg)
			code, err := worker.Load(worker.Options{}, emitted(t, tg, cases))
			if err != nil {
				t.Fatal(err)
			}
			defer code.Close()
			for _, c := range cases {
				fn, err := code.Func(c.k.Func.Name, c.label)
				if err != nil {
					t.Fatal(err)
				}
				checkRow(t, c, fn)
			}
			t.Logf("%d kernels of %d rows", len(cases), len(newRows(tg)))
		})
	}
}

func checkRow(t *testing.T, c rowCase, fn worker.Func) {
	t.Helper()
	f := c.k.Func
	rnd := rand.New(rand.NewPCG(7, 11))
	var wants, gots [4][]vir.Arg
	for draw := range wants {
		var want, got []vir.Arg
		for i := range f.Params {
			var b []byte
			switch {
			case i < len(c.row.Args):
				b = input(rnd, c.row.Op, i, c.row.Args[i])
				if c.unit > 0 && foldOf(f) == i {
					b = b[:c.unit]
				}
			case c.row.Op == vir.OpLoadSplat && i == 0:
				b = bytesOf(rnd, vir.Type{Elem: c.row.Dst.Elem, Lanes: 1})
			default:
				b = bytesOf(rnd, c.row.Dst)
			}
			want = append(want, vir.Arg{Buf: b})
			got = append(got, vir.Arg{Buf: bytes.Clone(b)})
		}
		if err := vir.Eval(f, want); err != nil {
			t.Fatalf("%s: %v\n%s", c.label, err, f)
		}
		wants[draw], gots[draw] = want, got
	}
	if err := fn.RunAll(f.Params, gots[:]); err != nil {
		t.Errorf("%s: %v\n%s", c.label, err, f)
		return
	}
	for draw, want := range wants {
		got := gots[draw]
		for i := range want {
			if anyNaN[c.row.Op] && c.row.Dst.Elem == format.F32 && i == len(want)-1 {
				quiet(want[i].Buf)
				quiet(got[i].Buf)
			}
			if !bytes.Equal(want[i].Buf, got[i].Buf) {
				t.Errorf("%s: parameter %d\ngot  %x\nwant %x\n%s", c.label, i, got[i].Buf, want[i].Buf, f)
				return
			}
		}
	}
}

// foldOf is the parameter of the folded operand of f, or -1.
func foldOf(f *vir.Func) int {
	for _, n := range f.Body {
		if in := n.(*vir.Instr); in.Fold > 0 {
			return in.Mem.Buf
		}
	}
	return -1
}

// Where rows say which units they keep busy, no set of units is busy for longer than the row takes, those for it are as long, and
// all of them are: a loop of one instruction takes what its row says.
func TestBusy(t *testing.T) {
	told := 0
	for _, tg := range Targets() {
		for _, r := range tg.Rows() {
			if r.Busy == nil {
				continue
			}
			told++
			most := 0
			for _, b := range r.Busy {
				most = max(most, b)
			}
			if len(r.Busy) > lower.MostBusy || most != r.Cost || r.Cost > 0 && r.Busy[0] == 0 {
				t.Errorf("%s, %s: busy %v, cost %d", tg.Machine().Name, r.Asm, r.Busy, r.Cost)
			}
		}
	}
	if told == 0 {
		t.Error("no row says which units it keeps busy")
	}
}
