//go:build unix

package process

import "syscall"

const (
	freeze = syscall.SIGSTOP
	thaw   = syscall.SIGCONT
)
