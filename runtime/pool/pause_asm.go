//go:build (amd64 || arm64) && !purego

package pool

// pause tells the CPU that this thread waits, so that another on its core gets on.
func pause()
