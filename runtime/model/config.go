package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/ops"
)

// Error is a fault of a file, or of a call: the thing, and the problem with its remedy, on one line.
type Error struct {
	Thing   string // `tensor "blk.0.attn_q.weight"`, `key "llama.block_count"`, "argument items"
	Problem string
}

func (e *Error) Error() string { return "model: " + e.Thing + ": " + e.Problem }

func errorf(thing, problem string, args ...any) error {
	return &Error{thing, fmt.Sprintf(problem, args...)}
}

// Config is the hyperparameters of a model.
type Config struct {
	Architecture string
	Name         string // of the model, as the file says
	Layers       int
	Embedding    int // elements of the hidden state
	FeedForward  int // elements between the matrices of a layer's second half
	Heads        int // of queries
	KVHeads      int // of keys and values; it divides Heads
	HeadSize     int
	Vocabulary   int // tokens
	Context      int // positions that the model was made for
	Original     int // positions that it was trained with, before rope was scaled
	Epsilon      float32
	Experts      Experts
	Pooling      Pooling // of embeddings, as the file says; PoolNone if it says nothing
	ScoreCap     float32 // soft cap of the scores of attention; 0: none
	LogitCap     float32 // of logits
	Growth       float64 // of queries with positions, as ops.Growth has it for Original; 0: none
	Kinds        []Kind  // of layers; the first is that of layers without a window, which are rotated
	KindOf       []uint8 // the number of each layer's kind
	longrope     bool    // rope has factors that depend on the context
}

// Experts are the feed-forward parts of a layer among which a position chooses. A model that has one for all positions has none.
type Experts struct {
	Count       int
	Used        int // that a position chooses
	FeedForward int // elements between the matrices of one
	Shared      int // elements between the matrices of an expert that all positions have; 0: there is none
	Routing     ops.Routing
}

// Kind is what attention is like in a kind of layers.
type Kind struct {
	Window int          // the latest positions that a query sees, with its own; 0: all
	Rope   ops.Rotation // nothing is rotated if it has no Dims
}

// most bounds every extent but the vocabulary, so that products of two fit 64 bits.
const most = 1 << 20

// reader reads hyperparameters and keeps the first error.
type reader struct {
	f    *gguf.File
	arch string
	err  error
}

func (r *reader) key(name string) string { return r.arch + "." + name }

func (r *reader) fail(name, problem string, args ...any) {
	if r.err == nil {
		r.err = errorf(fmt.Sprintf("key %q", r.key(name)), problem, args...)
	}
}

// has says that the file has a key and that reading it makes sense.
func (r *reader) has(name string) bool {
	return r.err == nil && slices.ContainsFunc(r.f.Meta, func(kv gguf.KV) bool { return kv.Key == r.key(name) })
}

// count is an integer from 1 to limit; without the key it is otherwise, unless that is 0.
func (r *reader) count(name string, otherwise, limit int) int {
	if r.err != nil || otherwise > 0 && !r.has(name) {
		return otherwise
	}
	n, err := r.f.Int(r.key(name))
	if err != nil {
		r.err = err
		return 0
	}
	if n < 1 || n > limit {
		r.fail(name, "is %d; it must be 1 to %d", n, limit)
	}
	return n
}

// some is count, but the key may be 0, which 0 stands for.
func (r *reader) some(name string, otherwise, limit int) int {
	if n, err := r.f.Int(r.key(name)); err == nil && n == 0 || otherwise == 0 && !r.has(name) {
		return 0
	}
	return r.count(name, otherwise, limit)
}

// truth is a truth value; without the key it is otherwise.
func (r *reader) truth(name string, otherwise bool) bool {
	if !r.has(name) {
		return otherwise
	}
	x, ok := r.f.Get(r.key(name)).(bool)
	if !ok {
		r.fail(name, "is not a truth value")
	}
	return x
}

// float is a positive number; without the key it is otherwise, unless that is 0.
func (r *reader) float(name string, otherwise float64) float64 {
	if r.err != nil || otherwise > 0 && !r.has(name) {
		return otherwise
	}
	x, err := r.f.Float(r.key(name))
	if err != nil {
		r.err = err
		return 0
	}
	if !(x > 0 && x <= math.MaxFloat32) {
		r.fail(name, "is %v; it must be a finite number above 0", x)
	}
	return x
}

