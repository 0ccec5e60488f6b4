package generation

import (
	"context"
	"slices"
)

// stay is how many tokens at the beginning stay when the context is full.
func (g *generator) stay() int {
	tokens := g.session.Tokens()
	switch {
	case g.Keep < 0:
		return min(g.report.Kept+g.report.Prompt, len(tokens))
	case g.Keep == 0 && len(tokens) > 0 && tokens[0] == g.tokenizer.BOS():
		return 1
	}
	return min(g.Keep, len(tokens))
}

// shifts says that a full context can be made to have room.
func (g *generator) shifts() bool {
	return g.Shift && g.session.Len()-g.stay() >= 2
}

// next is the logits after the last token, which makes room for itself if it has to.
func (g *generator) next(ctx context.Context) ([]float32, error) {
	if g.room() > 0 || !g.shifts() {
		return g.forward(ctx, g.last[:])
	}
	keep := g.stay()
	rest := g.session.Tokens()[keep:]
	forgotten := len(rest) / 2
	again := append(slices.Clone(rest[forgotten:]), g.last[0])
	if err := g.session.Truncate(ctx, keep); err != nil {
		return nil, err
	}
	g.report.Forgotten += forgotten
	return g.forward(ctx, again)
}
