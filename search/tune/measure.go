package tune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/worker"
)

// How long candidates are measured: each for a `glance`, and for a longer `look` if it is not much slower than the default.
// At the end the best are measured again, to `confirm` them. With weights in the third-level cache, a longer sample has
// several calls: a single call would find its weights displaced by other calls. Figures: docs/lab/choices.md, look.
var (
	glance  = timing.Options{Rounds: 3, MinSample: 20 * time.Microsecond}
	look    = timing.Options{Rounds: 11, MinSample: 300 * time.Microsecond}
	confirm = timing.Options{Rounds: 11, MinSample: time.Millisecond}
)

// hopeless is a ratio of times, the candidate's over the default's. Above it, at a glance, a candidate is not measured
// again.
const hopeless = 1.5

// affordable is a candidate's largest cost, with weights in a cache, at which it is also measured with weights in memory.
// That takes long to set up, and a candidate that loses more in the cache would have to win a lot in memory. With a
// smaller limit, a search from scratch learns late which schedules suit memory. Figures: docs/lab/choices.md, affordable.
const affordable = 1.5

// Unmeasured reports that nothing can be measured any more, for which no candidate is to blame: a
// disk is full, a machine is gone, or the default schedules end as the candidate did.
type Unmeasured struct{ Err error }

func (e *Unmeasured) Error() string { return "cannot measure: " + e.Err.Error() }

func (e *Unmeasured) Unwrap() error { return e.Err }

// Search is Evolve in t's space. If nothing can be measured any more it ends, with an *Unmeasured and
// what it has.
func (t *Tuner) Search(ctx context.Context, opt Options, seeds ...*Candidate) (Outcome[*Candidate], error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := t.Space(ctx)
	measure := s.Measure
	s.Measure = func(cs []*Candidate) []Result {
		results := measure(cs)
		if broken := unmeasured(results); broken != nil {
			stop(broken)
		}
		return results
	}
	out := Evolve(ctx, s, opt, seeds...)
	var broken *Unmeasured
	if errors.As(context.Cause(ctx), &broken) {
		return out, broken
	}
	return out, nil
}

// Resume makes t take the results of what was measured before from trials, and returns the
// candidates to begin with, the best first. It leaves out candidates of another number of widths, and trials that neither have a cost nor say why.
func (t *Tuner) Resume(trials []Trial) []*Candidate {
	trials = slices.DeleteFunc(slices.Clone(trials), func(x Trial) bool {
		return len(x.Genes) != len(t.widths()) || x.Error == "" && !(x.Cost > 0)
	})
	slices.SortStableFunc(trials, func(a, b Trial) int { return cmp.Compare(a.Cost, b.Cost) })
	type again struct {
		*Candidate
		hash string
	}
	var out []again
	for _, x := range trials {
		r := Result{Cost: x.Cost, Known: true}
		if len(x.Ratios) == len(t.Purposes) { // which logs of before do not have
			r.Ratios = x.Ratios
		}
		if x.Error != "" {
			r.Err = errors.New(x.Error)
		}
		before, twice := t.known[x.Hash]
		t.known[x.Hash] = r // of several results the last one counts; they come in order, failures first and the worst last
		if r.Err == nil && (!twice || before.Err != nil) {
			out = append(out, again{&Candidate{Genes: x.Genes}, x.Hash})
		}
	}
	slices.SortStableFunc(out, func(a, b again) int { return cmp.Compare(t.known[a.hash].Cost, t.known[b.hash].Cost) })
	var cs []*Candidate
	for _, x := range out {
		cs = append(cs, x.Candidate)
	}
	return cs
}

// measure returns known results of candidates, and measures the others.
func (t *Tuner) measure(ctx context.Context, cs []*Candidate) []Result {
	out := make([]Result, len(cs))
	var unknown []*Candidate
	var at []int
	for i, c := range cs {
		r, ok := t.known[c.Hash]
		switch out[i] = r; {
		case !ok:
			unknown, at = append(unknown, c), append(at, i)
		case r.Err == nil && (t.best == 0 || r.Cost < t.best):
			t.best = r.Cost
		}
	}
	for i, r := range t.measureNew(ctx, unknown) {
		out[at[i]] = r
	}
	return out
}

