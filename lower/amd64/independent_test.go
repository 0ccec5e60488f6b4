package amd64

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/search/jit"
)

// tool finds one of some programs, or skips t.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path
		}
	}
	t.Skipf("%s is not installed", names[0])
	return ""
}

// gnuFeatures are the features as the GNU assembler names them, where that is not
// their name in lower case.
var gnuFeatures = strings.NewReplacer("avxvnni", "avx_vnni", "avx512vnni", "avx512_vnni")

// TestAssemblers has LLVM disassemble every row, and the GNU assembler, unlike
// LLVM's, refuse what the features of the target do not include. Text does not
// say that a VEX instruction was EVEX-encoded; its first byte does.
func TestAssemblers(t *testing.T) {
	llvm, gnu := tool(t, "llvm-mc-19", "llvm-mc"), tool(t, "x86_64-linux-gnu-as")
	for _, tg := range likeNone(t) {
		t.Run(tg.Machine().Name, func(t *testing.T) {
			m := tg.Machine()
			text := pipe(t, exec.Command(llvm, "-triple=x86_64", "--disassemble", "--show-encoding"), hexCode(t, tg))
			for line := range bytes.Lines(text) {
				if m.NumVec == 16 && bytes.Contains(line, []byte("encoding: [0x62")) {
					t.Errorf("%s is EVEX-encoded", line)
				}
			}
			march := strings.ToLower("generic64+" + strings.Join(FeatureNames(m.Has), "+"))
			pipe(t, exec.Command(gnu, "-march="+gnuFeatures.Replace(march), "-o", t.TempDir()+"/o"), text)
		})
	}
}

// hexCode is the machine code of all row kernels as llvm-mc reads it.
func hexCode(t *testing.T, tg lower.Target) []byte {
	t.Helper()
	cases := rowCases(tg)
	img, err := jit.Assemble(emitted(t, tg, cases))
	if errors.Is(err, jit.ErrPlatform) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	var out []byte
	for _, c := range cases {
		fn, err := img.Func(c.k.Func.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range fn.Code() {
			out = fmt.Appendf(out, "0x%02x ", b)
		}
		out = append(out, '\n')
	}
	return out
}

func emitted(t *testing.T, tg lower.Target, cases []rowCase) lower.File {
	t.Helper()
	var ks []*lower.Kernel
	for _, c := range cases {
		ks = append(ks, c.k)
	}
	file, err := lower.Emit(tg, "main", ks...)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// pipe returns what cmd makes of in; any complaint fails t.
func pipe(t *testing.T, cmd *exec.Cmd, in []byte) []byte {
	t.Helper()
	var complaints bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%v: %v\n%.2000s", cmd.Args, err, complaints.String())
	}
	return out
}

// TestHaswell runs this package's avx2 tests on an emulated CPU that has AVX2 and
// nothing newer.
func TestHaswell(t *testing.T) {
	const nested = "TMACC_TEST_HASWELL"
	if os.Getenv(nested) != "" {
		t.Skip("this is the emulated CPU")
	}
	qemu := tool(t, "qemu-x86_64", "qemu-x86_64-static")
	cmd := exec.Command(qemu, "-cpu", "Haswell", os.Args[0], "-test.v", "-test.run=^(TestRows|TestOps|TestGEMV|TestNestedLoops)$/^amd64$/^avx2$")
	cmd.Env = append(os.Environ(), nested+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || bytes.Count(out, []byte("--- PASS: ")) != 8 || bytes.Contains(out, []byte("--- SKIP")) {
		t.Errorf("%v: %v\n%.4000s", cmd.Args, err, out)
	}
}
