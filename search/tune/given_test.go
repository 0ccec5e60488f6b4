package tune

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
)

// A neighbour of the default schedules differs from them, and from each other, in the kernel of one width, and has its packed matrix.
func TestNear(t *testing.T) {
	x := tuner(t, "w2", Purpose{M: 64, N: 1, K: 256}, Purpose{M: 64, N: 4, K: 256})
	near, err := x.Near()
	if err != nil {
		t.Fatal(err)
	}
	seen, hashes := map[string]bool{}, map[string]bool{}
	for _, c := range near {
		name := x.Differs(c)
		if hashes[c.Hash] || seen[name] || name == "" || strings.Contains(name, "; ") {
			t.Errorf("%q: known: %v, %v", name, hashes[c.Hash], seen[name])
		}
		hashes[c.Hash], seen[name] = true, true
		if x.IsDefault(c) || !c.Kernels[0].Schedule.SharesBuffers(x.reference.Kernels[0].Schedule) {
			t.Errorf("%s: default, or of another packed matrix", name)
		}
	}
	for _, want := range []string{"1 columns: prefetch ", "4 columns: "} {
		begins := func(name string) bool { return strings.HasPrefix(name, want) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), begins) {
			t.Errorf("nothing near is %q: %d are", want, len(near))
		}
	}
}

// What computes something else than the definition is told from what does not.
func TestVerify(t *testing.T) {
	x := tuner(t, "w4", Purpose{M: 64, N: 1, K: 256})
	c, err := x.Given(x.Default[0].Trace)
	if err != nil {
		t.Fatal(err)
	}
	right := x.Target
	x.Target = faulty{right, []fault{{"RET", ""}}}
	if err := x.Verify(c); Reason(err) != "wrong" || !strings.Contains(err.Error(), x.Default[0].Trace.String()) {
		t.Errorf("%v, want wrong, with its trace", err)
	}
	x.Target = right
	if err := x.Verify(c); err != nil {
		t.Error(err)
	}
}

// Differs names the steps of a schedule that the default does not have, or lacks, or has elsewhere.
func TestDiffers(t *testing.T) {
	a, b, c := schedule.Prefetch{Bytes: 64}, schedule.ReadScaled{Below: 8}, schedule.Prefetch{Bytes: 128}
	for _, c := range []struct {
		from, to schedule.Trace
		want     string
	}{
		{schedule.Trace{a, b}, schedule.Trace{b, c}, "prefetch 128"},
		{schedule.Trace{a, b}, schedule.Trace{a}, "without read_scaled 8"},
		{schedule.Trace{a, b}, schedule.Trace{b, a}, "steps in another order"},
	} {
		if got := differs(c.from, c.to); got != c.want {
			t.Errorf("%v, %v: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

// Schedules of several packed matrices are no candidate: what the kernels of one read is not what the others do.
func TestGivenOfSeveral(t *testing.T) {
	x := tuner(t, "w2", Purpose{M: 64, N: 1, K: 256}, Purpose{M: 64, N: 4, K: 256})
	all, err := x.Layouts(t.Context(), x.Problem, x.Target)
	if err != nil {
		t.Fatal(err)
	}
	one := all[0][0].Trace
	i := slices.IndexFunc(all, func(uses []search.Use) bool {
		c, err := x.Given(uses[0].Trace)
		return err == nil && !c.Kernels[0].Schedule.SharesBuffers(x.reference.Kernels[0].Schedule)
	})
	if i < 0 {
		t.Fatalf("%d layouts share one packed matrix", len(all))
	}
	if _, err := x.Given(one, all[i][0].Trace); err == nil || !strings.Contains(err.Error(), "are not for one packed matrix") {
		t.Error(err)
	}
	if _, err := x.Given(one, one); err != nil {
		t.Error(err)
	}
}

// Schedules that read alike in a line are told apart.
func TestSameText(t *testing.T) {
	packed := func(order, fields []string) variant.Kernel {
		return variant.Kernel{Schedule: &schedule.Kernel{Cols: 1, Trace: schedule.Trace{schedule.Pack{Tensor: "codes", Order: order, Fields: fields, Map: "dense"}}}}
	}
	a, b := packed([]string{"mt", "kt", "l", "u"}, []string{"f"}), packed([]string{"mt", "kt", "l"}, []string{"u", "f"})
	if a.Schedule.Trace.String() != b.Schedule.Trace.String() {
		t.Fatalf("%v and %v", a.Schedule.Trace, b.Schedule.Trace)
	}
	x := &Tuner{Product: Product{Purposes: []Purpose{{M: 64, N: 1, K: 256}}}, Default: []search.Use{{Cols: 1, Trace: a.Schedule.Trace}}}
	if !x.IsDefault(&Candidate{Kernels: []variant.Kernel{a}}) || x.IsDefault(&Candidate{Kernels: []variant.Kernel{b}}) {
		t.Error("the default is another schedule")
	}
	of := func(k variant.Kernel) string {
		return x.uses(member{Variant: variant.Variant{Kernels: []variant.Kernel{k}}}, 0)
	}
	if of(a) == of(b) {
		t.Error("measurements of one count for the other")
	}
}

// A schedule for more columns than there are activations does not fit.
func TestFits(t *testing.T) {
	x := tuner(t, "w2", Purpose{M: 64, N: 2, K: 256})
	for _, u := range x.Default {
		c, err := x.Given(u.Trace)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Fits(c); (err == nil) != (u.Cols <= 2) {
			t.Errorf("%d columns for 2 activations: %v", u.Cols, err)
		}
	}
}

// A search begins with schedules that it could have proposed for these numbers of activations, and for one packed matrix. The first one that is
// none is named by how many are before it.
func TestBegin(t *testing.T) {
	x := tuner(t, "w2", Purpose{M: 64, N: 1, K: 256}, Purpose{M: 64, N: 4, K: 256})
	layouts, err := x.Layouts(t.Context(), x.Problem, x.Target)
	if err != nil {
		t.Fatal(err)
	}
	of := func(uses []search.Use, cols int) schedule.Trace {
		i := slices.IndexFunc(uses, func(u search.Use) bool { return u.Cols == cols })
		if i < 0 {
			t.Fatalf("no schedule of %d columns", cols)
		}
		return uses[i].Trace
	}
	one, four, wrong := of(x.Default, 1), of(x.Default, 4), schedule.Trace{schedule.Prefetch{Bytes: 64}}
	first, err := schedule.Compile(x.Problem, one)
	if err != nil {
		t.Fatal(err)
	}
	var elsewhere schedule.Trace // of another packed matrix
	for _, uses := range layouts {
		if k, err := schedule.Compile(x.Problem, uses[0].Trace); err == nil && !k.SharesBuffers(first) {
			elsewhere = uses[0].Trace
		}
	}
	for want, traces := range map[string][]schedule.Trace{
		"": {one, four},
		"0: more columns than activations: kernels of 4 columns for 1 activations": {four, one},
		"1: the schedules for n = 1 and ":                                          {one, elsewhere},
		"2: one more than the 2 numbers of activations":                            {one, four, four},
		"1: ": {one, wrong},
	} {
		uses, err := x.Begin(traces...)
		if want == "" {
			if err != nil || len(uses) != 2 || uses[0].Cols != 1 || uses[1].Cols != 4 {
				t.Errorf("%v, %v", uses, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(fmt.Sprintf("%d: %v", len(uses), err), want) {
			t.Errorf("%d: %v, want %s", len(uses), err, want)
		}
	}
}
