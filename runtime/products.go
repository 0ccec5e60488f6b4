package runtime

import (
	"fmt"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
)

// Products are the products of a package. They are kernels for package model.
type Products []*Product

// Product is the product of weights in the format w by activations prepared as a says. Without one, the error says what
// there is.
func (ps Products) Product(w format.Weight, a format.Act) (*Product, error) {
	var have []string
	for _, p := range ps {
		if p.Weight().Same(w) && p.Act() == a {
			return p, nil
		}
		have = append(have, fmt.Sprintf("%s with activations in groups of %d", p.Weight().Name, p.Act().Group))
	}
	return nil, &Error{"Products", "format " + w.Name, fmt.Sprintf(
		"has no product with activations in groups of %d; the package has %s: compile it for your file", a.Group, strings.Join(have, ", "))}
}
