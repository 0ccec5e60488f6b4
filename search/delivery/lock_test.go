package delivery

import (
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir"
	"slices"
	"testing"

	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/tune"
)

// An entry of the lock for a core of one's own asks for its file, if the package has the product and the instruction set.
// It is no misfit: another package may use it.
func TestOwnCoreInLock(t *testing.T) {
	p, err := ir.Named("w2")
	if err != nil {
		t.Fatal(err)
	}
	entry := func(product, target string) tune.Entry {
		return tune.Entry{Product: product, Target: target, Problem: tune.ProblemHash(p)}
	}
	x := &Package{products: []*product{{Product: &order.Product{Problem: p}}}, lock: &tune.Lock{Entries: []tune.Entry{
		entry("w2", "amd64/avx2+my-core"), entry("w2", "amd64/avx3"), entry("w2", "amd64/avx512+my-core"), entry("w4", "amd64/avx2+my-core"),
	}}}
	finder := targeting.Finder{ReadCore: func(string) (core.Core, error) {
		own := targets.ByName("avx2").Machine().Core
		own.Name = "my-core"
		return own, nil
	}}
	listed := func(word string, cores ...string) []string {
		ts, err := finder.List([]string{word}, cores)
		if err != nil {
			t.Fatal(err)
		}
		x.Targets = ts
		return x.otherCores()
	}
	if got, want := x.Misfits(), []string{"tmacc.lock: w2 on amd64/avx3 is not used: this tmacc has no such target, see tmacc targets"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	const note = "tmacc.lock: w2 on amd64/avx2+my-core is not used: no built-in core is called my-core: if it is one of yours, add -core FILE.json"
	if got := listed("avx2"); !slices.Equal(got, []string{note}) {
		t.Errorf("%q, want %q", got, note)
	}
	if got := append(listed("neon"), listed("avx2", "core.json")...); got != nil {
		t.Errorf("a package for neon and one for the core are told of %q", got)
	}
}

// The command that tunes an entry again names groups of activations that are not the usual ones. Activations of f32 have no groups.
func TestTuneCommand(t *testing.T) {
	for _, c := range []struct {
		name  string
		group int
		want  string
	}{
		{"q4_0", 32, "tmacc tune -format q4_0 -target amd64/avx2"},
		{"q4_0", 0, "tmacc tune -format q4_0 -act-group 0 -target amd64/avx2"},
		{"q4_0-f32act", 0, "tmacc tune -format q4_0-f32act -target amd64/avx2"},
	} {
		p, err := ir.Named(c.name)
		if err != nil {
			t.Fatal(err)
		}
		p.Act.Group = c.group
		if have := TuneCommand(&tune.Entry{Product: c.name, ActGroup: c.group, Target: "amd64/avx2"}, p); have != c.want {
			t.Errorf("%s, want %s", have, c.want)
		}
		x := &Package{Options: Options{Dir: "my kernels"}}
		if have, want := x.tuneCommand(&tune.Entry{Product: c.name, ActGroup: c.group, Target: "amd64/avx2"}, p), c.want+" -o 'my kernels'"; have != want {
			t.Errorf("%s, want %s", have, want)
		}
	}
}
