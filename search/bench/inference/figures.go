package inference

import (
	"time"

	"github.com/tmacc/tmacc/search/timing"
)

// Nanoseconds is durations as numbers.
func Nanoseconds(all []time.Duration) []float64 {
	out := make([]float64, len(all))
	for i, d := range all {
		out[i] = float64(d)
	}
	return out
}

// Median is timing.Median, and 0 without figures.
func Median(figures []float64) float64 {
	if len(figures) == 0 {
		return 0
	}
	return timing.Median(figures)
}

// Over is a/b, 0 if b is 0.
func Over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
