package garbage

import (
	"os"
	"runtime/debug"
	"testing"
)

// percent is what the process collects by.
func percent() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// What the program had comes back with the last end, however they overlap, and what it sets meanwhile stays.
func TestSpare(t *testing.T) {
	t.Setenv("GOGC", "")
	os.Unsetenv("GOGC")
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	want := func(when string, n int) {
		t.Helper()
		if got := percent(); got != n {
			t.Errorf("%s: %d, want %d", when, got, n)
		}
	}
	first, second := Spare(), Spare()
	want("two", Percent)
	first()
	first()
	want("one", Percent)
	second()
	want("none", 77)

	end := Spare()
	debug.SetGCPercent(50)
	end()
	want("set meanwhile", 50)

	for _, n := range []int{-1, 2 * Percent} {
		debug.SetGCPercent(n)
		end := Spare()
		want("less often than by Spare", n)
		end()
		want("afterwards", n)
	}

	debug.SetGCPercent(77)
	t.Setenv("GOGC", "77")
	end = Spare()
	want("with GOGC", 77)
	end()
}
