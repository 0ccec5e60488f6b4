// A conversation with a language model: each line is a message. The kernels are in this program; the compiler is not.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"example.com/chat/kernels"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/chat"
	"github.com/tmacc/tmacc/runtime/model/generation"
	"github.com/tmacc/tmacc/runtime/model/token"
)

func main() {
	f := must(gguf.Open(os.Args[1]))
	m := must(model.New(f, kernels.Products, model.Options{}))
	talk(must(m.NewSession()), must(token.New(f)), must(chat.Of(f)), os.Stdin, os.Stdout, 512)
}

// talk answers each line of in by at most `most` tokens.
func talk(s *model.Session, words *token.Tokenizer, form *chat.Template, in io.Reader, out io.Writer, most int) {
	said := chat.Input{AddGenerationPrompt: true}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		said.Messages = append(said.Messages, chat.Message{Role: "user", Content: lines.Text()})
		ids := must(form.Tokens(context.Background(), words, said))
		var answer bytes.Buffer
		must(generation.Tokens(context.Background(), s.Model(), s, words, ids, generation.Options{Tokens: most, Text: func(text []byte) error {
			answer.Write(text)
			_, err := out.Write(text)
			return err
		}}))
		said.Messages = append(said.Messages, chat.Message{Role: "assistant", Content: answer.String()})
		fmt.Fprintln(out)
	}
}

// must returns v if there is no error.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
