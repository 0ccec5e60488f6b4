package delivery

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// An interrupt begins no other call, and waits for the calls that run.
func TestOnAllCores(t *testing.T) {
	const n = 1000
	var began, ended atomic.Int64
	if err := onAllCores(t.Context(), n, func(int) { ended.Add(1) }); err != nil || ended.Load() != n {
		t.Errorf("%d calls of %d, %v", ended.Load(), n, err)
	}
	ended.Store(0)
	ctx, stop := context.WithCancel(t.Context())
	err := onAllCores(ctx, n, func(int) {
		began.Add(1)
		stop()
		time.Sleep(10 * time.Millisecond)
		ended.Add(1)
	})
	most := int64(runtime.GOMAXPROCS(0))
	if b, e := began.Load(), ended.Load(); !errors.Is(err, context.Canceled) || b == 0 || b > most || e != b {
		t.Errorf("interrupted: %v, %d calls began, at most %d may, and %d ended", err, b, most, e)
	}
}