// newConfig reads the hyperparameters of a file whose architecture is a.
func newConfig(f *gguf.File, a *architecture) (Config, error) {
	r := &reader{f: f, arch: a.name}
	c := Config{
		Architecture: a.name,
		Layers:       r.count("block_count", 0, most),
		Embedding:    r.count("embedding_length", 0, most),
		FeedForward:  r.count("feed_forward_length", 0, most),
		Heads:        r.count("attention.head_count", 0, most),
		Context:      r.count("context_length", 0, math.MaxInt32),
		Epsilon:      float32(r.float("attention.layer_norm_rms_epsilon", 0)),
	}
	c.ScoreCap, c.LogitCap = r.cap(a, "attn_logit_softcapping"), r.cap(a, "final_logit_softcapping")
	c.Name, _ = f.Text("general.name")
	c.KVHeads = r.count("attention.head_count_kv", c.Heads, most)
	c.HeadSize = r.headSize(&c)
	if r.err == nil && c.Heads%c.KVHeads != 0 {
		r.fail("attention.head_count_kv", "is %d, which does not divide the %d heads", c.KVHeads, c.Heads)
	}
	r.kinds(&c, a)
	r.experts(&c, a.experts)
	r.pooling(&c)
	r.others(&c, a)
	if r.err != nil {
		return Config{}, r.err
	}
	return c, nil
}

// cap is a soft cap; 0: there is none.
func (r *reader) cap(a *architecture, name string) float32 {
	otherwise, known := a.caps[name]
	if x, err := r.f.Float(r.key(name)); err == nil && x == 0 || !known || otherwise == 0 && !r.has(name) {
		return 0
	}
	return float32(r.float(name, otherwise))
}

// headSize is the elements of a head: those that the file says, or an equal part of the hidden state.
func (r *reader) headSize(c *Config) int {
	if r.err != nil {
		return 0
	}
	if !r.has("attention.key_length") && c.Embedding%c.Heads != 0 {
		r.fail("attention.head_count", "is %d, which does not divide the hidden state of %d elements", c.Heads, c.Embedding)
	}
	size := r.count("attention.key_length", max(c.Embedding/c.Heads, 1), most)
	if v := r.count("attention.value_length", size, most); r.err == nil && v != size {
		r.fail("attention.value_length", "is %d, and heads of keys have %d elements: this version runs models whose keys and values are of equal size", v, size)
	}
	if r.err == nil && int64(size)*int64(c.Heads) > most {
		r.fail("attention.head_count", "is %d: with heads of %d elements, queries would have more than %d", c.Heads, size, most)
	}
	return size
}

// mostExperts bounds the experts of a layer.
const mostExperts = 1 << 10

// experts reads how positions choose experts. how is nil if the architecture has none.
func (r *reader) experts(c *Config, how *routes) {
	always := how != nil && how.always
	if !always && r.some("expert_count", 0, mostExperts) == 0 {
		return
	}
	if how == nil {
		r.fail("expert_count", "is there, and models of architecture %s have no experts in this version", r.arch)
		return
	}
	width := c.FeedForward // unless the file says something else
	if always {
		width = 0
	}
	x := Experts{
		Count:       r.count("expert_count", 0, mostExperts),
		Used:        r.count("expert_used_count", 0, ops.Block),
		FeedForward: r.count("expert_feed_forward_length", width, most),
		Routing:     ops.Routing{Normalize: r.truth("expert_weights_norm", how.normalize), Scale: float32(r.float("expert_weights_scale", 1))},
	}
	if r.err == nil && x.Used > x.Count {
		r.fail("expert_used_count", "is %d; there are %d experts", x.Used, x.Count)
	}
	if how.shared {
		x.Shared = r.count("expert_shared_feed_forward_length", c.FeedForward, most)
	}
	r.only("expert_gating_func", 1, "the softmax of all scores")
	r.only("expert_group_count", 1, "one group")
	c.Experts = x
}

// pooling reads what embeddings are made of. Files have the numbers of Pooling.
func (r *reader) pooling(c *Config) {
	const key = "pooling_type"
	if c.Pooling = Pooling(r.some(key, 0, math.MaxUint8)); c.Pooling >= numPoolings {
		r.fail(key, "is %d; this version knows 0 to %d: %s", c.Pooling, numPoolings-1, strings.Join(poolings[:], ", "))
	}
}

// only refuses a number that is not the one that this version knows, and that files without the key mean.
func (r *reader) only(name string, known int, what string) {
	if n := r.count(name, known, math.MaxInt32); n != known {
		r.fail(name, "is %d; this version knows %d only, %s", n, known, what)
	}
}

