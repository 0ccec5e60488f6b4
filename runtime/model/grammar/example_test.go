package grammar_test

import (
	"fmt"

	"github.com/tmacc/tmacc/runtime/model/grammar"
	"github.com/tmacc/tmacc/runtime/model/sample"
)

// letters is a vocabulary of bytes. That of a model is a *token.Tokenizer.
type letters struct{}

func (letters) Len() int                      { return 257 }
func (letters) EndOfGeneration(id int32) bool { return id == 256 }
func (letters) AppendPiece(dst []byte, id int32, special bool) []byte {
	if id == 256 {
		return dst
	}
	return append(dst, byte(id))
}

// A model that likes later letters of the alphabet better writes JSON, and ends in time.
func Example() {
	g, err := grammar.ParseSchema([]byte(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","maximum":120}},"required":["name","age"]}`))
	if err != nil {
		panic(err)
	}
	s, err := sample.New(sample.Options{Mask: grammar.NewMask(g, grammar.NewVocabulary(letters{}))})
	if err != nil {
		panic(err)
	}
	logits := make([]float32, 257)
	for i := range 'z' {
		logits[i] = float32(i)
	}
	s.Limit(30) // tokens
	for id := s.Next(logits); id != 256; id = s.Next(logits) {
		fmt.Printf("%c", id)
	}
	// Output: {"name":"yyyyyyyyyyy","age":9}
}
