//go:build !unix

package process

import "syscall"

// These systems can't freeze a process: sending these is an error.
const (
	freeze = syscall.Signal(-1)
	thaw   = syscall.Signal(-1)
)

func attributes() *syscall.SysProcAttr { return nil }
