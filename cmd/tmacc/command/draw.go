package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/delivery"
	"github.com/tmacc/tmacc/search/page"
	"github.com/tmacc/tmacc/search/picture"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

type reportFlags struct{ out, log, bench, kind, html, run string }

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

-html writes one search as a page that needs no other file: this picture, what the best schedule reaches, all candidates below
what the machine can do, what models predicted, the families, and the best schedule at each stage of the compiler. It is the last
search in the log that has measured something, or the one of -run.

Each picture names the machine, the date and the tmacc of its figures, if the log and the records
name them.`,
		Example: `  tmacc report -o pictures
  tmacc bench -format w1,w2,w4 -mode dram,l3,l2 -n 1 -json > bench.jsonl
  tmacc report -o pictures -bench bench.jsonl -type png
  tmacc report -html search.html`,
	}
	f := cmd.Flags()
	f.StringVarP(&x.out, "out", "o", ".", "`folder` of the pictures")
	f.StringVar(&x.log, "log", "", "`file` of the log, or "+session.NoLog+" (default: see tmacc log)")
	f.StringVar(&x.bench, "bench", "", "`file` of records of tmacc bench -json")
	f.StringVar(&x.kind, "type", "svg", "of the pictures: svg or png")
	f.StringVar(&x.html, "html", "", "`file` of a page about one search, instead of pictures")
	f.StringVar(&x.run, "run", "", "with -html: the `search`, as tmacc log -json names it (default the last one)")
	cmd.MarkFlagsMutuallyExclusive("html", "out")
	cmd.MarkFlagsMutuallyExclusive("html", "bench")
	cmd.MarkFlagsMutuallyExclusive("html", "type")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case cmd.Flags().Changed("html"):
			return c.writePage(cmd.Context(), x)
		case x.run != "":
			return errors.New("-run: is for -html")
		}
		return c.drawReport(x)
	}
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
	l, err := c.logAt(path)
	if err != nil {
		return err
	}
	return c.noteUnread(l.Searches(func(r tune.Run, tried []tune.Tried) error {
		p, err := picture.Search(searchTitle(r), searchSource(r), tried)
		if err != nil {
			return err
		}
		return save(strings.ReplaceAll(fmt.Sprintf("search-%s-%s-%s", r.Product, r.Target, r.ID), "/", "-"), p)
	}))
}

// writePage writes the page of one search.
func (c *cli) writePage(ctx context.Context, x reportFlags) error {
	if x.html == "" {
		return errors.New("-html: want the name of a file: tmacc report -html search.html")
	}
	if err := noFolder(x.html); err != nil {
		return fmt.Errorf("-html %w", err)
	}
	if x.log == session.NoLog {
		return errors.New("-log " + x.log + ": -html needs a log")
	}
	l, err := c.logAt(x.log)
	if err != nil {
		return err
	}
	var s page.Search
	err = c.noteUnread(l.Each(true, func(r tune.Run, t *tune.Trial) error {
		switch {
		case x.run != "" && x.run != r.ID, x.run == "" && r.Best == 0:
			return nil
		case r.ID != s.ID:
			s = page.Search{}
		}
		s.Run, s.Trials = r, append(s.Trials, *t)
		return nil
	}))
	switch {
	case err != nil:
		return err
	case s.ID == "" && x.run != "":
		return fmt.Errorf("-run %s: the log has no such search: tmacc log lists them", quotedIfOdd(x.run))
	case s.ID == "":
		return noSearch(l)
	}
	if p, err := s.Definition(); err == nil {
		if t := targets.ByName(s.Run.Target); t != nil {
			s.Problem, s.Target = &p, t
		}
	}
	data, err := page.HTML(ctx, s)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := writeFile(x.html, data); err != nil {
		return err
	}
	fmt.Fprintln(c.out, x.html)
	return nil
}

// noSearch is the error of a page from a log without a search for it.
func noSearch(l tune.Log) error {
	if _, err := os.Stat(l.Path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("report: there is no log yet, %s: run tmacc tune, or name a log with -log", l.Path)
	}
	searches := 0
	if err := l.Each(false, func(tune.Run, *tune.Trial) error { searches++; return nil }); err != nil && !errors.As(err, new(*tune.Unread)) {
		return err
	}
	if searches == 0 {
		return fmt.Errorf("report: the log %s is empty: run tmacc tune, or name another log with -log", l.Path)
	}
	return fmt.Errorf("report: no search of the log %s has measured something: run tmacc tune with more -time", l.Path)
}

// logAt is the log of -log; the user's may not have begun.
func (c *cli) logAt(path string) (tune.Log, error) {
	l, err := session.LogAt(path)
	if err == nil && path != "" {
		if _, err = os.Stat(path); err == nil && noFolder(path) != nil {
			err = fmt.Errorf("-log %w", noFolder(path))
		}
	}
	return l, plain(err)
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
