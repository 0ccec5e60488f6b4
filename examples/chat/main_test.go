package main

import (
	"context"
	"math"
	"strings"
	"sync"
	"testing"

	"example.com/chat/kernels"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/chat"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// open is a small model that was trained on novels.
func open(t *testing.T) (*model.Model, *token.Tokenizer, *chat.Template) {
	f := must(gguf.Open("../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf"))
	defer f.Close()
	m := must(model.New(f, kernels.Products, model.Options{Context: 512}))
	t.Cleanup(func() { m.Close() })
	return m, must(token.New(f)), must(chat.Of(f))
}

// Four conversations at once are each what one alone is.
func TestTalks(t *testing.T) {
	m, words, form := open(t)
	var texts [4]strings.Builder
	talkTo := func(to *strings.Builder) {
		s := must(m.NewSession())
		defer s.Close()
		lines := strings.NewReader("What is a kernel?\nAnd a tile?\n")
		talk(s, words, form, lines, to, 40)
	}
	var all sync.WaitGroup
	for i := range texts {
		all.Go(func() { talkTo(&texts[i]) })
	}
	all.Wait()
	var alone strings.Builder
	talkTo(&alone)
	for i := range texts {
		if texts[i].String() != alone.String() || alone.Len() < 10 {
			t.Errorf("conversation %d: %q, alone %q", i, &texts[i], &alone)
		}
	}
}

// More tokens allocate no more memory.
func TestNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("instrumented code allocates")
	}
	m, words, _ := open(t)
	s := must(m.NewSession())
	defer s.Close()
	ids := words.Encode("It was", token.Options{})
	// The least of several runs: the runtime's own work, such as a collection of garbage, adds to some.
	took := func(tokens int) float64 {
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(1, func() {
				must(generation.Tokens(context.Background(), m, s, words, ids, generation.Options{Tokens: tokens, Text: func([]byte) error { return nil }}))
			}))
		}
		return least
	}
	if few, many := took(70), took(100); few != many {
		t.Errorf("%v allocations for 70 tokens, %v for 100", few, many)
	}
}
