package duel

import (
	"context"
	"time"

	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure/llama"
)

// ours is a model of this runtime.
type ours struct {
	*inference.Loaded
	tokens []int
}

// Fill evaluates all tokens of the context: the given ones again and again.
func (x *ours) Fill(ctx context.Context, tokens []int32, n int) error {
	if err := x.Truncate(0); err != nil || n == 0 {
		return err
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = tokens[i%len(tokens)]
	}
	_, err := x.forward(ctx, all)
	return err
}

// Run is Side.Run.
func (x *ours) Run(ctx context.Context, keep int, tokens []int32, together bool) (t Turn, err error) {
	if err := x.Truncate(keep); err != nil {
		return t, err
	}
	n := 1
	if together {
		n = len(tokens)
	}
	for ; len(tokens) > 0; tokens = tokens[n:] {
		start := time.Now()
		parts, err := x.forward(ctx, tokens[:n])
		if err != nil {
			return t, err
		}
		t.Steps, t.Parts = append(t.Steps, time.Since(start)), t.Parts.Plus(parts)
	}
	return t, nil
}

// forward evaluates tokens in one piece.
func (x *ours) forward(ctx context.Context, tokens []int32) (inference.Parts, error) {
	x.tokens = x.tokens[:0]
	for _, t := range tokens {
		x.tokens = append(x.tokens, int(t))
	}
	return x.Forward(ctx, x.tokens)
}

// logits are the logits after tokens in an empty context.
func (x *ours) logits(ctx context.Context, tokens []int32) ([]float32, error) {
	if err := x.Fill(ctx, tokens, len(tokens)); err != nil {
		return nil, err
	}
	return x.Logits(), nil
}

// theirs is a model of llama.cpp's process.
type theirs struct{ *llama.Process }

// Run is Side.Run.
func (x theirs) Run(ctx context.Context, keep int, tokens []int32, together bool) (Turn, error) {
	run := x.Generate
	if together {
		run = x.Prompt
	}
	t, err := run(ctx, keep, tokens)
	return Turn{Steps: t.Steps, Idle: t.Idle}, err
}
