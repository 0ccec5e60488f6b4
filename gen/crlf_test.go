package gen_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
)

// A checkout of version control that ends lines in CR LF is no other package: it builds, passes its tests, is not
// different, and is not written again; a line that is another is found in it all the same.
func TestCheckoutWithCRLF(t *testing.T) {
	s := gen.Spec{Package: "kern", Products: []gen.Product{compile(t, "W2", problem(t, "w2", 0), amd64.ByName("avx2"), arm64.ByName("neon"))}}
	dir := write(t, s)
	s.Module = &gen.Module{Path: "example.com/kern", Replace: root(t)}
	files, err := gen.Package(s)
	if err != nil {
		t.Fatal(err)
	}
	windows := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")) }
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), windows(f.Data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := gen.Differences(dir, files); err != nil || len(d) > 0 {
		t.Errorf("differences %v, %v", d, err)
	}
	tool(t, dir, nil, "vet", ".")
	tool(t, dir, nil, "test", ".")
	tool(t, dir, []string{"GOARCH=arm64"}, "build", ".")
	if err := gen.Write(dir, files); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kern.go")
	text, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(text, []byte("\r\n")) {
		t.Errorf("%s was written again, %v", path, err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte("multiplies"), []byte("adds"), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	if d, err := gen.Differences(dir, files); err != nil || !slices.Equal(d, []string{"kern.go"}) {
		t.Errorf("differences %v, %v", d, err)
	}
}
