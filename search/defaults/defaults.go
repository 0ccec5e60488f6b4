// Package defaults chooses the schedules of a product without measuring: a record's, or else the ones that a beam search by the machine model finds.
// Those it keeps in a folder of the user, since choosing them takes long.
//
//	problem, target -> a record of the target's core, replayed
//	                -> else in the folder, by the program, the target with its core, and the problem
//	                -> else in the folder that Lend names, by the sources instead of the program
//	                -> else the first of beam.Layouts, all of which the folders then keep
//
// A lock of the user goes before all of this: who has one asks it first.
package defaults

import (
	"context"
	"sync"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/beam"
	"github.com/tmacc/tmacc/search/build"
	"github.com/tmacc/tmacc/search/records"
	"github.com/tmacc/tmacc/search/tune"
)

// Chooser chooses schedules. Its methods may be called concurrently. A nil one uses records and keeps nothing.
type Chooser struct {
	NoRecords bool
	Say       func(string) // hears why a record or the folder is not used, in one line; nil: nobody

	keep store
	mu   sync.Mutex // of said
	said map[string]bool
}

// Chosen is schedules, and the record that they are of, nil if they are not a record's.
type Chosen struct {
	Uses   []search.Use
	Record *tune.Entry
	Kept   bool // they were chosen before: the folder had them
}

// Origin is Record or Default.
func (x Chosen) Origin() Origin {
	if x.Record != nil {
		return Record
	}
	return Default
}

// Origin says where the schedules of a kernel come from.
type Origin string

// The origins of schedules.
const (
	Trace   Origin = "trace" // the user gave it
	Lock    Origin = "lock"
	Record  Origin = "record"
	Default Origin = "default"
)

// MostBytes bounds the folder: it has room for the defaults of some thousand products.
const MostBytes = 32 << 20

// Folder is the folder in which default schedules are kept.
func Folder() (string, error) { return cache.Path("schedules") }

// Keep makes c keep default schedules in a folder, until c is closed. The first choice makes the folder. Where it cannot be used, c
// keeps nothing and says why.
func (c *Chooser) Keep(path string) {
	c.keep.path, c.keep.program = path, cache.ThisProgram
	go cache.ThisProgram() // while the caller works
}

// Close closes the folder.
func (c *Chooser) Close() error {
	if c == nil || c.keep.folder == nil {
		return nil
	}
	return c.keep.folder.Close()
}

// Record is the record that Choose would try for a product, nil if there is none: one that is exact for all K of p.
func (c *Chooser) Record(p ir.Problem, t lower.Target) *tune.Entry {
	if c != nil && c.NoRecords {
		return nil
	}
	e, err := records.Find(p, t)
	if err != nil {
		c.tell("records are not used: " + message.Line(err))
		return nil
	}
	if e == nil || p.LimitK() > ir.DefaultMaxK && overflows(p, e) {
		return nil
	}
	return e
}

// Takes is the record that Choose takes for a product, nil if there is none, or none that compiles. The error is that of ctx.
func (c *Chooser) Takes(ctx context.Context, p ir.Problem, t lower.Target) (*tune.Entry, error) {
	_, e, err := c.recorded(ctx, p, t, c.Record(p, t))
	return e, err
}

// recorded is the schedules of a record with their kernels, and the record; nil if there is none. One that does not compile is none, and c
// says why. The error is that of ctx.
func (c *Chooser) recorded(ctx context.Context, p ir.Problem, t lower.Target, e *tune.Entry) ([]search.Use, *tune.Entry, error) {
	if e == nil {
		return nil, nil, ctx.Err()
	}
	uses, err := replay(ctx, p, t, e)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		c.tell("a record is not used: " + message.Line(err))
		return nil, nil, nil
	}
	return uses, e, nil
}

// overflows says that sums of e could overflow for the K of p: it was proven for the usual ones.
func overflows(p ir.Problem, e *tune.Entry) bool {
	for _, k := range e.Kernels {
		if _, err := schedule.Compile(p, k.Trace); err != nil {
			return true
		}
	}
	return false
}

// Choose chooses the schedules of p on t, the narrowest first. The same program chooses the same, whatever it keeps. Errors are
// as of beam.Layouts.
func (c *Chooser) Choose(ctx context.Context, p ir.Problem, t lower.Target) (Chosen, error) {
	if err := p.Validate(); err != nil {
		return Chosen{}, err
	}
	return c.choose(ctx, p, t, c.Record(p, t))
}

// choose is Choose with a record, nil if there is none.
func (c *Chooser) choose(ctx context.Context, p ir.Problem, t lower.Target, e *tune.Entry) (Chosen, error) {
	if uses, e, err := c.recorded(ctx, p, t, e); err != nil || e != nil {
		return Chosen{Uses: uses, Record: e}, err
	}
	all, kept, err := c.kept(ctx, p, t)
	if err != nil {
		return Chosen{}, err
	}
	return Chosen{Uses: all[0], Kept: kept}, nil
}

// Uses returns the schedules that Choose finds.
func (c *Chooser) Uses(ctx context.Context, p ir.Problem, t lower.Target) ([]search.Use, error) {
	x, err := c.Choose(ctx, p, t)
	return x.Uses, err
}

// replay is a record's schedules with their kernels.
func replay(ctx context.Context, p ir.Problem, t lower.Target, e *tune.Entry) ([]search.Use, error) {
	v, err := build.Variant(ctx, p, t, e.Uses())
	if err != nil {
		return nil, err
	}
	uses := e.Uses()
	for i := range uses {
		uses[i].Kernel = &v.Kernels[i]
	}
	return uses, nil
}

// Layouts returns the schedules of beam.Layouts: the default ones without records, and then the ones of the other layouts. Kept ones have no kernels.
func (c *Chooser) Layouts(ctx context.Context, p ir.Problem, t lower.Target) ([][]search.Use, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	all, _, err := c.kept(ctx, p, t)
	return all, err
}

// kept is beam.Layouts by way of the folders, and whether the folder of c had it.
func (c *Chooser) kept(ctx context.Context, p ir.Problem, t lower.Target) (all [][]search.Use, own bool, fail error) {
	var missing []*store
	for _, s := range c.stores() {
		if all = s.get(p, t); all != nil {
			own = s != lent
			break
		}
		missing = append(missing, s)
	}
	if all == nil {
		if all, fail = beam.Layouts(ctx, p, t); fail != nil {
			return nil, false, fail
		}
		if len(missing) > 0 {
			if all[0][0].Prepare, fail = build.Preparation(ctx, p, t, all[0]); fail != nil {
				return nil, false, fail
			}
		}
	}
	for _, s := range missing {
		if err := s.put(p, t, all); err != nil && s != lent {
			c.tell("default schedules are not kept: " + message.Line(err))
		}
	}
	return all, own, nil
}

// stores are the folders that c looks in, in that order.
func (c *Chooser) stores() (out []*store) {
	if c != nil && c.keep.path != "" {
		out = append(out, &c.keep)
	}
	if lent != nil {
		out = append(out, lent)
	}
	return out
}

// tell says each thing once.
func (c *Chooser) tell(text string) {
	if c == nil || c.Say == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said[text] {
		return
	}
	if c.said == nil {
		c.said = map[string]bool{}
	}
	c.said[text] = true
	c.Say(text)
}
