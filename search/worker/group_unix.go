//go:build linux || darwin || freebsd || netbsd || openbsd

package worker

import "syscall"

// apart makes a process that Ctrl-C at the terminal does not reach.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
