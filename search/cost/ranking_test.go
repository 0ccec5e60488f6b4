package cost_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
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

var machines = map[string]core.Core{}

func init() {
	for _, c := range targets.Cores() {
		machines[c.Name] = c
	}
}

type side struct {
	k   *schedule.Kernel
	s   *lower.Selected
	old float64
	p   cost.Pipeline
}

// pipe is what its instructions take, with the sum of today's estimate.
func (x side) pipe() cost.Pipeline { return x.p }

func (x side) piped() cost.Pipeline {
	p := cost.Run(x.k, x.s)
	if os.Getenv("PIPE") != "new" {
		by := x.old / 10 * float64(x.k.Rows*x.k.Cols*cost.TypicalK) / p.Cycles
		p.Cycles *= by
		for i := range p.Stretches {
			p.Stretches[i].Cycles *= by
		}
	}
	return p
}

type ranked struct {
	pairs.Pair
	a, b, ta, tb float64
	sa, sb       side
}

func timeOf(c core.Core, p *pairs.Pair, x side) float64 {
	at, err := cost.PlaceOf(p.Mode)
	if err != nil {
		panic(err)
	}
	return 4096 * cost.Product(c, x.k, x.s, x.p, p.N, at)
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
		if l := os.Getenv("LINE"); l != "" && l != fmt.Sprint(p.Line) {
			continue
		}
		if !p.Decided() || p.Operator != "" {
			continue
		}
		if c := os.Getenv("CORE"); c != "" && c != p.Core {
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
			old := 0.0
			if os.Getenv("PIPE") != "new" {
				m, err := lower.Build(t.Context(), on, k.Nest)
				if err != nil {
					t.Fatal(err)
				}
				e := search.Estimate(k, m, p.Mode == "dram")
				old = search.Estimate(k, m, false)
				if i == 0 {
					r.ta = e
				} else {
					r.tb = e
				}
			}
			if i == 0 {
				r.sa = side{k, s, old, cost.Pipeline{}}
				r.sa.p = r.sa.piped()
			} else {
				r.sb = side{k, s, old, cost.Pipeline{}}
				r.sb.p = r.sb.piped()
			}
		}
		out = append(out, r)
	}
	return out
}

// fields are tried by FIT.
var fields = map[string][]float64{
	"Latency.1": {60, 100, 130, 200}, "Ahead": {2, 4, 8, 16, 32}, "Reach": {1, 2, 4}, "Waiting": {50, 64, 80, 97, 110, 128, 160},
	"Fills": {12, 16, 24, 32}, "Latency.2": {250, 300, 350, 400, 450}, "Holds": {0, 1},
}

func set(h *core.Core, name string, x float64) {
	v := reflect.ValueOf(&h.Hierarchy).Elem()
	if name == "Waiting" || name == "Times" {
		v = reflect.ValueOf(&h.Pipeline).Elem()
	}
	if name == "Times" {
		h.Pipeline.Waiting = int(x * float64(h.Pipeline.Waiting))
		return
	}
	field, i, _ := strings.Cut(name, ".")
	f := v.FieldByName(field)
	if i != "" {
		f = f.Index(int(i[0] - '0'))
	}
	switch f.Kind() {
	case reflect.Int:
		f.SetInt(int64(x))
	case reflect.Float64:
		f.SetFloat(x)
	case reflect.Bool:
		f.SetBool(x != 0)
	}
}

// score is how well h does on pairs: right ones, and a little more for wide margins.
func score(h core.Core, all []*ranked) (right, soft float64) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan *ranked)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for r := range next {
				d := math.Log(timeOf(h, &r.Pair, r.sa)/timeOf(h, &r.Pair, r.sb)) * math.Copysign(1, math.Log(r.Ratio))
				mu.Lock()
				if d > 1e-6 {
					right++
				} else if d > -1e-6 {
					right += 0.5
				}
				soft += 1 / (1 + math.Exp(-d/0.03))
				mu.Unlock()
			}
		})
	}
	for _, r := range all {
		next <- r
	}
	close(next)
	wg.Wait()
	return
}

func TestFit(t *testing.T) {
	name := os.Getenv("CORE")
	if name == "" {
		t.Skip()
	}
	all := loadPairs(t)
	h := machines[name]
	right, best := score(h, all)
	fmt.Println(name, right, best, len(all))
	names := slices.Sorted(maps.Keys(fields))
	if f := os.Getenv("FIELDS"); f != "" {
		names = strings.Split(f, ",")
	}
	for range 1 {
		for _, f := range names {
			at := h
			line := ""
			for _, x := range fields[f] {
				try := at
				set(&try, strings.TrimLeft(f, "123456789"), x)
				r, s := score(try, all)
				line += fmt.Sprintf(" %g:%.0f/%.1f", x, r, s)
				if s+0.3*r > best+0.3*right {
					h, best, right = try, s, r
				}
			}
			fmt.Println(name, f, line, "->", right, best)
		}
		fmt.Printf("%+v %d\n", h.Hierarchy, h.Pipeline.Waiting)
	}
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
			wrong = append(wrong, fmt.Sprintf("%-26s %-4s n%-3d %-8s line %3d measured %.3f model %.3f (%.0f %.0f; pipe %.0f %.0f; bytes %.0f %.0f) %s", r.Core+" "+section, r.Mode, r.N, r.Product, r.Line, r.Ratio, r.a/r.b, r.a, r.b, r.sa.units(), r.sb.units(), r.sa.bytes(), r.sb.bytes(), diff(r)))
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

func (x side) units() float64 { return x.pipe().Cycles / float64(x.k.Rows*x.k.Cols) }
func (x side) bytes() float64 {
	return float64(x.k.Weights.TileBytes(4096)) / float64(x.k.Weights.TileM)
}

func TestScan(t *testing.T) {
	if os.Getenv("SCAN") == "" {
		t.Skip()
	}
	by := map[string][]*ranked{}
	for _, r := range loadPairs(t) {
		by[r.Core] = append(by[r.Core], r)
	}
	for _, x := range strings.Fields(os.Getenv("SCAN")) {
		line, sum, all := "", 0.0, 0.0
		for _, c := range []string{"golden-cove", "zen2", "zen4", "zen5"} {
			h := machines[c]
			for _, f := range strings.Split(x, ",") {
				name, v, _ := strings.Cut(f, "=")
				if only, rest, is := strings.Cut(name, ":"); is {
					if only != c {
						continue
					}
					name = rest
				}
				var y float64
				fmt.Sscan(v, &y)
				set(&h, name, y)
			}
			r, s := score(h, by[c])
			line += fmt.Sprintf(" %s %.1f/%.1f", c, r, s)
			sum += r
			all += s
		}
		fmt.Printf("%-40s %.1f %.1f %s\n", x, sum, all, line)
	}
}
