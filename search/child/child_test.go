package child

import (
	"strings"
	"testing"
)

// TestHead: the first bytes are kept, and writers of more do not fail.
func TestHead(t *testing.T) {
	var h Head
	for _, text := range []string{"first", strings.Repeat("x", headBytes), "last"} {
		if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatalf("wrote %d bytes of %d: %v", n, len(text), err)
		}
	}
	if got := h.String(); len(got) != headBytes || !strings.HasPrefix(got, "firstxxx") || strings.Contains(got, "last") {
		t.Errorf("kept %d bytes: %.10s...", len(got), got)
	}
}

func TestSignal(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"panic: SIGSEGV in the text":           "",
		"SIGABRT: abort\nPC=0x1":               "SIGABRT",
		"fatal error\n[signal SIGSEGV: x code": "SIGSEGV",
	} {
		if got := Signal(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
