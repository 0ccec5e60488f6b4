package explore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/session"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// Measured is what a schedule takes beside another one, the default unless Base says otherwise, in the same rounds.
type Measured struct {
	Base    string     `json:"base"`
	Ratio   tune.Ratio `json:"ratio"` // of the times, the geometric mean of the figures, with its noise
	Figures []Figure   `json:"figures"`
}

// Figure is a product of one mode, in nanoseconds: medians.
type Figure struct {
	tune.Purpose
	Ns     float64    `json:"ns"`
	BaseNs float64    `json:"base_ns"`
	Ratio  tune.Ratio `json:"ratio"`
}

// String is a line for each figure, under one for all.
func (m Measured) String() string {
	lines := []string{fmt.Sprintf("measured %v of the time of %s, in the same rounds", m.Ratio, m.Base)}
	for _, f := range m.Figures {
		lines = append(lines, fmt.Sprintf("%9.1f us, %9.1f us, %v: %s", f.Ns/1e3, f.BaseNs/1e3, f.Ratio, tune.PurposesText(f.Purpose)))
	}
	return strings.Join(lines, "\n")
}

// defaultWords name the default schedule in texts.
const defaultWords = "the default schedule"

// Measure compares the schedule with the definition, in a worker process, and measures it beside the default schedule. A schedule that
// crashes, hangs or computes something else is a problem of it from then on.
func (e *Explorer) Measure(ctx context.Context, hear func(session.Event)) (*Measured, error) {
	return e.beside(ctx, hear, e.Now(), nil, DefaultPoint)
}

// Roofline is what the schedule reaches of what the machine can do.
type Roofline []Reach

// Reach is a product of one mode.
type Reach struct {
	tune.Purpose
	GBS          float64 `json:"gb_s"` // of weights and scales, as stored
	CeilingGBS   float64 `json:"ceiling_gb_s"`
	GMACS        float64 `json:"gmac_s"` // products of a weight and an activation
	CeilingGMACS float64 `json:"ceiling_gmac_s"`
}

// barWide is the width of a whole ceiling.
const barWide = 24

// String draws each product below both ceilings.
func (r Roofline) String() string {
	var lines []string
	bar := func(value, ceiling float64, unit string) string {
		if ceiling == 0 {
			return fmt.Sprintf("%8.1f %s of an unknown ceiling", value, unit)
		}
		n := min(max(int(value/ceiling*barWide+0.5), 0), barWide)
		return fmt.Sprintf("%8.1f of %.1f %s, %.2f\n  [%s%s]", value, ceiling, unit, value/ceiling, strings.Repeat("#", n), strings.Repeat(".", barWide-n))
	}
	for _, x := range r {
		lines = append(lines, tune.PurposesText(x.Purpose), bar(x.GBS, x.CeilingGBS, "GB/s"), bar(x.GMACS, x.CeilingGMACS, "GMAC/s"))
	}
	return strings.Join(append(lines, "GB/s: weights and scales, as stored", "GMAC/s: products of a weight and an activation", "ceilings: of one core, or of a device, as measured"), "\n")
}

// Roofline measures the schedule, and once what the machine can do.
func (e *Explorer) Roofline(ctx context.Context, hear func(session.Event)) (out Roofline, err error) {
	ctx, s, done, err := e.begins(ctx, "measuring", hear)
	if err != nil {
		return nil, err
	}
	defer done()
	t := e.Now()
	all, err := s.beside(ctx, t, nil, "")
	if err != nil {
		return nil, e.blame(t, nil, err)
	}
	e.measured(t, measuredOf(all, defaultWords))
	if out, err = s.roofline(ctx, t, all); err == nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.about(t).reached = out
	}
	return out, err
}

// Reached is what Roofline has measured of the schedule, nil if nothing.
func (e *Explorer) Reached() Roofline {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.about(e.history[e.now]).reached
}

// beside measures t beside a base of a name, nil for the default schedule.
func (e *Explorer) beside(ctx context.Context, hear func(session.Event), t, base schedule.Trace, name string) (*Measured, error) {
	ctx, s, done, err := e.begins(ctx, "measuring", hear)
	if err != nil {
		return nil, err
	}
	defer done()
	name = wordsOf(name)
	all, err := s.beside(ctx, t, base, name)
	if err != nil {
		return nil, e.blame(t, base, err)
	}
	m := measuredOf(all, name)
	if base == nil {
		e.measured(t, m)
	}
	return m, nil
}

