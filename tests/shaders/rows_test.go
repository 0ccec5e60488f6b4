package shaders

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
)

// TestRows runs every row of every target: 64 lanes load its arguments, execute it, and store its results. The rows of one
// operation are in one shader.
func TestRows(t *testing.T) {
	for _, target := range spirv.Targets() {
		rows := map[vir.Op][]lower.Row{}
		for _, r := range target.Rows() {
			if r.Need&(^target.Machine().Has|spirv.Tiles) == 0 && !same(rows[r.Op], r) { // TestTiles has rows of tiles
				rows[r.Op] = append(rows[r.Op], r)
			}
		}
		for op, all := range rows {
			t.Run(target.Machine().ShortName()+"/"+op.String(), func(t *testing.T) { oneOperation(t, target, all) })
		}
	}
}

// same says that rows has a row for the same types as r.
func same(rows []lower.Row, r lower.Row) bool {
	for _, x := range rows {
		if fmt.Sprint(x.Dst, x.Args) == fmt.Sprint(r.Dst, r.Args) {
			return true
		}
	}
	return false
}

const lanes = 64

// function is a function in the making whose lanes run rows.
type function struct {
	f       *vir.Func
	in, out []byte
	body    *vir.Loop
	floats  []int // offsets of stored floats: any NaN is as good as another
	rng     *rand.Rand
}

func oneOperation(t *testing.T, target spirv.Target, rows []lower.Row) {
	body := &vir.Loop{Count: vir.Extent{Const: lanes, Param: -1}, Lane: true}
	x := &function{body: body, rng: rand.New(rand.NewSource(5)), f: &vir.Func{Name: "row", Params: []vir.Param{{Name: "in", Align: 16}, {Name: "out", Align: 16}}, Body: []vir.Node{body}}}
	for _, r := range rows {
		for _, imm := range immediates(r) {
			x.add(r, imm)
		}
	}
	sh := Compiled(t, target, x.f, spirv.Controls{})
	Accepted(t, sh)
	d := Device(t)
	want := []vir.Arg{{Buf: x.in}, {Buf: append([]byte(nil), x.out...)}}
	have := []vir.Arg{{Buf: x.in}, {Buf: append([]byte(nil), x.out...)}}
	if err := vir.Eval(x.f, want); err != nil {
		t.Fatal(err)
	}
	if err := Run(d, Compiled(t, target, x.f, Controls(d)), x.f, have); err != nil {
		t.Fatal(err)
	}
	x.anyNaN(want[1].Buf)
	x.anyNaN(have[1].Buf)
	x.compare(t, have[1].Buf, want[1].Buf)
}

// compare names the instructions whose results differ.
func (x *function) compare(t *testing.T, have, want []byte) {
	for i, n := range x.body.Body {
		in := n.(*vir.Instr)
		if in.Op != vir.OpStore || in.Mem.Buf != 1 {
			continue
		}
		size := x.f.Regs[in.Args[0]].Bytes()
		for lane := range lanes {
			at := in.Mem.Off + lane*size
			if h, w := have[at:at+size], want[at:at+size]; string(h) != string(w) {
				by := x.body.Body[max(i-1, 0)].(*vir.Instr)
				t.Errorf("%s: %x, want %x of %x", x.f.Format(by), h, w, x.operands(by, lane))
				break
			}
		}
	}
}

// operands are the bytes of the arguments of in.
func (x *function) operands(in *vir.Instr, lane int) (all [][]byte) {
	for _, n := range x.body.Body {
		load := n.(*vir.Instr)
		for _, r := range in.Args {
			if load.Dst == r && load.Op == vir.OpLoad {
				size := x.f.Regs[r].Bytes()
				all = append(all, x.in[load.Mem.Off+lane*size:][:size])
			}
		}
	}
	return all
}

// anyNaN makes all NaNs of floats one.
func (x *function) anyNaN(out []byte) {
	for _, at := range x.floats {
		if b := binary.LittleEndian.Uint32(out[at:]); b&0x7fffffff > 0x7f800000 {
			binary.LittleEndian.PutUint32(out[at:], 0x7fc00000)
		}
	}
}

func (x *function) put(in *vir.Instr) { x.body.Body = append(x.body.Body, in) }

