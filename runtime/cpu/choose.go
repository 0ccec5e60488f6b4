package cpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// Env is the environment variable that narrows which kernels may run. runtime.EnvCPU says what it may be.
const Env = "TMACC_CPU"

// PureGo is the name of the target that every CPU has.
const PureGo = "purego"

// Host is a CPU that a target is chosen for.
type Host struct {
	Has func(feature string) bool // features as klauspost/cpuid/v2 names them
	ID  ID
}

// This is the CPU that runs this program, with what its operating system supports.
func This() Host {
	c := cpuid.CPU
	return Host{Has, ID{Vendor: c.VendorString, Family: c.Family, Model: c.Model}}
}

// Has reports whether this CPU and its operating system support a feature.
func Has(feature string) bool {
	f := cpuid.ParseFeature(feature)
	return f != cpuid.UNKNOWN && cpuid.CPU.Supports(f)
}

// Lacks names the features of need that are not there, "" if all are.
func Lacks(need []string, has func(string) bool) string {
	var missing []string
	for _, f := range need {
		if !has(f) {
			missing = append(missing, f)
		}
	}
	return strings.Join(missing, " and ")
}

// Candidate is a target that there are kernels for.
type Candidate struct {
	Target string   // "amd64/avx2"
	Need   []string // CPU features
	CPUs   []Set    // whose core the kernels are for; none: all with the features
	Serves []string // other targets that have no kernels of their own: who names one of these gets Target
	Named  bool     // it runs only where a mask names it
}

// Choose is the number of the candidate to run of those that m allows, -1 for pure Go, and why: of the first instruction
// set that h has, the candidate for its core, else the one for all CPUs, else any.
func Choose(cs []Candidate, h Host, m Mask) (int, string) {
	best, why := -1, "this CPU runs no other"
	if len(cs) == 0 {
		why = "this binary has no other"
	}
	for i, c := range cs {
		if !m.permits(c) || Lacks(c.Need, m.filter(h.Has)) != "" {
			continue
		}
		if best < 0 || isa(c.Target) == isa(cs[best].Target) && c.fit(h, m) > cs[best].fit(h, m) {
			best, why = i, "the first that this CPU runs"
		}
	}
	return best, m.why(why)
}

// fit is how well a candidate suits the core of h: more is better.
func (c Candidate) fit(h Host, m Mask) int {
	switch {
	case m.names(c.Target):
		return 3
	case Among(c.CPUs, h.ID):
		return 2
	case len(c.CPUs) == 0:
		return 1
	}
	return 0
}

// isa is the instruction set of a target: "amd64/avx2" of "amd64/avx2+my-core".
func isa(target string) string {
	name, _, _ := strings.Cut(target, "+")
	return name
}

// Mask is the value of Env taken apart; the zero one excludes nothing.
type Mask struct {
	Text    string
	targets []string // empty: all
	without map[string]bool
}

// ParseMask takes the value of Env apart.
func ParseMask(text string) Mask {
	m := Mask{Text: text, without: map[string]bool{}}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if f, ok := strings.CutPrefix(word, "-"); ok {
			m.without[strings.ToUpper(f)] = true
		} else if word != "" {
			m.targets = append(m.targets, strings.ToLower(word))
		}
	}
	return m
}

// Only is the mask that names one target.
func Only(target string) Mask { return Mask{targets: []string{target}} }

// Of is m as it is for the candidates: words that name none of them, nor pure Go, are left out, and of a core that they do not
// know the instruction set is taken.
func (m Mask) Of(cs []Candidate) Mask {
	var words []string
	for _, word := range m.targets {
		for _, w := range []string{word, isa(word)} {
			if w == PureGo || slices.ContainsFunc(cs, Only(w).permits) {
				words = append(words, w)
				break
			}
		}
	}
	m.targets = words
	return m
}

// permits says that m allows a candidate, or a target that it serves.
func (m Mask) permits(c Candidate) bool {
	if c.Named && len(m.targets) == 0 {
		return false
	}
	return m.allows(c.Target) || slices.ContainsFunc(c.Serves, m.allows)
}

// allows says that m names no target, or this one, or its instruction set.
func (m Mask) allows(target string) bool {
	return len(m.targets) == 0 || m.names(target) || m.names(isa(target))
}

// names says that m names that very target.
func (m Mask) names(target string) bool {
	return slices.ContainsFunc(m.targets, func(word string) bool { return names(word, target) })
}

// names says that a word is a target, with or without its architecture, or the core that it is for: avx2+my-core is my-core, too.
func names(word, target string) bool {
	arch, short, _ := strings.Cut(target, "/")
	_, core, _ := strings.Cut(short, "+")
	word = strings.TrimPrefix(word, arch+"/")
	return word != "" && (word == short || word == core || word == target)
}

