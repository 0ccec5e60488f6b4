package tune

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/schedule/pairs"
)

// A search is a pair for each purpose in which it found something faster by more than the noise. The pair can be read.
func TestPairs(t *testing.T) {
	p, err := ir.Named("w4")
	if err != nil {
		t.Fatal(err)
	}
	purposes := []Purpose{{Mode: "l2", M: 512, N: 1, K: 2048}, {Mode: "dram", M: 4096, N: 4, K: 4096, Total: 1 << 30}}
	x, err := New(t.Context(), Product{Problem: p, Target: amd64.ByName("avx2"), Purposes: purposes})
	if err != nil {
		t.Fatal(err)
	}
	r := Run{ID: "0123456789abcdef", Product: "w4", Target: "amd64/avx2", Problem: ProblemHash(p), Purposes: purposes, CPU: "a CPU", Core: "zen5", Default: x.DefaultHash}
	var genes []Gene
	for _, u := range x.Default {
		if u.Cols == 1 || u.Cols == 4 {
			genes = append(genes, Gene{Trace: asking(u.Trace, aheadOf(u.Trace).Bytes+1<<10)})
		}
	}
	if len(genes) != 2 {
		t.Fatalf("%d schedules of 1 and 4 columns", len(genes))
	}
	trial := func(ratios ...float64) Trial { return Trial{Genes: genes, Ratios: ratios} }
	timed := func(ns, ratio float64) Trial { return Trial{Genes: genes, Ns: []float64{ns}, Ratios: []float64{ratio}} }
	failed := trial(0.1, 0.1)
	failed.Error = "wrong"
	for _, c := range []struct {
		trials []Trial
		want   map[int]float64 // ratio by activations
	}{
		{nil, nil},
		{[]Trial{trial(0.97, 1.2), failed}, nil},
		{[]Trial{trial(0.9, 0), trial(0.8, 0.99), trial(0.85, 1)}, map[int]float64{1: 0.8}},
		{[]Trial{trial(0.9, 0.7)}, map[int]float64{1: 0.9, 4: 0.7}},
		{[]Trial{timed(80, 0.4), timed(81, 0.81), timed(90, 0.9)}, map[int]float64{1: 0.8}}, // where the default was disturbed once
		{[]Trial{{Ratios: []float64{0.5, 0.5}}}, nil},                                       // without schedules, which no search writes
		{[]Trial{{Genes: genes, Ratios: []float64{0.5}}}, map[int]float64{1: 0.5}},
	} {
		got, err := x.Pairs(r, c.trials)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%d pairs, %v, want %v", len(got), err, c.want)
		}
		for _, pair := range got {
			checkPair(t, pair, c.want[pair.N])
		}
	}
	r.Core = ""
	if _, err := x.Pairs(r, nil); err == nil || !strings.Contains(err.Error(), "without the core of its machine") {
		t.Error(err)
	}
	r.Default = "another"
	if _, err := x.Pairs(r, nil); err == nil || !strings.Contains(err.Error(), "measured other default schedules") {
		t.Error(err)
	}
}

// checkPair checks the ratio of a pair, and that its line is read again and has two kernels of its width.
func checkPair(t *testing.T, p pairs.Pair, ratio float64) {
	t.Helper()
	line, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pairs.Read(bytes.NewReader(line))
	if err != nil {
		t.Fatal(err)
	}
	a, b, err := all[0].Kernels()
	if err != nil || a.Cols != p.N || b.Cols != p.N || p.Ratio != ratio || p.Core != "zen5" || p.A.String() == p.B.String() {
		t.Errorf("%v: %d activations, ratio %v, want %v", err, p.N, p.Ratio, ratio)
	}
}
