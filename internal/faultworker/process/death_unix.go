//go:build unix && !linux

package process

import "syscall"

// attributes give a worker a process group of its own, so that a terminal's Ctrl-C reaches its parent alone. When the
// parent dies, the worker's input ends, and so does the worker.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
