// Command pairsgen writes docs/lab/pairs.jsonl and docs/lab/unpaired.jsonl from the figures of docs/lab/choices.md and of
// the pages about families. It makes both schedules of a pair from default choices, which it changes as the page says.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search"
)

// section is a section of a page.
type section struct {
	prose  string
	tables [][][]string // table, row (0: header), cell
}

func sections(path string) map[string]*section {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	out, now, in := map[string]*section{}, &section{}, false
	var prose []string
	for line := range strings.Lines(string(text) + "\n### end\n") {
		line = strings.TrimSpace(line)
		name, head := strings.CutPrefix(line, "### ")
		switch {
		case head || strings.HasPrefix(line, "## "):
			now.prose, prose = strings.Join(prose, " "), nil
			now = &section{}
			if head {
				out[name] = now
			}
		case strings.HasPrefix(line, "|"):
			if !in {
				now.tables = append(now.tables, nil)
			}
			t := &now.tables[len(now.tables)-1]
			if !strings.HasPrefix(line, "|-") {
				var cells []string
				for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
					cells = append(cells, strings.ReplaceAll(strings.TrimSpace(c), "`", ""))
				}
				*t = append(*t, cells)
			}
		case line != "":
			prose = append(prose, line)
		}
		in = strings.HasPrefix(line, "|")
	}
	return out
}

// left is a figure that is no pair.
type left struct {
	Section string `json:"section"`
	Table   int    `json:"table,omitempty"`
	Row     int    `json:"row,omitempty"`
	Column  int    `json:"column,omitempty"`
	Text    string `json:"text,omitempty"`
	Reason  string `json:"reason"`
}

// env is where something was measured.
type env struct{ core, machine, target string }

var (
	emerald = env{"golden-cove", "Emerald Rapids", "amd64/avx512vbmi"}
	zen3    = env{"zen2", "Zen 3", "amd64/zen2"}
	zen3b   = env{"zen2", "Zen 3, two streams", "amd64/zen2"}
	zen4    = env{"zen4", "Zen 4", "amd64/zen4"}
	zen5    = env{"zen5", "Zen 5", "amd64/zen5"}
	zen5b   = env{"zen5", "Zen 5, two streams", "amd64/zen5"}
)

var (
	farther = nest.Streams{Ahead: 4 << 10, Far: 16 << 10}
	near    = nest.Streams{Ahead: 128, Act: 128}
	far     = nest.Streams{Far: 8 << 10, Every: true, Act: 128}
	steady  = nest.Streams{Ahead: 3 << 10, Act: 128}
	oneKiB  = nest.Streams{Ahead: 1 << 10, Act: 128}
	sparse  = nest.Streams{Far: 8 << 10, Act: 128}
	early   = nest.Streams{Ahead: 9 << 10, Act: 128}
	nothing = nest.Streams{Act: 128}
)

type gen struct {
	page   map[string]*section
	pairs  []job
	left   []left
	failed []string
}

type job struct {
	p    pairs.Pair
	make func() (a, b side, err error)
	what string
}

// side is a schedule, made from a choice.
type side = search.Choice

// product has usual activations, unless it is named "w1@32".
func product(name string) ir.Problem {
	name, act, set := strings.Cut(name, "@")
	p, err := ir.Named(name)
	if err != nil {
		log.Fatal(err)
	}
	if p.Act = blocks.UsualAct(p.Weight); set {
		p.Act.Group, _ = strconv.Atoi(act)
	}
	return p
}

var usesMu sync.Map

const cache = "/tmp/w/pairs-cache"

// variants change a core.
var variants = map[string]func(*core.Core){
	"":    func(c *core.Core) {},
	"one": func(c *core.Core) { c.Tiles, c.HalvesTiles = 0, false },
	"plain": func(c *core.Core) { // before RowFields and DecodeFirst
		c.Tiles, c.HalvesTiles, c.RowFields, c.DecodeFirst = 0, false, false, false
	},
	"likezen4": func(c *core.Core) {
		c.Tiles, c.HalvesTiles = 0, false
		c.Streams, c.Slow, c.SlowLine, c.Scattered, c.Alone = near, far, 4.5, far, nest.Streams{}
	},
	"halves":  func(c *core.Core) {},
	"big":     func(c *core.Core) { c.Tiles, c.HalvesTiles, c.Skipping = 0, false, 1.07 },
	"dots":    func(c *core.Core) { c.Tiles, c.HalvesTiles = 0, false },
	"tables1": func(c *core.Core) {},
	"tables3": func(c *core.Core) {},
	"tables8": func(c *core.Core) {},
	"dotuses": func(c *core.Core) {},
}

func machine(target, variant string) lower.Target {
	t := targets.ByName(target)
	if t == nil {
		log.Fatal("no target ", target)
	}
	c := t.Machine().Core
	isa := t.Machine().ISA.Name
	c.Name, c.ISAs, c.CPUs = "my-core", []string{isa}, nil
	variants[variant](&c)
	ts, err := targets.Tuned(c)
	if err != nil {
		log.Fatal(err)
	}
	return ts[0]
}

