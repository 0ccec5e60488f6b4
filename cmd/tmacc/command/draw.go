package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

type reportFlags struct{ out, log, bench, kind string }

func (c *cli) report() *cobra.Command {
	var x reportFlags
	cmd := &cobra.Command{
		Use: "report", Args: between(0, 0),
		Short: "draw what searches have found and what kernels reach",
		Long: `Draw two kinds of pictures.

search-FORMAT-TARGET-RUN, for each search of tmacc tune in the log: the best time so far over the
trials, for each family of schedules.

roofline, from records of tmacc bench -json: the bandwidth that kernels of one column use over the
bandwidth that is available, both in bytes per cycle of one core. A line shows each kernel's bound:
the available bandwidth, or the most that the kernel consumes.

Each picture names the machine, the date and the tmacc of its figures, if the log and the records
name them.`,
		Example: `  tmacc report -o pictures
  tmacc bench -format w1,w2,w4 -mode dram,l3,l2 -n 1 -json > bench.jsonl
  tmacc report -o pictures -bench bench.jsonl -type png`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.out, "out", "o", ".", "`folder` of the pictures")
	f.StringVar(&x.log, "log", "", "`file` of the log, or "+session.NoLog+" (default: see tmacc log)")
	f.StringVar(&x.bench, "bench", "", "`file` of records of tmacc bench -json")
	f.StringVar(&x.kind, "type", "svg", "of the pictures: svg or png")
	cmd.RunE = func(*cobra.Command, []string) error { return c.drawReport(x) }
	return cmd
}

func (c *cli) drawReport(x reportFlags) error {
	if picture.Check("picture."+x.kind) != nil {
		return fmt.Errorf("-type %s: want svg or png", x.kind)
	}
	if err := delivery.CheckDir(x.out); err != nil {
		return err
	}
	if err := os.MkdirAll(x.out, 0o777); err != nil {
		return plain(err)
	}
	n := 0
	save := func(name string, p *picture.Picture) error {
		path := filepath.Join(x.out, name+"."+x.kind)
		if err := savePicture(path, p); err != nil {
			return err
		}
		n++
		fmt.Fprintln(c.out, path)
		return nil
	}
	if x.bench != "" {
		p, err := c.roofline(x.bench)
		if err != nil {
			return err
		}
		if err := save("roofline", p); err != nil {
			return err
		}
	}
	if x.log != session.NoLog {
		if err := c.drawSearches(x.log, save); err != nil {
			return err
		}
	}
	if n == 0 {
		return errors.New("report: nothing to draw: the log has no search, and there is no -bench")
	}
	return nil
}

// roofline draws the records of a file.
func (c *cli) roofline(path string) (*picture.Picture, error) {
	data, err := c.inputs().JSON(path, "what tmacc bench -json printed")
	if err != nil {
		return nil, err
	}
	records, err := bench.ParseRecords(data)
	if err == nil {
		var p *picture.Picture
		if p, err = picture.Roofline(records); err == nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// drawSearches saves a picture of each search in a log, "" for the user's, that has measured something.
func (c *cli) drawSearches(path string, save func(name string, p *picture.Picture) error) error {
	l, err := session.LogAt(path)
	if err == nil && path != "" { // the user's may not have begun
		_, err = os.Stat(path)
	}
	if err != nil {
		return plain(err)
	}
	return c.noteUnread(l.Searches(func(r tune.Run, tried []tune.Tried) error {
		p, err := picture.Search(searchTitle(r), searchSource(r), tried)
		if err != nil {
			return err
		}
		return save(strings.ReplaceAll(fmt.Sprintf("search-%s-%s-%s", r.Product, r.Target, r.ID), "/", "-"), p)
	}))
}

// savePicture writes a picture of the kind that the end of path names.
func savePicture(path string, p *picture.Picture) error {
	if err := picture.Check(path); err != nil {
		return err
	}
	data, err := p.Encode(filepath.Ext(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeFile(path, data)
}

// searchTitle says for which product and purposes a search was.
func searchTitle(r tune.Run) string {
	return r.Product + " on " + r.Target + ", " + tune.PurposesText(r.Purposes...)
}

// searchSource says on which machine a search ran, when it began, and which tmacc it was of.
func searchSource(r tune.Run) (s picture.Source) {
	s.Add(r.CPU, r.Start.UTC().Format(time.DateOnly), r.Compiler)
	return s
}
