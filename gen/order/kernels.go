package order

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
)

// Kernel is a product with a name of its own, as -kernel and the key kernel describe it.
type Kernel struct {
	Text      string // as it was written
	Name      string // of the product in Go
	Format    string // of the weights: its name, or a JSON file
	Trace     string // JSON file with a schedule, or ""
	Target    string // that the trace is for, "" for the only one
	Act, MaxK *int   // the group of activations and the largest K; nil: those of Options
}

// ParseKernel reads keys and values, such as "name=Q4,format=w4-g32". KernelKeys lists the keys.
func ParseKernel(text string) (Kernel, error) {
	k := Kernel{Text: text}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(word, "=")
		switch _, known := kernelKeys[key]; {
		case !ok || value == "":
			return Kernel{}, fmt.Errorf("%q: want key=value, with a key of %s", word, keyNames(kernelKeys))
		case !known:
			return Kernel{}, fmt.Errorf("%q: unknown key %q: have %s", word, key, keyNames(kernelKeys))
		case seen[key]:
			return Kernel{}, fmt.Errorf("%q: %s is there twice", text, key)
		}
		seen[key] = true
		var err error
		switch key {
		case "name":
			k.Name = value
		case "format":
			k.Format = value
		case "trace":
			k.Trace = value
		case "target":
			k.Target = value
		case "act-group":
			k.Act, err = number(value)
		case "max-k":
			k.MaxK, err = number(value)
		default:
			panic("BUG: a key that nothing reads: " + key)
		}
		if err != nil {
			return Kernel{}, errors.New(message.NotNumber(word, err))
		}
	}
	switch {
	case k.Name == "":
		return Kernel{}, fmt.Errorf("%q: has no name: add name=NAME", text)
	case k.Format == "":
		return Kernel{}, fmt.Errorf("%q: has no format: add format=FORMAT", text)
	case k.Target != "" && k.Trace == "":
		return Kernel{}, fmt.Errorf("%q: the target is that of a trace: add trace=FILE, or leave it out", text)
	}
	return k, nil
}

func number(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	return &n, err
}

// AddKernel adds a -kernel: a product, or a trace for another target of one that an earlier entry made.
func (o *Order) AddKernel(k Kernel) error {
	if gen.CheckProduct(k.Name) != nil {
		return fmt.Errorf("kernel %s: want a name of letters and digits that begins with a capital", message.Quoted(k.Name))
	}
	p, err := o.kernelProblem(k)
	if err == nil {
		err = o.addKernel(k, p)
	}
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	return nil
}

// kernelProblem is the product of a -kernel.
func (o *Order) kernelProblem(k Kernel) (ir.Problem, error) {
	act, maxK := o.options.Act, o.options.MaxK
	if k.Act != nil {
		act.Group = *k.Act
	}
	if k.MaxK != nil {
		maxK = *k.MaxK
	}
	if err := checkMaxK("max-k", maxK); err != nil {
		return ir.Problem{}, err
	}
	p, err := o.options.Inputs.Problem(k.Format, act)
	if err != nil {
		return p, err
	}
	return p, setMaxK(&p, maxK)
}

func (o *Order) addKernel(k Kernel, p ir.Problem) error {
	w, err := o.sameKernel(k, p)
	if err != nil {
		return err
	}
	if w == nil {
		asks := "-max-k asks"
		if k.MaxK != nil {
			asks = "max-k of -kernel asks"
		}
		w = &Product{name: k.Name, Problem: p, asks: asks, Traces: map[string]Trace{}, targeted: k.Target != ""}
		o.Products = append(o.Products, w)
	}
	if k.Trace == "" {
		return nil
	}
	on, err := o.traceTarget(k)
	if err != nil {
		return err
	}
	if w.Traces[on].Trace != nil {
		return fmt.Errorf("there are two traces for %s: leave one out", on)
	}
	w.Traces[on], err = o.trace(k.Trace)
	return err
}

// sameKernel is the product that an earlier -kernel of that name made, nil if none did.
func (o *Order) sameKernel(k Kernel, p ir.Problem) (*Product, error) {
	i := slices.IndexFunc(o.Products, func(w *Product) bool { return w.Name() == k.Name })
	if i < 0 {
		return nil, nil
	}
	w := o.Products[i]
	switch {
	case k.Target == "" || !w.targeted:
		return nil, errors.New("there are two of that name: rename one, or give each the target that its trace is for")
	case !reflect.DeepEqual(p, w.Problem):
		return nil, fmt.Errorf("entries of one name are one product: these differ in %s", differing(w.Problem, p))
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

// traceTarget is the name of the target that the trace of k is for.
func (o *Order) traceTarget(k Kernel) (string, error) {
	ts := o.options.Targets
	if k.Target == "" {
		if len(ts) != 1 {
			return "", fmt.Errorf("a trace is for one target: these are %d: give the entry the target of its trace", len(ts))
		}
		return ts[0].Machine().Name, nil
	}
	if t := lower.Find(ts, k.Target); t != nil { // a user's own core is in no other list
		return t.Machine().Name, nil
	}
	found, err := o.options.Find(k.Target)
	if err != nil {
		return "", err
	}
	var names []string
	for _, t := range ts {
		names = append(names, t.Machine().ShortName())
	}
	slices.Sort(names)
	m := found.Machine()
	if !slices.ContainsFunc(ts, func(t lower.Target) bool { return t.Machine().Name == m.Name }) {
		return "", fmt.Errorf("nothing is compiled for target %s: add it to the targets (%s)", m.Name, strings.Join(names, ", "))
	}
	return m.Name, nil
}
