// Package perplexity measures how well a model predicts a text, and how far its predictions are from another model's, by the
// procedure of llama.cpp's llama-perplexity:
//
// A text is cut into chunks of Options.Context tokens; an incomplete one at the end is dropped. Each chunk is a sequence of
// its own, and its first token is replaced by BOS where the model begins texts with it. Predictions count in the second half of a
// chunk: the logits of positions n/2 to n-2 predict tokens n/2+1 to n-1. The perplexity is the exponential of the mean negative
// log-likelihood, in nats.
//
// [Measure] does this for a text, and saves the predictions if asked to. [Compare] compares predictions with saved ones.
// Sums are of float64 in the order of the text, so that figures have the same bits on every machine, for any number of threads.
package perplexity

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/runtime/pool"
)

// UsualContext is the tokens of a chunk unless told otherwise.
const UsualContext = 512

// leastContext is the tokens of the shortest chunk that predicts a token.
const leastContext = 3

// Options say how a text is measured. The zero value is usual.
type Options struct {
	Context   int       // tokens of a chunk, 0: UsualContext; Compare takes the base's number
	Chunks    int       // to compute at most, 0: all
	Sequences int       // chunks that are computed together, 0: 1024 tokens. Figures do not depend on it
	Threads   int       // for probabilities, as model.Options counts them
	Save      io.Writer // of Measure: gets the predictions, for Compare; nil: nobody
	// Progress, unless nil, is called after each chunk with the figures so far, and with the number of chunks in all.
	Progress func(r *Result, chunks int)
}

// Begin is the token that a model's texts begin with, or token.None.
func Begin(t *token.Tokenizer) int32 {
	if ids := t.Encode("", token.Options{}); len(ids) > 0 {
		return ids[0]
	}
	return token.None
}

// Measure measures the tokens of a text by m. begin is the token that replaces the first one of each chunk, or token.None.
func Measure(ctx context.Context, m *model.Model, tokens []int32, begin int32, opt Options) (*Result, error) {
	n := cmp.Or(opt.Context, UsualContext)
	if n < leastContext {
		return nil, fmt.Errorf("perplexity: chunks of %d tokens: want %d or more", n, leastContext)
	}
	if len(tokens) < n {
		return nil, fmt.Errorf("perplexity: the text has %d tokens, and a chunk has %d: give a longer text or a smaller context", len(tokens), n)
	}
	x, err := newMeasurement(m, tokens, begin, n, opt)
	if err != nil {
		return nil, err
	}
	if opt.Save != nil {
		if x.save, err = newSaver(opt.Save, n, m.Config().Vocabulary, x.tokens); err != nil {
			return nil, err
		}
	}
	return x.run(ctx)
}

// Compare measures the text of a base by m, and compares the predictions with the base's. begin is as for Measure.
func Compare(ctx context.Context, m *model.Model, base *Base, begin int32, opt Options) (*Result, error) {
	if have := m.Config().Vocabulary; have != base.Vocabulary {
		return nil, baseErrorf("is of a model with %d tokens in its vocabulary, and this model has %d", base.Vocabulary, have)
	}
	x, err := newMeasurement(m, base.Tokens, begin, base.Context, opt)
	if err != nil {
		return nil, err
	}
	x.base = base
	x.result.Base = &Comparison{}
	return x.run(ctx)
}

// measurement is the state of Measure or Compare.
type measurement struct {
	model  *model.Model
	opt    Options
	begin  int32
	tokens []int32 // of whole chunks
	size   int     // tokens of a chunk
	save   *saver  // or nil
	base   *Base   // or nil
	lanes  []lane
	slots  []slot // of the chunks that are computed together
	sums   sums
	result Result
	items  []model.Item
	// Of the present step: where in their chunks its tokens are, and how many.
	at, n int
}

// slot is the predictions of one chunk.
type slot struct {
	tokens []int32
	values []value
	rows   []row // saved, or of the base
}

func newMeasurement(m *model.Model, tokens []int32, begin int32, size int, opt Options) (*measurement, error) {
	if size > m.Context() {
		return nil, fmt.Errorf("perplexity: chunks of %d tokens, and sessions of the model have at most %d: open it with a longer context", size, m.Context())
	}
	chunks := len(tokens) / size
	if opt.Chunks > 0 {
		chunks = min(chunks, opt.Chunks)
	}
	x := &measurement{model: m, opt: opt, begin: begin, tokens: tokens[:chunks*size], size: size}
	together := min(cmp.Or(opt.Sequences, max(1, 1024/size)), chunks)
	for range together {
		x.slots = append(x.slots, slot{values: make([]value, counted(size))})
	}
	x.lanes = make([]lane, pool.Threads(cmp.Or(opt.Threads, runtime.AllThreads)))
	return x, nil
}

