package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
)

// kernelOrder is a -kernel: a product with a name of its own, and what else differs
// from the other flags.
type kernelOrder struct {
	text                string // as it was written
	name, format, trace string
	target              string // that the trace is for, "" for the only one
	act, maxK           *int   // nil: of all
}

// kernelList is the flag -kernel.
type kernelList []kernelOrder

func (l *kernelList) Type() string { return "kernel" }

func (l *kernelList) String() string {
	var all []string
	for _, k := range *l {
		all = append(all, k.name+"="+k.format)
	}
	return strings.Join(all, " ")
}

// Set adds "name=Q4,format=w4-g32": keys and values.
func (l *kernelList) Set(text string) error {
	k := kernelOrder{text: text}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(word, "=")
		switch _, known := kernelKeys[key]; {
		case !ok || value == "":
			return fmt.Errorf("%q: want key=value, with a key of %s", word, keyNames(kernelKeys))
		case !known:
			return fmt.Errorf("%q: unknown key %q: have %s", word, key, keyNames(kernelKeys))
		case seen[key]:
			return fmt.Errorf("%q: %s is there twice", text, key)
		}
		seen[key] = true
		var err error
		switch key {
		case "name":
			k.name = value
		case "format":
			k.format = value
		case "trace":
			k.trace = value
		case "target":
			k.target = value
		case "act-group":
			k.act, err = number(value)
		case "max-k":
			k.maxK, err = number(value)
		default:
			panic("BUG: a key that nothing reads: " + key)
		}
		if err != nil {
			return errors.New(badNumber(word, err))
		}
	}
	switch {
	case k.name == "":
		return fmt.Errorf("%q: has no name: add name=NAME", text)
	case k.format == "":
		return fmt.Errorf("%q: has no format: add format=FORMAT", text)
	case k.target != "" && k.trace == "":
		return fmt.Errorf("%q: the target is that of a trace: add trace=FILE, or leave it out", text)
	}
	*l = append(*l, k)
	return nil
}

func number(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	return &n, err
}

// wantKernel adds a -kernel: a product, or a trace for another target of one that an earlier entry made.
func (x *compilation) wantKernel(k kernelOrder) error {
	if gen.CheckProduct(k.name) != nil {
		return fmt.Errorf("kernel %s: want a name of letters and digits that begins with a capital", quotedIfOdd(k.name))
	}
	p, err := x.kernelProblem(k)
	if err == nil {
		err = x.addKernel(k, p)
	}
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	return nil
}

// kernelProblem is the product of a -kernel.
func (x *compilation) kernelProblem(k kernelOrder) (ir.Problem, error) {
	act, maxK := x.order.act, x.order.maxK
	if k.act != nil {
		act.group = *k.act
	}
	if k.maxK != nil {
		maxK = *k.maxK
	}
	if err := goodMaxK("max-k", maxK); err != nil {
		return ir.Problem{}, err
	}
	p, err := x.product(k.format, act)
	if err != nil {
		return p, err
	}
	return p, setMaxK(&p, maxK)
}

func (x *compilation) addKernel(k kernelOrder, p ir.Problem) error {
	w, err := x.sameKernel(k, p)
	if err != nil {
		return err
	}
	if w == nil {
		asks := "-max-k asks"
		if k.maxK != nil {
			asks = "max-k of -kernel asks"
		}
		w = &wanted{name: k.name, problem: p, asks: asks, traces: map[string]given{}, targeted: k.target != ""}
		x.products = append(x.products, w)
	}
	if k.trace == "" {
		return nil
	}
	on, err := x.traceTarget(k)
	if err != nil {
		return err
	}
	if w.traces[on].Trace != nil {
		return fmt.Errorf("there are two traces for %s: leave one out", on)
	}
	w.traces[on], err = x.cli.given(k.trace)
	return err
}

// sameKernel is the product that an earlier -kernel of that name made, nil if none did.
func (x *compilation) sameKernel(k kernelOrder, p ir.Problem) (*wanted, error) {
	i := slices.IndexFunc(x.products, func(w *wanted) bool { return w.goName() == k.name })
	if i < 0 {
		return nil, nil
	}
	w := x.products[i]
	switch {
	case k.target == "" || !w.targeted:
		return nil, errors.New("there are two of that name: rename one, or give each the target that its trace is for")
	case !reflect.DeepEqual(p, w.problem):
		return nil, fmt.Errorf("entries of one name are one product: these differ in %s", differing(w.problem, p))
	}
	return w, nil
}

// differing says in what two products differ that are not the same.
func differing(p, q ir.Problem) string {
	switch {
	case p.Name() != q.Name():
		return fmt.Sprintf("format (%s, %s)", p.Name(), q.Name())
	case p.Act.Group != q.Act.Group:
		return fmt.Sprintf("act-group (%d, %d)", p.Act.Group, q.Act.Group)
	case p.LimitK() != q.LimitK():
		return fmt.Sprintf("max-k (%d, %d)", p.LimitK(), q.LimitK())
	}
	return "what format " + p.Name() + " is"
}

// traceTarget is the name of the target that the trace of a -kernel is for.
func (x *compilation) traceTarget(k kernelOrder) (string, error) {
	if k.target == "" {
		if len(x.targets) != 1 {
			return "", fmt.Errorf("a trace is for one target: these are %d: give the entry the target of its trace", len(x.targets))
		}
		return x.targets[0].Machine().Name, nil
	}
	if t := lower.Find(x.targets, k.target); t != nil { // a user's own core is in no other list
		return t.Machine().Name, nil
	}
	t, err := oneTarget(k.target)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(x.targets, func(o lower.Target) bool { return o.Machine().Name == t.Machine().Name }) {
		return "", fmt.Errorf("nothing is compiled for target %s: add it to the targets (%s)", t.Machine().Name, strings.Join(x.on, ", "))
	}
	return t.Machine().Name, nil
}
