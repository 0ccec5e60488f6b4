package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/targeting"
)

// single is the value of a flag that takes one: a second one is an error, as it would take the place of the first.
type single struct {
	pflag.Value
	given []string
}

func (s *single) Set(text string) error {
	if len(s.given) > 0 && s.given[0] != text {
		return errTwice{s.given[0], text}
	}
	s.given = append(s.given, text)
	return s.Value.Set(text)
}

// errTwice is the error of a flag that was given two values and takes one.
type errTwice struct{ first, second string }

func (e errTwice) Error() string {
	return fmt.Sprintf("takes one value, and is given two: %q and %q", e.first, e.second)
}

// singles makes each flag of cmd that takes one value refuse a second one. Lists take several; a switch may be
// repeated.
func singles(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "string", "int", "int64", "float64", "duration":
			if f.Value = (&single{Value: f.Value}); f.DefValue == "0s" { // which help would print for a type it does not know
				f.DefValue = "0"
			}
		}
	})
}

// renamed is the value of a flag that names targets. It says once what the target of an old name is called now.
type renamed struct {
	pflag.Value
	prefix string // of words that are targets: "target=" in -kernel
	said   map[string]bool
	to     io.Writer
}

func (r *renamed) Set(text string) error {
	if err := r.Value.Set(text); err != nil {
		return err
	}
	for word := range strings.SplitSeq(text, ",") {
		name, ok := strings.CutPrefix(strings.TrimSpace(word), r.prefix)
		t := targets.ByName(name)
		if !ok || t == nil || r.said[name] {
			continue
		}
		if m := t.Machine(); !m.Ordinary() && m.Name != name && m.ShortName() != name {
			r.said[name] = true
			fmt.Fprintf(r.to, "note: target %q is now %q: -target %s -core %s\n", name, m.ShortName(), targeting.ISAName(m), m.Core.Name)
		}
	}
	return nil
}

// renames makes the flags of cmd that name targets say what old names are called now.
func renames(cmd *cobra.Command, to io.Writer) {
	said := map[string]bool{}
	for flag, prefix := range map[string]string{"target": "", "kernel": "target="} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			f.Value = &renamed{f.Value, prefix, said, to}
		}
	}
}
