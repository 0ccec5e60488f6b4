package explore

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/tmacc/tmacc/lower/spirv"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/shaders"
	"github.com/tmacc/tmacc/search/tune"
)

// device is a device of Vulkan. It is predicted by the speeds of its target, and opened by the first action that measures.
type device struct {
	*Explorer
	target spirv.Target
	places []bench.Place
}

func (d *device) usual(ctx context.Context) ([]search.Use, defaults.Origin, error) {
	uses, err := shaders.Default(ctx, d.Problem, d.target, d.Columns)
	for i := range uses { // measurements are of products of prepared activations
		uses[i].Trace = schedule.Unquantized(uses[i].Trace)
	}
	return uses, defaults.Default, err
}

// shape is a purpose with a text.
type shape struct{ tune.Purpose }

func (s shape) String() string { return tune.PurposesText(s.Purpose) }

func (d *device) purposes() (out []fmt.Stringer) {
	for _, p := range d.all(shaders.Total) {
		out = append(out, shape{p})
	}
	return out
}

// all are the purposes; of those out of memory, matrices have some bytes in all.
func (d *device) all(total int) (out []tune.Purpose) {
	for _, at := range d.places {
		p := shaders.Purpose(at.Mode, at.M, d.Columns, d.Problem.WholeK(at.K))
		p.Total = min(p.Total, total)
		out = append(out, p)
	}
	return out
}

func (d *device) selected(ctx context.Context, t schedule.Trace) (*shaders.Selected, error) {
	k, err := schedule.Compile(d.Problem, t)
	if err != nil {
		return nil, err
	}
	return shaders.Select(ctx, d.target, k)
}

func (d *device) predict(ctx context.Context, t schedule.Trace) ([]float64, error) {
	s, err := d.selected(ctx, t)
	if err != nil {
		return nil, err
	}
	var out []float64
	for _, p := range d.all(shaders.Total) {
		if err := s.Refused(p); err != nil {
			return nil, err
		}
		out = append(out, s.Estimate(p))
	}
	return out, nil
}

func (d *device) unit() string { return "ns on a device as " + d.target.Speeds().Name }

func (d *device) cost(ctx context.Context, t schedule.Trace) (string, error) {
	s, err := d.selected(ctx, t)
	if err != nil {
		return "", err
	}
	r, err := s.Report(d.target, d.all(shaders.Total)...)
	return r.String(), err
}

