package main

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/runtime/vulkan"
)

// TestMain is the program itself for the processes that it starts.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-child") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestRun measures the default schedules and those of testdata on the device that tests have, and looks for others for a moment. What fails is in the report.
func TestRun(t *testing.T) {
	if _, err := vulkan.Devices(); err != nil {
		if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Setenv("TMACC_CACHE", t.TempDir())
	out := filepath.Join(t.TempDir(), "card.json")
	o := options{traces: "testdata/test.jsonl", out: out, limit: 5 * time.Minute, improve: 100 * time.Millisecond, small: true, parts: "ceilings,schedules,peer,products,none", problems: "w2,nothing"}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	failed := strings.Join(r.Errors, "\n")
	for _, want := range []string{"there is no -peer", "none: there is no such part", "products of nothing: ", "nothing on spirv/dot: "} {
		if !strings.Contains(failed, want) {
			t.Errorf("%q is not among the errors:\n%s", want, failed)
		}
	}
	if strings.Contains(failed, "products of w2") || r.Ceilings == nil || r.Speeds == nil {
		t.Errorf("what ran beside what failed: %v", r.Errors)
	}
	for i, checked := range []string{"all 256 rows of columns [0]", "all 256 rows of columns [0 5 15]"} {
		if len(r.Best) != 2 || r.Best[i].Checked != checked || !(r.Best[i].Ns > 0) || r.Best[i].Trace == nil {
			t.Errorf("the best products: %+v", r.Best)
		}
	}
	if len(r.Refused) != 2 || !strings.Contains(r.Refused[0].Why, "decompose first") {
		t.Errorf("refused: %+v", r.Refused)
	}
	for _, want := range []string{"default of spirv/dot, 1 columns", "test split"} {
		if !slices.ContainsFunc(r.Products, func(t *timed) bool { return t.Name == want }) {
			t.Errorf("%s is not among the products: %+v", want, r.Products)
		}
	}
	var all lab
	all.add(r)
	all.add(report{Best: []*timed{{Problem: "w2", Shape: r.Best[0].Shape, Ns: r.Best[0].Ns / 2}, {Problem: "w4", Shape: r.Best[0].Shape}}})
	if text := all.text(); len(all.Best) != 3 || all.Best[0].Ns != r.Best[0].Ns/2 || !strings.Contains(text, "best products") {
		t.Errorf("of two reports: %+v\n%s", all.Best, text)
	}
}

var update = flag.Bool("update", false, "write docs/lab/card.md")

// TestPage holds docs/lab/card.md against its reports.
func TestPage(t *testing.T) {
	paths, err := filepath.Glob("../../../docs/lab/card/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal("no reports", err)
	}
	want, err := page(paths)
	if err != nil {
		t.Fatal(err)
	}
	const path = "../../../docs/lab/card.md"
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || string(have) != want {
		t.Errorf("%s is not what its reports say (%v): go test ./tests/lab/card -run TestPage -update", path, err)
	}
}

// TestPeerWeights: blocks repeat, and have the size of the whole matrix.
func TestPeerWeights(t *testing.T) {
	for typ, size := range map[string]int{"F16": 2 * 128 * 256, "Q4_0": 128 * 256 / 32 * 18, "TQ1_0": 128 * 54} {
		data, err := peerWeights(typ, shape{128, 256, 1})
		if err != nil || len(data) != size || string(data[:size/2]) != string(data[size/2:]) {
			t.Errorf("%s: %d bytes, %v", typ, len(data), err)
		}
	}
	if _, err := peerWeights("Q9_9", shape{128, 256, 1}); err == nil {
		t.Error("weights of Q9_9")
	}
}
