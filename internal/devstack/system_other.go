//go:build !unix

package devstack

import (
	"io/fs"
	"os"
	"syscall"
)

// The programs build everywhere; servers of our own need process groups, death
// signals and file locks that other systems do not have.
const supported = false

type account struct{ name string }

func serverAccount() (*account, error) { return nil, nil }

func (a *account) give(string) error      { return nil }
func (a *account) id() int                { return -1 }
func (a *account) mustReach(string) error { return nil }

func childAttributes(*account) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func tryLock(*os.File) (bool, error) { return true, nil }

func ownerOf(fs.FileInfo) int { return -1 }
