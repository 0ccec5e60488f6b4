package command

import (
	"fmt"

	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/session"
)

// mapping is nil if this process can map kernels: commands that measure kernels in their own process need that. Otherwise it
// says why not, and what helps.
func mapping(command string) error {
	if err := live.Mappable(); err != nil {
		return fmt.Errorf("%s: %w: it measures kernels in its own process, so allow that; compile, tune and compare do without", command, err)
	}
	return nil
}

// noteLinked says why workers on m, nil: here, cannot map kernels, so that go build links them, which takes longer.
func (c *cli) noteLinked(m *session.Machine) {
	if why := m.Unmapped(); why != "" {
		fmt.Fprintf(c.err, "tmacc: kernels are linked by go build, which takes longer: %s\n", why)
	}
}

// noteDenied says that kernels are checked but not measured, and why, if a policy of this machine is the reason.
func (c *cli) noteDenied() {
	if why := forbidden(); why != nil {
		fmt.Fprintf(c.err, "tmacc: kernels are checked in a program that go build links, and not measured: %v\n", why)
	}
}

// forbidden is why a policy of this machine lets no kernel be mapped; nil if none does.
func forbidden() error { return live.Forbidden() }
