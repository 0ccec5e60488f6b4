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
// features the target declares, and compares with the word. Registers, immediates
// and offsets vary.
func TestEncodings(t *testing.T) {
	mc, err := exec.LookPath("llvm-mc-19")
	if err != nil {
		t.Skip("llvm-mc-19 is missing")
	}
	asm := everyRow(t, rand.New(rand.NewSource(1)))
	line := regexp.MustCompile(`WORD \$0x([0-9a-f]{8}) // (.*?)   `)
	var words, texts []string
	for _, m := range line.FindAllStringSubmatch(string(asm), -1) {
		words, texts = append(words, m[1]), append(texts, m[2])
	}
	if n := bytes.Count(asm, []byte("WORD")); n != len(words) {
		t.Fatalf("%d words, %d of them readable", n, len(words))
	}
	cmd := exec.Command(mc, "-triple=aarch64", "-mattr=+v8.2a,+dotprod", "--show-encoding")
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
	t.Logf("%d words", len(words))
}

// everyRow prints a kernel that has every row many times over. It means nothing.
func everyRow(t *testing.T, rnd *rand.Rand) []byte {
	f := &vir.Func{Name: "every", Params: []vir.Param{{Name: "p"}}}
	k := &lower.Kernel{Func: f}
	target := ByName("dotprod")
	all := target.Rows()
	for i := range all {
		for n := range 8 {
			k.Ops = append(k.Ops, randomOp(f, &all[i], rnd, n))
		}
	}
	file, err := target.Emit("p", []*lower.Kernel{k})
	if err != nil {
		t.Fatal(err)
	}
	return file.Data
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
	case vir.OpHalf:
		op.In.Imm = int64(n & 1)
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
	for _, r := range ByName("dotprod").Rows() {
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
