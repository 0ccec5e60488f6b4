package space

import (
	"errors"
	"math/rand"
	"regexp"
	"testing"

	"github.com/tmacc/tmacc/gen/operators"
	"github.com/tmacc/tmacc/ir/nest"
	"github.com/tmacc/tmacc/ir/operator"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/tests/drawn"
)

// The schedules of operators are points, with the same code.
func TestOperatorTracesAreMembers(t *testing.T) {
	for _, tg := range operators.Targets() {
		for _, o := range drawn.Some(drawn.New(t), 6, operator.All()) {
			trace, ok, err := operators.Trace(o, tg)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			sp := ForOperator(o, tg)
			again, err := canonical(sp, trace)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
				continue
			}
			if _, err := sp.Parse(again); err != nil {
				t.Errorf("%s on %s: %v\n%v\n%v", o.Name, tg.Machine().Name, err, trace, again)
			}
			a, err := schedule.CompileOperator(o, trace)
			if err != nil {
				t.Fatal(err)
			}
			b, err := schedule.CompileOperator(o, again)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
				continue
			}
			sameCode(t, tg, []schedule.Trace{trace, again}, a.Nest, b.Nest)
		}
	}
}

// sameCode demands that two nests become the same code. Names of loops may differ, as the names of trip counts.
func sameCode(t *testing.T, tg lower.Target, what []schedule.Trace, a, b *nest.Nest) {
	t.Helper()
	code := func(n *nest.Nest) string {
		k, err := lower.Build(t.Context(), tg, n)
		if err != nil {
			return err.Error()
		}
		return regexp.MustCompile(`count[._a-z0-9]+`).ReplaceAllString(lower.Dump(k), "count")
	}
	if x, y := code(a), code(b); x != y {
		t.Errorf("%v:\nother code:\n%.2000s\nthan\n%.2000s", what, x, y)
	}
}

// The first points of operators that spare registers lower, or need more general registers than there are, and most samples lower.
func TestOperatorSamples(t *testing.T) {
	for _, tg := range operators.Targets() {
		rng, n, lowered := rand.New(rand.NewSource(1)), 0, 0
		for _, o := range drawn.Some(drawn.New(t), 6, operator.All()) {
			sp := ForOperator(o, tg)
			build := func(x Point, err error) error {
				if err != nil {
					return err
				}
				k, err := schedule.CompileOperator(o, x.Trace())
				if err != nil {
					t.Fatal(err)
				}
				_, err = lower.Build(t.Context(), tg, k.Nest)
				return err
			}
			x, err := sp.Spare().First()
			var need *lower.Pressure
			if err = build(x, err); err != nil && !(errors.As(err, &need) && need.Kind == "general") {
				t.Errorf("%s on %s: the first point does not lower: %v: %v", o.Name, tg.Machine().Name, err, x.Trace())
			}
			for range 5 {
				if n++; build(sp.Sample(rng)) == nil {
					lowered++
				}
			}
		}
		t.Logf("%s: %d of %d samples lower", tg.Machine().Name, lowered, n)
		if !enough(lowered, n) {
			t.Errorf("%s: %d of %d samples lower, want %.0f %%", tg.Machine().Name, lowered, n, 100*leastShare)
		}
	}
}

// The first points of preparations without tables lower, and most samples.
func TestPreparationSamples(t *testing.T) {
	rng, n, lowered := rand.New(rand.NewSource(1)), 0, 0
	for _, c := range drawn.Some(drawn.New(t), 40, cellsOf(t, targets.Ordinary())) {
		if c.p.Act.Floats() {
			continue
		}
		sp, err := ForPreparation(c.p, nil, 0, c.on)
		if err != nil {
			t.Fatal(err)
		}
		build := func(x Point, err error) error {
			if err != nil {
				return err
			}
			k, err := schedule.CompilePreparation(c.p, nil, x.Trace())
			if err != nil {
				t.Fatal(err)
			}
			_, err = lower.Build(t.Context(), c.on, k.Nest)
			return err
		}
		if x, err := sp.First(); build(x, err) != nil {
			t.Errorf("%v: the first point does not lower: %v\n%v", c, build(x, err), x.Trace())
		}
		for range 5 {
			if n++; build(sp.Sample(rng)) == nil {
				lowered++
			}
		}
	}
	if t.Logf("%d of %d samples lower", lowered, n); !enough(lowered, n) {
		t.Errorf("%d of %d samples lower, want %.0f %%", lowered, n, 100*leastShare)
	}
}
