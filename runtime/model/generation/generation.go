// Package generation continues a text by a model, token by token.
package generation

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Stop    []string                // the text ends before the first of them
	// Shift lets a text go on when the context is full. The first Keep tokens stay: all of the given text if Keep is negative, and if it is
	// 0 the token that texts begin with. Of the others the first half is forgotten, and the second half is computed again, at its new positions.
	Shift bool
	Keep  int
}

// End says why a text ended.
type End string

// The ends of a text.
const (
	Stopped     End = "stop"        // the model has nothing more to say, or a stop string came
	Enough      End = "length"      // Options.Tokens were added
	Full        End = "context"     // the text and its continuation fill the context
	Interrupted End = "interrupted" // the context has ended
)

// Report says what was done.
type Report struct {
	Kept      int           // tokens that the session had already
	Prompt    int           // tokens of the text that were computed
	Tokens    int           // that were added
	Forgotten int           // tokens that made room for others, by Options.Shift
	Prefill   time.Duration // from the text to the first logits
	Decode    time.Duration // for the tokens after the first
	End       End
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
	bos := token.BOSAsModel
	if s.Len() > 0 {
		bos = token.BOSNever
	}
	added := t.Encode(text, token.Options{BOS: bos})
	if len(added) == 0 {
		return &Report{}, errors.New("the text to continue is empty, and the model has no token to begin with: give a text")
	}
	return Tokens(ctx, m, s, t, append(slices.Clone(s.Tokens()), added...), opt)
}

// Tokens is Continue from the tokens of a whole text. It keeps those at the beginning that the session has already, forgets
// the others that it has, and computes the rest.
func Tokens(ctx context.Context, m *model.Model, s *model.Session, t *token.Tokenizer, ids []int32, opt Options) (*Report, error) {
	if len(ids) == 0 {
		return &Report{}, errors.New("there are no tokens to continue: give a text")
	}
	if n, most := len(ids), m.Context(); n >= most {
		return &Report{}, fmt.Errorf("the text has %d tokens, and a context of %d has room for %d and a new one: give a shorter text or a longer context", n, most, most-1)
	}
	stops, err := newStops(opt.Stop)
	if err != nil {
		return &Report{}, err
	}
	if opt.Sampler == nil {
		opt.Sampler, _ = sample.New(sample.Options{})
	}
	g := &generator{model: m, session: s, tokenizer: t, decoder: t.Decoder(false), stops: stops, Options: opt}
	err = g.run(ctx, ids)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		g.report.End, err = Interrupted, nil
	}
	if err == nil {
		err = g.flush()
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
	stops     *stops
	stopped   bool // by a stop string
	items     [1]model.Item
	last      [1]int32 // the last token
	report    Report
}

// run computes the logits of the tokens, and then the logits after each new token.
func (g *generator) run(ctx context.Context, ids []int32) error {
	began := time.Now()
	logits, err := g.prefill(ctx, ids)
	if err == nil {
		g.report.Prefill = time.Since(began)
	}
	g.begin(ids)
	began = time.Now()
	for err == nil {
		id := g.Sampler.Next(logits)
		if g.ends(id) {
			return g.end(id)
		}
		g.report.Tokens++
		g.report.Decode = time.Since(began)
		if err := g.say(g.decoder.Write(id)); err != nil {
			return err
		}
		if g.report.End = g.limit(); g.report.End != "" {
			return nil
		}
		g.last[0] = id
		logits, err = g.next(ctx)
	}
	return err
}

// prefill is the logits after the tokens of the text. It computes those that the session lacks, at least the last one.
func (g *generator) prefill(ctx context.Context, ids []int32) ([]float32, error) {
	kept := 0
	for has := g.session.Tokens(); kept < min(len(has), len(ids)-1) && has[kept] == ids[kept]; {
		kept++
	}
	if kept < g.session.Len() {
		if err := g.session.Truncate(ctx, kept); err != nil {
			return nil, err
		}
	}
	logits, err := g.forward(ctx, ids[kept:])
	if err == nil {
		g.report.Kept, g.report.Prompt = kept, len(ids)-kept
	}
	return logits, err
}

// begin tells the sampler of the text, and how many tokens may come.
func (g *generator) begin(ids []int32) {
	g.Sampler.Reset()
	g.Sampler.Accept(ids...)
	switch left := g.room() + 1; {
	case g.Tokens > 0 && (g.Shift || g.Tokens < left):
		g.Sampler.Limit(g.Tokens)
	case !g.Shift:
		g.Sampler.Limit(left)
	}
}

// ends reports whether the model has no token to add.
func (g *generator) ends(id int32) bool { return id == sample.None || g.tokenizer.EndOfGeneration(id) }

// end ends the text after such a choice.
func (g *generator) end(id int32) error {
	if id == sample.None && !g.Sampler.MayEnd() {
		if err := g.Sampler.Err(); err != nil {
			return err
		}
		return errors.New("no token can come next: all logits are -Inf or no numbers, or tokens that may come are forbidden")
	}
	g.report.End = Stopped
	return nil
}

// limit is why no more tokens may come, if so. A text that a mask lets end here is complete.
func (g *generator) limit() End {
	enough := g.Tokens > 0 && g.report.Tokens >= g.Tokens
	full := g.room() == 0 && !g.shifts()
	switch {
	case g.stopped, (enough || full) && g.Sampler.MayEnd():
		return Stopped
	case enough:
		return Enough
	case full:
		return Full
	}
	return ""
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

// room is how many tokens the context can take behind the one that comes next, which the session has not got yet.
func (g *generator) room() int { return g.model.Context() - g.session.Len() - 1 }

// say hands text on that is sure to come before a stop string.
func (g *generator) say(text []byte) error {
	sure, found := g.stops.write(text)
	g.stopped = found
	return g.hand(sure)
}

// flush hands on what was held back.
func (g *generator) flush() error {
	if g.stopped {
		return nil
	}
	if err := g.say(g.decoder.Flush()); err != nil {
		return err
	}
	if g.stopped {
		g.report.End = Stopped
		return nil
	}
	return g.hand(g.stops.held)
}

func (g *generator) hand(text []byte) error {
	if g.Text == nil || len(text) == 0 {
		return nil
	}
	return g.Text(text)
}
