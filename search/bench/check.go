package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/search/measure"
)

// Check holds measurements of one machine against limits.
type Check struct {
	Name    string // of the limits
	Limits  measure.Limits
	Host    measure.Ceilings
	Tuned   bool     // against the stricter rules of tuned schedules
	Formats []string // that are checked, nil: all
}

// Verdicts returns the outcome of each rule. Without enough records of it, a rule fails.
func (c Check) Verdicts(records []measure.Record) []measure.Verdict {
	return slices.DeleteFunc(measure.Check(c.Limits, records, c.Host, c.Tuned), func(v measure.Verdict) bool {
		return len(c.Formats) > 0 && !slices.Contains(c.Formats, v.Format)
	})
}

// Asked is a product that limits ask to be measured.
type Asked struct {
	Format string
	Class  string // of the target, as measure.Class names it
}

// Products returns the products to measure on this machine, each once. It is an error if the limits have none of the formats.
func (c Check) Products() (out []Asked, err error) {
	all := c.Verdicts(nil)
	if len(all) == 0 {
		return nil, fmt.Errorf("has no limit for %s", strings.Join(c.Formats, ", "))
	}
	for _, v := range all {
		if x := (Asked{v.Format, v.Target}); !v.Skipped && !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out, nil
}

// Places returns the places that the rules ask for.
func (c Check) Places() []Place {
	modes, ns := measure.Asked(c.Tuned)
	return append(Places(modes, ns, 0, 0), extreme())
}

// Run measures a suite and returns the outcome. s should have the products and places that c asks for. There are at
// least measure.Rounds rounds. Callback and errors are as in Suite.Run.
func (c Check) Run(ctx context.Context, s *Suite, g *Gauge, rounds int, begin func(Step)) (Checked, error) {
	var all []measure.Record
	err := s.Run(ctx, g, max(rounds, measure.Rounds), begin, func(r measure.Record) { all = append(all, r) })
	if err != nil {
		return Checked{}, err
	}
	about := About{c.Name, g.Lab.Host.String(), Today(), Commit()}
	return Checked{about, Medians(all), c.Verdicts(all)}, nil
}

// Checked is the outcome of a check: the median round of each measurement, and what the rules say of all rounds.
type Checked struct {
	About    About
	Records  []measure.Record
	Verdicts []measure.Verdict
}

// About says where and when something was checked, by which tmacc and against which limits.
type About struct {
	Limits string `json:"limits"` // the name of their file
	Host   string `json:"host"`
	Date   string `json:"date"`
	Commit string `json:"commit"` // of tmacc
}

// Encode writes x as lines of JSON, which ParseChecked reads: About, then the records, then the verdicts.
func (x Checked) Encode(to io.Writer) error {
	e := json.NewEncoder(to)
	err := e.Encode(x.About)
	for _, r := range x.Records {
		err = errors.Join(err, e.Encode(r))
	}
	for _, v := range x.Verdicts {
		err = errors.Join(err, e.Encode(v))
	}
	return err
}

// ParseChecked reads what Encode writes.
func ParseChecked(data []byte) (x Checked, err error) {
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	if format.UnmarshalStrict(lines[0], &x.About) != nil || x.About.Limits == "" {
		return x, errors.New("line 1: not the first line of bench -check -json")
	}
	for i, line := range lines[1:] {
		var r measure.Record
		var v measure.Verdict
		switch {
		case format.UnmarshalStrict(line, &r) == nil && r.Ns > 0:
			x.Records = append(x.Records, r)
		case format.UnmarshalStrict(line, &v) == nil && v.Rule != "":
			x.Verdicts = append(x.Verdicts, v)
		default:
			return x, fmt.Errorf("line %d: not a line of bench -check -json", i+2)
		}
	}
	if len(x.Records) == 0 || len(x.Verdicts) == 0 {
		return x, errors.New("no records and verdicts")
	}
	return x, nil
}
