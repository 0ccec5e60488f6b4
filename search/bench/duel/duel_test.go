package duel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tmacc/tmacc/search/bench/inference"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/measure/llama"
)

// fake is a side that takes a time for each token, and logs what it is asked.
type fake struct {
	name  string
	token time.Duration
	fails int // the call of Run that fails, from 1 on
	runs  int
	log   *[]string
}

func (f *fake) Fill(_ context.Context, tokens []int32, n int) error {
	*f.log = append(*f.log, fmt.Sprintf("%s fill %d of %d", f.name, len(tokens), n))
	return nil
}

func (f *fake) Run(_ context.Context, keep int, tokens []int32, together bool) (t Turn, err error) {
	*f.log = append(*f.log, fmt.Sprintf("%s keep %d, %d %v", f.name, keep, len(tokens), together))
	if f.runs++; f.runs == f.fails {
		return t, errors.New("broken")
	}
	steps, n := len(tokens), 1
	if together {
		steps, n = 1, len(tokens)
	}
	for range steps {
		t.Steps = append(t.Steps, f.token*time.Duration(n))
	}
	t.Parts = inference.Parts{Products: f.token * time.Duration(len(tokens)) / 2}
	t.Idle = llama.Idle{Time: time.Second, CPU: 10 * time.Millisecond}
	return t, nil
}

// trial is a duel of two fakes, and their log.
func trial(ours, theirs time.Duration) (*Duel, *[]string) {
	log := &[]string{}
	read := measure.Probe{Unit: "GB/s", Amount: 1, Run: func() {}}
	return &Duel{Ours: &fake{name: "ours", token: ours, log: log}, Theirs: &fake{name: "theirs", token: theirs, log: log}, Vocabulary: 100, Rounds: 2, Read: read}, log
}

func nothing(string) {}

// TestRounds: both sides fill their contexts and warm up, then take turns, the other one first in each second round.
func TestRounds(t *testing.T) {
	d, log := trial(time.Millisecond, 2*time.Millisecond)
	r, err := d.Run(t.Context(), inference.Test{Prompt: 40, Depth: 100}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ours fill 64 of 100", "theirs fill 64 of 100",
		"ours keep 100, 16 true", "theirs keep 100, 16 true", "ours keep 100, 16 true", "theirs keep 100, 16 true",
		"ours keep 100, 40 true", "theirs keep 100, 40 true",
		"ours keep 100, 40 true", "theirs keep 100, 40 true", "theirs keep 100, 40 true", "ours keep 100, 40 true"}
	if !slices.Equal(*log, want) {
		t.Errorf("log\n%s\nwant\n%s", strings.Join(*log, "\n"), strings.Join(want, "\n"))
	}
	x := r.Record(inference.Model{Kind: "m", Weights: 1e6}, 2)
	if x.Test().Name() != "pp40 @ d100" || x.Rounds != 2 || x.Short || x.Threads != 2 {
		t.Errorf("record %+v", x)
	}
	if x.Ours.MedianTS != 1000 || x.Theirs.MedianTS != 500 || x.Ratio != 2 || x.Low != 2 || x.High != 2 || x.Ours.MedianNs != 1e6 || x.Ours.ReadShare != 0 {
		t.Errorf("figures %+v", x)
	}
	if x.PartProducts != 0.5e6 || x.Theirs.IdleCPU != 0.01 || len(r.Read) != 4*readsPerTurn {
		t.Errorf("parts %v, idle %v, %d reads", x.PartProducts, x.Theirs.IdleCPU, len(r.Read))
	}
}

