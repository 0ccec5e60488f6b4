package tune

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tmacc/tmacc/gen"
	"github.com/tmacc/tmacc/gen/gomod"
	"github.com/tmacc/tmacc/gen/message"
	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/ir/format"
	"github.com/tmacc/tmacc/lower"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/lower/variant"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search"
	"github.com/tmacc/tmacc/search/timing"
)

// LockName is the file of a module that holds its tuned schedules.
const LockName = "tmacc.lock"

// lockVersion is that of the format of the file.
const lockVersion = 1

// maxLock bounds a lock file, in bytes.
const maxLock = 16 << 20

// Lock lists the tuned products: at most one entry for a product on a target, sorted.
type Lock struct {
	Version int     `json:"version"`
	Entries []Entry `json:"entries"`
}

// Entry is the schedules of a product on a target, all for one packed matrix, and how
// they came to be.
type Entry struct {
	Product  string      `json:"product"` // ir.Problem.Name
	ActGroup int         `json:"act_group"`
	Target   string      `json:"target"`
	Problem  string      `json:"problem"` // ProblemHash
	Figures  []Figures   `json:"figures"` // of each of the purposes
	Host     timing.Host `json:"host"`
	Compiler string      `json:"compiler"`       // version of tmacc, as Go has recorded it
	Date     string      `json:"date,omitempty"` // of the measurement, of a record: package records
	Kernels  []Kernel    `json:"kernels"`        // the narrowest first
}

// Kernel is a schedule for column blocks of one width.
type Kernel struct {
	Cols  int            `json:"cols"`
	Hash  string         `json:"hash"` // KernelHash of what was measured
	Trace schedule.Trace `json:"trace"`
}

// Figures are what was measured of one purpose of an entry.
type Figures struct {
	Mode      string  `json:"mode"`
	M         int     `json:"m"`
	N         int     `json:"n"`
	K         int     `json:"k"`
	Ns        float64 `json:"ns"`
	DefaultNs float64 `json:"default_ns"` // of the default schedules, in the same rounds
	Share     float64 `json:"share"`      // of the ceiling that binds, 0 if unknown
	Ceilings
}

// Ceilings are what the host could do in the same run, 0 if unknown.
type Ceilings struct {
	ReadGBS  float64 `json:"read_gb_s"`
	DotGMACS float64 `json:"dot_gmac_s"`
	ClockGHz float64 `json:"clock_ghz"`
}

// LockError reports a lock file that cannot be used.
type LockError struct{ Path, Problem, Remedy string } // no Remedy is the usual one

func (e *LockError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Path, e.Problem, cmp.Or(e.Remedy, "mend it, or remove it and run tmacc tune"))
}

