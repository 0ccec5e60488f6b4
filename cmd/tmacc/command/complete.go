package command

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/order"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/targeting"
)

// completeCompile says what values the flags of tmacc compile have.
func completeCompile(cmd *cobra.Command) {
	values := map[string]func() []string{
		"format":    format.Names,
		"model":     order.Models,
		"core":      func() []string { return append([]string{"all"}, targeting.CoreNames()...) },
		"target":    func() []string { return append([]string{"host", "all", "spirv"}, shortNames()...) },
		"act-group": func() []string { return []string{"0", "32", "64", "128", "256"} },
	}
	for name, list := range values {
		err := cmd.RegisterFlagCompletionFunc(name, func(_ *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
			return slices.DeleteFunc(list(), func(s string) bool { return !strings.HasPrefix(s, begin) }), cobra.ShellCompDirectiveNoFileComp
		})
		if err != nil {
			panic("BUG: completion: " + err.Error())
		}
	}
	for name, ending := range map[string]string{"config": "yaml", "gguf": "gguf", "trace": "json"} {
		if err := cmd.MarkFlagFilename(name, ending); err != nil {
			panic("BUG: completion: " + err.Error())
		}
	}
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt
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
