//go:build unix

package cache

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// checksModes says that modes of files tell who can write them.
const checksModes = true

// foreign says whose a file is, "" if it is the user's.
func foreign(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "its owner is not known"
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Sprintf("belongs to user %d, and you are user %d", stat.Uid, os.Geteuid())
	}
	return ""
}
