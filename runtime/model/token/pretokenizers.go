package token

// preTokenizer is a value of tokenizer.ggml.pre: how byte-level BPE splits a text into words, and what else comes with it.
type preTokenizer struct {
	// splits cut a text into words. Each of them cuts the parts of the one before it.
	splits []split
	// wholeWords takes a word that is a token as it is, whatever the merges make of it.
	wholeWords bool
	// bos adds BOS where the metadata do not say (tokenizer.ggml.add_bos_token).
	bos bool
}

// preTokenizers are the known values, under each name that llama.cpp has for it.
var preTokenizers = func() map[string]*preTokenizer {
	gpt2 := wordRule{}.split()
	llama3 := wordRule{foldCase: true, anyLead: true, lineEnds: true, digits: 3}.split()
	qwen2 := wordRule{foldCase: true, anyLead: true, lineEnds: true, digits: 1}.split()
	qwen35 := wordRule{foldCase: true, anyLead: true, lineEnds: true, digits: 1, marks: true}.split()

	byName := map[string]*preTokenizer{}
	for _, row := range []struct {
		names []string
		preTokenizer
	}{
		{[]string{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "mellum", "exaone4", "a.x-4.0"},
			preTokenizer{splits: []split{gpt2}}},
		{[]string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
			preTokenizer{splits: []split{llama3}, wholeWords: true, bos: true}},
		{[]string{"dbrx", "smaug-bpe"}, preTokenizer{splits: []split{llama3}}},
		{[]string{"qwen2", "deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"},
			preTokenizer{splits: []split{qwen2}}},
		{[]string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
			preTokenizer{splits: []split{matches(digits(1)), gpt2}}},
		{[]string{"qwen35"}, preTokenizer{splits: []split{qwen35}}},
	} {
		for _, name := range row.names {
			byName[name] = &row.preTokenizer
		}
	}
	return byName
}()
