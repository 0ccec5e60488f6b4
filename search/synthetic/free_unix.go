//go:build linux || darwin

package synthetic

import "golang.org/x/sys/unix"

// freeBytes is how many bytes a file in a folder may take, if the system says so.
func freeBytes(folder string) (n int64, known bool) {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
