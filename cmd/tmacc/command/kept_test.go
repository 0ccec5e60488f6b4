package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Kept files are listed, and removed when that is asked for. Listing makes no folder.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMACC_CACHE", dir)
	weights := filepath.Join(dir, "weights")
	if out := ok(t, "cache"); !strings.Contains(out, "weights: nothing in "+weights+"\n") {
		t.Error(out)
	}
	if _, err := os.Stat(weights); err == nil {
		t.Error("a folder was made")
	}
	if err := os.Mkdir(weights, 0o700); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(weights, "model.gguf")
	for path, size := range map[string]int{filepath.Join(weights, strings.Repeat("a1", 16)+".parts"): 1234567, other: 1000} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := ok(t, "cache"); !strings.Contains(out, "weights: 1 file, 1.23 MB, in "+weights+"\n") {
		t.Error(out)
	}
	if out := ok(t, "cache", "-clear"); !strings.Contains(out, "weights: 1 file, 1.23 MB, in "+weights+", removed\n") {
		t.Error(out)
	}
	if out := ok(t, "cache"); !strings.Contains(out, "weights: 0 files, 0.00 MB") {
		t.Error(out)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file of the user: %v", err)
	}
	refused(t, refusal{2, "cache: 1 argument, want none", "cache all"})
}
