package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/space"
)

// Prediction is what the model of the core expects of a schedule.
type Prediction struct {
	Cycles  []float64 `json:"cycles,omitempty"`  // for a product of one weight and one activation, for each mode
	Ns      []float64 `json:"ns,omitempty"`      // on a device: of the product, for each mode
	Ratio   float64   `json:"ratio,omitempty"`   // of the time to the default schedule's, the geometric mean of the modes
	Refused string    `json:"refused,omitempty"` // why the schedule has no kernel on the target
}

// String is "0.97" or "refused: why".
func (p Prediction) String() string {
	if p.Refused != "" {
		return "refused: " + p.Refused
	}
	return fmt.Sprintf("%.3f", p.Ratio)
}

// Predict predicts a trace. The error is that of ctx.
func (e *Explorer) Predict(ctx context.Context, t schedule.Trace) (Prediction, error) {
	e.mu.Lock()
	known := e.about(t).predicted
	e.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	p := Prediction{}
	times, err := e.on.predict(ctx, t)
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case err != nil:
		p.Refused = err.Error()
	default:
		if p.Ratio = mean(times, e.baseline); e.onDevice() {
			p.Ns = times
		} else {
			p.Cycles = times
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.about(t).predicted = &p
	return p, nil
}

// mean is the geometric mean of as over bs.
func mean(as, bs []float64) float64 {
	sum := 0.0
	for i := range as {
		sum += math.Log(as[i] / bs[i])
	}
	return math.Exp(sum / float64(len(as)))
}

// Next is something that may be done at a step.
type Next struct {
	Number   int            `json:"number"`
	Rule     string         `json:"rule,omitempty"` // of the space whose decision it is, with what follows from it; "": a single step
	Steps    schedule.Trace `json:"steps"`          // none: the decision is to do nothing
	Deletes  int            `json:"deletes"`        // steps of the trace from At on that these take the place of
	At       int            `json:"at"`
	Predicts Prediction     `json:"predicted"` // of the whole schedule that it leads to
	Measured *Measured      `json:"measured,omitempty"`
	Trace    schedule.Trace `json:"-"`
	from     schedule.Trace // the schedule that it was offered for
}

// Text is the steps in a line.
func (n Next) Text() string {
	if len(n.Steps) == 0 {
		return "nothing"
	}
	return n.Steps.String()
}

// mostOffers bounds the decisions of each rule that Next predicts, and mostSteps the steps of each kind.
const (
	mostOffers = 12
	mostSteps  = 6
)

// Next lists what may be done at a step, the fastest by the model first, then what has no kernel and why. They are the decisions of the
// rules that made the step, with what follows from them. For traces that rules do not make, or with `all`, they are single steps of each
// kind that apply there. The error says that the steps before do not apply, or is that of ctx.
func (e *Explorer) Next(ctx context.Context, at int, all bool) ([]Next, error) {
	t := e.Now()
	if at < 0 || at > len(t) {
		return nil, fmt.Errorf("step %d: want 0 to %d", at, len(t))
	}
	var out []Next
	if !all {
		out = e.decisions(t, at)
	}
	if len(out) == 0 {
		var err error
		if out, err = e.single(t, at); err != nil {
			return nil, err
		}
	}
	if err := e.predictAll(ctx, out); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b Next) int { return cmp.Compare(a.rank(), b.rank()) })
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range out {
		out[i].Number, out[i].Measured, out[i].from = i+1, e.about(out[i].Trace).measured, t
	}
	e.list = out
	return out, nil
}

// rank is the predicted ratio, infinite without one.
func (n Next) rank() float64 {
	if n.Predicts.Refused != "" {
		return math.Inf(1)
	}
	return n.Predicts.Ratio
}

// decisions are other decisions of the rules that made step at, and of those that decided to do nothing there. Where rules do not make all
// of t, they are the decisions that the steps before it leave open.
func (e *Explorer) decisions(t schedule.Trace, at int) (out []Next) {
	names := e.space.Rules()
	x, err := e.space.Parse(t)
	if err != nil {
		rules, points := e.space.Next(t[:at], e.lastWhole(), mostOffers)
		for i, y := range points {
			steps := y.Trace()[at:len(y[:rules[i]+1].Trace())]
			out = append(out, Next{Rule: names[rules[i]], Steps: steps, At: at, Trace: y.Trace()})
		}
		return out
	}
	from := 0
	for i, rule := range names {
		to := from + len(x[i])
		if from <= at && at < to || from == to && at == from {
			for _, y := range e.space.Options(x, i, mostOffers) {
				out = append(out, Next{Rule: rule, Steps: y[i], Deletes: to - from, At: from, Trace: y.Trace()})
			}
		}
		from = to
	}
	return out
}

// lastWhole is the last schedule that rules have made: before this one, or the default one. It is nil if they make none of them.
func (e *Explorer) lastWhole() space.Point {
	e.mu.Lock()
	before := slices.Clone(e.history[:e.now+1])
	e.mu.Unlock()
	for _, t := range slices.Backward(append([]schedule.Trace{e.usual}, before...)) {
		if x, err := e.space.Parse(t); err == nil {
			return x
		}
	}
	return nil
}

