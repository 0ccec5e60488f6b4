package sample

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// defined is a token of a definition, with float64 values.
type defined struct {
	id       int
	logit, p float64
}

// definition computes filters as their papers and llama.cpp say, in float64. margin is how near a decision was to the other
// one: float32 may decide otherwise there.
type definition struct {
	list   []defined
	margin float64
}

func define(logits []float32) *definition {
	d := &definition{margin: math.Inf(1)}
	for i, x := range logits {
		if x == x && !math.IsInf(float64(x), -1) {
			d.list = append(d.list, defined{id: i, logit: float64(x)})
		}
	}
	slices.SortStableFunc(d.list, func(a, b defined) int { return cmp.Compare(b.logit, a.logit) })
	return d
}

func (d *definition) softmax(temperature float64) {
	top, sum := math.Inf(-1), 0.0
	for _, x := range d.list {
		top = max(top, x.logit)
	}
	for i := range d.list {
		x := &d.list[i]
		x.p = math.Exp((x.logit - top) / temperature)
		sum += x.p
	}
	for i := range d.list {
		d.list[i].p /= sum
	}
}

func (d *definition) near(x, y float64) { d.margin = min(d.margin, math.Abs(x-y)) }

func (d *definition) topK(k int) { d.list = d.list[:min(k, len(d.list))] }

func (d *definition) topP(p float64) {
	d.softmax(1)
	sum := 0.0
	for i, x := range d.list {
		sum += x.p
		d.near(sum, p)
		if sum >= p {
			d.list = d.list[:i+1]
			return
		}
	}
}

func (d *definition) minP(p float64) {
	d.softmax(1)
	for i, x := range d.list {
		d.near(x.logit, d.list[0].logit+math.Log(p))
		if x.p < p*d.list[0].p {
			d.list = d.list[:i]
			return
		}
	}
}

func (d *definition) typical(p float64) {
	d.softmax(1)
	entropy := 0.0
	for _, x := range d.list {
		if x.p > 0 {
			entropy -= x.p * math.Log(x.p)
		}
	}
	off := func(x defined) float64 { return math.Abs(-math.Log(x.p) - entropy) }
	slices.SortStableFunc(d.list, func(a, b defined) int { return cmp.Compare(off(a), off(b)) })
	sum := 0.0
	for i, x := range d.list {
		sum += x.p
		d.near(sum, p)
		if i+1 < len(d.list) && sum < p+0.1 {
			d.near(off(x), off(d.list[i+1]))
		}
		if sum > p {
			d.list = d.list[:i+1]
			break
		}
	}
	slices.SortStableFunc(d.list, func(a, b defined) int { return cmp.Compare(b.logit, a.logit) })
}

func (d *definition) ids() (out []int32) {
	for _, x := range d.list {
		out = append(out, int32(x.id))
	}
	slices.Sort(out)
	return out
}

// randomLogits are logits of a random shape, with equal ones, -Inf and NaN.
func randomLogits(rng *rand.Rand) []float32 {
	logits := make([]float32, 1+rng.IntN(600))
	scale := math.Exp(rng.Float64()*5 - 2)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * scale)
		switch rng.IntN(40) {
		case 0:
			logits[i] = logits[rng.IntN(i+1)]
		case 1:
			logits[i] = float32(math.Inf(-1))
		case 2:
			logits[i] = float32(math.NaN())
		}
	}
	return logits
}

const vectors = 1000

// Each filter, and all together in llama.cpp's order, keep the tokens that the definition keeps.
func TestFilters(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	close := 0
	for v := range vectors {
		logits := randomLogits(rng)
		p := 0.01 + 0.98*rng.Float64()
		k := 1 + rng.IntN(100)
		all := Options{Temperature: 1, TopK: k, Typical: math.Sqrt(p), TopP: 0.9, MinP: 0.02}
		for _, c := range []struct {
			Options
			define func(d *definition)
		}{
			{Options{Temperature: 1, TopK: k}, func(d *definition) { d.topK(k) }},
			{Options{Temperature: 1, TopP: p}, func(d *definition) { d.topP(p) }},
			{Options{Temperature: 1, MinP: p}, func(d *definition) { d.minP(p) }},
			{Options{Temperature: 1, Typical: p}, func(d *definition) { d.typical(p) }},
			{all, func(d *definition) { d.topK(k); d.typical(math.Sqrt(p)); d.topP(0.9); d.minP(0.02) }},
		} {
			want := define(logits)
			if len(want.list) > 0 {
				c.define(want)
			}
			s := made(t, c.Options)
			s.logits = slices.Clone(logits)
			s.change()
			s.filter()
			var got []int32
			for _, x := range s.list {
				got = append(got, x.id)
			}
			if slices.Sort(got); !slices.Equal(got, want.ids()) {
				if close++; want.margin > 1e-5 {
					t.Fatalf("vector %d, %+v: %v, want %v", v, c.Options, got, want.ids())
				}
			}
		}
	}
	if close > vectors/100 {
		t.Errorf("%d of %d decisions are too close to compare", close, 5*vectors)
	}
}

