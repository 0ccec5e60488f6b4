package defaults

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/core"
	"github.com/tmacc/tmacc/runtime/cache"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
)

// store is a folder of chosen schedules, opened when it is asked for the first time.
type store struct {
	path    string
	program func() string // identifies what chooses
	once    sync.Once
	folder  *cache.Folder // nil: it was not opened, or cannot be
	fail    error         // why it cannot be
}

// lent is the folder that Lend names.
var lent *store

// Lend makes all choosers of this process, even a nil one, look for schedules in one more folder, and keep them there. Other programs share it: sources
// identifies what chooses, instead of the bytes of this program. Tests call it before they choose, so that a product is chosen once for all of them. An
// empty path takes that back.
func Lend(path string, sources func() string) {
	if lent = nil; path != "" {
		lent = &store{path: path, program: sources}
	}
}

func (s *store) open() (*cache.Folder, error) {
	s.once.Do(func() {
		if s.folder, s.fail = cache.Open(s.path); s.fail == nil {
			s.folder.Most = MostBytes
		}
	})
	return s.folder, s.fail
}

// stored is a search.Use as a file has it.
type stored struct {
	Cols  int            `json:"cols"`
	Trace schedule.Trace `json:"trace"`
	// Prepare is the schedule of the preparation for all of the default ones, at the first one.
	Prepare schedule.Trace `json:"prepare,omitempty"`
}

// get is the layouts of a product in the folder, nil if it has none.
func (s *store) get(p ir.Problem, t lower.Target) [][]search.Use {
	f, err := s.open()
	if err != nil {
		return nil
	}
	data, _, err := f.Get(identity(s.program(), p, t))
	if err != nil {
		return nil
	}
	return decode(data)
}

func (s *store) put(p ir.Problem, t lower.Target, all [][]search.Use) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	return f.Put(identity(s.program(), p, t), encode(all))
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

func encode(all [][]search.Use) []byte {
	out := make([][]stored, len(all))
	for i, uses := range all {
		for _, u := range uses {
			out[i] = append(out[i], stored{u.Cols, u.Trace, u.Prepare})
		}
	}
	return mustJSON(out)
}

// decode is the schedules in data, nil if there are none.
func decode(data []byte) (all [][]search.Use) {
	var have [][]stored
	if json.Unmarshal(data, &have) != nil {
		return nil
	}
	for _, layout := range have {
		var uses []search.Use
		for _, x := range layout {
			uses = append(uses, search.Use{Cols: x.Cols, Trace: x.Trace, Prepare: x.Prepare})
		}
		if uses == nil {
			return nil
		}
		all = append(all, uses)
	}
	return all
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("BUG: defaults: %v", err))
	}
	return data
}
