package command

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/synthetic"
	"github.com/tmacc/tmacc/search/tune"
)

// benchModelFlags are the flags of bench for a whole model.
type benchModelFlags struct {
	path        string
	prompts     []int
	depths      []int
	repetitions int
	output      string
	cache       string
}

func (m *benchModelFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&m.path, "model", "", "GGUF `file`, or synthetic:NAME with the shape of a published model: "+strings.Join(synthetic.Names(), ", "))
	f.IntSliceVarP(&m.prompts, "prompt", "p", []int{512}, "with -model: lengths of prompts, 0 for none")
	f.IntSliceVarP(&m.depths, "depth", "d", []int{0}, "with -model: tokens in the context before each test")
	f.IntVarP(&m.repetitions, "repetitions", "r", 5, "with -model: repetitions of each test, with -peer rounds")
	f.StringVarP(&m.output, "output", "o", "md", "with -model: "+strings.Join(inference.Outputs, ", "))
	f.StringVar(&m.cache, "cache", "f16", "with -model: type of the cached keys and values: f16, f32 or q8")
}

// Flags that mean something with -model, and those that mean something only with it.
var (
	modelOnly = []string{"prompt", "depth", "repetitions", "output", "cache"}
	modelToo  = []string{"model", "n", "threads", "lock", "quiet", "peer", "target", "device"}
)

// validateModel checks the flags of -model and sets its defaults.
func (b *benchFlags) validateModel(cmd *cobra.Command) error {
	for name := range changedFlags(cmd) {
		switch {
		case b.model.path == "" && slices.Contains(modelOnly, name):
			return fmt.Errorf("-%s is for -model", name)
		case b.model.path != "" && !slices.Contains(modelOnly, name) && !slices.Contains(modelToo, name):
			return fmt.Errorf("-%s is not for -model, which measures a model as tmacc run runs it", name)
		}
	}
	if b.model.path == "" {
		return nil
	}
	if !cmd.Flags().Changed("n") {
		b.ns = []int{128}
	}
	for flag, lengths := range map[string][]int{"p": b.model.prompts, "n": b.ns, "d": b.model.depths} {
		for _, n := range lengths {
			if n < 0 || n > 1<<20 {
				return fmt.Errorf("-%s %d: want 0 to %d", flag, n, 1<<20)
			}
		}
	}
	switch _, known := cacheTypes[b.model.cache]; {
	case b.model.repetitions < 1 || b.model.repetitions > 1000:
		return fmt.Errorf("-r %d: want 1 to 1000", b.model.repetitions)
	case !slices.Contains(inference.Outputs, b.model.output):
		return fmt.Errorf("-o %s: have %s", b.model.output, strings.Join(inference.Outputs, ", "))
	case !known:
		return fmt.Errorf("-cache %s: have f16, f32, q8", b.model.cache)
	case len(inference.Tests(b.model.prompts, b.ns, b.model.depths)) == 0:
		return fmt.Errorf("nothing to measure: give a length with -p or -n")
	}
	return errors.Join(b.validateDuel(), b.validateThreads())
}

// validateThreads checks the numbers of -threads.
func (b *benchFlags) validateThreads() error {
	for _, n := range b.threads {
		if n < 1 || n > goruntime.NumCPU() {
			return fmt.Errorf("-threads %d: this process may use 1 to %d", n, goruntime.NumCPU())
		}
	}
	return nil
}

// changedFlags are the flags that were given.
func changedFlags(cmd *cobra.Command) map[string]bool {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	return given
}

// blamed is an error about the model, which it names. A context that the tests need is no flag's alone.
func (m *benchModelFlags) blamed(err error) error {
	if bad := (*model.Error)(nil); errors.As(err, &bad) && bad.Thing == "option Context" {
		return fmt.Errorf("%s: the context that -p, -n and -d need %s", m.path, bad.Problem)
	}
	return fmt.Errorf("%s: %w", m.path, err)
}

// modelTools is what measurements of a whole model need.
type modelTools struct {
	tests    []inference.Test
	provider *kernels.Provider
	machines *inference.Machines
}

// modelTools makes them; the products run on a device unless it is nil. A model that cannot be measured is refused before the probes, which take a while.
func (c *cli) modelTools(ctx context.Context, b benchFlags, on *kernels.Device, file *gguf.File, lock *tune.Lock, bar *progress) (*modelTools, error) {
	x := &modelTools{tests: inference.Tests(b.model.prompts, b.ns, b.model.depths)}
	needed, err := kernels.Needed(file, model.Options{Context: inference.Longest(x.tests)})
	if err != nil {
		return nil, b.model.blamed(err)
	}
	if x.provider, err = kernels.New(ctx, kernels.Options{Lock: lock, Defaults: c.defaults(b.noRecords, bar), Device: on, Say: c.heard(bar)}); err != nil {
		return nil, err
	}
	x.provider.Expect(needed)
	if on != nil {
		bar.step("measuring the device's memory")
		x.machines, err = inference.NewDevice(on.Here)
	} else {
		bar.step("assembling the probes of this machine")
		x.machines, err = inference.NewMachines(slices.Max(b.threads))
	}
	if err != nil {
		x.provider.Close()
		return nil, err
	}
	return x, nil
}

func (x *modelTools) close() {
	x.machines.Close()
	x.provider.Close()
}

// benchModelOnDevice is benchModel with the products on a device, in the program that has Vulkan.
func (c *cli) benchModelOnDevice(ctx context.Context, b benchFlags, ts []spirv.Target, lock *tune.Lock) error {
	if len(ts) > 1 {
		return fmt.Errorf("-target %s: a model runs by the shaders of one target", strings.Join(b.targets, ","))
	}
	if err := b.validateDevice(); err != nil {
		return err
	}
	x := placing{ts[0].Machine().Name, b.device}
	if elsewhere, err := c.elsewhere(ctx, x, b.quiet); elsewhere || err != nil {
		return err
	}
	on, err := c.place(x)
	if err != nil {
		return err
	}
	return c.benchModel(ctx, b, on, lock)
}

// benchModel measures a whole model beside its products alone and beside the machine, or the device that it runs on.
func (c *cli) benchModel(ctx context.Context, b benchFlags, on *kernels.Device, lock *tune.Lock) error {
	file, name, err := inference.Open(b.model.path)
	if err != nil {
		return plain(err)
	}
	defer file.Close()
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	tools, err := c.modelTools(ctx, b, on, file, lock, bar)
	if err != nil {
		return err
	}
	defer tools.close()
	s := inference.Suite{
		File: file, Name: name, Kernels: tools.provider, Cache: cacheTypes[b.model.cache],
		Tests: tools.tests, Threads: b.threads, Repetitions: b.model.repetitions,
	}
	var records []inference.Record
	err = s.Run(ctx, tools.machines, func(text string) { bar.step("%s", text) }, func(r inference.Record) { records = append(records, r) })
	bar.done()
	if err != nil {
		return b.model.blamed(err)
	}
	return inference.Print(c.out, b.model.output, records)
}
