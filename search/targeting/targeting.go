// Package targeting finds targets by words: instruction sets and cores as people name them, for this machine or for
// another one.
package targeting

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// The words that name no target of their own.
const (
	Host = "host" // the best target that the machine runs
	All  = "all"  // all targets, or all cores
)

// Lacks names the features that a machine lacks to run t, "" if it runs t. Kernels for another core run too, but may be slower.
func Lacks(t lower.Target, h timing.Host) string {
	if t.Machine().Arch() != h.Arch {
		return "an " + t.Machine().Arch() + " CPU"
	}
	return strings.Join(h.Lacks(targets.Features(t)), " and ")
}

// LacksCore names whatever a machine lacks for t to be measured there: features, or the core that t is for. "" is nothing.
func LacksCore(t lower.Target, h timing.Host) string {
	missing := Lacks(t, h)
	if m := t.Machine(); missing == "" && !m.For(h.ID()) {
		return "that core: it is for CPUs of " + CPUs(m.CPUs)
	}
	return missing
}

// CPUs names sets of CPUs.
func CPUs(sets []cpu.Set) string {
	var names []string
	for _, s := range sets {
		names = append(names, s.String())
	}
	return strings.Join(names, " or ")
}

// Here lists the targets that this machine runs, the best last.
func Here() []lower.Target { return measure.TargetsOn(timing.ThisHost()) }

// Best is the best target of a class that this machine runs.
func Best(class string) (lower.Target, error) {
	if t := measure.BestOn(timing.ThisHost(), class); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("this machine runs no target like %s", class)
}

// Names lists the full names of targets, separated by commas.
func Names(ts []lower.Target) string {
	var names []string
	for _, t := range ts {
		names = append(names, t.Machine().Name)
	}
	return strings.Join(names, ", ")
}

// CoreNames lists the built-in cores.
func CoreNames() []string {
	var names []string
	for _, c := range targets.Cores() {
		names = append(names, c.Name)
	}
	return names
}

// ISAName is the instruction set of m as -target names it: "avx512vbmi".
func ISAName(m lower.Machine) string { return strings.TrimPrefix(m.ISA.Name, m.Arch()+"/") }

// IsFile says that a word for a core is the path of a file, not a name.
func IsFile(word string) bool { return core.IsFile(word) }

// Finder finds targets. ReadCore reads the file of a core that a word is the path of; nil: words must be names.
type Finder struct {
	ReadCore func(path string) (core.Core, error)
}

// List returns the targets of words, and those instruction sets tuned for cores: each once, in the order in which
// programs try them. All stands for the instruction sets, each for its ordinary core.
func (f Finder) List(words, cores []string) ([]lower.Target, error) {
	ts, err := named(words, targets.Ordinary(), func(word string) (lower.Target, error) { return one(word, All) })
	if err != nil {
		return nil, err
	}
	for _, word := range cores {
		more, err := f.forCore(ts, word, All)
		if err != nil {
			return nil, err
		}
		ts = append(ts, more...)
	}
	return eachOnce(ts), sameNames(ts)
}

// On is List for machine h: All stands for the targets that it runs, and a target that it does not run is an error.
func (f Finder) On(h timing.Host, words, cores []string) ([]lower.Target, error) {
	ts, err := named(words, measure.TargetsOn(h), func(word string) (lower.Target, error) { return oneOn(h, word, All) })
	if err != nil {
		return nil, err
	}
	for _, word := range cores {
		more, err := f.forCore(ts, word, All)
		if err != nil {
			return nil, err
		}
		for _, t := range more {
			if missing := LacksCore(t, h); missing != "" && word != All {
				return nil, fmt.Errorf("-core %s: the machine lacks %s", word, missing)
			} else if missing == "" {
				ts = append(ts, t)
			}
		}
	}
	return eachOnce(ts), sameNames(ts)
}

// One is the target of a word, with or without its architecture: a name, or Host. With core it is tuned for that core.
func (f Finder) One(word, core string) (lower.Target, error) {
	t, err := one(word)
	if err != nil || core == "" {
		return t, err
	}
	if core == All {
		return nil, fmt.Errorf("-core %s: want one core", core)
	}
	ts, err := f.forCore([]lower.Target{t}, core)
	if err != nil {
		return nil, err
	}
	return ts[0], nil
}

// one is the target of a word, where the words others are taken besides.
func one(word string, others ...string) (lower.Target, error) {
	if word == Host {
		if t := measure.BestOn(timing.ThisHost(), ""); t != nil {
			return t, nil
		}
		return nil, fmt.Errorf("target host: this %s CPU runs none of %s: name one of them", runtime.GOARCH, Names(targets.All()))
	}
	if t := targets.ByName(word); t != nil {
		return t, nil
	}
	if word == All || strings.Contains(word, ",") {
		return nil, fmt.Errorf("-target %s: want one target", word)
	}
	if isa, core, ok := OtherCore(word); ok {
		return nil, fmt.Errorf("unknown target %q: no built-in core is called %s: have %s; for a core of your own: -target %s -core FILE.json%s",
			word, core, strings.Join(CoreNames(), ", "), isa, format.Meant(core, CoreNames()))
	}
	if names := likeShaders(word); len(names) > 0 {
		return nil, fmt.Errorf("unknown target %q: of devices there are %s%s", word, strings.Join(names, ", "), format.Meant(word, names))
	}
	return nil, fmt.Errorf("unknown target %q: have %s, %s%s", word, Host, Names(targets.All()), meant(word, others))
}

