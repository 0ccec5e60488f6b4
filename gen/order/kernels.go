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

// Kernel describes a product with a name of its own, as -kernel and the key kernel of tmacc.yaml do.
type Kernel struct {
	Text      string // the description as it was written
	Name      string // of the product in Go
	Format    string // of the weights: its name, or a JSON file
	Trace     string // JSON file with a schedule, or ""
	Target    string // that Trace is for; "" for the only target
	Act, MaxK *int   // group of activations, and largest K; nil: as Options say
}

// ParseKernel reads keys and values, such as "name=Q4,format=w4-g32". KernelKeys lists the keys. Errors are of
// one line and repeat the word that is wrong.
func ParseKernel(text string) (Kernel, error) {
	k := Kernel{Text: text}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(word, "=")
		switch _, known := kernelKeys[key]; {
		case !ok || value == "":
			return k, fmt.Errorf("%q: want key=value, with a key of %s", word, KernelKeys())
		case !known:
			return k, fmt.Errorf("%q: unknown key %q: have %s", word, key, KernelKeys())
		case seen[key]:
			return k, fmt.Errorf("%q: %s is there twice", text, key)
		}
		seen[key] = true
		if err := k.set(key, value); err != nil {
			return k, errors.New(message.NotNumber(word, err))
		}
	}
	if err := k.check(); err != nil {
		return k, fmt.Errorf("%q: %w", text, err)
	}
	return k, nil
}

// set sets what key means. The error is strconv's.
func (k *Kernel) set(key, value string) (err error) {
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
	return err
}

func number(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	return &n, err
}

// check refuses a kernel that lacks something.
func (k *Kernel) check() error {
	switch {
	case k.Name == "":
		return errors.New("has no name: add name=NAME")
	case k.Format == "":
		return errors.New("has no format: add format=FORMAT")
	case k.Target != "" && k.Trace == "":
		return errors.New("the target is that of a trace: add trace=FILE, or leave it out")
	}
	return nil
}

// AddKernel adds a product with a name of its own. If an earlier kernel of that name is the same product, k adds
// its trace for another target. Errors name the kernel.
func (o *Order) AddKernel(k Kernel) error {
	if gen.CheckProduct(k.Name) != nil {
		return fmt.Errorf("kernel %s: want a name of letters and digits that begins with a capital", message.Quoted(k.Name))
	}
	err := k.check()
	if err == nil {
		err = o.addKernel(k)
	}
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.Name, err)
	}
	return nil
}

// kernelProblem is the product that k describes.
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

// addKernel is AddKernel, with errors that do not name the kernel.
func (o *Order) addKernel(k Kernel) error {
	p, err := o.kernelProblem(k)
	if err != nil {
		return err
	}
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

// sameKernel is the product that an earlier kernel of that name made, or nil.
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

// differing names the first difference between two products.
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
	ts := o.options.targets()
	if k.Target == "" {
		if len(ts) != 1 {
			return "", fmt.Errorf("a trace is for one target: these are %d: give the entry the target of its trace", len(ts))
		}
		return ts[0].Machine().Name, nil
	}
	if t := lower.Find(o.options.Targets, k.Target); t != nil { // a user's own core is in no other list
		return t.Machine().Name, nil
	}
	for _, t := range o.options.Shaders {
		if m := t.Machine(); k.Target == m.Name || k.Target == m.ShortName() || k.Target == m.Arch() {
			return m.Name, nil
		}
	}
	t, err := o.options.Find(k.Target)
	if err != nil {
		return "", err
	}
	name := t.Machine().Name
	if lower.Find(o.options.Targets, name) != nil {
		return name, nil
	}
	var names []string
	for _, t := range ts {
		names = append(names, t.Machine().ShortName())
	}
	slices.Sort(names)
	return "", fmt.Errorf("nothing is compiled for target %s: add it to the targets (%s)", name, strings.Join(names, ", "))
}
