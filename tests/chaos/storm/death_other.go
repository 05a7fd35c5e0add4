//go:build unix && !linux

package storm

import "syscall"

// childAttributes give a program a process group of its own, so that a terminal's Ctrl-C reaches us alone.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
