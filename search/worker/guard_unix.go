//go:build linux || darwin || freebsd || netbsd || openbsd

package worker

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// guarded is memory of whole pages between two pages that cannot be touched.
type guarded struct{ all, inner, buf []byte }

// spare keeps small guarded memory for the next call: mapping it costs more than
// most kernels.
var spare = struct {
	sync.Mutex
	bySize map[int][]guarded
}{bySize: map[int][]guarded{}}

const spareMost = 1 << 16 // bytes

// guard returns n bytes that end at (or, with low, begin at) a guard page, so that
// touching the byte after (before) them ends the process.
func guard(n int, low bool) (guarded, error) {
	page := unix.Getpagesize()
	g, err := guardedPages((n + page - 1) / page * page)
	if err != nil {
		return g, err
	}
	g.buf = g.inner[:n:n]
	if !low {
		g.buf = g.inner[len(g.inner)-n:]
	}
	return g, nil
}

func guardedPages(size int) (guarded, error) {
	spare.Lock()
	if have := spare.bySize[size]; len(have) > 0 {
		spare.bySize[size] = have[:len(have)-1]
		spare.Unlock()
		return have[len(have)-1], nil
	}
	spare.Unlock()
	page := unix.Getpagesize()
	all, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return guarded{}, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	g := guarded{all: all, inner: all[page : page+size]}
	if size == 0 {
		return g, nil
	}
	if err := unix.Mprotect(g.inner, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		unix.Munmap(all)
		return guarded{}, fmt.Errorf("mprotect: %w", err)
	}
	return g, nil
}

func (g guarded) free() {
	switch size := len(g.inner); {
	case g.all == nil:
	case size > spareMost:
		unix.Munmap(g.all)
	default:
		spare.Lock()
		spare.bySize[size] = append(spare.bySize[size], g)
		spare.Unlock()
	}
}
