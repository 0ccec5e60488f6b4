package main

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/search/jit"
	"github.com/tmacc/tmacc/search/worker"
)

// mapping is nil if this process can map kernels, as commands need that measure them in their own process. Else it says why not, and what helps.
func mapping(command string) error {
	if err := jit.Mappable(); err != nil {
		return fmt.Errorf("%s: %w: it measures kernels in its own process, so allow that; compile, tune and compare do without", command, err)
	}
	return nil
}

// noteLinked says why workers on m, nil: here, run kernels that go build links, which takes longer, unless they map them.
func (c *cli) noteLinked(m *worker.Machine) {
	if why := m.Unmapped(); why != "" {
		fmt.Fprintf(c.err, "tmacc: kernels are linked by go build, which takes longer: %s\n", why)
	}
}

// noteDenied says why kernels are checked but not measured, if it is a policy of this machine.
func (c *cli) noteDenied() {
	if why := forbidden(); why != nil {
		fmt.Fprintf(c.err, "tmacc: kernels are checked in a program that go build links, and not measured: %v\n", why)
	}
}

// forbidden is why a policy of this machine lets no kernel be mapped, or nil.
func forbidden() *jit.Denied {
	var why *jit.Denied
	errors.As(jit.Mappable(), &why)
	return why
}
