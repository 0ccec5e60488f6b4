package timing

import "golang.org/x/sys/unix"

func allocate(n int, huge bool) (Memory, error) {
	whole := (n + pageBytes - 1) / pageBytes * pageBytes // the last huge page too, wherever the mapping begins
	all, err := unix.Mmap(-1, 0, whole+pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return Memory{}, err
	}
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	// A kernel without transparent huge pages refuses the advice: then all pages
	// are small, as they were going to be.
	unix.Madvise(all, advice)
	at := int(-Address(all) % pageBytes)
	return Memory{Bytes: all[at : at+n : at+n], all: all}, nil
}

// Close returns the memory; nothing may use it afterwards.
func (m *Memory) Close() error {
	all := m.all
	*m = Memory{}
	if all == nil {
		return nil
	}
	return unix.Munmap(all)
}
