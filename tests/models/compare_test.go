package models

import (
	"cmp"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format/gguf"
	"github.com/tmacc/tmacc/runtime/model"
	"github.com/tmacc/tmacc/search/kernels"
)

// compare computes a task on machines, the first of which is pure Go, and compares all with what that computes first. Kernels are kept
// in the folder.
func compare(t *testing.T, machines []*machine, x task, folder string) {
	t.Helper()
	needed, err := needed(x.Path)
	if err != nil {
		t.Fatal(err)
	}
	replies, errs := make([]reply, len(machines)), make([]error, len(machines))
	var all sync.WaitGroup
	slots := make(chan bool, goruntime.GOMAXPROCS(0))
	for i, m := range machines {
		slots <- true
		all.Go(func() {
			replies[i], errs[i] = m.compute(t.Context(), request{Task: x, Folder: folder}, needed)
			<-slots
		})
	}
	all.Wait()
	for i, m := range machines {
		if errs[i] != nil {
			t.Errorf("%s: %v", m, errs[i])
			continue
		}
		for _, fault := range slices.Concat(m.ranOthers(&replies[i], needed), x.differences(replies[0].Logits, replies[i].Logits)) {
			t.Errorf("%s: %s", m, fault)
		}
		t.Logf("%s: %s", m, &replies[i])
	}
}

// needed are the products of a model's file.
func needed(path string) ([]ir.Problem, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return kernels.Needed(f, model.Options{})
}

// String says what ran.
func (r *reply) String() string {
	var names []string
	for _, p := range r.Products {
		names = append(names, p.Product+" on "+p.Target)
	}
	running, _ := operators(r.Operators)
	return fmt.Sprintf("%d sequences; products: %s; operators on %s", len(r.Logits), cmp.Or(strings.Join(names, ", "), "none"), running)
}

// ranOthers lists kernels that a child ran for another target than it was asked for, or did not run.
func (x *machine) ranOthers(r *reply, needed []ir.Problem) (faults []string) {
	if len(r.Products) != len(needed) {
		faults = append(faults, fmt.Sprintf("products %v, want %d", r.Products, len(needed)))
	}
	for _, p := range r.Products {
		if p.Target != x.name {
			faults = append(faults, fmt.Sprintf("%s ran on %s", p.Product, p.Target))
		}
	}
	running, have := operators(r.Operators)
	want := pureGo
	if i := slices.IndexFunc(have, func(name string) bool { return slices.Contains(x.allowed, name) }); i >= 0 {
		want = have[i]
	}
	if running != want {
		faults = append(faults, fmt.Sprintf("operators ran on %s, want %s: %s", running, want, r.Operators))
	}
	return faults
}

// operators is the target that float operators ran on, and the targets that the program has them for, best first, by what ops.Info says.
func operators(info string) (running string, have []string) {
	for line := range strings.Lines(info) {
		if on, ok := strings.CutPrefix(line, "float operators run on "); ok {
			running, _, _ = strings.Cut(on, " (")
		} else if name, _, ok := strings.Cut(line, ": "); ok {
			have = append(have, name)
		}
	}
	return running, have
}

// differences compares the logits of one child with the ones that another computed first, by the same type of cache.
func (x *task) differences(want, have []logits) (faults []string) {
	n := 0
	for _, p := range x.Parts {
		n += len(p.Ways)
	}
	if len(have) != n {
		faults = append(faults, fmt.Sprintf("%d sequences, want %d", len(have), n))
	}
	for _, h := range have {
		i := slices.IndexFunc(want, func(w logits) bool { return w.Part == h.Part && w.Way.Cache == h.Way.Cache })
		if i < 0 {
			return append(faults, fmt.Sprintf("%s: nothing to compare it with", h))
		}
		w := want[i]
		if n := len(x.Parts[h.Part].Prompt) + x.Decode; distinct(h.Rows) != n {
			faults = append(faults, fmt.Sprintf("%s: %d different rows, want %d", h, distinct(h.Rows), n))
		}
		if !slices.Equal(w.Rows, h.Rows) || !slices.Equal(w.Tokens, h.Tokens) {
			faults = append(faults, fmt.Sprintf("%s: the logits after token %d differ from %s", h, firstDifference(w.Rows, h.Rows), w))
		}
	}
	return faults
}

// distinct is how many different rows there are: no two positions have the same logits.
func distinct(rows []uint64) int {
	rows = slices.Clone(rows)
	slices.Sort(rows)
	return len(slices.Compact(rows))
}

// firstDifference is the number of the first row that two lists do not share.
func firstDifference(a, b []uint64) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func (l logits) String() string {
	among := "alone"
	if l.Way.Among {
		among = "among others"
	}
	return fmt.Sprintf("prompt %d, cache type %d, %d threads, pieces of %d, %s", l.Part, l.Way.Cache, l.Way.Threads, l.Way.Piece, among)
}

// Each fault of a child is found.
func TestFaults(t *testing.T) {
	ways := []way{{Threads: 1}, {Threads: 2}}
	x := task{Decode: 1, Parts: []part{{[]int32{1, 2}, ways}}}
	sound := func() []logits {
		return []logits{{Way: ways[0], Rows: []uint64{1, 2, 3}, Tokens: []int32{7}}, {Way: ways[1], Rows: []uint64{1, 2, 3}, Tokens: []int32{7}}}
	}
	for _, c := range []struct {
		want   string
		change func(l []logits) []logits
	}{
		{"", func(l []logits) []logits { return l }},
		{"1 sequences, want 2", func(l []logits) []logits { return l[:1] }},
		{"after token 2 differ", func(l []logits) []logits { l[1].Rows[2] = 4; return l }},
		{"2 different rows, want 3", func(l []logits) []logits { l[0].Rows[2] = 1; return l }},
		{"2 different rows, want 3", func(l []logits) []logits { l[0].Rows = l[0].Rows[:2]; return l }},
		{"differ", func(l []logits) []logits { l[1].Tokens[0] = 8; return l }},
		{"nothing to compare it with", func(l []logits) []logits { l[1].Way.Cache = model.CacheF32; return l }},
	} {
		if faults := strings.Join(x.differences(sound(), c.change(sound())), "\n"); !strings.Contains(faults, c.want) || c.want == "" && faults != "" {
			t.Errorf("%q, want %q", faults, c.want)
		}
	}
	m := &machine{name: "a/3", allowed: []string{"a/3", "a/1"}}
	info := "float operators run on %s (the first that this CPU runs)\na/2: skipped\na/1: runs\n"
	for _, c := range []struct {
		want, product, operators string
	}{
		{"", "a/3", fmt.Sprintf(info, "a/1")},
		{"", "a/3", "float operators run on purego (this binary has no other)\n"},
		{"operators ran on , want purego", "a/3", "other words\n"},
		{"p ran on a/1", "a/1", fmt.Sprintf(info, "a/1")},
		{"operators ran on a/2, want a/1", "a/3", fmt.Sprintf(info, "a/2")},
		{"operators ran on purego, want a/1", "a/3", fmt.Sprintf(info, "purego")},
		{"products [], want 1", "", fmt.Sprintf(info, "a/1")},
	} {
		r := &reply{Operators: c.operators}
		if c.product != "" {
			r.Products = []ran{{"p", c.product}}
		}
		if faults := strings.Join(m.ranOthers(r, make([]ir.Problem, 1)), "\n"); !strings.Contains(faults, c.want) || c.want == "" && faults != "" {
			t.Errorf("%q, want %q", faults, c.want)
		}
	}
}