// others refuses keys that change what models compute, unless they have values that change nothing. llama.cpp writes some of them into files
// of all architectures.
func (r *reader) others(c *Config, a *architecture) {
	if r.err != nil {
		return
	}
	if !r.truth("attention.causal", true) {
		r.fail("attention.causal", "is false; this version knows attention to earlier positions only")
	}
	for _, x := range []struct {
		name  string
		known []float64
	}{
		{"attention.scale", []float64{0, 1 / math.Sqrt(float64(a.scoreWidth(c)))}},
		{"attention.clamp_kqv", []float64{0}},
		{"attention.max_alibi_bias", []float64{0}},
		{"embedding_scale", []float64{0, 1}},
		{"residual_scale", []float64{0, 1}},
		{"logit_scale", []float64{0, 1}},
		{"rope.scaling.yarn_ext_factor", []float64{-1, 1}},
	} {
		if r.has(x.name) {
			r.oneOf(x.name, x.known)
		}
	}
}

// oneOf refuses a number that is none of the known ones, in the precision of 32-bit floats.
func (r *reader) oneOf(name string, known []float64) {
	x, err := r.f.Float(r.key(name))
	if err != nil {
		r.err = err
		return
	}
	if !slices.ContainsFunc(known, func(k float64) bool { return math.Abs(x-k) <= 1e-6*math.Abs(k) }) {
		r.fail(name, "is %v, which models of architecture %s do not compute with in this version", x, r.arch)
	}
}

// kinds reads what attention is like in each layer.
func (r *reader) kinds(c *Config, a *architecture) {
	c.Original = r.count("rope.scaling.original_context_length", max(c.Context, 1), math.MaxInt32)
	usual := Kind{Rope: r.rope(c)}
	if a.grows {
		r.grow(c, &usual.Rope)
	} else if usual.Rope.YaRN != nil && r.has("rope.scaling.yarn_log_multiplier") {
		r.fail("rope.scaling.yarn_log_multiplier", "is not known in models of architecture %s", a.name)
	}
	if r.err != nil {
		return
	}
	c.Kinds, c.KindOf = []Kind{usual}, make([]uint8, c.Layers)
	if a.windows > 0 {
		r.windows(c, a)
	}
	if a.unrotated > 0 {
		c.Kinds = append(c.Kinds, Kind{})
		for i := a.unrotated - 1; i < c.Layers; i += a.unrotated {
			c.KindOf[i] = uint8(len(c.Kinds) - 1)
		}
	}
}

// grow reads how queries grow with positions.
func (r *reader) grow(c *Config, rope *ops.Rotation) {
	if name := "attention.temperature_scale"; r.has(name) {
		c.Growth = r.float(name, 0)
	}
	if name := "rope.scaling.yarn_log_multiplier"; r.has(name) && rope.YaRN != nil {
		rope.YaRN.Multiplier = r.float(name, 0)
	}
}

// windows reads which layers have sliding windows.
func (r *reader) windows(c *Config, a *architecture) {
	sliding := Kind{Window: r.some("attention.sliding_window", a.window, math.MaxInt32), Rope: c.Kinds[0].Rope}
	if r.err != nil || sliding.Window == 0 {
		return
	}
	if a.slidingBase > 0 {
		sliding.Rope.Base, sliding.Rope.Scale, sliding.Rope.YaRN = a.slidingBase, 1, nil
	}
	sliding.Rope.Base = r.base("rope.freq_base_swa", sliding.Rope.Base)
	const same = "as in the other layers"
	r.only("attention.key_length_swa", c.HeadSize, same)
	r.only("attention.value_length_swa", c.HeadSize, same)
	r.only("rope.dimension_count_swa", c.rotated(), same)
	c.Kinds = append(c.Kinds, sliding)
	slides := r.pattern("attention.sliding_window_pattern", a.windows, c.Layers)
	for i := range c.KindOf {
		if r.err == nil && slides(i) {
			c.KindOf[i] = 1
		}
	}
}

// pattern says whether a key holds of a layer. An array has that of each layer, and a number n means all layers but every n-th one.
func (r *reader) pattern(name string, otherwise, layers int) func(layer int) bool {
	value, _ := r.f.Value(r.key(name))
	if v, ok := value.([]bool); ok {
		if len(v) != layers {
			r.fail(name, "has %d elements; there are %d layers", len(v), layers)
		}
		return func(layer int) bool { return v[layer] }
	}
	period := r.some(name, otherwise, math.MaxInt32)
	return func(layer int) bool { return period == 0 || layer%period < period-1 }
}

