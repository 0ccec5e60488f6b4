package tune

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tmacc/tmacc/search/timing"
)

// genes is a point of a synthetic space: numbers from 0 to 7.
type genes [8]int

var errOdd = errors.New("odd")

// synthetic is a space whose costs interact, as costs of schedules do: there is one
// best point, neighbours of good points tend to be good, and the estimate knows only
// half of it. A tenth is illegal.
func synthetic(measured *[]genes) Space[genes] {
	want := genes{3, 1, 4, 1, 5, 2, 6, 5}
	return Space[genes]{
		Sample: func(rng *rand.Rand) (g genes) {
			for i := range g {
				g[i] = rng.Intn(8)
			}
			return g
		},
		Mutate: func(rng *rand.Rand, a, b genes) genes {
			if rng.Intn(2) == 0 {
				a[rng.Intn(len(a))] = rng.Intn(8)
				return a
			}
			for i := range a {
				if rng.Intn(2) == 0 {
					a[i] = b[i]
				}
			}
			return a
		},
		Point: func(g genes) (Point, error) {
			if (g[0]+3*g[5]+g[7])%10 == 9 {
				return Point{}, errOdd
			}
			p := Point{ID: string([]byte{byte(g[0]), byte(g[1]), byte(g[2]), byte(g[3]), byte(g[4]), byte(g[5]), byte(g[6]), byte(g[7])})}
			p.Estimate = 1
			for i, x := range g {
				p.Features = append(p.Features, float64(x))
				if i < 4 {
					p.Estimate += math.Abs(float64(x - want[i]))
				}
			}
			return p, nil
		},
		Reason: func(err error) string { return err.Error() },
		Measure: func(gs []genes) (out []Result) {
			for _, g := range gs {
				*measured = append(*measured, g)
				cost := 1.0
				for i, x := range g {
					d := math.Abs(float64(x - want[i]))
					cost += d + d*math.Abs(float64(g[(i+1)%8]-want[(i+1)%8]))/4
				}
				out = append(out, Result{Cost: cost})
			}
			return out
		},
	}
}

// What the model predicts of each thing is heard before the thing is measured, and with what was learned it is near the cost.
func TestEvolveExpects(t *testing.T) {
	var measured []genes
	expected := map[genes]float64{}
	s := synthetic(&measured)
	s.Expect = func(g genes, cost float64) {
		if len(measured) != 0 && measured[len(measured)-1] == g {
			t.Errorf("%v was measured before", g)
		}
		expected[g] = cost
	}
	var off, plain []float64 // distances of predictions from costs, and of estimates, as logarithms
	measure := s.Measure
	s.Measure = func(gs []genes) []Result {
		out := measure(gs)
		for i, g := range gs {
			p, _ := s.Point(g)
			off, plain = append(off, math.Abs(math.Log(expected[g]/out[i].Cost))), append(plain, math.Abs(math.Log(p.Estimate/out[i].Cost)))
		}
		return out
	}
	Evolve(t.Context(), s, Options{Trials: 200, Rng: rand.New(rand.NewSource(1))})
	if a, b := timing.Median(off[100:]), timing.Median(plain[100:]); len(off) < 150 || a > b/2 {
		t.Errorf("%d predictions are off by %.2f, estimates by %.2f", len(off), a, b)
	}
}

// Evolution finds in 300 trials what 300 random samples do not come near: for most
// seeds better by half, for none worse.
func TestEvolveBeatsRandom(t *testing.T) {
	half := 0
	for seed := range int64(10) {
		var measured []genes
		s := synthetic(&measured)
		rng := rand.New(rand.NewSource(seed))
		random := math.Inf(1)
		for range 300 {
			random = min(random, s.Measure([]genes{s.Sample(rng)})[0].Cost)
		}
		out := Evolve(context.Background(), s, Options{Trials: 300, Rng: rng})
		if out.Trials != 300 || out.Ended != "trials" || out.Dropped["odd"] == 0 {
			t.Errorf("seed %d: %d trials, ended by %s, dropped %v", seed, out.Trials, out.Ended, out.Dropped)
		}
		best := out.Best[0].Cost
		if best > random {
			t.Errorf("seed %d: evolution %v, random %v", seed, best, random)
		}
		if best < (random+1)/2 {
			half++
		}
		t.Logf("seed %d: evolution %.2f, random %.2f", seed, best, random)
	}
	if half < 8 {
		t.Errorf("for %d of 10 seeds evolution is better by half", half)
	}
}

