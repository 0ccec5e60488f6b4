package generation_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/chat"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// open is a small model that was trained on novels, with its tokenizer and template. A program takes the kernels of a package
// that tmacc compile wrote, kernels.Products, in place of model.PureGo.
func open() (*model.Session, *token.Tokenizer, *chat.Template) {
	f := must(gguf.Open("../../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf"))
	defer f.Close()
	m := must(model.New(f, model.PureGo{}, model.Options{Context: 128}))
	return must(m.NewSession()), must(token.New(f)), must(chat.Of(f))
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// show prints a text as it comes.
func show(text []byte) error {
	fmt.Printf("%s", text)
	return nil
}

// A text goes on by tokens at random. The same seed gives the same text on every machine.
func ExampleContinue() {
	s, words, _ := open()
	defer s.Model().Close()
	random := must(sample.New(sample.Options{Temperature: 0.8, TopP: 0.95, Seed: 42}))
	options := generation.Options{Tokens: 8, Sampler: random, Text: show}
	r := must(generation.Continue(context.Background(), s.Model(), s, words, "It was a cold morning, and", options))
	fmt.Printf("\n%d tokens of the text, %d added, end: %s\n", r.Prompt, r.Tokens, r.End)
	r = must(generation.Continue(context.Background(), s.Model(), s, words, " But", options))
	fmt.Printf("\n%d tokens were kept\n", r.Kept)
	// Output:
	// I have a little and a little har
	// 7 tokens of the text, 8 added, end: length
	// , but not so welcome about
	// 15 tokens were kept
}

// A conversation by the template of the model's file. What it shares with the one before is not computed again.
func ExampleTokens() {
	s, words, form := open()
	defer s.Model().Close()
	said := chat.Input{AddGenerationPrompt: true}
	for _, question := range []string{"Have you heard the news?", "And what do you say?"} {
		said.Messages = append(said.Messages, chat.Message{Role: "user", Content: question})
		answer := ""
		r := must(generation.Tokens(context.Background(), s.Model(), s, words, must(form.Tokens(context.Background(), words, said)), generation.Options{
			Tokens: 10,
			Text:   func(text []byte) error { answer += string(text); return nil },
		}))
		said.Messages = append(said.Messages, chat.Message{Role: "assistant", Content: answer})
		fmt.Println(answer, r.Kept > 0, r.End)
	}
	// Output:
	// "I am sure you will not be sorry to false length
	// "I am sure you will not be so much true length
}
