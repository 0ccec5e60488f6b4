package measure

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/search/timing"
)

// Rounds is how many interleaved rounds Check wants of each row: it compares
// their medians.
const Rounds = 5

// Verdict is the outcome of one rule.
type Verdict struct {
	Rule    string  `json:"rule"`              // the quantity compared, with its unit
	Target  string  `json:"target"`            // avx512vbmi
	Format  string  `json:"format"`            // w4-g128
	Have    float64 `json:"have"`              // median over the rounds
	Limit   float64 `json:"limit"`             // what docs/lab/limits.json or the rule names, before Factor
	Scaled  float64 `json:"scaled,omitempty"`  // Limit on this host, 0 if it is the same everywhere
	Factor  float64 `json:"factor"`            // how much of the limit is required (or, with AtMost, allowed)
	AtMost  bool    `json:"at_most,omitempty"` // Have must not be larger; otherwise not smaller
	Rounds  int     `json:"rounds"`            // that Have is the median of
	Pass    bool    `json:"pass"`
	Skipped bool    `json:"skipped,omitempty"` // the host does not run the target: neither passed nor failed
	Problem string  `json:"problem,omitempty"` // why there is nothing to compare

	scaling *scaling // CheckPeer has judged it
}

// Failed says that something was measured and is too slow, or was to be measured
// and is not there.
func (v Verdict) Failed() bool { return !v.Pass && !v.Skipped }

// Missed counts the verdicts that failed.
func Missed(verdicts []Verdict) (n int) {
	for _, v := range verdicts {
		if v.Failed() {
			n++
		}
	}
	return n
}

// Bound is what Have is compared with: of a limit and its scaled value the one
// easier to keep.
func (v Verdict) Bound() float64 {
	switch {
	case v.Scaled == 0:
		return v.Factor * v.Limit
	case v.AtMost:
		return v.Factor * max(v.Limit, v.Scaled)
	}
	return v.Factor * min(v.Limit, v.Scaled)
}

// String is a verdict on one line: "ok    avx2 w4 l2 weights/cycle: 24.1, at least
// 0.75 of 30 (21.0 on this host)".
func (v Verdict) String() string {
	var s strings.Builder
	word := map[bool]string{true: "ok", false: "FAIL"}[v.Pass]
	if v.Skipped {
		word = "skip"
	}
	fmt.Fprintf(&s, "%-5s %s %s %s: ", word, v.Target, v.Format, v.Rule)
	if v.Problem != "" {
		s.WriteString(v.Problem)
		return s.String()
	}
	side := map[bool]string{true: "at most", false: "at least"}[v.AtMost]
	fmt.Fprintf(&s, "%.4g, %s %.4g of %.4g", v.Have, side, v.Factor, v.Limit)
	if v.Scaled != 0 {
		fmt.Fprintf(&s, " (%.4g on this host)", v.Scaled)
	}
	return s.String()
}

// Check holds records against the rules for default schedules, or for tuned ones, in the order
// of the rules. Records of the same format, target, mode and N are rounds of one
// measurement. A rule whose target is not among the ceilings of the host is skipped.
func Check(limits Limits, records []Record, host Ceilings, tuned bool) []Verdict {
	var out []Verdict
	for _, r := range rules {
		for _, row := range r.rows {
			if factor := r.factor(row, tuned); factor > 0 {
				out = append(out, r.check(rounds{row, limits, records, host}, factor))
			}
		}
	}
	return out
}

func (r *rule) check(c rounds, factor float64) Verdict {
	v := Verdict{Rule: r.name, Target: c.row.target, Format: c.row.format, Factor: factor, AtMost: r.atMost}
	if _, ok := c.host.Dot[c.row.target]; !ok {
		v.Skipped, v.Problem = true, "this machine does not run the target"
		return v
	}
	figures := r.have(c)
	v.Rounds = len(figures)
	if len(figures) < Rounds {
		v.Problem = fmt.Sprintf("%d measurements, want %d", len(figures), Rounds)
		return v
	}
	v.Have = timing.Median(figures)
	v.Limit = r.limit(c)
	if v.Limit == 0 {
		v.Problem = "no such row in the limits"
		return v
	}
	if r.scaled != nil {
		v.Scaled = r.scaled(c, v.Limit)
	}
	v.Pass = v.Have >= v.Bound()
	if r.atMost {
		v.Pass = v.Have <= v.Bound()
	}
	if r.share && v.Have > MaxShare && c.beyond() {
		v.Pass, v.Problem = false, fmt.Sprintf("a share of %.3f is an error of the probe", v.Have)
	}
	return v
}

// rounds is what a rule may look at to judge one row.
type rounds struct {
	row     ruleRow
	limits  Limits
	records []Record
	host    Ceilings
}

// inLimits is the row of the limits.
func (c rounds) inLimits() Limit { return c.limits.row(c.row.target, c.row.limit) }

// beyond says that a figure of the row is more than the machine can do. Products by tables may do more than its dot products.
func (c rounds) beyond() bool {
	return slices.ContainsFunc(c.records, func(r Record) bool { return c.counts(r) && r.beyond() })
}

// counts says that r is of the row.
func (c rounds) counts(r Record) bool {
	return r.Format == c.row.format && Class(r.Target) == c.row.target && r.Threads <= 1
}

// of returns a figure of each round of the row with N columns in a mode, "" for
// any, leaving out zeros: what was not measured.
func (c rounds) of(mode string, n int, figure func(Record) float64) []float64 {
	return c.where(mode, n, false, figure)
}

// where is of, of activations that are all as large as the largest or are not.
func (c rounds) where(mode string, n int, extreme bool, figure func(Record) float64) []float64 {
	var out []float64
	for _, r := range c.records {
		if !c.counts(r) || r.N != n || r.Extreme != extreme || mode != "" && r.Mode != mode {
			continue
		}
		if f := figure(r); f != 0 {
			out = append(out, f)
		}
	}
	return out
}
