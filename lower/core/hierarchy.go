package core

// Hierarchy is what reading from a core's caches and memory takes.
type Hierarchy struct {
	First   int        // bytes of the first-level cache
	Hit     float64    // cycles of a load from it
	Fills   int        // lines that it waits for at once
	Queue   int        // lines that the second-level cache waits for at once
	Latency [3]float64 // cycles that a line takes from the second-level cache, the third, and memory
	Line    [3]float64 // cycles from line to line of one stream, from each
	Several float64    // the same of several streams from memory
	Ahead   int        // lines that the second-level cache's prefetcher asks for ahead within a page
	Reach   int        // lines from one to the next of a stream that it follows
	Streams int        // pages that it follows
	Strides int        // iterations that the first-level cache's prefetcher asks ahead for
	Trains  bool       // it learns from prefetches, not only from loads
	Crosses bool       // it goes on in the next page
	Holds   bool       // a prefetch into the second-level cache is one of the lines that the first-level cache waits for
	Width   float64
	Window  float64
}
