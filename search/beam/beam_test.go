package beam_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/space"
	"github.com/tmacc/tmacc/tests/drawn"
)

// The committed schedules of operators are the chosen ones: one in four of them, as go generate, which CI runs, chooses all.
func TestCommitted(t *testing.T) {
	type cell struct {
		o  operator.Operator
		on lower.Target
	}
	var all []cell
	for _, o := range operator.All() {
		for _, tg := range operators.Targets() {
			all = append(all, cell{o, tg})
		}
	}
	for _, c := range drawn.Some(drawn.New(t), 4, all) {
		want, ok, err := operators.Trace(c.o, c.on)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		have, err := beam.Operator(t.Context(), c.o, c.on)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(have, want) {
			t.Errorf("%s on %s: run go generate ./runtime/ops: %v is chosen, not %v", c.o.Name, c.on.Machine().Name, have, want)
		}
	}
}

// vectorized is a space and its first point.
func vectorized(t *testing.T) (*space.Space, space.Point) {
	t.Helper()
	sp := space.ForOperator(*operator.Find("add"), targets.ByName("amd64/avx2"))
	x, err := sp.First()
	if err != nil {
		t.Fatal(err)
	}
	return sp, x
}

// unrolledBy is by how much a point splits off its last loop.
func unrolledBy(x space.Point) (by int) {
	for _, step := range x.Trace() {
		if s, ok := step.(schedule.Split); ok {
			by = s.By
		}
	}
	return by
}

// A search finds the best decision, the first of equally good ones, within its budget, and the same with points that cost nothing.
func TestImprove(t *testing.T) {
	sp, first := vectorized(t)
	var calls atomic.Int64
	s := beam.Search{Width: 2, Most: 12, Passes: 3, Budget: 1000, Cost: func(_ context.Context, x space.Point, _ float64) (float64, error) {
		calls.Add(1)
		return math.Abs(float64(unrolledBy(x) - 2)), nil
	}}
	best, err := s.Improve(t.Context(), sp, first)
	if err != nil || unrolledBy(best[0].Point) != 2 || best[0].Cost != 0 {
		t.Fatalf("%v, %v", best, err)
	}
	tried := calls.Load()
	if again, err := s.Improve(t.Context(), sp, first); err != nil || again[0] != best[0] || calls.Load() != tried {
		t.Errorf("again %v, %v, by %d more calls", again[0], err, calls.Load()-tried)
	}
	same := beam.Search{Width: 2, Most: 12, Passes: 1, Budget: 5, Cost: func(context.Context, space.Point, float64) (float64, error) {
		calls.Add(1)
		return 1, nil
	}}
	calls.Store(0)
	if best, err = same.Improve(t.Context(), sp, first); err != nil || !reflect.DeepEqual(best[0].Point, first) || calls.Load() != 5 {
		t.Errorf("%v, %v, %d calls", best[0].Point, err, calls.Load())
	}
}

// Points that are wrong lead to right ones, and an error comes back if none is right, or if the search is interrupted.
func TestWrong(t *testing.T) {
	sp, first := vectorized(t)
	wrong := errors.New("wrong")
	s := beam.Search{Width: 2, Most: 12, Passes: 3, Budget: 1000, Cost: func(_ context.Context, x space.Point, _ float64) (float64, error) {
		if by := unrolledBy(x); by != 2 {
			return float64(by), wrong
		}
		return 7, nil
	}}
	if best, err := s.Improve(t.Context(), sp, first); err != nil || len(best) == 0 || slices.ContainsFunc(best, func(f *beam.Found) bool { return f.Cost != 7 }) {
		t.Errorf("%v, %v", best, err)
	}
	never := beam.Search{Width: 1, Most: 3, Passes: 1, Budget: 10, Cost: func(context.Context, space.Point, float64) (float64, error) { return math.Inf(1), wrong }}
	if _, err := never.Improve(t.Context(), sp, first); !errors.Is(err, wrong) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := beam.Operator(ctx, *operator.Find("add"), targets.ByName("amd64/avx2")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Rules that are skipped decide nothing.
func TestSkip(t *testing.T) {
	sp, first := vectorized(t)
	s := beam.Search{Width: 2, Most: 12, Passes: 2, Budget: 1000, Skip: func(string, *beam.Found) bool { return true },
		Cost: func(_ context.Context, x space.Point, _ float64) (float64, error) {
			return float64(len(x.Trace())), nil
		}}
	if best, err := s.Improve(t.Context(), sp, first); err != nil || len(best) != 1 || !reflect.DeepEqual(best[0].Point, first) {
		t.Errorf("%v, %v", best, err)
	}
}
