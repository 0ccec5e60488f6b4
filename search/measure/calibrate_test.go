package measure

import (
	"context"
	"errors"
	"testing"

	"github.com/tmacc/tmacc/lower/core"
)

// An interrupted calibration ends before it measures what comes next.
func TestCalibrateInterrupted(t *testing.T) {
	l, err := NewLab()
	if err != nil {
		t.Skip("no probes run here: ", err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	steps := 0
	_, err = l.Calibrate(ctx, core.Hierarchy{}, func(_ string, now, all int) {
		if steps++; now != steps || now > all {
			t.Errorf("step %d is %d of %d", steps, now, all)
		}
		stop()
	})
	if !errors.Is(err, context.Canceled) || steps != 1 {
		t.Errorf("%v after %d steps", err, steps)
	}
}

// Loads that wait for one another visit every line, and take longer than loads that wait for none.
func TestChased(t *testing.T) {
	alone, together, err := chased(t.Context(), 1<<20)
	if err != nil || !(alone > 0 && together > 0 && together < alone) {
		t.Errorf("%v ns alone, %v together, %v", alone, together, err)
	}
}

// Lines are scattered so that each has its turn once, and none comes after one of its own page if pages are whole.
func TestScattered(t *testing.T) {
	for _, lines := range []int{1, 63, 64, 65, 1000, 4096} {
		seen := map[uint32]bool{}
		last := -1
		for _, at := range scattered(lines, 16) {
			if seen[at] || at%16 != 0 || int(at) >= lines*16 {
				t.Fatalf("%d lines: %d", lines, at)
			}
			seen[at] = true
			if page := int(at) / 1024; page == last && lines%64 == 0 && lines > 64 {
				t.Errorf("%d lines: two of page %d in a row", lines, page)
			}
			last = int(at) / 1024
		}
		if len(seen) != lines {
			t.Errorf("%d of %d lines", len(seen), lines)
		}
	}
}