func (d *device) open(ctx context.Context) (gauge, error) {
	if d.Device == nil {
		return nil, errors.New("no device can be opened here")
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // later actions start workers, too
	defer context.AfterFunc(ctx, end)()
	lab, err := d.Device(life, func(what string) { d.said(session.Step(what)) })
	if err != nil {
		end()
		return nil, err
	}
	total := shaders.Total
	if lab.Device().Software {
		total = shaders.SoftwareTotal
	}
	return &onDevice{d, lab, d.all(total), end}, nil
}

// onDevice measures on a device.
type onDevice struct {
	*device
	lab   *shaders.Lab
	shown []tune.Purpose
	end   context.CancelFunc // of starts of workers
}

func (d *onDevice) Close() error {
	d.end()
	d.lab.Close()
	return nil
}

func (d *onDevice) given() *shaders.Search {
	return d.lab.Given(d.Problem, d.target, d.shown, search.Use{Cols: d.Columns, Trace: d.Explorer.usual})
}

func (d *onDevice) beside(ctx context.Context, t, base schedule.Trace, name string) ([]tune.Beside, error) {
	s := d.given()
	if base != nil {
		s = d.lab.Given(d.Problem, d.target, d.shown, search.Use{Trace: base})
	}
	return s.Beside(ctx, search.Use{Trace: t})
}

func (d *onDevice) roofline(ctx context.Context, t schedule.Trace, all []tune.Beside) (out Roofline, err error) {
	records, err := d.given().Reached(ctx, all, search.Use{Trace: t})
	for i, r := range records {
		out = append(out, Reach{all[i].Purpose, r.GBS, r.CeilingGBS, r.GWeightsS, r.CeilingGMACS})
	}
	return out, err
}

func (d *onDevice) search(ctx context.Context, limit time.Duration, from schedule.Trace) (*Found, error) {
	s := d.given()
	if use := (search.Use{Trace: from}); !same(from, d.Explorer.usual) && s.Compiles(ctx, use) {
		s.Seeds = [][]search.Use{{use}}
	}
	if err := s.SeedLocked(ctx, d.lab, d.Lock); err != nil {
		return nil, err
	}
	s.Say = func(what string) { d.said(session.Step(what)) }
	began := time.Now()
	var least tune.Ratio
	s.Options = tune.Options{Trials: session.UsualTrials, Patience: session.UsualPatience, Batch: 4, Rng: rand.New(rand.NewSource(seed)), Progress: func(p tune.Progress) {
		d.said(session.Progress{Product: d.Problem.Name() + " on " + d.target.Machine().Name, Measured: p.Trials, Trials: session.UsualTrials, Dropped: p.Dropped,
			Took: time.Since(began), Limit: limit, Best: least})
	}}
	s.Log = func(t tune.Trial) {
		if t.Error == "" && len(t.Genes) > 0 && (least.Median == 0 || t.Cost < least.Median) && !same(t.Genes[0].Trace, d.Explorer.usual) {
			least = t.Ratio()
			d.said(session.Better{Ratio: least, Traces: []schedule.Trace{t.Genes[0].Trace}})
		}
	}
	logged := d.logged(s)
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	out, err := d.lab.Search(limited, s)
	if limited.Err() != nil && ctx.Err() == nil {
		out.Ended = "time"
	}
	logged(out.Ended, out.Dropped)
	if err != nil {
		return nil, err
	}
	for _, best := range out.Best {
		if t := best.G.Uses[0].Trace; !same(t, d.Explorer.usual) {
			return &Found{Cost: best.Cost, Trace: t, Ended: out.Ended, Tried: out.Trials}, nil
		}
	}
	return nil, session.ErrNothing
}

// logged makes a search write to the log, which end completes. A search goes on without a log.
func (d *onDevice) logged(s *shaders.Search) (end func(ended string, dropped map[string]int)) {
	failed := func(err error) { d.said(session.Note{About: session.NotLogged, Err: err}) }
	if d.Log == session.NoLog {
		return func(string, map[string]int) {}
	}
	log, err := session.LogAt(d.Log)
	var complete func(string, map[string]int) error
	if err == nil {
		complete, err = s.LogTo(log, d.lab, seed, d.Version, failed)
	}
	if err != nil {
		failed(err)
		return func(string, map[string]int) {}
	}
	return func(ended string, dropped map[string]int) {
		if err := complete(ended, dropped); err != nil {
			failed(err)
		}
	}
}

// seed is that of searches.
const seed = 1

func same(a, b schedule.Trace) bool { return a.Key() == b.Key() }

// keep locks the schedule alone. Search looks for kernels of other widths; this one computes products of other widths too.
func (d *onDevice) keep(ctx context.Context, anyway bool, t schedule.Trace) (Saved, error) {
	if same(t, d.Explorer.usual) {
		return d.remove()
	}
	all, err := d.beside(ctx, t, nil, "")
	if err != nil {
		return Saved{}, err
	}
	if r := tune.Together(all); !anyway && (!r.Less() || len(tune.Losses(all)) > 0) {
		text := fmt.Sprintf("not locked: the schedule takes %v of the default's time", r)
		if !r.Less() && !r.Greater() {
			text += ", which is within the noise"
		}
		return Saved{Outcome: session.None, Text: text}, nil
	}
	entry, err := d.given().EntryOf(ctx, all, d.Version, search.Use{Cols: d.Columns, Trace: t})
	if err != nil {
		return Saved{}, err
	}
	return d.change(func(l *tune.Lock) { l.Put(entry) }, Saved{session.Locked, d.Lock, fmt.Sprintf("locked in %s, 1 width", d.Lock)})
}

func (d *onDevice) remove() (Saved, error) {
	lock, err := tune.ReadLock(d.Lock)
	if err != nil {
		return Saved{}, err
	}
	if lock.Find(d.Problem, d.target) == nil {
		return Saved{Outcome: session.None, Text: "not locked: the default schedule needs no lock"}, nil
	}
	return d.change(func(l *tune.Lock) { l.Remove(d.Problem, d.target) },
		Saved{session.Removed, d.Lock, fmt.Sprintf("removed from %s: the default schedule needs no lock", d.Lock)})
}

// change changes the lock.
func (d *onDevice) change(how func(*tune.Lock), done Saved) (Saved, error) {
	if d.Lock == "" {
		return Saved{}, errors.New("no lock file was given")
	}
	if err := os.MkdirAll(filepath.Dir(d.Lock), 0o777); err != nil {
		return Saved{}, err
	}
	if err := tune.ChangeLock(d.Lock, func(l *tune.Lock) error { how(l); return nil }); err != nil {
		return Saved{}, err
	}
	return done, nil
}
