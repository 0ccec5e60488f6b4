package llama

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/measure/library"
)

// TestMain makes this binary a process that runs models.
func TestMain(m *testing.M) {
	Main()
	fakeMain()
	os.Exit(m.Run())
}

// TestCheckRefuses: folders without the library are errors of one line that say what to do.
func TestCheckRefuses(t *testing.T) {
	if err := library.Here(); err != nil && !errors.Is(err, library.ErrStatic) {
		if err := Check(t.TempDir()); !strings.Contains(err.Error(), "llama.cpp: libraries are loaded on linux/amd64 only") {
			t.Errorf("error %v", err)
		}
		return
	}
	file := func(dir string, names ...string) string {
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("no library"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	empty := t.TempDir()
	for _, c := range []struct{ dir, want string }{
		{filepath.Join(empty, "none"), "none: no such folder; npm i"},
		{filepath.Join(file(t.TempDir(), "x"), "x"), "is not a folder; name the one that has libllama.so"},
		{empty, "has no libllama*.so; npm i"},
		{file(t.TempDir(), "libllama-common.so"), "has no libllama*.so; npm i"},
		{file(t.TempDir(), "libllama.v0.5.0.so", "libllama.so"), "has 2 libraries libllama*.so: leave one of them"},
	} {
		if err := Check(c.dir); err == nil || !strings.HasPrefix(err.Error(), "llama.cpp: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v; want one line with %s", c.dir, err, c.want)
		}
	}
	if err := Check(file(t.TempDir(), "libllama.v0.5.0.so", "libllama-common.so")); !errors.Is(err, library.Here()) {
		t.Errorf("error %v; want %v", err, library.Here())
	}
}

// TestVersions: builds between releases are of the version that they follow.
func TestVersions(t *testing.T) {
	for text, want := range map[string]bool{"0.5.0": true, "0.5.0-dev": true, "0.5.1": false, "0.5.0.1": false, "": false, "b4000": false} {
		if isVersion(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestHear: sizes of buffers and the first error are kept of what the library says.
func TestHear(t *testing.T) {
	var s said
	for _, line := range []string{
		"load_tensors:   CPU_Mapped model buffer size =   123.50 MiB\n",
		"load_tensors:   CPU_REPACK model buffer size =     2.00 MiB\n",
		"llama_kv_cache:        CPU KV buffer size =    16.00 MiB\n",
		"sched_reserve:        CPU compute buffer size =     7.01 MiB\n",
	} {
		s.hear(2, line)
	}
	s.hear(levelError, "first\n")
	s.hear(levelError, "second\n")
	s.hear(2, "no error\n")
	if len(s.buffers) != 2 || s.buffers[0] != (Buffer{"CPU_Mapped", 123<<20 + 1<<19}) || s.buffers[1] != (Buffer{"CPU_REPACK", 2 << 20}) || s.cache != 16<<20 || s.fault != "first" {
		t.Errorf("kept %+v", s)
	}
}
