package peer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/search/bench"
	"github.com/tmacc/tmacc/search/measure"
)

// Medians returns the median round of each measurement, by its ratio, in the order of the first rounds.
func Medians(records []measure.PeerRecord) []measure.PeerRecord {
	type key struct {
		name, target, mode string
		n, threads         int
	}
	return bench.MedianOf(records, func(r measure.PeerRecord) key { return key{r.Name(), r.Target, r.Mode, r.N, r.Threads} },
		func(r measure.PeerRecord) float64 { return r.Ratio })
}

// ParseRecords reads records, one JSON object after the other, as tmacc bench -peer -json prints them. It computes again what
// follows from their times.
func ParseRecords(data []byte) ([]measure.PeerRecord, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var all []measure.PeerRecord
	for d.More() {
		var r measure.PeerRecord
		if err := d.Decode(&r); err != nil {
			return nil, fmt.Errorf("record %d: %w", len(all)+1, err)
		}
		if len(r.Theirs) == 0 || r.Ours.Ns <= 0 || r.Threads < 1 {
			return nil, fmt.Errorf("record %d: not a record of bench -peer -json", len(all)+1)
		}
		all = append(all, r.Complete())
	}
	if len(all) == 0 {
		return nil, errors.New("no records")
	}
	return all, nil
}
