package main

import "syscall"

// childAttributes has the kernel end the child when we die, however we die.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
