package measure

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/search/timing"
)

func TestRecordJSON(t *testing.T) {
	data, err := json.Marshal(Record{Format: "w4-g32", BitsPerWeight: 4, Group: 32, M: 1, K: 2, N: 3, Target: "avx2", Family: "dot", Exact: true, Threads: 1, Mode: ModeL2})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"format":"w4-g32","bits_per_weight":4,"group":32,"m":1,"k":2,"n":3,"target":"avx2","family":"dot","exact":true,` +
		`"threads":1,"mode":"l2","ns":0,"clock_ghz":0,"weights_per_cycle":0,"gweights_s":0,"gb_s":0,"ceiling_gb_s":0,` +
		`"ceiling_gmac_s":0,"share":0,"prepare_ns":0}`
	if string(data) != want {
		t.Errorf("have %s\nwant %s", data, want)
	}
}

func TestComplete(t *testing.T) {
	base := Record{Format: "x", BitsPerWeight: 2, M: 1000, K: 1000, N: 1, Family: "dot", Threads: 1, Mode: ModeDRAM,
		Ns: 1e5, ClockGHz: 2, CeilingGBS: 4, CeilingGMACS: 100}
	for _, c := range []struct {
		name                          string
		change                        func(*Record)
		weights                       Weights
		perCycle, gweights, gbs, want float64
	}{
		// 2e6 bits and 16000 bits of scales in 1e5 ns
		{"dram", func(*Record) {}, Weights{2, 16000}, 5, 10, 2.52, 0.63},
		{"ternary in 2 bits", func(*Record) {}, Weights{1.6, 0}, 5, 10, 2.5, 0.5},
		{"dram, 8 columns", func(r *Record) { r.N = 8 }, Weights{2, 0}, 40, 80, 2.5, 0.625},
		{"gemm", func(r *Record) { r.N, r.Ns = 100, 1e6*1.25 }, Weights{2, 0}, 40, 80, 0.2, 0.8},
		{"l2, compute bound", func(r *Record) { r.Mode, r.CeilingGBS = ModeL2, 100 }, Weights{2, 0}, 5, 10, 2.5, 0.1},
		{"l3, memory bound", func(r *Record) { r.Mode = ModeL3 }, Weights{2, 0}, 5, 10, 2.5, 0.625},
		{"two threads", func(r *Record) { r.Threads = 2 }, Weights{2, 0}, 2.5, 10, 2.5, 0.625},
		{"by a slower clock", func(r *Record) { r.Cycles = 1.6e5 }, Weights{2, 0}, 6.25, 10, 2.5, 0.625},
		{"no ceiling", func(r *Record) { r.CeilingGBS = 0 }, Weights{2, 0}, 5, 10, 2.5, 0},
	} {
		r := base
		c.change(&r)
		r, err := r.Complete(c.weights)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		read := c.want // except where arithmetic bounds
		switch c.name {
		case "gemm":
			read = 0.05
		case "l2, compute bound":
			read = 0.025
		}
		for _, f := range []struct {
			what       string
			have, want float64
		}{{"share of the bandwidth", r.ReadShare, read}, {"weights_per_cycle", r.WeightsPerCycle, c.perCycle}, {"gweights_s", r.GWeightsS, c.gweights}, {"gb_s", r.GBS, c.gbs}, {"share", r.Share, c.want}} {
			if math.Abs(f.have-f.want) > 1e-12 {
				t.Errorf("%s: %s is %v, want %v", c.name, f.what, f.have, f.want)
			}
		}
	}
}

func TestPreparedCycles(t *testing.T) {
	r := Record{M: 10, K: 1000, N: 1, Ns: 1000, ClockGHz: 4, PrepareNs: 500}
	if got := [...]float64{r.preparedPerCycle(), r.preparedRow()}; got != [...]float64{10000.0 / 6000, 8192} {
		t.Errorf("by the fastest clock: %v", got)
	}
	r.Cycles, r.PrepareCycles = 3000, 1000
	if got := [...]float64{r.preparedPerCycle(), r.preparedRow()}; got != [...]float64{2.5, 4096} {
		t.Errorf("by the clock of their rounds: %v", got)
	}
}

func TestRatesByRound(t *testing.T) {
	probes := []Probe{{Amount: 10}, {Amount: 30}}
	samples := []timing.Sample{{Rounds: []float64{1, 2, math.NaN()}, Alone: []bool{true, true, false}},
		{Rounds: []float64{5, 1, 9}, Alone: []bool{true, false, false}}}
	if got := RatesByRound(probes, samples); !slices.Equal(got, []float64{10, 5, 0}) {
		t.Errorf("have %v", got)
	}
}

func TestCompleteReportsProbe(t *testing.T) {
	r := Record{Format: "w2", BitsPerWeight: 2, M: 1000, K: 1000, N: 1, Family: "dot", Mode: ModeDRAM, Target: "avx2", Ns: 1e5, ClockGHz: 2, CeilingGBS: 2.4}
	got, err := r.Complete(Weights{NominalBits: 2})
	var p *ProbeError
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "1.042") || got.Share < 1.04 {
		t.Errorf("share %v, error %v", got.Share, err)
	}
	r.Family, r.N, r.Ns, r.CeilingGMACS = "bitserial", 16, 1e6, 10
	if got, err := r.Complete(Weights{NominalBits: 2}); err != nil || got.Share != 1.6 {
		t.Errorf("tables: share %v, error %v", got.Share, err)
	}
}
