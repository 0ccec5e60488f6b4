package main

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// lacks says what this machine lacks to run t, "" if nothing. The kernels for another core run, if not as well.
func lacks(t lower.Target) string { return lacksFeatures(t, timing.ThisHost()) }

// lacksFeatures says what a machine lacks to run t, "" if nothing.
func lacksFeatures(t lower.Target, h timing.Host) string {
	if t.Machine().Arch() != h.Arch {
		return "an " + t.Machine().Arch() + " CPU"
	}
	return strings.Join(h.Lacks(targets.Features(t)), " and ")
}

// lacksOn says what a machine lacks for t to be measured there, "" if nothing: features, or the core that t is for.
func lacksOn(t lower.Target, h timing.Host) string {
	missing := lacksFeatures(t, h)
	if m := t.Machine(); missing == "" && !m.For(h.ID()) {
		return "that core: it is for CPUs of " + setNames(m.CPUs)
	}
	return missing
}

// setNames names CPUs.
func setNames(sets []cpu.Set) string {
	var names []string
	for _, s := range sets {
		names = append(names, s.String())
	}
	return strings.Join(names, " or ")
}

// hostTargets lists the targets that this machine runs, the best last.
func hostTargets() []lower.Target { return measure.TargetsOn(timing.ThisHost()) }

// bestOf is the best target of a class that this machine runs.
func bestOf(class string) (lower.Target, error) {
	for _, t := range slices.Backward(hostTargets()) {
		if measure.Class(t.Machine().ShortName()) == class {
			return t, nil
		}
	}
	return nil, fmt.Errorf("this machine runs no target like %s", class)
}

// oneTarget is the target of a word: a name, with or without its architecture, or "host".
func oneTarget(name string) (lower.Target, error) {
	if name == hostWord {
		ts := hostTargets()
		if len(ts) == 0 {
			return nil, fmt.Errorf("target host: this %s CPU runs none of %s: name one of them", runtime.GOARCH, targetNames())
		}
		return ts[len(ts)-1], nil
	}
	if t := targets.ByName(name); t != nil {
		return t, nil
	}
	if name == allWord || strings.Contains(name, ",") {
		return nil, fmt.Errorf("-target %s: want one target", name)
	}
	return nil, fmt.Errorf("unknown target %q: have %s, %s", name, hostWord, targetNames())
}

// The words of -target that are no names of targets.
const (
	hostWord = "host" // the best that this machine runs
	allWord  = "all"
)

// The parts of this file that read -core are methods, as it may name a file. A command with -target and -core has
// the flag by coreVar and its targets by one of targetList, targetsOn, oneTarget and targetOn.

// coreVar adds the flag -core to a command. Its targets are then also tuned for the cores.
func coreVar(f *pflag.FlagSet, cores *[]string) {
	f.StringSliceVar(cores, "core", nil, "processor cores, all, or a JSON file with one, that kernels are also tuned for; see tmacc cores; may be repeated")
}

// targetList is what the words of -target name, and of -core: all are the instruction sets for their ordinary cores, to
// which cores are added.
func (c *cli) targetList(words, cores []string) ([]lower.Target, error) {
	ts, err := targetsNamed(words, targets.Ordinary(), oneTarget)
	if err != nil {
		return nil, err
	}
	return c.withCores(ts, cores)
}

// targetsOn is targetList for a machine that is to run the kernels: all are the targets that it runs, and what it does
// not run is an error.
func (c *cli) targetsOn(h timing.Host, words, cores []string) ([]lower.Target, error) {
	ts, err := targetsOn(h, words)
	if err != nil {
		return nil, err
	}
	for _, word := range cores {
		more, err := c.forCore(ts, word)
		if err != nil {
			return nil, err
		}
		for _, t := range more {
			if missing := lacksOn(t, h); missing != "" && word != allWord {
				return nil, fmt.Errorf("-core %s: the machine lacks %s", word, missing)
			} else if missing == "" {
				ts = append(ts, t)
			}
		}
	}
	return eachOnce(ts), sameNames(ts)
}

// oneTarget is the one target of a word of -target, tuned for a core if that names one.
func (c *cli) oneTarget(word, core string) (lower.Target, error) {
	t, err := oneTarget(word)
	if err != nil || core == "" {
		return t, err
	}
	if core == allWord {
		return nil, fmt.Errorf("-core %s: want one core", core)
	}
	ts, err := c.forCore([]lower.Target{t}, core)
	if err != nil {
		return nil, err
	}
	return ts[0], nil
}

// targetOn is oneTarget for a machine that is to run the kernels.
func (c *cli) targetOn(h timing.Host, word, core string) (lower.Target, error) {
	t, err := targetOn(h, word)
	if err != nil || core == "" {
		return t, err
	}
	if t, err = c.oneTarget(t.Machine().Name, core); err != nil {
		return nil, err
	}
	if missing := lacksOn(t, h); missing != "" {
		return nil, fmt.Errorf("-core %s: the machine lacks %s", core, missing)
	}
	return t, nil
}