// atOnceLoaded is how many candidates are assembled together.
const atOnceLoaded = 16

// measureNew compares each candidate's results with the definition, and then its times with the default's times, in the
// same rounds: see CostOf. Each result is logged before the next candidate is looked at.
func (t *Tuner) measureNew(ctx context.Context, cs []*Candidate) []Result {
	var out []Result
	for batch := range slices.Chunk(cs, atOnceLoaded) {
		out = append(out, t.measureBatch(ctx, batch)...)
		if broken := unmeasured(out); broken != nil { // nor can the others be
			for len(out) < len(cs) {
				out = append(out, Result{Err: broken})
			}
			return out
		}
	}
	return out
}

// unmeasured is the first error of results for which no candidate is to blame, nil if there is none.
func unmeasured(results []Result) error {
	for _, r := range results {
		if broken := (*Unmeasured)(nil); errors.As(r.Err, &broken) {
			return broken
		}
	}
	return nil
}

func (t *Tuner) measureBatch(ctx context.Context, cs []*Candidate) []Result {
	out := make([]Result, len(cs))
	code, err := t.load(cs)
	switch {
	case err != nil && len(cs) > 1: // one may be what cannot be assembled
		for i := range cs {
			if out[i].Err = unmeasured(out[:i]); out[i].Err == nil {
				out[i] = t.measureBatch(ctx, cs[i:i+1])[0]
			}
		}
		return out
	case err != nil:
		out[0].Err = t.unassembled(cs[0], err)
		t.log(cs[0], out[0])
		return out
	}
	defer code.Close()
	for i, c := range cs {
		if out[i].Err = cmp.Or(unmeasured(out[:i]), ctx.Err()); out[i].Err == nil {
			out[i].Cost, out[i].Err = t.cost(code, c, i)
			out[i].Ratios = c.ratios
			t.log(c, out[i])
		}
	}
	return out
}

// unassembled blames c for err only if the default can be loaded alone.
func (t *Tuner) unassembled(c *Candidate, err error) error {
	if worker.IsEnvironment(err) {
		return &Unmeasured{err}
	}
	code, alone := t.load(nil)
	if alone != nil {
		return &Unmeasured{alone}
	}
	code.Close()
	return &worker.Wrong{What: c.what(), Difference: "it cannot be assembled: " + err.Error()}
}

// blame returns err if a candidate of `code` is to blame for it, else an *Unmeasured. If the error does not tell, it tries
// the default alone: if that ends too, no candidate is to blame.
func (t *Tuner) blame(code *worker.Code, err error) error {
	var killed *worker.Killed
	var timeout *worker.Timeout
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case worker.IsEnvironment(err):
		return &Unmeasured{err}
	case worker.IsFault(err) && !errors.As(err, &timeout):
		return err
	}
	if _, alone := code.Time("the default schedules", glance, t.timed(t.reference, true)...); errors.As(alone, &timeout) {
		return &Unmeasured{fmt.Errorf("%w: the machine is too busy", alone)}
	} else if alone != nil {
		return &Unmeasured{alone}
	}
	if errors.As(err, &killed) {
		return &worker.Crash{What: killed.What, Output: killed.Why}
	}
	return err
}

// log passes on what was measured.
func (t *Tuner) log(c *Candidate, r Result) {
	var broken *Unmeasured
	if t.Log == nil || errors.As(r.Err, &broken) || errors.Is(r.Err, context.Canceled) {
		return
	}
	x := Trial{Genes: c.Genes, Hash: c.Hash, Cost: r.Cost, Ns: c.ns, Ratios: c.ratios, Low: c.low, High: c.high, Estimate: c.estimate, Predicted: c.predicted}
	if r.Err != nil {
		x.Error, x.Cost = Reason(r.Err), 0
		if worker.IsFault(r.Err) {
			x.Fault = r.Err.Error()
		}
	}
	t.Log(x)
}

