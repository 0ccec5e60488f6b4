package perplexity

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/runtime/model/token"
	"github.com/tmacc/tmacc/tests/oracle"
)

// tiny is a small model, whose logits differ more than random weights make them.
func tiny(t testing.TB, types string) *model.Model {
	t.Helper()
	f, err := oracle.NewTiny("llama", oracle.Same(types)).File()
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.New(f, model.PureGo{}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func text(n int) (tokens []int32) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range n {
		tokens = append(tokens, rng.Int32N(70))
	}
	return tokens
}

// predictions are the log-probabilities of all tokens after each token that counts, of each chunk alone, in the plainest way.
func predictions(t *testing.T, m *model.Model, tokens []int32, begin int32, size int) (all [][]float64, next []int32) {
	t.Helper()
	for ; len(tokens) >= size; tokens = tokens[size:] {
		chunk := slices.Clone(tokens[:size])
		if begin != token.None {
			chunk[0] = begin
		}
		logits := oracle.Feed(t, oracle.NewSession(t, m), model.WantAll, chunk)
		for i := size / 2; i < size-1; i++ {
			sum := 0.0
			for _, x := range logits[i] {
				sum += math.Exp(float64(x))
			}
			row := make([]float64, len(logits[i]))
			for j, x := range logits[i] {
				row[j] = float64(x) - math.Log(sum)
			}
			all, next = append(all, row), append(next, tokens[i+1])
		}
	}
	return all, next
}

func near(t *testing.T, what string, have, want, within float64) {
	t.Helper()
	if !(math.Abs(have-want) <= within*max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, have, want)
	}
}

// mean is the mean of values and its standard error.
func mean(values []float64) Estimate {
	m, square := 0.0, 0.0
	for _, v := range values {
		m += v / float64(len(values))
	}
	for _, v := range values {
		square += (v - m) * (v - m) / float64(len(values))
	}
	return Estimate{m, math.Sqrt(square / float64(len(values)-1))}
}

func (e Estimate) near(t *testing.T, what string, want Estimate, within float64) {
	t.Helper()
	near(t, what, e.Value, want.Value, within)
	near(t, "the error of "+what, e.Error, want.Error, within)
}

// TestMeasure compares figures with sums over all predictions. They do not depend on threads, nor on how many chunks are computed together.
func TestMeasure(t *testing.T) {
	m, tokens := tiny(t, "F16"), text(130)
	for _, begin := range []int32{token.None, 3} {
		for _, size := range []int{3, 20, 61} {
			all, next := predictions(t, m, tokens, begin, size)
			var nlls []float64
			for i, row := range all {
				nlls = append(nlls, -row[next[i]])
			}
			want := mean(nlls)
			var first *Result
			for _, opt := range []Options{{}, {Sequences: 1, Threads: 1}, {Sequences: 3, Threads: 2}} {
				opt.Context = size
				r, err := Measure(t.Context(), m, tokens, begin, opt)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = r
				}
				if *r != *first {
					t.Errorf("%+v: %+v, want %+v", opt, *r, *first)
				}
			}
			first.NLL.near(t, "the likelihood", want, 1e-6)
			first.Perplexity.near(t, "the perplexity", Estimate{math.Exp(want.Value), math.Exp(want.Value) * want.Error}, 1e-6)
			if first.Chunks != 130/size || first.Tokens != len(all) || first.Base != nil {
				t.Errorf("%+v", first)
			}
		}
	}
}

