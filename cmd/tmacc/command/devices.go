package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/kernels"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
)

// deviceVar adds the flag -device.
func deviceVar(f *pflag.FlagSet, device *string) {
	f.StringVar(device, "device", "", "with -target spirv: device of Vulkan, by its number or a part of its `name` (default: the one of TMACC_DEVICE, or the preferred one)")
}

// shaderTargets are the targets of words if all are of shaders. It is an error if some are and some are not.
func shaderTargets(words []string) (ts []spirv.Target, err error) {
	for _, word := range words {
		if t, ok := spirv.ByName(word); ok {
			ts = append(ts, t)
		}
	}
	if len(ts) > 0 && len(ts) < len(words) {
		return nil, fmt.Errorf("-target %s: devices and CPUs are measured one after the other: name either", strings.Join(words, ","))
	}
	return ts, nil
}

// openDevice opens the device of -device. A software device is said to be one, and so is a system whose devices no test has.
func (c *cli) openDevice(ctx context.Context, name string, bar *progress) (*shaders.Lab, error) {
	lab, err := openLab(ctx, name, bar)
	if err == nil {
		c.caution(lab.Device())
	}
	return lab, err
}

// openLab opens the device of -device in the program with Vulkan.
func openLab(ctx context.Context, name string, bar *progress) (*shaders.Lab, error) {
	bar.step("opening the device")
	lab, err := shaders.Open(ctx, name, func(what string) { bar.step("%s", what) })
	if no := (*shaders.NoDevice)(nil); errors.As(err, &no) {
		return nil, errors.New(strings.TrimPrefix(no.Why, "vulkan: "))
	}
	if err != nil {
		return nil, err
	}
	bar.done()
	return lab, nil
}

// caution says what to know before a device is believed.
func (c *cli) caution(d *shaders.Device) {
	for _, what := range d.Cautions() {
		fmt.Fprintf(c.err, "tmacc: %s\n", what)
	}
}

// shaderUses are the schedules of a product for a target of shaders, and where they come from: a file, a lock, or by default, for products with ns activations if these are known.
func (c *cli) shaderUses(ctx context.Context, p ir.Problem, t spirv.Target, file string, lock *tune.Lock, ns ...int) ([]search.Use, defaults.Origin, error) {
	if file != "" {
		trace, err := c.inputs().Trace(file)
		return []search.Use{{Trace: trace}}, defaults.Trace, err
	}
	if lock != nil {
		if e := lock.Find(p, t); e != nil && e.For(p) {
			return e.Uses(), defaults.Lock, nil
		}
	}
	uses, err := shaders.Default(ctx, p, t, ns...)
	return uses, defaults.Default, err
}

// deviceRecord is a line of bench -json of a device.
type deviceRecord struct {
	measure.Record
	Device   *shaders.Device `json:"device"`
	Software bool            `json:"software_device"`
	Bits     string          `json:"bits"` // equal to the definition's
}

// validateDevice refuses flags that mean nothing on a device.
func (b *benchFlags) validateDevice() error {
	for _, x := range []struct {
		given bool
		flag  string
	}{{b.check != "", "-check"}, {b.peer != "", "-peer"}} {
		if x.given {
			return fmt.Errorf("%s: does not measure devices: leave it out with -target spirv", x.flag)
		}
	}
	return nil
}

// benchDevice measures all formats on a device.
func (c *cli) benchDevice(ctx context.Context, b benchFlags, ts []spirv.Target, lock *tune.Lock) error {
	if err := b.validateDevice(); err != nil {
		return err
	}
	chosen, err := c.chosenSpeeds(b.cores)
	if err != nil {
		return err
	}
	if len(b.formats) == 0 {
		b.formats = slices.DeleteFunc(slices.Clone(benchFormats), func(name string) bool { return strings.HasSuffix(name, ir.FloatSuffix) })
	}
	bar := newProgress(c.err, b.quiet)
	defer bar.done()
	lab, err := c.openDevice(ctx, b.device, bar)
	if err != nil {
		return err
	}
	defer lab.Close()
	ts = withSpeeds(ts, chosen, lab.Speeds())
	m := deviceBench{c, b, lab, bar, nil}
	for _, t := range ts {
		for _, name := range b.formats {
			if err := m.measure(ctx, name, t, lock); err != nil {
				return err
			}
		}
	}
	bar.done()
	if !b.json {
		fmt.Fprintf(c.out, "%v\n\n", lab.Device())
		deviceTable(bench.Medians(m.all)).print(c.out, widthOf(c.out))
	}
	return nil
}