// ReadLock reads the lock at path; a file that is not there is an empty one.
func ReadLock(path string) (*Lock, error) {
	info, err := os.Stat(path)
	_, link := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && link == nil:
		return nil, &LockError{Path: path, Problem: "is a link to nothing"}
	case errors.Is(err, fs.ErrNotExist):
		return &Lock{Version: lockVersion}, nil
	case err == nil && !info.Mode().IsRegular(): // which may have no end, or wait for a writer
		return nil, &LockError{Path: path, Problem: "is no regular file"}
	case err == nil && info.Size() > maxLock:
		return nil, &LockError{Path: path, Problem: fmt.Sprintf("has %d bytes, at most %d", info.Size(), maxLock)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseLock(path, data)
}

// ParseLock is the lock in data, which came from path. Fields that are unknown, by exactly their names, or there
// twice are errors.
func ParseLock(path string, data []byte) (*Lock, error) {
	var l Lock
	if problem := unreadable(data); problem != "" {
		return nil, &LockError{Path: path, Problem: problem}
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err == nil && head.Version > lockVersion { // whose fields may be others
		return nil, &LockError{path, fmt.Sprintf("was written by a newer tmacc: it has version %d of the format, this tmacc reads %d", head.Version, lockVersion), "use the newer one"}
	}
	if err := format.UnmarshalStrict(data, &l); err != nil {
		problem := place(data) + err.Error()
		if line := format.ErrorLine(data, err); line > 0 {
			problem = fmt.Sprintf("line %d: %s", line, problem)
		}
		return nil, &LockError{Path: path, Problem: problem}
	}
	if l.Version != lockVersion {
		return nil, &LockError{Path: path, Problem: fmt.Sprintf("has version %d or none, this tmacc reads %d", l.Version, lockVersion)}
	}
	if problem := l.Wrong("entry", 0); problem != "" {
		return nil, &LockError{Path: path, Problem: problem}
	}
	for i := range l.Entries { // earlier versions called targets by their cores alone
		l.Entries[i].Target = targets.Canonical(l.Entries[i].Target)
	}
	slices.SortFunc(l.Entries, func(a, b Entry) int { return cmp.Compare(a.key(), b.key()) })
	for i := 1; i < len(l.Entries); i++ {
		if a, b := l.Entries[i-1], l.Entries[i]; a.key() == b.key() {
			return nil, &LockError{Path: path, Problem: fmt.Sprintf("has two entries of %s on %s, one by an old name of the target", b.Product, b.Target)}
		}
	}
	return &l, nil
}

// Wrong says which entry is not one, or out of order, "" if none is. It calls an entry unit, and the first one by the number first.
func (l *Lock) Wrong(unit string, first int) string {
	for i, e := range l.Entries {
		if problem := e.wrong(); problem != "" {
			return fmt.Sprintf("%s %d (%s on %s) %s", unit, first+i, e.Product, e.Target, problem)
		}
		if i > 0 && l.Entries[i-1].key() >= e.key() {
			return fmt.Sprintf("%s %d (%s on %s) is out of order or there twice", unit, first+i, e.Product, e.Target)
		}
	}
	return ""
}

// place names the first entry of a lock, and its kernel, that cannot be read; "" if none is to blame.
func place(data []byte) string {
	var l struct {
		Entries []json.RawMessage `json:"entries"`
	}
	_ = json.Unmarshal(data, &l) // what has no entries has none to blame
	for i, text := range l.Entries {
		if format.UnmarshalStrict(text, new(Entry)) == nil {
			continue
		}
		var e struct {
			Product string            `json:"product"`
			Target  string            `json:"target"`
			Kernels []json.RawMessage `json:"kernels"`
		}
		_ = json.Unmarshal(text, &e) // as far as it can be read
		for j, k := range e.Kernels {
			if format.UnmarshalStrict(k, new(Kernel)) != nil {
				return fmt.Sprintf("entry %d (%s on %s), kernel %d: ", i, e.Product, e.Target, j)
			}
		}
		return fmt.Sprintf("entry %d (%s on %s): ", i, e.Product, e.Target)
	}
	return ""
}

// unreadable says what data is instead of JSON, "" if that is for the reader to say.
func unreadable(data []byte) string {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return "is empty"
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) || bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "begins with a byte order mark: save it as UTF-8 without one"
	case bytes.HasPrefix(data, []byte("<<<<<<< ")) || bytes.Contains(data, []byte("\n<<<<<<< ")):
		return "has the marks of a merge conflict"
	}
	return ""
}

func (e *Entry) key() string { return fmt.Sprintf("%s\x00%06d\x00%s", e.Product, e.ActGroup, e.Target) }

// wrong says what an entry lacks or cannot have, "" if nothing.
func (e *Entry) wrong() string {
	switch {
	case e.Product == "" || e.Target == "":
		return "lacks a product or a target"
	case len(e.Kernels) == 0 || e.Problem == "":
		return "lacks a kernel or the hash of its problem"
	}
	if err := (format.Act{Group: e.ActGroup}).ValidGroup(); err != nil {
		return fmt.Sprintf("has an act_group of %d: %v", e.ActGroup, err)
	}
	for i, f := range e.Figures {
		if problem := f.wrong(); problem != "" {
			return fmt.Sprintf("has figures %d that nothing measures: %s", i, problem)
		}
	}
	for i, k := range e.Kernels {
		if k.Cols < 1 || len(k.Trace) == 0 {
			return "has a kernel without columns or a trace"
		}
		if i > 0 && k.Cols <= e.Kernels[i-1].Cols {
			return fmt.Sprintf("has a kernel of %d columns behind one of %d", k.Cols, e.Kernels[i-1].Cols)
		}
	}
	return ""
}

