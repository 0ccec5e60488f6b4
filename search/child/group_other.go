//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package child

import "syscall"

// Apart is not known on this system.
func Apart() *syscall.SysProcAttr { return nil }
