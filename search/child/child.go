// Package child has what processes share that this program starts to run code of others: how they stand apart, what they have
// printed, and the signal that ended them.
package child

import (
	"regexp"
	"sync"
)

// Head keeps the first bytes written to it. Its methods may be called concurrently.
type Head struct {
	mu  sync.Mutex
	buf []byte
}

const headBytes = 16 << 10

// Write implements io.Writer. It writes all of p, and keeps what there is room for.
func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, p[:min(len(p), headBytes-len(h.buf))]...)
	return len(p), nil
}

// String is what was kept.
func (h *Head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.buf)
}

// signalName is in what Go says of a signal that ends a program.
var signalName = regexp.MustCompile(`(?m)^(?:\[signal )?(SIG[A-Z]+)\b`)

// Signal is the name of the signal that a Go program says has ended it, "" if it says so of none.
func Signal(printed string) string {
	if m := signalName.FindStringSubmatch(printed); m != nil {
		return m[1]
	}
	return ""
}
