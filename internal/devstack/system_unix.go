//go:build unix

package devstack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

const supported = true

// account is the user that a server runs under when it can't be our own. The
// nil account is our own.
type account struct {
	name   string
	uid    uint32
	gid    uint32
	groups []uint32
}

// serverAccount returns the account to run PostgreSQL under, which refuses to
// run as root: nil unless we are root.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		acc := &account{name: name}
		if acc.uid, err = parseID(u.Uid); err != nil || acc.uid == 0 {
			continue
		}
		if acc.gid, err = parseID(u.Gid); err != nil {
			continue
		}
		acc.groups = []uint32{acc.gid}
		ids, _ := u.GroupIds()
		for _, id := range ids {
			if gid, err := parseID(id); err == nil && !slices.Contains(acc.groups, gid) {
				acc.groups = append(acc.groups, gid)
			}
		}
		return acc, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody to run it under")
}

func parseID(s string) (uint32, error) {
	id, err := strconv.ParseUint(s, 10, 32)
	return uint32(id), err
}

// give makes the account the owner of a file or folder.
func (a *account) give(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// id returns the user ID that the account stands for.
func (a *account) id() int {
	if a == nil {
		return os.Geteuid()
	}
	return int(a.uid)
}

// mustReach returns an error that names the first folder on the way to path,
// path included, that the account may not enter.
func (a *account) mustReach(path string) error {
	if a == nil {
		return nil
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	var folders []string
	for dir := path; ; dir = filepath.Dir(dir) {
		folders = append(folders, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	slices.Reverse(folders)
	for _, dir := range folders {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if !a.mayEnter(info) {
			return fmt.Errorf("user %s, who runs PostgreSQL because root may not, can't enter %s: "+
				"choose a folder under /var/tmp, or let that user through (chmod o+x)", a.name, dir)
		}
	}
	return nil
}

func (a *account) mayEnter(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch mode := info.Mode().Perm(); {
	case stat.Uid == a.uid:
		return mode&0o100 != 0
	case slices.Contains(a.groups, stat.Gid):
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// childAttributes puts a child into a process group of its own, so that a
// terminal's Ctrl-C reaches us alone and we end our servers in order.
func childAttributes(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
	return attr
}

// tryLock takes an exclusive lock on an open file without waiting. The lock
// belongs to the open file: a child that inherits it holds it too.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
