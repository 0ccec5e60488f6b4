package jit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/tmacc/tmacc/lower"
)

const header = "#include \"textflag.h\"\n"

// adders are functions, in assembly: dst[0] = a[0] + table[1], int64.
var adders = map[string]string{
	"amd64": `
	MOVQ args+0(FP), AX
	MOVQ 0(AX), BX
	MOVQ 8(AX), CX
	MOVQ (BX), DX
	ADDQ t<>+8(SB), DX
	MOVQ DX, (CX)
	RET
`,
	"arm64": `
	MOVD args+0(FP), R0
	MOVD 0(R0), R1
	MOVD 8(R0), R2
	MOVD (R1), R3
	MOVD $t<>+8(SB), R4
	MOVD (R4), R4
	ADD R4, R3
	MOVD R3, (R2)
	RET
`,
}

func add(name string) string {
	return fmt.Sprintf("DATA t<>+0(SB)/8, $1\nDATA t<>+8(SB)/8, $40\nGLOBL t<>(SB), RODATA|NOPTR, $16\nTEXT ·%s(SB), NOSPLIT, $0-8\n%s", name, adders[runtime.GOARCH])
}

func assembled(t *testing.T, files ...lower.File) *Image {
	t.Helper()
	img, err := Assemble(files...)
	if errors.Is(err, ErrPlatform) {
		t.Skip("kernels are not mapped here")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { img.Close() })
	return img
}

// buffers are what functions get the addresses of: they do not move, as a stack does.
var buffers = [2]uint64{2}

// TestAssemble runs functions of several files that use read-only data of one
// name.
func TestAssemble(t *testing.T) {
	img := assembled(t,
		lower.File{Name: "a.s", Data: []byte(header + add("A"))},
		lower.File{Name: "b.s", Data: []byte(header + strings.Replace(add("B"), "$40", "$50", 1))})
	for _, c := range []struct {
		name string
		want uint64
	}{{"A", 42}, {"B", 52}} {
		f, err := img.Func(c.name)
		if err != nil {
			t.Fatal(err)
		}
		f.Call([]uint64{uint64(uintptr(unsafe.Pointer(&buffers[0]))), uint64(uintptr(unsafe.Pointer(&buffers[1])))})
		if buffers[1] != c.want {
			t.Errorf("%s gives %d, want %d", c.name, buffers[1], c.want)
		}
	}
}

// TestAssembleLarge runs functions that lie in other pages than their data.
func TestAssembleLarge(t *testing.T) {
	var files []lower.File
	for i := range 20 {
		text := strings.Replace(add(fmt.Sprintf("F%d", i)), "$40", fmt.Sprint("$", 1000+i), 1)
		fill := fmt.Sprintf("TEXT ·G%d(SB), NOSPLIT, $0-8\n", i) + strings.Repeat("\tRET\n", 1+977*i%1300)
		files = append(files, lower.File{Name: fmt.Sprintf("f%d.s", i), Data: []byte(header + text + fill)})
	}
	img := assembled(t, files...)
	for i := range files {
		f, err := img.Func(fmt.Sprintf("F%d", i))
		if err != nil {
			t.Fatal(err)
		}
		f.Call([]uint64{uint64(uintptr(unsafe.Pointer(&buffers[0]))), uint64(uintptr(unsafe.Pointer(&buffers[1])))})
		if want := 1002 + uint64(i); buffers[1] != want {
			t.Errorf("F%d gives %d, want %d", i, buffers[1], want)
		}
	}
}

func TestFuncUnknown(t *testing.T) {
	img := assembled(t, lower.File{Name: "a.s", Data: []byte(header + add("A"))})
	if _, err := img.Func("B"); err == nil || !strings.Contains(err.Error(), "B") {
		t.Errorf("unknown function: %v", err)
	}
}

func TestAssembleRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"syntax", "TEXT ·A(SB), NOSPLIT, $0-8\n\tNONSENSE AX\n", "c.s:2"},
		{"twins", header + add("A") + strings.ReplaceAll(add("A"), "t<>", "u<>"), "redeclared"},
		{"extern", header + "TEXT ·A(SB), NOSPLIT, $0-8\n\tCALL ·other(SB)\n\tRET\n", "other"},
		{"empty", header, "nothing to assemble"},
	} {
		t.Run(c.name, func(t *testing.T) {
			img, err := Assemble(lower.File{Name: "c.s", Data: []byte(c.text)})
			if errors.Is(err, ErrPlatform) {
				t.Skip("kernels are not mapped here")
			}
			if err == nil {
				img.Close()
				t.Fatal("was assembled")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q does not name %q", err, c.want)
			}
		})
	}
	a := lower.File{Name: "a.s", Data: []byte(header + add("A"))}
	if _, err := Assemble(a, a); err == nil || !strings.Contains(err.Error(), "two functions are called A") {
		t.Errorf("one function in two files: %v", err)
	}
}

func TestReadObjectRefuses(t *testing.T) {
	good := "go object\n!\n" + magic
	for _, b := range []string{"", "go object linux amd64\n!\n", "go object\n!\n\x00go999ld" + strings.Repeat("\x00", 200),
		good, good + strings.Repeat("\xff", 500)} {
		var e *ObjectError
		if _, err := readObject([]byte(b)); !errors.As(err, &e) {
			t.Errorf("readObject(%.30q) = %v, want an ObjectError", b, err)
		}
	}
}

// TestWithoutGo runs in a child process whose PATH has no go.
func TestWithoutGo(t *testing.T) {
	if os.Getenv("TMACC_JIT_TEST") == "nogo" {
		_, err := Assemble(lower.File{Name: "a.s", Data: []byte(header + add("A"))})
		if !errors.Is(err, ErrNoGo) {
			t.Errorf("error is %v, want ErrNoGo", err)
		}
		return
	}
	if !Supported() {
		t.Skip("kernels are not mapped here")
	}
	child(t, "nogo", "PATH=/nonexistent")
}

func child(t *testing.T, what string, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(append(os.Environ(), "TMACC_JIT_TEST="+what), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// ADRP and ADD find what lies in any page before and behind them.
func TestRelocateARM64(t *testing.T) {
	const adrp, add = 0x90000003, 0x91000063 // to and from X3
	rng := rand.New(rand.NewSource(1))
	for range 100000 {
		p, to := rng.Intn(1<<30)&^3, rng.Intn(1<<30)
		if rng.Intn(2) == 0 {
			p = p&^0xfff | 0xffc // ADD lies in the next page
		}
		img := binary.LittleEndian.AppendUint32(nil, adrp)
		img = binary.LittleEndian.AppendUint32(img, add)
		relocateARM64(img, p, to)
		first, second := binary.LittleEndian.Uint32(img), binary.LittleEndian.Uint32(img[4:])
		pages := int32(first>>5&0x7ffff<<2|first>>29&3) << 11 >> 11
		if have := p&^0xfff + int(pages)<<12 + int(second>>10&0xfff); have != to || first&0x9f00001f != adrp || second&0xffc003ff != add {
			t.Fatalf("at %#x to %#x: %#08x %#08x find %#x", p, to, first, second, have)
		}
	}
}

func TestMapRefuses(t *testing.T) {
	if !Supported() {
		t.Skip(ErrPlatform)
	}
	if _, err := Map(&Object{Arch: "other", Code: []byte{0}}); err == nil || !strings.Contains(err.Error(), "functions for other cannot be mapped") {
		t.Errorf("an object of another architecture: %v", err)
	}
}
