package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/search/bench/duel"
	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure/library"
	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/search/tune"
)

// validateDuel checks -peer beside -model.
func (b *benchFlags) validateDuel() error {
	if b.peer == "" {
		return nil
	}
	if name, dir, ok := strings.Cut(b.peer, "="); !ok || name != "llama" || dir == "" {
		return fmt.Errorf("-peer %s: with -model want llama=FOLDER, with the folder of libllama.so", b.peer)
	}
	return nil
}

// duelModel measures a whole model beside llama.cpp, in alternating rounds.
func (c *cli) duelModel(ctx context.Context, b benchFlags, lock *tune.Lock) error {
	_, dir, _ := strings.Cut(b.peer, "=")
	switch err := llama.Check(dir); {
	case errors.Is(err, library.ErrStatic):
		return c.loading(ctx, b.quiet)
	case err != nil:
		return err
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	file, path, name, remove, err := c.onDisk(ctx, b, bar)
	if err != nil {
		return err
	}
	defer remove()
	defer file.Close()
	tools, err := c.modelTools(ctx, b, nil, file, lock, bar)
	if err != nil {
		return err
	}
	defer tools.close()
	s := duel.Suite{
		File: file, Path: path, Name: name, Kernels: tools.provider, Cache: cacheTypes[b.model.cache],
		Tests: tools.tests, Threads: b.threads, Rounds: b.model.repetitions, Folder: dir,
	}
	var records []duel.Record
	err = s.Run(ctx, tools.machines, func(text string) { bar.step("%s", text) }, func(r duel.Record) { records = append(records, r) })
	bar.done()
	if err != nil {
		return err
	}
	if err := duel.Print(c.out, b.model.output, records); err != nil {
		return err
	}
	return unmeasured(records)
}

// onDisk opens the file of -model, which both sides read. A synthetic model is written to a file of the user's cache directory, which
// remove removes.
func (c *cli) onDisk(ctx context.Context, b benchFlags, bar *progress) (f *gguf.File, path, name string, remove func(), err error) {
	path, remove = b.model.path, func() {}
	f, name, err = inference.Open(path)
	if err != nil {
		return nil, "", "", nil, err
	}
	if err := duel.Room(f, name, slices.Max(b.threads)); err != nil {
		return nil, "", "", nil, errors.Join(err, f.Close())
	}
	m, err := inference.Synthetic(path)
	if m == nil || err != nil {
		return f, path, name, remove, err
	}
	folder, err := cache.Path("synthetic")
	if err != nil {
		return nil, "", "", nil, err
	}
	path, err = m.WriteFile(ctx, folder, func(done, total int64) { bar.step("writing %s, %d %%", name, 100*done/total) })
	if err != nil {
		return nil, "", "", nil, err
	}
	remove = func() { os.Remove(path) }
	if f, err = gguf.Open(path); err != nil {
		remove()
		return nil, "", "", nil, err
	}
	return f, path, name, remove, nil
}

// unmeasured is an error if a record lacks llama.cpp's side.
func unmeasured(records []duel.Record) error {
	n, first := 0, ""
	for _, r := range records {
		if r.Error != "" {
			if n++; n == 1 {
				first = r.Error
			}
		}
	}
	if n > 0 {
		return failed("bench: %d of %d tests lack llama.cpp's side: %s", n, len(records), first)
	}
	return nil
}
