package perplexity_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/perplexity"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// A text that repeats itself is easy to predict. A figure has the same bits on every machine.
func ExampleMeasure() {
	f, err := gguf.Open("../../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	m, err := model.New(f, model.PureGo{}, model.Options{Context: 32})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	t, err := token.New(f)
	if err != nil {
		log.Fatal(err)
	}
	text := t.Encode(strings.Repeat("The sea was calm, and the ship lay at anchor. ", 4), token.Options{})
	r, err := perplexity.Measure(context.Background(), m, text, perplexity.Begin(t), perplexity.Options{Context: 32})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.4f +- %.4f, of %d predicted tokens in %d chunks\n", r.Perplexity.Value, r.Perplexity.Error, r.Tokens, r.Chunks)
	// Output:
	// 34.2276 +- 14.3162, of 30 predicted tokens in 2 chunks
}
