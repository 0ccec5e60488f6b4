package worker

import (
	"runtime"
	"slices"
	"testing"
)

// TestCautions: a software device is said to be one, and a system is named whose devices no test has.
func TestCautions(t *testing.T) {
	software := "pipe is a software device: this CPU does its work, and figures say nothing about GPUs"
	untested := "no test of tmacc runs on devices of " + runtime.GOOS + ": compare results with the CPU's"
	for _, c := range []struct {
		d    Device
		want []string
	}{{Device{Name: "card"}, nil}, {Device{Name: "pipe", Software: true}, []string{software}}, {Device{Name: "pipe", Software: true, Untested: true}, []string{software, untested}}} {
		if got := c.d.Cautions(); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
