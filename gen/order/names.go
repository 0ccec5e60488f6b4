package order

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/message"
)

// Check refuses a package that Go could not build because of the names in it. It finds every such fault before
// anything is compiled. s has the name, version and module of the package; Check adds the products and tensors of o.
func (o *Order) Check(s gen.Spec) error {
	s.Tensors, s.Products = o.Tensors(o.Products), nil
	begin := map[string]*Product{}
	for _, w := range o.Products {
		p := w.Uncompiled()
		if other := begin[p.Prefix]; other != nil {
			return fmt.Errorf("products %s and %s: the names of their functions in assembly would both begin with %s_: rename one, as -kernel name=NAME,format=FORMAT does", other.Name(), w.Name(), p.Prefix)
		}
		begin[p.Prefix] = w
		s.Products = append(s.Products, p)
	}
	var bad *gen.Error
	switch err := gen.Check(s); {
	case errors.As(err, &bad) && strings.HasPrefix(bad.Thing, "product "):
		return fmt.Errorf("%w (-kernel name=NAME,format=FORMAT renames a product)", message.Plain(err))
	default:
		return message.Plain(err)
	}
}

// Uncompiled is the product of the package, without variants.
func (w *Product) Uncompiled() gen.Product {
	return gen.Product{Name: w.Name(), Prefix: identifier(w.Label()), Problem: w.Problem}
}

// identifier is s in lower case, with '_' in place of each character that a name in assembly cannot have.
func identifier(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, strings.ToLower(s))
	if s[0] < 'a' {
		return "k" + s
	}
	return s
}
