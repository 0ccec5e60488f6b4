package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/ir/format/blocks"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/runtime/cpu"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
)

// asJSON adds the flag -json.
func asJSON(cmd *cobra.Command) *bool { return cmd.Flags().Bool("json", false, "print JSON") }

func (c *cli) formats() *cobra.Command {
	cmd := &cobra.Command{
		Use: "formats", Args: between(0, 0),
		Short: "list the weight formats",
		Long: `List the built-in weight formats.

A name may be followed by what differs from the row: w4-g32 has one f16 scale per
32 weights along K, w4-g128-f32 one f32 scale per 128, w4-g32-z a zero point per
scale, w2-tensor one scale. With -f32act behind it activations stay float32, for codes
of up to 4 bits without zero points and minimums: w1-f32act. A format of your own is a JSON file with the fields
that -json prints.`,
	}
	js := asJSON(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		var all []format.Weight
		for _, name := range format.Names() {
			w, err := format.Lookup(name)
			if err != nil {
				return err
			}
			all = append(all, w)
		}
		if *js {
			return printJSON(c.out, all)
		}
		t := table{head: []string{"format", "bits", "nominal", "scale", "gguf", "levels"}, wide: 5}
		for _, w := range all {
			t.add(w.Name, w.Bits, w.Bound, scaling(w), blockTypes(w.Name), levels(w))
		}
		t.print(c.out, widthOf(c.out))
		return nil
	}
	return cmd
}

// scaling is what weights of w share: "u8 and min per 32, f16 per 256".
func scaling(w format.Weight) string {
	text := w.Scale.String()
	if w.Min {
		text += " and min"
	}
	text += " per " + scope(w)
	if w.Super > 0 {
		text += fmt.Sprintf(", %s per %d", format.F16, w.Super)
	}
	return text
}

// scope is what shares a scale of w.
func scope(w format.Weight) string {
	if w.Per == format.PerGroup {
		return fmt.Sprint(w.Group)
	}
	return w.Per.String()
}

// blockTypes are the GGUF types that are read into the format of that name, or,
// with what differs from it, into one derived of it; "-" if none.
func blockTypes(name string) string {
	var types []string
	for _, t := range blocks.Types() {
		b, err := blocks.Lookup(t)
		base, differs, derived := strings.Cut(b.Weight, "-")
		switch {
		case err != nil || base != name || strings.Contains(t, ":"):
		case derived:
			types = append(types, t+" ("+differs+")")
		default:
			types = append(types, t)
		}
	}
	if len(types) == 0 {
		return "-"
	}
	return strings.Join(types, " ")
}

// levels are the values of w's codes.
func levels(w format.Weight) string {
	if _, _, ok := w.Affine(); ok && len(w.Levels) > 4 {
		return fmt.Sprintf("%d to %d", w.MinLevel(), w.MaxLevel())
	}
	if w.Books > 0 {
		return fmt.Sprintf("%d books of %d, %d to %d", w.Books, w.Codes(), w.MinLevel(), w.MaxLevel())
	}
	return strings.Trim(fmt.Sprint(w.Levels), "[]")
}

// targetInfo is an instruction set as -json prints it.
type targetInfo struct {
	Name     string   `json:"name"`
	Bits     int      `json:"vector_bits"`
	Vectors  int      `json:"vector_registers"`
	Features []string `json:"features"`
	Runs     bool     `json:"runs_here"`
	Lacks    string   `json:"lacks,omitempty"`
}

func targetInfos() []targetInfo {
	var all []targetInfo
	for _, t := range targets.Ordinary() {
		m, missing := t.Machine(), lacks(t)
		all = append(all, targetInfo{m.Name, m.VecBits, m.NumVec, targets.Features(t), missing == "", missing})
	}
	return all
}

func (c *cli) targets() *cobra.Command {
	cmd := &cobra.Command{
		Use: "targets", Args: between(0, 0),
		Short: "list the targets and which of them run here",
		Long: `List the targets: instruction sets that kernels are compiled for, and the CPU
features they need beyond the architecture's own. Every generated package also has pure Go
for all other CPUs. A target with a core, TARGET+CORE, has the same instructions and is tuned
for that core: see tmacc cores.

Besides there are spirv/dot, spirv/coop and spirv/plain: shaders for devices of Vulkan, with integer dot products, with
cooperative matrices too, and with neither. spirv is the first.`,
	}
	js := asJSON(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *js {
			return printJSON(c.out, targetInfos())
		}
		t := table{head: []string{"target", "vectors", "here", "CPU features"}, wide: -1}
		for _, i := range targetInfos() {
			here := "runs"
			if !i.Runs {
				here = "lacks " + i.Lacks
			}
			t.add(i.Name, fmt.Sprintf("%d x %d bits", i.Vectors, i.Bits), here, listed(i.Features))
		}
		t.print(c.out, 0)
		return nil
	}
	return cmd
}

