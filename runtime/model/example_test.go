package model_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"slices"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/tests/expected"
)

// The four tokens with the largest logits, one after the other, of a small model with random weights.
func ExampleModel_Forward() {
	folder, err := expected.Folder()
	if err != nil {
		log.Fatal(err)
	}
	m, err := model.Open(folder+"/llama-q4_0.gguf", model.PureGo{}, model.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	items := []model.Item{{Session: s, Tokens: []int32{1, 512, 278, 1763}}} // the prompt
	for range 4 {
		if err := m.Forward(context.Background(), items); err != nil {
			log.Fatal(err)
		}
		best := int32(0)
		for token, logit := range items[0].Logits {
			if logit > items[0].Logits[best] {
				best = int32(token)
			}
		}
		items[0].Tokens = []int32{best}
	}
	fmt.Println(s.Len(), "tokens of at most", m.Context())
	// Output: 7 tokens of at most 512
}

// openTale is a small model that was trained on novels, and its tokenizer. A program takes the kernels of a package that tmacc compile
// wrote, kernels.Products, in place of model.PureGo.
func openTale() (*model.Model, *token.Tokenizer) {
	f, err := gguf.Open("../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	m, err := model.New(f, model.PureGo{}, model.Options{Context: 64})
	if err != nil {
		log.Fatal(err)
	}
	t, err := token.New(f)
	if err != nil {
		log.Fatal(err)
	}
	return m, t
}

// Two texts with the same beginning compute it once. A saved session goes on in another process.
func ExampleSession() {
	m, t := openTale()
	defer m.Close()
	one, err := m.NewSession()
	if err != nil {
		log.Fatal(err)
	}
	add := func(s *model.Session, text string) {
		item := model.Item{Session: s, Tokens: t.Encode(text, token.Options{BOS: token.BOSNever}), Want: model.WantNone}
		if err := m.Forward(context.Background(), []model.Item{item}); err != nil {
			log.Fatal(err)
		}
	}
	add(one, "It was a cold morning,")
	two, err := one.Copy()
	if err != nil {
		log.Fatal(err)
	}
	add(one, " and the sea was still.")
	add(two, " but nobody slept.")
	var saved bytes.Buffer
	if err := two.Save(&saved); err != nil {
		log.Fatal(err)
	}
	three, err := m.LoadSession(&saved)
	if err != nil {
		log.Fatal(err)
	}
	if err := one.Truncate(context.Background(), 6); err != nil {
		log.Fatal(err)
	}
	for _, s := range []*model.Session{one, two, three} {
		fmt.Println(t.Decode(s.Tokens(), false))
		s.Close()
	}
	// Output:
	// It was a cold morning,
	// It was a cold morning, but nobody slept.
	// It was a cold morning, but nobody slept.
}

// Embeddings have length 1, so the product of two is their cosine. Results do not depend on the other texts.
func ExampleModel_Embed() {
	m, t := openTale()
	defer m.Close()
	var texts [][]int32
	for _, text := range []string{"He paid the bill.", "The sea was calm.", "The sea was rough."} {
		texts = append(texts, t.Encode(text, token.Options{EOS: true}))
	}
	e, err := m.Embed(context.Background(), texts, model.PoolMean)
	if err != nil {
		log.Fatal(err)
	}
	likeness := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	fmt.Println(len(e), "embeddings of", len(e[0]), "elements")
	fmt.Printf("%.3f %.3f\n", likeness(e[2], e[0]), likeness(e[2], e[1]))
	alone, err := m.Embed(context.Background(), texts[2:], model.PoolMean)
	fmt.Println(slices.Equal(alone[0], e[2]), err)
	// Output:
	// 3 embeddings of 256 elements
	// 0.478 0.897
	// true <nil>
}
