package gen

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRemoveOld: a mark goes if it is old and nobody else removes it at the time. A process that was killed while it did so does not stop the others.
func TestRemoveOld(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "lock.new")
	put := func(path string, age time.Duration) {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Now(), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		mark, guard time.Duration // ages, 0: there is no guard
		left        int
	}{{time.Second, 0, 1}, {time.Minute, 0, 0}, {time.Minute, time.Second, 2}, {time.Minute, time.Minute, 1}, {time.Second, time.Minute, 2}} {
		put(mark, c.mark)
		if c.guard > 0 {
			put(mark+".old", c.guard)
		}
		removeOld(mark)
		left, err := filepath.Glob(mark + "*")
		if err != nil || len(left) != c.left {
			t.Errorf("a mark of %v, a guard of %v: %q are left, %v", c.mark, c.guard, left, err)
		}
		os.Remove(mark + ".old")
	}
	put(mark, time.Minute)
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := createAlone(mark); err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			os.Remove(mark)
		})
	}
	if all.Wait(); most.Load() != 1 {
		t.Errorf("%d at once", most.Load())
	}
}
