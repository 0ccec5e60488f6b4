//go:build peer

package ggml

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/library"
)

// folder has the prebuilt libraries; .ci/run downloads them.
const folder = "TMACC_GGML"

func opened(t *testing.T) *Library {
	t.Helper()
	dir := os.Getenv(folder)
	if dir == "" {
		t.Skipf("%s names no folder of libraries; %s", folder, library.Remedy)
	}
	l, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestAgree multiplies random blocks of every type that both know, in every buffer
// type, by one and more threads, and compares with the naive product in float64.
func TestAgree(t *testing.T) {
	l := opened(t)
	t.Logf("ggml %s, %s, buffer types %v", l.Version, filepath.Base(l.Path), l.Buffers())
	repacked := map[string]bool{}
	for _, typ := range blocks.Types() {
		if strings.HasPrefix(typ, "I2_S") {
			continue // not ggml's
		}
		for _, n := range []int{1, 5, 64} {
			for _, buffer := range l.Buffers() {
				ran, err := agree(l, typ, buffer, n)
				if err != nil {
					t.Errorf("%s, %s, %d activations: %v", typ, buffer, n, err)
				}
				if ran && buffer != l.Buffers()[0] {
					repacked[typ] = true
				}
			}
		}
	}
	for _, typ := range []string{"Q4_0", "Q4_K", "IQ4_NL"} { // on every CPU with AVX2
		if !repacked[typ] {
			t.Errorf("%s was not repacked", typ)
		}
	}
}

// agree runs one product several times, over two copies.
func agree(l *Library, typ, buffer string, n int) (ran bool, err error) {
	const m, k = 128, 1024
	rng := rand.New(rand.NewPCG(7, uint64(n)))
	data, err := blocks.Random(rng, typ, m, k)
	if err != nil {
		return false, err
	}
	x := make([]float32, n*k)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	w, src, err := blocks.Read(typ, data, m, k)
	if err != nil {
		return false, err
	}
	p, err := l.NewProduct(Matrix{Type: typ, Blocks: data, X: x, M: m, K: k, N: n, Copies: 2}, buffer)
	if errors.Is(err, ErrUnsupported) && buffer != l.Buffers()[0] {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer p.Close()
	ref := measure.NewReference(w, src, x, m, k, n, p.ActGroup)
	for _, threads := range threadsFor(n) {
		on, err := p.On(threads)
		if err != nil {
			return false, err
		}
		for range 3 {
			clear(p.Out)
			on.Run()
			if _, err := ref.Agree(p.Out, p.ActGroup); err != nil {
				return false, fmt.Errorf("%d threads: %w", threads, err)
			}
			on.Sleep()
		}
	}
	return true, nil
}

// threadsFor are the threads to run products of n activations on: threads of ggml
// that share a core wait for each other long, so not all run on two.
func threadsFor(n int) []int {
	if n == 5 {
		return []int{1, 2}
	}
	return []int{1}
}

// Arguments that ggml would abort the process for.
func TestRefused(t *testing.T) {
	l := opened(t)
	data, err := blocks.Random(rand.New(rand.NewPCG(1, 1)), "Q4_0", 32, 64)
	if err != nil {
		t.Fatal(err)
	}
	good := Matrix{Type: "Q4_0", Blocks: data, X: make([]float32, 64), M: 32, K: 64, N: 1, Copies: 1}
	for _, c := range []struct {
		want   string
		buffer string
		change func(*Matrix)
	}{
		{"has no type Q4_9", "CPU", func(x *Matrix) { x.Type = "Q4_9" }},
		{"no buffer type GPU; there are CPU", "GPU", func(x *Matrix) {}},
		{"not a product", "CPU", func(x *Matrix) { x.N = 2 }},
		{"not a product", "CPU", func(x *Matrix) { x.Copies = 0 }},
		{"33 columns are not whole blocks of 32", "CPU", func(x *Matrix) { x.K, x.X = 33, x.X[:33] }},
		{"1151 bytes of blocks; 32 rows of 64 weights of Q4_0 have 1152", "CPU", func(x *Matrix) { x.Blocks = x.Blocks[1:] }},
	} {
		x := good
		c.change(&x)
		p, err := l.NewProduct(x, c.buffer)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v; want %s", err, c.want)
		}
		if p != nil {
			t.Errorf("%s: a product too", c.want)
		}
	}
	p, err := l.NewProduct(good, "CPU")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, n := range []int{0, maxThreads + 1} {
		if _, err := p.On(n); err == nil || !strings.Contains(err.Error(), "threads: want 1 to 512") {
			t.Errorf("%d threads: error %v", n, err)
		}
	}
}

// Folders without libraries, and files that are none.
func TestOpenRefuses(t *testing.T) {
	if here := library.Here(); here != nil {
		if _, err := Open(t.TempDir()); !errors.Is(err, here) {
			t.Errorf("error %v; want %v", err, here)
		}
		return
	}
	empty, broken := t.TempDir(), t.TempDir()
	lib := filepath.Join(broken, "libggml-cpu-x64.so")
	if err := os.WriteFile(lib, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "libggml-cpu.so"), []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, want string }{
		{filepath.Join(empty, "none"), "none: no such folder; npm i"},
		{lib, "is not a folder; name the one that has libggml-base.so"},
		{empty, "has no libggml-cpu-*.so and no libggml-cpu.so; npm i"},
		{broken, "can be used: " + lib},
		{other, filepath.Join(other, "libggml-cpu.so")},
	} {
		if _, err := Open(c.dir); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v; want one line with %s", c.dir, err, c.want)
		}
	}
}
