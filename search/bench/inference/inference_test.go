package inference

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/search/measure"
)

// fake is an engine with a clock of its own, so that times are known.
type fake struct {
	now     time.Time
	context int
	log     []string
	fail    int           // the call of Forward that fails, from 1
	calls   int           //
	slower  time.Duration // what each call of Forward takes more than the one before
}

func (f *fake) Truncate(n int) error {
	if n > f.context {
		return fmt.Errorf("truncate %d of %d", n, f.context)
	}
	f.context = n
	f.log = append(f.log, fmt.Sprintf("truncate %d", n))
	return nil
}

func (f *fake) Forward(_ context.Context, tokens []int) (Parts, error) {
	if f.calls++; f.calls == f.fail {
		return Parts{}, errors.New("layer 3: not finite")
	}
	f.context += len(tokens)
	f.log = append(f.log, fmt.Sprintf("forward %d", len(tokens)))
	n := time.Duration(len(tokens))
	f.now = f.now.Add(n*10*time.Millisecond + time.Duration(f.calls)*f.slower)
	return Parts{5 * n * time.Millisecond, 2 * n * time.Millisecond, n * time.Millisecond, time.Millisecond}, nil
}

func (f *fake) Products(n int) error {
	f.log = append(f.log, fmt.Sprintf("products %d", n))
	f.now = f.now.Add(time.Duration(n) * 8 * time.Millisecond)
	return nil
}

// probe is a probe that takes some time to do an amount.
func (f *fake) probe(amount float64, took time.Duration) measure.Probe {
	return measure.Probe{Amount: amount, Run: func() { f.now = f.now.Add(took) }}
}

func (f *fake) bench() *Bench {
	return &Bench{
		Engine: f, Machine: Machine{Read: f.probe(20e6, time.Millisecond), Dot: f.probe(400e6, time.Millisecond)},
		Vocabulary: 100, Repetitions: 3, MinProbe: 4 * time.Millisecond, Now: func() time.Time { return f.now },
	}
}

