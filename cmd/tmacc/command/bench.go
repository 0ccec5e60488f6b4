package command

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// benchFormats are measured if -format names none.
var benchFormats = []string{"w1", "w1-f32act", "ternary", "w2", "w3", "w4", "w8", "iq4nl", "w2-g128", "w4-g128", "w4-g32"}

type benchFlags struct {
	formats, modes []string
	ns             []int
	sizeFlags
	act         order.Act
	targets     []string
	cores       []string
	trace       string
	lock        string
	check       string
	peer        string
	threads     []int
	rounds      int
	json, quiet bool
	noRecords   bool
	device      string
	model       benchModelFlags
}

func (c *cli) bench() *cobra.Command {
	var b benchFlags
	cmd := &cobra.Command{
		Use: "bench", Args: between(0, 0),
		Short: "measure kernels against what the machine can do",
		Long: `Measure products with the default schedules, on one thread, as a generated package runs them.
The same rounds measure the machine: its clock, read bandwidth and dot products. -json prints
one object per line. -lock measures the schedules of a lock beside the default ones. Default are here the
recorded schedules of a product, too, unless -no-records leaves them out.

Modes say where the weights come from. dram cycles through copies of a 4096 x 4096 matrix that
total over 512 MiB, l3 reads one copy, l2 a 512 x 2048 tile. The share is the used part of what
the machine can do: of the read bandwidth in dram (counting the nominal bits of the format), of
the peak of int8 dot products for more than 8 activations, else of the nearer one. Cycles are
counted by the clock beside the fastest sample, since the clock falls under load.

-check compares the medians of 5 interleaved rounds with a file of limits and exits 1 if a limit
is missed. With a -lock, its schedules are measured instead of the default ones, and held against
the stricter rules of tuned kernels.

-peer ggml=FOLDER also measures ggml's libraries in that folder, in the same rounds and on the
bytes of the same blocks; -format names types of GGUF. Both begin with float activations. Each
product is first compared with that of exact activations: an error that int8 does not explain
ends the command. -check then reads ratios. A -lock replaces the default schedules here too.

-model measures a whole model with llama-bench's tests: pp512 evaluates a prompt of 512 tokens,
tg128 generates 128 tokens one by one, @ d512 does so after 512 tokens. Tokens per second leave
out tokenizing and sampling. After each prompt and each token the same run measures the model's
products alone, and the machine's read bandwidth and int8 peak.

-target spirv measures shaders on a device of Vulkan, by its own clock, as a program calls them that has its weights there.
Their bits are compared with the definition first. The share is of the device's read bandwidth, which the same run
measures. dram cycles through copies of 256 MiB, l2 reads one copy. Shaders run in the program tmacc-vulkan, which is
built if it is neither beside tmacc nor in PATH. With -model, the products of the model run there, as in tmacc run.

-model with -peer llama=FOLDER measures the model beside llama.cpp, whose libraries in that folder
run it in a process of its own: flash attention, repacked weights, the variant for this CPU that its
own score picks. Rounds alternate, and each side sleeps in the other's turns. A test that takes over
5 s per token is one round of 16 tokens. If llama.cpp fails, the row says so and the exit code is 1.`,
		Example: `  tmacc bench -format w2,w4-g32 -mode dram -n 1,4
  tmacc bench -json > bench.jsonl
  tmacc bench -check docs/lab/limits.json
  tmacc bench -lock tmacc.lock -format w2 -rounds 5
  tmacc bench -lock tmacc.lock -check docs/lab/limits.json
  tmacc bench -target spirv -format w2 -mode dram -n 1 -device nvidia
  tmacc bench -model model.gguf -threads 1,2
  tmacc bench -model model.gguf -target spirv -device nvidia
  tmacc bench -model synthetic:bitnet-2b -p 512 -n 128 -d 0,512 -o json
  tmacc bench -model model.gguf -peer llama=node_modules/@node-llama-cpp/linux-x64/bins/linux-x64
  tmacc bench -peer ggml=node_modules/@node-llama-cpp/linux-x64/bins/linux-x64 -format Q4_0,Q4_K`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&b.formats, "format", nil, "weight formats or JSON files with one, separated by commas (default "+strings.Join(benchFormats, ",")+")")
	f.StringSliceVar(&b.modes, "mode", []string{measure.ModeDRAM, measure.ModeL3, measure.ModeL2}, "where weights are")
	f.IntSliceVarP(&b.ns, "n", "n", []int{1, 4, 256}, "activations per product; more than 8 are measured in one mode only; with -model tokens to generate (default 128)")
	b.sizeFlags.add(f, 0, 0)
	actVar(f, &b.act)
	f.StringSliceVar(&b.targets, "target", []string{hostWord}, "targets, or all that this machine runs; may be repeated")
	coreVar(f, &b.cores)
	f.StringVar(&b.trace, "trace", "", "JSON `file` with the schedule to measure instead of the default ones")
	f.StringVar(&b.lock, "lock", "", "`file` that tmacc tune has written: its schedules are measured beside the default ones, with -check and -peer in their place")
	noRecordsVar(f, &b.noRecords)
	deviceVar(f, &b.device)
	f.StringVar(&b.check, "check", "", "JSON `file` with limits to hold the measurements against")
	f.StringVar(&b.peer, "peer", "", "ggml=`folder` of ggml's libraries, to measure beside ours; with -model llama=folder, of libllama.so")
	f.IntSliceVar(&b.threads, "threads", []int{1}, "with -peer and -model: numbers of threads")
	f.IntVar(&b.rounds, "rounds", 1, "rounds over everything, with -check at least 5")
	f.BoolVar(&b.json, "json", false, "print one JSON object per line; with -check where it was measured, the median round of each measurement, and what holds")
	f.BoolVarP(&b.quiet, "quiet", "q", false, "no progress on standard error")
	b.model.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.validate(cmd); err != nil {
			return err
		}
		lock, err := c.readLock(b.lock)
		if err != nil {
			return err
		}
		on, err := shaderTargets(b.targets)
		if err != nil {
			return err
		}
		if len(on) > 0 && b.model.path != "" {
			return c.benchModelOnDevice(cmd.Context(), b, on, lock)
		}
		if len(on) > 0 {
			return c.benchDevice(cmd.Context(), b, on, lock)
		}
		if b.device != "" {
			return fmt.Errorf("-device %s: is for -target spirv", quotedIfOdd(b.device))
		}
		if err := mapping("bench"); err != nil {
			return err
		}
		if b.model.path != "" && b.peer != "" {
			return c.duelModel(cmd.Context(), b, lock)
		}
		if b.model.path != "" {
			return c.benchModel(cmd.Context(), b, nil, lock)
		}
		if b.peer != "" {
			return c.comparePeer(cmd.Context(), b, lock)
		}
		if b.check != "" {
			return c.check(cmd.Context(), b, lock)
		}
		return c.measureAll(cmd.Context(), b, lock)
	}
	return cmd
}

