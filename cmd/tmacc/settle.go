package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
)

// confirm measures the best again, and what is locked, and locks the better.
func (x *tuning) confirm(out tune.Outcome[*tune.Candidate], logged, interrupted bool) error {
	x.bar.step("measuring the best again")
	locked, err := x.locked()
	if err != nil {
		return x.broken(out, err, logged)
	}
	all, err := x.tuner.Confirm(out.Best)
	if err != nil {
		return x.broken(out, err, logged)
	}
	best := x.hopeful(all)
	d, err := x.decide(best, locked, interrupted)
	if err != nil {
		return x.broken(out, err, logged)
	}
	if d.judged != nil && x.beyond(d.figures) { // something else ran when what the machine can do was measured
		x.bar.step("measuring what the machine can do again")
		_ = x.measureCeilings(context.Background()) // after Ctrl-C, too, like what it is compared with
	}
	x.bar.done()
	if best == nil {
		fmt.Fprintf(x.out, "\nbest: none is faster than the default schedules%s\n", x.nearest(all))
	}
	return x.settle(d)
}

// hopeful is the best of those that were measured again which is not the default and not slower than that, nil: there is none.
func (x *tuning) hopeful(all []tune.Confirmed) *tune.Candidate {
	for _, c := range all {
		if c.Cost < 1 && !x.tuner.IsDefault(c.Candidate) {
			return c.Candidate
		}
	}
	return nil
}

// nearest says how long the fastest of others than the default takes, "" if there is none.
func (x *tuning) nearest(all []tune.Confirmed) string {
	for _, c := range all {
		if !x.tuner.IsDefault(c.Candidate) {
			return fmt.Sprintf(": the fastest of the others takes %.2f of their time", c.Cost)
		}
	}
	return ""
}

// lockedBefore is what the lock has for a product.
type lockedBefore struct {
	*tune.Candidate
	figures []tune.Figures
	same    bool // it was locked on such a machine, for all purposes of this search, and all that it was locked for are measured
}

// locked is what the lock has for the product, nil if nothing that still is of use.
func (x *tuning) locked() (*lockedBefore, error) {
	path, err := lockPath(x.dir)
	if err != nil {
		return nil, err
	}
	lock, err := tune.ReadLock(path)
	if err != nil {
		return nil, err
	}
	e := lock.Find(x.product.Problem, x.product.Target)
	if e == nil || !e.For(x.product.Problem) {
		return nil, nil
	}
	c, err := x.tuner.Locked(e)
	if err != nil {
		return nil, nil // this compiler cannot make it any more
	}
	same := e.Host.CPU == x.host.CPU
	for _, p := range x.product.Purposes {
		same = same && slices.ContainsFunc(e.Figures, func(f tune.Figures) bool { return f.Mode == p.Mode && f.M == p.M && f.N == p.N && f.K == p.K })
	}
	l := &lockedBefore{c, e.Figures, same}
	for _, f := range e.Figures {
		l.same = l.same && slices.Contains(x.purposes(l), l.purpose(x, f))
	}
	return l, nil
}

// purpose is what a figure was measured for.
func (l *lockedBefore) purpose(x *tuning, f tune.Figures) tune.Purpose {
	return tune.Purpose{Mode: f.Mode, M: f.M, N: f.N, K: f.K, Total: copies(f.Mode, x.host)}
}

