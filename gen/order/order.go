// Package order finds out what is to be compiled. Built-in models, GGUF files, formats and kernels
// with names of their own go in. The products to compile come out, with the matrices that need each.
//
//	flags, tmacc.yaml      ParseConfig, ParseKernel
//	  -> Order             AddModel, AddFile, AddFormat, AddKernel, SetTrace
//	  -> []*Product        an ir.Problem, its traces by target, its matrices
//	  -> gen.Spec          Check, before anything is compiled
package order

import (
	"fmt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
)

// Options are what all products of an order share.
type Options struct {
	Act     Act            // of products that name no activations of their own
	MaxK    int            // largest K that kernels are proven exact for; 0: as large as usual and the matrices need
	Targets []lower.Target // that the products are compiled for; traces name one of them
	// Find returns the target that a word names; nil stands for the names of targets.Named. The command
	// adds the word "host".
	Find   func(word string) (lower.Target, error)
	Inputs Inputs // reads formats and traces
}

// Order is a list of products to compile.
type Order struct {
	Products []*Product
	Left     []Left   // what cannot be compiled
	Others   []string // tensors of files that are no matrices

	options  Options
	tensors  []tensor              // of files and models, that are compiled
	files    map[string]bool       // that were read, by their real paths
	inFiles  map[string]int        // index into tensors, by name
	problems map[string]ir.Problem // of the files' tensors, by format
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

// named is the target of a name, with or without its architecture.
func named(word string) (lower.Target, error) {
	if t := targets.ByName(word); t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("unknown target %q", word)
}

// checkMaxK refuses a largest K that no product has. The error calls it name, as the flag or the key is
// called. 0 stands for the usual one.
func checkMaxK(name string, k int) error {
	if k < 0 || k > format.MostK {
		return fmt.Errorf("%s %d: want 1 to %d, or 0: the usual", name, k, format.MostK)
	}
	return nil
}

// AddFormat adds the product of weights that name names, as Inputs.Problem does, for matrices of any size.
func (o *Order) AddFormat(name string) error {
	p, err := o.options.Inputs.Problem(name, o.options.Act)
	if err != nil {
		return err
	}
	return o.want(p, "", 0, 0, 0)
}

// SetTrace gives the only product on the only target the schedule in the JSON file path.
func (o *Order) SetTrace(path string) (err error) {
	ts := o.options.Targets
	if len(o.Products) != 1 || len(ts) != 1 {
		return fmt.Errorf("-trace is for one format on one target: these are %d formats on %d targets; -kernel takes a trace for each target", len(o.Products), len(ts))
	}
	o.Products[0].Traces[ts[0].Machine().Name], err = o.trace(path)
	return err
}

// trace reads the schedule in a JSON file.
func (o *Order) trace(path string) (Trace, error) {
	t, err := o.options.Inputs.Trace(path)
	return Trace{path, t}, err
}
