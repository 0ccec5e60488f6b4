// Package generation continues a text by a model, token by token.
package generation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/sample"
	"github.com/tmacc/tmacc/runtime/model/token"
)

// Options say how a text goes on. The zero value is usual: by the likeliest tokens, up to the end of the context.
type Options struct {
	Tokens  int                     // to add at most, 0: until the context is full
	Sampler *sample.Sampler         // nil: the likeliest tokens
	Text    func(text []byte) error // gets the text that is added, as it comes, in whole characters; nil: nobody
}

// End says why a text ended.
type End string

// The ends of a text.
const (
	Stopped     End = "stop"        // the model has nothing more to say
	Enough      End = "length"      // Options.Tokens were added
	Full        End = "context"     // the session has no more room
	Interrupted End = "interrupted" // the context has ended
)

// Report says what was done.
type Report struct {
	Prompt  int           // tokens of the text
	Tokens  int           // that were added
	Prefill time.Duration // from the text to the first logits
	Decode  time.Duration // for the tokens after the first
	End     End
}

// PrefillSpeed is the tokens of the text per second, 0 if there were none.
func (r *Report) PrefillSpeed() float64 { return speed(r.Prompt, r.Prefill) }

// DecodeSpeed is the tokens per second after the first token, 0 if there were none.
func (r *Report) DecodeSpeed() float64 { return speed(r.Tokens-1, r.Decode) }

func speed(n int, took time.Duration) float64 {
	if n < 1 || took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// Continue adds the tokens of a text to a session of m, and then new ones. When ctx ends, so does the text, which is no
// error. An error comes with a report of what was done before.
func Continue(ctx context.Context, m *model.Model, s *model.Session, t *token.Tokenizer, text string, opt Options) (*Report, error) {
	if opt.Sampler == nil {
		opt.Sampler, _ = sample.New(0, 0)
	}
	prompt := t.Encode(text, token.Options{})
	if len(prompt) == 0 {
		return &Report{}, errors.New("the text to continue is empty, and the model has no token to begin with: give a text")
	}
	g := &generator{model: m, session: s, tokenizer: t, decoder: t.Decoder(false), Options: opt}
	err := g.run(ctx, prompt)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		g.report.End, err = Interrupted, nil
	}
	if err == nil {
		err = g.say(g.decoder.Flush())
	}
	return &g.report, err
}

// generator is a text in the making.
type generator struct {
	Options
	model     *model.Model
	session   *model.Session
	tokenizer *token.Tokenizer
	decoder   *token.Decoder
	items     [1]model.Item
	report    Report
}

// run computes the logits of the prompt, and then those of each new token.
func (g *generator) run(ctx context.Context, prompt []int32) error {
	if room := g.room(); len(prompt) > room {
		return fmt.Errorf("the text has %d tokens, and the context has room for %d: give a shorter text or a longer context", len(prompt), room)
	}
	began := time.Now()
	logits, err := g.forward(ctx, prompt)
	if err == nil {
		g.report.Prompt, g.report.Prefill = len(prompt), time.Since(began)
	}
	began = time.Now()
	for err == nil {
		id := g.Sampler.Next(logits)
		if g.tokenizer.EndOfGeneration(id) {
			g.report.End = Stopped
			return nil
		}
		g.report.Tokens++
		g.report.Decode = time.Since(began)
		if err := g.say(g.decoder.Write(id)); err != nil {
			return err
		}
		switch {
		case g.Tokens > 0 && g.report.Tokens >= g.Tokens:
			g.report.End = Enough
			return nil
		case g.room() == 0:
			g.report.End = Full
			return nil
		}
		logits, err = g.forward(ctx, []int32{id})
	}
	return err
}

// forward is the logits after some tokens.
func (g *generator) forward(ctx context.Context, tokens []int32) ([]float32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.items[0] = model.Item{Session: g.session, Tokens: tokens}
	err := g.model.Forward(ctx, g.items[:])
	return g.items[0].Logits, err
}

// room is how many tokens the session can take.
func (g *generator) room() int { return g.model.Context() - g.session.Len() }

// say hands text on.
func (g *generator) say(text []byte) error {
	if g.Text == nil || len(text) == 0 {
		return nil
	}
	return g.Text(text)
}