// settled is a factor of the time limit of a request, for kernels that were all measured before. They are known to end, so
// that only a busy machine takes this long.
const settled = 10

// load assembles the default and candidates, with names by their indices.
func (t *Tuner) load(cs []*Candidate) (*worker.Code, error) { return t.loadFor(t.Limit, cs) }

// loadFor is load for requests of at most so long.
func (t *Tuner) loadFor(limit time.Duration, cs []*Candidate) (*worker.Code, error) {
	members := []member{t.reference}
	for i, c := range cs {
		members = append(members, t.target(c, i))
	}
	f, err := t.Target.File("main", functions(members)...)
	if err != nil {
		return nil, err
	}
	return worker.Load(worker.Options{Limit: limit, On: t.On, Context: t.Context}, f)
}

// functions prints what members need: the kernels of all, then each preparation once.
func functions(members []member) (fs []lower.Named) {
	var prepares []*prepared
	for _, m := range members {
		for _, k := range m.Kernels {
			fs = append(fs, lower.Named{Name: m.prefix + k.Name(), Function: k.Printed(m.Target).Text})
		}
		if !slices.Contains(prepares, m.prepare) {
			prepares = append(prepares, m.prepare)
		}
	}
	for _, p := range prepares {
		fs = append(fs, lower.Named{Name: p.name, Function: p.Text})
	}
	return fs
}

// timed are the products of a target for each purpose.
func (t *Tuner) timed(x member, keep bool) []worker.Timed {
	s := x.spec(t.Problem)
	var out []worker.Timed
	for _, p := range t.Purposes {
		out = append(out, worker.Timed{Spec: s, M: p.M, N: p.N, K: p.K, Total: p.Total, Keep: keep})
	}
	return out
}

// cost verifies and measures candidate i of code. A fault of the worker is an *Unmeasured.
func (t *Tuner) cost(code *worker.Code, c *Candidate, i int) (cost float64, err error) {
	x := t.target(c, i)
	for j := range x.Kernels {
		if err == nil {
			err = t.verify(code, x, j)
		}
	}
	if err == nil {
		cost, err = t.believed(func(times int) (float64, error) { return t.compare(code, c, x, times) })
	}
	return cost, t.blame(code, err)
}

// verify compares kernel j of x with the definition, once: most offspring differ from their parents in one kernel.
func (t *Tuner) verify(code *worker.Code, x member, j int) error {
	trace := x.Kernels[j].Schedule.Trace
	key := trace.Key() + preparation(x.Variant)
	if t.verified[key] {
		return nil
	}
	err := code.Test(trace.String(), x.spec(t.Problem, j), 1)
	t.verified[key] = err == nil
	return err
}

// sure is how often the best of all was measured. Of hundreds of candidates that are equally fast, one is lucky once or
// twice.
const sure = 4

// believed is a candidate's cost after one measurement, or after up to `sure` measurements as long as it would be the best
// of all. Else the search would follow candidates that were lucky once.
func (t *Tuner) believed(measure func(times int) (float64, error)) (cost float64, err error) {
	for times := range sure {
		if cost, err = measure(times + 1); err != nil || t.best != 0 && cost >= t.best {
			return cost, err
		}
	}
	t.best = cost
	return cost, nil
}

// took is a measurement of kernels for a purpose: their time and its ratio to the default's in the same rounds. Of
// several measurements (times) it has the largest ratio.
type took struct {
	ns, ratio float64
	rounds    []float64 // the ratio of each round
	times     int
}

