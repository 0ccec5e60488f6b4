//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package worker

import "syscall"

// apart is not known on this system.
func apart() *syscall.SysProcAttr { return nil }
