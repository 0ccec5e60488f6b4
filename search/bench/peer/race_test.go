package peer

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// A product that is not the definition's is an error that says whose it is, not a
// figure.
func TestPeerDisagrees(t *testing.T) {
	const m, k = 32, 256
	data, err := blocks.Random(rand.New(rand.NewPCG(1, 1)), "Q4_0", m, k)
	if err != nil {
		t.Fatal(err)
	}
	w, src, err := blocks.Read("Q4_0", data, m, k)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, k)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	c := cell{typ: "Q4_0", at: bench.Place{M: m, K: k}, n: 1, weight: w, src: src}
	for off, want := range map[float64]string{0: "", 0.02: "ggml, buffer type CPU, 32 x 256, 1 activations: measure: the product is another"} {
		e := &entry{out: make([]float32, m), timed: measure.Timed{Buffer: "CPU", ActGroup: 32}}
		e.run = func(int) (timing.Work, error) {
			return timing.Work{Run: func() {
				for r := range e.out {
					sum := 0.0
					for j, v := range x {
						sum += float64(v) * float64(src.Value(w, r, j, k))
					}
					e.out[r] = float32(sum * (1 + off))
				}
			}}, nil
		}
		err := c.agree(x, []*entry{e})
		if wrong := (*Disagreement)(nil); err != nil && !errors.As(err, &wrong) {
			t.Errorf("off by %v: error %v is no Disagreement", off, err)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("off by %v: error %v; want %q", off, err, want)
		}
	}
}

// The gain by threads is compared round by round, by the median. Rounds with half the bandwidth count too. A round that
// either program did not take does not count.
func TestBeside(t *testing.T) {
	none := math.NaN()
	probes := []measure.Probe{{Amount: 100}, {Amount: 100}}
	samples := []timing.Sample{{Min: 11, Rounds: []float64{11, 22, 22, 22, 22}}, {Min: 10, Rounds: []float64{10, 20, none, 25, 10}}}
	best, perByte := beside(1000, []float64{100, 200, 1, 250, 10}, probes, samples)
	if best != 10 || perByte != 1 {
		t.Errorf("%v GB/s, %v weights per byte; want 10 and 1", best, perByte)
	}
	if _, perByte := beside(1000, []float64{none, none, 1, none, none}, probes, samples); perByte != 0 {
		t.Errorf("without a round of both: %v weights per byte", perByte)
	}
}

// Records are read strictly, and the median round stands for all.
func TestRecords(t *testing.T) {
	const line = `{"type":"A","mode":"dram","n":1,"threads":1,"m":10,"k":100,"ours":{"ns":100},"theirs":[{"ns":X}]}`
	var text string
	for _, ns := range []string{"300", "200", "900"} {
		text += strings.Replace(line, "X", ns, 1)
	}
	records, err := ParseRecords([]byte(text))
	if err != nil || len(records) != 3 || records[0].Ratio != 3 || records[0].Ours.GWeightsS != 10 {
		t.Fatal(records, err)
	}
	if m := Medians(records); len(m) != 1 || m[0].Ratio != 3 {
		t.Errorf("medians %+v", m)
	}
	tuned := records[1]
	tuned.Tuned = true
	if m := Medians(append(records, tuned)); len(m) != 2 || m[1].Name() != "A tuned" {
		t.Errorf("medians %+v", m)
	}
	for text, want := range map[string]string{
		"":               "no records",
		`{"format":"w"}`: "record 1: not a record of bench -peer -json",
		`{"x":1}`:        "record 1: json: unknown field",
	} {
		if _, err := ParseRecords([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