// Bounds returns bounds of a ratio by the ratios of rounds, 0 if there are too few rounds.
func Bounds(ratio float64, rounds []float64) (low, high float64) {
	r := RatioOf(rounds)
	if math.IsInf(r.High, 1) {
		return 0, 0
	}
	return min(r.Low, ratio), max(r.High, ratio)
}

// RoundRatios are the ratios of two functions' times, of the rounds in which both had their core to themselves.
func RoundRatios(base, own timing.Sample) (out []float64) {
	for i, ns := range own.Rounds {
		if i < len(base.Rounds) && own.Alone[i] && base.Alone[i] {
			out = append(out, ns/base.Rounds[i])
		}
	}
	return out
}

// uses names the kernels of x that purpose p uses, and what prepares their activations.
func (t *Tuner) uses(x member, p int) string {
	key := fmt.Sprint(p, " ", preparation(x.Variant))
	for _, k := range used(x.Kernels, t.Purposes[p].N) {
		key += "\n" + k.Schedule.Trace.Key()
	}
	return key
}

// used returns the kernels by which the runtime multiplies n activations, out of kernels in ascending width.
func used(kernels []variant.Kernel, n int) (out []variant.Kernel) {
	last := 0
	for _, cols := range callsOf(kernels, n) {
		if cols != last {
			i := slices.IndexFunc(kernels, func(k variant.Kernel) bool { return k.Schedule.Cols == cols })
			out = append(out, kernels[i])
		}
		last = cols
	}
	return out
}

// callsOf are the columns of the calls by which the runtime multiplies n activations.
func callsOf(kernels []variant.Kernel, n int) (cols []int) {
	of := func(i int) int { return kernels[i].Schedule.Cols }
	for i, blocks := range abi.CutOf(len(kernels), of, n).Blocks(len(kernels)) {
		cols = append(cols, slices.Repeat([]int{of(i)}, blocks)...)
	}
	return cols
}

// compare measures the candidate c, described by x, beside the default. Afterwards each purpose was measured `times` times
// with the kernels that it uses. Earlier measurements of these kernels count, because most offspring differ from their
// parents in one kernel. Purposes out of memory are measured only if c's cost is affordable.
func (t *Tuner) compare(code *worker.Code, c *Candidate, x member, times int) (float64, error) {
	c.measures = newMeasures(len(t.Purposes))
	var ratios []float64
	for _, some := range t.quickAndSlow() {
		if len(ratios) > 0 && CostOf(ratios) > affordable { // known results count
			some = slices.DeleteFunc(slices.Clone(some), func(p int) bool { return t.times[t.uses(x, p)].times == 0 })
		}
		less := slices.DeleteFunc(slices.Clone(some), func(p int) bool { return t.times[t.uses(x, p)].times >= times })
		now, err := t.time(code, c, x, less)
		if err != nil {
			return 0, err
		}
		for _, p := range some {
			m, ok := now[p]
			if !ok {
				m = t.times[t.uses(x, p)]
			}
			c.ns[p], c.ratios[p] = m.ns, m.ratio
			c.low[p], c.high[p] = Bounds(m.ratio, m.rounds)
			ratios = append(ratios, m.ratio)
		}
	}
	return CostOf(ratios), nil
}

// time measures purposes of a candidate, whose target is x, and notes what they took unless it had no more than a glance.
func (t *Tuner) time(code *worker.Code, c *Candidate, x member, purposes []int) (map[int]took, error) {
	if len(purposes) == 0 {
		return nil, nil
	}
	defaults, own := t.timed(t.reference, true), t.timed(x, false)
	var as, bs []worker.Timed
	for _, p := range purposes {
		as, bs = append(as, defaults[p]), append(bs, own[p])
	}
	samples, glanced, err := code.Compare(c.what(), glance, look, hopeless, as, bs)
	if err != nil {
		return nil, err
	}
	out := map[int]took{}
	for i, p := range purposes {
		reference, ns, key := samples[2*i].Min, samples[2*i+1].Min, t.uses(x, p)
		if r := &t.ReferenceNs[p]; *r == 0 || reference < *r {
			*r = reference
		}
		m := took{ns, ns / reference, RoundRatios(samples[2*i], samples[2*i+1]), 1}
		if before, ok := t.times[key]; ok {
			m = took{min(ns, before.ns), max(m.ratio, before.ratio), slices.Concat(before.rounds, m.rounds), before.times + 1}
		}
		if out[p] = m; !glanced {
			t.times[key] = m
		}
	}
	return out, nil
}

