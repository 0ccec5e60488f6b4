// Package targets lists the targets of all architectures.
package targets

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/lower/core"
)

// Target is a code generator for one machine, for packages that only pass targets on.
type Target = lower.Target

// Selector is a Target, or what selects the code of shaders.
type Selector = lower.Selector

// architectures are those that there are targets of, as GOARCH has them.
var architectures = []struct {
	*lower.Backend
	targets  func() []lower.Target
	features func(lower.Features) []string
}{
	{amd64.Backend, amd64.Targets, amd64.FeatureNames},
	{arm64.Backend, arm64.Targets, arm64.FeatureNames},
}

// All lists the targets there are, the ones that programs try first (lower.Preferred) last.
func All() (out []lower.Target) {
	for _, a := range architectures {
		out = append(out, a.targets()...)
	}
	return out
}

// Ordinary lists the targets of the instruction sets for their ordinary cores, in the order of All.
func Ordinary() []lower.Target {
	return slices.DeleteFunc(All(), func(t lower.Target) bool { return !t.Machine().Ordinary() })
}

// ByName returns the target of a name, with or without its architecture, or nil.
func ByName(name string) lower.Target { return lower.Find(All(), name) }

// Canonical is the name of the target that a name stands for: "amd64/avx2+my-core" of "my-core". Names that
// stand for none stay as they are.
func Canonical(name string) string {
	if t := ByName(name); t != nil {
		return t.Machine().Name
	}
	return name
}

// Cores lists the built-in cores of all architectures, the ordinary one of each first.
func Cores() (out []core.Core) {
	for _, a := range architectures {
		out = append(append(out, a.Ordinary), a.Cores...)
	}
	return out
}

// Tuned lists the targets of a core that is not built in: each of its instruction sets, tuned for it. Those may be
// named without their architecture. The error names the field of c that is wrong, and what it wants.
func Tuned(c core.Core) ([]lower.Target, error) {
	if taken := taken(c.Name); taken != "" {
		return nil, fmt.Errorf("name is %q, which is %s: choose another", c.Name, taken)
	}
	isas := slices.Clone(c.ISAs)
	for i, name := range isas {
		t := ByName(name)
		if t == nil || !t.Machine().Ordinary() {
			return nil, fmt.Errorf("isas[%d] is %.60q: want an instruction set, see tmacc targets", i, name)
		}
		isas[i] = t.Machine().Name
	}
	c.ISAs = isas
	arch, _, _ := strings.Cut(c.ISAs[0], "/")
	for _, a := range architectures {
		if a.Arch == arch {
			return a.Tuned(c)
		}
	}
	panic("BUG: targets: no architecture " + arch)
}

// words are what stands for targets in flags and in the environment, besides their names.
var words = []string{"host", "all", "purego"}

// taken says what has a name that a core might have, "" if nothing.
func taken(name string) string {
	switch {
	case slices.ContainsFunc(Cores(), func(c core.Core) bool { return c.Name == name }):
		return "a built-in core"
	case slices.ContainsFunc(Ordinary(), func(t lower.Target) bool { return t.Machine().ShortName() == name }):
		return "an instruction set"
	case slices.Contains(words, name):
		return "a word of -target"
	}
	return ""
}

// Features names the CPU features that t needs, as klauspost/cpuid/v2 does, "": none.
func Features(t lower.Target) []string {
	for _, a := range architectures {
		if a.Arch == t.Machine().Arch() {
			return a.features(t.Machine().Has)
		}
	}
	return nil
}
