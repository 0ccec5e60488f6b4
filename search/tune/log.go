package tune

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tmacc/tmacc/schedule"
)

// Log is the database of all measurements of all searches, a file. It is open only
// while something is written or read, so that several searches share it; what was
// written before a process ends, however it ends, is there.
type Log struct{ Path string }

// DefaultLog is that of the user.
func DefaultLog() (Log, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Log{}, fmt.Errorf("tuning log: %w", err)
	}
	return Log{filepath.Join(dir, "tmacc", "tuning.db")}, nil
}

// Run describes a search.
type Run struct {
	ID       string         `json:"run"` // of 16 hexadecimal digits, by time
	Start    time.Time      `json:"start"`
	Product  string         `json:"product"` // ir.Problem.Name
	ActGroup int            `json:"act_group"`
	Target   string         `json:"target"`
	Mode     string         `json:"mode"`
	M        int            `json:"m"`
	N        int            `json:"n"`
	K        int            `json:"k"`
	Seed     int64          `json:"seed"`
	CPU      string         `json:"cpu"`
	Compiler string         `json:"compiler"`
	Trials   int            `json:"trials"`
	Best     float64        `json:"best"`              // least ratio so far, 0: none
	Ended    string         `json:"ended,omitempty"`   // "": it goes on, or was killed
	Dropped  map[string]int `json:"dropped,omitempty"` // once it has ended
}

// Trial is a schedule that was measured, or failed to be.
type Trial struct {
	Trace schedule.Trace `json:"trace"`
	Hash  string         `json:"hash"`
	Ratio float64        `json:"ratio,omitempty"` // of its time to the default's in the same rounds
	Ns    float64        `json:"ns,omitempty"`    // the least
	Error string         `json:"error,omitempty"` // why there is no ratio
}

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
	db, err := bbolt.Open(l.Path, 0o666, &bbolt.Options{Timeout: lockWait, ReadOnly: readOnly})
	if err != nil {
		return nil, fmt.Errorf("tuning log %s: %w", l.Path, err)
	}
	return db, nil
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

// Add writes trials of a run, and the run itself as it is now.
func (l Log) Add(r *Run, ts ...Trial) error {
	return l.update(func(runs, trials *bbolt.Bucket) error {
		for _, t := range ts {
			r.Trials++
			if t.Error == "" && (r.Best == 0 || t.Ratio < r.Best) {
				r.Best = t.Ratio
			}
			data, err := json.Marshal(t)
			if err != nil {
				return err
			}
			if err := trials.Put(binary.BigEndian.AppendUint32([]byte(r.ID), uint32(r.Trials)), data); err != nil {
				return err
			}
		}
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return runs.Put([]byte(r.ID), data)
	})
}

// Each calls f with every run, the oldest first, and if trials is set, with the run
// before each of its trials. A log that is not there is empty, and so is a file without bytes.
func (l Log) Each(trials bool, f func(Run, *Trial) error) (err error) {
	if info, err := os.Stat(l.Path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	defer l.damaged(debug.SetPanicOnFault(true), &err)
	db, err := l.open(true)
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		runs, all := tx.Bucket(runsBucket), tx.Bucket(trialsBucket)
		if runs == nil || all == nil {
			return nil
		}
		return runs.ForEach(func(id, data []byte) error {
			var r Run
			if err := json.Unmarshal(data, &r); err != nil {
				return fmt.Errorf("tuning log %s: run %s: %w", l.Path, id, err)
			}
			if !trials {
				return f(r, nil)
			}
			c := all.Cursor()
			for k, v := c.Seek(id); bytes.HasPrefix(k, id); k, v = c.Next() {
				var t Trial
				if err := json.Unmarshal(v, &t); err != nil {
					return fmt.Errorf("tuning log %s: a trial of run %s: %w", l.Path, id, err)
				}
				if err := f(r, &t); err != nil {
					return err
				}
			}
			return nil
		})
	})
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
	if err != nil || len(old) == 0 {
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
