package main

import (
	"fmt"
	"strconv"
	"strings"
)

// kernelOrder is a -kernel: a product with a name of its own, and what else differs
// from the other flags.
type kernelOrder struct {
	name, format, trace string
	act, maxK           int
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
	k := kernelOrder{act: inherit, maxK: inherit}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(word, "=")
		if _, known := kernelKeys[key]; !ok || !known || seen[key] || value == "" {
			return fmt.Errorf("%q: want key=value, each key once: %s", word, keyNames(kernelKeys))
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
		case "act-group":
			k.act, err = strconv.Atoi(value)
		case "max-k":
			k.maxK, err = strconv.Atoi(value)
		}
		if err != nil {
			return fmt.Errorf("%q: want a number", word)
		}
	}
	switch {
	case k.name == "":
		return fmt.Errorf("%q: has no name: add name=NAME", text)
	case k.format == "":
		return fmt.Errorf("%q: has no format: add format=FORMAT", text)
	}
	*l = append(*l, k)
	return nil
}

// inherit is the act-group and max-k of kernels that have none of their own.
const inherit = -2

// wantKernel adds a -kernel.
func (x *compilation) wantKernel(k kernelOrder) error {
	if !goName.MatchString(k.name) {
		return fmt.Errorf("kernel %s: want a name of letters and digits that begins with a capital", k.name)
	}
	for _, o := range x.products {
		if o.goName() == k.name {
			return fmt.Errorf("kernel %s: there are two of that name", k.name)
		}
	}
	act, maxK := x.order.act, x.order.maxK
	if k.act != inherit {
		act.group = k.act
	}
	if k.maxK != inherit {
		maxK = k.maxK
	}
	p, err := x.product(k.format, act)
	if err == nil {
		err = setMaxK(&p, maxK)
	}
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	o := &wanted{name: k.name, problem: p}
	if k.trace != "" {
		if o.trace, err = x.cli.trace(k.trace); err != nil {
			return fmt.Errorf("kernel %s: %w", k.name, err)
		}
	}
	x.products = append(x.products, o)
	return nil
}
