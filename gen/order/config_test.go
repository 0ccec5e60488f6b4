package order

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The path of a format in a folder whose name has a comma is refused, not read as two formats.
func TestConfigInCommaFolder(t *testing.T) {
	_, err := ParseConfig([]byte("format: my.json"), "a,b")
	if want := `1: format: "` + filepath.Join("a,b", "my.json") + `": want no comma`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("# two kernels of one format\nformat: [w2]\nkernel:\n  - {name: Mine, format: w2, act-group: 32}\n  - name: Other\n    format: two.json\n    max-k: 8192\n")
	f.Add("format: [w4, \"w2\"]\n? a\n: b")
	f.Add("a: &x [1, *x]\n<<: *x\n!!str b: |\n  c\n")
	f.Add("---\n...\n%YAML 1.2\n--- {a: 1e999, b: ~, c: 0x10, d: .inf}")
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := ParseConfig([]byte(text), "dir")
		if err != nil {
			line, _, ok := strings.Cut(err.Error(), ": ")
			if n := 0; !ok || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			} else if _, err := fmt.Sscan(line, &n); err != nil || n < 1 {
				t.Errorf("no line in front of %q", line)
			}
			return
		}
		for _, s := range settings {
			if _, known := configKeys[s.Key]; !known || len(s.Values) == 0 || s.Line < 1 {
				t.Errorf("%+v", s)
			}
		}
	})
}