// The neighbours of the best are measured when nothing better turns up, once for each best, also while nothing could be measured.
func TestEvolveNear(t *testing.T) {
	var measured []genes
	s := synthetic(&measured)
	best := genes{3, 1, 4, 1, 5, 2, 6, 5}
	s.Sample = func(rng *rand.Rand) genes { return genes{7, 7, 0, 7, 0, 7, rng.Intn(8), rng.Intn(8)} }
	s.Mutate = func(rng *rand.Rand, a, _ genes) genes { return s.Sample(rng) }
	asked := 0
	s.Near = func(g genes) (out []genes) {
		asked++
		for i := range g {
			x := g
			x[i] = best[i]
			out = append(out, x)
		}
		return out
	}
	out := Evolve(context.Background(), s, Options{Trials: 60, Rng: rand.New(rand.NewSource(1))})
	if asked != 1 || len(out.Best) == 0 || !slices.ContainsFunc(measured, func(g genes) bool { return g[0] == best[0] || g[2] == best[2] }) {
		t.Errorf("asked %d times for neighbours of the best, measured %v", asked, measured)
	}
	s.Measure = func(gs []genes) []Result {
		out := make([]Result, len(gs))
		for i := range out {
			out[i].Err = errOdd
		}
		return out
	}
	if out := Evolve(context.Background(), s, Options{Trials: 60, Rng: rand.New(rand.NewSource(1))}); len(out.Best) != 0 || asked != 1 {
		t.Errorf("of what cannot be measured %d are the best, asked %d times", len(out.Best), asked)
	}
}

// The best for one purpose has offspring, though by the whole cost it is among the worst. Joined candidates are measured next.
func TestEvolvePurposes(t *testing.T) {
	var measured []genes
	s := synthetic(&measured)
	special, failing := genes{7, 7, 7, 7, 7, 7, 7, 7}, genes{2}
	offspring := 0
	s.Mutate = func(rng *rand.Rand, a, _ genes) genes {
		if a == special {
			offspring++
		}
		return s.Sample(rng)
	}
	s.Measure = func(gs []genes) (out []Result) {
		for _, g := range gs {
			measured = append(measured, g)
			r := Result{Cost: 1 + float64(g[0]), Ratios: []float64{1 + float64(g[0]), 2, 0}}
			switch g {
			case special:
				r = Result{Cost: 100, Ratios: []float64{200, 1, 0}}
			case failing:
				r = Result{Err: errOdd}
			}
			out = append(out, r)
		}
		return out
	}
	joined := genes{6, 6, 6, 6, 6, 6, 6, 6}
	s.Join = func(gs []genes) []genes {
		if slices.Contains(gs, failing) {
			t.Error("what failed is joined")
		}
		if slices.Contains(gs, special) {
			return []genes{joined}
		}
		return nil
	}
	var seeds []genes
	for i := range parents + 1 {
		seeds = append(seeds, genes{1, i / 8, i % 8})
	}
	out := Evolve(context.Background(), s, Options{Trials: 200, Rng: rand.New(rand.NewSource(1))}, append(seeds, failing, special)...)
	if len(measured) < parents+4 || measured[parents+2] != special || measured[parents+3] != joined {
		t.Errorf("what was joined is not measured next, after %d of %d", parents+3, out.Trials)
	}
	if offspring < 10 {
		t.Errorf("the best by one part has %d offspring", offspring)
	}
}

// The model, fitted to some points, orders others better than the estimate alone.
func TestModelLearns(t *testing.T) {
	var measured []genes
	s := synthetic(&measured)
	rng := rand.New(rand.NewSource(1))
	draw := func() (p Point, cost float64) {
		for {
			g := s.Sample(rng)
			if p, err := s.Point(g); err == nil {
				return p, s.Measure([]genes{g})[0].Cost
			}
		}
	}
	var m model
	for range 200 {
		m.add(draw())
	}
	var plain model
	m.fit()
	right, plainly := 0, 0
	for range 1000 {
		a, costA := draw()
		b, costB := draw()
		if (m.predict(a) < m.predict(b)) == (costA < costB) {
			right++
		}
		if (plain.predict(a) < plain.predict(b)) == (costA < costB) {
			plainly++
		}
	}
	t.Logf("pairs in the right order: %d of 1000 by the model, %d by the estimate", right, plainly)
	if right < plainly+50 {
		t.Errorf("pairs in the right order: %d of 1000 by the model, %d by the estimate", right, plainly)
	}
}