// wrong says what cannot have been measured, "" if nothing.
func (f Figures) wrong() string {
	if f.Mode == "" {
		return "mode is missing"
	}
	for _, size := range []struct {
		name string
		n    int
	}{{"m", f.M}, {"n", f.N}, {"k", f.K}} {
		if size.n < 1 {
			return fmt.Sprintf("%s is %d", size.name, size.n)
		}
	}
	for _, figure := range []struct {
		name string
		x    float64
	}{{"ns", f.Ns}, {"default_ns", f.DefaultNs}, {"share", f.Share}, {"read_gb_s", f.ReadGBS}, {"dot_gmac_s", f.DotGMACS}, {"clock_ghz", f.ClockGHz}} {
		if figure.x < 0 {
			return fmt.Sprintf("%s is %v", figure.name, figure.x)
		}
	}
	return ""
}

// Find is the entry of a product on a target, nil if there is none. It may be that of
// another problem with the same name: see For.
func (l *Lock) Find(p ir.Problem, t lower.Selector) *Entry {
	want := Entry{Product: p.Name(), ActGroup: p.Act.Group, Target: t.Machine().Name}
	for i := range l.Entries {
		if l.Entries[i].key() == want.key() {
			return &l.Entries[i]
		}
	}
	return nil
}

// Remove takes away the entry of a product on a target.
func (l *Lock) Remove(p ir.Problem, t lower.Selector) {
	if e := l.Find(p, t); e != nil {
		key := e.key()
		l.Entries = slices.DeleteFunc(l.Entries, func(x Entry) bool { return x.key() == key })
	}
}

// For says that e was tuned for p, not for a format that had its name then.
func (e *Entry) For(p ir.Problem) bool { return e.Problem == ProblemHash(p) }

// ProblemHash identifies what a product means: levels, scales and activations. How large a K it
// is proven for does not count.
func ProblemHash(p ir.Problem) string {
	data, err := json.Marshal(struct {
		Weight format.Weight
		Act    format.Act
	}{p.Weight, p.Act})
	if err != nil {
		panic("BUG: lock: " + err.Error())
	}
	return shortHash(data)
}

func shortHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// Put adds e, in place of the entry for the same product and target.
func (l *Lock) Put(e Entry) {
	l.Entries = slices.DeleteFunc(l.Entries, func(x Entry) bool { return x.key() == e.key() })
	l.Entries = append(l.Entries, e)
	slices.SortFunc(l.Entries, func(a, b Entry) int { return strings.Compare(a.key(), b.key()) })
}

// Widest is the most columns that a kernel of e has.
func (e *Entry) Widest() int { return e.Kernels[len(e.Kernels)-1].Cols }

// Gain is how many times as fast as the default schedules e was, in the geometric mean over its figures; 1 without figures.
func (e *Entry) Gain() float64 {
	sum, n := 0.0, 0
	for _, f := range e.Figures {
		if f.Ns > 0 && f.DefaultNs > 0 {
			sum, n = sum+math.Log(f.DefaultNs/f.Ns), n+1
		}
	}
	return math.Exp(sum / float64(max(n, 1)))
}

// Measured says what e gained, where and when, on one line.
func (e *Entry) Measured() string {
	text := fmt.Sprintf("%.2f times as fast as the default schedules on %s", e.Gain(), e.Host.CPU)
	if e.Date != "" {
		text += ", " + e.Date
	}
	return text
}

// Changed lists the columns of the kernels that are not the measured ones. The kernels were compiled for t by the schedules of e, and
// have their order.
func (e *Entry) Changed(t lower.Target, kernels []variant.Kernel) (cols []int) {
	for i, k := range kernels {
		if hash, err := KernelHash(t, k.Printed(t).Text); err != nil || hash != e.Kernels[i].Hash {
			cols = append(cols, k.Schedule.Cols)
		}
	}
	return cols
}

