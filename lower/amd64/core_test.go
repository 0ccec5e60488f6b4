package amd64

import (
	"testing"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// Each core is for an instruction set that there is, has CPUs of its own, and a cost for each class at every width.
func TestCores(t *testing.T) {
	for _, c := range append([]core{ordinary}, cores...) {
		for k := free + 1; k < numClasses; k++ {
			narrow, _ := c.cost(k, 256)
			wide, _ := c.cost(k, 512)
			if narrow < 1 || wide < narrow {
				t.Errorf("%s: class %d takes %d, and %d of 512 bits", c.Name, k, narrow, wide)
			}
		}
	}
	if len(ordinary.CPUs) > 0 {
		t.Errorf("%s is for every CPU, but names some", ordinary.Name)
	}
	for _, c := range cores {
		if ByName(c.isa) == nil || !ByName(c.isa).Machine().Ordinary() {
			t.Errorf("%s: no instruction set is called %q", c.Name, c.isa)
		}
		if len(c.CPUs) == 0 {
			t.Errorf("%s: no CPU has it", c.Name)
		}
	}
}

// Of one instruction set, no CPU has two cores.
func TestCoresApart(t *testing.T) {
	found := 0
	for _, vendor := range []string{amd, hygon, "GenuineIntel", "", "another"} {
		for family := range 64 {
			of := map[string]string{}
			for _, c := range cores {
				if !cpu.Among(c.CPUs, cpu.ID{Vendor: vendor, Family: family}) {
					continue
				}
				if other := of[c.isa]; other != "" {
					t.Errorf("%s family %d has the cores %s and %s", vendor, family, other, c.Name)
				}
				of[c.isa] = c.Name
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no CPU has a core")
	}
}
