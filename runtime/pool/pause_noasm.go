//go:build !(amd64 || arm64) || purego

package pool

// pause would tell the CPU that this thread waits.
func pause() {}
