package amd64

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vexOperands are operands of every kind and at every place, in two sizes.
func vexOperands() [][]operand.Op {
	var all [][]operand.Op
	for size := range 2 {
		family := [16]reg.Physical{}
		for i := range family {
			family[i] = reg.Vector.Lookup(reg.Index(i), []reg.Spec{reg.S128, reg.S256}[size])
		}
		for i := range family {
			for j := range family {
				all = append(all, []operand.Op{family[i], family[j], family[(3*i+5*j+size)%16]})
			}
		}
		bases := []reg.Register{reg.RAX, reg.RCX, reg.RDX, reg.RBX, reg.RSP, reg.RBP, reg.RSI, reg.RDI,
			reg.R8, reg.R9, reg.R10, reg.R11, reg.R12, reg.R13, reg.R14, reg.R15}
		for i, base := range bases {
			for j, disp := range []int{0, 1, -1, 64, 127, -128, 128, -129, 4096, 1<<31 - 1, -1 << 31} {
				all = append(all, []operand.Op{operand.Mem{Base: base, Disp: disp}, family[(i+j)%16], family[(i+7*j+8)%16]})
				if index := bases[(3*i+5*j+size)%16]; index != reg.RSP {
					all = append(all, []operand.Op{operand.Mem{Base: base, Index: index, Scale: 1, Disp: disp}, family[(i+j)%16], family[(i+7*j+8)%16]})
				}
			}
		}
	}
	return all
}

// inATT is o as other assemblers write it.
func inATT(o operand.Op) string {
	m, ok := o.(operand.Mem)
	if !ok {
		size := map[bool]string{false: "x", true: "y"}[operand.IsYMM(o)]
		return fmt.Sprintf("%%%smm%d", size, number4(o))
	}
	names := []string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}
	if m.Index != nil {
		return fmt.Sprintf("%d(%%%s,%%%s)", m.Disp, names[number4(m.Base)], names[number4(m.Index)])
	}
	return fmt.Sprintf("%d(%%%s)", m.Disp, names[number4(m.Base)])
}

// TestEncodeVEX compares the bytes with the output of two assemblers that are allowed
// AVX-VNNI and no AVX-512.
func TestEncodeVEX(t *testing.T) {
	var text strings.Builder
	var want []byte
	for _, o := range vexOperands() {
		for _, name := range []string{"VPDPBUSD", "VPDPWSSD"} {
			code, err := encodeVEX(vexOpcodes[name+"_VEX"], o)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, code...)
			fmt.Fprintf(&text, "{vex} %s %s, %s, %s\n", strings.ToLower(name), inATT(o[0]), inATT(o[1]), inATT(o[2]))
		}
	}
	object := filepath.Join(t.TempDir(), "o")
	for _, cmd := range []*exec.Cmd{
		exec.Command(tool(t, "llvm-mc-19", "llvm-mc"), "-triple=x86_64", "-mattr=+avxvnni", "-filetype=obj", "-o", object),
		exec.Command(tool(t, "x86_64-linux-gnu-as"), "-march=generic64+avx_vnni", "-o", object),
	} {
		pipe(t, cmd, []byte(text.String()))
		if got := codeOf(t, object); !bytes.HasPrefix(got, want) || len(got) >= len(want)+16 {
			t.Errorf("%s has other bytes", cmd.Path)
		}
	}
}

// codeOf is the machine code of an object file, which may be padded.
func codeOf(t *testing.T, object string) []byte {
	t.Helper()
	f, err := elf.Open(object)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func TestEncodeVEXRefuses(t *testing.T) {
	ax := operand.Mem{Base: reg.RAX}
	for _, o := range [][]operand.Op{
		{reg.Y1, reg.Y2},
		{reg.Y1, reg.Y2, reg.X3},
		{reg.X1, reg.Y2, reg.Y3},
		{reg.Z1, reg.Z2, reg.Z3},
		{reg.Y16, reg.Y2, reg.Y3},
		{reg.Y1, reg.Y16, reg.Y3},
		{reg.Y1, reg.Y2, reg.Y16},
		{reg.Y1, ax, reg.Y3},
		{reg.RAX, reg.Y2, reg.Y3},
		{operand.U8(1), reg.Y2, reg.Y3},
		{operand.Mem{Base: reg.EAX}, reg.Y2, reg.Y3},
		{operand.Mem{}, reg.Y2, reg.Y3},
		{ax.Offset(1 << 31), reg.Y2, reg.Y3},
		{ax.Idx(reg.RCX, 2), reg.Y2, reg.Y3},
		{ax.Idx(reg.RSP, 1), reg.Y2, reg.Y3},
		{ax.Idx(reg.ECX, 1), reg.Y2, reg.Y3},
		{operand.NewDataAddr(operand.NewStaticSymbol("c0"), 0), reg.Y2, reg.Y3},
	} {
		if _, err := vex("VPDPBUSD_VEX")(o...); err == nil {
			t.Errorf("%v was encoded", o)
		}
	}
}

// TestVEXText says that the comment beside bytes is what they mean.
func TestVEXText(t *testing.T) {
	_, k := compiled(t, ByName("avxvnni"), `func f(w ptr, act ptr, out ptr)
	v0:i32x8 = load out+0
	v1:u8x32 = load w+0
	v2:i32x8 = dot4 v0 v1 [act+64 i8x32]
	store out+0 v2
`)
	text := string(emitted(t, ByName("avxvnni"), []rowCase{{k: k}}).Data)
	want := regexp.MustCompile(`\tBYTE    \$0xc4; BYTE \$0xe2; BYTE \$0x\w\w; BYTE \$0x50; BYTE \$0x\w\w; BYTE \$0x40 // vpdpbusd 64\(\w+\), Y\d, Y\d +v\d:i32x8 = dot4 v\d v\d \[act\+64 i8x32\]\n`)
	if !want.MatchString(text) {
		t.Errorf("no dot4 as bytes in\n%s", text)
	}
}
