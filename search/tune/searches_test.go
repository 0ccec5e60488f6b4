package tune

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tmacc/tmacc/schedule"
)

// The searches of a log come one after the other with all of their trials; one that measured nothing is left out.
func TestSearches(t *testing.T) {
	l := Log{Path: filepath.Join(t.TempDir(), "tuning.db")}
	for i, costs := range [][]float64{{2, 0, 0.5}, {0}, {3}} {
		r := &Run{Start: time.Unix(int64(i), 0), Product: fmt.Sprint("w", i+1), Target: "amd64/avx2"}
		if err := l.Begin(r); err != nil {
			t.Fatal(err)
		}
		for _, c := range costs {
			x := Trial{Genes: []Gene{{Trace: schedule.Trace{schedule.Decompose{Family: "dot", Value: "affine"}}}}, Cost: c}
			if c == 0 {
				x.Error, x.Genes = "crashed", nil
			}
			if err := l.Add(r, x); err != nil {
				t.Fatal(err)
			}
		}
	}
	var have []string
	if err := l.Searches(func(r Run, tried []Tried) error { have = append(have, fmt.Sprint(r.Product, tried)); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"w1[{dot affine 2} {unknown 0} {dot affine 0.5}]", "w3[{dot affine 3}]"}; !slices.Equal(have, want) {
		t.Errorf("%q, want %q", have, want)
	}
	stop := errors.New("stop")
	if err := l.Searches(func(Run, []Tried) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}
