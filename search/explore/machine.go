package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/tune"
)

// machine is what runs schedules: a core of a CPU, or a device of Vulkan.
type machine interface {
	// usual are the default schedules.
	usual(ctx context.Context) ([]search.Use, defaults.Origin, error)
	// purposes are what predictions are for, in their order.
	purposes() []fmt.Stringer
	// predict is what a schedule takes for each purpose, in the same unit for all schedules.
	predict(ctx context.Context, t schedule.Trace) ([]float64, error)
	// unit says what predictions are.
	unit() string
	// cost says where the time of a schedule goes.
	cost(ctx context.Context, t schedule.Trace) (string, error)
	// open begins to measure.
	open(ctx context.Context) (gauge, error)
}

// gauge is what one action uses at a time.
type gauge interface {
	// beside measures a schedule beside another one of a name, or beside the default one. Both are compared with the definition before.
	beside(ctx context.Context, t, base schedule.Trace, name string) ([]tune.Beside, error)
	// roofline is what a schedule reaches, by its measurements.
	roofline(ctx context.Context, t schedule.Trace, all []tune.Beside) (Roofline, error)
	// search begins with a schedule, the default one and what else is known.
	search(ctx context.Context, limit time.Duration, from schedule.Trace) (*Found, error)
	keep(ctx context.Context, anyway bool, t schedule.Trace) (Saved, error)
	Close() error
}

// machineOf is the one of a target.
func (e *Explorer) machineOf() (machine, error) {
	if t, ok := e.Target.(spirv.Target); ok {
		d := &device{Explorer: e, target: t}
		modes := e.Modes
		if len(modes) > 1 { // no device has a third level
			modes = slices.DeleteFunc(slices.Clone(modes), func(mode string) bool { return mode == measure.ModeL3 })
		}
		d.places = bench.Places(modes, []int{e.Columns}, e.M, e.K)
		return d, nil
	}
	c := &processor{Explorer: e, target: e.Target.(lower.Target)}
	for _, mode := range e.Modes {
		at, err := cost.PlaceOf(mode)
		if err != nil {
			return nil, err
		}
		c.at = append(c.at, cost.Purpose{N: e.Columns, At: at})
	}
	return c, nil
}

// onDevice says that shaders are explored.
func (e *Explorer) onDevice() bool { _, ok := e.Target.(spirv.Target); return ok }

// processor is a core of a CPU.
type processor struct {
	*Explorer
	target lower.Target
	at     []cost.Purpose
}

func (c *processor) usual(ctx context.Context) ([]search.Use, defaults.Origin, error) {
	chosen, err := c.Defaults.Choose(ctx, c.Problem, c.target)
	return chosen.Uses, chosen.Origin(), err
}

func (c *processor) purposes() (out []fmt.Stringer) {
	for _, p := range c.at {
		out = append(out, p)
	}
	return out
}

func (c *processor) predict(ctx context.Context, t schedule.Trace) ([]float64, error) {
	return build.Predict(ctx, c.Problem, t, c.target, c.at)
}

func (c *processor) unit() string { return "cycles for a product of a weight and an activation" }

func (c *processor) cost(ctx context.Context, t schedule.Trace) (string, error) {
	report, err := build.CostReport(ctx, c.Problem, c.Stages(t), c.target)
	return strings.TrimRight(report.String(), "\n"), err
}

func (c *processor) open(ctx context.Context) (gauge, error) {
	if c.Lacks != "" {
		return nil, fmt.Errorf("this machine does not run %s: it lacks %s", c.target.Machine().Name, c.Lacks)
	}
	o := session.Options{Problem: c.Problem, Target: c.target, Only: c.Only, Lock: c.Lock, Defaults: c.Defaults,
		Log: c.Log, Version: c.Version, Seed: seed, Probing: c.Probing, Hung: c.Hung, Events: c.said}
	o.Purposes = session.Purposes(c.Problem, o.On.Host(), c.Modes, []int{c.Columns}, c.M, c.K)
	s, err := session.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return inSession{s}, nil
}

// inSession measures on a CPU.
type inSession struct{ *session.Session }

func (s inSession) beside(ctx context.Context, t, base schedule.Trace, name string) ([]tune.Beside, error) {
	own, err := s.Contender("the schedule", t)
	if err != nil || base == nil {
		if err != nil {
			return nil, err
		}
		return s.Beside(ctx, nil, own)
	}
	other, err := s.Contender(name, base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s.Beside(ctx, &other, own)
}

func (s inSession) roofline(ctx context.Context, t schedule.Trace, all []tune.Beside) (out Roofline, err error) {
	x, err := s.Contender("the schedule", t)
	if err != nil {
		return nil, err
	}
	reached, err := s.Roofline(ctx, x, all)
	for i, r := range reached {
		out = append(out, Reach{all[i].Purpose, r.GBS, r.CeilingGBS, r.GWeightsS, r.CeilingGMACS})
	}
	return out, err
}

func (s inSession) search(ctx context.Context, limit time.Duration, from schedule.Trace) (*Found, error) {
	s.Limit, s.From = limit, nil
	if _, err := s.Contender("the schedule", from); err == nil {
		s.From = []schedule.Trace{from}
	}
	f, err := s.Search(ctx)
	if err != nil {
		return nil, err
	}
	if len(f.Best) == 0 {
		return nil, session.ErrNothing
	}
	return &Found{Cost: f.Best[0].Cost, Trace: f.Traces()[0], Ended: f.Ended, Tried: f.Trials}, nil
}

func (s inSession) keep(ctx context.Context, anyway bool, t schedule.Trace) (Saved, error) {
	d, err := s.Keep(ctx, anyway, t)
	if err != nil {
		return Saved{}, err
	}
	x, err := s.Save(d)
	text := x.String()
	if d.Outcome == session.Locked {
		text = fmt.Sprintf("%v of the default's time: %s", d.Ratio(), text)
	}
	return Saved{d.Outcome, x.Lock, text}, err
}
