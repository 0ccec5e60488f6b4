package arm64

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/qemu"
)

// TestRowsRun executes every row as a one-instruction kernel in random registers
// and compares with vir.Eval, on random and on edge inputs.
func TestRowsRun(t *testing.T) {
	rnd := rand.New(rand.NewSource(3))
	var b batch
	all := ByName("i8mm").Rows()
	for i := range all {
		for _, imm := range immediates(&all[i]) {
			for _, off := range offsets(&all[i]) {
				b.addRow(t, &all[i], imm, off, rnd)
			}
		}
	}
	b.run(t, ByName("i8mm"))
}

// batch is kernels and the calls of them, each with what Eval says.
type batch struct {
	kernels []*lower.Kernel
	calls   [][]vir.Arg
	funcs   []*vir.Func // by call, as they were before lowering
	want    [][]vir.Arg
}

// call adds a call of k. A nil result of Eval is required of f, the function
// that k was made from.
func (b *batch) call(t *testing.T, f *vir.Func, args []vir.Arg) {
	t.Helper()
	b.calls = append(b.calls, args)
	b.funcs = append(b.funcs, f)
	want := make([]vir.Arg, len(args))
	for i, a := range args {
		want[i] = vir.Arg{Buf: bytes.Clone(a.Buf), Int: a.Int}
	}
	if err := vir.Eval(f, want); err != nil {
		t.Fatalf("%v\n%v", err, f)
	}
	b.want = append(b.want, want)
}

