package statement

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"payonce/ledger"
)

// LitterAgeMax is how long what a killed writer left beside its file is kept. Who writes has written something within it.
const LitterAgeMax = time.Hour

// File is a statement that was written.
type File struct {
	Path   string
	Bytes  int64
	SHA256 string // in hexadecimal digits
}

// Write puts a statement at a path, in place of what was there. Until the last moment it writes to a file of its own in the
// same folder; then that takes the place of the other, and both are on the disk, file and folder, when Write returns. So a
// repeat is safe, also at the same time (level 1), and an error leaves what was there. The folder is made if it is missing.
//
// The errors of entries are returned as they are; ErrMismatch; a *ledger.InvalidError for a path that is no place for a
// file, or for what the format can't say; others are the file system's.
func Write(path string, s *Statement, entries iter.Seq2[*ledger.Entry, error]) (File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return File{}, err
	}
	if err := checkTarget(path); err != nil {
		return File{}, err
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return File{}, err
	}
	removeLitter(path)
	pending, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o640))
	if err != nil {
		return File{}, err
	}
	file, err := fill(pending, s, entries)
	if err == nil {
		err = pending.CloseAtomicallyReplace()
	}
	if err != nil {
		// What can't be removed now is litter, which a later writer removes.
		_ = pending.Cleanup()
		return File{}, err
	}
	file.Path = path
	return file, syncFolder(filepath.Dir(path))
}

// fill writes the statement, and counts what it writes.
func fill(w io.Writer, s *Statement, entries iter.Seq2[*ledger.Entry, error]) (File, error) {
	digest := sha256.New()
	counter := &counter{}
	buffered := bufio.NewWriterSize(io.MultiWriter(w, digest, counter), 1<<16)
	if err := render(buffered, s, entries); err != nil {
		return File{}, err
	}
	err := buffered.Flush()
	return File{Bytes: counter.bytes, SHA256: hex.EncodeToString(digest.Sum(nil))}, err
}

type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// checkTarget refuses to replace what is no file: a folder, a device, or a link, which would be replaced instead of what it
// leads to.
func checkTarget(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	return &ledger.InvalidError{Field: "out", Reason: fmt.Sprintf("%s is there and no file: %s", path, info.Mode().Type())}
}

// makeFolder makes a folder and those above it, so that they are there after a crash too.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o750)
	switch {
	case err == nil:
		return syncFolder(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = &ledger.InvalidError{Field: "out", Reason: dir + " is no folder"}
		}
		return err
	case errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir:
		if err := makeFolder(filepath.Dir(dir)); err != nil {
			return err
		}
		return makeFolder(dir)
	default:
		return err
	}
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// removeLitter removes what killed writers of the same file have left. It leaves what may be another writer's who is at it,
// and what can't be removed: that is no reason not to write.
func removeLitter(path string) {
	folder := filepath.Dir(path)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !isLitter(entry.Name(), filepath.Base(path)) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > LitterAgeMax {
			_ = os.Remove(filepath.Join(folder, entry.Name()))
		}
	}
}

// isLitter says whether a name is what renameio calls a file that is to become another: that one's, between a dot and
// a number.
func isLitter(name, of string) bool {
	number, ok := strings.CutPrefix(name, "."+of)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