// TestCompare compares a comparison with its definition.
func TestCompare(t *testing.T) {
	const size = 20
	tokens := text(130)
	var file bytes.Buffer
	base := tiny(t, "F16")
	measured, err := Measure(t.Context(), base, tokens, token.None, Options{Context: size, Save: &file})
	if err != nil {
		t.Fatal(err)
	}
	if want := 20 + 4*120 + 6*9*(8+2*70); file.Len() != want {
		t.Fatalf("the file has %d bytes, want %d", file.Len(), want)
	}
	quantized := tiny(t, "Q4_0")
	p, next := predictions(t, base, tokens, token.None, size)
	q, _ := predictions(t, quantized, tokens, token.None, size)
	var kl, delta, square, here, there []float64
	same := 0.0
	for i, row := range p {
		sum := 0.0
		for j, x := range row {
			sum += math.Exp(x) * (x - q[i][j])
		}
		kl, here, there = append(kl, sum), append(here, -q[i][next[i]]), append(there, -row[next[i]])
		d := math.Exp(q[i][next[i]]) - math.Exp(row[next[i]])
		delta, square = append(delta, d), append(square, d*d)
		if slices.Index(row, slices.Max(row)) == slices.Index(q[i], slices.Max(q[i])) {
			same++
		}
	}
	r := compare(t, quantized, file.Bytes(), Options{})
	c := r.Base
	near(t, "the base's perplexity", c.Perplexity.Value, measured.Perplexity.Value, 1e-4)
	r.NLL.near(t, "the likelihood", mean(here), 1e-6)
	c.Divergence.near(t, "the divergence", mean(kl), 1e-4)
	c.Delta.near(t, "the difference", mean(delta), 1e-5)
	near(t, "its root mean square", c.DeltaRMS.Value, math.Sqrt(mean(square).Value), 1e-5)
	near(t, "the share of the same tokens", c.SameTop.Value, same/float64(len(p)), 0)
	var ratios []float64
	for i := range here {
		ratios = append(ratios, here[i]-there[i])
	}
	c.LogRatio.near(t, "the logarithm of the ratio", mean(ratios), 1e-4)
	slices.Sort(kl)
	near(t, "the largest divergence", c.Divergences.Maximum, kl[53], 1e-4)
	near(t, "the smallest divergence", c.Divergences.Minimum, kl[0], 1e-4)
	near(t, "the median", c.Divergences.Median, (kl[26]+kl[27])/2, 1e-4)
	near(t, "the 90 % divergence", c.Divergences.P90, 0.3*kl[47]+0.7*kl[48], 1e-4)
	if c.Divergence.Value < 1e-3 || c.SameTop.Value == 1 {
		t.Errorf("the models differ too little for this test: %+v", c)
	}
	if one := compare(t, quantized, file.Bytes(), Options{Sequences: 1, Threads: 1}); *one.Base.Deltas != *c.Deltas || one.Base.Divergence != c.Divergence {
		t.Errorf("one at a time: %+v, want %+v", one.Base, c)
	}
	if self := compare(t, base, file.Bytes(), Options{}).Base; self.Divergence.Value > 1e-6 || self.SameTop.Value != 1 || self.DeltaRMS.Value > 1e-4 {
		t.Errorf("the base beside itself: %+v", self)
	}
}

