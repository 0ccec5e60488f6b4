//go:build unix

package worker

import (
	"syscall"
	"testing"
	"time"
)

// A process that gets no CPU time for longer than a request may take is not late, as on a busy machine.
func TestStopped(t *testing.T) {
	c := load(t, Options{Limit: 3 * time.Second}, Mapped, broken)
	runs(t, c)
	p := c.p.cmd.Process
	slow(t, c, func() {
		p.Signal(syscall.SIGSTOP)
		time.AfterFunc(4*time.Second, func() { p.Signal(syscall.SIGCONT) })
	})
	if c.p.cmd.Process != p {
		t.Error("another process has answered")
	}
}
