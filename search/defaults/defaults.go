// Package defaults chooses the schedules of a product without measuring: a record's, or else the ones that a beam search by the machine model finds.
// Those it keeps in a folder of the user, since choosing them takes long.
//
//	problem, target -> a record of the target's core, replayed
//	                -> else in the folder, by the program, the target with its core, and the problem
//	                -> else beam.Product, which the folder then keeps
//
// A lock of the user goes before all of this: who has one asks it first.
package defaults

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
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

	path   string // of the folder, "": nothing is kept
	open   sync.Once
	folder *cache.Folder // nil: it was not opened, or cannot be
	mu     sync.Mutex    // of said
	said   map[string]bool
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
	c.path = path
	go cache.ThisProgram() // while the caller works
}

// opened is the folder, nil if nothing is kept.
func (c *Chooser) opened() *cache.Folder {
	if c == nil || c.path == "" {
		return nil
	}
	c.open.Do(func() {
		f, err := cache.Open(c.path)
		if err != nil {
			c.tell("default schedules are not kept: " + message.Line(err))
			return
		}
		f.Most, c.folder = MostBytes, f
	})
	return c.folder
}

// Close closes the folder.
func (c *Chooser) Close() error {
	if c == nil || c.folder == nil {
		return nil
	}
	return c.folder.Close()
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
// as of beam.Product.
func (c *Chooser) Choose(ctx context.Context, p ir.Problem, t lower.Target) (Chosen, error) {
	if err := p.Validate(); err != nil {
		return Chosen{}, err
	}
	return c.choose(ctx, p, t, c.Record(p, t))
}

// choose is Choose with a record, nil if there is none.
func (c *Chooser) choose(ctx context.Context, p ir.Problem, t lower.Target, e *tune.Entry) (Chosen, error) {
	if e != nil {
		uses, err := replay(ctx, p, t, e)
		if err == nil || ctx.Err() != nil {
			return Chosen{Uses: uses, Record: e}, ctx.Err()
		}
		c.tell("a record is not used: " + message.Line(err))
	}
	uses, kept, err := c.kept(ctx, p, t)
	return Chosen{Uses: uses, Kept: kept}, err
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

// stored is a search.Use as a file has it.
type stored struct {
	Cols  int            `json:"cols"`
	Trace schedule.Trace `json:"trace"`
	// Prepare is the schedule of the preparation for all of them, at the first one.
	Prepare schedule.Trace `json:"prepare,omitempty"`
}

// kept is beam.Product by way of the folder, and whether that had it.
func (c *Chooser) kept(ctx context.Context, p ir.Problem, t lower.Target) (uses []search.Use, had bool, fail error) {
	folder := c.opened()
	if folder == nil {
		uses, fail = beam.Product(ctx, p, t)
		return uses, false, fail
	}
	id := identity(cache.ThisProgram(), p, t)
	data, _, err := folder.Get(id)
	if uses := decode(data); err == nil && uses != nil {
		return uses, true, nil
	}
	if uses, fail = beam.Product(ctx, p, t); fail != nil {
		return nil, false, fail
	}
	if uses[0].Prepare, fail = build.Preparation(ctx, p, t, uses); fail != nil {
		return nil, false, fail
	}
	if err == nil {
		err = folder.Put(id, encode(uses))
	}
	if err != nil {
		c.tell("default schedules are not kept: " + message.Line(err))
	}
	return uses, false, nil
}

// identity is everything that decides the default schedules of p on t. The program decides the instruction set and what a
// built-in core is; a user's core is in his file.
func identity(program string, p ir.Problem, t lower.Target) []byte {
	m := t.Machine()
	return mustJSON(struct {
		Kind, Program, ISA string
		Core               core.Core
		Problem            ir.Problem
	}{"schedules", program, m.ISA.Name, m.Core, p})
}

func encode(uses []search.Use) []byte {
	var out []stored
	for _, u := range uses {
		out = append(out, stored{u.Cols, u.Trace, u.Prepare})
	}
	return mustJSON(out)
}

// decode is the schedules in data, nil if there are none.
func decode(data []byte) (uses []search.Use) {
	var all []stored
	if json.Unmarshal(data, &all) != nil {
		return nil
	}
	for _, x := range all {
		uses = append(uses, search.Use{Cols: x.Cols, Trace: x.Trace, Prepare: x.Prepare})
	}
	return uses
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: defaults: %v", err))
	}
	return data
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
