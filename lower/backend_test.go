package lower_test

import (
	"strings"
	"testing"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cpu"
)

var backends = []*lower.Backend{amd64.Backend, arm64.Backend}

// The built-in cores are as a user's own must be: their fields are sensible, their instruction sets exist, and they
// have a cost for each class. The ordinary core has all instruction sets and names no CPU; every other one names some.
func TestCores(t *testing.T) {
	for _, b := range backends {
		if len(b.Ordinary.CPUs) > 0 || len(b.Ordinary.ISAs) != len(b.ISAs) {
			t.Errorf("%s: the ordinary core is for %v with %v", b.Arch, b.Ordinary.CPUs, b.Ordinary.ISAs)
		}
		for _, c := range append([]core.Core{b.Ordinary}, b.Cores...) {
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			if _, err := b.Tuned(c); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			for class, cost := range c.Costs {
				narrow, _ := cost.At(256)
				if wide, _ := cost.At(512); wide < narrow {
					t.Errorf("%s: %s takes %d, and %d of 512 bits", c.Name, class, narrow, wide)
				}
			}
		}
		for _, c := range b.Cores {
			if len(c.CPUs) == 0 {
				t.Errorf("%s: no CPU has it", c.Name)
			}
		}
	}
}

// No CPU has two cores of one instruction set.
func TestCoresApart(t *testing.T) {
	found := 0
	for _, b := range backends {
		for i, c := range b.Cores {
			for _, other := range b.Cores[:i] {
				for _, s := range c.CPUs {
					for _, id := range corners(s) {
						found++
						if cpu.Among(other.CPUs, id) && sharesISA(c, other) {
							t.Errorf("%v has the cores %s and %s", id, c.Name, other.Name)
						}
					}
				}
			}
		}
	}
	if found == 0 {
		t.Error("no CPU has a core")
	}
}

// corners are CPUs at the limits of a set.
func corners(s cpu.Set) (ids []cpu.ID) {
	for _, family := range []int{s.FirstFamily, s.LastFamily, s.FirstFamily + 100} {
		for _, model := range []int{s.FirstModel, s.LastModel, s.FirstModel + 1000} {
			if id := (cpu.ID{Vendor: s.Vendor, Family: family, Model: model}); s.Has(id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func sharesISA(a, b core.Core) bool {
	for _, s := range a.ISAs {
		if strings.Contains(strings.Join(b.ISAs, " ")+" ", s+" ") {
			return true
		}
	}
	return false
}

// A core that does not fit the architecture is refused by the name of the field.
func TestTunedRefused(t *testing.T) {
	b := amd64.Backend
	for want, change := range map[string]func(c *core.Core){
		`isas[1] is "arm64/neon": want one of amd64/avx2, amd64/avxvnni, `: func(c *core.Core) { c.ISAs = []string{"amd64/avx2", "arm64/neon"} },
		`isas[1] is "amd64/avx2", which is there twice`:                    func(c *core.Core) { c.ISAs = []string{"amd64/avx2", "amd64/avx2"} },
		`costs.shuffle is missing: amd64 needs a cost for each of alu, `:   func(c *core.Core) { delete(c.Costs, "shuffle") },
		`costs.dot is no class of instructions of amd64: want alu, `:       func(c *core.Core) { c.Costs["dot"] = core.Cost{Tenths: 5} },
	} {
		c := b.Ordinary
		c.Costs = core.Costs{}
		for class, cost := range b.Ordinary.Costs {
			c.Costs[class] = cost
		}
		change(&c)
		if _, err := b.Tuned(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// Programs try a user's own core before the built-in ones, and the ordinary core last.
func TestPreferOwn(t *testing.T) {
	own := amd64.Backend.Ordinary
	own.Name, own.ISAs, own.Own = "zzz", []string{"amd64/avx2"}, true
	ts, err := amd64.Backend.Tuned(own)
	if err != nil || len(ts) != 1 || ts[0].Machine().Name != "amd64/avx2+zzz" {
		t.Fatal(ts, err)
	}
	best := lower.Preferred(append(ts, amd64.ByName("avx2"), amd64.ByName("zen2")))
	for i, want := range []string{"amd64/avx2+zzz", "amd64/avx2+zen2", "amd64/avx2"} {
		if got := best[i].Machine().Name; got != want {
			t.Errorf("number %d is %s, want %s", i, got, want)
		}
	}
	own.Name = "two-words"
	ts, _ = amd64.Backend.Tuned(own)
	if got := ts[0].Machine().Identifier(); got != "avx2_two_words" {
		t.Error(got)
	}
}