// counted is how many predictions of a chunk count.
func counted(size int) int { return size - size/2 - 1 }

// run computes all chunks.
func (x *measurement) run(ctx context.Context) (*Result, error) {
	chunks := len(x.tokens) / x.size
	for first := 0; first < chunks; first += len(x.slots) {
		slots := x.slots[:min(len(x.slots), chunks-first)]
		for i := range slots {
			slots[i].tokens = x.tokens[(first+i)*x.size:][:x.size]
		}
		if err := x.together(ctx, slots); err != nil {
			return nil, err
		}
		for i := range slots {
			if err := x.deliver(&slots[i]); err != nil {
				return nil, err
			}
			if x.opt.Progress != nil {
				x.opt.Progress(&x.result, chunks)
			}
		}
	}
	if x.base != nil {
		x.result.Base.distribute(x.sums.divergences, x.sums.deltas)
	}
	return &x.result, nil
}

// together computes the predictions of several chunks.
func (x *measurement) together(ctx context.Context, slots []slot) error {
	for i := range slots {
		if err := x.prepare(&slots[i]); err != nil {
			return err
		}
	}
	sessions := make([]*model.Session, len(slots))
	defer func() {
		for _, s := range sessions {
			s.Close()
		}
	}()
	for i := range sessions {
		s, err := x.model.NewSession()
		if err != nil {
			return err
		}
		sessions[i] = s
	}
	return x.compute(ctx, slots, sessions)
}

// prepare makes room for the rows of a chunk, or reads the base's.
func (x *measurement) prepare(s *slot) error {
	if x.save == nil && x.base == nil {
		return nil
	}
	for len(s.rows) < len(s.values) {
		s.rows = append(s.rows, row{codes: make([]uint16, x.model.Config().Vocabulary)})
	}
	if x.base != nil {
		return x.base.read(s.rows)
	}
	return nil
}

// mostLogits bounds the memory of the logits of a step, in bytes.
const mostLogits = 64 << 20

// compute feeds chunks to sessions. No position needs logits in the first half, and the last token predicts none that is known.
func (x *measurement) compute(ctx context.Context, slots []slot, sessions []*model.Session) error {
	first, end := x.size/2, x.size-1
	if err := x.step(ctx, slots, sessions, 0, first, model.WantNone); err != nil {
		return err
	}
	most := max(1, mostLogits/(4*x.model.Config().Vocabulary*len(slots)))
	for at := first; at < end; at += most {
		if err := x.step(ctx, slots, sessions, at, min(most, end-at), model.WantAll); err != nil {
			return err
		}
		pool.Run(x, len(slots)*x.n, 1, len(x.lanes))
	}
	return nil
}

// step computes n tokens of each chunk from number at on.
func (x *measurement) step(ctx context.Context, slots []slot, sessions []*model.Session, at, n int, want model.Want) error {
	x.at, x.n, x.items = at, n, x.items[:0]
	for i, s := range sessions {
		tokens := slots[i].tokens[at : at+n]
		if at == 0 && x.begin != token.None {
			tokens = append([]int32{x.begin}, tokens[1:]...)
		}
		x.items = append(x.items, model.Item{Session: s, Tokens: tokens, Want: want})
	}
	return x.model.Forward(ctx, x.items)
}

// Do judges predictions of the present step: number i is of token i % n of chunk i / n. It is for package pool.
func (x *measurement) Do(lane, first, end int) {
	vocabulary := x.model.Config().Vocabulary
	for i := first; i < end; i++ {
		s, at := &x.slots[i/x.n], x.at+i%x.n
		logits := x.items[i/x.n].Logits[i%x.n*vocabulary:][:vocabulary]
		next, to := s.tokens[at+1], at-x.size/2
		switch {
		case x.base != nil:
			s.values[to] = x.lanes[lane].compare(logits, &s.rows[to], next)
		case x.save != nil:
			s.values[to] = x.lanes[lane].encode(logits, &s.rows[to], next)
		default:
			s.values[to] = x.lanes[lane].judge(logits, next)
		}
	}
}

// deliver adds the values of a chunk to the figures, in the order of the text.
func (x *measurement) deliver(s *slot) error {
	for i := range s.values {
		x.sums.add(&s.values[i], x.base != nil)
	}
	x.result.Chunks++
	x.result.Tokens += len(s.values)
	x.result.Perplexity = x.sums.nll.estimate().exponential()
	x.result.NLL = x.sums.nll.estimate()
	if x.base != nil {
		x.sums.compare(x.result.Base)
	}
	if x.save != nil {
		return x.save.write(s.rows)
	}
	return nil
}
