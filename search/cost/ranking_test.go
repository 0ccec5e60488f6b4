package cost_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/cost"
)

var machines = map[string]core.Hierarchy{
	"golden-cove": {First: 48 << 10, Hit: 5, Fills: 16, Queue: 48, Latency: [3]float64{15, 200, 400}, Line: [3]float64{1.8, 6, 12.3}, Several: 11.5, Ahead: 20, Streams: 32, Strides: 1, Width: 6, Window: 512},
	"zen2":        {First: 32 << 10, Hit: 4, Fills: 24, Queue: 64, Latency: [3]float64{13, 50, 330}, Line: [3]float64{2, 2.6, 9.2}, Several: 8.5, Ahead: 8, Streams: 32, Strides: 1, Width: 6, Window: 256},
	"zen4":        {First: 32 << 10, Hit: 4, Fills: 24, Queue: 64, Latency: [3]float64{14, 55, 350}, Line: [3]float64{2, 2.4, 8.6}, Several: 8.5, Ahead: 8, Streams: 32, Strides: 1, Width: 6, Window: 320},
	"zen5":        {First: 48 << 10, Hit: 4, Fills: 24, Queue: 64, Latency: [3]float64{14, 55, 420}, Line: [3]float64{1.3, 2.4, 7.5}, Several: 6.5, Ahead: 12, Streams: 32, Strides: 1, Width: 8, Window: 448},
}

type side struct {
	k *schedule.Kernel
	s *lower.Selected
	e [2]float64
}

type ranked struct {
	pairs.Pair
	a, b, ta, tb float64
	sa, sb       side
}

func timeOf(h core.Hierarchy, p *pairs.Pair, x side) float64 {
	place := map[string]cost.Place{"l2": cost.L2, "l3": cost.L3, "dram": cost.DRAM}[p.Mode]
	t := cost.On(h, x.k, x.s, place).Cycles
	if blocks := float64((p.N + x.k.Cols - 1) / x.k.Cols); blocks > 1 {
		t = (t + (blocks-1)*cost.On(h, x.k, x.s, cost.L2).Cycles) / blocks
	}
	return t / float64(x.k.Rows*x.k.Cols)
}

func loadPairs(t *testing.T) (out []*ranked) {
	data, err := os.ReadFile("../../docs/lab/pairs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pairs.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !p.Decided() || p.Operator != "" {
			continue
		}
		a, b, err := p.Kernels()
		if err != nil {
			t.Fatal(err)
		}
		on := targets.ByName(p.Target)
		r := &ranked{Pair: p}
		for i, k := range []*schedule.Kernel{a, b} {
			s, err := cost.Compile(t.Context(), on, k)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("OLD") != "" {
				m, err := lower.Build(t.Context(), on, k.Nest)
				if err != nil {
					t.Fatal(err)
				}
				e := search.Estimate(k, m, p.Mode == "dram")
				if i == 0 {
					r.ta = e
				} else {
					r.tb = e
				}
			}
			if i == 0 {
				r.sa = side{k: k, s: s}
			} else {
				r.sb = side{k: k, s: s}
			}
		}
		out = append(out, r)
	}
	return out
}

func TestRanking(t *testing.T) {
	all := loadPairs(t)
	began := time.Now()
	var wg sync.WaitGroup
	next := make(chan *ranked)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for r := range next {
				h := machines[r.Core]
				if os.Getenv("OLD") != "" {
					r.a, r.b = r.ta, r.tb
					continue
				}
				r.a, r.b = timeOf(h, &r.Pair, r.sa), timeOf(h, &r.Pair, r.sb)
			}
		})
	}
	for _, r := range all {
		next <- r
	}
	close(next)
	wg.Wait()
	t.Log("simulated in", time.Since(began))
	right, n := map[string]float64{}, map[string]int{}
	var wrong []string
	for _, r := range all {
		sc := 0.0
		switch {
		case math.Abs(math.Log(r.a/r.b)) < 1e-6:
			sc = 0.5
		case r.a > r.b == (r.Ratio > 1):
			sc = 1
		}
		section := r.Source.Section
		if section == "" {
			section = "families"
		}
		for _, of := range []string{"all", r.Core, r.Core + " " + section, "- " + strings.TrimPrefix(r.Source.Page, "emerald/")} {
			right[of] += sc
			n[of]++
		}
		if sc < 1 || os.Getenv("ALL") != "" {
			wrong = append(wrong, fmt.Sprintf("%-26s %-4s n%-3d %-8s line %3d measured %.3f model %.3f (%.3f %.3f) %s", r.Core+" "+section, r.Mode, r.N, r.Product, r.Line, r.Ratio, r.a/r.b, r.a, r.b, diff(r)))
		}
	}
	for _, of := range slices.Sorted(maps.Keys(n)) {
		t.Logf("%-30s %5.1f of %3d  %.0f %%", of, right[of], n[of], 100*right[of]/float64(n[of]))
	}
	sort.Strings(wrong)
	t.Log("\n" + strings.Join(wrong, "\n"))
}

func diff(r *ranked) string {
	f := func(a, b schedule.Trace) string {
		x, y := strings.Split(a.String(), "; "), strings.Split(b.String(), "; ")
		x = slices.DeleteFunc(x, func(s string) bool {
			return slices.Contains(y, s) || strings.HasPrefix(s, "pack") || strings.HasPrefix(s, "reorder")
		})
		return strings.Join(x, ";")
	}
	a, b := f(r.A, r.B), f(r.B, r.A)
	return a[:min(len(a), 60)] + " | " + b[:min(len(b), 60)]
}