func (b *benchFlags) validate(cmd *cobra.Command) error {
	if err := b.validateModel(cmd); err != nil || b.model.path != "" {
		return err
	}
	if err := b.validatePlaces(); err != nil {
		return err
	}
	if err := b.sizeFlags.check(cmd.Flags()); err != nil {
		return err
	}
	if err := b.sizeFlags.checkCalls(b.ns); err != nil {
		return err
	}
	switch {
	case b.rounds < 1 || b.rounds > 1000:
		return fmt.Errorf("-rounds %d: want 1 to 1000", b.rounds)
	case b.trace != "" && b.lock != "":
		return fmt.Errorf("-trace and -lock: want one of them")
	case b.trace != "" && len(b.formats) != 1:
		return fmt.Errorf("-trace is for one format: name it with -format")
	}
	return b.validatePeer(cmd)
}

func (b *benchFlags) validatePlaces() error {
	for _, mode := range b.modes {
		if mode != measure.ModeDRAM && mode != measure.ModeL3 && mode != measure.ModeL2 {
			return fmt.Errorf("unknown mode %q: have dram, l3, l2", mode)
		}
	}
	for _, n := range b.ns {
		if n < 1 || n > 1<<16 {
			return fmt.Errorf("-n %d: want 1 to %d", n, 1<<16)
		}
	}
	if len(b.modes) == 0 || len(b.ns) == 0 {
		return fmt.Errorf("nothing to measure: give a -mode and an -n")
	}
	return nil
}

