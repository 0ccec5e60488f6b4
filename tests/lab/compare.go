package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

type compareFlags struct {
	log, only   string
	modes, ns   list
	rows        int
	minutes     float64
	seed        int64
	all, report bool
	json        bool
	columns     []int // of ns
}

// compare measures the schedules of two files of defaults beside one another, in an order that a seed draws, and prints the ratios of their
// times. Rows that are in the log are not measured again.
func (x *lab) compare(ctx context.Context, args []string) error {
	o := compareFlags{modes: list{measure.ModeL2, measure.ModeL3, measure.ModeDRAM}, ns: list{"1", "4", "256"}}
	f := x.flags("compare")
	f.StringVar(&o.log, "o", "", "`file` that rows are appended to; those that it has are not measured again")
	f.StringVar(&o.only, "only", "", "only rows whose product, target and mode match a regular `expression`, such as '^q4_0 .*avx2 l2$'")
	f.Var(&o.modes, "mode", "where weights are, separated by commas")
	f.Var(&o.ns, "n", "numbers of activations, separated by commas")
	f.IntVar(&o.rows, "rows", 0, "about how many rows to measure, 0: all")
	f.Float64Var(&o.minutes, "minutes", 0, "`minutes` after which no measurement begins, 0: no limit")
	f.Int64Var(&o.seed, "seed", 1, "draws the order of measurements")
	f.BoolVar(&o.all, "all", false, "measure rows whose schedules are the same, too: their ratios are noise")
	f.BoolVar(&o.report, "report", false, "measure nothing")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	if err := x.parse(f, args, 2); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	old, err := readDefaults(f.Arg(0))
	if err != nil {
		return err
	}
	now, err := readDefaults(f.Arg(1))
	if err != nil {
		return err
	}
	return x.runCompare(ctx, o, old, now)
}

func (o *compareFlags) check() (err error) {
	if o.columns, err = columns(o.ns); err != nil {
		return err
	}
	if !(o.minutes >= 0) {
		return fmt.Errorf("-minutes %v: want 0 or more", o.minutes)
	}
	return cmp.Or(modes(o.modes), between("rows", o.rows, 0, 1<<20))
}

// modes refuses words that are no places of weights.
func modes(words []string) error {
	for _, mode := range words {
		if !slices.Contains([]string{measure.ModeL2, measure.ModeL3, measure.ModeDRAM}, mode) {
			return fmt.Errorf("-mode %s: want l2, l3 or dram", mode)
		}
	}
	return nil
}

