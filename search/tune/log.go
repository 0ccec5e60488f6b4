package tune

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tmacc/tmacc/ir"
	"github.com/tmacc/tmacc/lower/targets"
	"github.com/tmacc/tmacc/schedule"
	"github.com/tmacc/tmacc/search/cost"
	"github.com/tmacc/tmacc/search/timing"
)

// Log is the database of all measurements of all searches, a file. It is open only
// while something is written or read, so that several searches share it; what was
// written before a process ends, however it ends, is there.
type Log struct{ Path string }

// DefaultLog is that of the user.
func DefaultLog() (Log, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Log{}, fmt.Errorf("tuning log: %w: name a file with -log", err)
	}
	return Log{filepath.Join(dir, "tmacc", "tuning.db")}, nil
}

// CostVersion counts the definitions that costs have had (CostOf, and what times include).
const CostVersion = 4

// Run describes a search.
type Run struct {
	ID       string           `json:"run"` // of 16 hexadecimal digits, by time
	Start    time.Time        `json:"start"`
	Product  string           `json:"product"` // ir.Problem.Name
	ActGroup int              `json:"act_group"`
	Target   string           `json:"target"`
	Problem  string           `json:"problem"`              // ProblemHash
	Defined  *ir.Problem      `json:"definition,omitempty"` // what the hash is of; nil in logs of earlier versions
	Purposes []Purpose        `json:"purposes"`
	Seed     int64            `json:"seed"`
	CPU      string           `json:"cpu"`
	Core     string           `json:"core,omitempty"` // that the best kernels of that machine are for; logs of earlier versions have none
	Compiler string           `json:"compiler"`
	Default  string           `json:"default"`                  // Tuner.DefaultHash
	Usual    []schedule.Trace `json:"default_traces,omitempty"` // of the default schedules, the narrowest first
	Cost     int              `json:"cost"`                     // CostVersion
	Trials   int              `json:"trials"`
	Best     float64          `json:"best"`               // least ratio so far, 0: none
	Ended    string           `json:"ended,omitempty"`    // "": it goes on, or was killed
	Dropped  map[string]int   `json:"dropped,omitempty"`  // once it has ended
	Ceilings []Ceilings       `json:"ceilings,omitempty"` // of the machine that measured, for each purpose; none: not known
}

// Same says that the measurements of r and o can be compared. They are of the same product on the same kind of machine,
// for the same purposes, beside the same default kernels, by the same definition of cost.
func (r *Run) Same(o *Run) bool {
	return r.Cost == o.Cost && r.Default == o.Default && r.Problem == o.Problem && r.Target == o.Target && r.CPU == o.CPU && slices.Equal(r.Purposes, o.Purposes)
}

// Definition is the product of r. Of earlier versions' logs it is the one of the built-in format that has the name, if it is still the same.
// The error says that this program does not know it.
func (r *Run) Definition() (ir.Problem, error) {
	if r.Defined != nil {
		return *r.Defined, r.Defined.Validate()
	}
	p, err := ir.Named(r.Product)
	if err != nil {
		return p, err
	}
	if !p.Act.Floats() {
		p.Act.Group = r.ActGroup
	}
	if r.Problem != "" && ProblemHash(p) != r.Problem {
		return p, fmt.Errorf("%s meant something else when the search ran", r.Product)
	}
	return p, nil
}

// Trial is a candidate that was measured, or failed to be. Its names in JSON are the names in existing logs.
type Trial struct {
	Genes  []Gene    `json:"genes"`
	Hash   string    `json:"hash"`
	Cost   float64   `json:"ratio,omitempty"` // CostOf its ratios
	Ns     []float64 `json:"ns,omitempty"`    // the least, of each purpose, 0 of one that was not measured
	Ratios []float64 `json:"parts,omitempty"` // of its times to the default's in the same rounds, of each purpose, 0 of one that was not measured
	Low    []float64 `json:"low,omitempty"`   // bounds of Ratios by the ratios of single rounds (RatioOf), 0: there were too few rounds, or an earlier version wrote the log
	High   []float64 `json:"high,omitempty"`
	Error  string    `json:"error,omitempty"` // why there is no cost
	Fault  string    `json:"fault,omitempty"` // what it did that no schedule may do
	// What was expected of the cost before it was measured: by the model of the core alone, and as the search has corrected it. 0: not recorded.
	Estimate  float64 `json:"estimate,omitempty"`
	Predicted float64 `json:"predicted,omitempty"`
}

// RatioFor is the ratio of purpose i with its noise.
func (t *Trial) RatioFor(i int) Ratio {
	if i >= len(t.Low) || i >= len(t.High) || t.Low[i] == 0 || t.High[i] == 0 {
		return Ratio{t.Ratios[i], 0, math.Inf(1)}
	}
	return Ratio{t.Ratios[i], t.Low[i], t.High[i]}
}