// readLock reads the lock of -lock, which must be there. It is nil without one.
func (c *cli) readLock(path string) (*tune.Lock, error) {
	if path == "" {
		return nil, nil
	}
	data, err := c.inputs().Text(path)
	if err != nil {
		return nil, err
	}
	return tune.ParseLock(path, data)
}

// benchWeight returns the format of a name, of the formats that limits name too, or of a JSON file.
func (c *cli) benchWeight(name string) (format.Weight, error) {
	if w, err := measure.Lookup(name); err == nil {
		return w, nil
	}
	return c.inputs().Weight(name)
}

// benchProblem returns the product of a name.
func (c *cli) benchProblem(b benchFlags, name string) (ir.Problem, error) {
	weight, act := b.act.Of(name)
	w, err := c.benchWeight(weight)
	if err != nil {
		return ir.Problem{}, err
	}
	if g, ok := measure.ActGroups[name]; ok && b.check != "" && act.Group == order.UsualGroup {
		act.Group = g
	}
	p, err := act.Problem(w)
	if err != nil {
		return p, err
	}
	return p, checkK(b.k, p, name)
}

// addTo compiles the product of a name for a target: by -trace, by the suite's lock, or by the default schedules. With both,
// a lock's schedules and the default ones are measured.
func (c *cli) addTo(ctx context.Context, s *bench.Suite, b benchFlags, name string, t targets.Target, both bool) error {
	p, err := c.benchProblem(b, name)
	switch {
	case err != nil:
		return err
	case b.trace != "":
		trace, err := c.inputs().Trace(b.trace)
		if err != nil {
			return err
		}
		return ofTrace(b.trace, s.Add(ctx, p, t, []search.Use{{Trace: trace}}, false))
	case both:
		return s.AddBoth(ctx, p, t)
	}
	return s.AddUsual(ctx, p, t)
}

// noteUnlocked says which products are measured by their default schedules although there is a lock.
func (c *cli) noteUnlocked(b benchFlags, s *bench.Suite) {
	var names []string
	for _, x := range s.Untuned() {
		names = append(names, x.Problem.Name()+" on "+x.Target())
	}
	if s.Lock != nil && len(names) > 0 {
		fmt.Fprintf(c.err, "tmacc: %s has nothing for these, default schedules: %s\n", b.lock, strings.Join(names, ", "))
	}
}

// begins shows a step of a measurement.
func (p *progress) begins(s bench.Step) { p.step("%s", s) }

