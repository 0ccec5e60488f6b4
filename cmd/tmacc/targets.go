package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/amd64"
	"github.com/tmacc/tmacc/lower/arm64"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// allTargets are the targets there are, each architecture's from the fewest CPU
// features to the most.
func allTargets() []lower.Target { return append(amd64.Targets(), arm64.Targets()...) }

// arch is the architecture of t, as GOARCH has it.
func arch(t lower.Target) string {
	a, _, _ := strings.Cut(t.Machine().Name, "/")
	return a
}

// shortName is the name of t without its architecture.
func shortName(t lower.Target) string { return strings.TrimPrefix(t.Machine().Name, arch(t)+"/") }

// features names the CPU features that t needs.
func features(t lower.Target) []string {
	if arch(t) == "arm64" {
		return arm64.FeatureNames(t.Machine().Has)
	}
	return amd64.FeatureNames(t.Machine().Has)
}

// lacks says what this machine lacks to run t, "" if nothing.
func lacks(t lower.Target) string { return lacksOn(t, timing.ThisHost()) }

// lacksOn says what a machine lacks to run t, "" if nothing.
func lacksOn(t lower.Target, h timing.Host) string {
	if arch(t) != h.Arch {
		return "an " + arch(t) + " CPU"
	}
	return strings.Join(h.Lacks(features(t)), " and ")
}

// hostTargets lists the targets that this machine runs, the best last.
func hostTargets() []lower.Target { return targetsOn(timing.ThisHost()) }

// targetsOn lists the targets that a machine runs, the best last.
func targetsOn(h timing.Host) []lower.Target {
	return slices.DeleteFunc(allTargets(), func(t lower.Target) bool { return lacksOn(t, h) != "" })
}

// bestOf is the best target of a class that this machine runs.
func bestOf(class string) (lower.Target, error) {
	for _, t := range slices.Backward(hostTargets()) {
		if measure.Class(shortName(t)) == class {
			return t, nil
		}
	}
	return nil, fmt.Errorf("this machine runs no target like %s", class)
}

// oneTarget is the target of a name, with or without its architecture; "host" is
// the best that this machine runs.
func oneTarget(name string) (lower.Target, error) {
	if name == "host" {
		ts := hostTargets()
		if len(ts) == 0 {
			return nil, fmt.Errorf("target host: this %s CPU runs none of %s: name one of them", runtime.GOARCH, targetNames())
		}
		return ts[len(ts)-1], nil
	}
	for _, t := range allTargets() {
		if t.Machine().Name == name || shortName(t) == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("unknown target %q: have host, %s", name, targetNames())
}

// targetList is what -target names: a list separated by commas, or "all".
func targetList(names string) ([]lower.Target, error) {
	if names == "all" {
		return allTargets(), nil
	}
	var ts []lower.Target
	for name := range strings.SplitSeq(names, ",") {
		t, err := oneTarget(name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(ts, func(x lower.Target) bool { return x.Machine().Name == t.Machine().Name }) {
			ts = append(ts, t)
		}
	}
	return ts, nil
}

func targetNames() string {
	var names []string
	for _, t := range allTargets() {
		names = append(names, t.Machine().Name)
	}
	return strings.Join(names, ", ")
}
