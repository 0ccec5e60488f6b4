package jit

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tmacc/tmacc/lower"
)

// deny makes the system refuse this process, until it ends, to make memory executable, as systemd's MemoryDenyWriteExecute does.
func deny(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skip("needs Linux 6.3: PR_SET_MDWE: ", err)
	}
}

// Where memory may not become executable nothing is mapped, which is found out by trying, and said before anything is assembled.
func TestDenied(t *testing.T) {
	if !Supported() {
		t.Skip(ErrPlatform)
	}
	if os.Getenv("TMACC_JIT_TEST") == "" {
		child(t, "denied")
		return
	}
	o, err := Build(runtime.GOARCH, lower.File{Name: "a.s", Data: []byte(header + add("A"))})
	if err != nil {
		t.Fatal(err)
	}
	deny(t)
	tried = onceTried() // this process has tried before
	for what, err := range map[string]error{
		"Mappable": Mappable(),
		"Assemble": func() error { _, err := Assemble(lower.File{Name: "a.s", Data: []byte("NONSENSE")}); return err }(),
		"Map":      func() error { _, err := Map(o); return err }(),
	} {
		var denied *Denied
		if !errors.As(err, &denied) || !errors.Is(err, ErrPlatform) || !errors.Is(err, syscall.EACCES) || !strings.Contains(err.Error(), "mprotect: permission denied") || !strings.Contains(err.Error(), "MemoryDenyWriteExecute") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := Builds("linux", runtime.GOARCH); err != nil {
		t.Errorf("nothing is assembled for others: %v", err)
	}
}