// Others says of the kernels of Changed that they are not the measured ones: "other kernels (for 1 column) than were measured". It is "" if
// all are the measured ones.
func (e *Entry) Others(t lower.Target, kernels []variant.Kernel) string {
	var widths []string
	for _, cols := range e.Changed(t, kernels) {
		widths = append(widths, message.Count(cols, "column"))
	}
	if widths == nil {
		return ""
	}
	by := ""
	if e.Compiler != "" && e.Compiler != gomod.Unknown {
		by = " by tmacc " + e.Compiler
	}
	return fmt.Sprintf("other kernels (for %s) than were measured%s: the traces were changed, or the compiler", strings.Join(widths, ", "), by)
}

// Uses are the schedules of e.
func (e *Entry) Uses() []search.Use {
	var out []search.Use
	for _, k := range e.Kernels {
		out = append(out, search.Use{Cols: k.Cols, Trace: k.Trace})
	}
	return out
}

// Text is l as its file has it: a line for each figure and each step of a trace, so that it reads, and
// two versions compare.
func (l *Lock) Text() ([]byte, error) {
	var entries []string
	for _, e := range l.Entries {
		text, err := e.text()
		if err != nil {
			return nil, err
		}
		entries = append(entries, text)
	}
	return fmt.Appendf(nil, "{\n  \"version\": %d,\n  \"entries\": %s\n}\n", l.Version, list("    ", entries)), nil
}

// text is an entry as JSON, with the field names of its types.
func (e Entry) text() (string, error) {
	figures, err := marshalAll(e.Figures)
	if err != nil {
		return "", err
	}
	var kernels []string
	for _, k := range e.Kernels {
		steps, err := marshalAll(k.steps())
		if err != nil {
			return "", err
		}
		k.Trace = nil
		head, err := json.Marshal(k)
		if err != nil {
			return "", err
		}
		kernels = append(kernels, strings.Replace(string(head), `"trace":[]`, `"trace": `+list("          ", steps), 1))
	}
	e.Figures, e.Kernels = nil, nil
	head, err := json.Marshal(e)
	return strings.NewReplacer(
		`,"figures":null`, ",\n      \"figures\": "+list("        ", figures),
		`,"host":`, ",\n      \"host\": ",
		`,"compiler":`, ",\n      \"compiler\": ",
		`,"kernels":null`, ",\n      \"kernels\": "+list("        ", kernels),
	).Replace(string(head)), err
}

// steps are the trace of k as traces of one step.
func (k *Kernel) steps() (out []schedule.Trace) {
	for i := range k.Trace {
		out = append(out, k.Trace[i:i+1])
	}
	return out
}

// marshalAll is the JSON of each; of a list of one thing only the thing.
func marshalAll[T any](xs []T) (out []string, err error) {
	for _, x := range xs {
		data, err := json.Marshal(x)
		if err != nil {
			return nil, err
		}
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(string(data), "["), "]"))
	}
	return out, nil
}

// list is a list of JSON, each on a line of its own.
func list(indent string, items []string) string {
	if len(items) == 0 {
		return "[]"
	}
	return "[\n" + indent + strings.Join(items, ",\n"+indent) + "\n" + indent[2:] + "]"
}

// ChangeLock makes f change the lock at path, as gen.Change does.
func ChangeLock(path string, f func(*Lock) error) error {
	return gen.Change(path, func(path string) ([]byte, error) {
		l, err := ReadLock(path)
		if err != nil {
			return nil, err
		}
		if err := f(l); err != nil {
			return nil, err
		}
		return l.Text()
	})
}

// Writable is why the lock at path cannot be changed, nil if it can, or if its folder is still to be made.
func Writable(path string) error {
	path, err := gen.Followed(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), gen.Temporary)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// KernelHash identifies the machine code of a printed kernel, whatever it is called.
func KernelHash(t lower.Target, text *lower.Function) (string, error) {
	file, err := t.File("main", lower.Named{Name: "k", Function: text})
	if err != nil {
		return "", err
	}
	return shortHash(file.Data), nil
}
