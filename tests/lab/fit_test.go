package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/cost"
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

// A score counts equal predictions a half.
func TestScore(t *testing.T) {
	s := score{}.with(1).with(-1).with(0)
	if s.right != 1.5 || s.of != 3 || s.clear < 1.4 || s.clear > 1.6 {
		t.Errorf("%+v", s)
	}
	from := cost.Fitted
	f := fitting{known: map[cost.Model]map[string]score{from: {"": {3, 3, 4}, "a": {1, 1, 2}, "b": {2, 2, 2}}}}
	if all, rest := f.rate(from, ""), f.rate(from, "b"); all != 0.75 || rest != 0.5 {
		t.Errorf("rates %v and %v", all, rest)
	}
}
