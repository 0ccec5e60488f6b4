// Package inference measures whole models with the tests and the conventions of llama-bench: prompts, generated tokens, both at a
// depth of the context, tokens per second without tokenizing and sampling. In the same run, in turn with the model, it measures
// the model's products alone and what the machine can do.
package inference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tmacc/tmacc/search/measure"
)

// Test is what one line of the result measures: the evaluation of a prompt in one piece, or of generated tokens one by one.
type Test struct {
	Prompt   int // tokens, 0: none
	Generate int // tokens, 0: none
	Depth    int // tokens that the context has before
}

// Name is the name that llama-bench gives the test: "pp512", "tg128", "tg128 @ d4096".
func (t Test) Name() string {
	name := fmt.Sprintf("tg%d", t.Generate)
	if t.Prompt > 0 {
		name = fmt.Sprintf("pp%d", t.Prompt)
	}
	if t.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", t.Depth)
	}
	return name
}

// tokens is the number of tokens that the test evaluates.
func (t Test) tokens() int { return t.Prompt + t.Generate }

// Tests lists the tests of all depths: at each depth the prompts, then the generations. Lengths of 0 are left out.
func Tests(prompts, generations, depths []int) (all []Test) {
	for _, d := range depths {
		for _, n := range prompts {
			if n > 0 {
				all = append(all, Test{Prompt: n, Depth: d})
			}
		}
		for _, n := range generations {
			if n > 0 {
				all = append(all, Test{Generate: n, Depth: d})
			}
		}
	}
	return all
}

// Longest is the number of tokens that the context must hold for all tests.
func Longest(tests []Test) (n int) {
	for _, t := range tests {
		n = max(n, t.Depth+t.tokens())
	}
	return n
}

// Parts is the time of a model's parts.
type Parts struct {
	Products  time.Duration // of the layers' weights, quantization of activations included
	Attention time.Duration
	Rest      time.Duration // norms, positions, activation functions, rows of the embedding
	Head      time.Duration // the product with the output matrix
}

// Plus adds other parts.
func (p Parts) Plus(q Parts) Parts {
	return Parts{p.Products + q.Products, p.Attention + q.Attention, p.Rest + q.Rest, p.Head + q.Head}
}

// Engine runs one sequence of a model with one number of threads.
type Engine interface {
	// Truncate keeps the first n tokens of the context.
	Truncate(n int) error
	// Forward evaluates tokens after the context and computes the logits after the last of them. It returns the time of its parts.
	Forward(ctx context.Context, tokens []int) (Parts, error)
	// Products multiplies every matrix once as Forward of n tokens does, and does nothing else.
	Products(n int) error
}

// Machine is what a machine can do with one number of threads, as probes that run beside the model. A probe whose Run is nil is
// left out.
type Machine struct {
	Read measure.Probe // of memory, in GB/s
	Dot  measure.Probe // of products of int8, in GMAC/s
	// ReadGBS, unless 0, is the rate of reading memory, measured before, and Read is left out.
	ReadGBS float64
}

// Bench measures an engine beside a machine.
type Bench struct {
	Engine      Engine
	Machine     Machine
	Vocabulary  int           // tokens that there are
	Repetitions int           // of each test
	MinProbe    time.Duration // least time of a probe's sample
	Now         func() time.Time
}

// Run measures a test. It calls begin before each repetition. When ctx ends, it returns the error of ctx after the tokens that it is at.
func (b *Bench) Run(ctx context.Context, t Test, begin func(repetition int)) (Samples, error) {
	s := Samples{Test: t}
	rng := rand.New(rand.NewPCG(uint64(t.Depth), uint64(t.tokens())))
	if err := b.warm(ctx, t, rng); err != nil {
		return s, err
	}
	for i := range b.Repetitions {
		begin(i)
		if err := b.Engine.Truncate(t.Depth); err != nil {
			return s, err
		}
		if err := b.repeat(ctx, t, rng, &s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// warm fills the context up to the depth of the test, and runs the test's first step once, untimed.
func (b *Bench) warm(ctx context.Context, t Test, rng *rand.Rand) error {
	if err := b.Engine.Truncate(0); err != nil {
		return err
	}
	if t.Depth > 0 {
		if _, err := b.Engine.Forward(ctx, b.draw(rng, t.Depth)); err != nil {
			return err
		}
	}
	n := max(t.Prompt, 1)
	if _, err := b.Engine.Forward(ctx, b.draw(rng, n)); err != nil {
		return err
	}
	return b.Engine.Products(n)
}

// draw draws n tokens.
func (b *Bench) draw(rng *rand.Rand, n int) []int {
	tokens := make([]int, n)
	for i := range tokens {
		tokens[i] = rng.IntN(b.Vocabulary)
	}
	return tokens
}

// repeat measures one repetition of a test. A step is a prompt or one generated token. After each step it measures the products
// alone and the machine.
func (b *Bench) repeat(ctx context.Context, t Test, rng *rand.Rand, s *Samples) error {
	steps, n := 1, t.Prompt
	if n == 0 {
		steps, n = t.Generate, 1
	}
	total := time.Duration(0)
	for range steps {
		tokens := b.draw(rng, n)
		if err := ctx.Err(); err != nil {
			return err
		}
		start := b.Now()
		parts, err := b.Engine.Forward(ctx, tokens)
		took := b.Now().Sub(start)
		if err != nil {
			return err
		}
		start = b.Now()
		if err := b.Engine.Products(n); err != nil {
			return err
		}
		s.Products = append(s.Products, b.Now().Sub(start))
		s.Steps, s.Parts, total = append(s.Steps, took), s.Parts.Plus(parts), total+took
		if rate := b.Machine.ReadGBS; rate > 0 {
			s.Read = append(s.Read, rate)
		}
		b.probe(&s.Read, b.Machine.Read)
		if n > measure.MaxGEMV {
			b.probe(&s.Dot, b.Machine.Dot)
		}
	}
	s.Totals = append(s.Totals, total)
	return nil
}

// probe appends the rate of a probe to rates.
func (b *Bench) probe(rates *[]float64, p measure.Probe) {
	if p.Run != nil {
		*rates = append(*rates, Sample(p, b.MinProbe, b.Now))
	}
}

// Sample is the rate of a probe that runs for at least a time.
func Sample(p measure.Probe, least time.Duration, clock func() time.Time) float64 {
	start := clock()
	for runs := 1; ; runs++ {
		p.Run()
		if took := clock().Sub(start); took >= least {
			return p.Rate(float64(took) / float64(runs))
		}
	}
}
