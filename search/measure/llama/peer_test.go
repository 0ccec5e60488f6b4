//go:build peer

package llama

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/measure/library"
)

// folder has the prebuilt libraries; .ci/run downloads them.
const folder = "TMACC_GGML"

// llamaModel is a small model with random weights.
const llamaModel = "../../../testdata/gguf/llama-q4_0.gguf"

func started(t *testing.T) *Process {
	t.Helper()
	dir := os.Getenv(folder)
	if dir == "" {
		t.Skipf("%s names no folder of libraries; %s", folder, library.Remedy)
	}
	p, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestProcess runs a small model by the real library: the same logits after a prompt in one piece and token by token, a context that
// is filled by few tokens, and a process that sleeps in between.
func TestProcess(t *testing.T) {
	p, ctx := started(t), t.Context()
	if !isVersion(p.Engine.Version) || !strings.HasPrefix(p.Engine.Library, "libggml-cpu-") {
		t.Errorf("engine %+v", p.Engine)
	}
	m, err := p.Load(ctx, Options{Path: llamaModel, Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Buffers) == 0 || m.Buffers[0].Bytes < 1<<18 || m.Cache < 1<<16 {
		t.Errorf("memory %+v", m)
	}
	if err := p.SetThreads(ctx, 2); err != nil {
		t.Fatal(err)
	}
	tokens := []int32{5, 17, 9, 100, 3}
	whole, err := p.Logits(ctx, tokens)
	if err != nil || len(whole) < 100 || math.IsNaN(float64(whole[0])) {
		t.Fatalf("%d logits: %v", len(whole), err)
	}
	if other, err := p.Logits(ctx, []int32{5, 17, 9, 100, 4}); err != nil || slices.Equal(whole, other) {
		t.Errorf("another token has the same logits, or %v", err)
	}
	if turn, err := p.Generate(ctx, 0, tokens); err != nil || len(turn.Steps) != len(tokens) {
		t.Errorf("%d steps: %v", len(turn.Steps), err)
	}
	for _, n := range []int{0, 3, 5, 300} {
		if err := p.Fill(ctx, tokens, n); err != nil {
			t.Fatalf("%d tokens: %v", n, err)
		}
		for range 2 {
			turn, err := p.Prompt(ctx, n, tokens)
			if err != nil || len(turn.Steps) != 1 || turn.Steps[0] <= 0 {
				t.Errorf("after %d tokens: steps %v: %v", n, turn.Steps, err)
			}
		}
	}
	for _, threads := range []int{1, 2, 1} {
		if err := p.SetThreads(ctx, threads); err != nil {
			t.Fatal(err)
		}
		if again, err := p.Logits(ctx, tokens); err != nil || !slices.Equal(whole, again) {
			t.Errorf("%d threads: other logits, or %v", threads, err)
		}
	}
	if err := p.Fill(ctx, tokens, 300); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	turn, err := p.Generate(ctx, 300, tokens)
	if err != nil {
		t.Fatal(err)
	}
	if turn.Idle.Time < 200*time.Millisecond || turn.Idle.CPU > turn.Idle.Time/10 {
		t.Errorf("used %v of CPU time in %v without a request", turn.Idle.CPU, turn.Idle.Time)
	}
}

// TestRealFaults: what the library refuses is an error with its words, and a model that is none ends nothing.
func TestRealFaults(t *testing.T) {
	p := started(t)
	if _, err := p.Load(t.Context(), Options{Path: "none.gguf", Context: 64}); err == nil || !strings.Contains(err.Error(), "llama.cpp does not load none.gguf: ") {
		t.Errorf("error %v", err)
	}
	if _, err := p.Load(t.Context(), Options{Path: llamaModel, Context: 64}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Prompt(t.Context(), 0, []int32{1 << 30}); err == nil || !strings.Contains(err.Error(), "evaluates no batch of 1 tokens") {
		t.Errorf("error %v", err)
	}
	if _, err := p.Prompt(t.Context(), 0, make([]int32, 1000)); err == nil || !strings.Contains(err.Error(), "evaluates no batch of 64 tokens (status 1)") {
		t.Errorf("error %v", err)
	}
	if _, err := p.Prompt(t.Context(), 0, []int32{1}); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

// TestOtherVersion: another library of the name is refused, by the function that it lacks.
func TestOtherVersion(t *testing.T) {
	dir := os.Getenv(folder)
	if dir == "" {
		t.Skipf("%s names no folder of libraries; %s", folder, library.Remedy)
	}
	other := t.TempDir()
	data, err := os.ReadFile(filepath.Join(dir, "libggml-base.so"))
	if err == nil {
		err = os.WriteFile(filepath.Join(other, "libllama.so"), data, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), "libllama.so: lacks llama_version, which version 0.5.0 of llama.cpp has: npm i") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(filepath.Join(other, "libllama.so"), []byte("no library"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), other); err == nil || !strings.Contains(err.Error(), "libllama.so") {
		t.Errorf("error %v", err)
	}
}