func (b *batch) run(t *testing.T, target lower.Target) {
	t.Helper()
	machine := qemu.Start(t, target)
	file, err := lower.Emit(target, "p", b.kernels...)
	if err != nil {
		t.Fatal(err)
	}
	code, err := worker.Load(worker.Options{On: machine}, file)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	for i, f := range b.funcs {
		fn, err := code.Func(f.Name, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := fn.Run(f.Params, b.calls[i]); err != nil {
			t.Fatalf("%v\n%v", err, f)
		}
	}
	bad := 0
	for i, c := range b.calls {
		for j, a := range c {
			if a.Buf != nil && !equal(b.funcs[i], a.Buf, b.want[i][j].Buf) && bad < 10 {
				bad++
				t.Errorf("%vparameter %d is\n% x, should be\n% x", b.funcs[i], j, a.Buf, b.want[i][j].Buf)
			}
		}
	}
	t.Logf("%d kernels, %d calls", len(b.kernels), len(b.calls))
}

// equal compares a buffer with its definition; which NaN arithmetic gives is not
// defined.
func equal(f *vir.Func, got, want []byte) bool {
	if bytes.Equal(got, want) {
		return true
	}
	if !makesNaN(f.Body) {
		return false
	}
	for i := 0; i+4 <= len(got); i += 4 {
		g, w := binary.LittleEndian.Uint32(got[i:]), binary.LittleEndian.Uint32(want[i:])
		if g != w && !(isNaN(g) && isNaN(w)) {
			return false
		}
	}
	return true
}

func isNaN(b uint32) bool { return b&0x7fffffff > 0x7f800000 }

func makesNaN(body []vir.Node) bool {
	for _, n := range body {
		in, ok := n.(*vir.Instr)
		if ok && (in.Op == vir.OpAdd || in.Op == vir.OpSub || in.Op == vir.OpMul || in.Op == vir.OpDiv || in.Op == vir.OpCvtHalf) {
			return true
		}
	}
	return false
}

func immediates(r *lower.Row) []int64 {
	w := int64(r.Dst.Elem.Bits())
	switch r.Op {
	case vir.OpShl, vir.OpShrU, vir.OpShrS:
		return []int64{0, 1, w/2 - 1, w / 2, w - 1}
	case vir.OpHalf, vir.OpUnzip:
		return []int64{0, 1}
	case vir.OpSpread:
		n := int64(r.Args[0].Lanes)
		return []int64{0, n - 1, n / 2}
	case vir.OpDot4Unit:
		return []int64{0, 1, 2, 3}
	case vir.OpMulWide, vir.OpDot1:
		return []int64{0, 1}[:r.Args[len(r.Args)-1].Lanes/r.Dst.Lanes]
	case vir.OpSplat:
		return splatNumbers
	}
	return []int64{0}
}

// offsets: scaled, unscaled and added ones, where a row has an address.
func offsets(r *lower.Row) []int {
	switch {
	case r.Op == vir.OpPrefetch || r.Op == vir.OpPrefetch2:
		return []int{0, 64, -3, 300, 1 << 20, 1 << 30}
	case r.Op.HasMem():
		return []int{0, size(r.Dst), 3, 257, 4096, 65536 - size(r.Dst), 65521, 70000}
	}
	return []int{0}
}

// addRow adds a kernel of r in random registers, and calls of it.
func (b *batch) addRow(t *testing.T, r *lower.Row, imm int64, off int, rnd *rand.Rand) {
	f, sizes := rowFunc(fmt.Sprint("k", len(b.kernels)), r, imm, off, rnd)
	b.kernels = append(b.kernels, scatter(t, f, rnd))
	for n := range 4 {
		b.call(t, f, rowArgs(r, sizes, n > 1, rnd))
		if len(r.Args) == 0 {
			break
		}
	}
}

// rowFunc is a function that loads the arguments of r, executes r and stores its
// result, and the sizes of its buffers.
func rowFunc(name string, r *lower.Row, imm int64, off int, rnd *rand.Rand) (f *vir.Func, sizes []int) {
	f = &vir.Func{Name: name}
	param := func(name string, size int) vir.Mem {
		f.Params = append(f.Params, vir.Param{Name: name})
		sizes = append(sizes, size)
		return vir.Mem{Buf: len(f.Params) - 1}
	}
	reg := func(t vir.Type) vir.Reg {
		f.Regs = append(f.Regs, t)
		return vir.Reg(len(f.Regs) - 1)
	}
	add := func(in *vir.Instr) { f.Body = append(f.Body, in) }
	in := &vir.Instr{Op: r.Op, Dst: vir.NoReg, Imm: imm}
	for i, a := range r.Args {
		in.Args = append(in.Args, reg(a))
		add(&vir.Instr{Op: vir.OpLoad, Dst: in.Args[i], Mem: param(fmt.Sprint("a", i), size(a))})
	}
	switch {
	case r.Op == vir.OpPrefetch || r.Op == vir.OpPrefetch2:
		in.Mem = param("p", 16)
	case r.Op.HasMem():
		in.Mem = param("p", off+size(r.Dst))
	case r.Op == vir.OpConst:
		f.Consts = [][]byte{randomBytes(rnd, 5), randomBytes(rnd, size(r.Dst))}
		in.Imm = 1
	}
	in.Mem.Off = off
	add(in)
	if r.Op.HasResult() {
		in.Dst = reg(r.Dst)
		add(&vir.Instr{Op: vir.OpStore, Dst: vir.NoReg, Args: []vir.Reg{in.Dst}, Mem: param("out", size(r.Dst))})
	}
	return f, sizes
}

// rowArgs are arguments for the function of r.
func rowArgs(r *lower.Row, sizes []int, edges bool, rnd *rand.Rand) []vir.Arg {
	var args []vir.Arg
	for i, s := range sizes {
		a := vir.Arg{Buf: make([]byte, s)}
		if i < len(r.Args) {
			fill(a.Buf, r, i, edges, rnd)
		} else {
			rnd.Read(a.Buf[max(0, s-100):])
		}
		args = append(args, a)
	}
	return args
}

// scatter selects rows for straight-line f and puts its registers anywhere.
func scatter(t *testing.T, f *vir.Func, rnd *rand.Rand) *lower.Kernel {
	k := &lower.Kernel{Func: f}
	vec, gps := rnd.Perm(32), rnd.Perm(numGP)
	for i := range f.Params {
		k.Ops = append(k.Ops, lower.MOp{Kind: lower.MLoadParam, GP: gps[i], Param: i})
	}
	for _, n := range f.Body {
		in := n.(*vir.Instr)
		row := lower.FindRow(ByName("i8mm"), f, in)
		if row == nil {
			t.Fatalf("no row for %s", f.Format(in))
		}
		if row.Tied > 0 {
			vec[in.Dst] = vec[in.Args[row.Tied-1]]
		} else if in.Dst != vir.NoReg && len(in.Args) > 0 && rnd.Intn(3) == 0 {
			vec[in.Dst] = vec[in.Args[rnd.Intn(len(in.Args))]]
		}
		op := lower.MOp{In: in, Row: row, Dst: -1, Base: -1}
		if in.Dst != vir.NoReg {
			op.Dst = vec[in.Dst]
		}
		for _, a := range in.Args {
			op.Args = append(op.Args, vec[a])
		}
		if in.Op.HasMem() {
			op.Base, op.Disp = gps[in.Mem.Buf], in.Mem.Off
		}
		k.Ops = append(k.Ops, op)
	}
	return k
}

func randomBytes(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	rnd.Read(b)
	return b
}

var (
	edgeBytes  = []byte{0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff}
	edgeWords  = []uint16{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0x03ff, 0x0400, 0x3c00, 0x80, 0xff}
	edgeDwords = []uint32{0, 1, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001,
		0x007fffff, 0x00800000, 0x7f7fffff, 0x3f800000, 0x3f000000, 0x4b000001, 0xbfc00000, 0x40200000, 0x00010000, 0xffff8000, 0x4b800001}
)

// fill makes argument i of r: random, or edge values.
func fill(buf []byte, r *lower.Row, i int, edges bool, rnd *rand.Rand) {
	rnd.Read(buf)
	w := r.Args[i].Elem.Bytes()
	if edges {
		for j := 0; j < len(buf); j += w {
			switch w {
			case 1:
				buf[j] = edgeBytes[rnd.Intn(len(edgeBytes))]
			case 2:
				binary.LittleEndian.PutUint16(buf[j:], edgeWords[rnd.Intn(len(edgeWords))])
			default:
				binary.LittleEndian.PutUint32(buf[j:], edgeDwords[rnd.Intn(len(edgeDwords))])
			}
		}
	}
	if n := r.Op.Entries(); n > 0 && i == 0 && !r.Op.Mod() {
		for j := range buf {
			buf[j] %= byte(n)
			if j%w > 0 {
				buf[j] = 0
			}
		}
	}
	if r.Op == vir.OpCvtI32 {
		for j := 0; j < len(buf); j += 4 {
			x := float32(rnd.Intn(1<<24)-1<<23) / 4 // ties too
			if edges {
				x = []float32{0, float32(math.Copysign(0, -1)), 0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609, -2147483648, 2147483520}[rnd.Intn(11)]
			}
			binary.LittleEndian.PutUint32(buf[j:], math.Float32bits(x))
		}
	}
}

// TestVet lets go vet compare the frame of each function with its declaration.
func TestVet(t *testing.T) {
	var b batch
	rnd := rand.New(rand.NewSource(4))
	i32 := vir.Type{Elem: format.I32, Lanes: 4}
	b.addRow(t, &lower.Row{Op: vir.OpConst, Dst: i32}, 0, 0, rnd)
	b.addRow(t, &lower.Row{Op: vir.OpSplat, Dst: i32}, 0x12345678, 0, rnd)
	file, err := lower.Emit(ByName("i8mm"), "p", b.kernels...)
	if err != nil {
		t.Fatal(err)
	}
	vet := exec.Command("go", "vet", ".")
	vet.Dir, vet.Env = t.TempDir(), append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "GOWORK=off", "GOFLAGS=")
	stubs := "package p\n"
	for _, f := range b.funcs {
		stubs += fmt.Sprintf("\nfunc %s(args *byte)\n", f.Name)
	}
	for name, data := range map[string][]byte{"go.mod": []byte("module p\n\ngo 1.26.0\n"), "stubs.go": []byte(stubs), file.Name: file.Data} {
		if err := os.WriteFile(filepath.Join(vet.Dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := vet.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, out, file.Data)
	}
}
