//go:build linux || darwin || freebsd || netbsd || openbsd

package child

import "syscall"

// Apart makes a process that Ctrl-C at the terminal does not reach.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
