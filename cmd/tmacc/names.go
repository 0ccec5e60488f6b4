package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tmacc/tmacc/gen"
)

// readFiles reads what the GGUF files have, each of which may be named once, and its tensors be in no other.
func (x *compilation) readFiles() error {
	holds := map[string]string{} // the file of each tensor
	for i, path := range x.gguf {
		if j := sameFile(x.gguf[:i], path); j >= 0 {
			return x.from.at("gguf", path, fmt.Errorf("%s: is named twice%s: leave one out", path, as(x.gguf[j], path)))
		}
		before := len(x.tensors)
		if err := x.wantFile(path); err != nil {
			return x.from.at("gguf", path, err)
		}
		for k := range x.tensors[before:] {
			t := &x.tensors[before+k]
			switch other, there := holds[t.Name]; {
			case there && other == path:
				return x.from.at("gguf", path, fmt.Errorf("%s: has two tensors %s", path, t.Name))
			case there:
				return x.from.at("gguf", path, fmt.Errorf("tensor %s is in %s and in %s: compile each file to a package of its own, by another -o", t.Name, other, path))
			}
			t.file, holds[t.Name] = path, path
		}
	}
	return nil
}

// as names the other name of a file.
func as(other, path string) string {
	if other == path {
		return ""
	}
	return ", once as " + other
}

// sameFile is the index of the first of paths that leads to the same file as path, -1 if none does.
func sameFile(paths []string, path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return -1 // which reading it says
	}
	for i, p := range paths {
		if other, err := os.Stat(p); err == nil && os.SameFile(info, other) {
			return i
		}
	}
	return -1
}

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
func (w *wanted) uncompiled() gen.Product { return gen.Product{Name: w.goName(), Problem: w.problem} }
