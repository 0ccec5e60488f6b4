package synthetic

// vocabulary describes the tokens of a model: byte-level BPE of made-up words.
type vocabulary struct {
	pre      string // the pre-tokenizer
	size     int
	special  []string // the last tokens
	bos, eos int      // indices in special
	addBOS   bool
}

var (
	llama3 = vocabulary{"llama-bpe", 128256, []string{"<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"}, 0, 1, true}
	qwen   = vocabulary{"qwen2", 151936, []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, 0, 2, false}
)

// Kinds of tokens.
const (
	normalToken  = 1
	controlToken = 3
)

// words returns the tokens, and the merges that make them: all bytes, then all words of two letters, of three, and so on.
// A word may begin with a space.
func (v vocabulary) words() (tokens, merges []string) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for _, c := range byteCharacters() {
		tokens = append(tokens, string(c))
	}
	last := []string{string(spaceCharacter)}
	for _, c := range letters {
		last = append(last, string(c))
	}
	for words := v.size - len(v.special); len(tokens) < words; {
		var next []string
		for _, begin := range last {
			for _, c := range letters {
				if len(tokens)+len(next) < words {
					next = append(next, begin+string(c))
					merges = append(merges, begin+" "+string(c))
				}
			}
		}
		tokens, last = append(tokens, next...), next
	}
	return append(tokens, v.special...), merges
}

// spaceCharacter is the character that byte-level BPE writes for a space.
const spaceCharacter = 'Ġ'

// byteCharacters returns the characters that byte-level BPE writes for the 256 bytes: visible ones of Latin-1 as they are,
// then the others from U+0100 up.
func byteCharacters() (all []rune) {
	for c := rune(0); c < 256; c++ {
		if '!' <= c && c <= '~' || '¡' <= c && c <= '¬' || '®' <= c {
			all = append(all, c)
		}
	}
	for hidden := rune(256); len(all) < 256; hidden++ {
		all = append(all, hidden)
	}
	return all
}
