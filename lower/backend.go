package lower

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/lower/core"
)

// Backend is what the targets of one architecture are made of.
type Backend struct {
	Arch     string       // as GOARCH has it
	ISAs     []ISA        // from the fewest CPU features to the most
	Classes  []core.Class // every core has a cost for each
	Ordinary core.Core    // stands for all CPUs that no other core names
	Cores    []core.Core  // the other ones
	// New is the target of a machine, whose core has a cost for each class.
	New func(Machine) Target
}

// Targets lists each instruction set on the ordinary core, which has the name of the instruction set, and on the
// built-in cores that have it: the ones that programs try first last.
func (b *Backend) Targets() []Target {
	var ts []Target
	for _, s := range b.ISAs {
		ts = append(ts, b.New(Machine{Name: s.Name, ISA: s, Core: b.Ordinary}))
	}
	for _, c := range b.Cores {
		ts = append(ts, b.tuned(c)...)
	}
	ts = Preferred(ts)
	slices.Reverse(ts)
	return ts
}

// Tuned lists the instruction sets of a core that is not built in, tuned for it. The error names the field of c that
// does not fit the architecture.
func (b *Backend) Tuned(c core.Core) ([]Target, error) {
	for i, name := range c.ISAs {
		switch {
		case !slices.ContainsFunc(b.ISAs, func(s ISA) bool { return s.Name == name }):
			return nil, fmt.Errorf("isas[%d] is %.60q: want one of %s", i, name, strings.Join(b.isaNames(), ", "))
		case slices.Contains(c.ISAs[:i], name):
			return nil, fmt.Errorf("isas[%d] is %q, which is there twice", i, name)
		}
	}
	for _, class := range b.Classes {
		if _, ok := c.Costs[class]; !ok {
			return nil, fmt.Errorf("costs.%s is missing: %s needs a cost for each of %s", class, b.Arch, list(b.Classes))
		}
	}
	for class := range c.Costs {
		if !slices.Contains(b.Classes, class) {
			return nil, fmt.Errorf("costs.%.40s is no class of instructions of %s: want %s", string(class), b.Arch, list(b.Classes))
		}
	}
	return b.tuned(c), nil
}

// tuned lists the instruction sets of c, tuned for it.
func (b *Backend) tuned(c core.Core) (ts []Target) {
	for _, s := range b.ISAs {
		if slices.Contains(c.ISAs, s.Name) {
			ts = append(ts, b.New(Machine{Name: s.Name + "+" + c.Name, ISA: s, Core: c}))
		}
	}
	return ts
}

func (b *Backend) isaNames() (names []string) {
	for _, s := range b.ISAs {
		names = append(names, s.Name)
	}
	return names
}

// list names classes.
func list(classes []core.Class) string {
	var names []string
	for _, c := range classes {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}
