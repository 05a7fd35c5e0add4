package devstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	workdirPrefix = "payonce-devstack-"

	// ownerLock is held by the process that runs the servers of a folder.
	ownerLock = "owner.lock"

	// serverLock is inherited by a server and by all its children, so that it is
	// free again only when the last of them is gone. That can be later than the
	// owner's end: a server that shuts down outlives its parent for a moment.
	serverLock = "server.lock"

	pollInterval = 20 * time.Millisecond
)

// workdir is the folder of one server.
type workdir struct {
	path      string
	temporary bool
	owner     *os.File
}

// openWorkdir takes the folder for this process. An empty path makes a
// temporary one, which close removes. acc is the account that the server in it
// runs under, nil for our own.
func openWorkdir(path string, acc *account, log io.Writer) (*workdir, error) {
	if path == "" {
		base, err := temporaryBase(acc)
		if err != nil {
			return nil, err
		}
		return makeTemporary(base, acc, log)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := makeDir(path, acc); err != nil {
		return nil, err
	}
	if err := acc.mustReach(path); err != nil {
		return nil, err
	}
	owner, err := os.OpenFile(filepath.Join(path, ownerLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(owner)
	if err != nil {
		owner.Close()
		return nil, err
	}
	if !ok {
		pid, _ := io.ReadAll(io.LimitReader(owner, 20))
		owner.Close()
		return nil, fmt.Errorf("%w: a stack runs in %s already (process %s)", ErrInUse, path, strings.TrimSpace(string(pid)))
	}
	if err := writePID(owner); err != nil {
		owner.Close()
		return nil, err
	}
	return &workdir{path: path, owner: owner}, nil
}

// makeTemporary makes a temporary folder in base.
func makeTemporary(base string, acc *account, log io.Writer) (*workdir, error) {
	removeStale(base, log)
	path, err := os.MkdirTemp(base, workdirPrefix)
	if err != nil {
		return nil, err
	}
	w := &workdir{path: path, temporary: true}
	if err := w.take(acc); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// take makes the folder ours. The lock is taken before the file has its name:
// whoever finds it by that name must not find it free.
func (w *workdir) take(acc *account) error {
	if err := os.Chmod(w.path, dirMode(acc)); err != nil {
		return err
	}
	name := filepath.Join(w.path, ownerLock)
	owner, err := os.OpenFile(name+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	w.owner = owner
	if ok, err := tryLock(owner); err != nil || !ok {
		return fmt.Errorf("lock %s: %w", name, errors.Join(err, ErrInUse))
	}
	if err := writePID(owner); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func writePID(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(fmt.Sprintln(os.Getpid())), 0)
	return err
}

// makeDir makes a folder that the account can get through, whatever the umask.
// One that is there stays as it is.
func makeDir(path string, acc *account) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(path, dirMode(acc)); err != nil {
		return err
	}
	return os.Chmod(path, dirMode(acc))
}

// dirMode lets another account through a folder without showing it what is in there.
func dirMode(acc *account) fs.FileMode {
	if acc == nil {
		return 0o700
	}
	return 0o711
}

// temporaryBase returns the folder for temporary folders: the usual one, unless
// the server's account can't get there, as happens with a TMPDIR in root's home.
func temporaryBase(acc *account) (string, error) {
	usual := os.TempDir()
	err := acc.mustReach(usual)
	if err == nil {
		return usual, nil
	}
	for _, base := range []string{"/tmp", "/var/tmp"} {
		if acc.mustReach(base) == nil {
			return base, nil
		}
	}
	return "", err
}

// close gives the folder back, and removes it if it is temporary. Safe to call
// twice.
func (w *workdir) close() error {
	if w == nil {
		return nil
	}
	var err error
	if w.temporary {
		err = os.RemoveAll(w.path)
	}
	if w.owner != nil {
		w.owner.Close()
		w.owner = nil
	}
	return err
}

// lockServer waits until no server of an earlier start is alive in the folder,
// and returns the lock for the next one to inherit. The caller closes its copy
// once the server is started.
func (w *workdir) lockServer(ctx context.Context, log io.Writer) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(w.path, serverLock), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	said := false
	err = poll(ctx, func() (bool, error) {
		ok, err := tryLock(f)
		if !ok && err == nil && !said {
			said = true
			logf(log, "waiting for the earlier server in %s to end", w.path)
		}
		return ok, err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for the earlier server in %s to end: %w", w.path, err)
	}
	return f, nil
}

// removeStale removes the temporary folders of processes that are gone. It is
// housekeeping: what it can't remove stays for the next start.
func removeStale(base string, log io.Writer) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), workdirPrefix) {
			continue
		}
		path := filepath.Join(base, entry.Name())
		info, err := entry.Info()
		if err != nil || ownerOf(info) != os.Geteuid() {
			continue
		}
		if removeIfStale(path, info.ModTime()) {
			logf(log, "removed %s, left by a process that is gone", path)
		}
	}
}

func removeIfStale(path string, modified time.Time) bool {
	owner, err := os.OpenFile(filepath.Join(path, ownerLock), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Either its owner is just making it, or was killed while doing so.
		return time.Since(modified) > time.Hour && os.RemoveAll(path) == nil
	}
	if err != nil {
		return false
	}
	defer owner.Close()
	if ok, err := tryLock(owner); err != nil || !ok {
		return false
	}
	server, err := os.OpenFile(filepath.Join(path, serverLock), os.O_RDWR, 0)
	if err == nil {
		defer server.Close()
		if ok, err := tryLock(server); err != nil || !ok {
			return false
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return os.RemoveAll(path) == nil
}

// poll asks until the answer is yes, an error, or the context ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func logf(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format+"\n", args...)
	}
}
