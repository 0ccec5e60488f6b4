package command

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/bench/duel"
	"github.com/tmacc/tmacc/tests/drawn"
)

// TestDuelRefusals: folders without llama.cpp, and machines that do not load libraries.
func TestDuelRefusals(t *testing.T) {
	const model = "bench -model ../../../testdata/gguf/llama-q4_0.gguf -peer llama="
	none := filepath.Join(t.TempDir(), "none")
	if _, _, stderr := tmacc(strings.Fields(model + none)...); strings.Contains(stderr, "libraries are loaded on linux/amd64 only") {
		return // not here
	}
	refused(t, refusal{2, "llama.cpp: " + none + ": no such folder; npm i", model + none})
	refused(t, refusal{2, "has no libllama*.so; npm i", model + t.TempDir()})
}

// TestDuel measures a small model, one in three, beside the real library: every figure is there, whatever it is, and both sides have nearly the
// same logits.
func TestDuel(t *testing.T) {
	needMeasuring(t)
	dir := peers(t)
	for _, name := range drawn.Some(drawn.New(t), 3, []string{"llama-q4_0", "bitnet-tq2_0", "qwen3-q2_0"}) {
		var records []duel.Record
		out := ok(t, "bench", "-q", "-model", "../../../testdata/gguf/"+name+".gguf", "-peer", "llama="+dir, "-p", "16", "-n", "2", "-d", "0,70", "-r", "2", "-o", "json")
		if err := json.Unmarshal([]byte(out), &records); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var names []string
		for _, r := range records {
			names = append(names, r.Test().Name())
			checkDuel(t, name, r)
		}
		if got := strings.Join(names, ", "); got != "pp16, tg2, pp16 @ d70, tg2 @ d70" {
			t.Errorf("%s: tests %s", name, got)
		}
	}
	out := ok(t, "bench", "-q", "-model", "../../../testdata/gguf/llama-q4_0.gguf", "-peer", "llama="+dir, "-p", "0", "-n", "1", "-r", "1")
	for _, want := range []string{"| llama 3M Q4_0 | tg1 | 1 | 1 | ", "llama 3M Q4_0: llama.cpp 0.5.0", "In each other's turns the sides sleep"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// checkDuel checks that a record of a file has all figures.
func checkDuel(t *testing.T, name string, r duel.Record) {
	t.Helper()
	if r.Error != "" || r.File != name+".gguf" || r.Rounds != 2 || r.CPU == "" || r.Time == "" || r.ReadGBS <= 0 || r.PartProducts <= 0 {
		t.Errorf("%s: record %+v", name, r)
	}
	if r.Peer.Logits <= 0 || r.Peer.Logits > 0.1 {
		t.Errorf("%s: the logits differ by %v", name, r.Peer.Logits)
	}
	if !strings.HasPrefix(r.Peer.Version, "0.5.0") || !strings.HasPrefix(r.Peer.Library, "libggml-cpu-") || !r.Peer.Flash || len(r.Peer.Buffers) == 0 || r.Peer.Cache <= 0 {
		t.Errorf("%s: peer %+v", name, r.Peer)
	}
	for _, f := range []duel.Figures{r.Ours, r.Theirs} {
		if f.MedianTS <= 0 || f.MedianNs <= 0 || len(f.SamplesNs) != 2 || (r.Generate > 0) != (f.ReadShare > 0) {
			t.Errorf("%s, %s: figures %+v", name, r.Test().Name(), f)
		}
	}
	if r.Ratio <= 0 || r.Low <= 0 || r.High < r.Low || (r.Energy == duel.EnergyKnown) != (r.Ours.Joules > 0) {
		t.Errorf("%s, %s: %+v", name, r.Test().Name(), r)
	}
}
