// Package session tunes one product on one target: it compiles the default schedules, tries schedules beside
// them, searches for better ones, and saves what it has found in a lock. Open begins a session. Try measures
// schedules of one's own. Search, Confirm, Decide and Save are the steps of tmacc tune, in this order; Tune does all of them.
//
// Kernels that nothing has verified run in copies of the program that uses this package, so its main begins with Main.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/defaults"
	"github.com/tmacc/tmacc/search/measure"
	"github.com/tmacc/tmacc/search/timing"
	"github.com/tmacc/tmacc/search/tune"
	"github.com/tmacc/tmacc/search/worker"
)

// Main makes the program its own worker. Call it first in main, and in TestMain: kernels that nothing has verified
// run in a copy of this process, in which Main does not return. Without it Try and Search return an error.
func Main() { worker.Main() }

// Machine is another machine that measures; nil is this one.
type Machine = worker.Machine

// Runner says where that machine is and how to start a worker there.
type Runner = worker.Runner

// Purpose is a size at which the product is used: M rows and K columns of weights times N activations. Mode says where the weights
// are: measure.ModeL2, ModeL3 or ModeDRAM. Open rounds K up to whole units of the format, and sets Total by the mode.
type Purpose = tune.Purpose

// Dial connects to another machine, builds a worker for it and sends it. Close ends the connection.
func Dial(ctx context.Context, r Runner) (*Machine, error) { return worker.Dial(ctx, r) }

// The purposes of a usual session: products of few activations with weights in a cache and in memory, and of many.
var (
	UsualModes = []string{measure.ModeL2, measure.ModeDRAM}
	UsualNs    = []int{1, 4, measure.ManyColumns}
)

// The limits of a usual search.
const (
	UsualTrials   = 10000
	UsualPatience = 1000
	UsualLimit    = 5 * time.Minute
)

// probing measures the ceilings of the machine in a few seconds.
var probing = timing.Options{Rounds: 9, MinSample: time.Millisecond}

// Options describe a session. Only Problem is required.
type Options struct {
	Problem  ir.Problem
	Target   lower.Target // the machine that measures must run it; nil: the one that suits that machine best
	Purposes []Purpose    // what the search is for; none: Others
	// Others are further products that use the same packed matrices. A schedule that slows one of them down is
	// not saved. None: the usual purposes.
	Others []Purpose
	Only   bool   // no purpose counts but Purposes, neither one of Others nor one of the lock
	Lock   string // the lock file that Decide compares with and Save changes; "": Save fails
	// Records is a folder of records that Decide compares with and Save changes instead of a lock; "": none. The default
	// schedules are then those without records, and only the core of the target must be a built-in one.
	Records  string
	Defaults *defaults.Chooser // of the default schedules; nil: as nil is
	Log      string            // the file that gets each measurement; "": the user's log; NoLog: none
	Resume   bool              // begin with what the log has of earlier searches on such a machine
	Scratch  bool              // begin without the default schedules
	From     []schedule.Trace  // begin also with these, one for each number of activations of the purposes, the fewest first; may be others for each Search
	Trials   int               // candidates to measure at most; 0: UsualTrials
	Patience int               // end after this number of candidates in a row that are no better; 0: UsualPatience
	Limit    time.Duration     // of a search, without what comes before and after it; 0: UsualLimit
	Hung     time.Duration     // a candidate that takes longer to be verified does not end; 0: what tune.New says
	Seed     int64             // of the random numbers
	Version  string            // of the program, for the log and the lock
	On       *Machine          // the machine that measures; nil: this one
	Probing  timing.Options    // how the ceilings of the machine are measured; zero: for a few seconds
	Events   func(Event)       // hears what happens, in the goroutine of the call; nil: nobody
}

// Session is one product on one target. Its methods may be called in turn, not at once.
type Session struct {
	Options
	Host     timing.Host // of the machine that measures
	tuner    *tune.Tuner
	ceilings []tune.Ceilings // of each purpose; zeros if they cannot be measured
	journal  journal
	best     tune.Ratio      // the least cost that the search has measured, 0: none
	origin   defaults.Origin // of the default schedules: Record or Default
	before   []tune.Ratio    // the costs that earlier searches have measured, which this one begins with
	doubted  bool            // a note has said that the entry of the product is not used
	// beside and completed are methods of the tuner; tests replace them.
	beside    func(base, c *tune.Candidate, purposes []Purpose) ([]tune.Beside, error)
	completed func(c *tune.Candidate) (*tune.Candidate, error)
}

// Open compiles the default schedules of a product, which everything is compared with. The error is that of ctx if it ends
// meanwhile, of the lock if that cannot be read, or of a product that has no exact default schedule, a *FromError, or
// measure.ErrNoTarget if Target is nil and the machine runs none.
func Open(ctx context.Context, o Options) (*Session, error) {
	if o.Target == nil {
		if o.Target = measure.BestOn(o.On.Host(), ""); o.Target == nil {
			return nil, measure.ErrNoTarget
		}
	}
	s := newSession(o)
	for _, p := range slices.Concat(s.Purposes, s.Others) {
		if err := s.checkPurpose(p); err != nil {
			return nil, err
		}
	}
	if err := s.checkRecords(); err != nil {
		return nil, err
	}
	for i, t := range s.From { // now, not after the default schedules
		if _, err := schedule.Compile(s.Problem, t); err != nil {
			return nil, &FromError{i, err}
		}
	}
	s.say(Step("compiling the default schedules"))
	t, err := tune.New(ctx, s.product())
	if err != nil {
		return nil, err
	}
	t.On, t.Limit = o.On, cmp.Or(o.Hung, t.Limit)
	s.tuner, s.beside, s.completed = t, t.Beside, t.Complete
	if _, err := s.begins(); err != nil {
		return nil, err
	}
	if _, err := s.locked(); err != nil { // now, not after the search
		return nil, err
	}
	return s, nil
}

