package runtime

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// Choose is the number of the variant that New would run on this CPU, by EnvCPU, and -1 for pure Go. It says why, and on standard
// error what EnvCPU names in vain. The variants need no kernels; name stands for their product.
func Choose(name string, vs []abi.Variant) (int, string) {
	s := Spec{Variants: vs}
	return choose(name, s.candidates(), cpu.ParseMask(os.Getenv(EnvCPU)))
}

// choose is the candidate that this CPU runs, of those that m allows. It says on standard error which words of m mean nothing
// for the product of this name, and why none of the targets runs that m names.
func choose(name string, cs []cpu.Candidate, m cpu.Mask) (int, string) {
	i, why := cpu.Choose(cs, cpu.This(), m)
	for _, word := range m.Unknown(name, cs, i) {
		warn(EnvCPU + ": " + word)
	}
	if why := m.Unmet("products", cs, i, cpu.Has); why != "" {
		warn(fmt.Sprintf("%s=%s: %s", EnvCPU, m.Text, why))
	}
	return i, why
}

// candidates are the variants that one is chosen of.
func (s *Spec) candidates() (out []cpu.Candidate) {
	for i := range s.Variants {
		out = append(out, candidate(&s.Variants[i]))
	}
	return out
}

func candidate(v *abi.Variant) cpu.Candidate {
	c := cpu.Candidate{Target: v.Target, Need: v.Need, CPUs: v.CPUs}
	if v.Device != nil {
		arch, _, _ := strings.Cut(v.Target, "/")
		c.Named, c.Serves = true, []string{arch}
	}
	return c
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
		runs := p.variant != nil && v.Target == p.variant.Target
		for _, k := range v.Kernels {
			of := state
			if runs {
				of = p.runs(&k)
			}
			fmt.Fprintf(&b, "%s %s, %d rows by %d columns%s: %s\n", v.Target, k.Name, k.Rows, k.Cols, exactness(&k), of)
		}
		if f := v.Fused; f != nil {
			of := state
			if runs && p.variant.Fused != nil {
				of = p.how(&f.Kernel, "runs for n = 1 in Multiply"+mostText(f.Most))
			} else if runs {
				of = p.states[f.Name]
			}
			fmt.Fprintf(&b, "%s %s, %d rows by %d columns of up to %d floats%s: %s\n", v.Target, f.Name, f.Rows, f.Cols, f.Room, exactness(&f.Kernel), of)
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

// runs says for which numbers n of rows of activations a kernel of the variant runs, as they are cut, or why it does not.
func (p *Product) runs(k *abi.Kernel) string {
	all := p.variant.Kernels
	i := slices.IndexFunc(all, func(x abi.Kernel) bool { return x.Cols == k.Cols })
	if i < 0 {
		return p.states[k.Name]
	}
	widest := all[len(all)-1].Cols
	var which []int
	for n := 1; n <= widest; n++ {
		if c := p.cut.of(n); c.Full > 0 && i == len(all)-1 || c.Some > 0 && c.Middle == i || c.Tail == i {
			which = append(which, n)
		}
	}
	switch {
	case len(all) == 1:
		return p.how(k, "runs for every n")
	case i == len(all)-1: // all of the last range and beyond
		for len(which) > 1 && which[len(which)-2] == which[len(which)-1]-1 {
			which = which[:len(which)-1]
		}
		return p.how(k, "runs for n = "+ranges(which)+" and more")
	}
	return p.how(k, "runs for n = "+ranges(which)+", and such a rest of more")
}

// mostRanges is how many ranges a text has.
const mostRanges = 3

// ranges is a text of ascending numbers: "1, 3, 9 to 12", without the middle ones if there are many.
func ranges(of []int) string {
	var texts []string
	for i := 0; i < len(of); {
		j := i
		for j+1 < len(of) && of[j+1] == of[j]+1 {
			j++
		}
		text := fmt.Sprint(of[i])
		if j > i {
			text += fmt.Sprint(" to ", of[j])
		}
		texts = append(texts, text)
		i = j + 1
	}
	if n := len(texts); n > mostRanges {
		texts = append(texts[:mostRanges-1], "...", texts[n-1])
	}
	return strings.Join(texts, ", ")
}

// how is a text about a kernel, and how the device runs it.
func (p *Product) how(k *abi.Kernel, text string) string {
	if how := p.states[k.Name]; how != "" {
		return text + ", " + how
	}
	return text
}

// mostText says for what products a kernel is predicted to be faster than one for prepared activations.
func mostText(most []abi.FusedRows) string {
	var all []string
	for _, m := range most {
		all = append(all, fmt.Sprintf("%d of %d", m.Rows, m.K))
	}
	if len(all) == 0 {
		return ""
	}
	return ", as predicted faster, by at most " + strings.Join(all, ", ") + " weights"
}

// exactness says that a kernel is bounded.
func exactness(k *abi.Kernel) string {
	if k.ErrorMost == 0 {
		return ""
	}
	return fmt.Sprintf(", exact:false, integer sums within %d for each %d of K", k.ErrorMost, k.ErrorStep)
}
