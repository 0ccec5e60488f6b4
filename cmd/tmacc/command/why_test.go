package command

import (
	"encoding/json"
	"strings"
	"testing"
)

// show -why says what a schedule decides, whoever chose it, and what alternatives would take.
func TestShowWhy(t *testing.T) {
	flags := []string{"show", "-format", "w2", "-target", "avx2"}
	with := func(args ...string) []string { return append(append([]string{}, flags...), args...) }
	out := ok(t, with("-why", "-most", "1")...)
	for _, want := range []string{"1 in l2     1 in l3   1 in dram  w2 on amd64/avx2", "schedule from default: ", "decompose: decompose dot ", "no alternative was found: "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	trace := file(t, "t.json", json1(t, ok(t, with("-stage", "trace")...)))
	var r struct {
		Product, Origin string
		Purposes        []struct {
			N    int
			Mode string
		}
		Cycles    []float64
		Decisions []struct {
			Rule         string
			Alternatives []struct{ Ratios []float64 }
		}
	}
	text := ok(t, with("-trace", trace, "-why", "-most", "1", "-n", "1,4", "-mode", "l3", "-json")...)
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Product != "w2" || r.Origin != "trace: "+trace || len(r.Decisions) == 0 ||
		len(r.Purposes) != 2 || r.Purposes[1].N != 4 || r.Purposes[1].Mode != "l3" || len(r.Cycles) != 2 {
		t.Errorf("%v: %.2000s", err, text)
	}
	none := file(t, "none.json", `[{"decompose":{"family":"dot","value":"affine"}}]`)
	for want, args := range map[string]string{
		"show: -n is for -why":           "-n 1",
		"show: -json is for -why and":    "-json",
		"-n 0: want 1 or more":           "-why -n 0",
		"-most 0: want 1 or more":        "-why -most 0",
		`place "l4": want one of l2`:     "-why -mode l4",
		"-stage and -why: want one":      "-why -stage nest",
		"-prepare and -why: want one":    "-why -prepare",
		"rules of the space do not make": "-why -trace " + none,
	} {
		refused(t, refusal{exitUsage, want, strings.Join(with(args), " ")})
	}
	refused(t, refusal{exitUsage, "show: -why is for products: leave it out with -op", "show -op softmax -why"})
}
