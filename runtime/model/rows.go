package model

import "github.com/tmacc/tmacc/runtime/ops"

// architecture is one row: how models of that name compute.
type architecture struct {
	name string
	// adjacent says that rope rotates neighbouring elements of a head, (0, 1), (2, 3) and so on, instead of its halves.
	adjacent bool
	gate     gate
	needs    []role // besides the common ones
	may      []role // have
	fused    []fused
	scaled   bool // embeddings are multiplied by the root of their length
	// wide, unless 0, is how many layers the models have whose scores of attention are divided by the root of the hidden state's equal part
	// for a head, in place of the head's own elements.
	wide int
	// caps are the keys of soft caps that its models have, and the values for files without them; 0: none.
	caps map[string]float64
	// windows, unless 0, gives all layers sliding windows but the last of each `windows` layers, if there is a window.
	windows int
	window  int // of files that do not say it; 0: none
	// slidingBase is the base of rope in layers with sliding windows, where no scaling counts, unless the file has one. 0: they have
	// the rope of the others.
	slidingBase float64
	// grows says that files may make queries grow with positions, and YaRN's factor of cosines smaller.
	grows bool
	// unrotated, unless 0, leaves rope out of the last of each `unrotated` layers.
	unrotated int
	experts   *routes // nil: its models have none
}

// gate is an operator, by its name in package ir/operator and as package ops computes it.
type gate struct {
	operator string
	of       func(dst, gate, up []float32)
}

var (
	silu  = gate{"silu", ops.SiLUMul}
	gelu  = gate{"gelu", ops.GELUMul}
	relu2 = gate{"relu2", ops.ReLU2Mul}
)

// routes are how an architecture routes positions to experts.
type routes struct {
	always    bool // its models have experts; otherwise those whose files say so
	normalize bool // weights, unless the file says something else
	shared    bool // there is an expert more, which all positions have
}

// architectures are facts about models, from the graphs of llama.cpp v0.5.0 and, for bitnet-b1.58, of its forks.
var architectures = []architecture{
	{name: "llama", adjacent: true, gate: silu, may: []role{ropeFactors, shortFactors, longFactors, queryBias, keyBias, valueBias, mixedBias}, experts: &routes{normalize: true}},
	{name: "qwen2", gate: silu, needs: []role{queryBias, keyBias, valueBias}},
	{name: "qwen3", gate: silu, needs: []role{queryNorm, keyNorm}},
	{name: "qwen2moe", gate: silu, needs: []role{queryBias, keyBias, valueBias}, experts: &routes{always: true, shared: true}},
	{name: "qwen3moe", gate: silu, needs: []role{queryNorm, keyNorm}, experts: &routes{always: true, normalize: true}},
	{name: "mistral3", adjacent: true, gate: silu, grows: true, may: []role{ropeFactors, shortFactors, longFactors, mixedBias}},
	{name: "smollm3", adjacent: true, gate: silu, unrotated: 4},
	{name: "gemma", gate: gelu, scaled: true},
	{
		name: "gemma2", gate: gelu, scaled: true, windows: 2, window: 4096,
		caps:  map[string]float64{"attn_logit_softcapping": 50, "final_logit_softcapping": 30},
		needs: []role{mixedEndNorm, feedEndNorm},
		wide:  46, // 27B
	},
	{
		name: "gemma3", gate: gelu, scaled: true, windows: 6, slidingBase: 10000,
		caps:  map[string]float64{"final_logit_softcapping": 0},
		needs: []role{queryNorm, keyNorm, mixedEndNorm, feedEndNorm},
		wide:  62, // 27B
	},
	{
		name: "phi3", gate: silu, may: []role{shortFactors, longFactors},
		fused: []fused{
			{"attn_qkv.weight", []role{queryWeights, keyWeights, valueWeights}},
			{"ffn_up.weight", []role{gateWeights, upWeights}},
		},
	},
	{name: "bitnet", gate: silu, needs: []role{mixedNorm, gatedNorm}},
	{name: "bitnet-b1.58", gate: relu2, needs: []role{mixedNorm, gatedNorm}},
}

// scoreWidth is what scores of attention are divided by the root of.
func (a *architecture) scoreWidth(c *Config) int {
	if a.wide > 0 && c.Layers == a.wide {
		return c.Embedding / c.Heads
	}
	return c.HeadSize
}

// fused is a tensor of each layer whose rows are the matrices of several roles, one behind the other.
type fused struct {
	name  string
	roles []role
}

// common are the tensors that every architecture needs, and headWeights the only one that every architecture may have: without it
// the embedding is the head, too.
var common = []role{
	embedding, outputNorm,
	attentionNorm, queryWeights, keyWeights, valueWeights, mixedWeights,
	feedNorm,
}

// What the feed-forward parts need: dense ones, experts, and experts that are shared.
var (
	denseRoles  = []role{gateWeights, upWeights, downWeights}
	expertRoles = []role{router, gateExperts, upExperts, downExperts}
	sharedRoles = []role{sharedRouter, sharedGate, sharedUp, sharedDown}
)

// role is what a tensor is for.
type role uint8

