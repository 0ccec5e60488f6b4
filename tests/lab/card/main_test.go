package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/runtime/vulkan"
)

// TestRun measures the schedules of testdata on the device that tests have, and looks for others for a moment.
func TestRun(t *testing.T) {
	if _, err := vulkan.Devices(); err != nil {
		if none := (*vulkan.Unavailable)(nil); errors.As(err, &none) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Setenv("TMACC_CACHE", t.TempDir())
	out := filepath.Join(t.TempDir(), "card.json")
	o := options{traces: "testdata", out: out, summary: out + ".txt", limit: 2 * time.Minute, improve: 100 * time.Millisecond, small: true, parts: "ceilings,products"}
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
	if len(r.Errors) > 0 {
		t.Errorf("errors: %v", r.Errors)
	}
	if len(r.Best) != 1 || r.Best[0].Checked != "all 256 rows of columns [0]" || !(r.Best[0].Ns > 0) || r.Best[0].Trace == nil {
		t.Errorf("the best product: %+v", r.Best)
	}
	if len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Why, "decompose first") {
		t.Errorf("refused: %+v", r.Refused)
	}
	text, err := os.ReadFile(out + ".txt")
	if err != nil || !strings.Contains(string(text), "best products") {
		t.Errorf("the summary: %v\n%s", err, text)
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
