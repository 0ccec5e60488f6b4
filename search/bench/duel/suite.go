package duel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/llama"
)

// Suite is the tests of a model with several numbers of threads.
type Suite struct {
	File    *gguf.File
	Path    string // of the same file
	Name    string
	Kernels model.Kernels
	Cache   model.CacheType
	Tests   []inference.Test
	Threads []int
	Rounds  int
	Folder  string // of llama.cpp's libraries
}

// Run measures all tests with each number of threads. It calls step with what begins, and tell with each record.
func (s *Suite) Run(ctx context.Context, m *inference.Machines, step func(string), tell func(Record)) error {
	p := &partner{suite: s}
	defer p.close()
	for _, threads := range s.Threads {
		machine, err := m.With(threads)
		if err != nil {
			return err
		}
		if err := s.with(ctx, p, threads, machine, step, func(r Record) {
			r.CPU = m.Host()
			tell(r)
		}); err != nil {
			return err
		}
	}
	return nil
}

// with measures all tests with a number of threads.
func (s *Suite) with(ctx context.Context, p *partner, threads int, machine inference.Machine, step func(string), tell func(Record)) error {
	opt := model.Options{Threads: threads, Context: inference.Longest(s.Tests), Cache: s.Cache}
	x, err := inference.LoadModel(s.File, s.Kernels, opt, func(done, total int64) {
		step(fmt.Sprintf("reading %s, %d %%", s.Name, 100*done/max(total, 1)))
	})
	if err != nil {
		return err
	}
	defer x.Close()
	d := &Duel{
		Ours: &ours{Loaded: x}, Vocabulary: x.Vocabulary(), Rounds: s.Rounds,
		Read: machine.Read, MinProbe: bench.MinSample[measure.ModeDRAM], Energy: NewEnergy(os.DirFS("/")),
	}
	for _, t := range s.Tests {
		r, err := s.test(ctx, d, p, t, threads, step)
		if err != nil {
			return err
		}
		tell(r)
	}
	return nil
}

// test measures one test.
func (s *Suite) test(ctx context.Context, d *Duel, p *partner, t inference.Test, threads int, step func(string)) (Record, error) {
	what := fmt.Sprintf("%s, threads %d, %s", s.Name, threads, t.Name())
	began := time.Now().UTC().Format(time.RFC3339)
	step(what + ": loading it by llama.cpp")
	process, fault := p.ready(ctx, d.Ours.(*ours), threads)
	if ctx.Err() != nil {
		return Record{}, ctx.Err()
	}
	if d.Theirs = nil; fault == nil {
		d.Theirs = theirs{process}
	}
	result, err := d.Run(ctx, t, func(text string) { step(what + ": " + text) })
	if err != nil {
		return Record{}, err
	}
	result.fault = errors.Join(fault, result.fault)
	r := result.Record(inference.Describe(s.Name, s.File, s.Cache), threads)
	r.Commit, r.Time, r.Peer, r.Energy = bench.Commit(), began, p.peer, EnergyUnknown
	if d.Energy != nil {
		r.Energy = EnergyKnown
	}
	return r, nil
}

// partner is llama.cpp's process with the model.
type partner struct {
	suite   *Suite
	process *llama.Process // nil: not started
	peer    Peer
	fault   error // why there is none, and never will be
}

// mostDifference is how far the logits of the same model may differ: both sides round activations to 8 bits, each in its way.
const mostDifference = 0.1

// agreeTokens is how many tokens the prompt has whose logits are compared.
const agreeTokens = 8

// ready returns a process that has loaded the model and has a number of threads. It starts another one if the last has ended. What
// goes wrong while a model is loaded does so once only.
func (p *partner) ready(ctx context.Context, x *ours, threads int) (*llama.Process, error) {
	if p.fault != nil {
		return nil, p.fault
	}
	if p.process != nil && p.process.Ended() {
		p.close()
	}
	if p.process == nil {
		if p.fault = p.start(ctx, x); p.fault != nil {
			p.close()
			return nil, p.fault
		}
	}
	return p.process, p.process.SetThreads(ctx, threads)
}

// start starts a process and loads the model. It compares the logits of both sides.
func (p *partner) start(ctx context.Context, x *ours) (err error) {
	s := p.suite
	context := inference.Longest(s.Tests)
	if err := room(theirBytes(x, context), "llama.cpp's side of "+s.Name); err != nil {
		return err
	}
	if p.process, err = llama.Start(ctx, s.Folder); err != nil {
		return err
	}
	opt := llama.Options{Path: s.Path, Context: max(context, agreeTokens), Float: s.Cache == model.CacheF32}
	memory, err := p.process.Load(ctx, opt)
	if err != nil {
		return err
	}
	p.peer = Peer{p.process.Engine.Version, p.process.Engine.Library, true, memory.Buffers, memory.Cache, 0}
	tokens := make([]int32, min(agreeTokens, context))
	for i := range tokens {
		tokens[i] = int32(i * 31 % x.Vocabulary())
	}
	a, err := x.logits(ctx, tokens)
	if err != nil {
		return err
	}
	b, err := p.process.Logits(ctx, tokens)
	if err != nil {
		return err
	}
	if p.peer.Logits = difference(a, b); !(p.peer.Logits <= mostDifference) {
		return fmt.Errorf("the two sides compute different models: the logits of a prompt differ by %.3g of their size, at most %v is rounding", p.peer.Logits, mostDifference)
	}
	return nil
}

// difference is the root of the mean square of a-b over that of b, NaN if they cannot be compared.
func difference(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.NaN()
	}
	apart, size := 0.0, 0.0
	for i := range a {
		apart += float64(a[i]-b[i]) * float64(a[i]-b[i])
		size += float64(b[i]) * float64(b[i])
	}
	return math.Sqrt(apart / size)
}

func (p *partner) close() {
	if p.process != nil {
		p.process.Close()
		p.process = nil
	}
}