const (
	embedding role = iota
	outputNorm
	headWeights
	ropeFactors
	shortFactors // of rope, for contexts that the model was trained with first
	longFactors  // for longer ones

	attentionNorm // the first role of tensors that each layer has
	queryWeights
	keyWeights
	valueWeights
	queryBias
	keyBias
	valueBias
	queryNorm
	keyNorm
	mixedNorm // of the output of attention
	mixedWeights
	mixedBias
	mixedEndNorm // of what attention adds to the hidden state
	feedNorm
	gateWeights
	upWeights
	gatedNorm // of the gated activations
	downWeights
	feedEndNorm // of what the feed-forward part adds to the hidden state
	router      // scores of experts
	gateExperts
	upExperts
	downExperts
	sharedRouter // one row of weights
	sharedGate
	sharedUp
	sharedDown

	numRoles
)

// tensor is the name of a tensor in a file, and its shape: the fastest extent first, as in the file.
type tensor struct {
	name  string
	shape []size
}

// size is an extent that the hyperparameters say.
type size uint8

const (
	sizeEmbedding size = iota
	sizeFeed
	sizeQueries // all heads
	sizeKeys    // all heads of keys, or of values
	sizeHead
	sizePairs // that rope rotates
	sizeVocabulary
	sizeExperts
	sizeExpert // between the matrices of one
	sizeShared // between the matrices of the shared one
	numSizes
)

// tensors are the names in GGUF files, of layers without "blk.N.".
var tensors = [numRoles]tensor{
	embedding:     {"token_embd.weight", []size{sizeEmbedding, sizeVocabulary}},
	outputNorm:    {"output_norm.weight", []size{sizeEmbedding}},
	headWeights:   {"output.weight", []size{sizeEmbedding, sizeVocabulary}},
	ropeFactors:   {"rope_freqs.weight", []size{sizePairs}},
	shortFactors:  {"rope_factors_short.weight", []size{sizePairs}},
	longFactors:   {"rope_factors_long.weight", []size{sizePairs}},
	attentionNorm: {"attn_norm.weight", []size{sizeEmbedding}},
	queryWeights:  {"attn_q.weight", []size{sizeEmbedding, sizeQueries}},
	keyWeights:    {"attn_k.weight", []size{sizeEmbedding, sizeKeys}},
	valueWeights:  {"attn_v.weight", []size{sizeEmbedding, sizeKeys}},
	queryBias:     {"attn_q.bias", []size{sizeQueries}},
	keyBias:       {"attn_k.bias", []size{sizeKeys}},
	valueBias:     {"attn_v.bias", []size{sizeKeys}},
	queryNorm:     {"attn_q_norm.weight", []size{sizeHead}},
	keyNorm:       {"attn_k_norm.weight", []size{sizeHead}},
	mixedNorm:     {"attn_sub_norm.weight", []size{sizeQueries}},
	mixedWeights:  {"attn_output.weight", []size{sizeQueries, sizeEmbedding}},
	mixedBias:     {"attn_output.bias", []size{sizeEmbedding}},
	mixedEndNorm:  {"post_attention_norm.weight", []size{sizeEmbedding}},
	feedNorm:      {"ffn_norm.weight", []size{sizeEmbedding}},
	gateWeights:   {"ffn_gate.weight", []size{sizeEmbedding, sizeFeed}},
	upWeights:     {"ffn_up.weight", []size{sizeEmbedding, sizeFeed}},
	gatedNorm:     {"ffn_sub_norm.weight", []size{sizeFeed}},
	downWeights:   {"ffn_down.weight", []size{sizeFeed, sizeEmbedding}},
	feedEndNorm:   {"post_ffw_norm.weight", []size{sizeEmbedding}},
	router:        {"ffn_gate_inp.weight", []size{sizeEmbedding, sizeExperts}},
	gateExperts:   {"ffn_gate_exps.weight", []size{sizeEmbedding, sizeExpert, sizeExperts}},
	upExperts:     {"ffn_up_exps.weight", []size{sizeEmbedding, sizeExpert, sizeExperts}},
	downExperts:   {"ffn_down_exps.weight", []size{sizeExpert, sizeEmbedding, sizeExperts}},
	sharedRouter:  {"ffn_gate_inp_shexp.weight", []size{sizeEmbedding}},
	sharedGate:    {"ffn_gate_shexp.weight", []size{sizeEmbedding, sizeShared}},
	sharedUp:      {"ffn_up_shexp.weight", []size{sizeEmbedding, sizeShared}},
	sharedDown:    {"ffn_down_shexp.weight", []size{sizeShared, sizeEmbedding}},
}

// perLayer says that every layer has a tensor of role r.
func (r role) perLayer() bool { return r >= attentionNorm }

// matrix says that a tensor of role r is multiplied with, and stack that it is a matrix of each expert.
func (r role) matrix() bool { return len(tensors[r].shape) >= 2 || r == sharedRouter }
func (r role) stack() bool  { return len(tensors[r].shape) == 3 }

// rotated says that rope rotates what comes of a tensor of role r.
func (r role) rotated() bool {
	return r == queryWeights || r == keyWeights || r == queryBias || r == keyBias
}