// coreInfo is a processor core as -json prints it.
type coreInfo struct {
	Name    string    `json:"name"`
	Targets []string  `json:"targets"`
	CPUs    []cpu.Set `json:"cpus"` // none: all without a core of their own
	Here    bool      `json:"here"` // this machine has it, or what stands for it
}

// coreInfos lists the built-in cores.
func coreInfos() (all []coreInfo) {
	for _, c := range targets.Cores() {
		all = append(all, infoOf(c, targets.All()))
	}
	return all
}

// infoOf describes a core and lists the targets in ts that are for it.
func infoOf(c core.Core, ts []targets.Target) coreInfo {
	info := coreInfo{Name: c.Name, CPUs: append([]cpu.Set{}, c.CPUs...)}
	best := measure.BestOn(timing.ThisHost(), "")
	for _, t := range ts {
		if m := t.Machine(); m.Core.Name == c.Name {
			info.Targets = append(info.Targets, m.Name)
		}
	}
	info.Here = best != nil && c.Name == best.Machine().Core.Name
	if id := timing.ThisHost().ID(); c.Own {
		info.Here = len(c.CPUs) == 0 || cpu.Among(c.CPUs, id)
	}
	return info
}

func (c *cli) cores() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cores [NAME or FILE.json]", Args: between(0, 1),
		Short: "list the processor cores that kernels can be tuned for",
		Long: `List the processor cores that are described: what instructions cost there, and how kernels read
memory. Schedules are chosen for a core; the results are the same bits on all cores. CPUs that no core
names run the kernels for the ordinary core of their instruction set.

A core of your own is a JSON file with the fields that -json prints of one core. Print the
built-in core that is most like it, and change its name and what differs. Costs are in tenths of a cycle.
"cpus" names the CPUs that have the core, as tmacc host -json prints vendor, family and model;
if it is empty, all CPUs have it that no other core of a package names. tmacc compile -core FILE.json
uses the file; tmacc cores FILE.json checks it.`,
		Example: `  tmacc cores
  tmacc cores -json NAME > my-core.json
  tmacc cores my-core.json
  tmacc compile -format w2 -target host -core my-core.json -o kernels`,
	}
	js := asJSON(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		infos := coreInfos()
		if len(args) == 1 {
			one, ts, err := c.coreOf(args[0])
			if err != nil {
				return err
			}
			if *js {
				return printCore(c.out, one)
			}
			infos = []coreInfo{infoOf(one, ts)}
		}
		if *js {
			return printJSON(c.out, infos)
		}
		t := table{head: []string{"core", "here", "CPUs", "targets"}, wide: 3}
		for _, i := range infos {
			here, cpus := "", "all others"
			if i.Here {
				here = "yes"
			}
			if len(i.CPUs) > 0 {
				cpus = targeting.CPUs(i.CPUs)
			}
			t.add(i.Name, here, cpus, strings.Join(i.Targets, " "))
		}
		t.print(c.out, widthOf(c.out))
		return nil
	}
	return cmd
}

// coreOf is the core of a name or in a JSON file, and its targets.
func (c *cli) coreOf(word string) (core.Core, []targets.Target, error) {
	if targeting.IsFile(word) {
		own, err := c.inputs().Core(word)
		if err != nil {
			return own, nil, err
		}
		ts, err := c.finder().Cores(word)
		return own, ts, err
	}
	for _, one := range targets.Cores() {
		if one.Name == word {
			return one, targets.All(), nil
		}
	}
	return core.Core{}, nil, fmt.Errorf("cores %s: there is no such core: have %s%s", word, strings.Join(targeting.CoreNames(), ", "), format.Meant(word, targeting.CoreNames()))
}

