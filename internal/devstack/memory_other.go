//go:build !linux

package devstack

// memoryBase: these systems have no folder in memory that is always there.
func memoryBase(*account) (dir string, ok bool) { return "", false }
