// Package command is the command tmacc: its flags, tables and progress. Two programs run it, tmacc and, with Vulkan, tmacc-vulkan.
package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/live"
	"github.com/tmacc/tmacc/search/measure/llama"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/shaders"
)

// Main is the main function of a program that is the command. vulkan opens the device that a name stands for, "" for the one that TMACC_DEVICE names or the
// preferred one; nil: this program has no Vulkan, and starts another one for devices.
func Main(vulkan func(name string) (*shaders.Here, error)) {
	llama.Main()
	session.Main()
	openHere = vulkan
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// openHere is what Main was given.
var openHere func(name string) (*shaders.Here, error)

// Exit codes.
const (
	exitFailed      = 1 // a check failed
	exitUsage       = 2 // usage or bad input
	exitUnsupported = 3 // done, except for some tensors
)

// status is an error with an exit code of its own; every other error is exitUsage. A nil
// error inside it was already printed.
type status struct {
	code int
	error
}

func (s *status) Unwrap() error { return s.error }

// failed is the error of a check that failed.
func failed(format string, args ...any) error {
	return &status{exitFailed, fmt.Errorf(format, args...)}
}

// isSaid says that nothing is to be printed for an error.
func isSaid(err error) bool {
	var s *status
	return errors.As(err, &s) && s.error == nil
}

// cli is one run of the command.
type cli struct {
	args     []string
	in       io.Reader
	out, err io.Writer
	ctx      context.Context // of the whole run, nil in tests of parts: for what cannot be given one
	*interrupts
}

var errInterrupted = errors.New("interrupted")

// run executes the command and returns its exit code. An error is one line on
// stderr. Output that cannot be written is an error, even if the command ignores it.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, interrupts := interrupted()
	defer interrupts.stop()
	out := &output{to: stdout}
	c := &cli{args, os.Stdin, singleDashes(args, out), stderr, ctx, interrupts}
	root := c.root()
	root.SetArgs(doubleDashes(root, args))
	err := oneOfThem(root.ExecuteContext(ctx))
	if ctx.Err() != nil {
		live.Leave() // the process does not wait for other goroutines
		if err != nil && !errors.Is(err, errInterrupted) && !isSaid(err) {
			err = failed("%w", errInterrupted)
		}
	}
	code := say(stderr, err)
	if out.err == nil {
		return code
	}
	if !errors.Is(err, out.err) {
		say(stderr, out.err)
	}
	return exitFailed
}

// blocking lets an interrupt end the process at once until end is called. It is for opening and reading pipes, which may
// wait for another program, before anything is written.
func (c *cli) blocking() (end func() bool) {
	if c.ctx == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(c.ctx, func() { os.Exit(say(c.err, failed("%w", errInterrupted))) })
}

// say prints err, unless that was done, and returns its exit code.
func say(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	var s *status
	coded := errors.As(err, &s)
	if !coded || s.error != nil {
		fmt.Fprintf(stderr, "tmacc: %s\n", oneLine(err))
	}
	if coded {
		return s.code
	}
	return exitUsage
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tmacc",
		Short: "tmacc compiles low-bit matrix products to Go packages, and runs language models.",
		Long: `tmacc compiles matrix products of low-bit weights and int8 activations to Go packages:
assembly for AVX2, AVX-512 and NEON, pure Go for everything else, any M, N and K.
It runs language models by such products.`,
		Example: `  tmacc run -p "It was a cold morning, and"
  tmacc compile -model bitnet-b1.58-2b-4t -o kernels
  tmacc compile model.gguf -o kernels
  tmacc show -format w2 -stage trace,asm`,
		SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	root.SetUsageFunc(usage)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		fmt.Fprintf(c.out, "%s\n\n", text)
		cmd.SetOut(c.out)
		usage(cmd)
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		text := flagError(err)
		if cmd.HasParent() {
			text = cmd.Name() + ": " + text
		}
		return fmt.Errorf("%s; see %s -h%s", text, cmd.CommandPath(), meantFlag(cmd, err))
	})
	root.AddCommand(c.generate(), c.perplexity(), c.embed(), c.tokenize(), c.kept(), c.compile(), c.tune(), c.log(), c.show(), c.explore(), c.lower(), c.bench(), c.compare(), c.report(), c.formats(), c.targets(), c.cores(), c.host(), c.version())
	for _, cmd := range root.Commands() {
		singles(cmd)
		renames(cmd, c.err)
		if cmd.Flags().Lookup("core") != nil { // it makes products for targets
			completeProducts(cmd)
		}
	}
	root.SetHelpCommand(help())
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil { // without Run, any argument is ignored
		shells.Args, shells.RunE, shells.Short = root.Args, root.RunE, "print a completion script for a shell"
	}
	return root
}

