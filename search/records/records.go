// Package records has schedules that a search found faster than the default ones on a processor core. They are data: a file for
// each core, a line for each product on a target. tmacc tune -record writes them, and package defaults prefers them.
//
//	CORE.jsonl    {"product": "w2", "act_group": 0, "target": "amd64/avx2", ..., "kernels": [...]}
//
// A record is an entry of a lock with a date. Its figures say what it gained over the default schedules when it was measured.
package records

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/search/tune"
)

// Margin is the least part of the default schedules' time that a record saves, beyond the noise of its measurement. Less is not
// worth a line that has to be measured again whenever the compiler changes.
const Margin = 0.03

//go:embed *.jsonl
var files embed.FS

// extension ends the name of a file of records; the rest is the name of the core.
const extension = ".jsonl"

// All returns the records of this program, by core. The error names the file and the line that is wrong.
var All = sync.OnceValues(func() (map[string]*tune.Lock, error) {
	all := map[string]*tune.Lock{}
	list, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, f := range list {
		data, err := files.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		core := strings.TrimSuffix(f.Name(), extension)
		if all[core], err = parse(f.Name(), data); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// Find is the record of a product on a target, nil if there is none. Cores of users have none, whatever they are called.
func Find(p ir.Problem, t lower.Target) (*tune.Entry, error) {
	all, err := All()
	l := all[t.Machine().Core.Name]
	if err != nil || l == nil || t.Machine().Core.Own {
		return nil, err
	}
	if e := l.Find(p, t); e != nil && e.For(p) {
		return e, nil
	}
	return nil, nil
}

// Path is the file in dir with the records of the core of t.
func Path(dir string, t lower.Target) string {
	return filepath.Join(dir, t.Machine().Core.Name+extension)
}

// Read reads a file of records. One that is not there has none.
func Read(path string) (*tune.Lock, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &tune.Lock{}, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(path, data)
}

// Change makes f change the records at path, as gen.Change does.
func Change(path string, f func(*tune.Lock)) error {
	return gen.Change(path, func(path string) ([]byte, error) {
		l, err := Read(path)
		if err != nil {
			return nil, err
		}
		f(l)
		return text(l)
	})
}

// parse reads records, one a line.
func parse(path string, data []byte) (*tune.Lock, error) {
	l := &tune.Lock{}
	bad := func(problem string) error {
		return &tune.LockError{Path: path, Problem: problem, Remedy: "mend it, or remove the line and run tmacc tune -record"}
	}
	for i, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		var e tune.Entry
		if len(data) == 0 {
			break
		}
		if err := format.UnmarshalStrict(line, &e); err != nil {
			return nil, bad(fmt.Sprintf("line %d: %v", i+1, err))
		}
		of := targets.ByName(e.Target)
		if core := strings.TrimSuffix(filepath.Base(path), extension); of != nil && of.Machine().Core.Name != core {
			return nil, bad(fmt.Sprintf("line %d is for %s, whose core is %s: the name of the file is that of the core", i+1, e.Target, of.Machine().Core.Name))
		}
		l.Entries = append(l.Entries, e)
	}
	if problem := l.Wrong("line", 1); problem != "" {
		return nil, bad(problem)
	}
	if i := slices.IndexFunc(l.Entries, func(e tune.Entry) bool { return e.Date == "" || len(e.Figures) == 0 }); i >= 0 {
		return nil, bad(fmt.Sprintf("line %d lacks a date or figures", i+1))
	}
	return l, nil
}

// text is l as its file has it.
func text(l *tune.Lock) ([]byte, error) {
	var out []byte
	for _, e := range l.Entries {
		line, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}
