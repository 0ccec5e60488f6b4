// Package shaders has the float operators of package runtime/ops as compute shaders, with the same bits. go generate ./runtime/ops
// writes them. abi.Operator says how each is called.
package shaders

import (
	"embed"

	"github.com/tmacc/tmacc/runtime/abi"
)

//go:embed operators_*.spv
var modules embed.FS

// module is the module of an operator.
func module(name string) []byte {
	code, err := modules.ReadFile("operators_" + name + ".spv")
	if err != nil {
		panic("BUG: shaders: " + err.Error())
	}
	return code
}

// All are the operators, in the order of docs/ir.md.
func All() []abi.Operator { return all }

// Find is the operator that package ir/operator calls so, nil if there is none.
func Find(name string) *abi.Operator {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}
