package devstack

import (
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

const (
	// memoryDir is a folder whose files are in memory, on any Linux with glibc.
	memoryDir = "/dev/shm"
	// memoryFreeMin is what must be free in that folder, and twice as much of the
	// memory itself, for a cluster to go there. One of our tests takes less than
	// half of it.
	memoryFreeMin = 4 << 30
)

// memoryBase returns the folder for temporary folders in memory. ok says that
// there is one, with room for a cluster, which the account can reach.
func memoryBase(acc *account) (dir string, ok bool) {
	var folder unix.Statfs_t
	if err := unix.Statfs(memoryDir, &folder); err != nil || folder.Type != unix.TMPFS_MAGIC {
		return "", false
	}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return "", false
	}
	memory, err := proc.Meminfo()
	if err != nil || memory.MemAvailableBytes == nil {
		return "", false
	}
	// The size of a block is signed in this call, and never below zero.
	room := folder.Bavail*uint64(max(folder.Bsize, 0)) >= memoryFreeMin && *memory.MemAvailableBytes >= 2*memoryFreeMin
	return memoryDir, room && acc.mustReach(memoryDir) == nil
}
