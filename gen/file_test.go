package gen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen"
)

// WriteFile replaces files, also behind links, which stay links, and writes to what is no file.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	holds := func(name, want string) {
		t.Helper()
		if text, err := os.ReadFile(at(name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for _, text := range []string{"new", "newer"} {
		if err := gen.WriteFile(at("file"), []byte(text)); err != nil {
			t.Fatal(err)
		}
		holds("file", text)
	}
	if err := os.Symlink("file", at("link")); err != nil {
		t.Skip(err) // of Windows
	}
	if err := gen.WriteFile(at("link"), []byte("newest")); err != nil {
		t.Fatal(err)
	}
	holds("file", "newest")
	if info, err := os.Lstat(at("link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is none any more", err)
	}
	if err := os.Symlink("nowhere", at("broken")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		at("broken"): at("broken") + ": is a link to nothing", dir: dir + ": is a directory: name a file", at("none/file"): at("none/file") + ": no such file",
	} {
		if err := gen.WriteFile(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	if err := gen.WriteFile(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Error(os.DevNull+" is a file now", err)
	}
	log, err := os.OpenFile(at("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.WriteString("before ")
	stdout := os.Stdout
	os.Stdout = log // as by -o /dev/stdout >> log
	err = gen.WriteFile(at("log"), []byte("new "))
	os.Stdout = stdout
	log.WriteString("after")
	if holds("log", "before new after"); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(at(".tmacc*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
