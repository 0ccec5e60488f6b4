package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/lower"
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

// targetList is what the words of -target name, and of -core: all are the instruction sets for their ordinary cores, to
// which cores are added.
func targetList(words, cores []string) ([]lower.Target, error) {
	ts, err := targetsNamed(words, targets.Ordinary(), oneTarget)
	if err != nil {
		return nil, err
	}
	for _, word := range cores {
		more, err := forCore(ts, word)
		if err != nil {
			return nil, err
		}
		ts = append(ts, more...)
	}
	return eachOnce(ts), nil
}

// forCore are the targets for a core, or for all, that have the instruction set of one of ts.
func forCore(ts []lower.Target, word string) (out []lower.Target, err error) {
	var isas []string
	for _, t := range targets.All() {
		m := t.Machine()
		if word != allWord && word != m.Core.Name {
			continue
		}
		isas = append(isas, m.ISA.Name)
		if slices.ContainsFunc(ts, func(x lower.Target) bool { return x.Machine().ISA.Name == m.ISA.Name }) {
			out = append(out, t)
		}
	}
	switch {
	case isas == nil:
		return nil, fmt.Errorf("-core %s: there is no such core: have %s, %s", word, allWord, strings.Join(coreNames(), ", "))
	case out == nil:
		return nil, fmt.Errorf("-core %s: is a core for %s, which -target does not name", word, strings.Join(isas, ", "))
	}
	return out, nil
}

// coreNames names the cores.
func coreNames() []string {
	var names []string
	for _, c := range coreInfos() {
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
