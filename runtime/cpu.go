package runtime

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/tmacc/tmacc/runtime/abi"
	"github.com/tmacc/tmacc/runtime/cpu"
)

// pureGo is the name of the target that every CPU has.
const pureGo = "purego"

// hostHas reports whether this CPU and its operating system support a feature.
func hostHas(feature string) bool {
	f := cpuid.ParseFeature(feature)
	return f != cpuid.UNKNOWN && cpuid.CPU.Supports(f)
}

// lacks names the features of need that are not there.
func lacks(need []string, has func(string) bool) string {
	var missing []string
	for _, f := range need {
		if !has(f) {
			missing = append(missing, f)
		}
	}
	return strings.Join(missing, " and ")
}

// host is the CPU that a variant is chosen for.
type host struct {
	has func(feature string) bool
	id  cpu.ID
}

// thisCPU is the one that runs this program.
func thisCPU() host {
	c := cpuid.CPU
	return host{hostHas, cpu.ID{Vendor: c.VendorString, Family: c.Family, Model: c.Model}}
}

// choose is the variant to run of those that m allows, -1 for pure Go, and why: of the first instruction set that h
// has, the variant for its core, else the one for all CPUs, else any.
func (s *Spec) choose(h host, m mask) (int, string) {
	best, why := -1, "this CPU runs no other"
	if len(s.Variants) == 0 {
		why = "this binary has no other"
	}
	for i, v := range s.Variants {
		if !m.allows(v.Target) || lacks(v.Need, m.filter(h.has)) != "" {
			continue
		}
		if best < 0 || isa(v.Target) == isa(s.Variants[best].Target) && s.fit(i, h, m) > s.fit(best, h, m) {
			best, why = i, "the first that this CPU runs"
		}
	}
	return best, m.why(why)
}

// Choose is the number of the variant that New would run on this CPU, by EnvCPU, and -1 for pure Go. It says why, and on standard
// error what EnvCPU names in vain. The variants need no kernels; name stands for their product.
func Choose(name string, vs []abi.Variant) (int, string) {
	s, m := Spec{Name: name, Variants: vs}, parseMask(os.Getenv(EnvCPU))
	i, why := s.choose(thisCPU(), m)
	m.complain(&s, i)
	return i, why
}

// complain says on standard error which words of m mean nothing for s, and why none of the targets runs that m names.
func (m mask) complain(s *Spec, chosen int) {
	for _, word := range m.unknown(s, chosen) {
		warn(EnvCPU + ": " + word)
	}
	if why := m.unmet(s, chosen, hostHas); why != "" {
		warn(fmt.Sprintf("%s=%s: %s", EnvCPU, m.env, why))
	}
}

// fit is how well a variant suits the core of h: more is better.
func (s *Spec) fit(i int, h host, m mask) int {
	switch v := &s.Variants[i]; {
	case m.names(v.Target):
		return 3
	case cpu.Among(v.CPUs, h.id):
		return 2
	case len(v.CPUs) == 0:
		return 1
	}
	return 0
}

// isa is the instruction set of a target: "amd64/avx2" of "amd64/avx2+my-core".
func isa(target string) string {
	name, _, _ := strings.Cut(target, "+")
	return name
}

// mask is EnvCPU taken apart; the zero one excludes nothing.
type mask struct {
	env     string
	targets []string // empty: all
	without map[string]bool
}

func parseMask(env string) mask {
	m := mask{env: env, without: map[string]bool{}}
	for word := range strings.SplitSeq(env, ",") {
		word = strings.TrimSpace(word)
		if f, ok := strings.CutPrefix(word, "-"); ok {
			m.without[strings.ToUpper(f)] = true
		} else if word != "" {
			m.targets = append(m.targets, strings.ToLower(word))
		}
	}
	return m
}

// allows says that m names no target, or this one, or its instruction set.
func (m mask) allows(target string) bool {
	return len(m.targets) == 0 || m.names(target) || m.names(isa(target))
}

// names says that m names that very target.
func (m mask) names(target string) bool {
	return slices.ContainsFunc(m.targets, func(word string) bool { return names(word, target) })
}

// names says that a word is a target, with or without its architecture, or the core that it is for: avx2+my-core is my-core, too.
func names(word, target string) bool {
	arch, short, _ := strings.Cut(target, "/")
	_, core, _ := strings.Cut(short, "+")
	word = strings.TrimPrefix(word, arch+"/")
	return word != "" && (word == short || word == core || word == target)
}

