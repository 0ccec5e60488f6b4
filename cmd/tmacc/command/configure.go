package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/gen/order"
)

// configure sets the flags of tmacc compile that the command line leaves out, from the file path. Without a path it reads
// order.ConfigName in this directory, if that is there and the command line names nothing to compile (asked). It returns
// what the file has set, or nil if it read no file.
func (c *cli) configure(flags *pflag.FlagSet, path string, asked bool) (order.Origins, error) {
	if path == "" {
		if _, err := os.Stat(order.ConfigName); asked || errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		path = order.ConfigName
	}
	settings, err := c.inputs().Config(path)
	if err != nil {
		return nil, err
	}
	if err := settings.CheckSubject(); err != nil && !asked {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if out := flags.Lookup("output"); !out.Changed && !settings.Has("output") {
		if err := out.Value.Set(filepath.Dir(path)); err != nil {
			return nil, err
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

// wants says why a flag refused value with err.
func wants(f *pflag.Flag, value string, err error) string {
	if twice := (errTwice{}); errors.As(err, &twice) {
		return twice.Error()
	}
	switch f.Value.Type() {
	case "int", "int64", "float64":
		return message.NotNumber(value, err)
	case "intSlice":
		return fmt.Sprintf("%q: want numbers, separated by commas", value)
	case "bool":
		return fmt.Sprintf("%q: want true or false", value)
	}
	return err.Error()
}
