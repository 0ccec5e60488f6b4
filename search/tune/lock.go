package tune

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/measure"
)

// LockName is the file of a module that holds its tuned schedules.
const LockName = "tmacc.lock"

// lockVersion is that of the format of the file.
const lockVersion = 1

// maxLock bounds a lock file, in bytes.
const maxLock = 16 << 20

// Lock is what has been tuned: at most one entry for a product on a target, sorted.
type Lock struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"`
}

// Entry is the schedules of a product on a target, all for one packed matrix, and how
// they came to be.
type Entry struct {
	Product  string       `json:"product"` // ir.Problem.Name
	ActGroup int          `json:"act_group"`
	Target   string       `json:"target"`
	Figures  Figures      `json:"figures"`
	Ceilings Ceilings     `json:"ceilings"`
	Host     measure.Host `json:"host"`
	Compiler string       `json:"compiler"` // version of tmacc, "" if it was no release
	Hash     string       `json:"hash"`     // of the kernels, see KernelHash
	Kernels  []Kernel     `json:"kernels"`
}

// Kernel is a schedule for column blocks of one width.
type Kernel struct {
	Cols  int            `json:"cols"`
	Trace schedule.Trace `json:"trace"`
}

// Figures are what was measured of the first of an entry's purposes.
type Figures struct {
	Mode      string  `json:"mode"`
	M         int     `json:"m"`
	N         int     `json:"n"`
	K         int     `json:"k"`
	Ns        float64 `json:"ns"`
	DefaultNs float64 `json:"default_ns"` // of the default schedules, in the same rounds
	Share     float64 `json:"share"`      // of the ceiling that binds, 0 if unknown
}

// Ceilings are what the host could do in the same run.
type Ceilings struct {
	ReadGBS  float64 `json:"read_gb_s"`
	DotGMACS float64 `json:"dot_gmac_s"`
	ClockGHz float64 `json:"clock_ghz"`
}

// LockError reports a lock file that cannot be used.
type LockError struct{ Path, Problem string }

func (e *LockError) Error() string {
	return fmt.Sprintf("%s: %s: mend it, or remove it and run tmacc tune", e.Path, e.Problem)
}

// ReadLock reads the lock at path; a file that is not there is an empty one.
func ReadLock(path string) (*Lock, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{Version: lockVersion}, nil
	}
	if err == nil && info.Size() > maxLock {
		return nil, &LockError{path, fmt.Sprintf("has %d bytes, at most %d", info.Size(), maxLock)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseLock(path, data)
}

// ParseLock is the lock in data, which came from path.
func ParseLock(path string, data []byte) (*Lock, error) {
	var l Lock
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return nil, &LockError{path, err.Error()}
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, &LockError{path, "has something behind its end"}
	}
	if l.Version != lockVersion {
		return nil, &LockError{path, fmt.Sprintf("has version %d, this tmacc reads %d", l.Version, lockVersion)}
	}
	for i, e := range l.Entries {
		if len(e.Kernels) == 0 || slices.ContainsFunc(e.Kernels, func(k Kernel) bool { return k.Cols < 1 || len(k.Trace) == 0 }) {
			return nil, &LockError{path, fmt.Sprintf("entry %d (%s on %s) lacks a kernel, columns or a trace", i, e.Product, e.Target)}
		}
		if i > 0 && l.Entries[i-1].key() >= e.key() {
			return nil, &LockError{path, fmt.Sprintf("entry %d (%s on %s) is out of order or there twice", i, e.Product, e.Target)}
		}
	}
	return &l, nil
}

func (e *Entry) key() string { return fmt.Sprintf("%s\x00%06d\x00%s", e.Product, e.ActGroup, e.Target) }

// Find is the entry of a product on a target, nil if there is none.
func (l *Lock) Find(p ir.Problem, t lower.Target) *Entry {
	want := Entry{Product: p.Name(), ActGroup: p.Act.Group, Target: t.Machine().Name}
	for i := range l.Entries {
		if l.Entries[i].key() == want.key() {
			return &l.Entries[i]
		}
	}
	return nil
}

// Put adds e, in place of the entry for the same product and target.
func (l *Lock) Put(e Entry) {
	l.Entries = slices.DeleteFunc(l.Entries, func(x Entry) bool { return x.key() == e.key() })
	l.Entries = append(l.Entries, e)
	slices.SortFunc(l.Entries, func(a, b Entry) int { return strings.Compare(a.key(), b.key()) })
}

// Uses are the schedules of e.
func (e *Entry) Uses() []search.Use {
	var out []search.Use
	for _, k := range e.Kernels {
		out = append(out, search.Use{Cols: k.Cols, Trace: k.Trace})
	}
	return out
}

// Text is l as its file has it: a line for each step of a trace.
func (l *Lock) Text() ([]byte, error) {
	shown := *l
	var traces []string
	shown.Entries = nil
	for _, e := range l.Entries {
		kernels := e.Kernels
		e.Kernels = nil
		for _, k := range kernels {
			text, err := traceLines(k.Trace)
			if err != nil {
				return nil, err
			}
			traces = append(traces, text)
			e.Kernels = append(e.Kernels, Kernel{Cols: k.Cols})
		}
		shown.Entries = append(shown.Entries, e)
	}
	data, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		return nil, err
	}
	const hole = `"trace": []`
	for _, t := range traces {
		if !bytes.Contains(data, []byte(hole)) {
			panic("BUG: lock: traces are not where they were expected")
		}
		data = bytes.Replace(data, []byte(hole), []byte(`"trace": `+t), 1)
	}
	return append(data, '\n'), nil
}

func traceLines(t schedule.Trace) (string, error) {
	var lines []string
	for i := range t {
		data, err := json.Marshal(t[i : i+1])
		if err != nil {
			return "", err
		}
		lines = append(lines, "            "+string(data[1:len(data)-1]))
	}
	return "[\n" + strings.Join(lines, ",\n") + "\n          ]", nil
}

// Write puts l at path: a reader sees the old file or the new one.
func (l *Lock) Write(path string) error {
	data, err := l.Text()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+LockName+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// KernelHash identifies the machine code of kernels, whatever they are called.
func KernelHash(t lower.Target, ks []*lower.Kernel) (string, error) {
	var anonymous []*lower.Kernel
	for i, k := range ks {
		f, m := *k.Func, *k
		f.Name = fmt.Sprintf("k%d", i)
		m.Func = &f
		anonymous = append(anonymous, &m)
	}
	f, err := t.Emit("main", anonymous)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(f.Data)
	return hex.EncodeToString(sum[:16]), nil
}
