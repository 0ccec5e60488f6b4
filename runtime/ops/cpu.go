package ops

import (
	"fmt"
	"os"
	"strings"

	"github.com/tmacc/tmacc/runtime/cpu"
)

// chosen is the number of the target whose assembly runs, -1 for plain Go, and why says why.
var chosen, why = cpu.Choose(targets, cpu.This(), mask())

// mask is what the user allows. Words that name none of the targets are for products, which have more of them.
func mask() cpu.Mask { return cpu.ParseMask(os.Getenv(cpu.Env)).Of(targets) }

// Target is the target whose assembly runs: "amd64/avx2", or "purego".
func Target() string {
	if chosen < 0 {
		return cpu.PureGo
	}
	return targets[chosen].Target
}

// Info says what runs and why. The environment variable TMACC_CPU changes it, as it does for products.
func Info() string {
	running := Target()
	var b strings.Builder
	fmt.Fprintf(&b, "float operators run on %s (%s)\n", running, why)
	for _, t := range targets {
		fmt.Fprintf(&b, "%s: %s\n", t.Target, mask().State(t, running))
	}
	return b.String()
}