// measureAll measures all formats on all targets.
func (c *cli) measureAll(ctx context.Context, b benchFlags, lock *tune.Lock) error {
	ts, err := c.targetsHere(b.targets, b.cores)
	if err != nil {
		return err
	}
	if len(b.formats) == 0 {
		b.formats = benchFormats
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	d := c.keptDefaults(b.noRecords, bar)
	defer d.Close()
	s := &bench.Suite{Places: bench.Places(b.modes, b.ns, b.m, b.k), Lock: lock, Defaults: d}
	defer s.Close()
	for _, t := range ts {
		for _, name := range b.formats {
			bar.step("compiling %s for %s", name, t.Machine().Name)
			if err := c.addTo(ctx, s, b, name, t, true); err != nil {
				return err
			}
		}
	}
	bar.step("assembling the probes of this machine")
	g, err := bench.NewGauge(timing.Options{})
	if err != nil {
		return err
	}
	defer g.Close()
	var all []measure.Record
	err = s.Run(ctx, g, b.rounds, bar.begins, func(r measure.Record) {
		all = append(all, r)
		if b.json {
			r.Host, r.Date, r.Commit = g.Lab.Host.String(), bench.Today(), bench.Commit()
			json.NewEncoder(c.out).Encode(r)
		}
	})
	bar.done()
	c.noteBusy(g)
	if err != nil || b.json {
		return err
	}
	benchTable(bench.Medians(all)).print(c.out, widthOf(c.out))
	return nil
}

// benchTable is a table of records. The times of tuned records are divided by the times of the default schedules, which come first.
func benchTable(records []measure.Record) *table {
	t := &table{head: []string{"format", "target", "mode", "m", "k", "n", "us", "Gw/s", "w/cycle", "GB/s", "of", "share", "prepare us", "of the default"}, wide: -1}
	usual := map[bench.Measurement]float64{}
	for _, r := range records {
		of, unit := r.CeilingGBS, "GB/s"
		if r.Share != r.ReadShare {
			of, unit = r.CeilingGMACS, "GMAC/s"
		}
		id, ratio := bench.MeasurementOf(r), ""
		if id.Tuned = false; r.Tuned {
			ratio = fmt.Sprintf("%.2f", r.Ns/usual[id])
		} else {
			usual[id] = r.Ns
		}
		t.add(r.Format, r.Target, r.Mode, r.M, r.K, r.N, fmt.Sprintf("%.1f", r.Ns/1e3), fmt.Sprintf("%.1f", r.GWeightsS),
			fmt.Sprintf("%.1f", r.WeightsPerCycle), fmt.Sprintf("%.1f", r.GBS), fmt.Sprintf("%.1f %s", of, unit),
			fmt.Sprintf("%.2f", r.Share), fmt.Sprintf("%.1f", r.PrepareNs/1e3), ratio)
	}
	return t
}

// check measures the products that limits ask for, and holds them against the limits.
func (c *cli) check(ctx context.Context, b benchFlags, lock *tune.Lock) error {
	data, err := c.inputs().JSON(b.check, "limits, such as docs/lab/limits.json")
	if err != nil {
		return err
	}
	limits, err := measure.ParseLimits(data)
	if err != nil {
		return fmt.Errorf("%s: %w", b.check, err)
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	g, err := bench.NewGauge(timing.Options{})
	if err != nil {
		return err
	}
	defer g.Close()
	bar.step("measuring what this machine can do")
	host, err := g.Lab.Ceilings(ctx, timing.Options{})
	if err != nil {
		return err
	}
	x := bench.Check{Name: filepath.Base(b.check), Limits: limits, Host: host, Tuned: lock != nil, Formats: b.formats}
	d := c.keptDefaults(b.noRecords, bar)
	defer d.Close()
	s := &bench.Suite{Places: x.Places(), Lock: lock, Defaults: d}
	defer s.Close()
	if err := c.addAsked(ctx, s, b, x, bar); err != nil {
		return err
	}
	bar.done()
	c.noteUnlocked(b, s)
	out, err := x.Run(ctx, s, g, b.rounds, bar.begins)
	if err != nil {
		return err
	}
	bar.done()
	c.noteBusy(g)
	if b.json {
		out.Encode(c.out)
	} else {
		c.printVerdicts(out.Verdicts)
	}
	return missed(out.Verdicts)
}

// addAsked compiles the products that limits ask for, each for the best target of its class here.
func (c *cli) addAsked(ctx context.Context, s *bench.Suite, b benchFlags, x bench.Check, bar *progress) error {
	asked, err := x.Products()
	if err != nil {
		return fmt.Errorf("-check %s: %w", b.check, err)
	}
	b.k, b.trace = 0, ""
	for _, p := range asked {
		t, err := targeting.Best(p.Class)
		if err != nil {
			return err
		}
		bar.step("compiling %s for %s", p.Format, p.Class)
		if err := c.addTo(ctx, s, b, p.Format, t, false); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) printVerdicts(verdicts []measure.Verdict) {
	for _, v := range verdicts {
		fmt.Fprintln(c.out, v)
	}
}

// missed is an error if a limit is missed.
func missed(verdicts []measure.Verdict) error {
	if n := measure.Missed(verdicts); n > 0 {
		return failed("bench: %d of %d limits are missed", n, len(verdicts))
	}
	return nil
}
