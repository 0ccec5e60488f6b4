// Package order lists the products to compile. Built-in models, GGUF files, formats, and kernels with
// names of their own go in. Products come out, each with the matrices that need it.
//
//	flags, tmacc.yaml      Inputs.Config, ParseKernel
//	  -> Order             AddModel, AddFile, AddFormat, AddKernel, SetTrace
//	  -> []*Product        an ir.Problem, its traces by target, the sizes of its matrices
//	  -> gen.Spec          Check, before anything is compiled
//
// The package compiles nothing and measures nothing. Errors are of one line and name the file, the flag or
// the tensor that is wrong.
package order

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
)

// Options are what all products of an order share.
type Options struct {
	Act     Act              // of products that name no activations of their own
	MaxK    int              // largest K that kernels are proven exact for; 0: ir.DefaultMaxK, or more if a matrix has more
	Targets []lower.Target   // that the products are compiled for; each trace is for one of them, or of Shaders
	Shaders []lower.Selector // targets of shaders that the products are compiled for besides
	// Find returns the target that a word names. It says why a trace is for none of Targets; nil stands for
	// targets.ByName. The command's also knows the word "host".
	Find   func(word string) (lower.Target, error)
	Inputs Inputs // reads formats and traces
}

// Order is a list of products to compile.
type Order struct {
	Products []*Product
	Left     []Left   // tensors that cannot be compiled; who compiles the products adds the products that a target cannot have
	Floats   []string // matrices of floats in files, which package runtime/ops multiplies
	Others   []string // tensors of files that are no matrices

	options  Options
	tensors  []tensor              // that products multiply, of files and models
	files    map[string]bool       // files that were read, by their real paths
	inFiles  map[string]int        // index of the files' tensors in tensors, by name
	problems map[string]ir.Problem // products of the files' tensors, by format
}

// Left is a tensor that is left out, or a product that is left out for a target.
type Left struct {
	Name   string `json:"name"`
	Type   string `json:"type"`   // of the tensor, or the target
	Reason string `json:"reason"` // on one line
}

// OptionError is an option that no product can have.
type OptionError struct {
	Key string // of the flag and of tmacc.yaml: "act", "act-group" or "max-k"
	Err error  // names the flag
}

func (e *OptionError) Error() string { return e.Err.Error() }

func (e *OptionError) Unwrap() error { return e.Err }

// New makes an order without products. An option that no product can have is an *OptionError.
func New(options Options) (*Order, error) {
	for _, o := range []OptionError{
		{"act", options.Act.checkElem()},
		{"act-group", options.Act.checkGroup()},
		{"max-k", checkMaxK("-max-k", options.MaxK)},
	} {
		if o.Err != nil {
			return nil, &o
		}
	}
	if options.Find == nil {
		options.Find = named
	}
	return &Order{options: options, files: map[string]bool{}, inFiles: map[string]int{}, problems: map[string]ir.Problem{}}, nil
}

// targets are the targets of CPUs, then of shaders.
func (o *Options) targets() (all []lower.Selector) {
	for _, t := range o.Targets {
		all = append(all, t)
	}
	return append(all, o.Shaders...)
}

// named is the target of a name, with or without its architecture.
func named(word string) (lower.Target, error) {
	if t := targets.ByName(word); t != nil {
		return t, nil
	}
	var names, short []string
	for _, t := range targets.All() {
		m := t.Machine()
		names, short = append(names, m.Name), append(short, m.ShortName())
	}
	return nil, fmt.Errorf("unknown target %q: have %s%s", word, strings.Join(names, ", "), format.Meant(word, append(short, names...)))
}

// checkMaxK refuses a largest K that no product has. The error calls it name, as the flag or the key is
// called. 0 stands for the usual one.
func checkMaxK(name string, k int) error {
	if k < 0 || k > format.MostK {
		return fmt.Errorf("%s %d: want 1 to %d, or 0: the usual", name, k, format.MostK)
	}
	return nil
}

// AddFormat adds the product that name names, as in Inputs.Problem, for matrices of any size. An unknown name, a
// file that cannot be read, and activations that the weights cannot have are errors.
func (o *Order) AddFormat(name string) error {
	p, err := o.options.Inputs.Problem(name, o.options.Act)
	if err != nil {
		return err
	}
	return o.want(p, "", 0, 0, 0)
}

// SetTrace gives the only product on the only target the schedule in a JSON file. Several products or targets are
// an error.
func (o *Order) SetTrace(path string) (err error) {
	ts := o.options.targets()
	if len(o.Products) != 1 || len(ts) != 1 {
		return fmt.Errorf("-trace is for one format on one target: these are %s on %s; -kernel takes a trace for each target",
			message.Count(len(o.Products), "format"), message.Count(len(ts), "target"))
	}
	o.Products[0].Traces[ts[0].Machine().Name], err = o.trace(path)
	return err
}

// trace reads the schedule in a JSON file.
func (o *Order) trace(path string) (Trace, error) {
	t, err := o.options.Inputs.Trace(path)
	return Trace{path, t}, err
}