// measuredOf are measurements beside a base of a name.
func measuredOf(all []tune.Beside, base string) *Measured {
	m := &Measured{Base: base, Ratio: tune.Together(all)}
	for _, b := range all {
		m.Figures = append(m.Figures, Figure{b.Purpose, timing.Median(b.Ns), timing.Median(b.BaseNs), b.Ratio()})
	}
	return m
}

// measured remembers measurements of t beside the default schedule.
func (e *Explorer) measured(t schedule.Trace, m *Measured) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about(t).measured, e.about(t).fault = m, ""
}

// blame remembers a fault, if err is one, of the schedule that it names: t or its base.
func (e *Explorer) blame(t, base schedule.Trace, err error) error {
	if err == nil || !worker.IsFault(err) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case base == nil || strings.Contains(err.Error(), t.String()):
		e.about(t).fault = err.Error()
	case strings.Contains(err.Error(), base.String()):
		e.about(base).fault = err.Error()
	}
	return err
}

// begins is the session, which the caller uses alone until it calls done, and a context that Close ends too. Its events go to hear.
func (e *Explorer) begins(ctx context.Context, what string, hear func(session.Event)) (_ context.Context, s gauge, done func(), err error) {
	ctx, stop := context.WithCancel(ctx)
	if err := e.occupy(what, hear, stop); err != nil {
		stop()
		return nil, nil, nil, err
	}
	if s, err = e.open(ctx); err != nil {
		e.ends()
		return nil, nil, nil, err
	}
	return ctx, s, e.ends, nil
}

// occupy lets no other action begin until ends.
func (e *Explorer) occupy(what string, hear func(session.Event), stop context.CancelFunc) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return ErrClosed
	case e.busy != "":
		return fmt.Errorf("%s %w", e.busy, ErrBusy)
	}
	e.busy, e.hear, e.stop, e.ended = what, hear, stop, make(chan struct{})
	return nil
}

func (e *Explorer) ends() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop()
	close(e.ended)
	e.busy, e.hear, e.stop, e.ended = "", nil, nil, nil
}

