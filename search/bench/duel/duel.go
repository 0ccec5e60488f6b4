// Package duel measures whole models beside llama.cpp in alternating rounds, with llama-bench's tests. Each side has the machine for
// itself in its turns: llama.cpp runs in a process of its own, which sleeps meanwhile.
package duel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/search/timing"
)

// Turn is what a side did at one call.
type Turn struct {
	Steps []time.Duration // of a prompt in one piece, or of each generated token
	Parts inference.Parts // of ours
	Idle  llama.Idle      // of the process between its turns, of theirs
}

// Side runs one sequence of a model.
type Side interface {
	// Fill makes the context hold n tokens, which begin with the given ones.
	Fill(ctx context.Context, tokens []int32, n int) error
	// Run evaluates tokens after the first `keep` of the context: in one piece, or one by one.
	Run(ctx context.Context, keep int, tokens []int32, together bool) (Turn, error)
}

// A row that takes longer than slowest for each token on either side is one round of fewTokens. A prompt that takes longer than
// warmest is not evaluated once more before the first round.
const (
	slowest   = 5 * time.Second
	fewTokens = 16
	warmest   = 20 * time.Second
	// filled is how many tokens of a context are evaluated on both sides. llama.cpp repeats their keys and values.
	filled = 64
	// readsPerTurn is how many samples of reading memory follow each turn.
	readsPerTurn = 3
)

// Duel measures two sides beside reading memory.
type Duel struct {
	Ours       Side
	Theirs     Side
	Vocabulary int           // tokens that there are
	Rounds     int           // of each test
	Read       measure.Probe // of memory; nothing is measured if its Run is nil
	MinProbe   time.Duration // least time of a sample of it
	Energy     *Energy       // nil: not known
}

// side is what a test has measured of one side.
type side struct {
	Side
	totals, steps []time.Duration
	parts         inference.Parts
	idle          llama.Idle // of this side during the other side's turns
	joules        float64
}

// Result is what a test has measured.
type Result struct {
	inference.Test         // as it was run
	Short          bool    // it is shorter than it was asked for, as a token takes too long
	Slow           float64 // seconds that a token took before the first round, of the slower side
	Read           []float64
	ours, theirs   side
	fault          error // of theirs
}

// Run measures a test. It calls begin before each turn. The error is of ours, or of ctx; what goes wrong on their side is a part of
// the result.
func (d *Duel) Run(ctx context.Context, t inference.Test, begin func(text string)) (*Result, error) {
	r := &Result{Test: t, ours: side{Side: d.Ours}, theirs: side{Side: d.Theirs}}
	rng := rand.New(rand.NewPCG(uint64(t.Depth), uint64(t.Prompt+t.Generate)))
	begin("warming up")
	if err := d.prepare(ctx, r, rng); err != nil {
		return nil, err
	}
	rounds := d.Rounds
	if r.Short {
		rounds = 1
	}
	for i := range rounds {
		begin(fmt.Sprintf("round %d of %d", i+1, rounds))
		if err := d.round(ctx, r, rng, i%2 == 1); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// both calls f with both sides. An error of theirs is kept, and they get no more calls.
func (r *Result) both(ctx context.Context, swapped bool, f func(x *side) error) error {
	order := []*side{&r.ours, &r.theirs}
	if swapped {
		order[0], order[1] = order[1], order[0]
	}
	for _, x := range order {
		if x == &r.theirs && (r.fault != nil || x.Side == nil) {
			continue
		}
		err := f(x)
		if err == nil {
			continue
		}
		if x == &r.ours || ctx.Err() != nil {
			return err
		}
		r.fault = err
	}
	return ctx.Err()
}

// prepare fills the contexts up to the depth of the test, and evaluates some tokens untimed. It shortens a test that is too slow.
func (d *Duel) prepare(ctx context.Context, r *Result, rng *rand.Rand) error {
	begin := d.draw(rng, min(filled, r.Depth))
	if err := r.both(ctx, false, func(x *side) error { return x.Fill(ctx, begin, r.Depth) }); err != nil {
		return err
	}
	together, n := r.Prompt > 0, 1
	if together {
		n = min(r.Prompt, fewTokens)
	}
	slow := time.Duration(0)
	for range 2 { // the first one takes memory
		slow = 0
		tokens := d.draw(rng, n)
		if err := r.both(ctx, false, func(x *side) error {
			turn, err := x.Run(ctx, r.Depth, tokens, together)
			slow = max(slow, sum(turn.Steps)/time.Duration(n))
			return err
		}); err != nil {
			return err
		}
	}
	r.Slow = slow.Seconds()
	if slow > slowest {
		r.Short = r.Prompt+r.Generate > fewTokens
		r.Prompt, r.Generate = min(r.Prompt, fewTokens), min(r.Generate, fewTokens)
		return nil
	}
	if !together || slow*time.Duration(r.Prompt) > warmest {
		return nil
	}
	tokens := d.draw(rng, r.Prompt)
	return r.both(ctx, false, func(x *side) error {
		_, err := x.Run(ctx, r.Depth, tokens, true)
		return err
	})
}

// draw draws n tokens.
func (d *Duel) draw(rng *rand.Rand, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = rng.Int32N(int32(d.Vocabulary))
	}
	return tokens
}

func sum(all []time.Duration) (total time.Duration) {
	for _, d := range all {
		total += d
	}
	return total
}

// round lets both sides evaluate the same tokens, one side after the other. Memory is read after each turn.
func (d *Duel) round(ctx context.Context, r *Result, rng *rand.Rand, swapped bool) error {
	tokens := d.draw(rng, r.Prompt+r.Generate)
	return r.both(ctx, swapped, func(x *side) error {
		before, start, used := d.Energy.read(), time.Now(), timing.ProcessTime()
		turn, err := x.Run(ctx, r.Depth, tokens, r.Prompt > 0)
		if err != nil {
			return err
		}
		if x == &r.theirs {
			r.ours.idle = plus(r.ours.idle, llama.Idle{Time: time.Since(start), CPU: timing.ProcessTime() - used})
			r.theirs.idle = plus(r.theirs.idle, turn.Idle)
		}
		x.joules += d.Energy.since(before)
		x.totals, x.steps = append(x.totals, sum(turn.Steps)), append(x.steps, turn.Steps...)
		x.parts = x.parts.Plus(turn.Parts)
		d.read(r)
		return nil
	})
}

func plus(a, b llama.Idle) llama.Idle { return llama.Idle{Time: a.Time + b.Time, CPU: a.CPU + b.CPU} }

// read appends samples of the rate of reading memory.
func (d *Duel) read(r *Result) {
	for range readsPerTurn {
		if d.Read.Run != nil {
			r.Read = append(r.Read, inference.Sample(d.Read, d.MinProbe, time.Now))
		}
	}
}
