// Package drawn draws which cases of a test run, and reads the environment variables that tests have.
package drawn

import (
	"math/rand"
	"slices"
	"testing"
	"time"
)

// Draw draws which cases of a test run.
type Draw struct {
	rng  *rand.Rand
	long bool
}

// New draws by TMACC_SEED, which replays a run, or by the time. With TMACC_LONG=1 every case runs.
func New(t testing.TB) *Draw {
	t.Helper()
	seed := Env(t, "TMACC_SEED", int(time.Now().UnixNano()%1e9))
	d := &Draw{rand.New(rand.NewSource(int64(seed))), Env(t, "TMACC_LONG", 0) != 0}
	if !d.long {
		t.Logf("TMACC_SEED=%d draws what runs; TMACC_LONG=1 runs all", seed)
	}
	return d
}

// Long says that every case runs.
func (d *Draw) Long() bool { return d.long }

// Some is one case in n of all, in their order, and at least one.
func Some[T any](d *Draw, n int, all []T) []T {
	if d.long {
		return all
	}
	chosen := d.rng.Perm(len(all))[:(len(all)+n-1)/n]
	slices.Sort(chosen)
	out := make([]T, len(chosen))
	for i, at := range chosen {
		out[i] = all[at]
	}
	return out
}
