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

// Rules of words that several models share, and rules that differ from them a little.
var (
	gpt2Words   = wordRule{}
	llama3Words = wordRule{endings: anyEndings, anyLead: true, tail: "\r\n", lineEnds: true, digits: 3}
	qwen2Words  = with(llama3Words, func(w *wordRule) { w.digits = 1 })
	qwen35Words = with(qwen2Words, func(w *wordRule) { w.letters, w.others = letter|mark, anyOther&^mark })

	exaoneWords = with(qwen2Words, func(w *wordRule) { w.phrases, w.tail, w.tailMost = true, "\r\n/", 1 })
	kimiWords   = with(llama3Words, func(w *wordRule) { w.endings, w.except = joinedEndings, han })
	seedWords   = with(qwen2Words, func(w *wordRule) { w.tail = "" })
	turkish     = with(qwen2Words, func(w *wordRule) { w.endings = noEndings })
	gpt4Words   = with(llama3Words, func(w *wordRule) { w.endings, w.tail, w.cases = joinedEndings, "\r\n/", true })
	tekkenWords = with(gpt4Words, func(w *wordRule) { w.endings, w.digits = noEndings, 1 })
	granite     = with(gpt4Words, func(w *wordRule) { w.letters = letter | mark })
	ayaWords    = with(granite, func(w *wordRule) { w.cases = false })
	youtuWords  = with(ayaWords, func(w *wordRule) { w.digits = 1 })
)

// with is a rule with a change.
func with(w wordRule, change func(*wordRule)) wordRule {
	change(&w)
	return w
}

// Sets of characters that pre-tokenizers keep together, as llama.cpp lists them.
var (
	// han is ideographs with room for more.
	han = chars("\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002ceb0-\U0002ebef" +
		"\uf900-\ufaff\U0002f800-\U0002fa1f")
	// asian is scripts of Asia, and all between U+8C48 and U+FAFF.
	asian = chars("一-鿿㐀-䶿\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f" +
		"\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff")
	// marksOfText is punctuation, ASCII's with all that is between it.
	marksOfText  = chars("!-/:-~！-／：-～‘-‟\u3000-。")
	ideographs   = chars("\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff")
	eastAsian    = chars("\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff")
	notSentences = chars("(|.,!?…。，、।\u06d4،)")
	// cased is letters that are capitals or small.
	cased = chars("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ" +
		"ℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ" +
		"\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943")
)

// Splits that several models share.
var (
	gpt2         = gpt2Words.split()
	llama3       = llama3Words.split()
	qwen2        = qwen2Words.split()
	oneDigit     = matches(digits(1))
	threeDigits  = matches(digits(3))
	allDigits    = matches(digits(0))
	threeOfASCII = matches(series{of: set{chars: chars("0-9")}, least: 3, most: 3}.match)
	lineEnd      = matches(series{of: set{chars: chars("\r\n")}, most: 1}.match)
	noSentences  = matches(series{lead: set{chars: chars(" ")}, of: set{classes: letter | digit | anyOther, but: notSentences}}.match)
	inEastAsian  = matches(series{of: set{chars: eastAsian}}.match)
	inIdeographs = matches(series{of: set{chars: ideographs}}.match)
	inScripts    = matches(firstOf(
		series{of: set{chars: chars("가-힣ㄱ-ㆎ")}}.match,
		series{of: set{chars: chars("！…“”‘’—：；，、-\u303f\ufe30-\ufe4f")}}.match,
		series{of: set{chars: chars("ㄅ-ㄯ")}}.match,
		series{of: set{chars: ideographs}}.match))
)

// preTokenizers are the known values, under each name that llama.cpp has for it.
var preTokenizers = func() map[string]*preTokenizer {
	byName := map[string]*preTokenizer{}
	for _, row := range preTokenizerRows {
		for _, name := range row.names {
			byName[name] = &row.preTokenizer
		}
	}
	return byName
}()

