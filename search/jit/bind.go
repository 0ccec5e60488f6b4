package jit

import (
	"unsafe"

	"github.com/tmacc/tmacc/runtime/abi"
)

// Bind makes the kernels of v call the functions of their names, which find
// returns: they take their parameters as 8-byte words.
func Bind(v *abi.Variant, find func(name string) (func(words []uint64), error)) error {
	for i := range v.Kernels {
		k := &v.Kernels[i]
		f, err := find(k.Name)
		if err != nil {
			return err
		}
		k.Fn = func(a *abi.GemmArgs) { f(words(a)) }
	}
	if p := v.Prepare; p != nil {
		f, err := find(p.Name)
		if err != nil {
			return err
		}
		p.Fn = func(a *abi.PrepareArgs) { f(words(a)) }
	}
	return nil
}

// words are the parameters of a kernel.
func words[Args abi.GemmArgs | abi.PrepareArgs](a *Args) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(a)), unsafe.Sizeof(*a)/8)
}