// Ratio is the cost of t with its noise: the costs that the low and the high bounds of all its ratios give. Its bounds are 0 and infinite if a
// purpose has none.
func (t *Trial) Ratio() Ratio {
	var low, high []float64
	for i, r := range t.Ratios {
		if r == 0 { // not measured
			continue
		}
		part := t.RatioFor(i)
		if math.IsInf(part.High, 1) {
			return Ratio{t.Cost, 0, math.Inf(1)}
		}
		low, high = append(low, part.Low), append(high, part.High)
	}
	if len(low) == 0 {
		return Ratio{t.Cost, 0, math.Inf(1)}
	}
	return Ratio{t.Cost, min(t.Cost, CostOf(low)), max(t.Cost, CostOf(high))}
}

// check refuses figures that nothing has measured.
func (t *Trial) check() error {
	for _, x := range slices.Concat([]float64{t.Cost, t.Estimate, t.Predicted}, t.Ns, t.Ratios, t.Low, t.High) {
		if !measurable(x) {
			return fmt.Errorf("a figure of %v, which nothing measures", x)
		}
	}
	return nil
}

// check refuses sizes that no product has, and figures that nothing has measured.
func (r *Run) check() error {
	for _, p := range r.Purposes {
		if min(p.M, p.N, p.K) < 1 || max(p.M, p.N, p.K) > timing.MaxMatrix {
			return fmt.Errorf("a product of %d rows, %d columns and %d activations", p.M, p.K, p.N)
		}
		if _, err := cost.PlaceOf(p.Mode); err != nil {
			return err
		}
	}
	figures := []float64{r.Best}
	for _, c := range r.Ceilings {
		figures = append(figures, c.ReadGBS, c.DotGMACS, c.ClockGHz)
	}
	for _, x := range figures {
		if !measurable(x) {
			return fmt.Errorf("a figure of %v, which nothing measures", x)
		}
	}
	return nil
}

// measurable says that a figure is not known (0), or of an order that times, rates and ratios have: nothing takes 1e-6 ns, or some months.
func measurable(x float64) bool { return x == 0 || x > 1e-6 && x < 1e16 }

// Buckets: runs by ID; trials by ID and number.
var (
	runsBucket   = []byte("runs")
	trialsBucket = []byte("trials")
)

// lockWait is how long a process waits for another to be done with the file.
const lockWait = 10 * time.Second

// open makes the file if it must.
func (l Log) open(readOnly bool) (*bbolt.DB, error) {
	if !readOnly {
		if err := os.MkdirAll(filepath.Dir(l.Path), 0o777); err != nil {
			return nil, fmt.Errorf("tuning log: %w", err)
		}
	}
	_, missing := os.Stat(l.Path)
	db, err := bbolt.Open(l.Path, 0o666, &bbolt.Options{Timeout: lockWait, ReadOnly: readOnly})
	if err == nil {
		return db, nil
	}
	if errors.Is(missing, fs.ErrNotExist) {
		os.Remove(l.Path) // a beginning, that fills the disk, is no log
	}
	if errors.Is(err, bbolt.ErrInvalid) || errors.Is(err, bbolt.ErrVersionMismatch) || errors.Is(err, bbolt.ErrChecksum) {
		return nil, fmt.Errorf("tuning log %s: %w: it is no log, or damaged: remove it, or name another with -log", l.Path, err)
	}
	return nil, fmt.Errorf("tuning log %s: %w", l.Path, err)
}

// damaged, deferred with debug.SetPanicOnFault, makes an error of what the database panics with, and of
// accesses behind its end, if its file is damaged or cut off.
func (l Log) damaged(faults bool, err *error) {
	debug.SetPanicOnFault(faults)
	if x := recover(); x != nil {
		*err = fmt.Errorf("tuning log %s: is damaged, remove it: %v", l.Path, x)
	}
}

// update runs f on both buckets; what it does is written at once, or not at all.
func (l Log) update(f func(runs, trials *bbolt.Bucket) error) (err error) {
	defer l.damaged(debug.SetPanicOnFault(true), &err)
	db, err := l.open(false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		runs, err := tx.CreateBucketIfNotExists(runsBucket)
		if err != nil {
			return err
		}
		trials, err := tx.CreateBucketIfNotExists(trialsBucket)
		if err != nil {
			return err
		}
		return f(runs, trials)
	})
	return errors.Join(err, db.Close())
}

// Begin writes a run, to which it gives an ID.
func (l Log) Begin(r *Run) error {
	var random [3]byte
	rand.Read(random[:])
	r.ID = fmt.Sprintf("%010x%06x", r.Start.Unix(), random)
	return l.Add(r)
}

// Add writes trials of a run, and the run itself as it is now. After an error the run is as it
// was before.
func (l Log) Add(r *Run, ts ...Trial) error {
	next := *r
	err := l.update(func(runs, trials *bbolt.Bucket) error {
		for _, t := range ts {
			next.Trials++
			if t.Error == "" && (next.Best == 0 || t.Cost < next.Best) {
				next.Best = t.Cost
			}
			if err := put(trials, binary.BigEndian.AppendUint32([]byte(r.ID), uint32(next.Trials)), t); err != nil {
				return err
			}
		}
		return put(runs, []byte(r.ID), next)
	})
	if err == nil {
		*r = next
	}
	return err
}

