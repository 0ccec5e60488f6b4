// Package timing measures functions, and products of matrices that come from the
// caches or from memory.
package timing

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// Options says how long Time measures. The zero value is sensible.
type Options struct {
	Rounds    int             // samples of each function; 0: 11
	MinSample time.Duration   // least length of a sample; 0: 20 µs
	MinCalls  int             // least calls of a sample; 0: one
	Stop      <-chan struct{} // once closed, Time ends between two samples and returns nil; nil: never
}

func (o Options) stopped() bool {
	select {
	case <-o.Stop: // a nil channel never answers
		return true
	default:
		return false
	}
}

// Sample is the time of one function over all rounds.
type Sample struct {
	Min    float64   // nanoseconds per call
	Rounds []float64 // nanoseconds per call of each round, dropped or not, NaN where it took no sample
	Alone  []bool    // whether the thread kept its core in each round
}

// extra bounds the rounds that replace dropped ones: there are at most extra
// times Options.Rounds rounds.
const extra = 3

// Time measures functions in interleaved rounds, each function once per round, so
// that a change of clock or load hits all alike. A sample repeats the call until Options.MinSample has passed.
// If it has several calls, an untimed call first brings the data that other functions displaced back into the caches.
//
// A sample is dropped, and taken again, if the thread lost its core meanwhile: its
// CPU time is less than the time that passed. Functions that wait for other threads never use the whole time:
// if every sample is dropped for that reason, all count.
func Time(opt Options, fns ...func()) []Sample {
	works := make([]Work, len(fns))
	for i, f := range fns {
		works[i].Run = f
	}
	return TimeWork(opt, works...)
}

// Work is a function to time. Before and After, unless nil, are called around each
// sample and not timed: to wake threads that Run needs, and to put them to sleep
// again so that they are in nobody's way.
type Work struct{ Run, Before, After func() }

// TimeWork is Time of functions with something around their samples.
func TimeWork(opt Options, works ...Work) []Sample {
	if opt.Rounds <= 0 {
		opt.Rounds = 11
	}
	if opt.MinSample <= 0 {
		opt.MinSample = 20 * time.Microsecond
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	series := make([]series, len(works))
	for i, w := range works {
		if opt.stopped() {
			return nil
		}
		series[i] = calibrated(w, opt)
	}
	for range extra * opt.Rounds {
		done := true
		for i := range series {
			if opt.stopped() {
				return nil
			}
			s, took, kept := &series[i], math.NaN(), false
			if len(s.kept) < opt.Rounds {
				took, kept = s.sample()
				s.add(took, kept)
				done = false
			}
			s.rounds, s.alone = append(s.rounds, took), append(s.alone, kept)
		}
		if done {
			break
		}
	}
	out := make([]Sample, len(works))
	for i := range series {
		out[i] = series[i].result()
	}
	return out
}

// series collects the samples of a function, in nanoseconds per call.
type series struct {
	Work
	calls  int
	kept   []float64
	stolen []float64 // the thread lost its core
	rounds []float64
	alone  []bool
}

// calibrated doubles the number of calls until they are enough and last long enough. Twice in a
// row, because the first call may be slow for other reasons.
func calibrated(w Work, opt Options) series {
	s := series{Work: w, calls: 1}
	s.sample()
	for s.calls < 1<<30 {
		first, _ := s.sample()
		second, _ := s.sample()
		if s.calls >= opt.MinCalls && min(first, second)*float64(s.calls) >= float64(opt.MinSample) {
			break
		}
		s.calls *= 2
	}
	return s
}

// sample calls the function s.calls times and says whether the thread kept its
// core.
func (s *series) sample() (ns float64, kept bool) {
	if s.Before != nil {
		s.Before()
	}
	if s.calls > 1 {
		s.Run()
	}
	before, _ := threadTime()
	start := time.Now()
	for range s.calls {
		s.Run()
	}
	wall := time.Since(start)
	after, known := threadTime()
	cpu := after - before
	if s.After != nil {
		s.After()
	}
	return float64(wall) / float64(s.calls), !known || wall <= cpu+cpu/20
}

func (s *series) add(ns float64, kept bool) {
	if kept {
		s.kept = append(s.kept, ns)
	} else {
		s.stolen = append(s.stolen, ns)
	}
}

func (s *series) result() Sample {
	good := s.kept
	if len(good) == 0 {
		good = s.stolen
	}
	return Sample{Min: slices.Min(good), Rounds: s.rounds, Alone: s.alone}
}

// believed is the least share of the fastest clock that a slower one has: less is a core that did something else.
const believed = 0.9

// Cycles is how many clock cycles a call took in the fastest round that the thread kept its core, 0 if there is none, by the clock
// of the rounds in GHz: the fastest of the round before, its own and the next. The clock falls under load, and that of another
// round says little. Figures: docs/lab/choices.md, Cycles.
func (s Sample) Cycles(clock []float64) float64 {
	fastest := 0.0
	for _, c := range clock {
		fastest = max(fastest, c)
	}
	least, cycles := math.Inf(1), 0.0
	for i, ns := range s.Rounds[:min(len(s.Rounds), len(clock))] {
		ghz := slices.Max(clock[max(0, i-1):min(len(clock), i+2)])
		if s.Alone[i] && ghz > believed*fastest && ns < least {
			least, cycles = ns, ns*ghz
		}
	}
	return cycles
}

// Median is the middle of figures, the mean of the two middle ones if their number
// is even, NaN if there are none.
func Median(figures []float64) float64 {
	if len(figures) == 0 {
		return math.NaN()
	}
	f := slices.Sorted(slices.Values(figures))
	n := len(f)
	return (f[(n-1)/2] + f[n/2]) / 2
}
