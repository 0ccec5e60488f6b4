package core

import (
	"cmp"
	"fmt"
)

// Hierarchy is what a core's caches and memory take to bring lines of 64 bytes. Times are in cycles.
type Hierarchy struct {
	First   int        `json:"first"`            // bytes of the first-level cache
	Fills   int        `json:"fills"`            // lines that the first-level cache waits for at once
	Holds   bool       `json:"holds"`            // prefetches into the second-level cache are among these
	Trains  bool       `json:"trains,omitempty"` // the prefetcher follows prefetches into the second-level cache as it follows loads
	Misses  bool       `json:"misses,omitempty"` // it follows no prefetches into the first-level cache, and only loads of lines that have not come to the second-level cache
	Latency [3]float64 `json:"latency"`          // of a line from the second-level cache, the third-level cache, and memory
	Line    [3]float64 `json:"line"`             // from line to line of a stream, from each of these
	Several float64    `json:"several"`          // from line to line of several streams from memory
	// From line to line from memory while all cores of the machine read: 64 bytes times cores times clock over the bandwidth of all channels. 0: see Share.
	Shared float64 `json:"shared,omitempty"`
	// What the prefetcher of the second-level cache does with ascending lines; 0: as Intel's manual says, see Region and Lead.
	Follows int `json:"follows,omitempty"` // bytes, a power of two, at whose end it stops
	Ahead   int `json:"ahead,omitempty"`   // the most lines that it is ahead
}

// usualShare is Shared as a multiple of Several where it is not known. The built-in cores have 2 to 9, the most in machines of many cores.
const usualShare = 4

// Share is how long a core waits from line to line from memory while all cores of the machine read: Shared, or an estimate by Several.
func (h Hierarchy) Share() float64 {
	if h.Shared != 0 {
		return h.Shared
	}
	return usualShare * h.Several
}

// What the streamer of Intel's cores does: "up to 20 lines ahead", within a page of 4 KiB (Intel, 64 and IA-32 Architectures Optimization Reference Manual).
const (
	usualRegion = 4 << 10 // bytes
	usualLead   = 20      // lines
)

// Region is the bytes that the prefetcher stays in: Follows, or a page.
func (h Hierarchy) Region() int { return cmp.Or(h.Follows, usualRegion) }

// Lead is the most lines that the prefetcher is ahead: Ahead, or 20 lines.
func (h Hierarchy) Lead() int { return cmp.Or(h.Ahead, usualLead) }

// Levels are the names of the places that Latency and Line are of.
var Levels = [3]string{"l2", "l3", "dram"}

// Bounds of a hierarchy.
const (
	leastFirst, mostFirst   = 8 << 10, 1 << 20  // bytes
	leastRegion, mostRegion = 1 << 10, 64 << 10 // bytes
	mostLines               = 1 << 10
	mostCycles              = 1 << 14
)

// check returns an error that names the first field of h that has no sensible value.
func (h Hierarchy) check() error {
	err := cmp.Or(
		within("hierarchy.first", h.First, leastFirst, mostFirst), within("hierarchy.fills", h.Fills, 1, mostLines),
		between("hierarchy.several", h.Several, 0.1, mostCycles))
	if h.Shared != 0 {
		err = cmp.Or(err, between("hierarchy.shared", h.Shared, 0.1, mostCycles))
		if err == nil && h.Shared < h.Several {
			err = fmt.Errorf("hierarchy.shared is %v: want at least the %v of hierarchy.several: beside others, a core reads no faster", h.Shared, h.Several)
		}
	}
	if h.Follows != 0 {
		err = cmp.Or(err, within("hierarchy.follows", h.Follows, leastRegion, mostRegion))
		if err == nil && h.Follows&(h.Follows-1) != 0 {
			err = fmt.Errorf("hierarchy.follows is %d: want a power of two", h.Follows)
		}
	}
	if h.Ahead != 0 {
		err = cmp.Or(err, within("hierarchy.ahead", h.Ahead, 1, mostLines))
	}
	for i, level := range Levels {
		err = cmp.Or(err, between(fmt.Sprintf("hierarchy.latency[%d], of %s,", i, level), h.Latency[i], 1, mostCycles),
			between(fmt.Sprintf("hierarchy.line[%d], of %s,", i, level), h.Line[i], 0.1, mostCycles))
		if err == nil && i > 0 && h.Latency[i] < h.Latency[i-1] {
			err = fmt.Errorf("hierarchy.latency[%d], of %s, is %v: want at least the %v of %s, which is nearer", i, level, h.Latency[i], h.Latency[i-1], Levels[i-1])
		}
	}
	return err
}
