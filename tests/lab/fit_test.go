package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each core that pairs were measured on is left out once. With TMACC_LONG=1, which takes minutes: fitting finds these numbers again.
func TestFit(t *testing.T) {
	t.Chdir("../..")
	want, err := os.ReadFile(filepath.Join(home, "fit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(want)) {
		var f Fit
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Without)
	}
	if got := strings.Join(names, " "); got != " golden-cove zen2 zen4 zen5" {
		t.Errorf("left out: %q", got)
	}
	if os.Getenv("TMACC_LONG") == "" {
		return
	}
	file := filepath.Join(t.TempDir(), "fit.jsonl")
	if code := run([]string{"fit", "-q", "-o", file}, nil, t.Output(), t.Output()); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != string(want) {
		t.Errorf("%v, fitted\n%s\nwant\n%s", err, have, want)
	}
}
