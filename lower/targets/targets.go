// Package targets lists the targets of all architectures.
package targets

import (
	"slices"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
)

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

// Canonical is the name of the target that a name stands for: "amd64/avx512vbmi+zen4" of "zen4". Names that
// stand for none stay as they are.
func Canonical(name string) string {
	if t := ByName(name); t != nil {
		return t.Machine().Name
	}
	return name
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
