package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/runtime/model/weights"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/kernels"
)

// kept is the command cache.
func (c *cli) kept() *cobra.Command {
	clear := false
	cmd := &cobra.Command{
		Use: "cache", Args: between(0, 0),
		Short: "list the schedules, kernels and packed weights that are kept, or remove them",
		Long: `List what tmacc has kept for later: default schedules, which tmacc compile and others have chosen, and the compiled
kernels and packed weights of tmacc run, in tmacc of the user's cache directory or in TMACC_CACHE. The next command
makes again everything that it needs. Schedules are kept in at most ` + fmt.Sprint(defaults.MostBytes>>20) + ` MiB; those that were not used for longest go.`,
		RunE: func(*cobra.Command, []string) error {
			for _, x := range []struct {
				what string
				path func() (string, error)
			}{{"schedules", defaults.Folder}, {"kernels", kernels.Folder}, {"weights", weights.Path}} {
				path, err := x.path()
				if err == nil {
					err = c.keptIn(x.what, path, clear)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&clear, "clear", false, "remove all of it")
	return cmd
}

// keptIn lists a folder, or clears it.
func (c *cli) keptIn(what, path string, clear bool) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // which opening would make
		fmt.Fprintf(c.out, "%s: nothing in %s\n", what, path)
		return nil
	}
	f, err := cache.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	files, bytes, err := f.Size()
	if err != nil {
		return err
	}
	done := ""
	if clear {
		if err := f.Clear(); err != nil {
			return err
		}
		done = ", removed"
	}
	fmt.Fprintf(c.out, "%s: %s, %.2f MB, in %s%s\n", what, message.Count(files, "file"), float64(bytes)/1e6, path, done)
	return nil
}