func readDefaults(path string) ([]defaults.Row, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all, err := defaults.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// compared is a row: the old and the new schedules of a product on a target, with weights at a place, for n activations.
type compared struct {
	ID      string     `json:"id"` // of the schedules and of the measurement
	Name    string     `json:"name"`
	Mode    string     `json:"mode"`
	M       int        `json:"m"`
	N       int        `json:"n"`
	K       int        `json:"k"`
	OldNs   float64    `json:"old_ns,omitempty"` // medians, with the share of the preparation of activations
	NewNs   float64    `json:"new_ns,omitempty"`
	Ratio   tune.Ratio `json:"ratio"` // of the new time to the old one
	Ratios  []float64  `json:"ratios,omitempty"`
	Same    bool       `json:"same,omitempty"` // the schedules are the same, and were not measured
	CPU     string     `json:"cpu,omitempty"`
	Date    string     `json:"date,omitempty"`
	Commits [2]string  `json:"commits"`
	old     *defaults.Row
	now     *defaults.Row
}

// String names the row: "q4_0 amd64/avx2 l2 n=4".
func (c *compared) String() string { return fmt.Sprintf("%s %s n=%d", c.Name, c.Mode, c.N) }

// rowsOf lists the rows of two files, by their products, targets and modes. Rows that only one of them has are none. It is an error if there are none.
func (o *compareFlags) rowsOf(old, now []defaults.Row) (units [][]compared, err error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	for i := range now {
		j := slices.IndexFunc(old, func(r defaults.Row) bool { return r.Name() == now[i].Name() })
		if j < 0 {
			continue
		}
		for _, mode := range o.modes {
			if !only.MatchString(now[i].Name() + " " + mode) {
				continue
			}
			unit, err := o.unit(&old[j], &now[i], mode)
			if err != nil {
				return nil, err
			}
			units = append(units, unit)
		}
	}
	if len(units) == 0 {
		return nil, errors.New("compare: nothing to compare: no product and target is in both files and matches -only")
	}
	return units, nil
}

// unit is the rows of a product on a target, with weights at a place.
func (o *compareFlags) unit(old, now *defaults.Row, mode string) (out []compared, err error) {
	for _, x := range []*defaults.Row{old, now} {
		if x.Error != "" {
			return nil, fmt.Errorf("%s has no schedules: %s: leave it out with -only", x.Name(), x.Error)
		}
	}
	for _, n := range o.columns {
		c := compared{Name: now.Name(), Mode: mode, N: n, Commits: [2]string{old.Commit, now.Commit}, old: old, now: now}
		c.M, c.K = measure.Shape(mode)
		if c.K = now.Problem.WholeK(c.K); n > measure.MaxGEMV {
			c.M = min(c.M, gemmRows)
		}
		before, after := schedules(old, n), schedules(now, n)
		c.ID = shortHash(fmt.Sprintln(now.Problem, now.Target, mode, c.M, n, c.K) + before + "\n" + after)
		if before == after && !o.all {
			c.Same, c.Ratio = true, tune.Ratio{Median: 1, Low: 1, High: 1}
		}
		out = append(out, c)
	}
	return out, nil
}

// gemmRows is how many rows of weights many activations are multiplied by at most: calls that take longer are disturbed more often.
const gemmRows = 1024

// schedules are the schedules by which the runtime multiplies n activations, and the schedule of their preparation.
func schedules(r *defaults.Row, n int) (text string) {
	c := abi.CutOf(len(r.Kernels), func(i int) int { return r.Kernels[i].Cols }, n)
	for i := range c.Blocks(len(r.Kernels)) {
		text += r.Kernels[i].Trace.String() + "\n"
	}
	return text + r.Prepare.String()
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

func (x *lab) runCompare(ctx context.Context, o compareFlags, old, now []defaults.Row) error {
	units, err := o.rowsOf(old, now)
	if err != nil {
		return err
	}
	if err := o.known(units); err != nil {
		return err
	}
	if !o.report {
		if err := x.measureUnits(ctx, o, units); err != nil {
			return err
		}
	}
	return x.printComparison(slices.Concat(units...), o.json)
}

// known completes the rows that are in the log.
func (o *compareFlags) known(units [][]compared) error {
	logged, err := readLines[compared](o.log)
	if err != nil {
		return err
	}
	at := map[string]compared{}
	for _, c := range logged {
		at[c.ID] = c
	}
	for _, unit := range units {
		for i := range unit {
			if c, ok := at[unit[i].ID]; ok && !unit[i].Same {
				unit[i].OldNs, unit[i].NewNs, unit[i].Ratio, unit[i].Ratios = c.OldNs, c.NewNs, c.Ratio, c.Ratios
			}
		}
	}
	return nil
}

// measured says that the ratio of c is known.
func (c *compared) measured() bool { return c.Ratio.Median > 0 }

// measureUnits measures the rows that are not known, until a limit is reached. An interrupt is no error: what was measured is kept.
func (x *lab) measureUnits(ctx context.Context, o compareFlags, units [][]compared) error {
	order := rand.New(rand.NewSource(o.seed)).Perm(len(units))
	begun, done := time.Now(), 0
	for n, at := range order {
		unit := units[at]
		if !slices.ContainsFunc(unit, func(c compared) bool { return !c.measured() }) {
			continue
		}
		if ctx.Err() != nil || o.rows > 0 && done >= o.rows || o.minutes > 0 && time.Since(begun).Minutes() >= o.minutes {
			return nil
		}
		x.step("%s %s, %d of %d", unit[0].Name, unit[0].Mode, n+1, len(units))
		switch err := measureUnit(ctx, unit); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("%s %s: %w", unit[0].Name, unit[0].Mode, err)
		}
		for _, c := range unit {
			if c.Ratios == nil {
				continue
			}
			done++
			if err := appendLine(o.log, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// side is the old or the new schedules of a product, compiled.
type side struct {
	variant.Variant
	prefix string // of the names of its functions
}

// newSide compiles schedules: all widths, because the runtime chooses among them.
func newSide(ctx context.Context, r *defaults.Row, t targets.Target, prefix string) (*side, error) {
	v := variant.Variant{Target: t, Need: targets.Features(t)}
	for _, x := range r.Kernels {
		k, err := schedule.Compile(r.Problem, x.Trace)
		if err != nil {
			return nil, fmt.Errorf("%sn%d: %w", prefix, x.Cols, err)
		}
		code, err := lower.Build(ctx, t, k.Nest)
		if err != nil {
			return nil, fmt.Errorf("%sn%d: %w", prefix, x.Cols, err)
		}
		v.Kernels = append(v.Kernels, variant.Kernel{Schedule: k, Code: code}.Printed(t))
	}
	k, err := schedule.CompilePreparation(r.Problem, v.Tables(), r.Prepare)
	if err != nil {
		return nil, fmt.Errorf("%sprepare: %w", prefix, err)
	}
	code, err := lower.Build(ctx, t, k.Nest)
	if err != nil {
		return nil, fmt.Errorf("%sprepare: %w", prefix, err)
	}
	v.Prepare = &variant.Prepare{Schedule: k, Text: t.Print(code)}
	return &side{v, prefix}, nil
}

// spec describes the side to the runtime.
func (s *side) spec(p ir.Problem) runtime.Spec {
	spec := live.Spec(p, s.Variant)
	v := &spec.Variants[0]
	for i := range v.Kernels {
		v.Kernels[i].Name = s.prefix + v.Kernels[i].Name
	}
	v.Prepare.Name = s.prefix + v.Prepare.Name
	return spec
}

// beside is both sides of a product in a worker process.
type beside struct {
	code     *worker.Code
	old, now runtime.Spec
}

// newBeside compiles both sides, and compares their results with the definition.
func newBeside(ctx context.Context, old, now *defaults.Row) (*beside, error) {
	t, err := targetHere(now.Target)
	if err != nil {
		return nil, err
	}
	a, err := newSide(ctx, old, t, "old_")
	if err != nil {
		return nil, err
	}
	b, err := newSide(ctx, now, t, "new_")
	if err != nil {
		return nil, err
	}
	file, err := t.File("main", append(a.Functions(a.prefix), b.Functions(b.prefix)...)...)
	if err != nil {
		return nil, err
	}
	code, err := worker.Load(worker.Options{Limit: time.Minute}, file)
	if err != nil {
		return nil, err
	}
	d := &beside{code, a.spec(old.Problem), b.spec(now.Problem)}
	if err := errors.Join(code.Test("the old schedules", d.old, 1), code.Test("the new schedules", d.now, 1)); err != nil {
		return nil, errors.Join(err, code.Close())
	}
	return d, nil
}

// How often a row is measured: at least, and at most as long as it is not sure whether the ratio is above one of the limits.
const (
	leastRepeats = 6
	mostRepeats  = 12
)

// comparedLimits are the ratios that rows are held against.
var comparedLimits = []float64{1.05, 1.15}

// sampleOf is how a row is measured each time, by mode. Products of many activations, which take some milliseconds, have fewer rounds.
var sampleOf = map[string]timing.Options{
	measure.ModeL2:   {Rounds: 15, MinSample: 300 * time.Microsecond},
	measure.ModeL3:   {Rounds: 11, MinSample: time.Millisecond, MinCalls: 2},
	measure.ModeDRAM: {Rounds: 7, MinSample: 2 * time.Millisecond, MinCalls: 2},
	gemm:             {Rounds: 5},
}

// gemm stands for the modes of products of more than measure.MaxGEMV activations.
const gemm = "gemm"

// measureUnit measures the rows of a product on a target that are not known. How fast a kernel reads weights out of a cache depends on where they lie, and
// they stay there as long as a process lives: so every second time has a new process, except for weights in memory, where the copies of both sides lie
// between each other. The side that is measured first changes each time.
func measureUnit(ctx context.Context, unit []compared) error {
	d, err := newBeside(ctx, unit[0].old, unit[0].now)
	if err != nil {
		return err
	}
	defer d.code.Close()
	var rows []*compared
	for i := range unit {
		if !unit[i].measured() {
			rows = append(rows, &unit[i])
		}
	}
	var olds, news [][]float64
	for range rows {
		olds, news = append(olds, nil), append(news, nil)
	}
	for i := range mostRepeats {
		if i%2 == 0 && i > 0 && unit[0].Mode != measure.ModeDRAM {
			d.code.Renew()
		}
		for j, c := range rows {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if i >= leastRepeats && c.decided(olds[j], news[j]) {
				continue
			}
			old, now, err := d.time(c, i%2 > 0)
			if err != nil {
				return err
			}
			olds[j], news[j] = append(olds[j], old), append(news[j], now)
		}
	}
	for j, c := range rows {
		c.Ratios = ratiosOf(olds[j], news[j])
		c.Ratio = tune.RatioOf(c.Ratios)
		c.OldNs, c.NewNs = timing.Median(olds[j]), timing.Median(news[j])
		c.CPU, c.Date = timing.ThisHost().CPU, bench.Today()
	}
	return nil
}

// decided says that the bounds of the ratio lie on one side of each limit.
func (c *compared) decided(olds, news []float64) bool {
	r := tune.RatioOf(ratiosOf(olds, news))
	return !slices.ContainsFunc(comparedLimits, func(limit float64) bool { return r.Low < limit && limit < r.High })
}

func ratiosOf(olds, news []float64) (out []float64) {
	for i := range olds {
		ratio, _ := strconv.ParseFloat(fmt.Sprintf("%.4f", news[i]/olds[i]), 64)
		out = append(out, ratio)
	}
	return out
}

// time measures a row once: both sides in the same rounds. Its times have the share of preparing activations.
func (d *beside) time(c *compared, swapped bool) (old, now float64, err error) {
	at := worker.Timed{M: c.M, N: c.N, K: c.K}
	if c.Mode == measure.ModeDRAM {
		at.Total = bench.DRAMBytes(timing.ThisHost())
	}
	in := [2]worker.Timed{at, at}
	in[0].Spec, in[0].Keep, in[1].Spec = d.old, true, d.now
	if swapped {
		slices.Reverse(in[:])
	}
	sample := sampleOf[c.Mode]
	if c.N > measure.MaxGEMV && c.Mode != measure.ModeL2 {
		sample = sampleOf[gemm]
	}
	s, err := d.code.Time(c.String(), sample, in[:]...)
	if err != nil {
		return 0, 0, err
	}
	if swapped {
		slices.Reverse(s)
	}
	return s[0].Min, s[1].Min, nil
}

// readLines reads a file of JSON objects, one a line, that appendLine appends to. A file that is not there, or has no name, has none.
func readLines[T any](path string) (all []T, err error) {
	if path == "" {
		return nil, nil
	}
	if err := defaults.Appendable(path); err != nil {
		return nil, fmt.Errorf("-o %w", err)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for d := json.NewDecoder(file); d.More(); {
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(all)+1, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// appendLine appends a JSON object to a file, if it has a name.
func appendLine(path string, one any) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}
