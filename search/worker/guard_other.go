//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package worker

// guarded is plain memory: this system has no guard pages that this package knows.
type guarded struct{ buf []byte }

func guard(n int, _ bool) (guarded, error) { return guarded{make([]byte, n)}, nil }

func (guarded) free() {}
