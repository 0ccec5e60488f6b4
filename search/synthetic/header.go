package synthetic

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/tmacc/tmacc/ir/format/gguf"
)

// Kinds of metadata values in a GGUF file.
const (
	kindUint32 = uint32(4)
	kindInt32  = uint32(5)
	kindFloat  = uint32(6)
	kindBool   = uint32(7)
	kindString = uint32(8)
	kindArray  = uint32(9)
)

// header is the beginning of a file up to its tensors: metadata, then the names, shapes and places of the tensors.
func (s *shape) header(tensors []tensor) []byte {
	var meta writer
	count := s.meta(&meta)
	w := &writer{}
	w.WriteString("GGUF")
	w.add(uint32(3), uint64(len(tensors)), uint64(count))
	w.Write(meta.Bytes())
	for _, t := range tensors {
		w.add(t.name, uint32(len(t.shape)))
		for _, n := range t.shape {
			w.add(uint64(n))
		}
		w.add(typeID(t.typ), uint64(t.offset))
	}
	w.Write(make([]byte, aligned(int64(w.Len()))-int64(w.Len())))
	return w.Bytes()
}

// typeID finds the id of a type by its name.
func typeID(name string) uint32 {
	for id := range gguf.Type(256) {
		if gguf.TypeName(id) == name {
			return uint32(id)
		}
	}
	panic("BUG: synthetic: no type " + name)
}

// meta writes the metadata and returns the number of values.
func (s *shape) meta(w *writer) (count int) {
	set := func(key string, kind uint32, values ...any) {
		w.add(key, kind)
		w.add(values...)
		count++
	}
	number := func(key string, n int) { set(s.arch+"."+key, kindUint32, uint32(n)) }
	set("general.architecture", kindString, s.arch)
	set("general.type", kindString, "model")
	set("general.name", kindString, s.name+" with random weights")
	number("block_count", s.layers)
	number("context_length", s.context)
	number("embedding_length", s.embedding)
	number("feed_forward_length", s.ff)
	number("attention.head_count", s.heads)
	number("attention.head_count_kv", s.kv)
	number("attention.key_length", s.head)
	number("attention.value_length", s.head)
	number("rope.dimension_count", s.head)
	number("vocab_size", s.words.size)
	set(s.arch+".rope.freq_base", kindFloat, float32(s.ropeBase))
	set(s.arch+".attention.layer_norm_rms_epsilon", kindFloat, float32(s.eps))
	s.words.meta(set)
	return count
}

// meta sets the metadata of a vocabulary.
func (v vocabulary) meta(set func(key string, kind uint32, values ...any)) {
	tokens, merges := v.words()
	kinds := make([]int32, len(tokens))
	for i := range kinds {
		kinds[i] = normalToken
	}
	for i := range v.special {
		kinds[len(kinds)-1-i] = controlToken
	}
	special := func(i int) uint32 { return uint32(v.size - len(v.special) + i) }
	set("tokenizer.ggml.model", kindString, "gpt2")
	set("tokenizer.ggml.pre", kindString, v.pre)
	set("tokenizer.ggml.tokens", kindArray, kindString, uint64(len(tokens)), tokens)
	set("tokenizer.ggml.token_type", kindArray, kindInt32, uint64(len(kinds)), kinds)
	set("tokenizer.ggml.merges", kindArray, kindString, uint64(len(merges)), merges)
	set("tokenizer.ggml.bos_token_id", kindUint32, special(v.bos))
	set("tokenizer.ggml.eos_token_id", kindUint32, special(v.eos))
	set("tokenizer.ggml.add_bos_token", kindBool, v.addBOS)
}

// writer writes the parts of a GGUF file.
type writer struct{ bytes.Buffer }

// add writes numbers, little endian, and texts with their lengths first.
func (w *writer) add(values ...any) {
	for _, v := range values {
		switch x := v.(type) {
		case string:
			w.add(uint64(len(x)))
			w.WriteString(x)
		case []string:
			for _, text := range x {
				w.add(text)
			}
		default:
			if err := binary.Write(w, binary.LittleEndian, v); err != nil {
				panic(fmt.Sprintf("BUG: synthetic: %T: %v", v, err))
			}
		}
	}
}
