package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

type reportFlags struct{ out, log, bench, kind string }

func (c *cli) report() *cobra.Command {
	var x reportFlags
	cmd := &cobra.Command{
		Use: "report", Args: between(0, 0),
		Short: "draw what searches have found and what kernels reach",
		Long: `Draw pictures. For each search of tmacc tune in the log, search-FORMAT-TARGET-RUN: the best time
so far over the trials, of each family of schedules. From records of tmacc bench -json, roofline: the
bandwidth that kernels of one column use over that which is available, both in bytes per
cycle of one core, and the bound of each: what is available, or what it consumes at most.
Each picture says on which machine, when and by which tmacc its figures were measured, as far as
the log and the records say so.`,
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
	if err := validPicture("picture." + x.kind); err != nil {
		return fmt.Errorf("-type %s: want svg or png", x.kind)
	}
	if err := canBeFolder(x.out); err != nil {
		return err
	}
	if err := os.MkdirAll(x.out, 0o777); err != nil {
		return plain(err)
	}
	n := 0
	save := func(name string, p *picture, err error) error {
		if err != nil {
			return err
		}
		path := filepath.Join(x.out, name+"."+x.kind)
		if err := p.save(path); err != nil {
			return err
		}
		n++
		fmt.Fprintln(c.out, path)
		return nil
	}
	if x.bench != "" {
		records, err := c.benchRecords(x.bench)
		if err != nil {
			return err
		}
		p, err := plotRoofline(records)
		if err != nil {
			return fmt.Errorf("%s: %w", x.bench, err)
		}
		if err := save("roofline", p, nil); err != nil {
			return err
		}
	}
	if x.log != session.NoLog {
		l, err := session.LogAt(x.log)
		if err == nil && x.log != "" { // the user's may not have begun
			_, err = os.Stat(x.log)
		}
		if err != nil {
			return plain(err)
		}
		err = eachSearch(l, func(r tune.Run, tried []tune.Tried) error {
			p, err := plotSearch(searchTitle(r), searchSource(r), tried)
			return save(strings.ReplaceAll(fmt.Sprintf("search-%s-%s-%s", r.Product, r.Target, r.ID), "/", "-"), p, err)
		})
		if err := c.noteUnread(err); err != nil {
			return err
		}
	}
	if n == 0 {
		return errors.New("report: nothing to draw: the log has no search, and there is no -bench")
	}
	return nil
}

// searchTitle says what a search was for.
func searchTitle(r tune.Run) string {
	return r.Product + " on " + r.Target + ", " + tune.PurposesText(r.Purposes...)
}

// searchSource says where a search ran, when it began, and of which tmacc.
func searchSource(r tune.Run) (s source) {
	s.add(r.CPU, r.Start.UTC().Format(time.DateOnly), r.Compiler)
	return s
}

// eachSearch calls f with the searches in a log that have measured something.
func eachSearch(l tune.Log, f func(tune.Run, []tune.Tried) error) error {
	var last tune.Run
	var tried []tune.Tried
	end := func() error {
		if last.Best == 0 || len(tried) == 0 {
			return nil
		}
		return f(last, tried)
	}
	err := l.Each(true, func(r tune.Run, t *tune.Trial) error {
		if r.ID != last.ID {
			if err := end(); err != nil {
				return err
			}
			tried = nil
		}
		last, tried = r, append(tried, tune.Tried{Family: familyOf(t), Cost: t.Cost})
		return nil
	})
	if unread := (*tune.Unread)(nil); err != nil && !errors.As(err, &unread) {
		return err
	}
	return cmp.Or(end(), err)
}

// familyOf is the family of the kernel for the fewest activations.
func familyOf(t *tune.Trial) string {
	if len(t.Genes) == 0 {
		return "unknown"
	}
	return search.Family(t.Genes[0].Trace)
}

// benchRecords reads what tmacc bench -json printed. With -check its first line says where and when all of its records were measured.
func (c *cli) benchRecords(path string) (out []measure.Record, err error) {
	data, err := c.readJSON(path, "what tmacc bench -json printed")
	if err != nil {
		return nil, err
	}
	var head measure.Record
	for d := json.NewDecoder(strings.NewReader(string(data))); ; {
		var r measure.Record
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", path, len(out)+1, err)
		}
		switch {
		case r.Format == "" && r.Host != "":
			head = r
		case r.Host == "":
			r.Host, r.Date, r.Commit = head.Host, head.Date, head.Commit
		}
		out = append(out, r)
	}
}
