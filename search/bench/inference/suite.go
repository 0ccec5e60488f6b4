package inference

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/synthetic"
)

// synthetically is what the name of a synthetic model begins with, where a file could be named instead.
const synthetically = "synthetic:"

// seed chooses the weights of synthetic models.
const seed = 1

// Open opens the model of a path, or of "synthetic:NAME". The caller closes it. name is the model's without its folder.
func Open(path string) (f *gguf.File, name string, err error) {
	m, err := Synthetic(path)
	if err != nil {
		return nil, "", err
	}
	if m != nil {
		f, err = m.File()
		return f, path, err
	}
	f, err = gguf.Open(path)
	return f, filepath.Base(path), err
}

// Synthetic is the model of "synthetic:NAME", nil of a file's path.
func Synthetic(path string) (*synthetic.Model, error) {
	name, ok := strings.CutPrefix(path, synthetically)
	if !ok {
		return nil, nil
	}
	return synthetic.New(name, seed)
}

// Suite is the tests of a model with several numbers of threads.
type Suite struct {
	File        *gguf.File
	Name        string
	Kernels     model.Kernels
	Cache       model.CacheType
	Tests       []Test
	Threads     []int
	Repetitions int
}

// Run measures all tests with each number of threads. It calls step with what begins, and tell with each record.
func (s *Suite) Run(ctx context.Context, m *Machines, step func(string), tell func(Record)) error {
	for _, threads := range s.Threads {
		machine, err := m.With(threads)
		if err != nil {
			return err
		}
		if err := s.with(ctx, threads, machine, step, func(r Record) {
			r.CPU = m.Host()
			tell(r)
		}); err != nil {
			return err
		}
	}
	return nil
}

// with measures all tests with a number of threads.
func (s *Suite) with(ctx context.Context, threads int, machine Machine, step func(string), tell func(Record)) error {
	opt := model.Options{Threads: threads, Context: Longest(s.Tests), Cache: s.Cache}
	x, err := Load(s.File, s.Kernels, opt, func(done, total int64) {
		step(fmt.Sprintf("reading %s, %d %%", s.Name, 100*done/total))
	})
	if err != nil {
		return err
	}
	b := &Bench{Engine: x, Machine: machine, Vocabulary: x.Vocabulary(), Repetitions: s.Repetitions, MinProbe: bench.MinSample[measure.ModeDRAM], Now: time.Now}
	about := Describe(s.Name, s.File, s.Cache)
	for _, t := range s.Tests {
		began := time.Now().UTC().Format(time.RFC3339)
		samples, err := b.Run(ctx, t, func(i int) {
			step(fmt.Sprintf("%s, threads %d, %s: repetition %d of %d", s.Name, threads, t.Name(), i+1, s.Repetitions))
		})
		if err != nil {
			return errors.Join(err, x.Close())
		}
		r := samples.Record(about, threads)
		r.Commit, r.Time = bench.Commit(), began
		tell(r)
	}
	return x.Close()
}