func (x *function) reg(t vir.Type) vir.Reg {
	x.f.Regs = append(x.f.Regs, t)
	return vir.Reg(len(x.f.Regs) - 1)
}

// room is the address of a register of type t in a buffer. Each lane has one.
func room(buffer *[]byte, number int, t vir.Type) vir.Mem {
	at := (len(*buffer) + 15) &^ 15
	*buffer = append(*buffer, make([]byte, at+lanes*t.Bytes()-len(*buffer))...)
	return vir.Mem{Buf: number, Off: at, Stride: []vir.Stride{{Loop: 0, Bytes: t.Bytes()}}}
}

// add adds a row.
func (x *function) add(r lower.Row, imm int64) {
	in := &vir.Instr{Op: r.Op, Dst: vir.NoReg, Imm: imm}
	for i, a := range r.Args {
		m := room(&x.in, 0, a)
		x.fill(x.in[m.Off:], r, i)
		in.Args = append(in.Args, x.reg(a))
		x.put(&vir.Instr{Op: vir.OpLoad, Dst: in.Args[i], Mem: m})
	}
	switch {
	case r.Op == vir.OpStore:
		in.Mem = room(&x.out, 1, r.Dst)
	case r.Op.HasMem():
		t := r.Dst
		if r.Op == vir.OpLoadSplat || t.Lanes == 0 {
			t = vir.Type{Elem: format.I32, Lanes: 1}
		}
		in.Mem = room(&x.in, 0, t)
		x.rng.Read(x.in[in.Mem.Off:])
	case r.Op == vir.OpConst:
		data := make([]byte, r.Dst.Bytes())
		x.rng.Read(data)
		x.f.Consts = append(x.f.Consts, data)
		in.Imm = int64(len(x.f.Consts) - 1)
	}
	if r.Op.HasResult() {
		in.Dst = x.reg(r.Dst)
	}
	x.put(in)
	if in.Dst == vir.NoReg {
		return
	}
	m := room(&x.out, 1, r.Dst)
	x.put(&vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{in.Dst}, Mem: m})
	for at := m.Off; r.Dst.Elem == format.F32 && at < len(x.out); at += 4 {
		x.floats = append(x.floats, at)
	}
}

// wild are floats that are no usual numbers.
var wild = []uint32{0, 1 << 31, 1, 0x007fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x3f000000, 0x3fc00000, 0x7f7fffff, 0x80000001}

// fill writes argument i of a row for every lane.
func (x *function) fill(b []byte, r lower.Row, i int) {
	x.rng.Read(b)
	n := r.Op.Entries()
	switch elem := r.Args[i].Elem; {
	case r.Op == vir.OpCvtI32:
		for ; len(b) > 0; b = b[4:] {
			binary.LittleEndian.PutUint32(b, math.Float32bits(float32(x.rng.Intn(2000)-1000)/4))
		}
	case n > 0 && i == 0 && !r.Op.Mod():
		size := elem.Bytes()
		for at := range b {
			if b[at] &= byte(n - 1); at%size > 0 {
				b[at] = 0
			}
		}
	case elem == format.F32:
		for ; len(b) > 0; b = b[4:] {
			bits := math.Float32bits(float32(x.rng.NormFloat64()))
			switch x.rng.Intn(6) {
			case 0:
				bits = wild[x.rng.Intn(len(wild))]
			case 1:
				bits = x.rng.Uint32()
			case 2: // of all sizes that floats of 16 bits have
				bits = bits&^(255<<23) | uint32(100+x.rng.Intn(45))<<23
			case 3: // midway between two floats of 16 bits
				bits = bits&^(1<<13-1) | 1<<12
			}
			binary.LittleEndian.PutUint32(b, bits)
		}
	case x.rng.Intn(2) == 0: // bytes at the ends of their range
		for at := range b {
			if x.rng.Intn(2) == 0 {
				b[at] = []byte{0, 0x7f, 0x80, 0xff}[x.rng.Intn(4)]
			}
		}
	}
}

func immediates(r lower.Row) []int64 {
	w := int64(r.Dst.Elem.Bits())
	switch r.Op {
	case vir.OpShl, vir.OpShrU, vir.OpShrS:
		return []int64{0, 1, w - 1}
	case vir.OpHalf:
		return []int64{0, 1}
	case vir.OpSplat:
		return []int64{-1, 0x12345678, 127}
	}
	return []int64{0}
}
