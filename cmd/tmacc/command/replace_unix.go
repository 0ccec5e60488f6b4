//go:build unix

package command

import (
	"os"
	"syscall"
)

// replace turns this process into another program. It returns only if that fails.
func replace(program string, args []string) error {
	return syscall.Exec(program, append([]string{program}, args...), os.Environ())
}
