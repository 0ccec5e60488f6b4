package build

import (
	"context"

	"github.com/tmacc/tmacc/ir/vir"
	"github.com/tmacc/tmacc/lower"
)

// Held says what registers of a target hold at the place where a kernel needs most of them, by its stages; nil if they suffice, or if the stages
// stop before that is known.
func Held(ctx context.Context, stages []Stage, t lower.Selector) (*lower.Held, error) {
	for _, s := range stages {
		f, ok := s.Value.(*vir.Func)
		if !ok {
			continue
		}
		selected, err := lower.Select(ctx, t, f)
		if err != nil {
			return nil, err
		}
		return selected.Held(ctx)
	}
	return nil, nil
}
