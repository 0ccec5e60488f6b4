package kernels_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/worker"
)

// A program that opens any model and compiles the kernels that it needs, as tmacc run does. The next start maps them.
func Example() {
	worker.Main() // in main, before anything else: kernels are compared in a copy of the process

	folder, err := os.MkdirTemp("", "kernels") // usually "", a folder in the user's cache directory
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	f, err := gguf.Open("../../testdata/gguf/qwen3-q2_0.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	provider, err := kernels.New(context.Background(), kernels.Options{Folder: folder, Say: func(e kernels.Event) { log.Println(e) }})
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close() // after the model
	needed, err := kernels.Needed(f, model.Options{})
	if err != nil {
		log.Fatal(err)
	}
	provider.Expect(needed) // so that they are made beside one another
	m, err := model.New(f, provider, model.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	for _, made := range provider.Made() { // made.Origin says whether they were compiled, kept, or are in pure Go
		fmt.Println(m.Config().Name, "multiplies by", made.Problem.Name())
	}
	// Output: random-qwen3-q2_0 multiplies by q2_0
}