// Excludes says that c would not run even if the CPU had all features.
func (m Mask) Excludes(c Candidate) bool {
	all := func(string) bool { return true }
	return !m.permits(c) || Lacks(c.Need, m.filter(all)) != ""
}

func (m Mask) filter(has func(string) bool) func(string) bool {
	return func(f string) bool { return !m.without[strings.ToUpper(f)] && has(f) }
}

func (m Mask) why(reason string) string {
	if m.Text == "" {
		return reason
	}
	return fmt.Sprintf("%s with %s=%s", reason, Env, m.Text)
}

// Unknown names each word of m that means nothing for the candidates, with the one that runs: number i. name is that of the
// product that they are for.
func (m Mask) Unknown(name string, cs []Candidate, i int) (out []string) {
	runs := "in pure Go"
	if i >= 0 {
		runs = "on " + cs[i].Target
	}
	for _, t := range m.unknownTargets(cs) {
		out = append(out, fmt.Sprintf("unknown %q: %s has %s, and runs %s", t, name, strings.Join(have(cs), ", "), runs))
	}
	for _, f := range m.unknownFeatures() {
		out = append(out, fmt.Sprintf("unknown %q: no feature of a CPU: the kernels of %s need %s", f, name, needs(cs)))
	}
	return out
}

// Check refuses a mask with words that mean nothing where the candidates are all targets that there are.
func (m Mask) Check(cs []Candidate) error {
	if all := m.unknownTargets(cs); len(all) > 0 {
		return fmt.Errorf("%s=%s: unknown %q: have %s", Env, m.Text, all[0], strings.Join(have(cs), ", "))
	}
	if all := m.unknownFeatures(); len(all) > 0 {
		return fmt.Errorf("%s=%s: unknown %q: no feature of a CPU; kernels need %s", Env, m.Text, all[0], needs(cs))
	}
	return nil
}

// unknownTargets are the words that name no candidate and not pure Go.
func (m Mask) unknownTargets(cs []Candidate) []string {
	return slices.DeleteFunc(slices.Clone(m.targets), func(t string) bool {
		named := func(c Candidate) bool { return c.Named && Only(t).permits(c) }
		return slices.ContainsFunc(have(cs), Only(t).allows) || slices.ContainsFunc(cs, named)
	})
}

// unknownFeatures are the words that exclude an unknown feature.
func (m Mask) unknownFeatures() (out []string) {
	for _, f := range slices.Sorted(maps.Keys(m.without)) {
		if cpuid.ParseFeature(f) == cpuid.UNKNOWN {
			out = append(out, "-"+strings.ToLower(f))
		}
	}
	return out
}

// have are the targets that a mask may name.
func have(cs []Candidate) []string {
	names := []string{PureGo}
	for _, c := range cs {
		names = append(names, c.Target)
	}
	return names
}

// Unmet says why no candidate runs that m names, where there are some of them: what their kernels need and this CPU,
// or m itself, does not have. It is "" if one runs, and if m names pure Go. `what` runs then, such as "products".
func (m Mask) Unmet(what string, cs []Candidate, chosen int, has func(string) bool) string {
	if chosen >= 0 || slices.Contains(m.targets, PureGo) {
		return ""
	}
	var why []string
	for _, c := range cs {
		switch missing := Lacks(c.Need, has); {
		case len(m.targets) == 0 || !m.allows(c.Target):
		case missing != "":
			why = append(why, fmt.Sprintf("%s needs %s, which this CPU lacks", c.Target, missing))
		default:
			why = append(why, fmt.Sprintf("%s needs %s, which it excludes", c.Target, Lacks(c.Need, m.filter(has))))
		}
	}
	if why == nil {
		return ""
	}
	return strings.Join(why, "; ") + ": " + what + " run in pure Go"
}

// needs names the features that candidates need, each once.
func needs(cs []Candidate) string {
	var all []string
	for _, c := range cs {
		for _, f := range c.Need {
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

// State says of a candidate what became of it when `running` was chosen, whose name Choose gave.
func (m Mask) State(c Candidate, running string) string {
	missing := Lacks(c.Need, Has)
	switch {
	case running == c.Target:
		return "runs"
	case missing != "":
		return "skipped, this CPU lacks " + missing
	case c.Named && len(m.targets) == 0:
		arch, _, _ := strings.Cut(c.Target, "/")
		return fmt.Sprintf("skipped, On(%q) or %s=%s chooses it", arch, Env, arch)
	case m.Excludes(c):
		return fmt.Sprintf("skipped, %s=%s excludes it", Env, m.Text)
	case len(c.CPUs) > 0 && !Among(c.CPUs, This().ID):
		return "skipped, it is for the core of other CPUs"
	}
	return "skipped, " + running + " was chosen"
}
