package model_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tmacc/tmacc/runtime/model"
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