// newSession fills in what o leaves out.
func newSession(o Options) *Session {
	s := &Session{Options: o, Host: o.On.Host()}
	if len(s.Others) == 0 {
		s.Others = Purposes(o.Problem, s.Host, UsualModes, UsualNs, 0, 0)
	}
	if len(s.Purposes) == 0 {
		s.Purposes = s.Others
	}
	s.Purposes, s.Others = s.whole(s.Purposes), s.whole(s.Others)
	s.Trials, s.Patience = cmp.Or(o.Trials, UsualTrials), cmp.Or(o.Patience, UsualPatience)
	s.Limit = cmp.Or(o.Limit, UsualLimit)
	if s.Probing == (timing.Options{}) {
		s.Probing = probing
	}
	return s
}

// checkPurpose refuses a purpose that no product has.
func (s *Session) checkPurpose(p Purpose) error {
	switch {
	case !slices.Contains([]string{measure.ModeDRAM, measure.ModeL3, measure.ModeL2}, p.Mode):
		return fmt.Errorf("session: a purpose has the mode %q: want %s, %s or %s", p.Mode, measure.ModeDRAM, measure.ModeL3, measure.ModeL2)
	case p.M < 1 || p.N < 1 || p.K < 1:
		return fmt.Errorf("session: a purpose has %d rows, %d columns and %d activations: want at least one of each", p.M, p.K, p.N)
	case p.K > s.Problem.LimitK():
		return fmt.Errorf("session: a purpose has %d columns: the product takes K up to %d", p.K, s.Problem.LimitK())
	case p.M > timing.MaxMatrix/p.K || max(p.M, p.K) > timing.MaxMatrix/p.N:
		return fmt.Errorf("session: a purpose of %d rows, %d columns and %d activations is too large to be measured: at most %d elements each", p.M, p.K, p.N, timing.MaxMatrix)
	}
	return nil
}

// whole are purposes with whole units of K, and with the Total of their modes.
func (s *Session) whole(ps []Purpose) (out []Purpose) {
	for _, p := range ps {
		out = append(out, purpose(s.Host, p.Mode, p.M, p.N, s.Problem.WholeK(p.K)))
	}
	return out
}

// checkRecords refuses records that nobody would find, or replay, or that would be of some purposes only.
func (s *Session) checkRecords() error {
	switch m := s.Target.Machine(); {
	case s.Records == "":
		return nil
	case m.Core.Own:
		return fmt.Errorf("session: records are for built-in cores, and %s is not one: use a lock", m.Core.Name)
	case s.Only:
		return errors.New("session: records are for all purposes: leave Only out")
	}
	if known, err := ir.Named(s.Problem.Name()); err != nil || !reflect.DeepEqual(known.Weight, s.Problem.Weight) {
		return fmt.Errorf("session: records are for built-in formats, and %s is not one: use a lock", s.Problem.Weight.Name)
	}
	return nil
}

// Close ends the session. It leaves the machine of Options.On connected.
func (s *Session) Close() error {
	s.journal.wait()
	return nil
}

// Default returns the default schedules, the narrowest first.
func (s *Session) Default() []search.Use { return slices.Clone(s.tuner.Default) }

// Product compiles the best schedules that a search has found, with kernels of other widths for the same packed matrices, and returns
// the product for gen.Package. The error is that of ctx, or says that nothing was found.
func (s *Session) Product(ctx context.Context, f *Found) (gen.Product, error) {
	if f == nil || len(f.Best) == 0 {
		return gen.Product{}, errors.New("session: the search has found no schedule")
	}
	uses, err := s.tuner.Uses(ctx, f.Best[0].G)
	if err != nil {
		return gen.Product{}, err
	}
	v, err := build.Variant(ctx, s.Problem, s.Target, uses)
	return gen.Product{Problem: s.Problem, Variants: []variant.Variant{v}}, err
}

// Purposes combines each mode of reading weights with each number of activations in `ns`, each once. Numbers above
// measure.MaxGEMV have one mode only. The matrix has `m` rows and `k` columns; 0 is the mode's own size. Purposes rounds k
// up to whole units of p.
func Purposes(p ir.Problem, h timing.Host, modes []string, ns []int, m, k int) []Purpose {
	var out []Purpose
	for _, at := range bench.Places(modes, ns, m, k) {
		for _, n := range at.Ns {
			out = append(out, purpose(h, at.Mode, at.M, n, p.WholeK(at.K)))
		}
	}
	return out
}

// purpose is a product on a machine: from memory it reads more copies of the weights than caches hold.
func purpose(h timing.Host, mode string, m, n, k int) Purpose {
	x := Purpose{Mode: mode, M: m, N: n, K: k}
	if mode == measure.ModeDRAM {
		x.Total = bench.DRAMBytes(h)
	}
	return x
}

// product is what the tuner works on.
func (s *Session) product() tune.Product {
	s.origin = defaults.Default
	p := tune.Product{Problem: s.Problem, Target: s.Target, Purposes: s.Purposes, Layouts: s.Defaults.Layouts}
	if s.Records == "" {
		p.Usual = func(ctx context.Context, q ir.Problem, t lower.Target) ([]search.Use, error) {
			x, err := s.Defaults.Choose(ctx, q, t)
			s.origin = x.Origin()
			return x.Uses, err
		}
	}
	return p
}