// deviceBench is a measurement of devices under way.
type deviceBench struct {
	*cli
	benchFlags
	lab *shaders.Lab
	bar *progress
	all []measure.Record
}

// verify compares a product with the definition. It may do without some of the default schedules, which it says.
func (m *deviceBench) verify(ctx context.Context, p ir.Problem, v *variant.Shaders, by defaults.Origin) error {
	if by != defaults.Default {
		return m.lab.Test(ctx, p, v)
	}
	left, err := m.lab.Verify(ctx, p, v)
	for _, x := range left {
		m.bar.done()
		fmt.Fprintf(m.err, "tmacc: %v\n", kernels.NotUsed{Problem: p, Columns: x.Columns, Why: x.Why})
	}
	return err
}

// measure measures a product: it compares its kernels with the definition first.
func (m *deviceBench) measure(ctx context.Context, name string, t spirv.Target, lock *tune.Lock) error {
	p, err := m.benchProblem(m.benchFlags, name)
	if err != nil {
		return err
	}
	m.bar.step("compiling %s for %s", name, t.Machine().Name)
	uses, by, err := m.shaderUses(ctx, p, t, m.trace, lock, m.ns...)
	if err != nil {
		return err
	}
	v, err := m.lab.Compile(ctx, p, t, uses...)
	if err != nil {
		return err
	}
	m.bar.step("comparing %s with its definition", name)
	if err := m.verify(ctx, p, v, by); shaders.IsFault(err) {
		return failed("%w", err)
	} else if err != nil {
		return err
	}
	m.bar.step("measuring the device's memory")
	read, err := m.lab.ReadGBS(ctx)
	if err != nil {
		return err
	}
	for round := range m.rounds {
		for _, at := range devicePlaces(m.modes, m.ns, m.m, m.k) {
			for _, n := range at.Ns {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				m.bar.step("round %d of %d: %s on %s, %s, n = %d", round+1, m.rounds, name, t.Machine().Name, at.Mode, n)
				if err := m.time(ctx, p, v, purposeOn(m.lab, at, n, p), read, by == defaults.Lock); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// devicePlaces are the places of products on a device. It has no third level: one copy of a matrix is in its cache, or is not.
func devicePlaces(modes []string, ns []int, m, k int) []bench.Place {
	if len(modes) > 1 {
		modes = slices.DeleteFunc(slices.Clone(modes), func(mode string) bool { return mode == measure.ModeL3 })
	}
	return bench.Places(modes, ns, m, k)
}

// purposeOn is a product of n activations at a place. Software devices read fewer copies of a matrix, as each takes long.
func purposeOn(lab *shaders.Lab, at bench.Place, n int, p ir.Problem) tune.Purpose {
	x := shaders.Purpose(at.Mode, at.M, n, p.WholeK(at.K))
	if lab.Device().Software && x.Total > 0 {
		x.Total = shaders.SoftwareTotal
	}
	return x
}

// deviceRounds is how often a sequence of products is timed.
const deviceRounds = 5

// time measures one shape.
func (m *deviceBench) time(ctx context.Context, p ir.Problem, v *shaders.Product, x tune.Purpose, read float64, tuned bool) error {
	samples, err := m.lab.Time(ctx, p, x, deviceRounds, v)
	if err != nil {
		return err
	}
	r := shaders.Record(p, v, x, samples[0], read)
	r.Tuned = tuned
	m.all = append(m.all, r)
	if !m.json {
		return nil
	}
	d := m.lab.Device()
	r.Host, r.Date, r.Commit = d.String(), bench.Today(), bench.Commit()
	return json.NewEncoder(m.out).Encode(deviceRecord{r, d, d.Software, "equal"})
}

// deviceTable is a table of records of a device.
func deviceTable(records []measure.Record) *table {
	t := &table{head: []string{"format", "target", "mode", "m", "k", "n", "us", "Gw/s", "GB/s", "of read", "share", "bits"}, wide: -1}
	for _, r := range records {
		t.add(r.Format, r.Target, r.Mode, r.M, r.K, r.N, fmt.Sprintf("%.1f", r.Ns/1e3), fmt.Sprintf("%.1f", r.GWeightsS), fmt.Sprintf("%.1f", r.GBS),
			fmt.Sprintf("%.1f GB/s", r.CeilingGBS), fmt.Sprintf("%.2f", r.Share), "equal")
	}
	return t
}
