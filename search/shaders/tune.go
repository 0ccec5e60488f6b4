package shaders

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"sync"
	"time"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// Search is a search for faster schedules of a product on a device.
type Search struct {
	Problem  ir.Problem
	Target   spirv.Target
	Purposes []tune.Purpose
	Default  []search.Use   // that everything is compared with
	Seeds    [][]search.Use // that the search begins with, besides
	Options  tune.Options
	Log      func(tune.Trial) // gets each candidate that was measured, nil: nobody
	Say      func(string)     // gets each step that begins, nil: nobody

	lab   *Lab
	base  *variant.Shaders
	space *space.Space
	tiles bool  // it is the one of cooperative matrices
	ns    []int // of the purposes, ascending
	best  float64
	known map[string]tune.Result
	mu    sync.Mutex
}

// Candidate is schedules for one packed matrix: the first is for the fewest columns.
type Candidate struct {
	Uses    []search.Use
	points  []space.Point // of the traces, nil: the space has none
	shaders *variant.Shaders
	took    tune.Trial // what was measured
}

// Search looks for schedules until a limit is reached, nothing new turns up or ctx ends.
func (l *Lab) Search(ctx context.Context, s *Search) (out tune.Outcome[*Candidate], err error) {
	s.lab, s.known = l, map[string]tune.Result{}
	for _, p := range s.Purposes {
		s.ns = append(s.ns, p.N)
	}
	slices.Sort(s.ns)
	s.ns = slices.Compact(s.ns)
	s.Default = ofPrepared(s.Default)
	if s.base, err = l.Compile(ctx, s.Problem, s.Target, s.Default...); err != nil {
		return out, err
	}
	s.say("comparing the default schedules with the definition")
	left, err := l.Verify(ctx, s.Problem, s.base)
	if err != nil {
		return out, err
	}
	for _, x := range left {
		s.say(fmt.Sprintf("without the default schedule for %s: %s", message.Count(x.Columns, "column"), message.Line(x.Why)))
	}
	if len(left) > 0 {
		s.Default = nil
		for _, k := range s.base.Kernels {
			s.Default = append(s.Default, search.Use{Cols: k.Schedule.Cols, Trace: k.Schedule.Trace})
		}
	}
	if s.space, s.tiles, err = spaceFor(s.Problem, s.Target, s.ns); err != nil {
		return out, err
	}
	s.space = s.space.Prepared()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	seeds := []*Candidate{{Uses: s.Default}}
	for _, uses := range s.Seeds {
		seeds = append(seeds, &Candidate{Uses: uses})
	}
	out = tune.Evolve(ctx, tune.Space[*Candidate]{Sample: s.sample, Mutate: s.mutate, Point: s.point, Reason: Reason,
		Measure: func(cs []*Candidate) []tune.Result { return s.measure(ctx, stop, cs) }}, s.Options, seeds...)
	var broken *tune.Unmeasured
	if errors.As(context.Cause(ctx), &broken) {
		return out, broken
	}
	return out, nil
}

// ofPrepared is schedules without the step quantize: a search compares products of prepared activations, whose times have no preparation.
func ofPrepared(uses []search.Use) []search.Use {
	out := slices.Clone(uses)
	for i := range out {
		out[i].Trace, out[i].Most = schedule.Unquantized(out[i].Trace), nil
	}
	return out
}

func (s *Search) say(what string) {
	if s.Say != nil {
		s.Say(what)
	}
}

