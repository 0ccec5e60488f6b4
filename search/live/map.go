package live

import (
	"errors"

	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker"
)

// Mappable is nil if this process can map kernels. Otherwise it says why not: see jit.ErrPlatform.
func Mappable() error { return jit.Mappable() }

// Forbidden is why a policy of this machine lets no kernel be mapped in this process. It is nil if kernels can be mapped, or
// cannot for another reason.
func Forbidden() error {
	var why *jit.Denied
	if errors.As(jit.Mappable(), &why) {
		return why
	}
	return nil
}

// Leave removes the temporary files of work that still goes on, for a process that ends without waiting for it.
func Leave() { jit.Leave() }

// Why Assemble has no product of kernels that may well be right.
var (
	ErrPlatform = jit.ErrPlatform    // they equal the definition, but cannot be mapped in this process
	ErrNoSource = worker.ErrNoSource // they can be neither mapped nor linked here, and nothing ran them
)

// IsFault reports whether an error is about a kernel that is wrong, crashed or did not end.
func IsFault(err error) bool { return worker.IsFault(err) }
