package operators

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/tests/qemu"
)

// TestPackageOnArm runs the short tests of package runtime/ops on an emulated CPU: its functions, with the kernels that it
// chooses there.
func TestPackageOnArm(t *testing.T) {
	target := arm64.Targets()[0]
	if runtime.GOARCH == target.Machine().Arch() {
		t.Skip("the tests of the package do it on this machine")
	}
	command, err := qemu.Command(target)
	if err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "ops.test")
	build := exec.Command("go", "test", "-c", "-o", program, "../../runtime/ops")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+target.Machine().Arch(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(command[0], append(command[1:], program, "-test.short", "-test.v")...)
	run.Dir = "../../runtime/ops"
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"--- PASS: TestMatmul/arm64/neon", "--- PASS: TestSoftmax/arm64/neon", "--- PASS: TestRope/purego"} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