// open is the session that measures, which the first action opens.
func (e *Explorer) open(ctx context.Context) (gauge, error) {
	e.mu.Lock()
	s := e.session
	e.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := e.on.open(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = s
	return s, nil
}

// said passes an event on, and remembers what a search has found.
func (e *Explorer) said(x session.Event) {
	e.mu.Lock()
	hear := e.hear
	if b, ok := x.(session.Better); ok && len(b.Traces) > 0 {
		e.found = e.foundBy(b)
	}
	e.mu.Unlock()
	if hear != nil {
		hear(x)
	}
}

// Found is the best that a search has found so far.
type Found struct {
	Cost  float64        `json:"cost"`            // of the default's time, as measured during the search: of many candidates, the best one is also a lucky one
	Noise *tune.Ratio    `json:"noise,omitempty"` // the cost with its bounds, nil: not known
	Trace schedule.Trace `json:"trace"`
	Ended string         `json:"ended,omitempty"` // why the search ended
	Tried int            `json:"measured"`        // candidates
	// Confirmed is what the best takes, measured again beside the default schedule after the search; nil while the search runs, after one that was
	// stopped, or if the best is the default schedule.
	Confirmed *Measured `json:"confirmed,omitempty"`
	usual     bool      // it is the default schedule
}

// IsDefault reports whether nothing was faster than the default schedule, which a search measures too.
func (f *Found) IsDefault() bool { return f.usual }

// foundBy is what an event of a search reports.
func (e *Explorer) foundBy(b session.Better) *Found {
	f := &Found{Cost: b.Ratio.Median, Trace: b.Traces[0], usual: same(b.Traces[0], e.usual)}
	if !math.IsInf(b.Ratio.High, 1) {
		f.Noise = &b.Ratio
	}
	return f
}

// Ratio is that of the times to the default's, with its noise: of the last measurement.
func (f *Found) Ratio() tune.Ratio {
	switch {
	case f.Confirmed != nil:
		return f.Confirmed.Ratio
	case f.Noise != nil:
		return *f.Noise
	}
	return tune.Ratio{Median: f.Cost, High: math.Inf(1)}
}

// String is a line about what was found, and its trace.
func (f *Found) String() string {
	text := fmt.Sprintf("%d candidate%s, ended by %s; ", f.Tried, plural(f.Tried), f.Ended)
	switch {
	case f.usual:
		text += "none was faster than " + defaultWords
	case f.Confirmed == nil:
		text += fmt.Sprintf("the best took %v of the time of %s, which is unconfirmed: best takes it, measure confirms it", f.Ratio(), defaultWords)
	case f.Confirmed.Ratio.Less():
		text += fmt.Sprintf("the best takes %v of the time of %s, and best takes it", f.Ratio(), defaultWords)
	default:
		text += fmt.Sprintf("the best takes %v of the time of %s, which is not faster beyond the noise; best takes it", f.Ratio(), defaultWords)
	}
	return fmt.Sprintf("%s\n%v", text, f.Trace)
}

// Best is what the last search has found, also while it runs; nil if nothing.
func (e *Explorer) Best() *Found {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.found == nil {
		return nil
	}
	f := *e.found
	return &f
}

// ErrNoBest is the error of taking what no search has found.
var ErrNoBest = errors.New("no search has found a schedule: search first")

// TakeBest makes the schedule what the last search has found.
func (e *Explorer) TakeBest() error {
	f := e.Best()
	if f == nil {
		return ErrNoBest
	}
	e.Set(f.Trace, e.Cursor())
	return nil
}

// Search searches for so long, from the schedule, the default and the locked ones and schedules of the log on, and then measures the best again beside
// the default schedule. Ended by ctx, it returns what it has. The error of measuring the best again is only heard: the best may be tried all the same.
func (e *Explorer) Search(ctx context.Context, limit time.Duration, hear func(session.Event)) (*Found, error) {
	ctx, s, done, err := e.begins(ctx, "searching", hear)
	if err != nil {
		return nil, err
	}
	defer done()
	e.finds(nil)
	f, err := s.search(ctx, limit, e.Now())
	if err != nil {
		return nil, err
	}
	if b := e.Best(); b != nil && same(b.Trace, f.Trace) { // whose noise is known
		f.Cost, f.Noise = b.Cost, b.Noise
	}
	if f.usual = same(f.Trace, e.usual); !f.usual && ctx.Err() == nil {
		e.said(session.Step("measuring the best again"))
		f.Confirmed, err = e.confirmed(ctx, s, f.Trace)
		if err != nil && ctx.Err() == nil {
			e.said(session.Note{About: session.Unconfirmed, Err: err})
		}
	}
	e.finds(f)
	return f, nil
}

// confirmed measures what a search has found beside the default schedule.
func (e *Explorer) confirmed(ctx context.Context, s gauge, t schedule.Trace) (*Measured, error) {
	all, err := s.beside(ctx, t, nil, "")
	if err != nil {
		return nil, e.blame(t, nil, err)
	}
	m := measuredOf(all, defaultWords)
	e.measured(t, m)
	return m, nil
}

// finds remembers what the search has found.
func (e *Explorer) finds(f *Found) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.found = f
}

// Saved says what became of the lock.
type Saved struct {
	Outcome session.Outcome `json:"outcome"`
	Lock    string          `json:"lock,omitempty"` // the file, if it was changed
	Text    string          `json:"text"`
}

func (s Saved) String() string { return s.Text }

// Save measures the schedule beside the default one and puts it into the lock if it is faster, or anyway: session.Session.Keep says when.
func (e *Explorer) Save(ctx context.Context, anyway bool, hear func(session.Event)) (Saved, error) {
	t := e.Now()
	if _, err := schedule.Compile(e.Problem, t); err != nil {
		return Saved{}, err
	}
	ctx, s, done, err := e.begins(ctx, "saving", hear)
	if err != nil {
		return Saved{}, err
	}
	defer done()
	saved, err := s.keep(ctx, anyway, t)
	return saved, e.blame(t, nil, err)
}