// Reason classifies why a candidate was dropped.
func Reason(err error) string {
	var fault *schedule.Illegal
	switch {
	case errors.Is(err, errNone), errors.Is(err, errLong):
		return err.Error()
	case errors.As(err, &fault):
		return "illegal"
	case worker.IsFault(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return tune.Reason(err)
	}
	return "refused"
}

var (
	errNone = errors.New("the space has none")
	errLong = errors.New("too long")
)

// mostModule bounds the modules that are measured, in bytes: drivers take minutes to compile longer ones.
const mostModule = 32 << 10

// widths are numbers of columns of kernels for n activations: a kernel of more than that is padded.
func (s *Search) widths(n int) (all []int) {
	first, last := 1, widest
	if s.tiles {
		first, last = fewestOfTiles, widestTiles
	}
	for w := first; w <= min(n, last); w *= 2 {
		all = append(all, w)
	}
	return all
}

// widest bounds the columns of a kernel, and widestTiles the columns of one by cooperative matrices.
const widest, widestTiles = 128, 256

// sample draws a kernel for the fewest activations, and kernels for the others that share its packed matrix.
func (s *Search) sample(rng *rand.Rand) *Candidate {
	of := s.widths(s.ns[0])
	x, err := s.space.Columns(of[rng.Intn(len(of))]).Sample(rng)
	if err != nil {
		return &Candidate{}
	}
	return s.widened(rng, []space.Point{x})
}

// widened adds kernels for other numbers of activations to the first one. Points of like may supply their decisions.
func (s *Search) widened(rng *rand.Rand, points []space.Point, like ...space.Point) *Candidate {
	first, err := s.space.Kernel(points[0])
	if err != nil {
		return &Candidate{}
	}
	c := &Candidate{points: points[:1], Uses: []search.Use{{Trace: points[0].Trace()}}}
	sharing := s.space.Sharing(first)
	for i, n := range s.ns[1:] {
		of := s.widths(n)
		cols := of[max(0, len(of)-1-rng.Intn(min(4, len(of))))]
		from := points[0]
		if i < len(like) && rng.Intn(4) > 0 {
			from = like[i]
		}
		x, err := sharing.Columns(cols).Near(from)
		if err == nil && rng.Intn(2) == 0 {
			x, err = sharing.Columns(cols).Mutate(rng, x)
		}
		k, fail := s.space.Kernel(x)
		if err != nil || fail != nil || k.Cols <= c.widest(s.space) {
			continue
		}
		c.points, c.Uses = append(c.points, x), append(c.Uses, search.Use{Trace: x.Trace()})
	}
	return c
}

// widest is the most columns of a kernel of c.
func (c *Candidate) widest(sp *space.Space) int {
	k, err := sp.Kernel(c.points[len(c.points)-1])
	if err != nil {
		return math.MaxInt
	}
	return k.Cols
}

// mutate changes one decision of a: of its first kernel, which the others follow, or of another one.
func (s *Search) mutate(rng *rand.Rand, a, b *Candidate) *Candidate {
	if !s.place(a) || !s.place(b) {
		return s.sample(rng)
	}
	first := a.points[0]
	var err error
	switch rng.Intn(4) {
	case 0:
		first, err = s.space.Cross(rng, a.points[0], b.points[0])
	case 1, 2:
		first, err = s.space.Mutate(rng, first)
	}
	if err != nil {
		return s.sample(rng)
	}
	return s.widened(rng, []space.Point{first}, a.points[1:]...)
}

// place finds the points of c, if the space has them.
func (s *Search) place(c *Candidate) bool {
	if len(c.Uses) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.points != nil {
		return true
	}
	var points []space.Point
	for _, u := range c.Uses {
		x, err := s.space.Parse(u.Trace)
		if err != nil {
			return false
		}
		points = append(points, x)
	}
	c.points = points
	return true
}

// point compiles c. What a device does with a shader nothing here predicts: the model learns it from what the code has.
func (s *Search) point(c *Candidate) (tune.Point, error) {
	if len(c.Uses) == 0 {
		return tune.Point{}, errNone
	}
	v, err := s.lab.Compile(context.Background(), s.Problem, s.Target, c.Uses...)
	if err != nil {
		return tune.Point{}, err
	}
	if _, err := v.Spec(s.Problem); err != nil { // which also sorts the kernels
		return tune.Point{}, err
	}
	c.shaders = v
	for _, k := range v.Kernels {
		if n := len(k.Shaders[0].Binary()); n > mostModule {
			return tune.Point{}, errLong
		}
	}
	p := tune.Point{ID: hash(v), Family: fmt.Sprint(c.Uses[0].Trace[0]), Estimate: 1}
	first, last := v.Kernels[0], v.Kernels[len(v.Kernels)-1]
	for _, k := range []variant.Shaded{first, last} {
		sh := k.Shaders[0]
		for _, n := range []int{vir.Product(sh.Lanes), k.Schedule.Rows, k.Schedule.Cols, k.Schedule.StepK, k.Schedule.Chunk, len(sh.Binary())} {
			p.Features = append(p.Features, math.Log2(float64(n)))
		}
	}
	return p, nil
}

// hash identifies the shaders of v.
func hash(v *variant.Shaders) string {
	h := sha256.New()
	for _, k := range v.Kernels {
		h.Write(k.Shaders[0].Binary())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// measured is how often a candidate is timed beside the default: the least number from which tune.RatioOf has bounds. repeated is how often the
// best are.
const measured, repeated = 5, 8

// measure times candidates beside the default schedules. One that would be the best is compared with the definition.
func (s *Search) measure(ctx context.Context, stop context.CancelCauseFunc, cs []*Candidate) (out []tune.Result) {
	for _, c := range cs {
		r := tune.Result{}
		if r.Cost, r.Err = s.cost(ctx, c); r.Err == nil && (s.best == 0 || r.Cost < s.best) {
			if r.Err = s.lab.Test(ctx, s.Problem, c.shaders); r.Err == nil {
				s.best = r.Cost
			}
		}
		r.Ratios = c.took.Ratios
		if r.Err = s.blame(ctx, r.Err); errors.As(r.Err, new(*tune.Unmeasured)) {
			stop(r.Err)
		}
		out = append(out, r)
		s.log(c, r)
	}
	return out
}

// blame returns err if the candidate is to blame for it: if the default schedules alone run, on a device that is opened again if need be. Else it is
// an *Unmeasured.
func (s *Search) blame(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.As(err, new(*worker.Wrong)) {
		return cmp.Or(ctx.Err(), err)
	}
	_, alone := s.lab.Time(ctx, s.Problem, s.Purposes[0], 1, s.base)
	if alone != nil && ctx.Err() == nil {
		return &tune.Unmeasured{Err: alone}
	}
	return cmp.Or(ctx.Err(), err)
}

func (s *Search) cost(ctx context.Context, c *Candidate) (float64, error) {
	c.took = tune.Trial{}
	for _, p := range s.Purposes {
		x, err := s.lab.Time(ctx, s.Problem, p, measured, s.base, c.shaders)
		if err != nil {
			return 0, err
		}
		base, own := timing.Median(x[0].Rounds), timing.Median(x[1].Rounds)
		low, high := tune.Bounds(own/base, tune.RoundRatios(x[0], x[1]))
		c.took.Ns, c.took.Ratios = append(c.took.Ns, own), append(c.took.Ratios, own/base)
		c.took.Low, c.took.High = append(c.took.Low, low), append(c.took.High, high)
	}
	return tune.CostOf(c.took.Ratios), nil
}

func (s *Search) log(c *Candidate, r tune.Result) {
	if s.Log == nil || errors.As(r.Err, new(*tune.Unmeasured)) || errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, context.DeadlineExceeded) {
		return
	}
	x := c.took
	x.Hash, x.Cost = hash(c.shaders), r.Cost
	for _, u := range c.Uses {
		x.Genes = append(x.Genes, tune.Gene{Trace: u.Trace})
	}
	if r.Err != nil {
		x.Error, x.Fault, x.Cost = Reason(r.Err), r.Err.Error(), 0
	}
	s.Log(x)
}

// Best measures the best of an outcome again, each beside the default schedules, and returns the fastest that the definition agrees with, and that
// packages can have; nil if that is none but the default.
func (s *Search) Best(ctx context.Context, out tune.Outcome[*Candidate]) (best *Candidate, figures []tune.Beside, err error) {
	least := math.Inf(1)
	for _, f := range out.Best[:min(len(out.Best), 4)] {
		if hash(f.G.shaders) == hash(s.base) {
			continue
		}
		if s.packaged(ctx, f.G) != nil {
			continue
		}
		b, err := s.confirmed(ctx, f.G)
		if err = s.blame(ctx, err); ctx.Err() != nil || errors.As(err, new(*tune.Unmeasured)) {
			return nil, nil, err
		} else if err != nil {
			continue
		}
		if r := tune.Together(b); r.Median < least {
			best, figures, least = f.G, b, r.Median
		}
	}
	return best, figures, nil
}

// packaged says why packages cannot have c.
func (s *Search) packaged(ctx context.Context, c *Candidate) error {
	_, err := build.Shaders(ctx, s.Problem, s.Target, c.Uses, Packaged...)
	return err
}

// confirmed are repeated measurements of c and of the default schedules, if c has the bits of the definition.
func (s *Search) confirmed(ctx context.Context, c *Candidate) (all []tune.Beside, err error) {
	if err := s.lab.Test(ctx, s.Problem, c.shaders); err != nil {
		return nil, err
	}
	for _, p := range s.Purposes {
		x, err := s.lab.Time(ctx, s.Problem, p, repeated, s.base, c.shaders)
		if err != nil {
			return nil, err
		}
		all = append(all, tune.Beside{Purpose: p, BaseNs: x[0].Rounds, Ns: x[1].Rounds})
	}
	return all, nil
}

// Entry is c as a lock has it.
func (s *Search) Entry(ctx context.Context, c *Candidate, figures []tune.Beside, version string) (tune.Entry, error) {
	read, err := s.lab.ReadGBS(ctx)
	if err != nil {
		return tune.Entry{}, err
	}
	e := tune.Entry{Product: s.Problem.Name(), ActGroup: s.Problem.Act.Group, Target: s.Target.Machine().Name, Problem: tune.ProblemHash(s.Problem),
		Host: s.lab.Host(), Compiler: version}
	for _, b := range figures {
		r := Record(s.Problem, c.shaders, b.Purpose, timing.Sample{Rounds: b.Ns}, read)
		e.Figures = append(e.Figures, tune.Figures{Mode: b.Mode, M: b.M, N: b.N, K: b.K, Ns: r.Ns, DefaultNs: timing.Median(b.BaseNs), Share: r.Share,
			Ceilings: tune.Ceilings{ReadGBS: read}})
	}
	for _, k := range c.shaders.Kernels {
		sum := sha256.Sum256(k.Shaders[0].Binary())
		e.Kernels = append(e.Kernels, tune.Kernel{Cols: k.Schedule.Cols, Hash: hex.EncodeToString(sum[:16]), Trace: k.Schedule.Trace})
	}
	return e, nil
}

// LogTo makes a search write what it measures to a log, which end completes by why the search ended. If something cannot be written, failed gets the error, and the
// rest is not written.
func (s *Search) LogTo(log tune.Log, l *Lab, seed int64, version string, failed func(error)) (end func(ended string, dropped map[string]int) error, err error) {
	run := s.run(l, seed, version)
	if err := log.Begin(&run); err != nil {
		return nil, err
	}
	outer, on := s.Log, true
	s.Log = func(t tune.Trial) {
		if outer != nil {
			outer(t)
		}
		if !on {
			return
		}
		if err := log.Add(&run, t); err != nil {
			on = false
			failed(err)
		}
	}
	return func(ended string, dropped map[string]int) error {
		if !on {
			return nil
		}
		run.Ended, run.Dropped = ended, dropped
		return log.Add(&run)
	}, nil
}

// run is the search as a log has it.
func (s *Search) run(l *Lab, seed int64, version string) tune.Run {
	r := tune.Run{Start: time.Now(), Cost: tune.CostVersion, Product: s.Problem.Name(), ActGroup: s.Problem.Act.Group, Target: s.Target.Machine().Name,
		Problem: tune.ProblemHash(s.Problem), Defined: &s.Problem, Purposes: s.Purposes, Seed: seed, CPU: l.Device().Name, Compiler: version}
	for _, u := range s.Default {
		r.Usual = append(r.Usual, u.Trace)
	}
	return r
}
