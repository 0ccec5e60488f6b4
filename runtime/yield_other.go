//go:build !linux

package runtime

// yield would let another thread run on this CPU.
func yield() {}
