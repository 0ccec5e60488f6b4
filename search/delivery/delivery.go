// Package delivery makes the Go package of an order: it compiles the products, compares their kernels with the
// definition, writes the package, tests it, and measures what the kernels do on this machine.
//
//	order.Order -> New           the directory, the name, the module and the lock of the package
//	            -> TryTraces     given traces, before anything else is compiled
//	            -> Compile       every product for every target, by given traces, the lock, records or the default schedules
//	            -> Verify        kernels that this machine runs, against the definition
//	            -> Write         the files; or Differences, which compares them with what lies there
//	            -> Test          go build, go vet, go test
//	            -> Measure       speeds on this machine
//	            -> Report        what was made, for tables and JSON
//
// Verify runs kernels that nothing has verified in copies of the program that uses this package, so its main begins with
// session.Main.
package delivery

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// Options say what to make and where. Order, Targets and Dir are required.
type Options struct {
	Order     *order.Order      // the products to compile; Compile adds to its Left
	Targets   []lower.Target    // that products are compiled for, each once, in the order in which programs try them
	Shaders   []spirv.Target    // of devices that products are compiled for besides
	Dir       string            // of the package; "." is the working directory
	Name      string            // of the package; "": see New
	Module    string            // path of a module of the package's own, or "none"; "": the package's name if Dir is in no module
	Unchecked bool              // Verify and Test run nothing, and Measure must not be called
	ReadOnly  bool              // nothing is written: Differences takes the place of Write
	Probing   timing.Options    // how Measure measures; zero: for a few seconds
	Defaults  *defaults.Chooser // of products without a trace or a lock's entry; nil: as nil is
	Events    func(Event)       // hears what goes on, from one goroutine or several; nil: nobody does
}

// Package is a Go package that is being made. Its steps run one after the other.
type Package struct {
	Options
	products []*product // of the order; once compiled, those that some target has
	module   *gomod.Module
	lock     *tune.Lock // of the module that the package lies in
	files    []lower.File
	codes    map[*variant.Variant]*live.Code // verified and mapped
	unmapped error                           // why verified kernels are not mapped
	exact    map[string]Exactness            // by the name of the kernel
	speeds   map[string]Speed                // by the name of the kernel
	tested   bool                            // the package passed its tests
}

// product is a product of the order and what became of it.
type product struct {
	*order.Product
	tried    map[string]*variant.Variant // kernels of its given traces, by the name of the target
	compiled gen.Product
	recorded []string // targets whose schedules are a record's
}

// ErrNothing is the error of an order none of whose products can be compiled. The order's Left has the reasons.
var ErrNothing = errors.New("nothing of this can be compiled")

// OptionError is an option that does not fit the directory.
type OptionError struct {
	Key string // of the flag and of tmacc.yaml: "output", "package" or "module"
	Err error  // names the flag
}

func (e *OptionError) Error() string { return e.Err.Error() }

func (e *OptionError) Unwrap() error { return e.Err }

// New finds out about the directory of the package, and writes nothing. A package without a name gets the one that go
// generate says, if it runs in Dir, else the name of the Go files there, else the name of Dir, else "kernels".
// Errors: an *OptionError; a lock that cannot be read; names that Go cannot build; files of somebody else in the way.
func New(o Options) (*Package, error) {
	x := &Package{Options: o, codes: map[*variant.Variant]*live.Code{}, exact: map[string]Exactness{}, speeds: map[string]Speed{}}
	if o.Probing == (timing.Options{}) {
		x.Probing = Quick
	}
	for _, p := range o.Order.Products {
		w := &product{Product: p, tried: map[string]*variant.Variant{}, compiled: p.Uncompiled()}
		x.products = append(x.products, w)
	}
	if err := x.findPlace(); err != nil {
		return nil, err
	}
	return x, x.checkNames()
}

// findPlace finds the name of the package, its lock and its module.
func (x *Package) findPlace() error {
	if err := CheckDir(x.Dir); err != nil {
		return &OptionError{"output", err}
	}
	name, err := nameFor(x.Dir, x.Name)
	if err != nil {
		return &OptionError{"package", err}
	}
	x.Name = name
	if err := x.ReadLock(); err != nil {
		return err
	}
	return x.findModule()
}

// ReadLock reads the lock again, after something has changed it.
func (x *Package) ReadLock() error {
	path, err := LockPath(x.Dir)
	if err != nil {
		return err
	}
	x.lock, err = tune.ReadLock(path)
	return err
}

// findModule describes the module that the package becomes, if any.
func (x *Package) findModule() (err error) {
	key := "output"
	if x.Module != "" {
		key = "module"
	}
	x.module, err = gomod.New(x.Dir, x.Module, x.Name)
	if err == nil && x.module == nil && !x.Unchecked && !x.ReadOnly && !gomod.Within(x.Dir) {
		err = fmt.Errorf("-module %s: %s is in no module, where the go command builds nothing: leave -module out, or give -no-check", x.Module, x.Dir)
	}
	if err != nil {
		return &OptionError{key, err}
	}
	return nil
}

// checkNames is an error if Go cannot build the package for the names in it, or if a file of somebody else has the name
// of one of its files.
func (x *Package) checkNames() error {
	if x.Empty() {
		return nil // Compile is an ErrNothing
	}
	s := x.spec()
	if err := x.Order.Check(s); err != nil || x.ReadOnly { // Differences compares the files
		return err
	}
	names := gen.FileNames(x.Name, x.Targets, len(s.Tensors) > 0)
	if len(x.Shaders) > 0 {
		names = append(names, gen.ShaderFileNames(x.Name)...)
	}
	return message.Plain(gen.Vacant(x.Dir, names...))
}

// Empty reports whether no product is left: the order has none, or Compile could compile none.
func (x *Package) Empty() bool { return len(x.products) == 0 }

// Close unmaps the kernels.
func (x *Package) Close() {
	for _, code := range x.codes {
		code.Close()
	}
}

// spec describes the package without its products.
func (x *Package) spec() gen.Spec {
	var products []*order.Product
	for _, w := range x.products {
		products = append(products, w.Product)
	}
	return gen.Spec{Package: x.Name, Version: gomod.Version(), Module: x.module, Tensors: x.Order.Tensors(products)}
}

// make makes the files of the package.
func (x *Package) make() (err error) {
	s := x.spec()
	for _, w := range x.products {
		s.Products = append(s.Products, w.compiled)
	}
	x.files, err = gen.Package(s)
	return err
}

// Write writes the package, after Compile.
func (x *Package) Write() error {
	if err := x.make(); err != nil {
		return err
	}
	return message.Plain(gen.Write(x.Dir, x.files))
}

// Differences names the files that differ from what Write would write, are missing, or should not be there. It writes
// nothing.
func (x *Package) Differences() ([]string, error) {
	if err := x.make(); err != nil {
		return nil, err
	}
	names, err := gen.Differences(x.Dir, x.files)
	return names, message.Plain(err)
}
