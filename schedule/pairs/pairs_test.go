package pairs

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table of all pairs. At least so long it is, and has enough pairs on each of some cores.
const (
	table                = "../../docs/lab/pairs.jsonl"
	least, cores, onEach = 300, 4, 40
)

func readTable(t *testing.T) []Pair {
	t.Helper()
	f, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Enough pairs are decided, on enough cores.
func TestCounts(t *testing.T) {
	all, on := 0, map[string]int{}
	for _, p := range readTable(t) {
		if p.Decided() {
			all++
			on[p.Core]++
		}
	}
	enough := 0
	for _, n := range on {
		if n >= onEach {
			enough++
		}
	}
	t.Logf("%d decided pairs: %v", all, on)
	if all < least || enough < cores {
		t.Errorf("%d decided pairs, at least %d on each of %d cores; want %d, and %d cores", all, onEach, enough, least, cores)
	}
}

// Both schedules of every pair replay, for one number of columns that the product can be divided into.
func TestKernels(t *testing.T) {
	for _, p := range readTable(t) {
		if p.Operator != "" {
			if _, _, err := p.Operators(); err != nil {
				t.Error(err)
			}
			continue
		}
		a, b, err := p.Kernels()
		if err != nil {
			t.Error(err)
			continue
		}
		if a.Cols > p.N || b.Cols > p.N {
			t.Errorf("line %d: kernels of %d and %d columns for products of %d", p.Line, a.Cols, b.Cols, p.N)
		}
	}
}

// No two pairs say the opposite of the same schedules.
func TestContradictions(t *testing.T) {
	type side struct {
		place, trace string
	}
	seen := map[[2]side]*Pair{}
	for _, p := range readTable(t) {
		place := fmt.Sprint(p.Core, p.Machine, p.Target, p.Product, p.Operator, p.ActGroup, p.Mode, p.M, p.N, p.K)
		a, b := side{place, p.A.String()}, side{place, p.B.String()}
		same, opposite := seen[[2]side{a, b}], seen[[2]side{b, a}]
		switch {
		case !p.Decided():
			continue
		case same != nil && same.Ratio > 1 != (p.Ratio > 1):
			t.Errorf("lines %d and %d contradict each other: %v and %v", same.Line, p.Line, same.Ratio, p.Ratio)
		case opposite != nil && opposite.Ratio > 1 == (p.Ratio > 1):
			t.Errorf("lines %d and %d contradict each other: %v, and the other way round %v", opposite.Line, p.Line, opposite.Ratio, p.Ratio)
		}
		seen[[2]side{a, b}] = &p
	}
}

// A pair is decided beyond the noise, if all measurements agree.
func TestDecided(t *testing.T) {
	for _, c := range []struct {
		ratio, least, most float64
		want               bool
	}{
		{0.97, 0, 0, false}, {1.03, 0, 0, false}, {1.04, 0, 0, false}, {0.95, 0, 0, true}, {1.05, 0, 0, true},
		{0.9, 0.8, 0.99, true}, {0.9, 0.8, 1.01, false}, {1.1, 1.01, 1.2, true}, {1.1, 0.99, 1.2, false}, {1.02, 1.01, 1.03, false},
	} {
		p := Pair{Ratio: c.ratio, Least: c.least, Most: c.most}
		if got := p.Decided(); got != c.want {
			t.Errorf("%v (%v to %v): %v", c.ratio, c.least, c.most, got)
		}
	}
}

// Other lines than pairs are errors that name the line.
func TestRefused(t *testing.T) {
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	good, _, _ := bytes.Cut(data, []byte("\n"))
	all, err := Read(bytes.NewReader(good))
	if err != nil || len(all) != 1 || all[0].Line != 1 {
		t.Fatal(all, err)
	}
	p := all[0]
	for _, c := range []struct{ old, new, want string }{
		{`"core":"` + p.Core + `"`, `"core":""`, "line 2: core is empty"},
		{`"machine":"` + p.Machine + `"`, `"machine":""`, "line 2: machine is empty"},
		{`"mode":"` + p.Mode + `"`, `"mode":"l4"`, `line 2: mode is "l4": want one of ["dram" "l3" "l2"]`},
		{fmt.Sprintf(`"n":%d`, p.N), `"n":0`, "line 2: n is 0: want 1 to"},
		{fmt.Sprintf(`"ratio":%v`, p.Ratio), `"ratio":0`, "line 2: ratio is 0: want more than 0"},
		{fmt.Sprintf(`"ratio":%v`, p.Ratio), `"ratio":0.9,"least":1,"most":1.1`, "line 2: ratio is 0.9: want"},
		{fmt.Sprintf(`"ratio":%v`, p.Ratio), `"ratio":1,"least":1.2,"most":1.1`, "line 2: least is 1.2: want"},
		{fmt.Sprintf(`"ratio":%v`, p.Ratio), `"ratio":1,"most":1.1`, "line 2: least is 0: want"},
		{`"product":"` + p.Product + `",`, "", "line 2: want one of product and operator"},
		{`"product"`, `"operator":"rope","product"`, "line 2: want one of product and operator"},
		{`"core"`, `"cores"`, `line 2: unknown field "cores"`},
		{`"ratio"`, `"n":1,"ratio"`, `line 2: field "n" is there twice`},
		{`"decompose"`, `"compose"`, "line 2: trace: step 0: no transform \"compose\""},
		{string(good), `{`, "line 2: unexpected end of JSON input"},
		{string(good), ``, "line 2 is empty: want a pair"},
		{string(good), strings.Repeat(" ", maxLine), "line 2: bufio.Scanner: token too long"},
	} {
		if !strings.Contains(string(good), c.old) {
			t.Fatalf("the first pair has no %s", c.old)
		}
		bad := strings.Replace(string(good), c.old, c.new, 1)
		_, err := Read(strings.NewReader(string(good) + "\n" + bad + "\n"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.new, err, c.want)
		}
	}
}

// A pair whose schedules do not fit its product is an error that names the line, too.
func TestKernelsRefused(t *testing.T) {
	p := readTable(t)[0]
	unknown, halved, fewer := p, p, p
	unknown.Product = "no-format"
	other := p
	other.Product, other.Operator = "", "rope"
	halved.A = p.A[1:]
	fewer.B = p.B[:len(p.B)/2]
	for _, c := range []struct {
		p    Pair
		want string
	}{{unknown, "line 1: product: "}, {halved, "line 1: a: "}, {fewer, "line 1: b: "}, {other, "line 1: is of the operator rope, not of a product"}} {
		if _, _, err := c.p.Kernels(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
	for _, name := range []string{"", "no-operator"} {
		other.Operator = name
		if _, _, err := other.Operators(); err == nil || !strings.HasPrefix(err.Error(), "line 1: no operator ") {
			t.Errorf("operator %q: %v", name, err)
		}
	}
	other.Operator = "rope"
	if _, _, err := other.Operators(); err == nil || !strings.HasPrefix(err.Error(), "line 1: a: ") {
		t.Error(err)
	}
}
