package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
)

// lacks says what this machine lacks to run t, "" if nothing.
func lacks(t lower.Target) string { return lacksOn(t, timing.ThisHost()) }

// lacksOn says what a machine lacks to run t, "" if nothing.
func lacksOn(t lower.Target, h timing.Host) string {
	if t.Machine().Arch() != h.Arch {
		return "an " + t.Machine().Arch() + " CPU"
	}
	return strings.Join(h.Lacks(targets.Features(t)), " and ")
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
	if t := targets.ByName(name); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("unknown target %q: have host, %s", name, targetNames())
}

// targetsHere are those that -target names, separated by commas, if this machine runs them; all are those that it runs.
func targetsHere(names string) ([]lower.Target, error) {
	return targetsOf(timing.ThisHost(), strings.Split(names, ","))
}

// targetsOf are the targets of names, if machine h runs them.
func targetsOf(h timing.Host, names []string) (out []lower.Target, err error) {
	all := measure.TargetsOn(h)
	for _, name := range names {
		switch t, err := oneTarget(name); {
		case len(all) == 0:
			return nil, fmt.Errorf("target %s: %s runs none of %s", name, h.CPU, targetNames())
		case name == "all":
			out = append(out, all...)
		case name == "host":
			out = append(out, all[len(all)-1])
		case err != nil:
			return nil, err
		case lacksOn(t, h) != "":
			return nil, fmt.Errorf("target %s: the machine lacks %s: it runs %s", t.Machine().Name, lacksOn(t, h), fullNames(all))
		default:
			out = append(out, t)
		}
	}
	return out, nil
}

// targetList is what -target names: a list separated by commas, or "all".
func targetList(names string) ([]lower.Target, error) {
	if names == "all" {
		return targets.All(), nil
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

func targetNames() string { return fullNames(targets.All()) }

func fullNames(ts []lower.Target) string {
	var names []string
	for _, t := range ts {
		names = append(names, t.Machine().Name)
	}
	return strings.Join(names, ", ")
}
