package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tmacc/tmacc/search/measure"
)

// Measurement identifies what records measure. Records of one measurement are its rounds.
type Measurement struct {
	Format, Target, Mode string
	N                    int
	Tuned, Extreme       bool
}

// MeasurementOf returns what r measures.
func MeasurementOf(r measure.Record) Measurement {
	return Measurement{r.Format, r.Target, r.Mode, r.N, r.Tuned, r.Extreme}
}

// Medians returns the median round of each measurement, by its time, in the order of the first rounds.
func Medians(records []measure.Record) []measure.Record {
	return MedianOf(records, MeasurementOf, func(r measure.Record) float64 { return r.Ns })
}

// MedianOf returns, for each key, the record whose figure is the median, in the order of each key's first record.
func MedianOf[R any, K comparable](records []R, key func(R) K, figure func(R) float64) (out []R) {
	var order []K
	rounds := map[K][]R{}
	for _, r := range records {
		k := key(r)
		if rounds[k] == nil {
			order = append(order, k)
		}
		rounds[k] = append(rounds[k], r)
	}
	for _, k := range order {
		list := rounds[k]
		slices.SortFunc(list, func(a, b R) int { return cmp.Compare(figure(a), figure(b)) })
		out = append(out, list[len(list)/2])
	}
	return out
}

// ParseRecords reads records, one JSON object after the other, as tmacc bench -json prints them. A first object without a format,
// as -check prints, says for all records where and when they were measured.
func ParseRecords(data []byte) (out []measure.Record, err error) {
	var head measure.Record
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var r measure.Record
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("record %d: %w", len(out)+1, err)
		}
		switch {
		case r.Format == "" && r.Host != "":
			head = r
		case r.Host == "":
			r.Host, r.Date, r.Commit = head.Host, head.Date, head.Commit
		}
		out = append(out, r)
	}
}

// Today is the date in UTC, as records have it: "2026-11-21".
func Today() string { return time.Now().UTC().Format(time.DateOnly) }

// Commit is the commit that this program was built from, shortened, with a + if files had changed. It is "" if Go did not
// record the commit.
func Commit() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	id, changed := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			id = s.Value[:min(len(s.Value), 10)]
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	return id + changed
}
