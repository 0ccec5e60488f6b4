package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/gen"
)

// checkNames is an error if Go cannot build the package for the names in it, or a file by somebody else has the name of one of
// its files: all that can be known of that before anything is compiled.
func (x *compilation) checkNames() error {
	if len(x.products) == 0 {
		return nil // of which leftStatus says why
	}
	s := x.spec()
	begin := map[string]*wanted{}
	for _, w := range x.products {
		name := identifier(w.prefix())
		if o := begin[name]; o != nil {
			return fmt.Errorf("products %s and %s: the names of their functions in assembly would both begin with %s_: rename one, as -kernel name=NAME,format=FORMAT does", o.goName(), w.goName(), name)
		}
		begin[name] = w
		s.Products = append(s.Products, w.uncompiled())
	}
	var bad *gen.Error
	switch err := gen.Check(s); {
	case errors.As(err, &bad) && strings.HasPrefix(bad.Thing, "product "):
		return fmt.Errorf("%w (-kernel name=NAME,format=FORMAT renames a product)", plain(err))
	case err != nil:
		return plain(err)
	}
	if x.current {
		return nil // whose files are compared
	}
	return plain(gen.Vacant(x.dir, gen.FileNames(x.pkg, x.targets, len(s.Tensors) > 0)...))
}

// uncompiled is the product of w without what is compiled for targets.
func (w *wanted) uncompiled() gen.Product {
	return gen.Product{Name: w.goName(), Prefix: identifier(w.prefix()), Problem: w.problem}
}