// meant asks whether an unknown target was to be one that there is, or one of other words.
func meant(word string, others []string) string {
	names := append([]string{Host}, others...)
	for _, t := range targets.All() {
		names = append(names, t.Machine().Name, t.Machine().ShortName())
	}
	for _, t := range spirv.Targets() {
		names = append(names, t.Machine().Name, t.Machine().Arch())
	}
	return format.Meant(word, names)
}

// likeShaders are the targets of shaders if word is called as they are up to the slash.
func likeShaders(word string) (names []string) {
	kind, _, _ := strings.Cut(word, "/")
	for _, t := range spirv.Targets() {
		if t.Machine().Arch() == kind {
			names = append(names, t.Machine().Name)
		}
	}
	return names
}

// OtherCore splits the name of a target into its instruction set and its core. ok says that there is that instruction
// set, and that no built-in core has that name. It may be a core of the user's own.
func OtherCore(name string) (isa, core string, ok bool) {
	isa, core, ok = strings.Cut(name, "+")
	return isa, core, ok && core != "" && targets.ByName(isa) != nil && !slices.Contains(CoreNames(), core)
}

// OneOn is One for machine h: a target that it does not run is an error.
func (f Finder) OneOn(h timing.Host, word, core string) (lower.Target, error) {
	t, err := oneOn(h, word)
	if err != nil || core == "" {
		return t, err
	}
	if t, err = f.One(t.Machine().Name, core); err != nil {
		return nil, err
	}
	if missing := LacksCore(t, h); missing != "" {
		return nil, fmt.Errorf("-core %s: the machine lacks %s", core, missing)
	}
	return t, nil
}

// oneOn is one for machine h.
func oneOn(h timing.Host, word string, others ...string) (lower.Target, error) {
	best := measure.BestOn(h, "")
	if best == nil {
		return nil, fmt.Errorf("target %s: %s runs none of %s", word, h.CPU, Names(targets.All()))
	}
	if word == Host {
		return best, nil
	}
	t, err := one(word, others...)
	if err != nil {
		return nil, err
	}
	if missing := LacksCore(t, h); missing != "" {
		return nil, fmt.Errorf("target %s: the machine lacks %s: it runs %s", t.Machine().Name, missing, Names(measure.TargetsOn(h)))
	}
	return t, nil
}

// Cores returns the targets for the cores of a word: the name of a core, All, or the path of a file with a core.
func (f Finder) Cores(word string) ([]lower.Target, error) { return f.cores(word, All) }

// cores is Cores. The error for an unknown core names the words others besides.
func (f Finder) cores(word string, others ...string) ([]lower.Target, error) {
	if IsFile(word) && f.ReadCore != nil {
		c, err := f.ReadCore(word)
		if err != nil {
			return nil, err
		}
		ts, err := targets.Tuned(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
		return ts, nil
	}
	ts := targets.All()
	if word != All {
		ts = slices.DeleteFunc(ts, func(t lower.Target) bool { return t.Machine().Core.Name != word })
	}
	if len(ts) == 0 {
		names := append(others, CoreNames()...)
		return nil, fmt.Errorf("-core %s: there is no such core: have %s, or a JSON file with one of your own%s", word, strings.Join(names, ", "), format.Meant(word, names))
	}
	return ts, nil
}

// forCore returns the targets that a word for cores adds to ts: the cores' targets whose instruction set one of ts has.
// The error for an unknown core names the words others besides.
func (f Finder) forCore(ts []lower.Target, word string, others ...string) (out []lower.Target, err error) {
	all, err := f.cores(word, others...)
	if err != nil {
		return nil, err
	}
	var isas []string
	for _, t := range all {
		isas = append(isas, t.Machine().ISA.Name)
		if slices.ContainsFunc(ts, func(x lower.Target) bool { return x.Machine().ISA.Name == t.Machine().ISA.Name }) {
			out = append(out, t)
		}
	}
	if out == nil {
		return nil, fmt.Errorf("-core %s: is a core for %s, which -target does not name", word, strings.Join(isas, ", "))
	}
	return out, nil
}

// sameNames is an error if two different cores have one name.
func sameNames(ts []lower.Target) error {
	for i, t := range ts {
		for _, o := range ts[:i] {
			if a, b := t.Machine(), o.Machine(); a.Name == b.Name && !reflect.DeepEqual(a.Core, b.Core) {
				return fmt.Errorf("-core: another core is called %s: change the name of one", a.Core.Name)
			}
		}
	}
	return nil
}

// named returns the targets of words, each once, in the order in which programs try them, whatever the order of the
// words. All stands for all; find is the target of any other word.
func named(words []string, all []lower.Target, find func(word string) (lower.Target, error)) ([]lower.Target, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("-target: names no target: have %s, %s, %s", Host, All, Names(targets.All()))
	}
	var ts []lower.Target
	for _, word := range words {
		word = strings.TrimSpace(word)
		if word == All && len(all) > 0 {
			ts = append(ts, all...)
			continue
		}
		t, err := find(word)
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return eachOnce(ts), nil
}

// eachOnce returns each of ts once, in the order in which programs try them.
func eachOnce(ts []lower.Target) []lower.Target {
	same := func(a, b lower.Target) bool { return a.Machine().Name == b.Machine().Name }
	return slices.CompactFunc(lower.Preferred(ts), same)
}