func TestEvolveRepeats(t *testing.T) {
	run := func() (Outcome[genes], []genes) {
		var measured []genes
		return Evolve(context.Background(), synthetic(&measured), Options{Trials: 100, Rng: rand.New(rand.NewSource(7))}), measured
	}
	a, asked := run()
	b, again := run()
	if !reflect.DeepEqual(a, b) || !slices.Equal(asked, again) {
		t.Error("equal seeds give different searches")
	}
	seen := map[genes]bool{}
	for _, g := range asked {
		if seen[g] {
			t.Errorf("%v is measured twice", g)
		}
		seen[g] = true
	}
	if len(asked) != 100 || len(a.Tried) != 100 {
		t.Errorf("%d measured, %d tried", len(asked), len(a.Tried))
	}
}

// Of every family some are measured early, even if the estimate is against it.
func TestEvolveFamilies(t *testing.T) {
	var measured []genes
	s := synthetic(&measured)
	point := s.Point
	s.Point = func(g genes) (Point, error) {
		p, err := point(g)
		if p.Family = "even"; g[7]%2 == 1 {
			p.Family, p.Estimate = "odd", 1.5*p.Estimate
		}
		return p, err
	}
	Evolve(context.Background(), s, Options{Trials: 16, Propose: 2, Rng: rand.New(rand.NewSource(1))})
	odd := 0
	for _, g := range measured[:8] {
		odd += g[7] % 2
	}
	if odd != tryFamily {
		t.Errorf("%d of the first 8 measured are of the family that the estimate is against, want %d", odd, tryFamily)
	}
}

// When the time is over, a search lowers nothing more, however much was to be lowered at once.
func TestEvolveLowersNoMore(t *testing.T) {
	var lowered atomic.Int64
	var measured []genes
	ctx, stop := context.WithCancel(t.Context())
	s := synthetic(&measured)
	point := s.Point
	s.Point = func(g genes) (Point, error) {
		lowered.Add(1)
		stop()
		return point(g)
	}
	seeds := make([]genes, 100)
	for i := range seeds {
		seeds[i][1] = i % 8
	}
	out := Evolve(ctx, s, Options{Trials: 50, Rng: rand.New(rand.NewSource(1))}, seeds...)
	if n := int(lowered.Load()); n > runtime.GOMAXPROCS(0) || out.Trials != 0 || len(measured) != 0 || out.Ended != "interrupted" {
		t.Errorf("%d were lowered, %+v", n, out)
	}
}

// Interrupted, a search returns what it has; so does one whose patience ends, and one
// that has seen everything. Failures are counted, and cost a trial.
func TestEvolveEnds(t *testing.T) {
	var measured []genes
	s := synthetic(&measured)
	ctx, cancel := context.WithCancel(context.Background())
	opt := Options{Trials: 1000, Rng: rand.New(rand.NewSource(1)), Progress: func(p Progress) {
		if p.Trials >= 32 {
			cancel()
		}
	}}
	if out := Evolve(ctx, s, opt); out.Ended != "interrupted" || out.Trials != 32 || len(out.Best) != 8 {
		t.Errorf("interrupted: %d trials, %d found, %s", out.Trials, len(out.Best), out.Ended)
	}
	opt = Options{Trials: 100000, Patience: 200, Rng: rand.New(rand.NewSource(1))}
	if out := Evolve(context.Background(), s, opt); out.Ended != "patience" {
		t.Errorf("patience: %d trials, %s", out.Trials, out.Ended)
	}
	one := s
	one.Sample = func(*rand.Rand) genes { return genes{} }
	one.Mutate = func(_ *rand.Rand, a, _ genes) genes { return a }
	if out := Evolve(context.Background(), one, Options{Trials: 100, Rng: opt.Rng}); out.Ended != "exhausted" || out.Trials != 1 {
		t.Errorf("one point: %d trials, %s", out.Trials, out.Ended)
	}
	bad := s
	bad.Measure = func(gs []genes) []Result {
		return slices.Repeat([]Result{{Err: errors.New("crashed")}}, len(gs))
	}
	out := Evolve(context.Background(), bad, Options{Trials: 50, Rng: opt.Rng}, genes{1})
	if out.Trials < 50 || out.Dropped["crashed"] != out.Trials || len(out.Best) != 0 || !strings.Contains(out.Ended, "trials") {
		t.Errorf("all fail: %+v", out)
	}
}
