package measure

import (
	"sync/atomic"
	"testing"
)

// All probes of Together run, equally often.
func TestTogether(t *testing.T) {
	var a, b atomic.Int64
	p := Together(Probe{Name: "x", Unit: "GB/s", Amount: 3, Run: func() { a.Add(1) }}, Probe{Name: "x", Unit: "GB/s", Amount: 5, Run: func() { b.Add(1) }})
	p.Run()
	if p.Amount != float64(3*a.Load()+5*b.Load()) || a.Load() != b.Load() {
		t.Errorf("%s: %v in runs of %d and %d", p.Name, p.Amount, a.Load(), b.Load())
	}
}