// TestGenerated: tokens are generated one by one, and read all weights.
func TestGenerated(t *testing.T) {
	d, log := trial(time.Millisecond, 4*time.Millisecond)
	r, err := d.Run(t.Context(), inference.Test{Generate: 3}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(*log); n != 2+4+4 || (*log)[n-1] != "ours keep 0, 3 false" {
		t.Errorf("log %q", *log)
	}
	r.Read = []float64{2}
	x := r.Record(inference.Model{Weights: 1e6}, 1)
	if x.Ratio != 4 || x.Ours.WeightGBS != 1 || x.Ours.ReadShare != 0.5 || x.Theirs.ReadShare != 0.125 {
		t.Errorf("figures %+v", x)
	}
}

// TestShort: a test that takes over 5 s for a token is one round of 16 tokens, and says so. A slow prompt is not warmed up.
func TestShort(t *testing.T) {
	d, log := trial(time.Millisecond, 6*time.Second)
	r, err := d.Run(t.Context(), inference.Test{Generate: 50}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Record(inference.Model{Kind: "m"}, 1)
	if !x.Short || x.Rounds != 1 || x.Generate != 16 || x.SlowS != 6 || (*log)[len(*log)-1] != "theirs keep 0, 16 false" {
		t.Errorf("record %+v after %q", x, *log)
	}
	if notes := Notes([]Record{x}); !slices.Contains(notes, "m, threads 1, tg16: one round of 16 tokens, as the slower side takes 6.0 s per token") {
		t.Errorf("notes %q", notes)
	}
	d, log = trial(time.Millisecond, time.Second)
	if _, err = d.Run(t.Context(), inference.Test{Prompt: 30}, nothing); err != nil {
		t.Fatal(err)
	}
	if len(*log) != 2+4+4 {
		t.Errorf("a prompt of 30 s has the log %q", *log)
	}
}

// TestFails: what goes wrong on their side is in the record, and ours is measured. What goes wrong on our side is an error.
func TestFails(t *testing.T) {
	d, _ := trial(time.Millisecond, time.Millisecond)
	d.Theirs.(*fake).fails = 4
	r, err := d.Run(t.Context(), inference.Test{Generate: 3}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	x := r.Record(inference.Model{Kind: "m"}, 1)
	if x.Error != "broken" || x.Ours.MedianTS != 1000 || len(x.Ours.SamplesNs) != 2 || x.Theirs.MedianTS != 0 || x.Ratio != 0 {
		t.Errorf("record %+v", x)
	}
	if notes := Notes([]Record{x}); notes[len(notes)-1] != "m, threads 1, tg3: broken" {
		t.Errorf("notes %q", notes)
	}
	d, _ = trial(time.Millisecond, time.Millisecond)
	d.Ours.(*fake).fails = 2
	if _, err := d.Run(t.Context(), inference.Test{Generate: 3}, nothing); err == nil || err.Error() != "broken" {
		t.Errorf("error %v", err)
	}
	d, _ = trial(time.Millisecond, time.Millisecond)
	d.Theirs = nil
	if r, err := d.Run(t.Context(), inference.Test{Generate: 3}, nothing); err != nil || len(r.ours.totals) != 2 {
		t.Errorf("without theirs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, _ = trial(time.Millisecond, time.Millisecond)
	if _, err := d.Run(ctx, inference.Test{Generate: 3}, nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestDifference: the same logits differ by 0, other ones by their distance, and other numbers of them cannot be compared.
func TestDifference(t *testing.T) {
	if d := difference([]float32{3, 4}, []float32{3, 4}); d != 0 {
		t.Errorf("the same: %v", d)
	}
	if d := difference([]float32{3, 4.5}, []float32{3, 4}); math.Abs(d-0.1) > 1e-9 {
		t.Errorf("half of 5 apart: %v", d)
	}
	if d := difference([]float32{3}, []float32{3, 4}); !math.IsNaN(d) {
		t.Errorf("of other lengths: %v", d)
	}
}

// TestEnergy: the packages' meters count, a meter that begins again too. Nothing is known where one cannot be read.
func TestEnergy(t *testing.T) {
	root := fstest.MapFS{}
	set := func(zone string, files map[string]string) {
		for name, text := range files {
			root["sys/class/powercap/"+zone+"/"+name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	if NewEnergy(root) != nil {
		t.Error("energy without meters")
	}
	set("intel-rapl:0", map[string]string{"name": "package-0", "energy_uj": "900000", "max_energy_range_uj": "999999"})
	set("intel-rapl:1", map[string]string{"name": "package-1", "energy_uj": "5000000", "max_energy_range_uj": "99999999"})
	set("intel-rapl:0:0", map[string]string{"name": "core", "energy_uj": "1", "max_energy_range_uj": "9"})
	e := NewEnergy(root)
	before := e.read()
	set("intel-rapl:0", map[string]string{"energy_uj": "100000"})
	set("intel-rapl:1", map[string]string{"energy_uj": "7000000"})
	if got := e.since(before); math.Abs(got-2.2) > 1e-9 {
		t.Errorf("%v J, want 0.2 and 2", got)
	}
	delete(root, "sys/class/powercap/intel-rapl:1/energy_uj")
	if NewEnergy(root) != nil {
		t.Error("energy with a meter that cannot be read")
	}
	var none *Energy
	if none.since(none.read()) != 0 {
		t.Error("energy of no meters")
	}
}

// TestPrint: every output has the figures, and a table leaves out energy that is not known.
func TestPrint(t *testing.T) {
	d, _ := trial(time.Millisecond, 2*time.Millisecond)
	r, err := d.Run(t.Context(), inference.Test{Generate: 3}, nothing)
	if err != nil {
		t.Fatal(err)
	}
	r.Read = []float64{4}
	x := r.Record(inference.Model{Kind: "toy", Weights: 2e6, Cache: "f16"}, 1)
	x.Energy, x.Peer = EnergyUnknown, Peer{Version: "0.5.0", Library: "libggml-cpu-best.so", Buffers: []llama.Buffer{{Name: "CPU_Mapped", Bytes: 3 << 20}, {Name: "CPU_REPACK", Bytes: 5 << 20}}, Logits: 0.02}
	y := x
	y.Energy, y.Ours.Joules, y.Theirs.Joules = EnergyKnown, 1.5, 3
	for _, c := range []struct {
		output  string
		records []Record
		want    []string
	}{
		{"md", []Record{x}, []string{"| toy | tg3 | 1 | 2 | best | 1000.00 | 500.00 | 2.00 | 2.00 – 2.00 | 50 % | 25 % |\n",
			"\ntoy: llama.cpp 0.5.0, libggml-cpu-best.so, flash attention, keys and values f16, weights in CPU_Mapped 3 MiB (pages of the file), CPU_REPACK 5 MiB (a copy); logits differ by 0.02\n",
			"llama.cpp 1.00 %\n", "threads 1: reads 4.0 GB/s (median)\n", "J/token: not available\n"}},
		{"md", []Record{y}, []string{" | 25 % | 1.50 | 3.00 |\n"}},
		{"csv", []Record{x}, []string{"ours_median_ts,", ",theirs_median_ts,", "\n,,,toy,", ",1000,"}},
		{"json", []Record{x}, []string{`"median_ts": 1000,`, `"ratio": 2,`, `"energy": "not available",`}},
	} {
		var b strings.Builder
		if err := Print(&b, c.output, c.records); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.output, want, b.String())
			}
		}
		if c.output == "json" {
			back, err := ParseRecords([]byte(b.String() + b.String()))
			if err != nil || len(back) != 2 || back[1].Ratio != 2 {
				t.Errorf("read back: %+v, %v", back, err)
			}
		}
	}
	if err := Print(&strings.Builder{}, "xml", nil); err == nil || !strings.Contains(err.Error(), "have md, json, csv") {
		t.Errorf("error %v", err)
	}
}

// TestParseRefuses: other JSON is refused.
func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no records",
		"[]":                  "no records",
		`[{"n_threads": 1}]`:  "record 1: not a record of bench -model -peer",
		`[{"x": 1}]`:          "after record 0: json: unknown field",
		`{"type": "Q4_0"}`:    "after record 0: json: cannot unmarshal",
		`[{"n_threads": 1},]`: "after record 0: invalid character",
	} {
		if _, err := ParseRecords([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %s", text, err, want)
		}
	}
}