// uses are default schedules, several lists for tables.
func uses(name, target, variant string) ([][]search.Choice, error) {
	key := fmt.Sprint(name, " ", target, " ", variant)
	once, _ := usesMu.LoadOrStore(key, sync.OnceValues(func() ([][]search.Choice, error) {
		path := filepath.Join(cache, fmt.Sprintf("%x", sha256.Sum256([]byte(key))))
		var out [][]search.Choice
		if data, err := os.ReadFile(path); err == nil {
			return out, json.Unmarshal(data, &out)
		}
		p, t := product(name), machine(target, variant)
		var all [][]search.Use
		var err error
		switch variant {
		case "tables1":
			all, err = search.TableUses(context.Background(), p, t, 1)
		case "tables8":
			all, err = search.TableUses(context.Background(), p, t, 8)
		case "tables3":
			all, err = search.TableUses(context.Background(), p, t, 3)
		default:
			f := search.Default
			if variant == "dots" || variant == "dotuses" {
				f = search.DotUses
			}
			var u []search.Use
			u, err = f(context.Background(), p, t)
			all = [][]search.Use{u}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		for _, us := range all {
			var cs []search.Choice
			for _, u := range us {
				cs = append(cs, u.Choice)
			}
			out = append(out, cs)
		}
		data, _ := json.Marshal(out)
		os.MkdirAll(cache, 0o777)
		os.WriteFile(path, data, 0o666)
		return out, nil
	}))
	return once.(func() ([][]search.Choice, error))()
}

// widthOf picks the choice for n activations.
func widthOf(cs []search.Choice, n int) search.Choice {
	best := cs[0]
	for _, c := range cs {
		if c.Cols <= n {
			best = c
		}
	}
	return best
}

// base is the default choice for n activations.
func base(name string, e env, variant string, n int) (search.Choice, error) {
	u, err := uses(name, e.target, variant)
	if err != nil {
		return search.Choice{}, err
	}
	return widthOf(u[0], n), nil
}

// asks is c with prefetches.
func asks(c search.Choice, s nest.Streams) search.Choice {
	if c.Table == nil {
		s.Act *= c.Cols
	} else if c.Cols > 1 {
		s.Act = c.Act
	}
	c.Streams = s
	return c
}

// cost is an estimate, or why there is no kernel.
func cost(name, target string, c search.Choice) (float64, error) {
	p, t := product(name), targets.ByName(target)
	k, err := schedule.Compile(p, c.Trace(p))
	if err != nil {
		return 0, err
	}
	m, err := search.Lower(context.Background(), t, k.Nest, c.Again)
	if err != nil {
		return 0, err
	}
	return search.Estimate(k, m, false), nil
}

// cheapest is the one that costs least.
func cheapest(name, target string, cs ...search.Choice) (best search.Choice, least float64, err error) {
	least = math.Inf(1)
	for _, c := range cs {
		x, fail := cost(name, target, c)
		if fail != nil {
			err = fail
			continue
		}
		if x < least {
			best, least = c, x
		}
	}
	if math.IsInf(least, 1) {
		return best, 0, err
	}
	return best, least, nil
}

// beside is c by two tiles, in the loop order that default schedules take.
func beside(name string, e env, c search.Choice, s nest.Streams) (search.Choice, error) {
	one, err := cost(name, e.target, c)
	if err != nil {
		return c, err
	}
	p := product(name)
	if c.Block != c.Rows {
		return c, fmt.Errorf("%s: %d columns do not read whole tiles", name, c.Cols)
	}
	x := asks(c, s)
	x.Tiles = 2
	same, all := []search.Choice{x}, []search.Choice{x}
	for _, order := range []int{0, 1} {
		y := x
		if y.Order = order; order != c.Order {
			if c.Cols == 1 {
				y.Stage = ""
			}
			all = append(all, y)
		}
		if y.Factor != "" {
			y.Factor = ""
			all = append(all, y)
			if order == c.Order {
				same = append(same, y)
			}
		}
	}
	best, least, err := cheapest(name, e.target, all...)
	if err == nil && least > one && p.Weight.Super == 0 {
		if b, _, fail := cheapest(name, e.target, same...); fail == nil {
			best = b
		}
	}
	return best, err
}

func ofEach(s nest.Streams) nest.Streams {
	s.Far = s.Far / 2 / 64 * 64
	if s.Ahead > 256 {
		s.Ahead = s.Ahead * 2 / 3 / 2 / 64 * 64
	}
	return s
}

var number = regexp.MustCompile(`\d+(\.\d+)?`)

// span is a ratio, and the least and the largest of several.
type span struct{ ratio, least, most float64 }

func spanOf(text string) span {
	if i := strings.Index(text, "("); i >= 0 {
		text = text[:i]
	}
	if i := strings.Index(text, ", "); i >= 0 {
		text = text[:i]
	}
	var xs []float64
	for _, s := range number.FindAllString(text, -1) {
		x, _ := strconv.ParseFloat(s, 64)
		xs = append(xs, x)
	}
	switch len(xs) {
	case 1:
		return span{ratio: xs[0]}
	case 2:
		a, b := min(xs[0], xs[1]), max(xs[0], xs[1])
		return span{math.Sqrt(a * b), a, b}
	}
	log.Fatalf("%q: no figure", text)
	return span{}
}

func (s span) inverse() span {
	x := span{ratio: 1 / s.ratio}
	if s.most > 0 {
		x.least, x.most = 1/s.most, 1/s.least
	}
	return x
}

func (s span) over(t span) span { return span{ratio: s.ratio / t.ratio} }

func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

func (g *gen) cell(sec string, table, row, col int) pairs.Figure {
	s := g.page[sec]
	if s == nil {
		log.Fatal("no section ", sec)
	}
	rows := s.tables[table-1]
	text := ""
	if row < len(rows) && col-1 < len(rows[row]) {
		text = rows[row][col-1]
	}
	return pairs.Figure{Table: table, Row: row, Column: col, Cell: text}
}

func (g *gen) rows(sec string, table int) [][]string { return g.page[sec].tables[table-1][1:] }

func (g *gen) leave(l left) { g.left = append(g.left, l) }

var places = map[string]string{"memory": "dram", "l3": "l3", "l2": "l2"}

type makes func() (a, b side, err error)

// add plans a pair.
func (g *gen) add(e env, name string, n int, place string, s span, src pairs.Source, f makes) {
	p := product(name)
	m, k := 4096, 4096
	if place == "l2" {
		m, k = 512, 2048
	}
	x := pairs.Pair{Core: e.core, Machine: e.machine, Target: targets.Canonical(e.target), Product: p.Name(), ActGroup: p.Act.Group, Mode: places[place], M: m, N: n, K: k,
		Ratio: round(s.ratio), Least: round(s.least), Most: round(s.most), Source: src}
	if src.Page == "" {
		x.Source.Page = "choices.md"
	}
	g.pairs = append(g.pairs, job{x, f, fmt.Sprint(e.core, " ", name, " n=", n, " ", place, " ", src)})
}

func table(sec string, fs ...pairs.Figure) pairs.Source {
	return pairs.Source{Section: sec, Figures: fs}
}

func prose(sec, text string) pairs.Source { return pairs.Source{Section: sec, Text: text} }

// finish makes the schedules.
func (g *gen) finish() {
	var wg sync.WaitGroup
	type result struct {
		p    pairs.Pair
		fail string
	}
	out := make([]result, len(g.pairs))
	sem := make(chan bool, 2)
	for i, j := range g.pairs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			sem <- true
			defer func() { <-sem }()
			out[i].p = j.p
			out[i].fail = func() string {
				a, b, err := j.make()
				if err != nil {
					return err.Error()
				}
				name := fmt.Sprintf("%s@%d", j.p.Product, j.p.ActGroup)
				p, err := j.p.Problem()
				if err != nil {
					return err.Error()
				}
				out[i].p.A, out[i].p.B = a.Trace(p), b.Trace(p)
				if out[i].p.A.String() == out[i].p.B.String() {
					return "the same trace"
				}
				if _, err := cost(name, j.p.Target, a); err != nil {
					return "a: " + err.Error()
				}
				if _, err := cost(name, j.p.Target, b); err != nil {
					return "b: " + err.Error()
				}
				return ""
			}()
		}()
	}
	wg.Wait()
	file, err := os.Create("docs/lab/pairs.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	e := json.NewEncoder(file)
	e.SetEscapeHTML(false)
	counts, decided := map[string]int{}, map[string]int{}
	for i, r := range out {
		if r.fail != "" {
			fmt.Println("FAILED", g.pairs[i].what, ":", r.fail)
			if r.p.Source.Page == "choices.md" {
				for _, f := range r.p.Source.Figures {
					g.leave(left{Section: r.p.Source.Section, Table: f.Table, Row: f.Row, Column: f.Column, Reason: "today's choices do not make both schedules"})
				}
				if r.p.Source.Text != "" {
					g.leave(left{Section: r.p.Source.Section, Text: r.p.Source.Text, Reason: "today's choices do not make both schedules"})
				}
			}
			continue
		}
		if err := e.Encode(r.p); err != nil {
			log.Fatal(err)
		}
		counts[r.p.Core]++
		if r.p.Decided() {
			decided[r.p.Core]++
		}
	}
	file.Close()
	file, err = os.Create("docs/lab/unpaired.jsonl")
	if err != nil {
		log.Fatal(err)
	}
	e = json.NewEncoder(file)
	e.SetEscapeHTML(false)
	g.left = slices.CompactFunc(g.left, func(a, b left) bool { return a == b })
	for _, l := range g.left {
		if err := e.Encode(l); err != nil {
			log.Fatal(err)
		}
	}
	file.Close()
	fmt.Println("pairs", counts, "decided", decided, "left", len(g.left))
}

func main() {
	log.SetFlags(0)
	g := &gen{page: sections("docs/lab/choices.md")}
	only := os.Getenv("ONLY")
	for _, f := range all {
		if only == "" || strings.Contains(" "+only+" ", " "+f.name+" ") {
			f.run(g)
		}
	}
	g.finish()
}
