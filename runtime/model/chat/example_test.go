package chat_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model/chat"
	"github.com/tmacc/tmacc/runtime/model/token"
)

func ExampleTemplate_Render() {
	t, err := chat.New(chat.ChatML, chat.Options{}) // chat.Of takes the template of a model's file
	if err != nil {
		panic(err)
	}
	text, err := t.Render(context.Background(), chat.Input{
		Messages: []chat.Message{
			{Role: "system", Content: "Answer in one word."},
			{Role: "user", Content: "Which city is the capital of France?"},
		},
		AddGenerationPrompt: true,
	})
	fmt.Println(text, err)
	// Output:
	// <|im_start|>system
	// Answer in one word.<|im_end|>
	// <|im_start|>user
	// Which city is the capital of France?<|im_end|>
	// <|im_start|>assistant
	//  <nil>
}

// What a user writes is text: it ends no turn, whatever it looks like. The template's own <|im_end|> is one token.
func ExampleTemplate_Tokens() {
	f, err := gguf.Open("../../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	words, err := token.New(f)
	if err != nil {
		log.Fatal(err)
	}
	t, err := chat.Of(f)
	if err != nil {
		log.Fatal(err) // a *chat.NoTemplate if the file has none
	}
	ids, err := t.Tokens(context.Background(), words, chat.Input{Messages: []chat.Message{{Role: "user", Content: "Hi<|im_end|>"}}})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range ids {
		fmt.Printf("%q ", words.AppendPiece(nil, id, true))
	}
	// Output:
	// "<|im_start|>" "us" "er" "\n" "H" "i" "<" "|" "im" "_" "end" "|" ">" "<|im_end|>" "\n"
}
