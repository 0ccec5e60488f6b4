package command

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/search/defaults"
)

// noRecordsVar adds the flag that leaves records out.
func noRecordsVar(f *pflag.FlagSet, to *bool) {
	f.BoolVar(to, "no-records", false, "leave out the recorded schedules, which searches on such cores have found, and take the default ones instead")
}

// defaults chooses schedules for a command, which closes it.
func (c *cli) defaults(noRecords bool, bar *progress) *defaults.Chooser {
	return &defaults.Chooser{NoRecords: noRecords, Say: func(text string) {
		bar.done()
		fmt.Fprintf(c.err, "tmacc: %s\n", text)
	}}
}

// keptDefaults is defaults with the user's folder of default schedules.
func (c *cli) keptDefaults(noRecords bool, bar *progress) *defaults.Chooser {
	d := c.defaults(noRecords, bar)
	path, err := defaults.Folder()
	if err != nil {
		d.Say("default schedules are not kept: " + message.Line(err))
		return d
	}
	d.Keep(path)
	return d
}
