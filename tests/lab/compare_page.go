package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// comparison is the summary of rows.
type comparison struct {
	Rows     int                `json:"rows"`      // with a ratio
	Same     int                `json:"same"`      // of these, whose schedules are the same
	Missing  int                `json:"missing"`   // not measured yet
	Mean     float64            `json:"mean"`      // geometric, of the ratios
	Means    map[string]float64 `json:"means"`     // of parts: modes, numbers of activations, targets
	Above105 float64            `json:"above_105"` // share of rows above 1.05
	Surely   float64            `json:"surely"`    // share of rows above 1.05 by the lower bounds of their ratios
	Above115 int                `json:"above_115"` // rows above 1.15
	Worst    []compared         `json:"worst"`     // the largest ratios
	Best     []compared         `json:"best"`      // the least ratios
}

// mostListed is how many of the worst rows and of the best ones are listed.
const mostListed = 10

func summary(rows []compared) comparison {
	have := slices.DeleteFunc(slices.Clone(rows), func(c compared) bool { return !c.measured() })
	s := comparison{Rows: len(have), Missing: len(rows) - len(have), Mean: meanOf(have), Means: map[string]float64{}}
	parts := map[string][]compared{}
	for _, c := range have {
		for _, part := range []string{c.Mode, fmt.Sprintf("n=%d", c.N), c.now.Target} {
			parts[part] = append(parts[part], c)
		}
		if c.Same {
			s.Same++
		}
		if c.Ratio.Median > 1.05 {
			s.Above105++
		}
		if c.Ratio.Low > 1.05 {
			s.Surely++
		}
		if c.Ratio.Median > 1.15 {
			s.Above115++
		}
	}
	s.Above105 /= max(1, float64(len(have)))
	s.Surely /= max(1, float64(len(have)))
	for part, some := range parts {
		s.Means[part] = meanOf(some)
	}
	slices.SortStableFunc(have, func(a, b compared) int { return cmp.Compare(b.Ratio.Median, a.Ratio.Median) })
	measured := slices.DeleteFunc(have, func(c compared) bool { return c.Same })
	s.Worst = measured[:min(mostListed, len(measured))]
	s.Best = slices.Clone(measured[max(0, len(measured)-mostListed):])
	slices.Reverse(s.Best)
	return s
}

// meanOf is the geometric mean of the ratios of rows, 1 without any.
func meanOf(rows []compared) float64 {
	sum := 0.0
	for _, c := range rows {
		sum += math.Log(c.Ratio.Median)
	}
	return math.Exp(sum / max(1, float64(len(rows))))
}

// printComparison prints the summary of rows as text or as JSON.
func (x *lab) printComparison(rows []compared, asJSON bool) error {
	s := summary(rows)
	if asJSON {
		return json.NewEncoder(x.out).Encode(s)
	}
	fmt.Fprintf(x.out, "%d rows, %d of them with the same schedules; %d not measured\n", s.Rows, s.Same, s.Missing)
	fmt.Fprintf(x.out, "new time over old: geometric mean %.3f; above 1.05: %.1f %% of the rows (%.1f %% beyond the noise); above 1.15: %d rows\n", s.Mean, 100*s.Above105, 100*s.Surely, s.Above115)
	for _, part := range partsInOrder(s.Means) {
		fmt.Fprintf(x.out, "  %-18s %.3f\n", part, s.Means[part])
	}
	for _, list := range []struct {
		name string
		rows []compared
	}{{"worst", s.Worst}, {"best", s.Best}} {
		fmt.Fprintf(x.out, "%s:\n", list.name)
		for _, c := range list.rows {
			fmt.Fprintf(x.out, "  %-40s %.3f (%.3f to %.3f), %.0f and %.0f ns\n", c.String(), c.Ratio.Median, c.Ratio.Low, c.Ratio.High, c.OldNs, c.NewNs)
		}
	}
	return nil
}

func partsInOrder(means map[string]float64) (out []string) {
	for part := range means {
		out = append(out, part)
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return out
}
