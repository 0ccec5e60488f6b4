package space

import (
	"bufio"
	"encoding/json"
	"fmt"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	table "github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
)

func TestDevMembers(t *testing.T) {
	f, err := os.Open(os.Getenv("CORPUS"))
	if err != nil {
		t.Skip()
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	fails := map[string][]string{}
	n, bad := 0, 0
	seen := map[string]bool{}
	start := time.Now()
	for sc.Scan() {
		var r struct {
			Product, Target string
			ActGroup, Cols  int
			Trace           schedule.Trace
		}
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			continue
		}
		tg := targets.ByName(r.Target)
		key := fmt.Sprint(r.Product, tg.Machine().Class(), r.ActGroup, r.Trace)
		if seen[key] {
			continue
		}
		seen[key] = true
		p, _ := ir.Named(r.Product)
		if !p.Act.Floats() {
			p.Act.Group = r.ActGroup
		}
		sp, err := For(p, tg)
		if err != nil {
			t.Fatal(err)
		}
		n++
		if _, err := sp.Parse(r.Trace); err != nil {
			bad++
			k, _, _ := strings.Cut(err.Error(), ":")
			fails[k] = append(fails[k], fmt.Sprintf("%s g%d %s %d cols: %v", r.Product, r.ActGroup, r.Target, r.Cols, err))
		}
	}
	t.Logf("%d traces, %d do not parse, %v each", n, bad, time.Since(start)/time.Duration(max(n, 1)))
	var ks []string
	for k := range fails {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	for _, k := range ks {
		t.Logf("%s: %d", k, len(fails[k]))
		for i := range min(5, len(fails[k])) {
			t.Log("   ", fails[k][i*len(fails[k])/min(5, len(fails[k]))])
		}
	}
}

func TestDevPairs(t *testing.T) {
	f, _ := os.Open("../../docs/lab/pairs.jsonl")
	all, err := table.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	bad, n := 0, 0
	for _, p := range all {
		if p.Operator != "" {
			continue
		}
		q, _ := p.Problem()
		tg := targets.ByName(p.Target)
		if tg == nil {
			t.Log("no target", p.Target)
			continue
		}
		sp, err := For(q, tg)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []schedule.Trace{p.A, p.B} {
			n++
			if _, err := sp.Parse(x); err != nil {
				bad++
				if bad < 40 {
					t.Logf("line %d %s %s: %.300s", p.Line, p.Product, p.Target, err)
				}
			}
		}
	}
	t.Logf("%d of %d do not parse", bad, n)
}
func TestDevFirst(t *testing.T) {
	names := append(format.Names(), "w2-g32", "w2-g128", "w4-g32", "w4-g128", "w1-g16", "w3-g48", "w4-g32-z",
		"w1-f32act", "ternary-f32act", "w1-g16-f32act", "w3-g48-f32act", "iq4nl-f32act")
	bad, n := 0, 0
	for _, tg := range targets.Ordinary() {
		for _, name := range names {
			p, err := ir.Named(name)
			if err != nil {
				t.Fatal(err)
			}
			sp, err := For(p, tg)
			if err != nil {
				t.Fatal(err)
			}
			n++
			x, err := sp.First()
			if err != nil {
				bad++
				t.Logf("%s %s: %.200s", tg.Machine().Name, name, err)
				continue
			}
			k, err := sp.Kernel(x)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("LOW") == "" {
				continue
			}
			if _, err := lower.BuildOnce(t.Context(), tg, k.Nest); err != nil {
				bad++
				t.Logf("%s %s: %.200s %s", tg.Machine().Name, name, err, x.Trace())
			}
		}
	}
	t.Logf("%d of %d have no first kernel", bad, n)
}
func TestDevSample(t *testing.T) {
	names := append(format.Names(), "w2-g32", "w2-g128", "w4-g32", "w4-g128", "w1-g16", "w3-g48", "w4-g32-z",
		"w1-f32act", "ternary-f32act", "w1-g16-f32act", "w3-g48-f32act", "iq4nl-f32act")
	total, _ := strconv.Atoi(os.Getenv("N"))
	if total == 0 {
		total = 30
	}
	for _, tg := range targets.Ordinary()[:2] {
		rng := rand.New(rand.NewSource(1))
		type c struct{ n, ok int }
		fam := map[string]*c{}
		why := map[string]int{}
		dead := 0
		var spent, low time.Duration
		deads := map[string]int{}
		ex := map[string]string{}
		Dead = func(r string, x Point, err error) {
			m := r
			if err != nil {
				m += " " + err.Error()
			}
			if len(m) > 90 {
				m = m[:90]
			}
			deads[m]++
			if rng.Intn(deads[m]) == 0 {
				ex[m] = x.Trace().String()
			}
		}
		low = 0
		for range total {
			p, err := ir.Named(names[rng.Intn(len(names))])
			if err != nil {
				t.Fatal(err)
			}
			sp, err := For(p, tg)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			x, err := sp.Sample(rng)
			spent += time.Since(start)
			if err != nil {
				dead++
				why["dead: "+err.Error()]++
				continue
			}
			tr := x.Trace()
			f := search.Family(tr)
			if len(f) > 20 {
				f = strings.Fields(f)[0] + " " + strings.Fields(f)[1] + " " + strings.Fields(f)[len(strings.Fields(f))-1]
			}
			if fam[f] == nil {
				fam[f] = &c{}
			}
			fam[f].n++
			k, err := sp.Kernel(x)
			if err != nil {
				t.Fatal(err)
			}
			start = time.Now()
			if os.Getenv("LOW") == "" {
				continue
			}
			if _, err := lower.BuildOnce(t.Context(), tg, k.Nest); err != nil {
				r, _ := search.Refusal(err)
				why[r]++
			} else {
				fam[f].ok++
			}
			low += time.Since(start)
		}
		ok := 0
		for _, x := range fam {
			ok += x.ok
		}
		t.Logf("%s: %d of %d lower, %d dead, sample %v lower %v", tg.Machine().Name, ok, total, dead, spent/time.Duration(total), low/time.Duration(total))
		for f, x := range fam {
			t.Logf("   %s %d/%d", f, x.ok, x.n)
		}
		for r, n := range deads {
			if n > total/4 {
				t.Logf("   DEAD %s: %d %s", r, n, ex[r])
			}
		}
		for r, n := range why {
			t.Logf("   %.200s: %d", r, n)
		}
	}
}

func TestDevOne(t *testing.T) {
	name, target := os.Getenv("P"), os.Getenv("T")
	if name == "" { t.Skip() }
	p, err := ir.Named(name)
	if err != nil { t.Fatal(err) }
	n := 0
	Dead = func(r string, x Point, err error) { if n++; n < 20 { t.Log(r, err, x.Trace()[len(x.Trace())-5:]) } }
	sp, err := For(p, targets.ByName(target))
	if err != nil { t.Fatal(err) }
	x, err := sp.First()
	t.Log(x.Trace(), err)
	Dead = nil
}
