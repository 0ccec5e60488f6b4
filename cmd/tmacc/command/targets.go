package command

import (
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/targeting"
	"github.com/tmacc/tmacc/search/timing"
)

// The words of -target that are no names of targets.
const (
	hostWord = targeting.Host
	allWord  = targeting.All
)

// finder finds the targets of -target and -core, which may name files.
func (c *cli) finder() targeting.Finder { return targeting.Finder{ReadCore: c.inputs().Core} }

// coreVar adds the flag -core to a command that takes several targets.
func coreVar(f *pflag.FlagSet, cores *[]string) {
	f.StringSliceVar(cores, "core", nil, "processor cores, all, or a JSON file with one, that kernels are also tuned for; see tmacc cores; with -target spirv the device that default schedules are chosen for, see tmacc host; may be repeated")
}

// oneCoreVar adds the flag -core to a command that takes one target.
func oneCoreVar(f *pflag.FlagSet, core *string) {
	f.StringVar(core, "core", "", "processor core, or a JSON file with one, that the kernel is tuned for; see tmacc cores; with -target spirv a device (default the ordinary core)")
}

// targetList is the targets of -target and -core, for any machine.
func (c *cli) targetList(words, cores []string) ([]targets.Target, error) {
	return c.finder().List(words, cores)
}

// targetsHere is the targets of -target and -core, which this machine must run.
func (c *cli) targetsHere(words, cores []string) ([]targets.Target, error) {
	return c.finder().On(timing.ThisHost(), words, cores)
}

// oneTarget is the target of a word.
func oneTarget(word string) (targets.Target, error) { return targeting.Finder{}.One(word, "") }

// lacks names the features that this machine lacks to run t, "" if it runs t.
func lacks(t targets.Target) string { return targeting.Lacks(t, timing.ThisHost()) }
