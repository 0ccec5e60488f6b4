package token_test

import (
	"fmt"
	"log"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// A text becomes tokens, and tokens become the text. Bytes that begin a character wait in a Decoder for the rest of it.
func ExampleTokenizer() {
	f, err := gguf.Open("../../../cmd/tmacc/tale/tale-bitnet-4m-tq2_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	t, err := token.New(f)
	if err != nil {
		log.Fatal(err)
	}
	ids := t.Encode("The café<|im_end|>", token.Options{Special: true})
	text := t.Decoder(true)
	for _, id := range ids {
		fmt.Printf("%d %q %q\n", id, t.AppendPiece(nil, id, true), text.Write(id))
	}
	fmt.Printf("%q %v\n", t.Decode(ids, false), t.EndOfGeneration(ids[len(ids)-1]))
	// Output:
	// 601 "The" "The"
	// 277 " c" " c"
	// 64 "a" "a"
	// 69 "f" "f"
	// 127 "\xc3" ""
	// 102 "\xa9" "é"
	// 2047 "<|im_end|>" "<|im_end|>"
	// "The café" true
}