var preTokenizerRows = []struct {
	names []string
	preTokenizer
}{
	{[]string{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "mellum", "exaone4", "a.x-4.0", "jina-es", "jina-de",
		"jina-v1-en", "roberta-bpe", "modern-bert"},
		preTokenizer{splits: []split{gpt2}}},
	{[]string{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
		preTokenizer{splits: []split{llama3}, wholeWords: true, bos: true}},
	{[]string{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, preTokenizer{splits: []split{llama3}}},
	{[]string{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2", "bailingmoe", "bailingmoe2", "llada-moe"},
		preTokenizer{splits: []split{qwen2}}},
	{[]string{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
		preTokenizer{splits: []split{oneDigit, gpt2}}},
	{[]string{"qwen35"}, preTokenizer{splits: []split{qwen35Words.split()}}},
	{[]string{"minicpm5"}, preTokenizer{splits: []split{threeDigits, llama3}, wholeWords: true}},
	{[]string{"laguna"}, preTokenizer{splits: []split{lines, qwen2}}},
	{[]string{"jais-2"}, preTokenizer{splits: []split{llama3, halves}}},
	{[]string{"seed-coder"}, preTokenizer{splits: []split{seedWords.split()}}},
	{[]string{"ufakzeka"}, preTokenizer{splits: []split{turkish.split()}}},
	{[]string{"exaone-moe"}, preTokenizer{splits: []split{exaoneWords.split()}}},
	{[]string{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, preTokenizer{splits: []split{gpt4Words.split()}}},
	{[]string{"tekken"}, preTokenizer{splits: []split{tekkenWords.split()}, wholeWords: true, bos: true}},
	{[]string{"granite-embed-multi-97m"}, preTokenizer{splits: []split{granite.split()}, wholeWords: true}},
	{[]string{"tiny_aya", "cohere2moe"}, preTokenizer{splits: []split{thousands, ayaWords.split()}}},
	{[]string{"kimi-k2"}, preTokenizer{splits: []split{matches(firstOf(series{of: set{chars: han}}.match, kimiWords.match()))}}},
	{[]string{"youtu"}, preTokenizer{splits: []split{inScripts, youtuWords.split()}, wholeWords: true}},
	{[]string{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
		preTokenizer{splits: []split{threeDigits, inIdeographs, matches(signRule{lineEnds: true}.match)}}},
	{[]string{"spark2_5"}, preTokenizer{splits: []split{threeDigits, inIdeographs, matches(signRule{}.match), oneDigit}}},
	{[]string{"afmoe"}, preTokenizer{splits: []split{thousands, matches(series{of: set{chars: asian}}.match), matches(signRule{lineEnds: true}.match)}}},
	{[]string{"deepseek-llm"}, preTokenizer{splits: []split{lineEnd, afterSpace(set{chars: cased}), afterSpace(set{chars: marksOfText}), whiteEnd,
		inEastAsian, allDigits}}},
	{[]string{"deepseek-coder"}, preTokenizer{splits: []split{lineEnd, afterSpace(set{classes: letter}), afterSpace(set{classes: punctuation}),
		inEastAsian, oneDigit}}},
	{[]string{"falcon"}, preTokenizer{splits: []split{matches(series{of: set{classes: punctuation, chars: chars("$+<=>^~|`")}}.match), gpt2, threeOfASCII}}},
	{[]string{"default"}, preTokenizer{splits: []split{matches(series{of: set{classes: punctuation, chars: chars("$+<=>^~|")}}.match), gpt2, allDigits,
		threeOfASCII}}},
	{[]string{"poro-chat", "bloom", "gpt3-finnish"}, preTokenizer{splits: []split{noSentences}}},
	{[]string{"viking"}, preTokenizer{splits: []split{noSentences, oneDigit}}},
	{[]string{"superbpe"}, preTokenizer{splits: []split{allDigits, beforeThousands}}},
	{[]string{"chameleon"}, preTokenizer{splits: []split{matches(sentinel), matches(image), matches(gap), oneDigit,
		matches(series{of: set{classes: punctuation, chars: chars("$+<=>^`|~")}, most: 1}.match), gpt2}, bos: true}},
}