// base is a base of rope.
func (r *reader) base(name string, otherwise float64) float64 {
	x := r.float(name, otherwise)
	if r.err == nil && x <= 1 {
		r.fail(name, "is %v; it must be above 1", x)
	}
	return x
}

// rope reads how positions rotate heads.
func (r *reader) rope(c *Config) (rope ops.Rotation) {
	dims := r.count("rope.dimension_count", max(c.HeadSize, 1), most)
	if r.err == nil && (dims > c.HeadSize || dims%2 != 0) {
		r.fail("rope.dimension_count", "is %d; it must be an even number up to the head's %d elements", dims, c.HeadSize)
	}
	rope = ops.Rotation{Dims: dims, Base: r.base("rope.freq_base", 10000), Scale: 1, Magnitude: r.float("rope.scaling.attn_factor", 1)}
	kind := "linear" // as files without a type mean it
	if r.has("rope.scaling.type") {
		if kind, r.err = r.f.Text(r.key("rope.scaling.type")); r.err != nil {
			return rope
		}
	}
	scale, ok := scalings[kind]
	if !ok {
		r.fail("rope.scaling.type", "is %q, an unknown rope type; this version knows none, linear, longrope and yarn", shorten(kind))
		return rope
	}
	scale(r, c, &rope)
	return rope
}

// scalings are the rope types by their names in files.
var scalings = map[string]func(*reader, *Config, *ops.Rotation){
	"none":     func(*reader, *Config, *ops.Rotation) {},
	"linear":   (*reader).linear,
	"longrope": (*reader).longrope,
	"yarn":     (*reader).yarn,
}

func (r *reader) linear(_ *Config, rope *ops.Rotation) {
	rope.Scale = r.float("rope.scaling.factor", r.float("rope.scale_linear", 1)) // the second key is the older one
}

// longrope is of "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens". The factors of pairs are tensors.
func (r *reader) longrope(c *Config, rope *ops.Rotation) {
	c.longrope = true
	r.linear(c, rope)
}

func (r *reader) yarn(c *Config, rope *ops.Rotation) {
	rope.Scale = r.float("rope.scaling.factor", 1)
	rope.YaRN = &ops.YaRN{
		Original: c.Original,
		Fast:     r.float("rope.scaling.yarn_beta_fast", 32),
		Slow:     r.float("rope.scaling.yarn_beta_slow", 1),
	}
}

// findArchitecture is the row of a file.
func findArchitecture(f *gguf.File) (*architecture, error) {
	name, err := f.Text("general.architecture")
	if err != nil {
		return nil, err
	}
	var known []string
	for i := range architectures {
		if architectures[i].name == name {
			return &architectures[i], nil
		}
		known = append(known, architectures[i].name)
	}
	return nil, errorf("architecture "+fmt.Sprintf("%q", shorten(name)), "is unknown; this version runs %s", strings.Join(known, ", "))
}

// shorten keeps messages about names in files on a line.
func shorten(name string) string {
	if len(name) > 80 {
		return name[:80] + "..."
	}
	return name
}

// extent is the number that a size stands for.
func (c *Config) extent(s size) int {
	return [numSizes]int{
		sizeEmbedding:  c.Embedding,
		sizeFeed:       c.FeedForward,
		sizeQueries:    c.Heads * c.HeadSize,
		sizeKeys:       c.KVHeads * c.HeadSize,
		sizeHead:       c.HeadSize,
		sizePairs:      c.rotated() / 2,
		sizeVocabulary: c.Vocabulary,
		sizeExperts:    c.Experts.Count,
		sizeExpert:     c.Experts.FeedForward,
		sizeShared:     c.Experts.Shared,
	}[s]
}

// rotated is how many elements of a head rope rotates.
func (c *Config) rotated() int { return c.Kinds[0].Rope.Dims }

// positions is how many positions a session has by default: what the model was made for, at most 4096.
func (c *Config) positions(asked int) (int, error) {
	n := cmp.Or(asked, min(c.Context, 4096))
	if n < 1 || n > c.Context {
		return 0, errorf("option Context", "is %d; the model was made for 1 to %d positions", n, c.Context)
	}
	return n, nil
}