// printCore prints a core as -core reads it.
func printCore(w io.Writer, one core.Core) error {
	data, err := one.JSON()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

func (c *cli) host() *cobra.Command {
	cmd := &cobra.Command{
		Use: "host", Args: between(0, 0),
		Short: "describe this machine",
		Long: `Describe this machine: its CPU, which of the features that targets need it has, what -target host means, for which core its
kernels are, and with -ceilings what it can do at best.

-calibrate measures how its core reads caches and memory, in some seconds. With -json it prints a core file that
-core accepts, whose other values come from the built-in core that this machine's kernels are for.

-target spirv describes a device of Vulkan instead: the speeds that default schedules of shaders are chosen by. They are
known for a few devices, and others have general ones. With -calibrate they are measured there, in some seconds, and
-json prints a file that -core accepts with -target spirv.`,
		Example: `  tmacc host
  tmacc host -calibrate -json > my-core.json
  tmacc compile -format w2 -target host -core my-core.json -o kernels
  tmacc host -calibrate -target spirv -json > my-device.json
  tmacc compile -format w2 -target spirv -core my-device.json -o kernels`,
	}
	js := asJSON(cmd)
	ceilings := cmd.Flags().Bool("ceilings", false, "also measure read bandwidth and dot-product peaks (seconds, and 1.1 GB of memory)")
	calibrate := cmd.Flags().Bool("calibrate", false, "measure how the core reads caches and memory (seconds, and 1.1 GB of memory), or what the device of -target spirv does")
	target, device := cmd.Flags().String("target", "", "spirv: describe a device of Vulkan"), ""
	deviceVar(cmd.Flags(), &device)
	cmd.MarkFlagsMutuallyExclusive("ceilings", "calibrate")
	cmd.MarkFlagsMutuallyExclusive("ceilings", "target")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *target != "":
			return c.hostDevice(cmd.Context(), *target, device, *calibrate, *js)
		case device != "":
			return fmt.Errorf("-device %s: is for -target spirv", quotedIfOdd(device))
		case *calibrate:
			return c.calibrate(cmd.Context(), *js)
		}
		report := struct {
			timing.Host
			Has      []string          `json:"has"` // of the features that targets of its architecture need
			Lacks    []string          `json:"lacks"`
			Runs     []string          `json:"runs"`
			Core     string            `json:"core,omitempty"` // that the last of these are tuned for
			Ceilings *measure.Ceilings `json:"ceilings,omitempty"`
		}{Host: timing.ThisHost()}
		report.Has, report.Lacks = neededOn(report.Host)
		about := ""
		for _, t := range targeting.Here() {
			report.Runs = append(report.Runs, t.Machine().Name)
		}
		if best := measure.BestOn(report.Host, ""); best != nil {
			report.Core, about = best.Machine().Core.Name, aboutCore(best)
		}
		if *js {
			if *ceilings {
				best, err := c.ceilings(cmd.Context())
				if err != nil {
					return err
				}
				report.Ceilings = &best
			}
			return printJSON(c.out, report)
		}
		fmt.Fprintln(c.out, report.Host)
		fmt.Fprintf(c.out, "CPU features that targets need: has %s; lacks %s\n", listed(report.Has), listed(report.Lacks))
		best := "pure Go only"
		if n := len(report.Runs); n > 0 {
			best = report.Runs[n-1] + " (of " + strings.Join(report.Runs, ", ") + ")"
		}
		fmt.Fprintf(c.out, "target host: %s\n%s", best, about)
		if !*ceilings {
			return nil
		}
		found, err := c.ceilings(cmd.Context())
		if err != nil {
			return err
		}
		fmt.Fprint(c.out, found)
		return nil
	}
	return cmd
}

// aboutCore is a line about the core that t is for. One that stands for CPUs without a name may not be this machine's.
func aboutCore(t targets.Target) string {
	m := t.Machine()
	if m.Ordinary() {
		return fmt.Sprintf("core: %s, which stands for all CPUs that no other core names; tmacc host -calibrate measures the one here\n", m.Core.Name)
	}
	return fmt.Sprintf("core: %s\n", m.Core.Name)
}

// neededOn are the CPU features that targets of a machine's architecture need: those that it has, and the others.
func neededOn(h timing.Host) (has, missing []string) {
	var needed []string
	for _, t := range targets.All() {
		for _, f := range targets.Features(t) {
			if t.Machine().Arch() == h.Arch && !slices.Contains(needed, f) {
				needed = append(needed, f)
			}
		}
	}
	missing = append([]string{}, h.Lacks(needed)...)
	return slices.DeleteFunc(append([]string{}, needed...), func(f string) bool { return slices.Contains(missing, f) }), missing
}

// listed is a list for people.
func listed(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

// ceilings are what this machine can do.
func (c *cli) ceilings(ctx context.Context) (measure.Ceilings, error) {
	if err := mapping("host"); err != nil {
		return measure.Ceilings{}, err
	}
	bar := newProgress(c.err, false)
	defer bar.done()
	bar.step("measuring what this machine can do")
	lab, err := measure.NewLab()
	if err != nil {
		return measure.Ceilings{}, err
	}
	defer lab.Close()
	return lab.Ceilings(ctx, timing.Options{})
}
