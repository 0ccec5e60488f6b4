package tune

import (
	"cmp"
	"errors"

	"github.com/tmacc/tmacc/search"
)

// Searches calls f with each run that has measured something, the oldest first, and the outcomes of its trials. It
// returns the errors of Each and of f. If it returns an *Unread, it has called f with everything that could be read.
func (l Log) Searches(f func(Run, []Tried) error) error {
	var last Run
	var tried []Tried
	end := func() error {
		if last.Best == 0 || len(tried) == 0 {
			return nil
		}
		return f(last, tried)
	}
	err := l.Each(true, func(r Run, t *Trial) error {
		if r.ID != last.ID {
			if err := end(); err != nil {
				return err
			}
			tried = nil
		}
		last, tried = r, append(tried, Tried{Family: t.family(), Cost: t.Cost})
		return nil
	})
	if unread := (*Unread)(nil); err != nil && !errors.As(err, &unread) {
		return err
	}
	return cmp.Or(end(), err)
}

// family is the family of the kernel for the fewest activations.
func (t *Trial) family() string {
	if len(t.Genes) == 0 {
		return "unknown"
	}
	return search.Family(t.Genes[0].Trace)
}
