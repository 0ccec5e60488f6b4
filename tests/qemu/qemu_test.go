package qemu

import (
	"runtime"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// file has kernels that add 1 to a byte count times, write before a buffer, read
// past one, and execute what no CPU has.
var file = lower.File{Name: "k_arm64.s", Data: []byte(`
#include "textflag.h"
TEXT ·Count(SB), NOSPLIT, $0-8
	MOVD args+0(FP), R0
	MOVD 0(R0), R1
	MOVD 8(R0), R2
loop:
	MOVBU (R1), R3
	ADD $1, R3
	MOVB R3, (R1)
	SUBS $1, R2
	BNE loop
	RET
TEXT ·Before(SB), NOSPLIT, $0-8
	MOVD args+0(FP), R0
	MOVD 0(R0), R1
	MOVB R1, -1(R1)
	RET
TEXT ·After(SB), NOSPLIT, $0-8
	MOVD args+0(FP), R0
	MOVD 0(R0), R1
	MOVBU 3(R1), R1
	RET
TEXT ·Undefined(SB), NOSPLIT, $0-8
	WORD $0
	RET
`)}

func TestRun(t *testing.T) {
	Need(t, "arm64")
	a, b, c := []byte{1, 2, 3}, []byte{7}, make([]byte, 2)
	err := Run("max", file, []Call{
		{"Count", []vir.Arg{{Buf: a}, {Int: 5}}},
		{"Count", []vir.Arg{{Buf: b}, {Int: 300}, {Buf: b}}},
		{"Count", []vir.Arg{{Buf: c[:1]}, {Int: 1}, {Buf: b}}},
		{"Count", []vir.Arg{{Buf: c[1:]}, {Int: 2}, {Buf: b}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c[0] != 1 || c[1] != 2 {
		t.Errorf("calls that share a buffer stored %v", c)
	}
	if a[0] != 6 || a[1] != 2 || b[0] != byte(307&255) {
		t.Errorf("got %v %v", a, b)
	}
}

// TestRunNative: without a CPU the program runs as it is.
func TestRunNative(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("not on linux/amd64")
	}
	native := lower.File{Name: "k_amd64.s", Data: []byte(`
#include "textflag.h"
TEXT ·Inc(SB), NOSPLIT, $0-8
	MOVQ args+0(FP), AX
	MOVQ 0(AX), AX
	INCB (AX)
	RET
`)}
	a := []byte{41}
	if err := Run("", native, []Call{{"Inc", []vir.Arg{{Buf: a}}}}); err != nil || a[0] != 42 {
		t.Errorf("%v, got %d", err, a[0])
	}
}

func TestRunNamesTheKernel(t *testing.T) {
	Need(t, "arm64")
	for kernel, want := range map[string]string{
		"Before":    "kernel Before: wrote before the start",
		"After":     "kernel After: exit status",
		"Undefined": "kernel Undefined: exit status",
	} {
		a := []byte{1, 2, 3}
		err := Run("max", file, []Call{
			{"Count", []vir.Arg{{Buf: a}, {Int: 5}}},
			{kernel, []vir.Arg{{Buf: []byte{1, 2, 3}}}},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", kernel, err, want)
		}
		if a[0] != 6 {
			t.Errorf("%s: the call before it is lost", kernel)
		}
	}
}