func (f *fake) run(t *testing.T, test Test) Record {
	t.Helper()
	s, err := f.bench().Run(t.Context(), test, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	return s.Record(Model{Kind: "a b", Size: 3 << 29, Parameters: 1.5e9, Weights: 100e6, MACs: 3e9, Head: 1e9}, 2)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// TestGenerate: tokens at a depth are evaluated one by one, each repetition from the same depth, in turn with the products.
func TestGenerate(t *testing.T) {
	f := &fake{}
	r := f.run(t, Test{Generate: 2, Depth: 5})
	want := "truncate 0, forward 5, forward 1, products 1" + strings.Repeat(", truncate 5, forward 1, products 1, forward 1, products 1", 3)
	if got := strings.Join(f.log, ", "); got != want {
		t.Errorf("did %s\nwant %s", got, want)
	}
	if r.Test().Name() != "tg2 @ d5" || len(r.SamplesNs) != 3 || r.SamplesNs[0] != 20e6 || !near(r.MeanTS, 100) || r.DeviantTS > 1e-9 {
		t.Errorf("%s: %v ns, %v ± %v tokens/s", r.Test().Name(), r.SamplesNs, r.MeanTS, r.DeviantTS)
	}
	if !near(r.MedianNs, 10e6) || !near(r.ProductsNs, 8e6) || !near(r.Ratio, 1.25) {
		t.Errorf("a token takes %v ns, its products %v, the ratio is %v", r.MedianNs, r.ProductsNs, r.Ratio)
	}
	if !near(r.WeightGBS, 10) || !near(r.ReadGBS, 20) || !near(r.ReadShare, 0.5) || r.GMACS != 0 || r.DotGMACS != 0 {
		t.Errorf("%v of %v GB/s is %v; %v of %v GMAC/s", r.WeightGBS, r.ReadGBS, r.ReadShare, r.GMACS, r.DotGMACS)
	}
	if !near(r.PartProducts, 5e6) || !near(r.PartAttention, 2e6) || !near(r.PartRest, 1e6) || !near(r.PartHead, 1e6) {
		t.Errorf("parts %v %v %v %v", r.PartProducts, r.PartAttention, r.PartRest, r.PartHead)
	}
}

// TestPrompt: a prompt is evaluated in one piece. Its head counts once.
func TestPrompt(t *testing.T) {
	f := &fake{}
	r := f.run(t, Test{Prompt: 16})
	want := "truncate 0, forward 16, products 16" + strings.Repeat(", truncate 0, forward 16, products 16", 3)
	if got := strings.Join(f.log, ", "); got != want {
		t.Errorf("did %s\nwant %s", got, want)
	}
	if r.Test().Name() != "pp16" || !near(r.MeanTS, 100) || !near(r.Ratio, 1.25) || r.WeightGBS != 0 || !near(r.ReadGBS, 20) {
		t.Errorf("%s: %v tokens/s, ratio %v, %v of %v GB/s", r.Test().Name(), r.MeanTS, r.Ratio, r.WeightGBS, r.ReadGBS)
	}
	if !near(r.GMACS, 2.0625e9/10e6) || !near(r.DotGMACS, 400) || !near(r.DotShare, 2.0625/4) {
		t.Errorf("%v of %v GMAC/s is %v", r.GMACS, r.DotGMACS, r.DotShare)
	}
	if !near(r.PartHead, 1e6/16.) {
		t.Errorf("the head takes %v ns per token", r.PartHead)
	}
}

// TestSpread: the standard deviation is of the repetitions, as a sample, and the median of the tokens.
func TestSpread(t *testing.T) {
	f := &fake{slower: time.Millisecond}
	r := f.run(t, Test{Generate: 1})
	// The warm-up was call 1: the repetitions take 12, 13 and 14 ms.
	if !near(r.MeanNs, 13e6) || !near(r.DeviantNs, 1e6) || !near(r.MedianNs, 13e6) {
		t.Errorf("%v ± %v ns, median %v", r.MeanNs, r.DeviantNs, r.MedianNs)
	}
	if mean, deviation := spread([]float64{7}); mean != 7 || deviation != 0 {
		t.Errorf("of one sample: %v ± %v", mean, deviation)
	}
}

// TestRunFails: errors of the engine end the run, and so does a context that ends.
func TestRunFails(t *testing.T) {
	f := &fake{fail: 3}
	if _, err := f.bench().Run(t.Context(), Test{Generate: 4}, func(int) {}); err == nil || err.Error() != "layer 3: not finite" {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f = &fake{}
	_, err := f.bench().Run(ctx, Test{Generate: 4}, func(i int) {
		if i == 1 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || f.calls != 5 {
		t.Errorf("error %v after %d calls", err, f.calls)
	}
}

// TestWithoutProbes: without probes there are no shares.
func TestWithoutProbes(t *testing.T) {
	b := (&fake{}).bench()
	b.Machine = Machine{}
	s, err := b.Run(t.Context(), Test{Prompt: 16}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	r := s.Record(Model{MACs: 1}, 1)
	if r.ReadGBS != 0 || r.DotShare != 0 {
		t.Errorf("%+v", r)
	}
	if err := Print(&bytes.Buffer{}, "json", []Record{r}); err != nil {
		t.Error(err)
	}
}

func TestTests(t *testing.T) {
	var names []string
	tests := Tests([]int{512, 0}, []int{128, 0, 16}, []int{0, 4096})
	for _, x := range tests {
		names = append(names, x.Name())
	}
	if got := strings.Join(names, ", "); got != "pp512, tg128, tg16, pp512 @ d4096, tg128 @ d4096, tg16 @ d4096" {
		t.Error(got)
	}
	if n := Longest(tests); n != 4608 {
		t.Errorf("the context needs %d", n)
	}
}

// TestPrint: the table has llama-bench's columns first, JSON its field names, and CSV the same names.
func TestPrint(t *testing.T) {
	f := &fake{}
	records := []Record{f.run(t, Test{Prompt: 16}), f.run(t, Test{Generate: 2, Depth: 5})}
	var md, js, cs bytes.Buffer
	for output, w := range map[string]*bytes.Buffer{"md": &md, "json": &js, "csv": &cs} {
		if err := Print(w, output, records); err != nil {
			t.Fatal(err)
		}
	}
	want := `| model | size | params | threads | test | t/s | GB/s | of read | GMAC/s | of int8 | times products alone | ms/token | products | attention | rest | head |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
| a b | 1.50 GiB | 1.50 B | 2 | pp16 | 100.00 ± 0.00 |  |  | 206 | 52 % | 1.250 | 10.000 | 5.000 | 2.000 | 1.000 | 0.062 |
| a b | 1.50 GiB | 1.50 B | 2 | tg2 @ d5 | 100.00 ± 0.00 | 10.0 | 50 % |  |  | 1.250 | 10.000 | 5.000 | 2.000 | 1.000 | 1.000 |

This machine beside it, threads 2: reads 20.0 GB/s, multiplies 400 GMAC/s of int8 (medians)
`
	if md.String() != want {
		t.Errorf("%s\nwant\n%s", md.String(), want)
	}
	var again []Record
	if err := json.Unmarshal(js.Bytes(), &again); err != nil || len(again) != 2 || again[1].Test() != records[1].Test() || again[1].MeanTS != records[1].MeanTS {
		t.Errorf("JSON: %v\n%s", err, js.String())
	}
	lines, err := csv.NewReader(&cs).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatalf("CSV: %v, %d lines", err, len(lines))
	}
	for name, want := range map[string]string{"model_type": "a b", "n_gen": "2", "n_depth": "5", "avg_ns": "2e+07", "read_gb_s": "20"} {
		if i := slices.Index(lines[0], name); i < 0 || lines[2][i] != want {
			t.Errorf("CSV: %s is column %d\n%v", name, i, lines)
		}
	}
	if slices.Contains(lines[0], "samples_ns") {
		t.Error("CSV has lists")
	}
	if err := Print(&md, "sql", records); err == nil || err.Error() != `unknown output "sql": have md, json, csv` {
		t.Error(err)
	}
}