func put(b *bbolt.Bucket, key []byte, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

// Unread says how many entries of a log were left out, as this tmacc cannot read them: another has written them.
type Unread struct {
	Path  string
	N     int
	First error
}

func (e *Unread) Error() string {
	return fmt.Sprintf("tuning log %s: %d entries of another tmacc are left out: %v", e.Path, e.N, e.First)
}

// Each calls f with every run, the oldest first, and if trials is set, with the run
// before each of its trials. While f runs the log is not held: trials added meanwhile may
// come later in the same call. A log that is not there is empty, and so is a file without bytes. The error is an *Unread if
// f was called with all else.
func (l Log) Each(trials bool, f func(Run, *Trial) error) error {
	unread := &Unread{Path: l.Path}
	runs, err := l.runs(unread)
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := l.eachOf(r, trials, unread, f); err != nil {
			return err
		}
	}
	return unread.error()
}

// runs are the runs of l. Earlier versions called targets by their cores alone.
func (l Log) runs(unread *Unread) ([]Run, error) {
	runs, err := read[Run](l, runsBucket, nil, unread)
	for i := range runs {
		runs[i].Target = targets.Canonical(runs[i].Target)
	}
	return runs, err
}

func (l Log) eachOf(r Run, trials bool, unread *Unread, f func(Run, *Trial) error) error {
	if !trials {
		return f(r, nil)
	}
	all, err := read[Trial](l, trialsBucket, []byte(r.ID), unread)
	if err != nil {
		return err
	}
	for i := range all {
		if err := f(r, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// Before returns the trials of all runs that can be compared with r: see Same. If it returns an *Unread, the trials are
// all that can be read.
func (l Log) Before(r *Run) (out []Trial, err error) {
	unread := &Unread{Path: l.Path}
	runs, err := l.runs(unread)
	if err != nil {
		return nil, err
	}
	for _, o := range runs {
		if o.Same(r) {
			ts, err := read[Trial](l, trialsBucket, []byte(o.ID), unread)
			if err != nil {
				return nil, err
			}
			out = append(out, ts...)
		}
	}
	return out, unread.error()
}

// The number of other searches, the newest, from which a search begins, and of schedules of each.
const (
	mostCarried = 4
	carriedEach = 2
)

// Elsewhere returns the fastest trials of other searches for r's product on its target, which also names its core, the newest search first: of any
// machine, for any purposes. Their measurements do not hold for r. If it returns an *Unread, the trials are of all that can be read.
func (l Log) Elsewhere(r *Run) (out []Trial, err error) {
	unread := &Unread{Path: l.Path}
	runs, err := l.runs(unread)
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(o Run) bool {
		return o.ID == r.ID || o.Best == 0 || o.Problem != r.Problem || o.Target != r.Target
	})
	slices.Reverse(runs)
	for _, o := range runs[:min(len(runs), mostCarried)] {
		ts, err := read[Trial](l, trialsBucket, []byte(o.ID), unread)
		if err != nil {
			return nil, err
		}
		ts = slices.DeleteFunc(ts, func(x Trial) bool { return x.Error != "" })
		slices.SortStableFunc(ts, func(a, b Trial) int { return cmp.Compare(a.Cost, b.Cost) })
		out = append(out, ts[:min(len(ts), carriedEach)]...)
	}
	return out, unread.error()
}

// error is e, or nil if nothing was left out.
func (e *Unread) error() error {
	if e.N == 0 {
		return nil
	}
	return e
}

// read returns the values in a bucket whose keys begin with prefix, in order of keys. It leaves out values that
// cannot be read; unread counts them.
func read[T any](l Log, bucket, prefix []byte, unread *Unread) (out []T, err error) {
	if info, err := os.Stat(l.Path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil, nil
	}
	defer l.damaged(debug.SetPanicOnFault(true), &err)
	db, err := l.open(true)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			var x T
			err := json.Unmarshal(v, &x)
			if err == nil {
				err = any(&x).(interface{ check() error }).check()
			}
			if err != nil {
				unread.N, unread.First = unread.N+1, cmp.Or(unread.First, err)
				continue
			}
			out = append(out, x)
		}
		return nil
	})
	return out, err
}

// Prune removes the runs that began before a time, with their trials, and says how
// many there were.
func (l Log) Prune(before time.Time) (n int, err error) {
	if _, err := os.Stat(l.Path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var old [][]byte
	err = l.Each(false, func(r Run, _ *Trial) error {
		if r.Start.Before(before) {
			old = append(old, []byte(r.ID))
		}
		return nil
	})
	if unread := (*Unread)(nil); err != nil && !errors.As(err, &unread) || len(old) == 0 {
		return 0, err
	}
	return len(old), l.update(func(runs, trials *bbolt.Bucket) error {
		for _, id := range old {
			if err := runs.Delete(id); err != nil {
				return err
			}
			c := trials.Cursor()
			for k, _ := c.Seek(id); bytes.HasPrefix(k, id); k, _ = c.Seek(id) {
				if err := trials.Delete(k); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
