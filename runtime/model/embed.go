package model

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/runtime/ops"
)

// Pooling says how the hidden states of a text's tokens become its embedding.
type Pooling uint8

// The kinds of pooling: each token has an embedding, or the text has one, of the mean of the hidden states, of the first token's, or of
// the last token's.
const (
	PoolNone Pooling = iota
	PoolMean
	PoolCLS
	PoolLast
	numPoolings
)

var poolings = [numPoolings]string{"none", "mean", "cls", "last"}

// String is the name, such as "mean".
func (p Pooling) String() string {
	if p < numPoolings {
		return poolings[p]
	}
	return fmt.Sprintf("Pooling(%d)", uint8(p))
}

// ParsePooling is the inverse of String.
func ParsePooling(name string) (Pooling, error) {
	for p := range numPoolings {
		if poolings[p] == name {
			return p, nil
		}
	}
	return 0, errorf(fmt.Sprintf("pooling %q", shorten(name)), "is unknown; this version knows %s", strings.Join(poolings[:], ", "))
}

// Embed computes the embeddings of texts: of each text one of Config.Embedding elements, or with PoolNone one for each token. They
// have the euclidean length 1, as llama-embedding prints them. Config.Pooling is what a file asks for. Results do not depend on the other texts.
func (m *Model) Embed(ctx context.Context, texts [][]int32, p Pooling) ([][]float32, error) {
	if p >= numPoolings {
		return nil, errorf("argument p", "is %d; kinds of pooling are 0 to %d", p, numPoolings-1)
	}
	for i, text := range texts {
		if len(text) == 0 || len(text) > m.options.Context {
			return nil, errorf(fmt.Sprintf("text %d", i), "has %d tokens; it must have 1 to the %d of option Context", len(text), m.options.Context)
		}
		if err := m.known(text); err != nil {
			return nil, fmt.Errorf("text %d: %w", i, err)
		}
	}
	var out [][]float32
	for len(texts) > 0 {
		n := m.together(texts)
		x, err := m.embed(ctx, texts[:n], p)
		if err != nil {
			return nil, err
		}
		out, texts = append(out, x...), texts[n:]
	}
	return out, nil
}

// together is how many of the first texts fit into one step and into the memory of one session, at least one.
func (m *Model) together(texts [][]int32) int {
	tokens, pages := 0, 0
	for i, text := range texts {
		tokens += len(text)
		pages += numBlocks(len(text))
		if i > 0 && (tokens > m.options.Chunk || pages > numBlocks(m.options.Context)) {
			return i
		}
	}
	return len(texts)
}

// embed computes the embeddings of texts in one call of Forward.
func (m *Model) embed(ctx context.Context, texts [][]int32, p Pooling) ([][]float32, error) {
	items := make([]Item, len(texts))
	for i, text := range texts {
		s, err := m.NewSession()
		if err != nil {
			return nil, err
		}
		defer s.Close()
		items[i] = Item{Session: s, Tokens: text, Want: WantAll, WantHidden: true}
		if p == PoolLast {
			items[i].Want = WantLast
		}
	}
	if err := m.Forward(ctx, items); err != nil {
		return nil, err
	}
	out := make([][]float32, len(items))
	for i := range items {
		out[i] = m.pool(items[i].Hidden, p)
	}
	return out, nil
}

// pool makes embeddings of rows of hidden states. x over its length is an RMS norm with the weights 1/sqrt(n).
func (m *Model) pool(hidden []float32, p Pooling) []float32 {
	n := m.config.Embedding
	out := make([]float32, n)
	switch p {
	case PoolNone:
		out = append(out[:0], hidden...)
	case PoolMean:
		share := 1 / float32(len(hidden)/n)
		for at := 0; at < len(hidden); at += n {
			ops.AddScaled(out, out, hidden[at:at+n], share)
		}
	default:
		copy(out, hidden) // the first row, or the only one
	}
	weights := slices.Repeat([]float32{float32(1 / math.Sqrt(float64(n)))}, n)
	for at := 0; at < len(out); at += n {
		ops.RMSNorm(out[at:at+n], out[at:at+n], weights, 0)
	}
	return out
}
