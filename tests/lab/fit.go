package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	measured "github.com/tmacc/tmacc/schedule/pairs"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/cost/ranking"
)

// Fit is a line of fit.jsonl: the numbers of the model that were fitted without the measured pairs of a core, "": to all pairs, and how many
// pairs of that core they rank right. Pairs that the model finds equal count a half.
type Fit struct {
	Without string     `json:"without"`
	Model   cost.Model `json:"model"`
	Right   float64    `json:"right"`
	Of      int        `json:"of"`
}

// fit fits the numbers of the model that no core has of its own: to the pairs of all cores, and without each core's in turn.
func (x *lab) fit(ctx context.Context, args []string) error {
	f := x.flags("fit")
	out := f.String("o", "", "`file` that the fitted numbers are written to, a line for each core that is left out")
	if err := x.parse(f, args, 0); err != nil {
		return err
	}
	pairs, err := readFitted(ctx)
	if err != nil {
		return err
	}
	t := fitting{pairs: pairs, known: map[cost.Model]ranking.Scores{}, step: x.step}
	var text []byte
	for _, without := range append([]string{""}, t.cores()...) {
		m, err := t.best(ctx, without)
		if err != nil {
			return err
		}
		s := t.scores(m)[without]
		fmt.Fprintf(x.out, "without %s: %.1f of %d pairs ranked right, %.1f %%, by %+v\n", cmp.Or(without, "none"), s.Right, s.Of, 100*s.Right/float64(s.Of), m)
		line, err := json.Marshal(Fit{without, m, s.Right, s.Of})
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	if *out == "" {
		return nil
	}
	return os.WriteFile(*out, text, 0o666)
}

// tried are the models that fitting chooses from: few coarse values of each fitted number, in all combinations.
func tried() (all []cost.Model) {
	m := cost.Fitted
	for _, m.Window = range []float64{0.35, 0.5, 0.7, 1} {
		for _, m.Begins = range []int{1, 2} {
			for _, m.Reach = range []int{1, 4} {
				for _, m.Asks = range []int{2, 4, 8} {
					all = append(all, m)
				}
			}
		}
	}
	return all
}

// fitting ranks pairs by models, each model once.
type fitting struct {
	pairs []*ranking.Pair
	known map[cost.Model]ranking.Scores
	step  func(format string, args ...any)
}

// cores are the cores that pairs were measured on.
func (t *fitting) cores() (names []string) {
	for i := range t.pairs {
		names = append(names, t.pairs[i].Core)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// best is the model that ranks pairs best that were not measured on the core without.
func (t *fitting) best(ctx context.Context, without string) (best cost.Model, err error) {
	for i, m := range tried() {
		if err := ctx.Err(); err != nil {
			return best, err
		}
		if i == 0 || t.rate(m, without) > t.rate(best, without) {
			best = m
		}
		t.step("without %s: %d models, %.1f %%", cmp.Or(without, "none"), i+1, 100*t.rate(best, without))
	}
	return best, nil
}

// rate is how well a model ranks the pairs of all cores but one.
func (t *fitting) rate(m cost.Model, without string) float64 { return t.scores(m).Without(without) }

// scores are a model's, found once.
func (t *fitting) scores(m cost.Model) ranking.Scores {
	if t.known[m] == nil {
		t.known[m] = ranking.Rank(t.pairs, m)
	}
	return t.known[m]
}

// readFitted reads the decided pairs of products.
func readFitted(ctx context.Context) (out []*ranking.Pair, err error) {
	file, err := os.Open(filepath.Join(home, "pairs.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("fit: %w: run it at the root of a checkout", err)
	}
	defer file.Close()
	all, err := measured.Read(file)
	if err != nil {
		return nil, err
	}
	if out, err = ranking.Decided(ctx, all); err == nil && len(out) == 0 {
		err = errors.New("fit: no pair is decided")
	}
	return out, err
}
