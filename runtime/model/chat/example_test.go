package chat_test

import (
	"context"
	"fmt"

	"github.com/tmacc/tmacc/runtime/model/chat"
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
