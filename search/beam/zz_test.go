package beam

import (
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/lab/defaults"
)

func cpuTime() time.Duration {
	var r syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// OLD=file of rows, NAMES=regexp-free prefix list "w2 q4_k", TARGETS
func TestZZ(t *testing.T) {
	f, err := os.Open(os.Getenv("OLD"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := defaults.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	names, tgs := strings.Fields(os.Getenv("NAMES")), strings.Fields(os.Getenv("TARGETS"))
	has := func(l []string, s string) bool {
		for _, x := range l {
			if x == s {
				return true
			}
		}
		return len(l) == 0
	}
	type st struct {
		n, evals, wins int
		gain           float64
	}
	stats := map[string]*st{}
	Stat = func(r string, n int, g float64) {
		if stats[r] == nil {
			stats[r] = &st{}
		}
		x := stats[r]
		x.n++
		x.evals += n
		if g > 1e-4 {
			x.wins++
			x.gain += g
		}
	}
	defer func() {
		for r, x := range stats {
			t.Logf("S %-18s %4d times %5d evals %4d wins %.3f gain, %.5f per eval", r, x.n, x.evals, x.wins, x.gain, x.gain/float64(x.evals))
		}
	}()
	verbose := os.Getenv("V") != ""
	sums, counts, over := map[string]float64{}, map[string]float64{}, map[string]int{}
	for _, r := range rows {
		if !has(names, r.Problem.Name()) || !has(tgs, r.Target) {
			continue
		}
		tg := targets.ByName(r.Target)
		sp, err := space.For(r.Problem, tg)
		if err != nil {
			t.Fatal(err)
		}
		kernelsOf := func(traces []schedule.Trace) (ks []*kernel) {
			c := &chooser{ctx: t.Context(), target: tg, space: sp, kernels: map[string]*kernel{}}
			for _, tr := range traces {
				x, err := sp.Parse(tr)
				if err != nil {
					t.Error(err)
					continue
				}
				k := c.find(x, Purposes, math.Inf(1))
				if k.err != nil {
					t.Logf("%s: %v %v", r.Name(), k.err, tr)
					continue
				}
				ks = append(ks, k)
			}
			return ks
		}
		var old, now []schedule.Trace
		for _, k := range r.Kernels {
			old = append(old, k.Trace)
		}
		begin := cpuTime()
		if os.Getenv("TIME") != "" {
			search.Default(t.Context(), r.Problem, tg)
			r.Seconds = (cpuTime() - begin).Seconds()
			begin = cpuTime()
		}
		c := &chooser{ctx: t.Context(), target: tg, space: sp.Exact(), kernels: map[string]*kernel{}}
		uses, err := c.uses()
		took := cpuTime() - begin
		if err != nil {
			t.Errorf("%s: %v", r.Name(), err)
			continue
		}
		for _, u := range uses {
			now = append(now, u.Trace)
		}
		ok, nk := kernelsOf(old), kernelsOf(now)
		if out := os.Getenv("NEW"); out != "" {
			var us []search.Use
			for _, u := range uses {
				us = append(us, search.Use{Cols: u.Cols, Trace: u.Trace})
			}
			row := defaults.Row{Problem: r.Problem, Target: r.Target, CPU: r.CPU, Date: r.Date, Commit: "beam", Seconds: took.Seconds(), Elapsed: took.Seconds()}
			v, err := build.Variant(t.Context(), r.Problem, tg, us)
			if err != nil {
				t.Errorf("%s: %v", r.Name(), err)
				continue
			}
			for _, k := range v.Kernels {
				row.Kernels = append(row.Kernels, defaults.Kernel{Cols: k.Schedule.Cols, Trace: k.Schedule.Trace})
			}
			row.Prepare = v.Prepare.Schedule.Trace
			f, err := os.OpenFile(out, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
			if err != nil {
				t.Fatal(err)
			}
			defaults.Write(f, row)
			f.Close()
		}
		line := ""
		for _, x := range Purposes {
			a, b := product(ok, x.N, x.At), product(nk, x.N, x.At)
			key := fmt.Sprintf("%d/%v", x.N, x.At)
			sums[key] += math.Log(b / a)
			counts[key]++
			if b > a*1.01 {
				over[key]++
			}
			line += fmt.Sprintf(" %s %.3f", key, b/a)
		}
		var w []int
		for _, k := range nk {
			w = append(w, k.Cols)
		}
		t.Logf("%-28s %4d tries %5.2fs (old %.2fs) %v:%s", r.Name(), c.tries, took.Seconds(), r.Seconds, w, line)
		if verbose {
			a, b := ok[len(ok)-1], nk[len(nk)-1]
			pa, _ := sp.Parse(a.Trace)
			pb, _ := sp.Parse(b.Trace)
			for i, rule := range sp.Rules() {
				if pa[i].String() != pb[i].String() {
					t.Logf("D    %s: old %v new %v", rule, pa[i], pb[i])
				}
			}
			for _, k := range append(ok, nk...) {
				t.Logf("D  %d rows %d: L2 %.2f DRAM %.2f", k.Cols, k.Rows, k.cycles[cost.L2]/float64(k.Rows*k.Cols), k.cycles[cost.DRAM]/float64(k.Rows*k.Cols))
			}
			for _, ks := range [][]*kernel{} {
				for _, k := range ks {
					t.Logf("   %d: L2 %.2f DRAM %.2f %v", k.Cols, k.cycles[cost.L2]/float64(k.Rows*k.Cols), k.cycles[cost.DRAM]/float64(k.Rows*k.Cols), k.Trace)
				}
			}
		}
	}
	for _, x := range Purposes {
		key := fmt.Sprintf("%d/%v", x.N, x.At)
		t.Logf("%s: %.3f, over %d of %.0f", key, math.Exp(sums[key]/counts[key]), over[key], counts[key])
	}
}
