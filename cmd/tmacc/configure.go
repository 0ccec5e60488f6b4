package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
)

// configure sets the flags of tmacc compile that are not on the command line from
// a file: path, or if that is empty and what the command line does not say what to
// compile, the one in this directory, if it is there. It returns what the file has set, nil if there was none.
func (c *cli) configure(flags *pflag.FlagSet, path string, asked bool) (order.Origins, error) {
	if path == "" {
		if _, err := os.Stat(order.ConfigName); asked || errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		path = order.ConfigName
	}
	data, err := c.inputs().Text(path)
	if err != nil {
		return nil, err
	}
	settings, err := order.ParseConfig(data, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	if !asked && !slices.ContainsFunc(settings, func(s order.Setting) bool { return slices.Contains(order.Subjects, s.Key) }) {
		return nil, fmt.Errorf("%s: says nothing to compile: it names none of %s", path, strings.Join(order.Subjects, ", "))
	}
	if flags.Lookup("output").Changed || !slices.ContainsFunc(settings, func(s order.Setting) bool { return s.Key == "output" }) {
		settings = slices.DeleteFunc(settings, func(s order.Setting) bool { return s.Key == "output" })
		if !flags.Lookup("output").Changed {
			flags.Lookup("output").Value.Set(filepath.Dir(path))
		}
	}
	from := order.Origins{}
	for _, s := range settings {
		f := flags.Lookup(s.Key)
		if f.Changed {
			continue // the command line counts
		}
		for i, v := range s.Values {
			if err := f.Value.Set(v); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: %s", path, s.Lines[i], s.Key, wants(f, v, err))
			}
			from.Add(s.Key, v, fmt.Sprintf("%s:%d", path, s.Lines[i]))
		}
	}
	return from, nil
}

// wants says what is wrong with a value of a flag.
func wants(f *pflag.Flag, value string, err error) string {
	if twice := (errTwice{}); errors.As(err, &twice) {
		return twice.Error()
	}
	switch f.Value.Type() {
	case "int", "int64":
		return message.NotNumber(value, err)
	case "intSlice":
		return fmt.Sprintf("%q: want numbers, separated by commas", value)
	case "bool":
		return fmt.Sprintf("%q: want true or false", value)
	}
	return err.Error()
}
