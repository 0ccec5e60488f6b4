package command

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/targeting"
)

// completeProducts says what values the flags of cmd have that name a product, a target and a schedule.
func completeProducts(cmd *cobra.Command) {
	for name, values := range map[string][]string{
		"format":    format.Names(),
		"core":      targeting.CoreNames(),
		"target":    append([]string{hostWord, "spirv"}, shortNames()...),
		"act-group": {"0", "32", "64", "128", "256"},
		"mode":      {measure.ModeL2, measure.ModeL3, measure.ModeDRAM},
	} {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			continue
		}
		if several := f.Value.Type() == "stringSlice"; several && (name == "core" || name == "target") {
			values = append(values, allWord)
		}
		completeFlag(cmd, name, values)
	}
	completeFiles(cmd, map[string]string{"trace": "json", "lock": "lock"})
}

// completeCompile says what values the other flags of tmacc compile have.
func completeCompile(cmd *cobra.Command) {
	completeFlag(cmd, "model", order.Models())
	completeFiles(cmd, map[string]string{"config": "yaml", "gguf": "gguf"})
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt
	}
}

// completeFlag offers values of a flag, and files if none of them begins with what is there: a format or a core may be a file.
func completeFlag(cmd *cobra.Command, name string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		fit := slices.DeleteFunc(slices.Clone(values), func(s string) bool { return !strings.HasPrefix(s, begin) })
		if len(fit) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic("BUG: completion: " + err.Error())
	}
}

// completeFiles offers files whose names have an ending, for those of the flags that cmd has.
func completeFiles(cmd *cobra.Command, endings map[string]string) {
	for name, ending := range endings {
		if cmd.Flags().Lookup(name) == nil {
			continue
		}
		if err := cmd.MarkFlagFilename(name, ending); err != nil {
			panic("BUG: completion: " + err.Error())
		}
	}
}

func shortNames() []string {
	var names []string
	for _, t := range targets.All() {
		names = append(names, t.Machine().ShortName())
	}
	return names
}

// singleDashes writes the flags that a shell is offered the way they are here, with
// one dash, if the word to complete begins so.
func singleDashes(args []string, out io.Writer) io.Writer {
	if len(args) < 2 || !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return out
	}
	if last := args[len(args)-1]; !strings.HasPrefix(last, "-") || strings.HasPrefix(last, "--") {
		return out
	}
	return dashWriter{out}
}

type dashWriter struct{ to io.Writer }

func (w dashWriter) Write(data []byte) (int, error) {
	var b strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "--") {
			line = line[1:]
		}
		b.WriteString(line)
	}
	_, err := io.WriteString(w.to, b.String())
	return len(data), err
}
