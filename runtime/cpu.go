package runtime

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// candidates are the variants that one is chosen of.
func (s *Spec) candidates() (out []cpu.Candidate) {
	for i := range s.Variants {
		out = append(out, candidate(&s.Variants[i]))
	}
	return out
}

func candidate(v *abi.Variant) cpu.Candidate {
	return cpu.Candidate{Target: v.Target, Need: v.Need, CPUs: v.CPUs}
}

// warned are the texts that warn has written.
var warned sync.Map

// warn writes a text for the user of the program to standard error, once.
func warn(text string) {
	if _, again := warned.LoadOrStore(text, true); !again {
		fmt.Fprintf(os.Stderr, "tmacc: %s\n", text)
	}
}

// describe is the text of Info, for a variant that was chosen from those that m allows.
func (p *Product) describe(why string, m cpu.Mask) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s%s runs on %s (%s); packed layout %016x, tiles of %d rows\n",
		p.spec.Name, p.spec.Weight.Name, p.spec.act(), p.Target(), why, p.hash, p.layout.TileM)
	for i := range p.spec.Variants {
		v := &p.spec.Variants[i]
		state := m.State(candidate(v), p.Target())
		for _, k := range v.Kernels {
			fmt.Fprintf(&b, "%s %s, %d rows by %d columns%s: %s\n", v.Target, k.Name, k.Rows, k.Cols, exactness(&k), state)
		}
		if v.Prepare != nil {
			fmt.Fprintf(&b, "%s %s, activations: %s\n", v.Target, v.Prepare.Name, state)
		}
	}
	if p.variant == nil {
		return b.String() + cpu.PureGo + ": runs\n"
	}
	return b.String() + cpu.PureGo + ": not needed\n"
}

// exactness says that a kernel is bounded.
func exactness(k *abi.Kernel) string {
	if k.ErrorMost == 0 {
		return ""
	}
	return fmt.Sprintf(", exact:false, integer sums within %d for each %d of K", k.ErrorMost, k.ErrorStep)
}