// single are the steps that apply in front of step at, or instead of it if they are of its kind.
func (e *Explorer) single(t schedule.Trace, at int) (out []Next, err error) {
	s, err := e.state(t[:at])
	if err != nil {
		return nil, err
	}
	for _, x := range schedule.Proposers() {
		n := 0
		for _, y := range x.Propose(s, space.MachineOf(e.Target)) {
			if _, err := s.After(y); err != nil || n == mostSteps {
				continue
			}
			next := Next{Steps: schedule.Trace{y}, At: at}
			if at < len(t) && reflect.TypeOf(t[at]) == reflect.TypeOf(y) {
				if reflect.DeepEqual(t[at], y) {
					continue
				}
				next.Deletes = 1
			}
			next.Trace = slices.Concat(t[:at], next.Steps, t[at+next.Deletes:])
			out, n = append(out, next), n+1
		}
	}
	return out, nil
}

// state is what steps make. The error names the step that does not apply.
func (e *Explorer) state(t schedule.Trace) (schedule.State, error) {
	p, err := schedule.NewProduct(e.Problem)
	if err != nil {
		return nil, err
	}
	s := schedule.State(p)
	for i, x := range t {
		if s, err = s.After(x); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, nil
}

// predictAll predicts all of list. The error is that of ctx.
func (e *Explorer) predictAll(ctx context.Context, list []Next) error {
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range list {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			list[i].Predicts, _ = e.Predict(ctx, list[i].Trace) // the error is that of ctx
		})
	}
	wg.Wait()
	return ctx.Err()
}

// Choose does what Next or Values has offered by a number. Several offers may be chosen in turn: each takes the place of the one before. The error
// says that there is no such offer, or that the schedule has changed otherwise meanwhile: that change would be lost.
func (e *Explorer) Choose(number int) (Next, error) {
	e.mu.Lock()
	list, now := e.list, e.history[e.now]
	e.mu.Unlock()
	if len(list) == 0 {
		return Next{}, errors.New("nothing was offered: ask for the next steps first")
	}
	if number < 1 || number > len(list) {
		return Next{}, fmt.Errorf("offer %d: want 1 to %d", number, len(list))
	}
	n := list[number-1]
	if slices.ContainsFunc(list, func(o Next) bool { return same(now, o.Trace) }) {
		n.from = now
	}
	return n, e.Take(n)
}

// Mend makes a whole schedule of the steps until the first problem: what follows is decided as before it, as far as that can be. The error
// says that the rules find nothing.
func (e *Explorer) Mend() error {
	whole := e.lastWhole()
	if whole == nil {
		return errors.New("the rules make neither this schedule nor one before it")
	}
	x, err := e.space.Mend(e.Now(), whole)
	if err != nil {
		return fmt.Errorf("the rules find nothing that begins like this: %w", err)
	}
	e.Set(x.Trace(), e.Cursor())
	return nil
}

// Values are the legal values of a field of a step: those that the step's kind proposes with its other fields, and that apply there.
func (e *Explorer) Values(ctx context.Context, step int, name string) ([]Next, error) {
	t, err := e.with(step)
	if err != nil {
		return nil, err
	}
	s, err := e.state(t[:step])
	if err != nil {
		return nil, err
	}
	fields := fieldsOf(t[step])
	if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
		return nil, fmt.Errorf("%s has no field %.40q: it has %s", schedule.NameOf(t[step]), name, namesOf(fields))
	}
	var out []Next
	for _, x := range e.proposed(s, t[step], name) {
		if _, err := s.After(x); err == nil {
			out = append(out, Next{Steps: schedule.Trace{x}, Deletes: 1, At: step, Trace: e.follow(slices.Concat(t[:step], schedule.Trace{x}, t[step+1:]), t, step)})
		}
	}
	if err := e.predictAll(ctx, out); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range out {
		out[i].Number, out[i].Measured, out[i].from = i+1, e.about(out[i].Trace).measured, t
	}
	e.list = out
	return out, nil
}

// follow is changed, which differs from before in a step. It is mended if later steps do not fit it and the rules find some that do.
func (e *Explorer) follow(changed, before schedule.Trace, step int) schedule.Trace {
	if _, err := schedule.Compile(e.Problem, changed); err == nil {
		return changed
	}
	if x, err := e.space.Parse(before); err == nil {
		if y, err := e.space.Mend(changed, x); err == nil && reflect.DeepEqual(y.Trace()[step], changed[step]) {
			return y.Trace()
		}
	}
	return changed
}

// proposed are the steps of x's kind with its fields, except the one of a name.
func (e *Explorer) proposed(s schedule.State, x schedule.Step, name string) []schedule.Step {
	v := reflect.New(reflect.TypeOf(x)).Elem()
	v.Set(reflect.ValueOf(x))
	for i, f := range fieldsOf(x) {
		if f.name == name {
			v.Field(i).SetZero()
		}
	}
	p, ok := v.Interface().(schedule.Proposer)
	if !ok {
		return nil
	}
	return p.Propose(s, space.MachineOf(e.Target))
}

// Take does what Next or Values has listed. The error says that the schedule has changed meanwhile.
func (e *Explorer) Take(n Next) error {
	if !same(e.Now(), n.from) {
		return errors.New("the schedule has changed since this was listed: list it again")
	}
	e.Set(n.Trace, n.At)
	return nil
}