// compare compares with the base in a file.
func compare(t *testing.T, m *model.Model, file []byte, opt Options) *Result {
	t.Helper()
	b, err := ReadBase(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compare(t.Context(), m, b, token.None, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestProgress: figures come after each chunk, and no more chunks are computed than are asked for.
func TestProgress(t *testing.T) {
	var seen []int
	opt := Options{Context: 10, Chunks: 5, Sequences: 2, Progress: func(r *Result, chunks int) {
		if seen = append(seen, r.Chunks); chunks != 5 || !(r.Perplexity.Value > 1) {
			t.Errorf("of %d: %+v", chunks, r)
		}
	}}
	r, err := Measure(t.Context(), tiny(t, "F16"), text(100), token.None, opt)
	if err != nil || r.Chunks != 5 || !slices.Equal(seen, []int{1, 2, 3, 4, 5}) {
		t.Errorf("%v, %+v, %v", err, r, seen)
	}
}

// TestRefusals: errors name the fault.
func TestRefusals(t *testing.T) {
	m := tiny(t, "F16")
	for want, c := range map[string]struct {
		tokens int
		opt    Options
	}{
		"chunks of 2 tokens: want 3 or more":               {100, Options{Context: 2}},
		"the text has 100 tokens, and a chunk has 512":     {100, Options{}},
		"chunks of 301 tokens, and sessions of the model ": {1000, Options{Context: 301}},
	} {
		if _, err := Measure(t.Context(), m, text(c.tokens), token.None, c.opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	var file bytes.Buffer
	if _, err := Measure(t.Context(), m, text(40), token.None, Options{Context: 20, Save: &file}); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(b []byte) []byte{
		"it is no file of saved predictions": func(b []byte) []byte { b[3]++; return b },
		"it has 2 tokens of a chunk: want 3": func(b []byte) []byte { b[8] = 2; return b },
		"it has -1 chunks":                   func(b []byte) []byte { copy(b[16:], "\xff\xff\xff\xff"); return b },
		"want at most 1073741824 tokens":     func(b []byte) []byte { b[19], b[9] = 1, 1; return b },
		"token 1 is 70":                      func(b []byte) []byte { b[24] = 70; return b },
		"ends too early":                     func(b []byte) []byte { return b[:len(b)-1] },
		"has a scale of -":                   func(b []byte) []byte { b[20+160+3] |= 0x80; return b },
		"with 71 tokens in its vocabulary":   func(b []byte) []byte { b[12] = 71; return b },
	} {
		b, err := ReadBase(bytes.NewReader(spoil(bytes.Clone(file.Bytes()))))
		if err == nil {
			_, err = Compare(t.Context(), m, b, token.None, Options{})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestRow: a prediction of 16 bits is off by at most half a step, tokens that are too unlikely have the least, and equal logits
// have equal probabilities.
func TestRow(t *testing.T) {
	var l lane
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 7, 64, 65, 1000} {
		for _, spread := range []float64{0, 1, 9} {
			logits := make([]float32, n)
			for i := range logits {
				logits[i] = float32(spread * rng.NormFloat64())
			}
			x := row{codes: make([]uint16, n)}
			v := l.encode(logits, &x, 0)
			l.decode(&x)
			sum, top := l.logSum(logits)
			near(t, "the likelihood", v.nll, sum-float64(logits[0]), 0)
			for i, p := range l.logarithm {
				near(t, "a log-probability", float64(p), float64(max(logits[i], top-span))-sum, 0.5*float64(x.scale)+2e-6)
			}
			if spread == 0 && (x.scale != 0 || slices.Max(x.codes) != 0) {
				t.Errorf("equal logits: %+v", x)
			}
		}
	}
}

// FuzzBase reads bytes as a base file: no file makes it fail otherwise than by an error, or take much more memory than it has bytes.
func FuzzBase(f *testing.F) {
	var file bytes.Buffer
	s, err := newSaver(&file, 4, 5, []int32{0, 1, 2, 3})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.write([]row{{0.5, -3, []uint16{1, 2, 3, 4, 5}}}); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte(magic + "\x04\x00\x00\x00\xff\xff\xff\x00\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ReadBase(bytes.NewReader(data))
		if err != nil {
			return
		}
		if len(b.Tokens) != b.Context*b.Chunks || 4*len(b.Tokens) > len(data) {
			t.Fatalf("%d tokens of %d bytes", len(b.Tokens), len(data))
		}
		if b.Vocabulary > 1<<16 {
			return
		}
		rows := []row{{codes: make([]uint16, b.Vocabulary)}}
		if b.read(rows) != nil {
			return
		}
		var again bytes.Buffer
		s := &saver{to: &again}
		if err := s.write(rows); err != nil {
			t.Fatal(err)
		}
		at := 20 + 4*len(b.Tokens)
		if have := again.Bytes()[:8+2*b.Vocabulary]; !bytes.Equal(have, data[at:][:len(have)]) {
			t.Errorf("%x, want %x", have, data[at:][:len(have)])
		}
	})
}
