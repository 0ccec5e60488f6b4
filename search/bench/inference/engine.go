package inference

import (
	"context"
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
)

// Loaded is a model in memory, with one sequence. It is an Engine.
type Loaded struct {
	model   *model.Model
	session *model.Session
	alone   *Alone
	times   *model.Times // since the model was loaded
	item    []model.Item
	tokens  []int32
}

// Load reads the weights of a file twice: for the model, and for its products alone. opt says how the model runs; its Times and
// Progress are replaced. progress gets the bytes that are done and all bytes.
func Load(f *gguf.File, kernels model.Kernels, opt model.Options, progress func(done, total int64)) (*Loaded, error) {
	x, err := LoadModel(f, kernels, opt, func(done, total int64) { progress(done, 2*total) })
	if err != nil {
		return nil, err
	}
	x.alone, err = NewAlone(f, kernels.Product, opt.Threads, func(done, total int64) { progress(total+done, 2*total) })
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// LoadModel is Load without the products alone, which the Engine then does not have.
func LoadModel(f *gguf.File, kernels model.Kernels, opt model.Options, progress func(done, total int64)) (*Loaded, error) {
	x := &Loaded{times: &model.Times{}, item: make([]model.Item, 1)}
	opt.Times, opt.Progress = x.times, progress
	var err error
	if x.model, err = model.New(f, kernels, opt); err != nil {
		return nil, err
	}
	if x.session, err = x.model.NewSession(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Memory is what the model takes.
func (x *Loaded) Memory() model.Memory { return x.model.Memory() }

// Logits is the logits after the last token of the last Forward. They hold until the next one.
func (x *Loaded) Logits() []float32 { return x.item[0].Logits }

// Close frees the model.
func (x *Loaded) Close() error {
	return errors.Join(x.alone.Close(), x.session.Close(), x.model.Close())
}

// Vocabulary is the number of tokens that there are.
func (x *Loaded) Vocabulary() int { return x.model.Config().Vocabulary }

// Truncate is Engine.Truncate.
func (x *Loaded) Truncate(n int) error { return x.session.Truncate(context.Background(), n) }

// Products is Engine.Products.
func (x *Loaded) Products(n int) error { return x.alone.Products(n) }

// Forward is Engine.Forward.
func (x *Loaded) Forward(ctx context.Context, tokens []int) (Parts, error) {
	x.tokens = x.tokens[:0]
	for _, t := range tokens {
		x.tokens = append(x.tokens, int32(t))
	}
	x.item[0] = model.Item{Session: x.session, Tokens: x.tokens}
	before := *x.times
	err := x.model.Forward(ctx, x.item)
	now := *x.times
	return Parts{
		Products: now.Products - before.Products, Attention: now.Attention - before.Attention,
		Rest: now.Rest - before.Rest, Head: now.Head - before.Head,
	}, err
}

// Describe returns what records say of a file's model.
func Describe(file string, f *gguf.File, cache model.CacheType) Model {
	m := Model{File: file, Cache: cacheNames[cache], Values: cacheNames[cache]}
	head, types := headOf(f), map[string]int64{}
	for i := range f.Tensors {
		x := &f.Tensors[i]
		m.Size += x.Size
		m.Parameters += int64(x.Elements())
		if n := int64(perToken(f, x, head)); n > 0 {
			m.Weights += x.Size / int64(x.Matrices()) * n
			m.MACs += int64(x.Elements()/x.Matrices()) * n
		}
		if x != head {
			types[x.TypeName()] += x.Size
		}
	}
	if head != nil {
		m.Head = int64(head.Elements())
	}
	arch, _ := f.Text("general.architecture")
	m.Kind = fmt.Sprintf("%s %s %s", arch, billions(m.Parameters), largest(types))
	return m
}

var cacheNames = map[model.CacheType]string{model.CacheF16: "f16", model.CacheF32: "f32", model.CacheQ8: "q8"}

// billions is a number of parameters as names of models have it: "2.4B", "360M".
func billions(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%dM", (n+5e5)/1e6)
	}
	return fmt.Sprintf("%.1fB", float64(n)/1e9)
}

// largest is the name with the most bytes, the first one of several.
func largest(bytes map[string]int64) (name string) {
	for n, size := range bytes {
		if best, ok := bytes[name]; !ok || size > best || size == best && n < name {
			name = n
		}
	}
	return name
}
