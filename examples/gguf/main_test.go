package main

import (
	"slices"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime"
)

// Eight goroutines share one packed matrix, and a product allocates nothing.
func TestShared(t *testing.T) {
	f, err := gguf.Open("../../testdata/gguf/llama-q4_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := newAttention(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 256)
	x[3], x[200] = 1, -2
	if err := a.multiply(x); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			y := make([]float32, len(a.q))
			for range 100 {
				if err := a.wq.Gemm(y, a.act, runtime.Options{Threads: 2}); err != nil || !slices.Equal(y, a.q) {
					t.Error("not the same product", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("instrumented code allocates")
	}
	f, err := gguf.Open("../../testdata/gguf/llama-q4_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := newAttention(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 256)
	if n := testing.AllocsPerRun(100, func() { _ = a.multiply(x) }); n != 0 {
		t.Errorf("%v allocations per product", n)
	}
}
