package runtime

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// EnvLog is the environment variable that makes products say on standard error what
// runs, and why: any value but "" and "0". Each shape of a product is said once.
const EnvLog = "TMACC_LOG"

// logger says what runs.
type logger struct {
	to   io.Writer
	mu   sync.Mutex
	said map[[3]int]bool // m, k, n
}

// newLogger is the logger that EnvLog asks for, nil for none.
func newLogger(env string) *logger {
	if env == "" || env == "0" {
		return nil
	}
	return &logger{to: os.Stderr, said: map[[3]int]bool{}}
}

// say says which kernels t runs, unless it has.
func (l *logger) say(t *task) {
	shape := [3]int{t.w.m, t.w.k, t.a.n}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said[shape] {
		return
	}
	var b strings.Builder
	if len(l.said) == 0 {
		why, _, _ := strings.Cut(t.p.info, "\n")
		fmt.Fprintf(&b, "tmacc: %s\n", why)
	}
	l.said[shape] = true
	fmt.Fprintf(&b, "tmacc: %s: %d rows of %d times %d activations: %s\n", t.p.spec.Name, t.w.m, t.w.k, t.a.n, t.kernels())
	fmt.Fprint(l.to, b.String())
}

// kernels names the kernels that t runs.
func (t *task) kernels() string {
	if t.p.variant == nil {
		return cpu.PureGo
	}
	if t.fused {
		f := t.p.variant.Fused
		return fmt.Sprintf("%s (%d by %d, of floats)", f.Name, f.Rows, f.Cols)
	}
	var names []string
	for i, last := 0, -1; i < t.a.blocks(); i++ {
		b, _, _ := t.a.at(i)
		if b.kernel != last {
			k := &t.p.variant.Kernels[b.kernel]
			names = append(names, fmt.Sprintf("%s (%d by %d)", k.Name, k.Rows, k.Cols))
		}
		last = b.kernel
	}
	return strings.Join(names, ", then ")
}
