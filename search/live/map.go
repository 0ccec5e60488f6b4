package live

import (
	"errors"

	"github.com/tmacc/tmacc/search/jit"
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
