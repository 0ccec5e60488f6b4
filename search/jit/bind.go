package jit

import (
	"unsafe"

	"github.com/tmacc/tmacc/runtime"
)

// Bind makes the kernels of v call the functions of their names, which find
// returns: they take their parameters as 8-byte words.
func Bind(v *runtime.Variant, find func(name string) (func(words []uint64), error)) error {
	for i := range v.Kernels {
		k := &v.Kernels[i]
		f, err := find(k.Name)
		if err != nil {
			return err
		}
		k.Fn = func(a *runtime.GemmArgs) { f(words(a)) }
	}
	if p := v.Prepare; p != nil {
		f, err := find(p.Name)
		if err != nil {
			return err
		}
		p.Fn = func(a *runtime.PrepareArgs) { f(words(a)) }
	}
	return nil
}

// words are the parameters of a kernel.
func words[Args runtime.GemmArgs | runtime.PrepareArgs](a *Args) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(a)), unsafe.Sizeof(*a)/8)
}
