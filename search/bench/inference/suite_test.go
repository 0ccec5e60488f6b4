package inference

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/tests/expected"
)

// TestSuite runs the tests of a small model: the figures are there, whatever they are.
func TestSuite(t *testing.T) {
	folder, err := expected.Folder()
	if err != nil {
		t.Fatal(err)
	}
	f, name, err := Open(filepath.Join(folder, "qwen3-q2_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := Suite{
		File: f, Name: name, Kernels: model.PureGo{}, Cache: model.CacheF32,
		Tests: Tests([]int{5}, []int{2}, []int{0, 70}), Threads: []int{1}, Repetitions: 2,
	}
	var steps []string
	var records []Record
	if err := s.with(t.Context(), 1, Machine{}, func(text string) { steps = append(steps, text) }, func(r Record) { records = append(records, r) }); err != nil {
		t.Fatal(err)
	}
	if len(records) != 4 {
		t.Fatalf("%d records", len(records))
	}
	for i, r := range records {
		if want := s.Tests[i]; r.Test() != want || r.File != "qwen3-q2_0.gguf" || r.Cache != "f32" || len(r.SamplesNs) != 2 {
			t.Errorf("record %d is %+v, want %s", i, r, want.Name())
		}
		if !(r.MeanTS > 0 && r.MedianNs > 0 && r.ProductsNs > 0 && r.Ratio > 0) {
			t.Errorf("%s has no times: %+v", r.Test().Name(), r)
		}
		if !(r.PartProducts > 0 && r.PartAttention > 0 && r.PartRest > 0 && r.PartHead > 0) {
			t.Errorf("%s has no times of parts: %+v", r.Test().Name(), r)
		}
	}
	for _, want := range []string{"reading qwen3-q2_0.gguf, 100 %", "qwen3-q2_0.gguf, threads 1, tg2 @ d70: repetition 2 of 2"} {
		if !slices.Contains(steps, want) {
			t.Errorf("no step %q in %q", want, steps)
		}
	}
}

// TestDescribe: what records say of models follows from their tensors. An embedding that is the output matrix too counts as
// the head; one that is not is not read for each token.
func TestDescribe(t *testing.T) {
	for name, want := range map[string]struct {
		kind            string
		weights, layers float64 // MB per token, million parameters of the layers
		head            int64
	}{
		"bitnet-2b":       {"bitnet 2.4B TQ2_0", 806.6, 2084.0, 128256 * 2560},
		"llama-1b-q4_k_m": {"llama 1.2B Q4_K", 799.6, 973.1, 128256 * 2048},
		"llama-8b-q4_0":   {"llama 8.0B Q4_0", 4356.9, 6979.3, 128256 * 4096},
		"qwen3-0.6b-q8_0": {"qwen3 596M Q8_0", 633.2, 440.4, 151936 * 1024},
	} {
		f, file, err := Open("synthetic:" + name)
		if err != nil {
			t.Fatal(err)
		}
		m := Describe(file, f, model.CacheF16)
		layers := float64(m.MACs-m.Head) / 1e6
		if m.Kind != want.kind || m.File != "synthetic:"+name || m.Head != want.head || math.Abs(float64(m.Weights)/1e6-want.weights) > 0.1 || math.Abs(layers-want.layers) > 0.1 {
			t.Errorf("%s: %s, %.1f MB, %.1f M parameters in layers, %d in the head", m.File, m.Kind, float64(m.Weights)/1e6, layers, m.Head)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for path, want := range map[string]string{
		"synthetic:x":               `unknown synthetic model "x": have bitnet-2b`,
		filepath.Join("no", "file"): "no",
	} {
		if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
