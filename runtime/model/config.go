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
	Epsilon      float32
	Rope         ops.Rotation
	Experts      Experts
	Pooling      Pooling // of embeddings, as the file says; PoolNone if it says nothing
}

// Experts are the feed-forward parts of a layer among which a position chooses. A model that has one for all positions has none.
type Experts struct {
	Count       int
	Used        int // that a position chooses
	FeedForward int // elements between the matrices of one
	Shared      int // elements between the matrices of an expert that all positions have; 0: there is none
	Routing     ops.Routing
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

// zero says that a key has the integer 0, as another way of not having it.
func (r *reader) zero(name string) bool {
	n, err := r.f.Int(r.key(name))
	return err == nil && n == 0
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
	c.Name, _ = f.Text("general.name")
	c.KVHeads = r.count("attention.head_count_kv", c.Heads, most)
	c.HeadSize = r.headSize(&c)
	if r.err == nil && c.Heads%c.KVHeads != 0 {
		r.fail("attention.head_count_kv", "is %d, which does not divide the %d heads", c.KVHeads, c.Heads)
	}
	r.rope(&c)
	r.experts(&c, a.experts)
	r.pooling(&c)
	if r.err != nil {
		return Config{}, r.err
	}
	return c, nil
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
	if !always && (!r.has("expert_count") || r.zero("expert_count")) {
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
	if !r.has(key) || r.zero(key) {
		return
	}
	if c.Pooling = Pooling(r.count(key, 0, math.MaxUint8)); c.Pooling >= numPoolings {
		r.fail(key, "is %d; this version knows 0 to %d: %s", c.Pooling, numPoolings-1, strings.Join(poolings[:], ", "))
	}
}

// only refuses a number that is not the one that this version knows, and that files without the key mean.
func (r *reader) only(name string, known int, what string) {
	if n := r.count(name, known, math.MaxInt32); n != known {
		r.fail(name, "is %d; this version knows %d only, %s", n, known, what)
	}
}

// rope reads how positions rotate heads.
func (r *reader) rope(c *Config) {
	dims := r.count("rope.dimension_count", max(c.HeadSize, 1), most)
	if r.err == nil && (dims > c.HeadSize || dims%2 != 0) {
		r.fail("rope.dimension_count", "is %d; it must be an even number up to the head's %d elements", dims, c.HeadSize)
	}
	c.Rope = ops.Rotation{Dims: dims, Base: r.float("rope.freq_base", 10000), Scale: 1}
	if r.err == nil && c.Rope.Base <= 1 {
		r.fail("rope.freq_base", "is %v; it must be above 1", c.Rope.Base)
	}
	kind := "linear" // as files without a type mean it
	if r.has("rope.scaling.type") {
		if kind, r.err = r.f.Text(r.key("rope.scaling.type")); r.err != nil {
			return
		}
	}
	scale, ok := scalings[kind]
	if !ok {
		r.fail("rope.scaling.type", "is %q, an unknown rope type; this version knows none, linear and yarn", shorten(kind))
		return
	}
	scale(r, c)
}

// scalings are the rope types by their names in files.
var scalings = map[string]func(*reader, *Config){
	"none": func(*reader, *Config) {},
	"linear": func(r *reader, c *Config) {
		c.Rope.Scale = r.float("rope.scaling.factor", r.float("rope.scale_linear", 1))
	}, // the second key is the older one
	"yarn": (*reader).yarn,
}

func (r *reader) yarn(c *Config) {
	if r.has("rope.scaling.yarn_log_multiplier") {
		r.fail("rope.scaling.yarn_log_multiplier", "is not known to this version")
	}
	c.Rope.Scale = r.float("rope.scaling.factor", 1)
	c.Rope.YaRN = &ops.YaRN{
		Original:  r.count("rope.scaling.original_context_length", max(c.Context, 1), math.MaxInt32),
		Fast:      r.float("rope.scaling.yarn_beta_fast", 32),
		Slow:      r.float("rope.scaling.yarn_beta_slow", 1),
		Magnitude: r.float("rope.scaling.attn_factor", 1),
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
		sizePairs:      c.Rope.Dims / 2,
		sizeVocabulary: c.Vocabulary,
		sizeExperts:    c.Experts.Count,
		sizeExpert:     c.Experts.FeedForward,
		sizeShared:     c.Experts.Shared,
	}[s]
}

// positions is how many positions a session has by default: what the model was made for, at most 4096.
func (c *Config) positions(asked int) (int, error) {
	n := cmp.Or(asked, min(c.Context, 4096))
	if n < 1 || n > c.Context {
		return 0, errorf("option Context", "is %d; the model was made for 1 to %d positions", n, c.Context)
	}
	return n, nil
}
