package records

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/tune"
)

// entry is a record of a product.
func entry(product string, group int) tune.Entry {
	return tune.Entry{Product: product, ActGroup: group, Target: "amd64/avx2", Problem: "p", Date: "2026-11-27",
		Figures: []tune.Figures{{Mode: "l2", M: 1, N: 1, K: 1, Ns: 2, DefaultNs: 3}}, Kernels: []tune.Kernel{{Cols: 1, Trace: first()}}}
}

// first is a trace of this program's records.
func first() schedule.Trace {
	all, err := All()
	if err != nil {
		panic(err)
	}
	return all["golden-cove"].Entries[0].Kernels[0].Trace
}

// Every line of the committed files is as Change writes it, in the file of its core, for a target and a product that there is.
func TestCommitted(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for core, l := range all {
		data, err := files.ReadFile(core + extension)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := text(l); err != nil || !bytes.Equal(have, data) {
			t.Errorf("%s: written again it is another file, %v", core, err)
		}
		for _, e := range l.Entries {
			x := targets.ByName(e.Target)
			p, err := ir.Named(e.Product)
			if err != nil || x == nil || x.Machine().Core.Name != core || x.Machine().Name != e.Target {
				t.Errorf("%s: %s on %s: %v, %v", core, e.Product, e.Target, x, err)
				continue
			}
			p.Act.Group = e.ActGroup
			found, err := Find(p, x)
			if err != nil || found == nil || found.Date != e.Date {
				t.Errorf("%s: %s with groups of %d on %s is not found: another format had its name: %v", core, e.Product, e.ActGroup, e.Target, err)
			}
			if gain := e.Gain(); gain < 1/(1-Margin) {
				t.Errorf("%s: %s on %s gained a factor of %.3f, less than the margin", core, e.Product, e.Target, gain)
			}
		}
	}
}

// What Change writes, Read reads; records are sorted, and one replaces another of the same product.
func TestChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "golden-cove.jsonl")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for _, e := range []tune.Entry{entry(fmt.Sprint("w", i), 0), entry("w0", 32*i)} {
				if err := Change(path, func(l *tune.Lock) { l.Put(e) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	l, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range l.Entries {
		have = append(have, fmt.Sprint(e.Product, " ", e.ActGroup))
	}
	if want := []string{"w0 0", "w0 32", "w0 64", "w0 96", "w1 0", "w2 0", "w3 0"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	data, err := os.ReadFile(path)
	if err != nil || bytes.Count(data, []byte("\n")) != len(have) {
		t.Errorf("%v\n%s", err, data)
	}
	if none, err := Read(filepath.Join(t.TempDir(), "none.jsonl")); err != nil || len(none.Entries) != 0 {
		t.Errorf("%v, %v", none, err)
	}
}

// A file that is none is refused, by its line.
func TestRefused(t *testing.T) {
	good, err := text(&tune.Lock{Entries: []tune.Entry{entry("w1", 0), entry("w2", 0)}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	for want, data := range map[string]string{
		"line 2: unexpected end of JSON input":                       lines[0] + "\n",
		"line 1: unknown field":                                      strings.Replace(lines[0], `"date"`, `"day"`, 1),
		"line 1 lacks a date or figures":                             strings.Replace(lines[0], `"date":"2026-11-27",`, "", 1),
		"line 2 (w1 on amd64/avx2) is out of order or there twice":   lines[0] + lines[0],
		"line 1 (w2 on amd64/avx2) has a kernel without columns or ": strings.Replace(lines[1], `"cols":1`, `"cols":0`, 1),
	} {
		_, err := parse("golden-cove.jsonl", []byte(data))
		if err == nil || !strings.HasPrefix(err.Error(), "golden-cove.jsonl: "+want) || !strings.HasSuffix(err.Error(), "tmacc tune -record") {
			t.Errorf("%q: %v", want, err)
		}
	}
	if _, err := parse("golden-cove.jsonl", good); err != nil {
		t.Error(err)
	}
	if _, err := parse("zen5.jsonl", good); err == nil || !strings.Contains(err.Error(), "line 1 is for amd64/avx2, whose core is golden-cove") {
		t.Error(err)
	}
}