// withCores is ts and, of each instruction set in it, the targets for cores: each once, in the order that programs try.
func (c *cli) withCores(ts []lower.Target, cores []string) ([]lower.Target, error) {
	for _, word := range cores {
		more, err := c.forCore(ts, word)
		if err != nil {
			return nil, err
		}
		ts = append(ts, more...)
	}
	return eachOnce(ts), sameNames(ts)
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

// forCore is what a word of -core adds to ts: the targets for that core, or for all, that have the instruction set of
// one of ts.
func (c *cli) forCore(ts []lower.Target, word string) (out []lower.Target, err error) {
	all, err := c.coreTargets(word)
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

// coreTargets are the targets for the cores of a word: the name of one, all, or a JSON file with one.
func (c *cli) coreTargets(word string) ([]lower.Target, error) {
	if isFile(word) {
		own, err := c.ownCore(word)
		return own.targets, err
	}
	ts := targets.All()
	if word != allWord {
		ts = slices.DeleteFunc(ts, func(t lower.Target) bool { return t.Machine().Core.Name != word })
	}
	if len(ts) == 0 {
		return nil, fmt.Errorf("-core %s: there is no such core: have %s, %s, or a JSON file with one of your own", word, allWord, strings.Join(coreNames(), ", "))
	}
	return ts, nil
}

// isFile says that a word of -core is a file, not a name.
func isFile(word string) bool {
	return strings.HasSuffix(word, ".json") || strings.ContainsAny(word, `/\`)
}

// maxCore bounds the size of a file with a core, in bytes.
const maxCore = 1 << 20

// ownCore is the core in a JSON file, and its targets.
func (c *cli) ownCore(path string) (own ownCore, err error) {
	data, err := c.readJSON(path, "a core, as tmacc cores -json NAME prints one")
	if err != nil {
		return own, err
	}
	if len(data) > maxCore {
		return own, fmt.Errorf("%s: larger than %d MiB: this is no core", path, maxCore>>20)
	}
	if own.Core, err = core.Parse(data); err != nil {
		return own, lined(path, data, err)
	}
	if own.targets, err = targets.Tuned(own.Core); err != nil {
		return own, fmt.Errorf("%s: %w", path, err)
	}
	return own, nil
}

// ownCore is a core of the user's own.
type ownCore struct {
	core.Core
	targets []lower.Target
}

// isaName is the instruction set of m as -target has it.
func isaName(m lower.Machine) string { return strings.TrimPrefix(m.ISA.Name, m.Arch()+"/") }

// coreNames names the built-in cores.
func coreNames() []string {
	var names []string
	for _, c := range targets.Cores() {
		names = append(names, c.Name)
	}
	return names
}

// targetsHere is what the words of -target name, of the targets that this machine runs: others are errors.
func targetsHere(words []string) ([]lower.Target, error) { return targetsOn(timing.ThisHost(), words) }

// targetsOn is targetsHere for machine h.
func targetsOn(h timing.Host, words []string) ([]lower.Target, error) {
	return targetsNamed(words, measure.TargetsOn(h), func(word string) (lower.Target, error) { return targetOn(h, word) })
}

// targetsNamed are the targets that words name, each once, the ones that programs try first in front, whatever the order
// of the words. "all" stands for all, find is the target of any other word.
func targetsNamed(words []string, all []lower.Target, find func(word string) (lower.Target, error)) ([]lower.Target, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("-target: names no target: have %s, %s, %s", hostWord, allWord, targetNames())
	}
	var ts []lower.Target
	for _, word := range words {
		word = strings.TrimSpace(word)
		if word == allWord && len(all) > 0 {
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

// eachOnce is ts, each once, the ones that programs try first in front.
func eachOnce(ts []lower.Target) []lower.Target {
	same := func(a, b lower.Target) bool { return a.Machine().Name == b.Machine().Name }
	return slices.CompactFunc(lower.Preferred(ts), same)
}

// targetHere is the one target of a word, which this machine runs.
func targetHere(word string) (lower.Target, error) { return targetOn(timing.ThisHost(), word) }

// targetOn is targetHere for machine h.
func targetOn(h timing.Host, word string) (lower.Target, error) {
	all := measure.TargetsOn(h)
	if len(all) == 0 {
		return nil, fmt.Errorf("target %s: %s runs none of %s", word, h.CPU, targetNames())
	}
	if word == hostWord {
		return all[len(all)-1], nil
	}
	t, err := oneTarget(word)
	if err != nil {
		return nil, err
	}
	if missing := lacksOn(t, h); missing != "" {
		return nil, fmt.Errorf("target %s: the machine lacks %s: it runs %s", t.Machine().Name, missing, fullNames(all))
	}
	return t, nil
}

func targetNames() string { return fullNames(targets.All()) }

func fullNames(ts []lower.Target) string {
	var names []string
	for _, t := range ts {
		names = append(names, t.Machine().Name)
	}
	return strings.Join(names, ", ")
}