// meantFlag asks whether the unknown flag of an error was to be one that cmd has.
func meantFlag(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	near := format.Near(unknownFlag(unknown), names)
	for i, name := range near {
		near[i] = "-" + name
	}
	return format.DidYouMean(near)
}

// unknownFlag is the name of an unknown flag as it was given, without the dash and the value. A name with capitals came as short flags.
func unknownFlag(e *pflag.NotExistError) string {
	name, _, _ := strings.Cut(cmp.Or(e.GetSpecifiedShortnames(), e.GetSpecifiedName()), "=")
	return name
}

// flagError is the text of an error about a flag.
func flagError(err error) string {
	var (
		bad     *pflag.InvalidValueError
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &bad):
		return "-" + bad.GetFlag().Name + ": " + wants(bad.GetFlag(), bad.GetValue(), bad.Unwrap())
	case errors.As(err, &unknown):
		return "unknown flag: -" + unknownFlag(unknown)
	case errors.As(err, &missing):
		text := "flag needs an argument: -" + missing.GetFlag().Name
		if name, usage := pflag.UnquoteUsage(missing.GetFlag()); usage != missing.GetFlag().Usage { // which quotes the name
			text += " " + name
		}
		return text
	}
	return strings.ReplaceAll(err.Error(), "--", "-")
}

// exclusive matches cobra's error of flags that exclude each other.
var exclusive = regexp.MustCompile(`^if any flags in the group \[.*\] are set none of the others can be; \[(.+)\] were all set$`)

// oneOfThem is err, or in plain words the error of flags that exclude each other.
func oneOfThem(err error) error {
	if err == nil || isSaid(err) {
		return err
	}
	if x := exclusive.FindStringSubmatch(err.Error()); x != nil {
		return fmt.Errorf("-%s: want one of them", strings.Join(strings.Fields(x[1]), " and -"))
	}
	return err
}

// help is the command of that name.
func help() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "say what a command does",
		RunE: func(cmd *cobra.Command, args []string) error {
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				of.InitDefaultHelpFlag()
				return of.Help()
			}
			return unknownCommand(cmd.Root(), strings.Join(args, " "))
		},
	}
}

// version is the command of that name.
func (c *cli) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: between(0, 0),
		Short: "print which tmacc this is, as locks record it",
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(c.out, "tmacc %s, %s %s/%s\n", gomod.Compiler(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

func unknownCommand(root *cobra.Command, name string) error {
	names := commandNames(root)
	return fmt.Errorf("unknown command %q: have %s%s", name, strings.Join(names, ", "), format.Meant(name, names))
}

// between accepts a number of arguments from least to most.
func between(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		want := "none"
		switch {
		case len(args) >= least && len(args) <= most:
			return nil
		case most > 0:
			want = "one file"
		}
		return fmt.Errorf("%s: %s, want %s; see %s -h", cmd.Name(), message.Count(len(args), "argument"), want, cmd.CommandPath())
	}
}

func commandNames(root *cobra.Command) (names []string) {
	for _, s := range root.Commands() {
		if s.IsAvailableCommand() && s.Name() != "help" {
			names = append(names, s.Name())
		}
	}
	return names
}

// usage prints how to call cmd, flags with one dash.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage: %s\n", strings.Replace(cmd.UseLine(), " [flags]", subcommand(cmd), 1))
	if cmd.Example != "" {
		fmt.Fprintf(w, "\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w)
		for _, s := range cmd.Commands() {
			if s.IsAvailableCommand() && s.Name() != "help" {
				fmt.Fprintf(w, "  %-10s %s\n", s.Name(), s.Short)
			}
		}
		fmt.Fprintln(w, "\ntmacc COMMAND -h says more. Exit codes: 1 a check failed, 2 bad usage or input, 3 tensors were left out.")
		return nil
	}
	text := strings.ReplaceAll(cmd.LocalFlags().FlagUsages(), "--", "-")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == f.Shorthand { // declared so for one dash to do
			text = strings.ReplaceAll(text, "-"+f.Name+", -"+f.Name+" ", "    -"+f.Name+" ")
		}
	})
	fmt.Fprintf(w, "\n%s", text)
	return nil
}

// subcommand stands behind the name of a command that has subcommands.
func subcommand(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return " COMMAND"
	}
	return ""
}

// word matches what can only be the name of a flag, not a short flag with its value.
var word = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// doubleDashes writes flags the way cobra wants them: -model as --model.
func doubleDashes(root *cobra.Command, args []string) []string {
	known := map[string]bool{"help": true}
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	out := make([]string, len(args))
	for i, a := range args {
		if a == "--" {
			copy(out[i:], args[i:])
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(a, "-"), "=")
		if out[i] = a; strings.HasPrefix(a, "-") && len(name) > 1 && (known[name] || word.MatchString(name)) {
			out[i] = "-" + a
		}
	}
	return out
}

// oneLine is message.Line.
func oneLine(err error) string { return message.Line(err) }
