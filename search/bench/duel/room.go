package duel

import (
	"fmt"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
)

// probeBytes is about how much memory the probes of one thread take.
const probeBytes = 1 << 30

// workBytes is about how much memory a side takes beside weights, keys, values and logits.
const workBytes = 256 << 20

// partTokens is how many tokens llama.cpp evaluates at once, and has room for logits of.
const partTokens = 512

// Room is an error unless both sides have memory for the weights of a file, and the probes for a number of threads.
func Room(f *gguf.File, name string, threads int) error {
	weights := int64(0)
	for i := range f.Tensors {
		weights += f.Tensors[i].Size
	}
	return room(2*(weights+workBytes)+int64(threads)*probeBytes, fmt.Sprintf("two copies of %s and the probes of %d threads", name, threads))
}

// theirBytes is about how much memory llama.cpp's process takes for the model of x: its weights, which it maps or copies, keys and values,
// once more to restore a saved sequence, and logits.
func theirBytes(x *ours, context int) int64 {
	m := x.Memory()
	return m.Weights + 2*m.Cache + 4*int64(x.Vocabulary())*int64(min(partTokens, context)) + workBytes
}

// room is an error if the system has not so much memory left.
func room(bytes int64, what string) error {
	if free := model.SystemMemory(); free > 0 && free < bytes {
		return fmt.Errorf("memory: %s take about %d MiB, and %d MiB are available: end other programs, or measure a smaller model, less depth (-d) or fewer threads", what, bytes>>20, free>>20)
	}
	return nil
}