// unknown says of each word of m that it means nothing for s, and what runs, which variant i is.
func (m mask) unknown(s *Spec, i int) (out []string) {
	runs := "in pure Go"
	if i >= 0 {
		runs = "on " + s.Variants[i].Target
	}
	have := []string{pureGo}
	for _, v := range s.Variants {
		have = append(have, v.Target)
	}
	for _, t := range m.targets {
		if !slices.ContainsFunc(have, mask{targets: []string{t}}.allows) {
			out = append(out, fmt.Sprintf("unknown %q: %s has %s, and runs %s", t, s.Name, strings.Join(have, ", "), runs))
		}
	}
	for _, f := range slices.Sorted(maps.Keys(m.without)) {
		if cpuid.ParseFeature(f) == cpuid.UNKNOWN {
			out = append(out, fmt.Sprintf("unknown %q: no feature of a CPU: the kernels of %s need %s", "-"+strings.ToLower(f), s.Name, s.needs()))
		}
	}
	return out
}

// unmet says why no target runs that m names, where the product has some of them: what their kernels need and this CPU,
// or m itself, does not have. It is "" if one runs, and if m names pure Go.
func (m mask) unmet(s *Spec, chosen int, has func(string) bool) string {
	if chosen >= 0 || slices.Contains(m.targets, pureGo) {
		return ""
	}
	var why []string
	for _, v := range s.Variants {
		switch missing := lacks(v.Need, has); {
		case len(m.targets) == 0 || !m.allows(v.Target):
		case missing != "":
			why = append(why, fmt.Sprintf("%s needs %s, which this CPU lacks", v.Target, missing))
		default:
			why = append(why, fmt.Sprintf("%s needs %s, which it excludes", v.Target, lacks(v.Need, m.filter(has))))
		}
	}
	if why == nil {
		return ""
	}
	return strings.Join(why, "; ") + ": products run in pure Go"
}

// needs names the features that variants of s need, each once.
func (s *Spec) needs() string {
	var all []string
	for _, v := range s.Variants {
		for _, f := range v.Need {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// warned are the texts that warn has written.
var warned sync.Map

// warn writes a text for the user of the program to standard error, once.
func warn(text string) {
	if _, again := warned.LoadOrStore(text, true); !again {
		fmt.Fprintf(os.Stderr, "tmacc: %s\n", text)
	}
}

// excludes says that v would not run even if the CPU had all features.
func (m mask) excludes(v *abi.Variant) bool {
	all := func(string) bool { return true }
	return !m.allows(v.Target) || lacks(v.Need, m.filter(all)) != ""
}

func (m mask) filter(has func(string) bool) func(string) bool {
	return func(f string) bool { return !m.without[strings.ToUpper(f)] && has(f) }
}

func (m mask) why(reason string) string {
	if m.env == "" {
		return reason
	}
	return fmt.Sprintf("%s with %s=%s", reason, EnvCPU, m.env)
}

// describe is the text of Info, for a variant that was chosen from those that m allows.
func (p *Product) describe(why string, m mask) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s%s runs on %s (%s); packed layout %016x, tiles of %d rows\n",
		p.spec.Name, p.spec.Weight.Name, p.spec.act(), p.Target(), why, p.hash, p.layout.TileM)
	for i := range p.spec.Variants {
		v := &p.spec.Variants[i]
		state := p.state(v, m)
		for _, k := range v.Kernels {
			fmt.Fprintf(&b, "%s %s, %d rows by %d columns%s: %s\n", v.Target, k.Name, k.Rows, k.Cols, exactness(&k), state)
		}
		if v.Prepare != nil {
			fmt.Fprintf(&b, "%s %s, activations: %s\n", v.Target, v.Prepare.Name, state)
		}
	}
	if p.variant == nil {
		return b.String() + pureGo + ": runs\n"
	}
	return b.String() + pureGo + ": not needed\n"
}

// exactness says that a kernel is bounded.
func exactness(k *abi.Kernel) string {
	if k.ErrorMost == 0 {
		return ""
	}
	return fmt.Sprintf(", exact:false, integer sums within %d for each %d of K", k.ErrorMost, k.ErrorStep)
}

func (p *Product) state(v *abi.Variant, m mask) string {
	missing := lacks(v.Need, hostHas)
	switch {
	case p.Target() == v.Target:
		return "runs"
	case missing != "":
		return "skipped, this CPU lacks " + missing
	case m.excludes(v):
		return fmt.Sprintf("skipped, %s=%s excludes it", EnvCPU, m.env)
	case len(v.CPUs) > 0 && !cpu.Among(v.CPUs, thisCPU().id):
		return "skipped, it is for the core of other CPUs"
	}
	return "skipped, " + p.Target() + " was chosen"
}
