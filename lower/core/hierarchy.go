package core

// Hierarchy is what a core's caches and memory take to bring lines of 64 bytes. Times are in cycles.
type Hierarchy struct {
	First   int        `json:"first"`   // bytes of the first-level cache
	Fills   int        `json:"fills"`   // lines that the first-level cache waits for at once
	Holds   bool       `json:"holds"`   // prefetches into the second-level cache are among these
	Queue   int        `json:"queue"`   // lines that the second-level cache waits for at once
	Window  int        `json:"window"`  // instructions that may wait for data
	Latency [3]float64 `json:"latency"` // of a line from the second-level cache, the third-level cache, and memory
	Line    [3]float64 `json:"line"`    // from line to line of a stream, from each of these
	Several float64    `json:"several"` // from line to line of several streams from memory
	Ahead   int        `json:"ahead"`   // lines that the prefetcher of the second-level cache asks for ahead, within 4 KiB
	Reach   int        `json:"reach"`   // the most lines between two of a stream that it follows
}