// tolerated is how much longer than by default a purpose may take, a logarithm.
const tolerated = 0.03

// CostOf is the geometric mean of the ratios of a candidate's times to the default's, one for each purpose. If
// the worst ratio is above tolerated, its excess is added as if all ratios were worse by it, up to the worst:
// who tunes does not want to trade products with one column for those with many.
func CostOf(ratios []float64) float64 {
	n, mean, worst := float64(len(ratios)), 0.0, math.Inf(-1)
	for _, r := range ratios {
		mean += math.Log(r) / n
		worst = max(worst, math.Log(r))
	}
	return math.Exp(min(worst, mean+n*max(0, worst-tolerated)))
}

// quickAndSlow are the purposes by index: those out of a cache, and those out of memory.
func (t *Tuner) quickAndSlow() (out [2][]int) {
	for i, p := range t.Purposes {
		slow := 0
		if p.Total > 0 {
			slow = 1
		}
		out[slow] = append(out[slow], i)
	}
	return out
}

// Confirmed is a candidate measured again: for each purpose its time and that of the default in the same rounds, and their cost.
type Confirmed struct {
	*Candidate
	Ns, DefaultNs []float64
	Cost          float64
}

// confirmations is how often Confirm measures each candidate for a purpose. A single measurement depends on the data that
// lay in the caches before.
const confirmations = 4

// Confirm measures candidates again and returns them, the best first. Each is measured alone in rounds with the default:
// several candidates would displace each other from the third-level cache. Out of memory only one candidate can have its
// weights between the default's.
//
// The time for a purpose is the mean of several measurements. For weights in a cache the default's time is the fastest
// one, beside whichever candidate. So no candidate wins because the default was slow beside it.
func (t *Tuner) Confirm(found []Found[*Candidate]) (out []Confirmed, err error) {
	var cs []*Candidate
	for _, f := range found {
		cs = append(cs, f.G)
		out = append(out, Confirmed{Candidate: f.G, Ns: make([]float64, len(t.Purposes)), DefaultNs: make([]float64, len(t.Purposes))})
	}
	code, err := t.loadFor(settled*t.Limit, cs)
	if err != nil {
		return nil, err
	}
	defer code.Close()
	for p := range t.Purposes {
		reference := t.timed(t.reference, true)[p]
		for i := range confirmations * len(out) {
			c := &out[i%len(out)]
			s, err := code.Time("the best", confirm, reference, t.timed(t.target(c.Candidate, i%len(out)), false)[p])
			if err != nil {
				return nil, t.blame(code, err)
			}
			c.DefaultNs[p] += s[0].Min / confirmations
			c.Ns[p] += s[1].Min / confirmations
		}
	}
	rank(out, t.Purposes)
	return out, nil
}

// rank gives candidates their costs, and puts the best first.
func rank(all []Confirmed, purposes []Purpose) {
	for p, purpose := range purposes {
		least := math.Inf(1)
		for _, c := range all {
			least = min(least, c.DefaultNs[p])
		}
		for _, c := range all {
			if purpose.Total == 0 {
				c.DefaultNs[p] = least
			}
		}
	}
	for i := range all {
		var ratios []float64
		for p, ns := range all[i].Ns {
			ratios = append(ratios, ns/all[i].DefaultNs[p])
		}
		all[i].Cost = CostOf(ratios)
	}
	slices.SortStableFunc(all, func(a, b Confirmed) int { return cmp.Compare(a.Cost, b.Cost) })
}
