package order

import (
	"fmt"
	"math"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
)

// Act says which activations multiply the weights.
type Act struct {
	Elem  string // Int8 or Float32
	Group int    // activations along K that share a scale, 0: a whole row; UsualGroup: as is usual for the weights
}

// The values of Act.Elem.
const (
	Int8    = "int8" // quantized
	Float32 = "f32"  // as they are
)

// UsualGroup is the Group that each format of weights chooses for itself. Nobody asks for it by its number.
const UsualGroup = math.MinInt

// UsualAct is int8 activations in the groups that are usual for the weights.
func UsualAct() Act { return Act{Int8, UsualGroup} }

// checkElem refuses an unknown type of activations.
func (a Act) checkElem() error {
	if a.Elem != Int8 && a.Elem != Float32 {
		return fmt.Errorf("-act %s: want %s or %s", a.Elem, Int8, Float32)
	}
	return nil
}

// checkGroup refuses a group that activations of no product have.
func (a Act) checkGroup() error {
	if a.Group == UsualGroup {
		return nil
	}
	if err := (format.Act{Group: a.Group}).ValidGroup(); err != nil {
		return fmt.Errorf("-act-group: %w", err)
	}
	return nil
}

// Problem is the product of weights w with these activations. An unknown Elem, a Group that the weights
// or f32 activations cannot have, and weights that cannot multiply f32 are errors.
func (a Act) Problem(w format.Weight) (ir.Problem, error) {
	if err := a.checkElem(); err != nil {
		return ir.Problem{}, err
	}
	switch {
	case a.Elem == Float32 && a.Group != UsualGroup:
		return ir.Problem{}, fmt.Errorf("-act-group %d: f32 activations have no scales", a.Group)
	case a.Elem == Float32:
		return ir.Floats(w)
	case a.Group == UsualGroup:
		a.Group = blocks.UsualAct(w).Group
	}
	p := ir.Problem{Weight: w, Act: format.Act{Group: a.Group}}
	return p, p.Validate()
}

// Of splits the name of a product into the name of its weights and the activations it names. A name that
// ends in ir.FloatSuffix names f32 activations, every other name means a.
func (a Act) Of(name string) (weight string, _ Act) {
	weight, floats := strings.CutSuffix(name, ir.FloatSuffix)
	if floats {
		a.Elem = Float32
	}
	return weight, a
}