// Penalties and biases change the logits as llama.cpp does, for the last tokens only.
func TestPenalties(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for v := range vectors {
		logits := randomLogits(rng)
		o := Options{Repeat: 0.5 + rng.Float64(), Presence: rng.NormFloat64(), Frequency: rng.NormFloat64(), RepeatLast: rng.IntN(40) - 1,
			Bias: map[int32]float32{int32(rng.IntN(700)): 2.5, 0: float32(math.Inf(-1))}}
		s := made(t, o)
		var text []int32
		for range rng.IntN(100) {
			ids := make([]int32, 1+rng.IntN(4))
			for i := range ids {
				ids[i] = int32(rng.IntN(20) * rng.IntN(20))
			}
			s.Accept(ids...)
			text = append(text, ids...)
		}
		if n := cmp.Or(o.RepeatLast, 64); n >= 0 {
			text = text[max(0, len(text)-n):]
		}
		counts := map[int32]float64{}
		for _, id := range text {
			counts[id]++
		}
		s.logits = slices.Clone(logits)
		s.change()
		for i, x := range logits {
			want := float64(x) + float64(o.Bias[int32(i)])
			if n := counts[int32(i)]; n > 0 {
				if want <= 0 {
					want *= o.Repeat
				} else {
					want /= o.Repeat
				}
				want -= n*o.Frequency + o.Presence
			}
			if want != want {
				want = math.Inf(-1)
			}
			if got := float64(s.logits[i]); got != want && !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))) {
				t.Fatalf("vector %d, token %d: %v, want %v", v, i, got, want)
			}
		}
	}
}

// draws is the first token, in the order of the list, at which the probabilities exceed a random number.
func (d *definition) draws(at float64) defined {
	sum := 0.0
	for _, x := range d.list {
		d.near(sum+x.p, at)
		if sum += x.p; sum > at {
			return x
		}
	}
	return d.list[len(d.list)-1]
}

// mirostat1 is llama.cpp's rule.
func (d *definition) mirostat1(mu, vocabulary float64) {
	products, squares := 0.0, 0.0
	for i := 0; i < 99 && i < len(d.list)-1; i++ {
		t := math.Log(float64(i+2) / float64(i+1))
		products += t * math.Log(d.list[i].p/d.list[i+1].p)
		squares += t * t
	}
	if squares == 0 {
		return
	}
	s := products / squares
	e := s - 1
	k := math.Pow(e*math.Pow(2, mu)/(1-math.Pow(vocabulary, -e)), 1/s)
	d.near(k, math.Round(k))
	d.topK(max(1, int(min(k, 1e6))))
}

// mirostat2 is llama.cpp's rule.
func (d *definition) mirostat2(mu float64) {
	for i, x := range d.list {
		d.near(-math.Log2(x.p), mu)
		if -math.Log2(x.p) > mu && i > 0 {
			d.list = d.list[:i]
			break
		}
	}
	slices.SortFunc(d.list, func(a, b defined) int { return cmp.Compare(a.id, b.id) })
}

// Mirostat chooses the tokens of its definition by the same random numbers, and learns the same.
func TestMirostat(t *testing.T) {
	for version := 1; version <= 2; version++ {
		rng, random := rand.New(rand.NewPCG(9, 10)), rand.New(rand.NewPCG(3, 0))
		o := Options{Temperature: 0.8, Mirostat: version, Tau: 3, Eta: 0.2, Seed: 3}
		s, mu, close := made(t, o), 6.0, 0
		for v := range vectors {
			logits := randomLogits(rng)
			d := define(logits)
			if len(d.list) == 0 {
				continue
			}
			d.softmax(o.Temperature)
			for i := range d.list {
				d.list[i].logit /= o.Temperature
			}
			if version == 1 {
				d.mirostat1(mu, float64(len(logits)))
			} else {
				d.mirostat2(mu)
			}
			d.softmax(1)
			x := d.draws(random.Float64())
			mu -= o.Eta * (-math.Log2(x.p) - o.Tau)
			if got := s.Next(logits); int(got) != x.id || math.Abs(s.mu-mu) > 1e-4 {
				if close++; d.margin > 1e-5 {
					t.Fatalf("version %d, vector %d: token %d and mu %v, want %d and %v", version, v, got, s.mu, x.id, mu)
				}
			}
			s.mu = mu
		}
		if close > vectors/100 {
			t.Errorf("version %d: %d choices are too close to compare", version, close)
		}
	}
}

