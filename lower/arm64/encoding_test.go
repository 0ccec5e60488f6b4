package arm64

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// TestEncodings assembles the comment of every WORD with LLVM, allowed only the
// features the row declares, and compares with the word. Registers, immediates
// and offsets vary.
func TestEncodings(t *testing.T) {
	mc, err := exec.LookPath("llvm-mc-19")
	if err != nil {
		t.Skip("llvm-mc-19 is missing")
	}
	rnd := rand.New(rand.NewSource(1))
	for need, attr := range map[lower.Features]string{0: "+neon", ASIMDDP: "+neon,+dotprod", I8MM: "+neon,+i8mm"} {
		k := everyRow(need, rnd)
		if need == 0 {
			everyFused(k, rnd)
		}
		file, err := lower.Emit(ByName("i8mm"), "p", k)
		if err != nil {
			t.Fatal(err)
		}
		checkWords(t, file.Data, mc, "-triple=aarch64", "-mattr="+attr, "--show-encoding")
	}
}

func checkWords(t *testing.T, asm []byte, mc string, args ...string) {
	t.Helper()
	line := regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*?)   `)
	var words, texts []string
	for _, m := range line.FindAllStringSubmatch(string(asm), -1) {
		words, texts = append(words, m[1]), append(texts, m[2])
	}
	if n := bytes.Count(asm, []byte("WORD")); n != len(words) {
		t.Fatalf("%d words, %d of them readable", n, len(words))
	}
	cmd := exec.Command(mc, args...)
	cmd.Stdin = strings.NewReader(strings.Join(texts, "\n"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	encoding := regexp.MustCompile(`encoding: \[0x(..),0x(..),0x(..),0x(..)\]`)
	got := encoding.FindAllStringSubmatch(string(out), -1)
	if len(got) != len(words) {
		t.Fatalf("%d words, but llvm-mc gives %d:\n%s", len(words), len(got), stderr.Bytes())
	}
	for i, g := range got {
		if want := g[4] + g[3] + g[2] + g[1]; words[i] != want {
			t.Errorf("%s: word %s, llvm-mc says %s", texts[i], words[i], want)
		}
	}
	t.Logf("%d words with %s", len(words), args[1])
}

// everyRow is a kernel that has every row that needs these features many times
// over. It means nothing.
func everyRow(need lower.Features, rnd *rand.Rand) *lower.Kernel {
	k := &lower.Kernel{Func: &vir.Func{Name: "every", Params: []vir.Param{{Name: "p"}}}}
	all := ByName("i8mm").Rows()
	for i := range all {
		for n := range 8 {
			if all[i].Need == need {
				k.Ops = append(k.Ops, randomOp(k.Func, &all[i], rnd, n))
			}
		}
	}
	return k
}

// everyFused appends to k what one instruction does.
func everyFused(k *lower.Kernel, rnd *rand.Rand) {
	rows := map[string]*lower.Row{}
	all := ByName("i8mm").Rows()
	for i, r := range all {
		rows[fmt.Sprint(r.Op, r.Dst, r.Args)] = &all[i]
	}
	add := func(op vir.Op, dst vir.Type, n int, args ...vir.Type) vir.Reg {
		m := randomOp(k.Func, rows[fmt.Sprint(op, dst, args)], rnd, n)
		k.Ops = append(k.Ops, m)
		return m.In.Dst
	}
	use := func(arg int, r vir.Reg) { k.Ops[len(k.Ops)-1].In.Args[arg] = r }
	for _, c := range []struct {
		op       vir.Op
		to, from format.DType
	}{
		{vir.OpWiden, format.I16, format.I8}, {vir.OpWiden, format.I16, format.U8}, {vir.OpWiden, format.I32, format.I16},
		{vir.OpWiden, format.I32, format.U16}, {vir.OpCvtHalf, format.F32, format.F16},
	} {
		n := 128 / c.from.Bits()
		half := vir.Type{Elem: c.from, Lanes: n / 2}
		for i := range 4 {
			h := add(vir.OpHalf, half, i, vir.Type{Elem: c.from, Lanes: n})
			add(c.op, vir.Type{Elem: c.to, Lanes: n / 2}, 0, half)
			use(0, h)
		}
	}
	for _, c := range [][2]format.DType{{format.I8, format.I16}, {format.U8, format.I16}, {format.I16, format.I32}} {
		n := 128 / c[1].Bits()
		half, from := vir.Type{Elem: c[0], Lanes: n}, vir.Type{Elem: c[1], Lanes: n}
		a := add(vir.OpTrunc, half, 0, from)
		b := add(vir.OpTrunc, half, 0, from)
		add(vir.OpJoin, vir.Type{Elem: c[0], Lanes: 2 * n}, 0, half, half)
		use(0, a)
		use(1, b)
	}
	for i := range 2 {
		sums, bytes := vir.Type{Elem: format.I16, Lanes: 8}, vir.Type{Elem: format.I8, Lanes: 16}
		zero := add(vir.OpSplat, sums, 0)
		k.Ops[len(k.Ops)-1].In.Imm = 0
		sum := add(vir.OpBitcast, vir.Type{Elem: format.U8, Lanes: 16}, 0, vir.Type{Elem: format.U8, Lanes: 16})
		use(0, zero)
		add(vir.OpDot1, sums, i, sums, bytes, bytes)
		use(0, sum)
	}
	for i := range 2 {
		half, whole := vir.Type{Elem: format.I8, Lanes: 8}, vir.Type{Elem: format.I8, Lanes: 16}
		a := add(vir.OpHalf, half, i, whole)
		b := add(vir.OpHalf, half, i, whole)
		add(vir.OpJoin, whole, 0, half, half)
		use(0, a)
		use(1, b)
	}
	for _, n := range []int{4, 2} {
		t := vir.Type{Elem: format.I32, Lanes: n}
		zero := add(vir.OpSplat, t, 0)
		k.Ops[len(k.Ops)-1].In.Imm = 0
		bytes := vir.Type{Elem: format.U8, Lanes: 4 * n}
		sum := add(vir.OpBitcast, bytes, 0, bytes)
		use(0, zero)
		add(vir.OpSum2, t, 0, t, vir.Type{Elem: format.I16, Lanes: 2 * n})
		use(0, sum)
	}
	for _, op := range k.Ops {
		k.Func.Body = append(k.Func.Body, op.In) // what uses what
	}
}

func randomOp(f *vir.Func, r *lower.Row, rnd *rand.Rand, n int) lower.MOp {
	reg := func(t vir.Type) vir.Reg {
		f.Regs = append(f.Regs, t)
		return vir.Reg(len(f.Regs) - 1)
	}
	op := lower.MOp{In: &vir.Instr{Op: r.Op, Dst: vir.NoReg}, Row: r, Dst: -1, Base: -1}
	for _, a := range r.Args {
		op.In.Args = append(op.In.Args, reg(a))
		op.Args = append(op.Args, rnd.Intn(32))
	}
	if r.Op.HasResult() {
		op.In.Dst, op.Dst = reg(r.Dst), rnd.Intn(32)
	}
	if r.Tied > 0 {
		op.Dst = op.Args[r.Tied-1]
	}
	if r.Op.HasMem() {
		op.Base = rnd.Intn(numGP)
		op.Disp = []int{0, 16 * rnd.Intn(4096), rnd.Intn(512) - 256, 65520, -256, -257, 1 << rnd.Intn(30), rnd.Int()>>30 - 1<<32}[n]
	}
	switch r.Op {
	case vir.OpHalf, vir.OpUnzip:
		op.In.Imm = int64(n & 1)
	case vir.OpSpread:
		op.In.Imm = int64(n % r.Dst.Lanes)
	case vir.OpDot4Unit:
		op.In.Imm = int64(n % 4)
	case vir.OpMulWide, vir.OpDot1:
		op.In.Imm = int64(n % (r.Args[len(r.Args)-1].Lanes / r.Dst.Lanes))
	case vir.OpShl, vir.OpShrU, vir.OpShrS:
		op.In.Imm = int64([]int{0, 1, r.Dst.Elem.Bits() - 1}[n%3])
	case vir.OpSplat:
		op.In.Imm = splatNumbers[rnd.Intn(len(splatNumbers))]
	case vir.OpConst:
		op.In.Imm = int64(len(f.Consts))
		f.Consts = append(f.Consts, make([]byte, size(r.Dst)))
	}
	return op
}

var splatNumbers = []int64{0, 1, -1, 0x0f, 0x80, -128, 0x55, 0x1200, 0x12, -0x12, 0x1234, 0xff00, ^0x1200, 0x120000, 0x12000000, ^0x120000,
	0x12ff, 0x12ffff, ^0x12ff, ^0x12ffff, 0x12345678, 0x00ff00ff, 0x7fffffff, 0x7fc00000, 0x7f800000, 1 << 31,
	int64(math.Float32bits(1)), int64(math.Float32bits(-0.5)), int64(math.Float32bits(31)), int64(math.Float32bits(0.125)), int64(math.Float32bits(1.0 / 127))}

// TestSplat checks the modified immediate against the number it must make.
func TestSplat(t *testing.T) {
	rnd := rand.New(rand.NewSource(2))
	for _, v := range splatNumbers {
		checkSplat(t, uint32(v))
	}
	for range 20000 {
		checkSplat(t, uint32(rnd.Uint64())&(uint32(0xff)<<rnd.Intn(25)))
		checkSplat(t, ^(uint32(rnd.Uint64()) & (uint32(0xff) << rnd.Intn(25))))
		checkSplat(t, uint32(rnd.Uint64())<<19)
	}
}

func checkSplat(t *testing.T, v uint32) {
	t.Helper()
	w, text, ok := modifiedImm(v)
	if !ok {
		return
	}
	b := uint64(w>>16&7<<5 | w>>5&31)
	var got uint64
	switch cmode := w >> 12 & 15; {
	case cmode < 8:
		got = b << (8 * (cmode >> 1)) * 0x100000001
	case cmode < 12:
		got = b << (8 * (cmode >> 1 & 1)) * 0x1000100010001
	case cmode == 12:
		got = (b<<8 | 0xff) * 0x100000001
	case cmode == 13:
		got = (b<<16 | 0xffff) * 0x100000001
	case cmode == 14:
		got = b * 0x101010101010101
	default: // FMOV
		e := b >> 6 & 1
		got = b>>7<<31 | (e^1)<<30 | e*0x1f<<25 | b&0x3f<<19
		got *= 0x100000001
	}
	if w>>29&1 == 1 {
		got = ^got
	}
	if got != uint64(v)*0x100000001 {
		t.Errorf("%#x: %s (%#x) makes %#x", v, text, w, got)
	}
}

// TestRowsAreDistinct: selection must not depend on the order of the table.
func TestRowsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range ByName("i8mm").Rows() {
		key := fmt.Sprint(r.Op, r.Dst, r.Args)
		if seen[key] {
			t.Errorf("two rows for %s", key)
		}
		seen[key] = true
	}
	if !seen[fmt.Sprint(vir.OpAnd, vir.Type{Elem: format.U8, Lanes: 16}, []vir.Type{{Elem: format.U8, Lanes: 16}, {Elem: format.U8, Lanes: 16}})] {
		t.Error("no row for and of u8x16")
	}
	t.Logf("%d rows", len(seen))
}
