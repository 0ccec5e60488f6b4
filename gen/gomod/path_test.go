package gomod_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/gen/gomod"
)

// put writes a file and the folders above it.
func put(t *testing.T, text string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// CheckPath refuses what the go command refuses, and nothing else.
func TestCheckPathIsGos(t *testing.T) {
	dir := t.TempDir()
	put(t, "module example.com/mine\n\ngo 1.26.0\n", dir, "go.mod")
	for _, path := range []string{
		"ok", "x_test", "x_windows", "testdata", "_x", ".x", "x-", "a+b", "a~b", "a.go", "v2", "main", "init", "func", "1", "a...b", "x/-y/z", "CONx", "com0",
		"a@b", "a b", "é", "-x", "~x", "+x", "a~1", "CON", "com1", "aux.go", "a.", "...", "a'b", "a,b", "a#b", "a=b", "a%b", "a!b", "a:b", "x/a b/c", "x/nul/c", "a\tb", "a\"b",
	} {
		put(t, "package k\n", dir, path, "k.go")
		cmd := exec.Command("go", "list", "-e", "-f", "{{if .Error}}{{.Error}}{{end}}", ".")
		cmd.Dir = filepath.Join(dir, path)
		out, err := cmd.CombinedOutput()
		refused := err != nil || strings.TrimSpace(string(out)) != ""
		if problem := gomod.CheckPath(path); (problem != nil) != refused {
			t.Errorf("%q: %v, and the go command says %q %v", path, problem, out, err)
		}
	}
	for _, path := range []string{"", "a//b", "/a", "a/", "-a/b"} { // no folders
		if gomod.CheckPath(path) == nil {
			t.Errorf("%q is taken", path)
		}
	}
}