// Mirostat holds the surprise at its target.
func TestMirostatTarget(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	logits := make([]float32, 2000)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for version := 1; version <= 2; version++ {
		for _, tau := range []float64{2, 4} {
			s, sum := made(t, Options{Temperature: 1, Mirostat: version, Tau: tau, Eta: 0.05}), 0.0
			const draws = 3000
			for range draws {
				s.Next(logits)
			}
			for range draws {
				was := s.mu
				s.Next(logits)
				sum += (was-s.mu)/0.05 + tau
			}
			if mean := sum / draws; math.Abs(mean-tau) > 0.1 {
				t.Errorf("version %d: mean surprise of %v bits, want %v", version, mean, tau)
			}
		}
	}
}

// Tokens come as often as the definition says, by chi-square at a fixed seed: with d degrees of freedom it has mean d and
// variance 2d.
func TestDraws(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	logits := make([]float32, 150)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 1.5)
	}
	logits[7], logits[70] = float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		Options
		define func(d *definition)
	}{
		{Options{Temperature: 0.5}, func(d *definition) {}},
		{Options{Temperature: 2}, func(d *definition) {}},
		{Options{Temperature: 1.3, TopK: 20}, func(d *definition) { d.topK(20) }},
		{Options{Temperature: 0.7, TopP: 0.8, Seed: 9}, func(d *definition) { d.topP(0.8) }},
		{Options{Temperature: 1, MinP: 0.1}, func(d *definition) { d.minP(0.1) }},
		{Options{Temperature: 1, Typical: 0.6}, func(d *definition) { d.typical(0.6) }},
		{Options{Temperature: 1, TopK: 60, TopP: 0.9, MinP: 0.05}, func(d *definition) { d.topK(60); d.topP(0.9); d.minP(0.05) }},
	} {
		const draws = 40_000
		d := define(logits)
		c.define(d)
		d.softmax(c.Temperature)
		s, counts := made(t, c.Options), make([]float64, len(logits))
		for range draws {
			counts[s.Next(logits)]++
		}
		square, seen := 0.0, 0.0
		for _, x := range d.list {
			off := counts[x.id] - draws*x.p
			square += off * off / (draws * x.p)
			seen += counts[x.id]
		}
		free := float64(len(d.list) - 1)
		if seen != draws || math.Abs(square-free) > 4*math.Sqrt(2*free) {
			t.Errorf("%+v: chi-square %.1f of %v degrees of freedom; %v draws of %v are tokens that may come", c.Options, square, free, seen, draws)
		}
	}
}

// No option lets a token come that has no chance, and without any the answer is None.
func TestNoChance(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, o := range []Options{{}, {Temperature: 1}, {Typical: 0.5}, {Temperature: 1, TopK: 3}, {Temperature: 1, TopP: 0.5, MinP: 0.5, Typical: 0.5},
		{Temperature: 1, Mirostat: 1}, {Temperature: 1, Mirostat: 2}, {Temperature: 1, Repeat: 2, Presence: 1}} {
		for _, c := range []struct {
			logits []float32
			want   int32
		}{{nil, None}, {[]float32{-inf, nan, -inf}, None}, {[]float32{-inf, nan, -9e37, -inf}, 2}, {[]float32{0, inf, 9e37}, 1}, {[]float32{nan, 0, -1000}, 1}} {
			s := made(t, o)
			for range 3 {
				if got := s.Next(c.logits); got != c.want {
					t.Errorf("%+v, %v: %d, want %d", o, c.logits, got, c.want)
				}
			}
		}
	}
}

// Ties go to the lowest ids.
func TestTies(t *testing.T) {
	logits := make([]float32, 500)
	for _, c := range []struct {
		Options
		want int
	}{{Options{Temperature: 1, TopK: 7}, 7}, {Options{Temperature: 1, TopP: 0.1}, 50}, {Options{Temperature: 1, Typical: 0.1}, 51}, {Options{Temperature: 1, MinP: 1}, 500}} {
		s := made(t, c.Options)
		s.logits = slices.Clone(logits)
		s.filter()
		if len(s.list) != c.want {
			t.Errorf("%+v: %d tokens, want %d", c.Options, len(s.list), c.want)
		}
		for _, x := range s.list {
			if int(x.id) >= c.want {
				t.Errorf("%+v: token %d", c.Options, x.id)
			}
		}
	}
}

func made(t testing.TB, o Options) *Sampler {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkNext takes a token of 150,000.
func BenchmarkNext(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, 150_000)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	for _, o := range []Options{{}, {Temperature: 0.8}, {Temperature: 0.8, TopK: 40}, {Temperature: 0.8, TopP: 0.95}, {Temperature: 0.8, MinP: 0.05},
		{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}, {Temperature: 0.8, Typical: 0.9}, {Temperature: 0.8, Mirostat: 1}, {Temperature: 0.8, Mirostat: 2}} {
		o.Seed = 0
		b.Run(fmt.Sprintf("t%v_k%d_p%v_m%v_typ%v_miro%d", o.Temperature, o.TopK, o.TopP, o.MinP, o.Typical, o.Mirostat), func(b *testing.B) {
			s := made(b, o)
			for b.Loop() {
				s.Next(logits)
			}
		})
	}
}