// purposes are all that a packed matrix serves which is locked: those of the search first, then, unless with -only, the usual ones and those that
// are locked.
func (x *tuning) purposes(locked *lockedBefore) []tune.Purpose {
	all := slices.Clone(x.product.Purposes)
	if x.only {
		return all
	}
	usual := usualTuning("", 0)
	usual.sizeFlags = x.sizeFlags
	others := usual.purposes(x.product.Problem, x.host)
	if locked != nil {
		for _, f := range locked.figures {
			others = append(others, locked.purpose(x, f))
		}
	}
	for _, p := range others {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// judged is schedules as a lock has them, measured beside others again and again.
type judged struct {
	*tune.Candidate
	figures []tune.Beside // of the purposes of the search, then of others
	asked   int           // of the search
}

// ratio is that of the times for the purposes of the search.
func (j *judged) ratio() tune.Ratio { return tune.Together(j.figures[:j.asked]) }

// better says that j is faster for the purposes of the search, and slower for none of all, beyond the noise.
func (j *judged) better() bool { return j.ratio().Less() && len(tune.Losses(j.figures)) == 0 }

// judge measures c beside base, nil: the default. Unless whole is set, what is not faster for the purposes of the search is not measured for others.
func (x *tuning) judge(base, c *tune.Candidate, all []tune.Purpose, whole bool) (*judged, error) {
	asked := len(x.product.Purposes)
	figures, err := x.beside(base, c, all[:asked])
	if err != nil {
		return nil, err
	}
	j := &judged{c, figures, asked}
	if asked == len(all) || !whole && !j.ratio().Less() {
		return j, nil
	}
	others, err := x.beside(base, c, all[asked:])
	j.figures = append(j.figures, others...)
	return j, err
}

// What becomes of the lock, as -json has it.
const (
	outcomeLocked  = "locked"
	outcomeRenewed = "renewed" // what was locked stays, with the figures of today
	outcomeStays   = "stays"   // what was locked stays as it was
	outcomeRemoved = "removed"
	outcomeNone    = "not locked"
	outcomeFailed  = "failed" // an error says why
)

// decision is what becomes of the lock, and why.
type decision struct {
	outcome string
	*judged // what is locked, renewed or removed, or the best that was found; nil: nothing was found
	why     string
}

// decide measures the best that was found, nil: nothing, and what is locked, each beside the default as a lock would have it, and the one beside the other. Faster
// and slower is what is so beyond the noise of these measurements. What was found is locked if it is faster than the default, and than what is locked, for the purposes
// of the search, and slower for none. What is locked is removed if it is slower than the default for all purposes together, unless the search was
// interrupted, or was for others, or on another machine.
func (x *tuning) decide(best *tune.Candidate, locked *lockedBefore, interrupted bool) (d decision, err error) {
	all := x.purposes(locked)
	var found, before *judged
	if best != nil {
		x.bar.step("measuring the best and the default in turn")
		if best, err = x.completed(best); err != nil {
			return d, err
		}
		if found, err = x.judge(nil, best, all, false); err != nil {
			return d, err
		}
	}
	if locked != nil {
		x.bar.step("measuring what is locked and the default in turn")
		if before, err = x.judge(nil, locked.Candidate, all, true); err != nil {
			return d, err
		}
	}
	slower := before != nil && tune.Together(before.figures).Greater()
	goes := slower && locked.same && !interrupted
	d = decision{outcomeNone, found, x.refusal(found)}
	if d.why == "" && before != nil && !goes {
		x.bar.step("measuring the best and what is locked in turn")
		beside, err := x.judge(locked.Candidate, best, all, false)
		if err != nil {
			return d, err
		}
		if !beside.better() {
			d.why = "what was found takes " + describe(beside, "the locked one's")
		}
	}
	switch {
	case d.why == "":
		d.outcome = outcomeLocked
	case goes:
		d = decision{outcomeRemoved, before, "what was locked takes " + describe(before, "the default's")}
	case before != nil && locked.same:
		d = decision{outcomeRenewed, before, d.why}
	case before != nil:
		d = decision{outcomeStays, before, d.why}
	}
	return d, nil
}

// refusal is why what was found is not locked beside the default, "" if it is.
func (x *tuning) refusal(found *judged) string {
	if found == nil {
		return "nothing was found that is faster than the default: more -time may find something"
	}
	r, losses := found.ratio(), tune.Losses(found.figures)
	switch {
	case r.Greater():
		return fmt.Sprintf("what was found takes %v of the default's time: more -time may find something faster", r)
	case !r.Less():
		return fmt.Sprintf("what was found takes %v of the default's time, which is within the noise: more -time may find something faster, and a quieter machine tells more", r)
	case len(losses) == 0:
		return ""
	}
	why := "what was found takes " + describe(found, "the default's")
	if slices.ContainsFunc(losses, func(b tune.Beside) bool { return !slices.Contains(x.product.Purposes, b.Purpose) }) {
		why += ": -only locks what is good for the purposes of the search alone"
	}
	return why
}

// describe is how long j takes of the time of what it was measured beside: for the purposes of the search, and for those for which it takes longer.
func describe(j *judged, whose string) string {
	text := fmt.Sprintf("%v of %s time", j.ratio(), whose)
	losses := tune.Losses(j.figures)
	if len(losses) == 0 {
		return text
	}
	var all []string
	for _, b := range losses {
		all = append(all, fmt.Sprintf("%v for %s", b.Ratio(), purposesText([]tune.Purpose{b.Purpose})))
	}
	return text + ", but " + strings.Join(all, ", ")
}

// settle does what was decided, and says so.
func (x *tuning) settle(d decision) (err error) {
	if d.judged != nil {
		x.printBest(d)
	}
	x.result.conclude(d)
	switch d.outcome {
	case outcomeLocked:
		return x.lock(d.judged)
	case outcomeRemoved:
		return x.unlock(d.why)
	case outcomeRenewed:
		fmt.Fprintf(x.out, "\nwhat is locked stays, its figures are renewed: %s\n", d.why)
		return x.lock(d.judged)
	case outcomeStays:
		fmt.Fprintf(x.out, "\nwhat is locked, for other purposes or on another machine, stays: %s\n", d.why)
		return nil
	}
	fmt.Fprintf(x.out, "\nnot locked: %s\n", d.why)
	return nil
}

// unlock removes the product from the lock: today's default schedules are faster.
func (x *tuning) unlock(why string) error {
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	err = tune.ChangeLock(path, func(l *tune.Lock) error { l.Remove(x.product.Problem, x.product.Target); return nil })
	if err != nil {
		return fmt.Errorf("%w: the lock is as it was", plain(err))
	}
	x.result.Lock = path
	fmt.Fprintf(x.out, "\nremoved from %s: %s\n", path, why)
	return nil
}

// beyond says that a purpose took less time than the machine needs by its ceilings.
func (x *tuning) beyond(figures []tune.Beside) bool {
	for _, b := range figures {
		if _, err := x.complete(b.Purpose, timing.Median(b.Ns), nil); err != nil {
			return true
		}
	}
	return false
}

// printBest prints the figures and the schedules of what was decided about.
func (x *tuning) printBest(d decision) {
	name := "best"
	if d.outcome == outcomeRenewed || d.outcome == outcomeStays || d.outcome == outcomeRemoved {
		name = "locked"
	}
	fmt.Fprintf(x.out, "\n%s: %v of the default's time\n", name, d.ratio())
	t := table{head: []string{"mode", "m", "k", "n", "us", "weights/ns", "of the ceiling", "default us", "of the default"}, wide: -1}
	for _, b := range d.figures {
		r := x.record(b.Purpose, timing.Median(b.Ns), d.Kernels)
		share := "-" // what the machine can do is measured for the purposes of the search only
		if r.Share > 0 {
			share = fmt.Sprintf("%.2f", r.Share)
		}
		t.add(b.Mode, b.M, b.K, b.N, fmt.Sprintf("%.1f", r.Ns/1e3), fmt.Sprintf("%.1f", r.GWeightsS), share,
			fmt.Sprintf("%.1f", timing.Median(b.BaseNs)/1e3), b.Ratio())
	}
	t.print(x.out, widthOf(x.out))
	for _, k := range d.Kernels {
		fmt.Fprintf(x.out, "%s: %v\n", counted(k.Schedule.Cols, "column"), k.Schedule.Trace)
	}
}

// lock puts c into the lock. If that cannot be written, its traces are printed.
func (x *tuning) lock(c *judged) error {
	e, err := x.entry(c)
	if err != nil {
		return err
	}
	path, err := lockPath(x.dir)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o777); err == nil {
		err = tune.ChangeLock(path, func(l *tune.Lock) error { l.Put(*e); return nil })
	}
	if err != nil {
		x.printTraces(c.Kernels)
		return fmt.Errorf("%w: not locked: the traces above are for tmacc compile -trace", plain(err))
	}
	x.result.Lock = path
	fmt.Fprintf(x.out, "\nlocked in %s, %d widths\n", path, len(e.Kernels))
	widest, usual := e.Widest(), x.tuner.Default[len(x.tuner.Default)-1].Cols
	larger := func(f tune.Figures) bool { return f.N > widest }
	if widest < usual && !slices.ContainsFunc(e.Figures, larger) {
		fmt.Fprintf(x.out, "none is for more than %s, the default has some for %d: if there are larger products, tune for them too, with -n\n", counted(widest, "column"), usual)
	}
	return nil
}

// printTraces prints schedules as files of traces have them.
func (x *tuning) printTraces(kernels []variant.Kernel) {
	for _, k := range kernels {
		data, err := json.Marshal(k.Schedule.Trace)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		fmt.Fprintf(x.out, "%s\n", data)
	}
}

// entry is c for the lock: its figures are the medians.
func (x *tuning) entry(c *judged) (*tune.Entry, error) {
	p := x.product
	e := &tune.Entry{Product: p.Problem.Name(), ActGroup: p.Problem.Act.Group, Target: p.Target.Machine().Name,
		Problem: tune.ProblemHash(p.Problem), Host: x.host, Compiler: gomod.Compiler()}
	for _, b := range c.figures {
		ns := timing.Median(b.Ns)
		e.Figures = append(e.Figures, tune.Figures{Mode: b.Mode, M: b.M, N: b.N, K: b.K, Ns: ns, DefaultNs: timing.Median(b.BaseNs),
			Share: x.record(b.Purpose, ns, c.Kernels).Share, Ceilings: x.ceilingsOf(b.Purpose)})
	}
	v, err := buildUses(context.Background(), p.Problem, p.Target, x.tuner.Uses(c.Candidate), "k")
	if err != nil {
		return nil, err
	}
	for _, k := range v.Kernels {
		hash, err := tune.KernelHash(p.Target, k.Code)
		if err != nil {
			return nil, err
		}
		e.Kernels = append(e.Kernels, tune.Kernel{Cols: k.Schedule.Cols, Hash: hash, Trace: k.Schedule.Trace})
	}
	return e, nil
}
