package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
