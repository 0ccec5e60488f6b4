// Package tale has a small language model, so that a first try needs no download. README.md says where it comes from.
package tale

import (
	_ "embed"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Name is the name of the model.
const Name = "tale-bitnet-4m-tq2_0"

//go:embed tale-bitnet-4m-tq2_0.gguf
var file string

// Open opens the model's file, which lies in this program.
func Open() (*gguf.File, error) { return gguf.New(strings.NewReader(file), int64(len(file))) }
